#include "sched/charge.h"

#include "base/str.h"
#include "base/vec.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What pods and groups count for in their queue and in those above it. */

/* ---- what a pod is charged, and what it asks ---- */
/* GPUs of shared devices in thousandths, in steps of a hundredth as KAI counts them. */
static int64_t share_charge(const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;
    int64_t hundredths = 0;

    if (spec->gpu_memory_mib > 0) {
        int64_t memory = i64_max(1, node->gpu_memory);
        hundredths = (spec->gpu_memory_mib * 100 + memory - 1) / memory;
    } else {
        hundredths = (spec->gpu_fraction_micro + GPU_FRACTION / 200) / (GPU_FRACTION / 100);
    }
    return hundredths * (GPU_MILLI / 100) * pod->shape->devices;
}

void pod_charge(const struct sched *sched,
                const struct pod *pod,
                const struct node *node,
                int64_t ret[static SCHED_RESOURCES])
{
    (void)sched;
    ret[SCHED_CPU] = pod->shape->spec.cpu_milli;
    ret[SCHED_MEMORY] = pod->shape->spec.memory_bytes;
    ret[SCHED_GPU] = (pod->gpus + pod->shape->mig_slices) * GPU_MILLI;
    if (pod->shape->shared)
        ret[SCHED_GPU] += share_charge(pod, node);
}

/* GPUs of a gpu-memory request on devices of that size, in thousandths. */
static int64_t memory_charge(const struct pod *pod, int64_t memory)
{
    return pod->shape->devices * pod->shape->spec.gpu_memory_mib * GPU_MILLI / i64_max(1, memory);
}

static int64_t pending_gpu_charge(const struct sched *sched, const struct pod *pod)
{
    const struct pool *pool = pod->group && pod->group->queue ? pod->group->queue->pool : NULL;
    bool known = !QUIRK(sched, GPU_MEMORY_100) && pool && pool->min_gpu_memory;

    return memory_charge(pod, known ? pool->min_gpu_memory : 100);
}

int64_t pod_ask_spared(const struct sched *sched, const struct pod *pod)
{
    const struct pool *pool = pod->group && pod->group->queue ? pod->group->queue->pool : NULL;

    if (!pod->shape->spec.gpu_memory_mib || QUIRK(sched, GPU_MEMORY_100) || !pool ||
        !pool->max_gpu_memory)
        return 0;
    return pending_gpu_charge(sched, pod) - memory_charge(pod, pool->max_gpu_memory);
}

int64_t claim_ask(const struct sched *sched, const struct pod *pod, size_t index)
{
    const struct claim *claim = pod->claims[index];

    if (QUIRK(sched, CLAIM_PER_POD))
        return pod->wants[pod->shape->want_count + index].amount;
    return claim->known && claim->asker == pod ? claim->spec.device_count : 0;
}

void pod_ask(const struct sched *sched, struct pod *pod)
{
    static const struct node whole = {.gpu_memory = 100};
    const struct shape *shape = pod->shape;

    pod_charge(sched, pod, &whole, pod->ask);
    pod->ask[SCHED_GPU] -= pod->gpus * GPU_MILLI;
    if (shape->spec.gpu_memory_mib)
        pod->ask[SCHED_GPU] = pending_gpu_charge(sched, pod);
    pod->ask[SCHED_GPU] += (shape->shared ? 0 : shape->spec.gpus) * GPU_MILLI;
    for (size_t i = 0; i < pod->claim_count; i++)
        if (pod->claims[i]->gpu)
            pod->ask[SCHED_GPU] += claim_ask(sched, pod, i) * GPU_MILLI;
}

/* ---- on the queues ---- */
/* Of what it is charged, what counts as not preemptible in a group that is not. */
static int64_t fixed_part(const struct pod *pod, int r)
{
    int64_t claims = r == SCHED_GPU ? (int64_t)pod->claims_fixed - pod->claims_paid : 0;

    return pod->charge[r] + claims * GPU_MILLI;
}

/* GPUs of the node's model, in the queues that limit it. */
static void models_weigh(struct queue *queue, const struct node *node, int64_t amount)
{
    for (; queue; queue = queue->parent)
        for (size_t i = 0; i < queue->spec.model_count; i++)
            if (str_eq(queue->spec.models[i].model, node->model))
                queue->models[i] += amount;
}

/* A suspended pod waits for its GPUs alone: its CPUs and memory are its queue's all the time, or a
 * queue would have as much more as it suspends. */
void pod_weigh_kept(const struct pod *pod, int64_t sign)
{
    const struct group *group = pod->group;

    if (!pod->home || !group || pod->set == SET_NONE || !pod->ours)
        return;
    const int64_t *kept = pod_rare(pod)->kept;
    for (int r = 0; r < SCHED_RESOURCES && group->queue && group->payer; r++)
        group->payer->held[r] += sign * kept[r];
    for (struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            queue->allocated[r] += sign * kept[r];
            if (!group->preemptible)
                queue->fixed[r] += sign * kept[r];
        }
}

void pod_weigh(const struct pod *pod, int64_t sign)
{
    const struct group *group = pod->group;

    if (!group || pod->set == SET_NONE || !pod->ours)
        return;
    bool active = pod_is_charged(pod);
    if (!active && pod->status != ST_PENDING)
        return;
    if (active && pod->node && pod->charge[SCHED_GPU])
        models_weigh(group->queue, pod->node, sign * pod->charge[SCHED_GPU]);
    for (int r = 0; r < SCHED_RESOURCES && active && group->queue && group->payer; r++)
        group->payer->held[r] += sign * pod->charge[r];
    for (struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            if (!active) {
                queue->asked[r] += sign * pod->ask[r];
                continue;
            }
            queue->allocated[r] += sign * pod->charge[r];
            if (!group->preemptible)
                queue->fixed[r] += sign * fixed_part(pod, r);
        }
}

/* Adds or takes off what the group's pods count for in its queue and above. */
void group_weigh(struct group *group, int64_t sign)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        pod_weigh(group->pods.items[i], sign);
        pod_weigh_kept(group->pods.items[i], sign);
    }
    for (struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue->fixed[r] += sign * group->core[r];
}

void group_core(const struct group *group, int64_t ret[static SCHED_RESOURCES])
{
    VEC(struct pod *) pods = {0};

    memset(ret, 0, SCHED_RESOURCES * sizeof(*ret));
    for (uint32_t s = 1; group->semi && s < group->set_count; s++) {
        pods.count = 0;
        for (size_t i = 0; group->sets[s].leaf && i < group->pods.count; i++) {
            struct pod *pod = group->pods.items[i];

            if (pod->set != s || !pod->ours || !pod_is_charged(pod))
                continue;
            VEC_PUSH(NULL, &pods, pod);
            ret[SCHED_GPU] += pod->claims_fixed * GPU_MILLI;
        }
        if (pods.count > 1)
            qsort(pods.items, pods.count, sizeof(*pods.items), pod_order_qsort);
        for (size_t i = 0; i < pods.count && (int64_t)i < group->sets[s].min; i++) {
            for (int r = 0; r < SCHED_RESOURCES; r++)
                ret[r] += pods.items[i]->charge[r];
            ret[SCHED_GPU] -= pods.items[i]->claims_paid * GPU_MILLI;
        }
    }
    VEC_DONE(&pods);
}

void group_charge_core(struct group *group)
{
    int64_t core[SCHED_RESOURCES];

    group_core(group, core);
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        for (struct queue *queue = group->queue; queue; queue = queue->parent)
            queue->fixed[r] += core[r] - group->core[r];
        group->core[r] = core[r];
    }
}
