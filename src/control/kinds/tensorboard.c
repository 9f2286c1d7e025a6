#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/owner.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TensorBoard (tensorstack.dev/v1beta1): a pod that shows training logs, and a service in front of
 * it, both named like the object. The pod ends while spec.suspend is set. */

#define PORT        6006
#define LOG_FOLDER  "/tensorboard"
#define OWNER_LABEL "tensorstack.dev/tensorboard"

struct run {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *object;
    const struct json *spec;
    struct json *volumes;
    struct json *mounts;
    struct json *env_from;
    struct str logs; /* "name:path,name:path" */
    size_t count;    /* of logs */
    struct str first;
    struct str note; /* what cannot be shown */
};

/* ---- where the logs are ---- */

static void add_logs(struct run *run, struct str path)
{
    if (!run->count++)
        run->first = path;
    run->logs = str_printf(run->arena, STR_FMT "%slog%zu:" STR_FMT, STR_ARG(run->logs),
                           run->logs.len ? "," : "", run->count, STR_ARG(path));
}

static struct str mount_claim(struct run *run, struct str claim)
{
    struct arena *arena = run->arena;
    struct str path = str_printf(arena, LOG_FOLDER "/" STR_FMT, STR_ARG(claim));

    JSON_FOREACH(run->mounts, mount)
        if (str_eq(json_str(json_get(mount, "mountPath")), path))
            return path;
    struct str name = str_printf(arena, "logs-%zu", json_count(run->volumes));
    json_push(run->volumes, json_make(arena, "{name: $, persistentVolumeClaim: {claimName: $}}",
                                      name, str_dup(arena, claim)));
    json_push(run->mounts, json_make(arena, "{name: $, mountPath: $, readOnly: true}", name, path));
    return path;
}

static void add_claim(struct run *run, struct str claim, struct str sub)
{
    struct str path = mount_claim(run, claim);

    add_logs(run, sub.len ? str_printf(run->arena, STR_FMT "/" STR_FMT, STR_ARG(path), STR_ARG(sub))
                          : path);
}

static void add_secret(struct run *run, struct str secret)
{
    if (secret.len)
        json_add_str(run->arena,
                     json_add_object(run->arena,
                                     json_push(run->env_from, json_new_object(run->arena)),
                                     "secretRef"),
                     "name", str_dup(run->arena, secret));
}

/* t9k://pvc/<claim>/<path> and t9k://minio/<secret>/<bucket>/<path> */
static void add_fileset(struct run *run, struct str uri)
{
    struct str rest = uri;
    struct str part = STR_NONE;

    if (str_starts(uri, STR("t9k://pvc/"))) {
        rest = str_sub(uri, sizeof("t9k://pvc/") - 1, uri.len);
        (void)str_cut(&rest, '/', &part);
        add_claim(run, part, rest);
    } else if (str_starts(uri, STR("t9k://minio/"))) {
        rest = str_sub(uri, sizeof("t9k://minio/") - 1, uri.len);
        (void)str_cut(&rest, '/', &part);
        add_secret(run, part);
        add_logs(run, str_printf(run->arena, "s3://" STR_FMT, STR_ARG(rest)));
    } else {
        run->note = str_printf(run->arena,
                               "spec.trainingLogFilesets: \"" STR_FMT
                               "\" is neither t9k://pvc/... nor t9k://minio/...",
                               STR_ARG(uri));
    }
}

static void collect_logs(struct run *run)
{
    const struct json *dir = json_get(run->spec, "logDir");

    JSON_FOREACH(json_get(run->spec, "trainingLogFilesets"), uri)
        add_fileset(run, json_str(uri));
    JSON_FOREACH(json_get(dir, "pvc"), claim) {
        struct str name = json_str(json_get(claim, "name"));

        if (!json_count(json_get(claim, "subPath")))
            add_claim(run, name, STR_NONE);
        JSON_FOREACH(json_get(claim, "subPath"), sub)
            add_claim(run, name, json_str(sub));
    }
    JSON_FOREACH(json_at(dir, "s3.uri"), uri)
        add_logs(run, str_dup(run->arena, json_str(uri)));
    if (json_count(json_at(dir, "s3.uri")))
        add_secret(run, json_str_at(dir, "s3.secretRef.name"));
    if (json_count(json_at(dir, "http.url")))
        run->note = STR("spec.logDir.http: TensorBoard reads files, not web pages; use pvc or s3");
    if (!run->count && !run->note.len)
        run->note = STR("spec.logDir: set pvc or s3");
}

/* ---- objects ---- */

static void add_command(const struct run *run, struct json *container)
{
    struct arena *arena = run->arena;
    struct json *command = json_add_array(arena, container, "command");
    struct json *env = json_add_array(arena, container, "env");
    struct json *address = json_push(env, json_new_object(arena));

    json_push(command, json_new_str(arena, STR("tensorboard")));
    json_push(
        command,
        json_new_str(arena, run->count == 1
                                ? str_printf(arena, "--logdir=" STR_FMT, STR_ARG(run->first))
                                : str_printf(arena, "--logdir_spec=" STR_FMT, STR_ARG(run->logs))));
    /* Its own address alone: pods of one machine may share the others. */
    json_push(command, json_new_str(arena, STR("--host=$(POD_IP)")));
    json_push(command, json_new_str(arena, str_printf(arena, "--port=%d", PORT)));
    json_add_c(arena, address, "name", "POD_IP");
    json_add_c(arena, json_make_path(arena, address, "valueFrom.fieldRef"), "fieldPath",
               "status.podIP");
}

static struct json *make_pod(struct run *run)
{
    struct arena *arena = run->arena;
    struct json *body = owner_make(arena, run->object, &kind_pod, run->object->name);
    struct json *spec = json_add_object(arena, body, "spec");
    struct json *container =
        json_push(json_add_array(arena, spec, "containers"), json_new_object(arena));
    struct str image = json_str(json_get(run->spec, "image"));

    json_add_str(arena, json_make_path(arena, body, "metadata.labels"), OWNER_LABEL,
                 run->object->name);
    json_add_c(arena, container, "name", "tensorboard");
    json_add_str(arena, container, "image",
                 image.len ? str_dup(arena, image) : STR("tensorflow/tensorflow"));
    add_command(run, container);
    if (json_count(run->env_from))
        json_set(container, STR("envFrom"), run->env_from);
    json_set(container, STR("volumeMounts"), run->mounts);
    if (json_get(run->spec, "resources"))
        json_set(container, STR("resources"), json_clone(arena, json_get(run->spec, "resources")));
    json_add_i64(arena,
                 json_push(json_add_array(arena, container, "ports"), json_new_object(arena)),
                 "containerPort", PORT);
    struct json *probe = json_add_object(arena, container, "readinessProbe");
    json_add_c(arena, json_make_path(arena, probe, "httpGet"), "path", "/");
    json_add_i64(arena, json_get(probe, "httpGet"), "port", PORT);
    json_fill(arena, probe, "{periodSeconds: 1, failureThreshold: 3}");
    json_fill(arena, spec,
              "{volumes: $, restartPolicy: 'Always', terminationGracePeriodSeconds: 5}",
              run->volumes);
    return body;
}

static struct json *make_service(struct run *run)
{
    struct arena *arena = run->arena;
    struct json *body = owner_make(arena, run->object, &kind_service, run->object->name);
    struct json *spec = json_add_object(arena, body, "spec");
    struct json *port = json_push(json_add_array(arena, spec, "ports"), json_new_object(arena));

    json_fill(arena, port, "{name: 'http', port: 80, targetPort: $}", PORT);
    json_fill(arena, spec, "{selector: {" OWNER_LABEL ": $}}", run->object->name);
    return body;
}

/* ---- status ---- */

/* The program is not there: no amount of waiting helps. */
static bool is_missing(const struct json *container)
{
    static const char *const paths[] = {"state.terminated.exitCode",
                                        "lastState.terminated.exitCode"};

    for (size_t i = 0; i < 2; i++) {
        int64_t code = json_i64_or(json_at(container, paths[i]), 0);

        if (code == 126 || code == 127 || code == 128)
            return true;
    }
    return false;
}

static void write_status(struct run *run, const struct object *pod, bool suspended)
{
    struct arena *arena = run->arena;
    const struct json *tree = pod ? object_json(pod, arena) : NULL;
    const struct json *container = json_at(tree, "status.containerStatuses.0");
    const struct json *before = json_get(object_json(run->object, arena), "status");
    struct json *status = before ? json_clone(arena, before) : json_new_object(arena);
    bool ready = condition_is_true(json_get(tree, "status"), "Ready");
    const char *reason = ready ? "DependentReady" : "DependentNotReady";
    struct str note = run->note;

    if (suspended) {
        reason = "Suspended";
        note = STR("spec.suspend is set");
    } else if (!note.len && is_missing(container)) {
        reason = "TensorBoardNotInstalled";
        note = STR("the program tensorboard is missing in the image (or on this machine, if images "
                   "are not used): pip install tensorboard");
    } else if (!note.len && !ready) {
        note = pod ? json_str_at(container, "state.waiting.message") : run->input->refusal;
    } else if (!note.len) {
        note = str_printf(arena, "http://" STR_FMT "." STR_FMT, STR_ARG(run->object->name),
                          STR_ARG(run->object->ns));
    }
    bool wrong = run->note.len || str_is(str_from(reason), "TensorBoardNotInstalled");
    json_fill(arena, status, "{ready: $, reason: $, note: $, type: $, port: 80}",
              (bool)(ready && !suspended), reason, str_dup(arena, note),
              wrong ? "Warning" : "Normal");
    struct json *patch = merge_diff(arena, before, status);
    if (!patch)
        return;
    struct json *wrapped = json_new_object(arena);
    json_set(wrapped, STR("status"), patch);
    action_patch_status(run->actions, run->object, wrapped);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    struct run run = {.input = input,
                      .arena = arena,
                      .actions = actions,
                      .object = cache_get(input->cache, &kind_tensorboard, key->ns, key->name),
                      .volumes = json_new_array(arena),
                      .mounts = json_new_array(arena),
                      .env_from = json_new_array(arena)};

    if (!run.object || run.object->deleted_ms)
        return;
    /* Strings of the object go into what is written later, when the cache may have a newer one. */
    arena_defer(arena, object_release, object_ref(run.object));
    run.spec = json_get(object_json(run.object, arena), "spec");
    bool suspended = json_bool_or(json_get(run.spec, "suspend"), false);
    const struct object *pod = cache_get(input->cache, &kind_pod, key->ns, key->name);
    collect_logs(&run);
    if (pod && (!object_controller(pod) || !str_eq(object_controller(pod)->uid, run.object->uid))) {
        run.note = str_printf(arena,
                              "a pod " STR_FMT " already exists and does not belong to this "
                              "TensorBoard; delete or rename one of them",
                              STR_ARG(key->name));
        pod = NULL;
    }
    write_status(&run, pod, suspended);
    if (suspended && pod && !pod->deleted_ms)
        action_delete(actions, pod);
    if (!suspended && !pod && !run.note.len)
        action_create(actions, &kind_pod, make_pod(&run));
    if (!cache_get(input->cache, &kind_service, key->ns, key->name))
        action_create(actions, &kind_service, make_service(&run));
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);

    if (object->kind == &kind_tensorboard ||
        (object->kind == &kind_pod && /* also one that is in its way */
         cache_get(cache, &kind_tensorboard, object->ns, object->name)))
        control_keys_add(ret, object->ns, object->name);
    else if (owner && str_is(owner->kind, kind_tensorboard.name) &&
             str_is(owner->api_version, "tensorstack.dev/v1beta1"))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_tensorboard, &kind_pod, &kind_service, NULL};

const struct controller tensorboard_controller = {.name = "tensorboard",
                                                  .kind = &kind_tensorboard,
                                                  .watches = watches,
                                                  .keys = keys,
                                                  .reconcile = reconcile};
