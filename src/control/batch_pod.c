#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "control/batch_job.h"

#include <stddef.h>
#include <stdint.h>

/* A pod of a Job, ready to be created. */

static void add_owner(struct arena *arena, struct json *meta, const struct object *job)
{
    struct json *owner =
        json_push(json_add_array(arena, meta, "ownerReferences"), json_new_object(arena));

    json_add_c(arena, owner, "apiVersion", "batch/v1");
    json_add_c(arena, owner, "kind", kind_job.name);
    json_add_str(arena, owner, "name", str_dup(arena, job->name));
    json_add_str(arena, owner, "uid", str_dup(arena, job->uid));
    json_add_bool(arena, owner, "controller", true);
    json_add_bool(arena, owner, "blockOwnerDeletion", true);
}

/* JOB_COMPLETION_INDEX, behind what the container says itself. */
static void add_index_env(struct arena *arena, struct json *containers, struct str index)
{
    JSON_FOREACH(containers, container) {
        struct json *env = json_get(container, "env");
        struct json *entry = json_new_object(arena);

        if (!json_is(env, JSON_ARRAY))
            env = json_add_array(arena, container, "env");
        json_add_c(arena, entry, "name", "JOB_COMPLETION_INDEX");
        json_add_str(arena, entry, "value", index);
        json_push(env, entry);
    }
}

struct json *batch_make_pod(struct arena *arena,
                            const struct object *job,
                            const struct json *spec,
                            int64_t index,
                            struct str name)
{
    struct json *pod = json_clone(arena, json_get(spec, "template"));
    struct json *meta = json_make_path(arena, pod, "metadata");
    struct json *pod_spec = json_make_path(arena, pod, "spec");

    json_add_c(arena, pod, "apiVersion", "v1");
    json_add_c(arena, pod, "kind", "Pod");
    json_add_str(arena, meta, "name", name);
    json_add_str(arena, meta, "namespace", str_dup(arena, job->ns));
    json_push(json_add_array(arena, meta, "finalizers"), json_new_str(arena, STR(BATCH_FINALIZER)));
    add_owner(arena, meta, job);
    if (index >= 0) {
        struct str text = str_printf(arena, "%lld", (long long)index);

        json_add_str(arena, json_make_path(arena, meta, "annotations"), BATCH_INDEX, text);
        json_add_str(arena, json_make_path(arena, meta, "labels"), BATCH_INDEX, text);
        if (!json_get(pod_spec, "hostname"))
            json_add_str(arena, pod_spec, "hostname",
                         str_printf(arena, STR_FMT "-%lld", STR_ARG(job->name), (long long)index));
        add_index_env(arena, json_get(pod_spec, "containers"), text);
        add_index_env(arena, json_get(pod_spec, "initContainers"), text);
    }
    return pod;
}
