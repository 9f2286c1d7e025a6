#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/alike.h"
#include "sched/closers.h"
#include "sched/event.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/state.h"
#include "sched/verify.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The structures that make decisions cheap, held against what they stand for. */

/* ---- the capacity indexes ---- */
static const struct {
    int root; /* of pool->index */
    int which;
    bool gpus; /* holds nodes with GPUs, else those without */
} trees[] = {{0, INDEX_GPU, true},
             {1, INDEX_CPU, false},
             {2, INDEX_CPU, true},
             {3, INDEX_IDLE, true}};

static int64_t key_of(const struct node *node, int which)
{
    uint32_t res = which == INDEX_CPU ? RES_CPU : RES_GPU;

    return node->idle[res] + (which == INDEX_IDLE ? 0 : node->releasing[res]);
}

/* A heap by priority below every node. */
static bool heap_holds(const struct node *node, int which)
{
    const struct node *below[] = {node->links[which].left, node->links[which].right};

    for (size_t i = 0; i < 2; i++)
        if (below[i] && below[i]->links[which].priority > node->links[which].priority)
            return false;
    return true;
}

static int verify_tree(const struct pool *pool, size_t tree, struct err *err)
{
    struct node *top = pool->index[trees[tree].root];
    int which = trees[tree].which;
    const struct node *last = NULL;
    size_t count = 0;
    size_t wanted = 0;

    for (const struct node *node = index_from(top, which, INT64_MIN); node;
         node = index_next(top, which, node)) {
        int64_t key = key_of(node, which);

        if (key != node->links[which].key || !heap_holds(node, which) ||
            (last && (last->links[which].key > key ||
                      (last->links[which].key == key && last->rank >= node->rank))))
            return err_set(err, -EINVAL, "index %zu: node " STR_FMT " is out of order", tree,
                           STR_ARG(node->name));
        last = node;
        count++;
    }
    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];
        wanted += node->ready && (node->total[RES_GPU] > 0 || node->mig) == trees[tree].gpus;
    }
    return count == wanted ? 0
                           : err_set(err, -EINVAL, "index %zu has %zu nodes, should have %zu", tree,
                                     count, wanted);
}

static int verify_sums(const struct pool *pool, struct err *err)
{
    int64_t room[RES_PODS] = {0};
    int64_t idle[RES_PODS] = {0};
    int64_t whole[RES_PODS] = {0};
    int64_t parts = 0;

    for (size_t i = 0; i < pool->nodes.count; i++) {
        const struct node *node = pool->nodes.items[i];

        for (int r = 0; node->ready && r < RES_PODS; r++) {
            room[r] += node->idle[r] + node->releasing[r];
            idle[r] += node->schedulable ? i64_max(0, node->idle[r]) : 0;
            whole[r] += node->schedulable ? node->total[r] : 0;
        }
        parts += node->counted[RES_PODS];
    }
    if (memcmp(room, pool->room, sizeof(room)) != 0 ||
        memcmp(idle, pool->idle, sizeof(idle)) != 0 ||
        memcmp(whole, pool->whole, sizeof(whole)) != 0 || parts != pool->parts)
        return err_set(err, -EINVAL, "pool \"" STR_FMT "\": sums of its nodes are off",
                       STR_ARG(pool->name));
    return 0;
}

/* ---- queues ---- */
static int verify_place(const struct queue *queue, const struct group *group, struct err *err)
{
    bool active = group->in_active != LIST_NONE;
    int elastic = active ? group_elastic(group) : 0;
    bool sorted = group->in_sorted && group->sorted_at < queue->sorted.count &&
                  queue->sorted.items[group->sorted_at] == group;
    bool noted = group->in_unsorted && group->unsorted_at < queue->unsorted.count &&
                 queue->unsorted.items[group->unsorted_at] == group;

    if (sorted != group->in_sorted || noted != group->in_unsorted ||
        (active && !noted && (!sorted || group->sorted_elastic != elastic)))
        return err_set(err, -EINVAL, "group " STR_FMT " is missing in the order of victims",
                       STR_ARG(group->key));
    if ((group->in_frail != LIST_NONE) != (elastic < 0))
        return err_set(err, -EINVAL, "group " STR_FMT ": wrongly among the frail",
                       STR_ARG(group->key));
    return 0;
}

static int verify_order(const struct queue *queue, struct err *err)
{
    const struct group *last = NULL;

    for (size_t i = 0; i < queue->sorted.count; i++) {
        const struct group *group = queue->sorted.items[i];

        if (!group)
            continue;
        if (last && group_order(last, last->sorted_elastic, group, group->sorted_elastic) >= 0)
            return err_set(err, -EINVAL,
                           "queue " STR_FMT ": victims " STR_FMT " and " STR_FMT
                           " are out of order",
                           STR_ARG(queue->name), STR_ARG(last->key), STR_ARG(group->key));
        last = group;
    }
    return 0;
}

static int verify_priorities(const struct queue *queue, struct err *err)
{
    int64_t counted = 0;

    for (size_t p = 0; p < queue->priorities.count; p++) {
        int64_t count = queue->priorities.items[p].count;

        counted += count;
        for (size_t i = 0; i < queue->active.count; i++)
            count -= queue->active.items[i]->priority == queue->priorities.items[p].priority;
        if (count)
            return err_set(err, -EINVAL, "queue " STR_FMT ": counts by priority are off",
                           STR_ARG(queue->name));
    }
    return counted == (int64_t)queue->active.count
               ? 0
               : err_set(err, -EINVAL, "queue " STR_FMT ": %lld of %zu groups have a priority",
                         STR_ARG(queue->name), (long long)counted, queue->active.count);
}

static int verify_lists(const struct queue *queue, struct err *err)
{
    int r = verify_order(queue, err);
    size_t odd = 0;

    for (size_t i = 0; i < queue->groups.count; i++)
        odd += queue->groups.items[i]->odd;
    if (!r && odd != queue->odd)
        r = err_set(err, -EINVAL, "queue " STR_FMT ": %zu groups are counted as odd, %zu are",
                    STR_ARG(queue->name), queue->odd, odd);
    for (size_t i = 0; i < queue->groups.count && !r; i++)
        r = verify_place(queue, queue->groups.items[i], err);
    return r ? r : verify_priorities(queue, err);
}

/* ---- remembered filter results ---- */
static int verify_shape(const struct sched *sched, const struct shape *shape, struct err *err)
{
    for (size_t i = 0; i < sched->nodes.count && i / 64 < shape->word_count; i++) {
        const struct node *node = sched->nodes.items[i];
        uint64_t bit = UINT64_C(1) << (i % 64);

        if (!node || !(shape->known[i / 64] & bit))
            continue;
        if (((shape->allowed[i / 64] & bit) != 0) != (filter_static(shape, node) == PLACE_OK))
            return err_set(err, -EINVAL, "node " STR_FMT ": what shape %u may do is out of date",
                           STR_ARG(node->name), shape->id);
    }
    return 0;
}

/* ---- held room ---- */

/* Room is held in the place of somebody who was there, for a group that is known, and not beyond
 * its time; after the cycle that ended it, and before news that may have cut it. */
static int verify_hold(const struct sched *sched, const struct pod *pod, struct err *err)
{
    bool fresh = !sched->changed;

    if (!pod->stand_in)
        return pod->staying
                   ? 0
                   : err_set(err, -EINVAL, "pod " STR_FMT " is listed as one that holds room",
                             STR_ARG(pod_key(pod)));
    if (pod->status != ST_RUNNING || !pod->group || !pod->node)
        return err_set(err, -EINVAL, "held room " STR_FMT " has no group or no node",
                       STR_ARG(pod_key(pod)));
    if (fresh && (!pod->group->known || !pod->node->known || !pod->node->schedulable))
        return err_set(err, -EINVAL, "held room " STR_FMT " is of no use to anybody",
                       STR_ARG(pod_key(pod)));
    if (fresh && stand_in_until(pod) <= sched->now_ms)
        return err_set(err, -EINVAL, "held room " STR_FMT " is held beyond its time",
                       STR_ARG(pod_key(pod)));
    return 0;
}

/* The list and the numbers of groups say the same as the pods. */
static int verify_holds(const struct sched *sched, struct err *err)
{
    size_t listed = 0;
    size_t counted = 0;
    int r = 0;

    for (size_t i = 0; i < sched->holds.count && !r; i++) {
        listed += sched->holds.items[i]->stand_in;
        r = verify_hold(sched, sched->holds.items[i], err);
    }
    MAP_FOREACH(&sched->groups_by_key, entry) {
        const struct group *group = entry->value;
        size_t own = 0;

        for (size_t i = 0; i < group->pods.count; i++)
            own += group->pods.items[i]->stand_in;
        if (!r && own != group->stand_ins)
            r = err_set(err, -EINVAL, "group " STR_FMT ": %zu places are held and %u are counted",
                        STR_ARG(group->key), own, group->stand_ins);
        counted += own;
    }
    if (!r && listed != counted)
        r = err_set(err, -EINVAL, "%zu places are held and %zu are listed", counted, listed);
    return r;
}

int verify_structures(const struct sched *sched, struct err *err)
{
    int r = 0;

    for (size_t i = 0; i < sched->pools.count && !r && sched->ranks_valid; i++) {
        for (size_t tree = 0; tree < COUNT_OF(trees) && !r; tree++)
            r = verify_tree(sched->pools.items[i], tree, err);
        r = r ? r : verify_sums(sched->pools.items[i], err);
        r = r ? r : alike_verify(sched, sched->pools.items[i], err);
    }
    for (size_t i = 0; i < sched->queues.count && !r && !sched->queues_dirty; i++)
        r = verify_lists(sched->queues.items[i], err);
    for (size_t i = 0; i < sched->nodes.count && !r && !sched->queues_dirty; i++)
        r = sched->nodes.items[i] ? closers_verify(sched, sched->nodes.items[i], err) : 0;
    MAP_FOREACH(&sched->shapes, entry)
        r = r ? r : verify_shape(sched, entry->value, err);
    return r ? r : verify_holds(sched, err);
}
