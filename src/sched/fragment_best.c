#include "sched/fragment_best.h"

#include "base/mem.h"
#include "base/vec.h"
#include "sched/filter.h"
#include "sched/fit.h"
#include "sched/fragment.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room that is not free yet comes behind all that is, GPU nodes behind others for CPU pods: more
 * than any growth, which is below 8 devices of 1000 parts of everybody. */
#define RELEASING (INT64_C(1) << 60)
#define WITH_GPUS (INT64_C(1) << 58)

bool fragment_indexed(const struct sched *sched, const struct pod *pod)
{
    const struct shape *shape = pod->shape;
    const struct sched_pod *spec = &shape->spec;
    const struct sched_policy *policy = group_policy(pod->group);
    bool preferred = spec->affinity_preference_count || spec->anti_affinity_preference_count ||
                     spec->spread_count ||
                     (!QUIRK(sched, NO_PREFERENCES) && spec->node_preference_count);

    return sched->fragment && !sched->config.plain && shape->local && !preferred &&
           !shape->wants_mig && !pod->nominated && !pod->claim_count && !sched->anti_pods.count &&
           !queue_has_models(pod->group->queue) && shape->devices <= 1 && !spec->gpu_memory_mib &&
           !policy->without_placement && (QUIRK(sched, NO_PREFERENCES) || !sched->soft_taints) &&
           !(sched->numa_nodes && policy->numa) &&
           fragment_strategy(pod_needs_gpu(pod) ? policy->gpu_strategy : policy->cpu_strategy);
}

static bool ends_shares(const struct node *node)
{
    for (uint32_t i = 0; i < node->share_count; i++)
        if (node->shares[i].live && (node->shares[i].releasing || node->shares[i].pipelined))
            return true;
    return false;
}

static int64_t score_of(struct sched *sched, struct pod *pod, struct node *node)
{
    struct placement placement = {0};
    enum place_filter why = PLACE_OK;

    if (!filter_allowed(sched, pod->shape, node))
        return FRAGMENT_NO_ROOM;
    placement.fit = fit_resources(sched, pod, node, &why);
    if (placement.fit == FIT_NO)
        return FRAGMENT_NO_ROOM;
    /* Where nobody is leaving, any device that has as much left will do. */
    bool leaving = node->releasing[RES_GPU] || node->shut_ms || ends_shares(node);
    if (pod->shape->shared && leaving && !fit_shares(sched, pod, node, &placement))
        return FRAGMENT_NO_ROOM;
    int64_t growth = fragment_growth(sched, pod, node);
    if (growth == FRAGMENT_NO_ROOM)
        return FRAGMENT_NO_ROOM;
    return growth + (placement.fit == FIT_IDLE ? 0 : RELEASING) +
           (!pod_needs_gpu(pod) && (node->total[RES_GPU] || node->mig) ? WITH_GPUS : 0);
}

/* What a shape would do to each node, by slot, as of that place in sched->room_changes. */
struct shape_scores {
    const struct pool *pool;
    uint64_t nodes_version;
    uint32_t epoch;
    uint32_t room_epoch;
    size_t seen;
    size_t count;
    int64_t items[];
};

/* The scores of a shape on the nodes of its pool, by slot, brought up to date. */
static int64_t *scores_of(struct sched *sched, struct pod *pod)
{
    uint32_t epoch = fragment_epoch(sched);
    const struct pool *pool = pod->group->queue->pool;
    struct shape_scores *scores = pod->shape->scores;
    size_t count = sched->nodes.count;

    bool afresh = !scores || scores->epoch != epoch || scores->room_epoch != sched->room_epoch ||
                  scores->pool != pool || scores->nodes_version != sched->nodes_version ||
                  scores->count != count || sched->room_changes.count - scores->seen > count;
    if (afresh) {
        mem_free(scores);
        scores = mem_alloc(sizeof(*scores) + count * sizeof(scores->items[0]));
        pod->shape->scores = scores;
        *scores = (struct shape_scores){.pool = pool,
                                        .nodes_version = sched->nodes_version,
                                        .epoch = epoch,
                                        .room_epoch = sched->room_epoch,
                                        .seen = sched->room_changes.count,
                                        .count = count};
        for (size_t i = 0; i < count; i++)
            scores->items[i] = FRAGMENT_NO_ROOM;
        for (size_t i = 0; i < pool->nodes.count; i++)
            scores->items[pool->nodes.items[i]->slot] = score_of(sched, pod, pool->nodes.items[i]);
        return scores->items;
    }
    for (; scores->seen < sched->room_changes.count; scores->seen++) {
        struct node *node = sched->nodes.items[sched->room_changes.items[scores->seen]];
        if (node && node->pool == pool)
            scores->items[node->slot] = score_of(sched, pod, node);
    }
    return scores->items;
}

struct node *fragment_best(struct sched *sched, struct pod *pod)
{
    const int64_t *scores = scores_of(sched, pod);
    struct node *best = NULL;
    int64_t least = FRAGMENT_NO_ROOM - 1;

    for (size_t i = 0; i < sched->nodes.count; i++) {
        if (scores[i] > least)
            continue;
        struct node *node = sched->nodes.items[i];
        if (scores[i] == least && best && node->rank > best->rank)
            continue; /* ties go to the first name */
        least = scores[i];
        best = node;
    }
    return best;
}
