#include "sched/allocate.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/arrange.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/keep.h"
#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/quota.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"
#include "sched/topology.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- placing ---- */
/* Whether what one pod of the shape could not get is out of reach for the next one too: the first
 * pod of a plain gang looks everywhere, in a round in which room only gets less. */
static bool first_looks_alike(const struct attempt *attempt, const struct pod *pod, size_t index)
{
    const struct sched *sched = attempt->sched;

    return sched->round && !attempt->later && index == 0 && attempt->group->set_count == 2 &&
           !sched->keeps.count && !sched->config.plain && place_alike(sched, pod);
}

static bool place_one(const struct attempt *attempt,
                      struct pod *pod,
                      size_t index,
                      const struct node_set *nodes,
                      struct placement *ret)
{
    struct sched *sched = attempt->sched;
    const struct pool *pool = attempt->group->queue->pool;
    bool everywhere = !nodes || !nodes->nodes;
    bool alike = everywhere && first_looks_alike(attempt, pod, index);

    if (alike && pod->shape->full.in == sched->round && pod->shape->full.pool == pool)
        return false;
    if (place_find(sched, pod, nodes, ret) ||
        (!attempt->later && everywhere && keep_lend(sched, pod, ret)))
        return true;
    if (alike) {
        pod->shape->full.in = sched->round;
        pod->shape->full.pool = pool;
    }
    return false;
}

bool allocate_in_vain(const struct sched *sched, const struct group *group)
{
    const struct pool *pool = group->queue->pool;

    if (group->pods.count != 1 || group->set_count != 2 || group->keep)
        return false;
    const struct pod *pod = group->pods.items[0];
    return pod->status == ST_PENDING && !group->sets[0].topology->topology.len &&
           !group->sets[1].topology->topology.len && !sched->keeps.count && !sched->config.plain &&
           pod->shape->full.in == sched->round && pod->shape->full.pool == pool &&
           place_alike(sched, pod);
}

static bool place_leaf(struct attempt *attempt,
                       const struct pod_vec *tasks,
                       const struct node_set *nodes)
{
    for (size_t i = 0; i < tasks->count; i++) {
        struct placement placement;

        if (!place_one(attempt, tasks->items[i], i, nodes, &placement)) {
            attempt->failure->reason = SCHED_REASON_NO_ROOM;
            attempt->failure->pod = tasks->items[i];
            attempt->failure->placed = i;
            return false;
        }
        attempt_put(attempt, tasks->items[i], &placement);
    }
    return true;
}

static struct pod_vec tasks_below(struct attempt *attempt,
                                  const struct pod_vec *tasks,
                                  uint32_t set)
{
    struct pod_vec some = {0};

    if (attempt->group->set_count == 2) /* its only leaf */
        return *tasks;
    for (size_t i = 0; i < tasks->count; i++)
        if (set_below(attempt->group, tasks->items[i]->set, set))
            VEC_PUSH(attempt->sched->arena, &some, tasks->items[i]);
    return some;
}

static bool place_set_tree(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes);

/* Children one after the other: inner ones first, then leaves, each kind in its order. */
static bool place_children(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes)
{
    const struct group *group = attempt->group;
    uint32_t *children = ARENA_ARRAY(attempt->sched->arena, uint32_t, group->set_count + 1);
    size_t count = 0;

    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next) {
        size_t at = count++;
        bool leaf = group->sets[child].leaf;

        while (at && (group->sets[children[at - 1]].leaf != leaf
                          ? !leaf
                          : set_order(group, child, children[at - 1]) < 0)) {
            children[at] = children[at - 1];
            at--;
        }
        children[at] = child;
    }
    for (size_t i = 0; i < count; i++) {
        struct pod_vec some = tasks_below(attempt, tasks, children[i]);

        if (some.count && !place_set_tree(attempt, children[i], &some, nodes))
            return false;
    }
    return true;
}

static bool place_set_tree(struct attempt *attempt,
                           uint32_t set,
                           const struct pod_vec *tasks,
                           const struct node_set *nodes)
{
    struct sched *sched = attempt->sched;
    struct node_sets choices = {0};

    if (!topology_subsets(sched, attempt->group, set, tasks, nodes, &choices, attempt->failure))
        return false;
    for (size_t i = 0; i < choices.count; i++) {
        struct mark mark = journal_mark(sched);
        bool placed = attempt->group->sets[set].leaf
                          ? place_leaf(attempt, tasks, &choices.items[i])
                          : place_children(attempt, set, tasks, &choices.items[i]);

        if (placed)
            return true;
        journal_rollback(sched, mark);
    }
    if (!choices.count && attempt->failure->reason == SCHED_REASON_NONE)
        attempt->failure->reason = SCHED_REASON_TOPOLOGY;
    return false;
}

/* ---- all or nothing ---- */
static bool verdict_allows(struct failure *failure, enum queue_verdict verdict)
{
    if (verdict != QUEUE_OK)
        failure->reason =
            verdict == QUEUE_OVER_LIMIT ? SCHED_REASON_OVER_LIMIT : SCHED_REASON_OVER_QUOTA;
    return verdict == QUEUE_OK;
}

/* In their order, but for those that have to wait for others of them. */
static bool place_at(struct attempt *attempt, const struct pod_vec *tasks, struct node **nodes)
{
    bool *placed = ARENA_ARRAY(attempt->sched->arena, bool, tasks->count);
    size_t left = tasks->count;
    size_t before = 0;

    while (left && left != before) {
        before = left;
        for (size_t i = 0; i < tasks->count; i++) {
            struct pod_vec one = {.items = &tasks->items[i], .count = 1};

            if (placed[i])
                continue;
            placed[i] =
                place_leaf(attempt, &one, &(struct node_set){.nodes = &nodes[i], .count = 1});
            left -= placed[i];
            if (!placed[i] && !affinity_in_order(attempt->sched, tasks->items[i]->shape))
                return false;
        }
    }
    return !left;
}

/* Anywhere, where no nodes are given. The queues are asked before, with what the tasks cost at
 * least, and after, with what they were charged. */
static bool tasks_allocate(struct attempt *attempt,
                           const struct pod_vec *tasks,
                           const struct node_set *within,
                           struct node **nodes)
{
    struct sched *sched = attempt->sched;
    struct failure *failure = attempt->failure;
    const struct group *group = attempt->group;
    struct queue_sums before[QUEUE_SUMS];
    int64_t request[SCHED_RESOURCES];
    struct mark mark = journal_mark(sched);

    *failure = (struct failure){0};
    tasks_least(sched, tasks, request);
    if (!tasks->count || (!attempt->unbounded &&
                          !verdict_allows(failure, queue_check(group, request, &failure->queue,
                                                               &failure->resource))))
        return false;
    queue_note(group, before);
    if ((nodes ? place_at(attempt, tasks, nodes)
               : (!attempt->accept && place_set_tree(attempt, 0, tasks, within)) ||
                     arrange(attempt, tasks, within)) &&
        (attempt->unbounded ||
         verdict_allows(failure, queue_grew(group, before, &failure->queue, &failure->resource))))
        return true;
    journal_rollback(sched, mark);
    return false;
}

bool allocate_tasks(struct sched *sched,
                    struct group *group,
                    const struct pod_vec *tasks,
                    bool later,
                    struct failure *ret)
{
    struct attempt attempt = {.sched = sched, .group = group, .later = later, .failure = ret};

    return tasks_allocate(&attempt, tasks, &(struct node_set){0}, NULL);
}

bool allocate_within(struct sched *sched,
                     struct group *group,
                     const struct pod_vec *tasks,
                     const struct node_set *within,
                     bool unbounded,
                     struct failure *ret)
{
    struct attempt attempt = {
        .sched = sched, .group = group, .later = true, .unbounded = unbounded, .failure = ret};

    return tasks_allocate(&attempt, tasks, within, NULL);
}

bool allocate_beside(struct attempt *attempt, const struct pod_vec *tasks)
{
    return tasks_allocate(attempt, tasks, &(struct node_set){0}, NULL);
}

bool allocate_at(struct sched *sched,
                 struct group *group,
                 const struct pod_vec *tasks,
                 struct node **nodes,
                 struct failure *ret)
{
    struct attempt attempt = {.sched = sched, .group = group, .failure = ret};

    return tasks_allocate(&attempt, tasks, NULL, nodes);
}

bool pods_stay(struct sched *sched, struct group *group, const struct pod_vec *pods)
{
    struct node **nodes = ARENA_ARRAY(sched->arena, struct node *, pods->count);
    struct mark mark = journal_mark(sched);
    struct failure failure;
    bool good = true;

    for (size_t i = 0; i < pods->count; i++) {
        nodes[i] = pods->items[i]->node;
        good = good && nodes[i];
    }
    good = good && allocate_at(sched, group, pods, nodes, &failure);
    for (size_t i = 0; i < pods->count; i++)
        good = good && pods->items[i]->status == pods->items[i]->was && !pods->items[i]->left;
    if (!good)
        journal_rollback(sched, mark);
    return good;
}

void explain_failure(struct sched *sched, struct group *group, const struct failure *failure)
{
    if (!group->failure)
        group->failure = MEM_NEW(struct failure);
    *group->failure = *failure;
    group->failure->cycle = sched->cycle;
    group->failure->text = STR_NONE;
    if (failure->text.len) {
        size_t len = failure->text.len < sizeof(group->failure->words)
                         ? failure->text.len
                         : sizeof(group->failure->words);
        memcpy(group->failure->words, failure->text.p, len);
        group->failure->text = (struct str){group->failure->words, len};
    }
}
