#include "sched/event.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/device.h"
#include "sched/filter.h"
#include "sched/journal.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/numa.h"
#include "sched/pack.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tenant.h"
#include "sched/topology.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nodes, queues, classes and topologies. Each event costs what the object itself is worth;
 * only queue, class and node-shape changes leave work (flags) for the next cycle to do once. */

/* ---- nodes ---- */
void node_totals(struct sched *sched, struct node *node)
{
    const struct sched_node *spec = &node->spec;
    int64_t total[RES_MAX] = {0};

    total[RES_CPU] = spec->cpu_milli;
    total[RES_MEMORY] = spec->memory_bytes;
    total[RES_GPU] = spec->gpus ? spec->gpus : node->device_gpus;
    total[RES_PODS] = spec->pods;
    for (size_t i = 0; i < spec->amount_count; i++) {
        uint32_t res = res_id(sched, spec->amounts[i].name);

        if (res != RES_NONE)
            total[res] = spec->amounts[i].amount;
    }
    for (size_t r = 0; r < sched->resources.count; r++) {
        node->idle[r] += total[r] - node->total[r];
        node->total[r] = total[r];
    }
}

static bool names_mig(const struct sched_node *spec)
{
    for (size_t i = 0; i < spec->amount_count; i++)
        if (spec->amounts[i].amount > 0 &&
            str_starts(spec->amounts[i].name, STR("nvidia.com/mig-")))
            return true;
    return false;
}

/* MiB of one device. Where a device's size is not known, a device is divided into 100 parts. */
static int64_t node_gpu_memory(const struct sched *sched, const struct sched_node *spec)
{
    if (spec->gpu_memory_mib <= 0)
        return 100;
    if (QUIRK(sched, GPU_MEMORY_ROUND))
        return i64_max(100, spec->gpu_memory_mib - spec->gpu_memory_mib % 100);
    return spec->gpu_memory_mib;
}

/* A change of memory per device changes what shares count: take the pods off and put them back. */
static void node_set_memory(struct sched *sched, struct node *node, int64_t memory)
{
    VEC(struct pod *) pods = {0};

    if (memory == node->gpu_memory)
        return;
    for (size_t i = 0; i < node->pods.count; i++)
        if (node->pods.items[i]->shape->shared)
            VEC_PUSH(NULL, &pods, node->pods.items[i]);
    struct whereabouts *places = mem_alloc((pods.count + 1) * sizeof(*places));
    for (size_t i = 0; i < pods.count; i++) {
        places[i] = pod_whereabouts(pods.items[i]);
        pod_set(sched, pods.items[i], ST_PENDING, NULL, NULL, 0);
    }
    node->gpu_memory = memory;
    for (size_t i = 0; i < pods.count; i++)
        pod_put_back(sched, pods.items[i], &places[i]);
    mem_free(places);
    VEC_DONE(&pods);
}

static bool softly_tainted(const struct node *node)
{
    for (size_t i = 0; i < node->spec.taint_count; i++)
        if (node->spec.taints[i].effect == SCHED_PREFER_NO_SCHEDULE)
            return true;
    return false;
}

/* What its pods hold is counted by the model where a queue limits that. */
static void node_set_model(struct sched *sched, struct node *node)
{
    struct str model = node_label(node, STR(SCHED_MODEL_LABEL));

    if (str_eq(model, node->model))
        return;
    sched->queues_dirty = sched->queues_dirty || sched->models;
    heap_str_free(node->model);
    node->model = heap_str(model);
}

void sched_put_node(struct sched *sched, const struct sched_node *spec)
{
    struct node *node = node_get(sched, spec->name, true);

    sched->soft_taints -= softly_tainted(node);
    index_remove(node);
    if (!node->known && sched->devices->slices.count)
        sched->devices->dirty = true; /* some may be its own */
    if (!node->known || !str_eq(node->pool->name, spec->pool))
        sched->ranks_valid = false;
    mem_free(node->block);
    pack_node(spec, &node->spec, &node->block);
    node->known = true;
    node_set_model(sched, node);
    node->pool = pool_get(sched, spec->pool);
    numa_policy_changed(sched, node);
    node->ready = !spec->not_ready && !(spec->unschedulable && QUIRK(sched, NEVER_CORDONED));
    node->schedulable = node->ready && !spec->unschedulable;
    node->untainted = !spec->taint_count && !spec->unschedulable;
    sched->soft_taints += softly_tainted(node);
    node->mig = spec->mig_enabled || (!spec->mig_disabled && names_mig(spec));
    node_totals(sched, node);
    node_set_memory(sched, node, node_gpu_memory(sched, spec));
    index_update(sched, node);
    shape_node_changed(sched, node->slot);
    sched->totals_dirty = true;
    sched->nodes_version++;
    sched->changed = true;
}

void sched_share_opened(struct sched *sched, struct str name, bool failed, int64_t now_ms)
{
    struct node *node = node_get(sched, name, false);

    tapped(sched, &(struct sched_input){
                      .kind = SCHED_INPUT_SHARE, .name = name, .failed = failed, .now_ms = now_ms});
    if (!node || now_ms < node->shut_ms) /* somebody else who asked it at the same time */
        return;
    if (!failed) {
        node->shut_count = 0;
        return;
    }
    node->shut_ms = now_ms + rest_ms(&node->shut_count, SCHED_SHUT_MIN_MS, SCHED_SHUT_MAX_MS);
    sched->changed = true;
}

void sched_drop_node(struct sched *sched, struct str name)
{
    struct node *node = node_get(sched, name, false);

    if (!node || !node->known)
        return;
    index_remove(node);
    sched->soft_taints -= softly_tainted(node);
    node->known = false;
    node->ready = false;
    node->schedulable = false;
    node->spec = (struct sched_node){.name = node->name};
    node_set_model(sched, node);
    mem_free(node->block);
    node->block = NULL;
    node_totals(sched, node);
    sched->ranks_valid = false;
    sched->totals_dirty = true;
    sched->nodes_version++;
    shape_node_changed(sched, node->slot);
    for (size_t i = node->pods.count; i-- > 0;) {
        struct pod *pod = node->pods.items[i];
        if (pod->status == ST_PIPELINED || (pod->status == ST_BINDING && !pod->observed_node))
            pod_unplanned(sched, pod);
    }
    sched->changed = true;
    node_release(sched, node);
}

/* ---- queues, classes, topologies ---- */
static bool amount_same(double a, double b)
{
    return !islessgreater(a, b);
}

static bool quota_eq(const struct sched_quota *a, const struct sched_quota *b)
{
    return amount_same(a->quota, b->quota) && amount_same(a->limit, b->limit) &&
           amount_same(a->weight, b->weight);
}

static bool models_same(const struct sched_queue *a, const struct sched_queue *b)
{
    if (a->model_count != b->model_count)
        return false;
    for (size_t i = 0; i < a->model_count; i++)
        if (!str_eq(a->models[i].model, b->models[i].model) ||
            !amount_same(a->models[i].limit, b->models[i].limit))
            return false;
    return true;
}

/* Whether the event says nothing new; see group_says(). */
static bool queue_says(const struct queue *queue, const struct sched_queue *spec)
{
    const struct sched_queue *has = &queue->spec;

    if (!queue->known)
        return false;
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!quota_eq(&has->quota[r], &spec->quota[r]) || has->unset[r] != spec->unset[r] ||
            !amount_same(has->usage[r], spec->usage[r]))
            return false;
    return str_eq(has->name, spec->name) && str_eq(has->parent, spec->parent) &&
           str_eq(has->pool, spec->pool) && has->created_ms == spec->created_ms &&
           has->priority == spec->priority && has->order == spec->order && models_same(has, spec) &&
           tenants_same(&has->tenants, &spec->tenants) && has->lends == spec->lends &&
           has->loss == spec->loss && has->preempt_min_runtime_ms == spec->preempt_min_runtime_ms &&
           has->reclaim_min_runtime_ms == spec->reclaim_min_runtime_ms;
}

void sched_put_queue(struct sched *sched, const struct sched_queue *spec)
{
    struct queue *queue = queue_get(sched, spec->name, true);

    if (queue_says(queue, spec))
        return;
    mem_free(queue->block);
    pack_queue(spec, &queue->spec, &queue->block);
    queue->known = true;
    sched->models = sched->models || spec->model_count;
    sched->tenants = sched->tenants || spec->tenants.closed;
    sched->queues_dirty = true;
    sched->changed = true;
}

void sched_drop_queue(struct sched *sched, struct str name)
{
    struct queue *queue = queue_get(sched, name, false);

    if (!queue)
        return;
    queue->known = false;
    sched->queues_dirty = true;
    sched->changed = true;
}

void sched_put_priority_class(struct sched *sched, const struct sched_priority_class *spec)
{
    struct sched_priority_class *class = map_get(&sched->classes, spec->name);

    if (!class) {
        class = MEM_NEW(struct sched_priority_class);
        class->name = heap_str(spec->name);
        map_set(&sched->classes, class->name, class);
    }
    class->value = spec->value;
    class->global_default = spec->global_default;
    sched->queues_dirty = true; /* priorities are looked up again when groups are linked */
    sched->changed = true;
}

void sched_drop_priority_class(struct sched *sched, struct str name)
{
    struct sched_priority_class *class = map_remove(&sched->classes, name);

    if (!class)
        return;
    heap_str_free(class->name);
    mem_free(class);
    sched->queues_dirty = true;
    sched->changed = true;
}

void sched_put_topology(struct sched *sched, const struct sched_topology *spec)
{
    struct topology *topology = map_get(&sched->topologies, spec->name);

    if (!topology) {
        topology = MEM_NEW(struct topology);
        topology->name = heap_str(spec->name);
        map_set(&sched->topologies, topology->name, topology);
    }
    mem_free(topology->block);
    pack_topology(spec, &topology->spec, &topology->block);
    sched->nodes_version++;
    sched->changed = true;
}

void sched_drop_topology(struct sched *sched, struct str name)
{
    struct topology *topology = map_remove(&sched->topologies, name);

    if (!topology)
        return;
    mem_free(topology->block);
    heap_str_free(topology->name);
    mem_free(topology);
    sched->nodes_version++;
    sched->changed = true;
}

/* ---- namespaces ---- */
static bool space_says(const struct sched_namespace *has, const struct sched_namespace *spec)
{
    if (has->label_count != spec->label_count)
        return false;
    for (size_t i = 0; i < spec->label_count; i++)
        if (!str_eq(has->labels[i].key, spec->labels[i].key) ||
            !str_eq(has->labels[i].value, spec->labels[i].value))
            return false;
    return true;
}

void sched_put_namespace(struct sched *sched, const struct sched_namespace *spec)
{
    const struct sched_namespace *has = map_get(&sched->namespaces, spec->name);

    if (has && space_says(has, spec))
        return;
    struct sched_namespace *packed = pack_namespace(spec);
    mem_free(map_set(&sched->namespaces, packed->name, packed));
    sched->changed = true;
}

void sched_drop_namespace(struct sched *sched, struct str name)
{
    struct sched_namespace *space = map_remove(&sched->namespaces, name);

    sched->changed = sched->changed || space;
    mem_free(space);
}
