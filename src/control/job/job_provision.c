#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"
#include "control/job/launcher.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What must be there before the gang: claims, the headless service, the sync pod, the upload. */

#define DEFAULT_CLASS "storageclass.kubernetes.io/is-default-class"

static bool has_default_class(const struct cache *cache)
{
    const struct object *class;
    size_t cursor = 0;

    while ((class = cache_next(cache, &kind_storageclass, STR(""), &cursor)))
        if (str_is(object_annotation(class, DEFAULT_CLASS), "true"))
            return true;
    return false;
}

static void hold(struct job_run *run, const char *reason, struct str message)
{
    run->state.problem = (struct job_problem){"StorageProblem", reason, message};
    job_say(run, JOB_PROVISIONING, message);
}

/* Whether a claim that names `class` (`named`: says anything at all) can be bound some day. */
static bool check_class(struct job_run *run,
                        const struct job_claim *claim,
                        struct str class,
                        bool named)
{
    const struct cache *cache = run->input->cache;

    if (class.len && !cache_get(cache, &kind_storageclass, STR(""), class)) {
        hold(run, "StorageClassNotFound",
             str_printf(run->arena,
                        "StorageClass " STR_FMT " of claim " STR_FMT
                        " (%s) does not exist; see: kubectl get storageclass",
                        STR_ARG(class), STR_ARG(claim->name), claim->what));
        return false;
    }
    if (!named && !has_default_class(cache)) {
        hold(run, "StorageClassNotFound",
             str_printf(run->arena,
                        "claim " STR_FMT " (%s) names no StorageClass and the cluster has no "
                        "default one; set storage.%s.storageClass in the queue",
                        STR_ARG(claim->name), claim->what, claim->what));
        return false;
    }
    return true;
}

/* False when the claim can never be bound as it is. A claim that merely is not bound yet does not
 * hold anything up: some are bound only when a pod that uses them is placed. */
static bool check_claim(struct job_run *run,
                        const struct job_claim *claim,
                        const struct object *object)
{
    const struct json *root = object_json(object, run->arena);
    struct str phase = json_str_at(root, "status.phase");
    struct str class = json_str_at(root, "spec.storageClassName");

    if (str_is(phase, "Bound"))
        return true;
    if (str_is(phase, "Lost")) {
        hold(run, "ClaimLost",
             str_printf(run->arena,
                        "PersistentVolumeClaim " STR_FMT " (%s) has lost its volume; delete the "
                        "claim to get a new, empty one",
                        STR_ARG(claim->name), claim->what));
        return false;
    }
    return check_class(run, claim, class, class.p != NULL);
}

/* What jobs share is as large as the largest of them asks for, and nobody's alone: earlier versions
 * gave it the labels of whoever came first. */
static void share_claim(struct job_run *run,
                        const struct job_claim *claim,
                        const struct object *object)
{
    const struct json *spec = json_get(object_json(object, run->arena), "spec");
    const struct json *wanted = json_at(claim->spec, "resources.requests.storage");
    const struct object *class = cache_get(run->input->cache, &kind_storageclass, STR(""),
                                           json_str(json_get(spec, "storageClassName")));
    struct json *patch = json_new_object(run->arena);
    int64_t most = 0;
    int64_t has = 0;

    if (object_label(object, JOB_LABEL_NAME).len)
        json_set(patch, STR("metadata"),
                 json_make(run->arena,
                           "{labels: {" JOB_LABEL_NAME ": $, " JOB_QUEUE_LABEL_NAME ": $}}",
                           json_new_null(run->arena), claim->queue));
    if (quantity_whole_json(wanted, &most, NULL) == 0 &&
        quantity_whole_json(json_at(spec, "resources.requests.storage"), &has, NULL) == 0 &&
        most > has) {
        if (class &&
            json_bool_or(json_get(object_json(class, run->arena), "allowVolumeExpansion"), false))
            json_set(
                patch, STR("spec"),
                json_make(run->arena, "{resources: {requests: {storage: $}}}", json_str(wanted)));
        else if (!run->state.provisioned)
            action_warn(&run->actions, run->model.object, "ClaimTooSmall",
                        str_printf(run->arena,
                                   "claim " STR_FMT " (%s) was made smaller than the " STR_FMT
                                   " that this job asks for, and its StorageClass does not let it "
                                   "grow (allowVolumeExpansion)",
                                   STR_ARG(claim->name), claim->what, STR_ARG(json_str(wanted))));
    }
    if (json_count(patch))
        action_patch(&run->actions, object, patch);
}

static bool provision_claims(struct job_run *run)
{
    const struct job_model *model = &run->model;
    bool ready = true;

    for (size_t i = 0; i < model->claims.count; i++) {
        const struct job_claim *claim = &model->claims.items[i];
        const struct object *object =
            cache_get(run->input->cache, &kind_pvc, model->object->ns, claim->name);

        if (object) {
            if (claim->queue.len)
                share_claim(run, claim, object);
            ready = check_claim(run, claim, object) && ready;
        } else if (claim->spec) {
            struct str class = json_str(json_get(claim->spec, "storageClassName"));

            action_create(&run->actions, &kind_pvc, job_make_claim(model, claim, run->arena));
            ready = check_class(run, claim, class, class.len > 0) && ready;
        } else {
            hold(run, "ClaimNotFound",
                 str_printf(run->arena, "PersistentVolumeClaim " STR_FMT " (%s) does not exist",
                            STR_ARG(claim->name), claim->what));
            ready = false;
        }
    }
    return ready;
}

static void provision_service(struct job_run *run)
{
    if (run->model.headless && !cache_get(run->input->cache, &kind_service, run->model.object->ns,
                                          run->model.object->name))
        action_create(&run->actions, &kind_service, job_make_service(&run->model, run->arena));
}

/* Whether `is` says all that `wanted` says; the API may have filled in more. */
static bool covers(const struct json *is, const struct json *wanted)
{
    if (json_is(wanted, JSON_OBJECT)) {
        _cleanup_(json_names_done) struct json_names names = {.object = is};

        JSON_FOREACH(wanted, member)
            if (!covers(json_names_get(&names, json_key(member)), member))
                return false;
        return true;
    }
    if (!json_is(wanted, JSON_ARRAY))
        return json_equal(is, wanted);
    if (json_count(is) != json_count(wanted))
        return false;
    const struct json *have = json_first(is);
    JSON_FOREACH(wanted, item) {
        if (!covers(have, item))
            return false;
        have = json_next(have);
    }
    return true;
}

/* Kinds that jobs rarely need are watched from when one first does. False: not known yet. */
static bool know_extras(struct job_run *run)
{
    bool known = true;

    for (size_t i = 0; run->input->is_watched && i < run->model.extras.count; i++) {
        const struct kind *kind = run->model.extras.items[i].kind;

        if (run->input->is_watched(run->input->user, kind))
            continue;
        action_watch(&run->actions, kind);
        known = false;
    }
    return known;
}

static void provision_extras(struct job_run *run)
{
    for (size_t i = 0; i < run->model.extras.count; i++) {
        const struct job_extra *extra = &run->model.extras.items[i];
        const struct object *object =
            cache_get(run->input->cache, extra->kind, run->model.object->ns, extra->name);

        if (!object)
            action_create(&run->actions, extra->kind,
                          job_make_extra(&run->model, extra, run->arena));
        else if (object_owned_by(object, run->model.object->uid) &&
                 !covers(object_json(object, run->arena), extra->body))
            action_patch(&run->actions, object, json_clone(run->arena, extra->body));
    }
}

static struct str sync_words(const struct json *status)
{
    const struct json *scheduled = condition_find(status, "PodScheduled");

    if (str_is(json_str(json_get(scheduled, "status")), "False"))
        return json_str(json_get(scheduled, "message"));
    struct str words = json_str_at(status, "containerStatuses.0.state.waiting.message");
    return words.len ? words : json_str(json_get(status, "message"));
}

static void create_sync(struct job_run *run)
{
    struct json *body = job_make_sync_pod(&run->model, run->arena);

    if (run->model.sync_secret.len)
        action_create_secret(&run->actions, job_make_sync_secret(&run->model, run->arena),
                             STR(LAUNCH_SECRET_KEY));
    launcher_add(body, run->input->config->launcher_image, run->arena);
    action_create(&run->actions, &kind_pod, body);
}

void job_sync_again(struct job_run *run)
{
    const struct object *pod = job_sync_pod(run);
    bool claims = run->model.claims.count > 0;

    for (size_t i = 0; i < run->model.claims.count; i++) {
        const struct object *claim = cache_get(run->input->cache, &kind_pvc, run->model.object->ns,
                                               run->model.claims.items[i].name);

        claims = claims && claim && !claim->deleted_ms;
    }
    if (!run->model.sync_spec || !claims)
        return; /* it had no volume, or that is gone: a new one would know nothing */
    if (!pod)
        create_sync(run);
    else if (!pod->deleted_ms && pod_is_over(object_json(pod, run->arena)))
        action_delete(&run->actions, pod);
}

/* The sync pod is wanted as long as the job runs, but only its start holds the job up. */
static bool provision_sync(struct job_run *run)
{
    const struct object *pod = job_sync_pod(run);

    if (!pod) {
        create_sync(run);
        job_say(run, JOB_PROVISIONING, STR("starting the sync pod"));
        return false;
    }
    const struct json *tree = object_json(pod, run->arena);
    const struct json *status = json_get(tree, "status");
    if (str_is(json_str(json_get(status, "phase")), "Running"))
        return true;
    if (pod_is_over(tree)) {
        struct str why = json_str(json_get(status, "message"));

        if (str_is(json_str(json_get(status, "reason")), JOB_REASON_REFUSED) &&
            !run->state.created) { /* another one would be refused as well */
            job_finish(run, JOB_FAILED,
                       str_printf(run->arena, "the sync pod was refused by its node: " STR_FMT,
                                  STR_ARG(why)));
            return false;
        }
        if (!pod->deleted_ms)
            action_delete(&run->actions, pod);
        job_say(run, JOB_PROVISIONING,
                str_printf(run->arena, "replacing the sync pod, which has ended%s" STR_FMT,
                           why.len ? ": " : "", STR_ARG(why)));
        return false;
    }
    struct str words = sync_words(status);
    job_say(run, JOB_PROVISIONING,
            words.len ? str_printf(run->arena, "starting the sync pod: " STR_FMT, STR_ARG(words))
                      : STR("starting the sync pod"));
    return false;
}

bool job_provision(struct job_run *run)
{
    struct job_state *state = &run->state;
    enum job_phase phase = state->phase;
    struct str message = state->message;

    if (!provision_claims(run)) {
        if (!run->members.count)
            return false;
        /* Pods that are there run on with what they have, and their end counts. */
        job_say(run, phase, message);
    }
    if (!know_extras(run))
        return false;
    provision_service(run);
    provision_extras(run);
    if (run->model.sync_spec && !provision_sync(run)) {
        if (!state->created)
            return false;
        /* The gang is under way: it needs the sync pod back, but does not wait for it. */
        job_say(run, phase, message);
    }
    state->provisioned = true;
    if (run->model.upload && !run->model.workspace_revision.len) {
        job_say(run, JOB_SYNCING, STR("waiting for the workspace to be uploaded"));
        return false;
    }
    state->workspace_ready = true;
    return true;
}
