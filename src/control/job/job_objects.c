#include "api/install.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "api/place.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "control/core/group_name.h"
#include "control/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The objects of a job: pods, sync pod, service, claims. All carry the model's labels and, unless
 * they are to survive it, the job as their owner. */

struct str job_pod_name(const struct job_model *model,
                        const struct job_role *role,
                        size_t index,
                        struct arena *arena)
{
    if (role->bare)
        return str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(model->object->name),
                          STR_ARG(role->name));
    return str_printf(arena, STR_FMT "-" STR_FMT "-%zu", STR_ARG(model->object->name),
                      STR_ARG(role->name), index);
}

size_t job_size(const struct job_model *model)
{
    size_t size = 0;

    for (size_t i = 0; i < model->roles.count; i++)
        size += model->roles.items[i].count;
    return size;
}

size_t job_min_size(const struct job_model *model)
{
    size_t size = 0;

    for (size_t i = 0; i < model->roles.count; i++)
        size += model->roles.items[i].min;
    return size;
}

struct str job_sync_name(const struct job_model *model, struct arena *arena)
{
    return str_printf(arena, STR_FMT "-sync-0", STR_ARG(model->object->name));
}

static void own(const struct job_model *model, struct json *meta, struct arena *arena)
{
    struct json *owner =
        json_push(json_add_array(arena, meta, "ownerReferences"), json_new_object(arena));
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, owner,
              "{apiVersion: $, kind: $, name: $, uid: $, controller: true, "
              "blockOwnerDeletion: true}",
              str_dup(arena, kind_api_version(model->object->kind, version)),
              model->object->kind->name, model->object->name, model->object->uid);
}

static struct json *object_of(const struct job_model *model,
                              const struct kind *kind,
                              struct str name,
                              struct arena *arena)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, body, "{apiVersion: $, kind: $, metadata: {namespace: $, name: $, labels: $}}",
              str_dup(arena, kind_api_version(kind, version)), kind->name, model->object->ns, name,
              model->labels ? json_clone(arena, model->labels) : json_new_object(arena));
    return body;
}

/* What a pod said last is in its status when it fails, unless its template says otherwise: the log
 * goes with the pod, the status of the job stays. */
static void keep_last_words(struct json *spec, struct arena *arena)
{
    JSON_FOREACH(json_get(spec, "containers"), container)
        if (json_is_null(json_get(container, "terminationMessagePolicy")))
            json_add_c(arena, container, "terminationMessagePolicy", "FallbackToLogsOnError");
}

struct json *job_make_pod(const struct job_model *model,
                          const struct job_pod *pod,
                          struct arena *arena)
{
    const struct job_role *role = pod->role;
    struct json *body = object_of(model, &kind_pod, pod->name, arena);
    struct json *meta = json_get(body, "metadata");
    struct json *labels = json_get(meta, "labels");
    struct json *spec = json_clone(arena, role->pod_spec);

    json_names_copy(arena, labels, role->labels);
    json_fill(arena, labels,
              "{" JOB_LABEL_ROLE ": $, " JOB_LABEL_INDEX ": $, " JOB_LABEL_GENERATION ": $}",
              role->name, str_printf(arena, "%zu", pod->index),
              str_printf(arena, "%lld", (long long)pod->generation));
    struct json *annotations = json_add_object(arena, meta, "annotations");
    json_names_copy(arena, annotations, role->annotations);
    json_add_str(arena, annotations, JOB_ANNOTATION_SIZE, str_printf(arena, "%zu", pod->pods));
    if (model->in_place)
        json_add_str(arena, annotations, PLACE_ANNOTATION, place_text(arena, pod->round, true));
    else /* a node would keep its pods for a word that nobody gives */
        json_remove(annotations, STR(PLACE_ANNOTATION));
    if (model->warm)
        json_add_c(arena, annotations, WARM_ANNOTATION, "true");
    else
        json_remove(annotations, STR(WARM_ANNOTATION));
    /* Told at birth, so that the pod grouper need not write the pod a second time. */
    json_add_str(arena, annotations, GROUP_ANNOTATION, group_name(model->object, arena));
    own(model, meta, arena);
    json_add_str(arena, spec, "hostname", pod->name);
    if (model->headless)
        json_add_str(arena, spec, "subdomain", model->object->name);
    json_set(body, STR("spec"), spec);
    if (model->fill)
        model->fill(model, pod, body, arena);
    keep_last_words(spec, arena);
    return body;
}

struct json *job_make_sync_pod(const struct job_model *model, struct arena *arena)
{
    struct str name = job_sync_name(model, arena);
    struct json *body = object_of(model, &kind_pod, name, arena);
    struct json *meta = json_get(body, "metadata");
    struct json *spec = json_clone(arena, model->sync_spec);

    json_add_c(arena, json_get(meta, "labels"), JOB_LABEL_ROLE, JOB_ROLE_SYNC);
    own(model, meta, arena);
    json_add_str(arena, spec, "hostname", name);
    json_add_str(arena, spec, "subdomain", model->object->name);
    json_set(body, STR("spec"), spec);
    return body;
}

void job_add_peer_uid(const struct json *pod_spec,
                      const struct json *container,
                      struct json *env,
                      struct arena *arena)
{
    const struct json *said = json_at(container, "securityContext.runAsUser");
    int64_t uid;

    if (!said)
        said = json_at(pod_spec, "securityContext.runAsUser");
    if (!said || !json_i64(said, &uid))
        return;
    json_push(env, json_make(arena, "{name: $, value: $}", LAUNCH_ENV_PEER_UID,
                             str_printf(arena, "%lld", (long long)uid)));
}

static void inherit(struct json *to,
                    const struct json *from,
                    const char *const *names,
                    struct arena *arena)
{
    for (; *names; names++)
        if (json_get(from, *names))
            json_set(to, str_from(*names), json_clone(arena, json_get(from, *names)));
}

/* The sync pod reads and writes what the ranks do, so it is who they are; of what they may do besides it
 * needs nothing. Where nobody says who, a kubelet has the image's user, root as a rule. */
void job_secure_sync(struct json *spec,
                     const struct json *worker,
                     const struct json *trainer,
                     bool kubelets,
                     struct arena *arena)
{
    static const char *const of_pod[] = {"runAsNonRoot",
                                         "runAsUser",
                                         "runAsGroup",
                                         "fsGroup",
                                         "fsGroupChangePolicy",
                                         "supplementalGroups",
                                         "supplementalGroupsPolicy",
                                         "seLinuxOptions",
                                         "seccompProfile",
                                         "appArmorProfile",
                                         NULL};
    static const char *const of_both[] = {"runAsUser",      "runAsGroup",      "seLinuxOptions",
                                          "seccompProfile", "appArmorProfile", NULL};
    struct json *pod = json_new_object(arena);
    struct json *sync = json_first(json_get(spec, "containers"));

    inherit(pod, json_get(worker, "securityContext"), of_pod, arena);
    inherit(pod, json_get(trainer, "securityContext"), of_both, arena);
    /* Who says only that it is not root leaves it to the cluster, as OpenShift's constraints want it. */
    bool said = json_get(pod, "runAsUser") || json_bool_or(json_get(pod, "runAsNonRoot"), false);
    if (!kubelets) { /* the agent decides who a pod is that does not say it */
        if (json_count(pod))
            json_set(spec, STR("securityContext"), pod);
        return;
    }
    if (!said)
        json_fill(arena, pod, "{runAsUser: $, runAsGroup: $}", INSTALL_USER, INSTALL_USER);
    if (!said && !json_get(pod, "fsGroup"))
        json_add_i64(arena, pod, "fsGroup", INSTALL_USER);
    if (json_i64_or(json_get(pod, "runAsUser"), 0) != 0 && !json_get(pod, "runAsNonRoot"))
        json_add_bool(arena, pod, "runAsNonRoot", true);
    if (!json_get(pod, "seccompProfile"))
        json_set(pod, STR("seccompProfile"), json_make(arena, "{type: 'RuntimeDefault'}"));
    json_set(spec, STR("securityContext"), pod);
    json_fill(
        arena, sync,
        "{securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ['ALL']}}}");
}

/* But for its value, which only the executor can draw. It never changes, and goes with the job. */
struct json *job_make_sync_secret(const struct job_model *model, struct arena *arena)
{
    struct json *body = object_of(model, &kind_secret, model->sync_secret, arena);

    own(model, json_get(body, "metadata"), arena);
    json_add_c(arena, body, "type", "Opaque");
    json_add_bool(arena, body, "immutable", true);
    return body;
}

static struct json *headless(struct arena *arena, struct json *body)
{
    struct json *spec = json_add_object(arena, body, "spec");

    json_add_c(arena, spec, "clusterIP", "None");
    /* Ranks look each other up before they are ready, and the sync pod before anything is. */
    json_add_bool(arena, spec, "publishNotReadyAddresses", true);
    return spec;
}

struct json *job_make_service(const struct job_model *model, struct arena *arena)
{
    struct json *body = object_of(model, &kind_service, model->object->name, arena);
    struct json *spec = headless(arena, body);

    own(model, json_get(body, "metadata"), arena);
    json_add_str(arena, json_add_object(arena, spec, "selector"), JOB_LABEL_NAME,
                 model->object->name);
    struct json *port = json_push(json_add_array(arena, spec, "ports"), json_new_object(arena));
    json_add_c(arena, port, "name", "sync");
    json_add_i64(arena, port, "port", LAUNCH_SYNC_PORT);
    return body;
}

struct json *job_make_pod_service(const struct job_model *model,
                                  const struct job_role *role,
                                  size_t index,
                                  struct arena *arena)
{
    struct json *body =
        object_of(model, &kind_service, job_pod_name(model, role, index, arena), arena);
    struct json *spec = headless(arena, body);
    struct json *labels = json_get(json_get(body, "metadata"), "labels");
    struct str number = str_printf(arena, "%zu", index);

    own(model, json_get(body, "metadata"), arena);
    json_add_str(arena, labels, JOB_LABEL_ROLE, role->name);
    json_add_str(arena, labels, JOB_LABEL_INDEX, number);
    /* The job's labels say which job, these two which pod of it. */
    json_set(spec, STR("selector"), json_clone(arena, labels));
    json_set(spec, STR("ports"), json_clone(arena, role->ports));
    return body;
}

struct json *job_make_extra(const struct job_model *model,
                            const struct job_extra *extra,
                            struct arena *arena)
{
    struct json *body = object_of(model, extra->kind, extra->name, arena);

    own(model, json_get(body, "metadata"), arena);
    json_names_copy(arena, body, extra->body);
    return body;
}

struct json *job_make_claim(const struct job_model *model,
                            const struct job_claim *claim,
                            struct arena *arena)
{
    struct json *body = object_of(model, &kind_pvc, claim->name, arena);
    struct json *meta = json_get(body, "metadata");

    if (claim->queue.len) /* of no job: who deletes what is of one means nobody else's */
        json_set(meta, STR("labels"),
                 json_make(arena, "{" JOB_QUEUE_LABEL_NAME ": $}", claim->queue));
    json_add_c(arena, json_get(meta, "labels"), "torchrun.ai/type", claim->what);
    if (!claim->keep)
        own(model, meta, arena);
    json_set(body, STR("spec"), json_clone(arena, claim->spec));
    return body;
}
