#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/plugin.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NAMES_SHOWN 10

static int unknown_queue(struct session *session, struct str queue, struct err *err)
{
    _cleanup_(buf_done) struct buf names = {0};
    const struct object **all;
    size_t count;
    int r = session_list(session, &kind_torchrunqueue, session->config.ns, NULL, &all, &count, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < count && i < NAMES_SHOWN; i++)
        buf_addf(&names, "%s" STR_FMT, i ? ", " : "", STR_ARG(all[i]->name));
    if (count == 0)
        return err_set(err, -ENOENT,
                       "queue '" STR_FMT
                       "' does not exist: namespace %s has no TorchrunQueue at all; create one "
                       "first, for example from examples/queue.yaml",
                       STR_ARG(queue), session->config.ns);
    return err_set(err, -ENOENT,
                   "queue '" STR_FMT "' does not exist in namespace %s; there %s %s%s",
                   STR_ARG(queue), session->config.ns, count == 1 ? "is" : "are", names.p,
                   count > NAMES_SHOWN ? ", ..." : "");
}

static int64_t gpus_of(const struct json *resources)
{
    int64_t gpus = json_i64_or(json_get(resources, "nvidia.com/gpu"), 0);

    (void)str_to_i64(json_str(json_get(resources, "nvidia.com/gpu")), &gpus);
    return gpus;
}

/* GPUs of the largest node and of all nodes; false when nodes cannot be seen (a user of a shared
 * cluster often may not): then nothing is said. */
static bool cluster_gpus(struct session *session, int64_t *ret_largest, int64_t *ret_total)
{
    const struct object **nodes;
    size_t count;

    *ret_largest = *ret_total = 0;
    if (session_list(session, &kind_node, "*", NULL, &nodes, &count, NULL) < 0 || count == 0)
        return false;
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(nodes[i], &session->arena);
        int64_t gpus = gpus_of(json_at(tree, "status.allocatable"));

        *ret_total += gpus;
        if (gpus > *ret_largest)
            *ret_largest = gpus;
    }
    return *ret_total > 0;
}

/* The lowest GPU limit of the scheduling queue and those above it; -1: none. */
static int64_t queue_limit(struct session *session, struct str name, struct str *ret_which)
{
    int64_t lowest = -1;

    for (int depth = 0; name.len && depth < 16; depth++) {
        struct object *queue = NULL;
        struct json *tree;
        int64_t limit;

        if (session_get(session, &kind_queue, str_c(&session->arena, name), &queue, NULL) < 0)
            break;
        arena_defer(&session->arena, object_release, queue);
        tree = object_json(queue, &session->arena);
        limit = json_i64_or(json_at(tree, "spec.resources.gpu.limit"), -1);
        if (limit >= 0 && (lowest < 0 || limit < lowest)) {
            lowest = limit;
            *ret_which = queue->name;
        }
        name = json_str_at(tree, "spec.parentQueue");
    }
    return lowest;
}

static int check_shape(struct session *session,
                       const struct json *spec,
                       const struct json *queue,
                       struct err *err)
{
    int64_t per_node = json_i64_or(json_at(queue, "spec.nodeResources.gpus"), 0);
    int64_t gpus = json_i64_or(json_get(spec, "numGPUs"), 0);
    int64_t nodes = json_i64_or(json_get(spec, "numNodes"), 0);
    int64_t wanted = gpus > 0 ? gpus : nodes * per_node;
    int64_t pods = per_node > 0 && wanted > 0 ? (wanted + per_node - 1) / per_node : 1;
    int64_t in_a_pod = (wanted + pods - 1) / pods;
    struct str kai = json_str_at(queue, "spec.kaiQueue");
    struct str which = STR("");
    int64_t largest;
    int64_t total;
    int64_t limit;

    if (!kai.len)
        kai = json_str_at(queue, "spec.queue.name");
    if (!kai.len)
        kai = json_str_at(queue, "metadata.name");
    limit = wanted > 0 ? queue_limit(session, kai, &which) : -1;
    if (limit >= 0 && wanted > limit)
        return err_set(err, -EDQUOT,
                       "%lld GPUs are over the limit of queue " STR_FMT
                       "; at most %lld can run there",
                       (long long)wanted, STR_ARG(which), (long long)limit);
    if (wanted <= 0 || !cluster_gpus(session, &largest, &total))
        return 0;
    if (wanted > total)
        return err_set(err, -ENOSPC, "%lld GPUs are more than the cluster has; it has %lld in all",
                       (long long)wanted, (long long)total);
    if (in_a_pod > largest)
        return err_set(err, -ENOSPC,
                       "no node has %lld GPUs, as each pod would get; the largest has %lld",
                       (long long)in_a_pod, (long long)largest);
    return 0;
}

/* The embedded node agent says in a condition when it cannot mount volumes, which every job has. */
static int check_volumes(struct session *session, struct err *err)
{
    const struct object **nodes;
    size_t count;
    struct str words = STR_NONE;

    if (session_list(session, &kind_node, "*", NULL, &nodes, &count, NULL) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        bool isolated = true;
        JSON_FOREACH(json_at(object_json(nodes[i], &session->arena), "status.conditions"), each)
            if (str_is(json_str(json_get(each, "type")), "PodsIsolated") &&
                str_is(json_str(json_get(each, "status")), "False")) {
                isolated = false;
                words = json_str(json_get(each, "message"));
            }
        if (isolated)
            return 0;
    }
    return count ? err_set(err, -ENOTSUP,
                           "no node can give the job its workspace (namespaces: " STR_FMT
                           "); run muster doctor to see what to do",
                           STR_ARG(words))
                 : 0;
}

int precheck_job(struct session *session, const struct json *job, struct err *err)
{
    const struct json *spec = json_get(job, "spec");
    struct str name = json_str(json_get(spec, "jobQueue"));
    struct object *queue = NULL;
    int r;

    if (!name.len)
        name = json_str(json_get(spec, "queue"));
    if (!name.len)
        return err_set(err, -EINVAL, "the job names no queue: give --queue");
    r = session_get(session, &kind_torchrunqueue, str_c(&session->arena, name), &queue, err);
    if (r == -ENOENT)
        return unknown_queue(session, name, err);
    if (r < 0)
        return r;
    arena_defer(&session->arena, object_release, queue);
    r = check_volumes(session, err);
    return r < 0 ? r : check_shape(session, spec, object_json(queue, &session->arena), err);
}
