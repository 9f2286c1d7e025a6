#include "plugin/precheck.h"

#include "api/gpus.h"
#include "api/install.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/job.h"
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

/* GPUs of the largest node and of all nodes; 0 when nodes cannot be seen (a user of a shared
 * cluster often may not). */
static void cluster_gpus(struct session *session, int64_t *ret_largest, int64_t *ret_total)
{
    const struct object **nodes;
    size_t count;

    *ret_largest = *ret_total = 0;
    if (session_list(session, &kind_node, "*", NULL, &nodes, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(nodes[i], &session->arena);
        int64_t gpus = gpus_of(json_at(tree, "status.allocatable"));

        *ret_total += gpus;
        if (gpus > *ret_largest)
            *ret_largest = gpus;
    }
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

struct precheck_wanted precheck_wanted(const struct json *spec, const struct json *queue)
{
    int64_t per_node = json_i64_or(json_at(queue, "spec.nodeResources.gpus"), 0);
    int64_t gpus = json_i64_or(json_get(spec, "numGPUs"), 0);
    int64_t nodes = json_i64_or(json_get(spec, "numNodes"), 0);
    int64_t all = gpus > 0 ? gpus : nodes * per_node;
    int64_t pods = per_node > 0 && all > 0 ? (all + per_node - 1) / per_node : 1;
    struct str kai = json_str_at(queue, "spec.kaiQueue");

    if (!kai.len)
        kai = json_str_at(queue, "spec.queue.name");
    if (!kai.len)
        kai = json_str_at(queue, "metadata.name");
    return (struct precheck_wanted){
        .gpus = all, .in_pod = (all + pods - 1) / pods, .pods = all > 0 ? pods : nodes, .kai = kai};
}

int precheck_fits(const struct precheck_wanted *wanted,
                  const struct precheck_cluster *cluster,
                  struct err *err)
{
    if (wanted->gpus <= 0)
        return 0;
    if (cluster->limited && wanted->gpus > cluster->limit)
        return err_set(
            err, -EDQUOT,
            "%lld GPUs are over the limit of queue " STR_FMT "; at most %lld can run there",
            (long long)wanted->gpus, STR_ARG(cluster->limit_queue), (long long)cluster->limit);
    if (cluster->total <= 0)
        return 0;
    if (wanted->gpus > cluster->total)
        return err_set(err, -ENOSPC, "%lld GPUs are more than the cluster has; it has %lld in all",
                       (long long)wanted->gpus, (long long)cluster->total);
    if (wanted->in_pod > cluster->largest)
        return err_set(err, -ENOSPC,
                       "no node has %lld GPUs, as each pod would get; the largest has %lld",
                       (long long)wanted->in_pod, (long long)cluster->largest);
    return 0;
}

/* What the job says of a node, or else its queue. */
static const struct json *of_node(const struct json *spec,
                                  const struct json *queue,
                                  const char *name)
{
    const struct json *own = json_get(json_get(spec, "nodeResources"), name);

    return own ? own : json_get(json_at(queue, "spec.nodeResources"), name);
}

struct precheck_needs precheck_needs(const struct json *spec, const struct json *queue)
{
    struct precheck_wanted wanted = precheck_wanted(spec, queue);
    struct precheck_needs needs = {.gpu_type = json_str(of_node(spec, queue, "gpuType")),
                                   .pods = wanted.pods};
    int64_t per_node = json_i64_or(of_node(spec, queue, "gpus"), 0);

    (void)quantity_whole_json(of_node(spec, queue, "memory"), &needs.memory_bytes, NULL);
    (void)quantity_milli_json(of_node(spec, queue, "cpus"), &needs.cpu_milli, NULL);
    if (per_node > 0 && wanted.in_pod > 0 && wanted.in_pod < per_node) {
        needs.memory_bytes = (int64_t)((__int128)needs.memory_bytes * wanted.in_pod / per_node);
        needs.cpu_milli = (int64_t)((__int128)needs.cpu_milli * wanted.in_pod / per_node);
    }
    return needs;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c == '_' || c == ' ' ? '-' : c;
}

/* As the controller finds them (control/kinds/torchrun_pods.c): the words of the type, somewhere in the product. */
static bool is_of_type(struct str product, struct str type)
{
    for (size_t start = 0; start + type.len <= product.len; start++) {
        size_t i = 0;

        while (i < type.len && lower(product.p[start + i]) == lower(type.p[i]))
            i++;
        if (i == type.len)
            return true;
    }
    return false;
}

static int check_type(struct str type,
                      const struct json *const *nodes,
                      size_t count,
                      struct err *err)
{
    struct str known = STR_NONE;

    for (size_t i = 0; i < count; i++) {
        const struct json *labels = json_at(nodes[i], "metadata.labels");
        struct str own = json_str(json_get(labels, "torchrun.ai/gpu-type"));
        struct str product = json_str(json_get(labels, "nvidia.com/gpu.product"));

        if (str_eq(own, type) || is_of_type(product, type))
            return 0;
        known = own.len ? own : product.len ? product : known;
    }
    if (!known.len)
        return err_set(err, -ENOSPC,
                       "no node says which GPUs it has, so --gpu-type " STR_FMT
                       " cannot be found: leave it out",
                       STR_ARG(type));
    return err_set(err, -ENOSPC, "no node has GPUs of type " STR_FMT "; there are " STR_FMT,
                   STR_ARG(type), STR_ARG(known));
}

/* Our own agent's; the sync pod asks nothing of it. */
static bool is_ours(const struct json *node)
{
    JSON_FOREACH(json_at(node, "status.conditions"), each)
        if (str_is(json_str(json_get(each, "type")), "PodsIsolated"))
            return true;
    return false;
}

int precheck_nodes_fit(const struct precheck_needs *needs,
                       const struct json *const *nodes,
                       size_t count,
                       struct err *err)
{
    int64_t memory_most = 0;
    int64_t cpu_most = 0;
    bool others = false;

    for (size_t i = 0; i < count; i++) {
        const struct json *has = json_at(nodes[i], "status.allocatable");
        int64_t memory = 0;
        int64_t cpu = 0;

        (void)quantity_whole_json(json_get(has, "memory"), &memory, NULL);
        (void)quantity_milli_json(json_get(has, "cpu"), &cpu, NULL);
        others = others || !is_ours(nodes[i]);
        memory_most = memory > memory_most ? memory : memory_most;
        cpu_most = cpu > cpu_most ? cpu : cpu_most;
    }
    if (count == 0) /* they cannot be seen */
        return 0;
    if (needs->memory_bytes > memory_most)
        return err_set(
            err, -ENOSPC,
            "no node has %lld MiB of memory, as each pod would get; the largest has %lld MiB",
            (long long)(needs->memory_bytes >> 20), (long long)(memory_most >> 20));
    if (needs->cpu_milli > cpu_most)
        return err_set(
            err, -ENOSPC,
            "no node has %lld.%lld CPUs, as each pod would get; the largest has %lld.%lld",
            (long long)(needs->cpu_milli / 1000), (long long)(needs->cpu_milli / 100 % 10),
            (long long)(cpu_most / 1000), (long long)(cpu_most / 100 % 10));
    if (others && needs->pods >= (int64_t)count &&
        (needs->memory_bytes + INSTALL_MEMORY_BYTES > memory_most ||
         needs->cpu_milli + INSTALL_CPU_MILLI > cpu_most))
        return err_set(err, -ENOSPC,
                       "the pods would take every node whole, and the sync pod needs " INSTALL_CPU
                       " of CPU and " INSTALL_MEMORY " of memory on one of them: ask for that much "
                       "less");
    return needs->gpu_type.len ? check_type(needs->gpu_type, nodes, count, err) : 0;
}

static int check_nodes(struct session *session,
                       const struct json *spec,
                       const struct json *queue,
                       struct err *err)
{
    struct precheck_needs needs = precheck_needs(spec, queue);
    const struct object **nodes;
    const struct json **trees;
    size_t count;

    if (session_list(session, &kind_node, "*", NULL, &nodes, &count, NULL) < 0)
        return 0;
    trees = ARENA_ARRAY(&session->arena, const struct json *, count + 1);
    for (size_t i = 0; i < count; i++)
        trees[i] = object_json(nodes[i], &session->arena);
    return precheck_nodes_fit(&needs, trees, count, err);
}

static int check_shape(struct session *session,
                       const struct json *spec,
                       const struct json *queue,
                       struct err *err)
{
    struct precheck_wanted wanted = precheck_wanted(spec, queue);
    struct precheck_cluster cluster = {0};
    int64_t limit;

    if (wanted.gpus <= 0)
        return 0;
    limit = queue_limit(session, wanted.kai, &cluster.limit_queue);
    cluster.limited = limit >= 0;
    cluster.limit = limit;
    cluster_gpus(session, &cluster.largest, &cluster.total);
    return precheck_fits(&wanted, &cluster, err);
}

bool precheck_node_lacks(const struct json *node, const char *condition, struct str *ret_words)
{
    bool lacks = false;

    JSON_FOREACH(json_at(node, "status.conditions"), each)
        if (str_is(json_str(json_get(each, "type")), condition) &&
            str_is(json_str(json_get(each, "status")), "False")) {
            lacks = true;
            *ret_words = json_str(json_get(each, "message"));
        }
    return lacks;
}

/* Whether all nodes that can be seen lack it, and there is one. */
static bool all_nodes_lack(struct session *session, const char *condition, struct str *ret_words)
{
    const struct object **nodes;
    size_t count;

    if (session_list(session, &kind_node, "*", NULL, &nodes, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!precheck_node_lacks(object_json(nodes[i], &session->arena), condition, ret_words))
            return false;
    return count > 0;
}

void precheck_say_limits(struct session *session)
{
    struct str words = STR_NONE;

    if (all_nodes_lack(session, "LimitsEnforced", &words))
        session_say(
            session,
            "note: the memory asked for is counted, but nothing stops a job that takes more "
            "(" STR_FMT "); `muster doctor` says what to do",
            STR_ARG(words));
}

static int check_volumes(struct session *session, struct err *err)
{
    struct str words = STR_NONE;

    if (!all_nodes_lack(session, "PodsIsolated", &words))
        return 0;
    return err_set(err, -ENOTSUP,
                   "no node can give the job its workspace (namespaces: " STR_FMT
                   "); run muster doctor to see what to do",
                   STR_ARG(words));
}

/* A queue is known by two names: `queues` shows the scheduling queue's as well, which is all that is meant
 * where one TorchrunQueue leads there. One that nobody has is said to be unknown later. */
static const char *queue_called(struct session *session,
                                const char *name,
                                const struct object **all,
                                size_t count)
{
    const struct object *found = NULL;
    size_t leads = 0;

    for (size_t i = 0; i < count; i++) {
        const struct json *tree = object_json(all[i], &session->arena);

        if (str_is(all[i]->name, name))
            return name;
        if (str_is(precheck_wanted(NULL, tree).kai, name)) {
            found = all[i];
            leads++;
        }
    }
    return leads == 1 ? str_c(&session->arena, found->name) : name;
}

int precheck_choose_queue(struct session *session, const char **ret, struct err *err)
{
    const struct object **all;
    size_t count;
    int r = session_list(session, &kind_torchrunqueue, session->config.ns, NULL, &all, &count, err);

    if (r < 0)
        return r;
    if (*ret) {
        *ret = queue_called(session, *ret, all, count);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        if (count == 1 || str_is(all[i]->name, "default")) {
            *ret = str_c(&session->arena, all[i]->name);
            return 0;
        }
    return err_set(err, -EINVAL,
                   count ? "--queue is needed: there are several, and none is named default "
                           "(`%s queues` lists them)"
                         : "--queue is needed: there is none yet (`%s queues` lists them)",
                   session->program);
}

int precheck_job(struct session *session, const struct json *job, struct err *err)
{
    const struct json *spec = json_get(job, "spec");
    struct str name = job_queue(job);
    struct object *queue = NULL;
    int r;

    if (!name.len)
        return err_set(err, -EINVAL, "the job names no queue: give --queue");
    r = session_get(session, &kind_torchrunqueue, str_c(&session->arena, name), &queue, err);
    if (r == -ENOENT)
        return unknown_queue(session, name, err);
    if (r < 0)
        return r;
    arena_defer(&session->arena, object_release, queue);
    r = check_volumes(session, err);
    if (r == 0)
        r = check_shape(session, spec, object_json(queue, &session->arena), err);
    return r < 0 ? r : check_nodes(session, spec, object_json(queue, &session->arena), err);
}
