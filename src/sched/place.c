#include "sched/place.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/alike.h"
#include "sched/claim.h"
#include "sched/filter.h"
#include "sched/fit.h"
#include "sched/fragment.h"
#include "sched/fragment_best.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/numa.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether the pod fits on the node, and how. */
static enum place_filter try_node(struct sched *sched,
                                  struct pod *pod,
                                  const struct affinity *affinity,
                                  struct node *node,
                                  struct placement *ret)
{
    enum place_filter why = PLACE_OK;

    ret->share_count = 0;
    if (!filter_allowed(sched, pod->shape, node))
        return PLACE_SELECTOR;
    ret->fit = fit_resources(sched, pod, node, &why);
    if (ret->fit == FIT_NO)
        return why;
    if (sched->homed.count) {
        enum fit devices = fit_devices(pod, node);

        if (devices == FIT_NO)
            return PLACE_DEVICE;
        ret->fit = devices < ret->fit ? devices : ret->fit;
    }
    if (pod->shape->shared && pod->home && !fit_shares(sched, pod, node, ret))
        return PLACE_DEVICE;
    if (pod->shape->shared && !pod->home && !fit_shares(sched, pod, node, ret))
        return sched->now_ms < node->shut_ms && node->idle[RES_GPU] > 0 ? PLACE_SHUT : PLACE_GPU;
    if (node->numa && numa_counts(sched, node)) {
        enum fit zones = fit_zones(pod, node, &ret->span);

        if (zones == FIT_NO)
            return PLACE_NUMA;
        ret->fit = zones < ret->fit ? zones : ret->fit;
    }
    if (affinity) {
        enum fit fit = affinity_fit(affinity, node, &why);
        if (fit == FIT_NO)
            return why;
        ret->fit = fit < ret->fit ? fit : ret->fit;
    }
    if (pod->shape->mounts && !node->pool->policy.without_filters) {
        enum fit fit = volumes_fit(sched, pod, node);

        if (fit == FIT_NO)
            return PLACE_VOLUME;
        ret->fit = fit < ret->fit ? fit : ret->fit;
    }
    if (pod->shape->spec.gpu_memory_mib && !queue_allows_pod(sched, pod, node))
        return PLACE_QUEUE;
    if (!queue_allows_model(sched, pod, node))
        return PLACE_QUEUE;
    ret->node = node;
    return PLACE_OK;
}

/* ---- scores ---- */
static double fragment_score(struct sched *sched, const struct pod *pod, const struct node *node)
{
    int64_t growth = fragment_growth(sched, pod, node);

    return (double)-growth;
}

static double candidate_score(const struct sched *sched,
                              const struct pod *pod,
                              const struct node *node)
{
    int64_t free = i64_max(0, node->idle[RES_GPU]) * GPU_MILLI + node->counted[RES_PODS];

    return sched->config.score(&(struct sched_candidate){
        .node = node->name,
        .pod = pod_name(pod),
        .idle_cpu_milli = node->idle[RES_CPU],
        .cpu_milli = node->total[RES_CPU],
        .idle_memory_bytes = node->idle[RES_MEMORY],
        .memory_bytes = node->total[RES_MEMORY],
        .idle_gpu_milli = free,
        .gpu_milli = node->total[RES_GPU] * GPU_MILLI,
    });
}

static double fine_score(struct sched *sched, const struct pod *pod, const struct node *node)
{
    bool gpu = pod_needs_gpu(pod);
    uint32_t res = gpu ? RES_GPU : RES_CPU;
    const struct sched_policy *policy = &node->pool->policy;
    enum sched_strategy strategy = gpu ? policy->gpu_strategy : policy->cpu_strategy;

    if (policy->without_placement)
        return 0;
    if (fragment_strategy(strategy))
        return fragment_score(sched, pod, node);
    if (strategy == SCHED_SCORED)
        return candidate_score(sched, pod, node);
    if (pod->shape->wants_mig && !QUIRK(sched, MIG_PACKING))
        for (size_t i = 0; i < pod->want_count; i++)
            if (pod->wants[i].res >= RES_FIRST_OTHER)
                res = pod->wants[i].res;
    double unused = (double)(node->idle[res] + node->releasing[res]);
    if (strategy == SCHED_SPREAD) {
        int64_t count = gpu && node->spec.gpu_count ? node->spec.gpu_count : node->total[res];
        return count > 0 ? unused / (double)count : 0;
    }
    return -unused; /* the fullest node first */
}

static double wish_score(const struct sched *sched, const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;
    double score = 0;

    if (QUIRK(sched, NO_PREFERENCES))
        return 0;
    for (size_t i = 0; i < spec->node_preference_count; i++)
        if (node_term_matches(node, &spec->node_preferences[i]))
            score += (double)spec->node_preferences[i].weight;
    return filter_tolerates(spec, node, true) ? score : score - 100;
}

/* Where nothing is known of zones, or they are given out as they come, it may be all of them. */
static double zones_score(const struct sched *sched, const struct placement *placement)
{
    const struct numa *numa = placement->node->numa;
    uint32_t span = numa ? numa->zone_count : sched->numa_zones;

    if (placement->span)
        span = placement->span;
    return span ? 1.0 / span : 0;
}

static struct place_score score_of(struct sched *sched,
                                   const struct pod *pod,
                                   const struct affinity *affinity,
                                   const struct placement *placement,
                                   double bonus)
{
    const struct node *node = placement->node;
    struct place_score score = {.coarse = bonus};

    if (pod->nominated && str_eq(pod->nominated->text, node->name))
        score.coarse += 1000000;
    score.coarse += 100000 * affinity_score(affinity, node);
    if (pod->shape->shared && node->pool->policy.gpu_strategy == SCHED_BINPACK &&
        fit_share_open(pod, node))
        score.coarse += 1000;
    if (placement->fit == FIT_IDLE)
        score.coarse += 100;
    score.wish = wish_score(sched, pod, node);
    if (numa_counts(sched, node))
        score.zones = zones_score(sched, placement);
    score.type = !pod_needs_gpu(pod) && !node->total[RES_GPU] && !node->mig;
    score.fine = fine_score(sched, pod, node);
    return score;
}

static bool score_above(struct place_score a, struct place_score b)
{
    if (a.coarse > b.coarse || a.coarse < b.coarse)
        return a.coarse > b.coarse;
    if (a.wish > b.wish || a.wish < b.wish)
        return a.wish > b.wish;
    if (a.zones > b.zones || a.zones < b.zones)
        return a.zones > b.zones;
    if (a.type != b.type)
        return a.type;
    return a.fine > b.fine;
}

/* ---- searches ---- */
static bool nodes_scan(struct sched *sched,
                       struct pod *pod,
                       const struct node_set *set,
                       struct placement *ret)
{
    struct affinity *affinity = affinity_prepare(sched, pod);
    struct place_score best = {0};
    bool found = false;

    affinity_scale(affinity, set);
    for (size_t i = 0; i < set->count; i++) {
        struct placement placement = {.node = set->nodes[i]};

        if (try_node(sched, pod, affinity, set->nodes[i], &placement) != PLACE_OK)
            continue;
        struct place_score score =
            score_of(sched, pod, affinity, &placement, set->bonus ? set->bonus[i] : 0);
        if (found && !score_above(score, best))
            continue;
        found = true;
        best = score;
        *ret = placement;
    }
    return found;
}

/* Keeps the choice in its place, if it is among the best and not like one of them. */
static void choices_add(struct place_choices *choices, const struct place_choice *choice)
{
    size_t at = choices->count;

    for (size_t i = 0; i < choices->count; i++)
        if (choices->alike(choices->user, choices->items[i].placement.node, choice->placement.node))
            return;
    while (at && score_above(choice->score, choices->items[at - 1].score))
        at--;
    choices->more = choices->more || choices->count == choices->most;
    if (at == choices->most)
        return;
    choices->count += choices->count < choices->most;
    for (size_t i = choices->count - 1; i > at; i--)
        choices->items[i] = choices->items[i - 1];
    choices->items[at] = *choice;
}

/* The first node at or above `key` that has room now; failing that the first that will have. */
static bool walk_index(struct sched *sched,
                       struct pod *pod,
                       struct node *root,
                       int which,
                       int64_t key,
                       struct placement *later,
                       struct placement *ret)
{
    /* Where no node has that many GPUs free now, the first that will have them is the answer. */
    bool none_idle =
        which == INDEX_GPU && index_largest(pod->group->queue->pool->index[3], INDEX_IDLE) < key;

    for (struct node *node = index_from(root, which, key); node;
         node = index_next(root, which, node)) {
        struct placement placement = {0};

        if (try_node(sched, pod, NULL, node, &placement) != PLACE_OK)
            continue;
        if (placement.fit == FIT_IDLE) {
            *ret = placement;
            return true;
        }
        if (!later->node)
            *later = placement;
        if (none_idle)
            return false;
    }
    return false;
}

static bool index_lookup(struct sched *sched, struct pod *pod, struct placement *ret)
{
    struct pool *pool = pod->group->queue->pool;
    struct placement later = {0};

    if (pod_needs_gpu(pod)) {
        if (walk_index(sched, pod, pool->index[0], INDEX_GPU, pod->gpus, &later, ret))
            return true;
    } else {
        int64_t cpu = pod->shape->spec.cpu_milli;
        if (walk_index(sched, pod, pool->index[1], INDEX_CPU, cpu, &later, ret) ||
            walk_index(sched, pod, pool->index[2], INDEX_CPU, cpu, &later, ret))
            return true;
    }
    *ret = later;
    return later.node != NULL;
}

static bool pod_indexed(const struct sched *sched, const struct pod *pod)
{
    const struct sched_policy *policy = group_policy(pod->group);
    enum sched_strategy strategy = pod_needs_gpu(pod) ? policy->gpu_strategy : policy->cpu_strategy;

    return !sched->config.plain && pod->shape->local && !pod->shape->scored &&
           !pod->shape->wants_mig && !pod->nominated && !pod->claim_count &&
           !sched->anti_pods.count && !queue_has_models(pod->group->queue) &&
           strategy == SCHED_BINPACK && !(sched->numa_nodes && policy->numa) &&
           !policy->without_placement && (QUIRK(sched, NO_PREFERENCES) || !sched->soft_taints);
}

static bool claims_usable(const struct pod *pod)
{
    for (size_t i = 0; i < pod->claim_count; i++) {
        const struct claim *claim = pod->claims[i];

        if (!claim->known || claim->spec.consumers + claim->holders >= CLAIM_CONSUMERS_MAX)
            return false;
        if (claim->gpu && !claim->from_template && !group_policy(pod->group)->without_proportion &&
            !str_eq(claim->spec.queue, pod->group->queue->name))
            return false;
    }
    return true;
}

bool place_find(struct sched *sched,
                struct pod *pod,
                const struct node_set *set,
                struct placement *ret)
{
    struct pool *pool = pod->group->queue->pool;
    struct node_set all = {.nodes = pool->nodes.items, .count = pool->nodes.count};

    *ret = (struct placement){0};
    if (!claims_usable(pod))
        return false;
    if ((!set || !set->nodes) && pod_indexed(sched, pod))
        return index_lookup(sched, pod, ret);
    if ((!set || !set->nodes) && fragment_indexed(sched, pod)) {
        struct node *node = fragment_best(sched, pod);

        return node && try_node(sched, pod, NULL, node, ret) == PLACE_OK;
    }
    return nodes_scan(sched, pod, set && set->nodes ? set : &all, ret);
}

#define DEVICE_WAYS 16 /* sets of shared devices of one node that a pod is tried on */

void place_choose(struct sched *sched,
                  struct pod *pod,
                  const struct node_set *set,
                  struct place_choices *choices)
{
    const struct pool *pool = pod->group->queue->pool;
    struct node_set all = {.nodes = pool->nodes.items, .count = pool->nodes.count};
    struct affinity *affinity = affinity_prepare(sched, pod);

    if (!set->nodes)
        set = &all;
    affinity_scale(affinity, set);
    for (size_t i = 0; claims_usable(pod) && i < set->count; i++) {
        struct place_choice choice = {.placement = {.node = set->nodes[i]}};

        if (try_node(sched, pod, affinity, set->nodes[i], &choice.placement) != PLACE_OK)
            continue;
        choice.score =
            score_of(sched, pod, affinity, &choice.placement, set->bonus ? set->bonus[i] : 0);
        choices_add(choices, &choice);
        for (uint8_t way = 1; pod->shape->shared && !pod->home && way < DEVICE_WAYS; way++) {
            choice.placement = (struct placement){.node = set->nodes[i], .way = way};
            if (try_node(sched, pod, affinity, set->nodes[i], &choice.placement) != PLACE_OK)
                break;
            choices_add(choices, &choice);
        }
    }
}

static enum place_filter node_verdict(struct sched *sched,
                                      struct pod *pod,
                                      const struct affinity *affinity,
                                      struct node *node)
{
    struct placement placement = {0};

    if (!filter_allowed(sched, pod->shape, node))
        return filter_static(pod->shape, node);
    for (size_t i = 0; i < pod->want_count; i++)
        if (node->total[pod->wants[i].res] < pod->wants[i].amount)
            return PLACE_TOO_SMALL;
    return try_node(sched, pod, affinity, node, &placement);
}

bool place_alike(const struct sched *sched, const struct pod *pod)
{
    return pod->shape->local && !pod->claim_count && !sched->homed.count &&
           !pod->shape->spec.gpu_memory_mib && !sched->anti_pods.count &&
           !queue_has_models(pod->group->queue);
}

/* Whether all nodes that have the same, and the same free, turn the pod away alike. */
static bool counts_by_class(const struct sched *sched, const struct pod *pod)
{
    const struct sched_pod *spec = &pod->shape->spec;

    return !sched->config.plain && !spec->node_selector_count && !spec->node_affinity &&
           !pod->shape->shared && !pod->shape->wants_mig && !pod->home && !sched->numa_nodes;
}

static void count_classes(struct sched *sched,
                          struct pod *pod,
                          const struct pool *pool,
                          uint32_t *ret)
{
    alike_settle(sched);
    MAP_FOREACH(&pool->alike, entry) {
        const struct alike *class = entry->value;

        if (class->key.len)
            ret[node_verdict(sched, pod, NULL, class->nodes.items[0])] +=
                (uint32_t) class->nodes.count;
        for (size_t i = 0; !class->key.len && i < class->nodes.count; i++)
            ret[node_verdict(sched, pod, NULL, class->nodes.items[i])]++;
    }
}

/* Pods of one shape that are turned away alike are counted once a cycle. */
void place_count(struct sched *sched, struct pod *pod, uint32_t ret[static SCHED_FILTER_COUNT + 1])
{
    const struct pool *pool = pod->group->queue->pool;
    struct shape *shape = pod->shape;
    bool alike = place_alike(sched, pod);
    size_t bytes = (SCHED_FILTER_COUNT + 1) * sizeof(*ret);

    memset(ret, 0, bytes);
    if (alike && shape->counted_in == sched->cycle && shape->counted_pool == pool) {
        memcpy(ret, shape->counts, bytes);
        return;
    }
    bool usable = claims_usable(pod);
    struct affinity *affinity = affinity_prepare(sched, pod);
    if (usable && !affinity && alike && counts_by_class(sched, pod))
        count_classes(sched, pod, pool, ret);
    else
        for (size_t i = 0; i < pool->nodes.count; i++)
            ret[usable ? node_verdict(sched, pod, affinity, pool->nodes.items[i]) : PLACE_CLAIM]++;
    if (!alike)
        return;
    if (!shape->counts)
        shape->counts = mem_alloc(bytes);
    memcpy(shape->counts, ret, bytes);
    shape->counted_in = sched->cycle;
    shape->counted_pool = pool;
}
