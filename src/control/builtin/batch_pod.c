#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "control/builtin/batch_job.h"
#include "control/core/owner.h"

#include <stddef.h>
#include <stdint.h>

/* A pod of a Job, ready to be created. */

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
                            const struct batch_slot *slot)
{
    struct json *pod = json_clone(arena, json_get(spec, "template"));
    struct json *meta = json_make_path(arena, pod, "metadata");
    struct json *pod_spec = json_make_path(arena, pod, "spec");

    json_fill(arena, pod, "{apiVersion: 'v1', kind: 'Pod'}");
    json_fill(arena, meta, "{name: $, namespace: $, finalizers: [$]}", slot->name,
              str_dup(arena, job->ns), STR(BATCH_FINALIZER));
    owner_set(arena, meta, job);
    struct str gang = batch_gang_name(arena, job, spec);
    if (gang.len)
        json_add_str(arena, json_make_path(arena, pod_spec, "schedulingGroup"), "podGroupName",
                     gang);
    if (slot->index >= 0) {
        struct str text = str_printf(arena, "%lld", (long long)slot->index);

        json_add_str(arena, json_make_path(arena, meta, "annotations"), BATCH_INDEX, text);
        json_add_str(arena, json_make_path(arena, meta, "labels"), BATCH_INDEX, text);
        if (!json_get(pod_spec, "hostname"))
            json_add_str(
                arena, pod_spec, "hostname",
                str_printf(arena, STR_FMT "-%lld", STR_ARG(job->name), (long long)slot->index));
        add_index_env(arena, json_get(pod_spec, "containers"), text);
        add_index_env(arena, json_get(pod_spec, "initContainers"), text);
    }
    if (slot->failures >= 0)
        json_add_str(arena, json_make_path(arena, meta, "annotations"), BATCH_FAILURES,
                     str_printf(arena, "%lld", (long long)slot->failures));
    return pod;
}
