#include "sched/hopeless.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bounds that need no simulation: counted on empty nodes, so that no set of victims can beat them.
 */

/* How many pods of the shape an empty node holds. */
static int64_t node_holds(const struct sched *sched, const struct pod *pod, const struct node *node)
{
    int64_t most = INT64_MAX;

    if (!filter_allowed(sched, pod->shape, node))
        return 0;
    for (size_t i = 0; i < pod->want_count; i++)
        most = i64_min(most, node->total[pod->wants[i].res] / pod->wants[i].amount);
    return most;
}

static bool tasks_alike(const struct pod_vec *tasks)
{
    for (size_t i = 1; i < tasks->count; i++)
        if (tasks->items[i]->shape != tasks->items[0]->shape || tasks->items[i]->claim_count)
            return false;
    return !tasks->items[0]->claim_count && !tasks->items[0]->shape->shared;
}

/* Sums by the value of a label; nodes without it are nowhere. */
struct sums {
    struct map by_value; /* to an index + 1 */
    VEC(int64_t) totals;
};

static int64_t *sum_at(struct arena *arena, struct sums *sums, struct str value)
{
    const void *known = map_get(&sums->by_value, value);
    uintptr_t index = (uintptr_t)known;

    if (!index) {
        VEC_PUSH(arena, &sums->totals, 0);
        index = sums->totals.count;
        map_set(&sums->by_value, value, (void *)index);
    }
    return &sums->totals.items[index - 1];
}

/* Whether so many pods fit below one value of the label, and there are so many values. Nodes without
 * it are nowhere. */
static bool fit_together(struct sched *sched,
                         const struct pool *pool,
                         const struct pod *pod,
                         struct str label,
                         int64_t pods,
                         size_t values)
{
    struct sums sums = {0};
    int64_t most = 0;

    for (size_t i = 0; i < pool->nodes.count && (most < pods || sums.totals.count < values); i++) {
        const struct node *node = pool->nodes.items[i];
        int64_t count = node_holds(sched, pod, node);
        struct str value = count ? node_label(node, label) : STR_NONE;

        if (!str_is_set(value))
            continue;
        int64_t *sum = sum_at(sched->arena, &sums, value);
        *sum = *sum > INT64_MAX - count ? INT64_MAX : *sum + count;
        most = i64_max(most, *sum);
    }
    map_done(&sums.by_value);
    return most >= pods && sums.totals.count >= values;
}

/* Whether all of them are meant by the term of one of them. */
static bool means_all(const struct sched *sched,
                      const struct sched_pod_term *term,
                      const struct pod_vec *tasks)
{
    for (size_t i = 0; i < tasks->count; i++)
        if (!affinity_term_means(sched, term, pod_ns(tasks->items[0]), tasks->items[i]))
            return false;
    return true;
}

/* Nobody keeps anybody away from a node without the label. */
static bool held_nowhere(const struct sched *sched,
                         const struct pool *pool,
                         const struct pod *pod,
                         struct str label)
{
    for (size_t i = 0; i < pool->nodes.count; i++)
        if (!str_is_set(node_label(pool->nodes.items[i], label)) &&
            node_holds(sched, pod, pool->nodes.items[i]) > 0)
            return false;
    return true;
}

/* Pods that keep away from their own kind need a domain each. */
static bool too_few_domains(struct sched *sched,
                            const struct group *group,
                            const struct pod_vec *tasks)
{
    const struct pod *pod = tasks->items[0];
    const struct sched_pod *spec = &pod->shape->spec;

    for (size_t i = 0; i < spec->anti_affinity_count; i++) {
        struct str label = spec->anti_affinity[i].topology_key;

        if (means_all(sched, &spec->anti_affinity[i], tasks) &&
            !fit_together(sched, group->queue->pool, pod, label, 0, tasks->count) &&
            held_nowhere(sched, group->queue->pool, pod, label))
            return true;
    }
    return false;
}

static bool too_large_together(struct sched *sched,
                               const struct group *group,
                               const struct pod_vec *tasks)
{
    const struct sched_topology_want *want = group->sets[0].topology;

    return want->topology.len && want->required.len &&
           !fit_together(sched, group->queue->pool, tasks->items[0], topology_label(sched, want),
                         (int64_t)tasks->count, 0);
}

int64_t tasks_held_empty(const struct sched *sched,
                         const struct pool *pool,
                         const struct pod_vec *tasks)
{
    int64_t most = (int64_t)tasks->count;
    int64_t held = 0;

    if (!tasks->count || !tasks_alike(tasks))
        return most;
    for (size_t i = 0; i < pool->nodes.count && held < most; i++)
        held += i64_min(most - held, node_holds(sched, tasks->items[0], pool->nodes.items[i]));
    return held;
}

bool pod_fits_nowhere(const struct sched *sched, const struct pool *pool, const struct pod *pod)
{
    struct shape *shape = pod->shape;

    if (pod->claim_count)
        return false;
    if (shape->empty.at != sched->nodes_version + 1 || shape->empty.pool != pool) {
        shape->empty.at = sched->nodes_version + 1;
        shape->empty.pool = pool;
        shape->empty.none = true;
        for (size_t i = 0; shape->empty.none && i < pool->nodes.count; i++)
            shape->empty.none = node_holds(sched, pod, pool->nodes.items[i]) < 1;
    }
    return shape->empty.none;
}

bool tasks_hopeless(struct sched *sched, const struct group *group, const struct pod_vec *tasks)
{
    const struct pool *pool = group->queue->pool;
    const struct pod *pod = tasks->items[0];

    for (size_t i = 0; i < tasks->count; i++)
        if (pod_fits_nowhere(sched, pool, tasks->items[i]))
            return true;
    if (!tasks_alike(tasks) ||
        (tasks->count == 1 && !group->sets[0].topology->topology.len && pod->shape->open))
        return false;
    return tasks_held_empty(sched, pool, tasks) < (int64_t)tasks->count ||
           too_large_together(sched, group, tasks) ||
           (!group_policy(group)->without_filters && too_few_domains(sched, group, tasks));
}
