#include "sched/keep.h"

#include "base/arena.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/runtime.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void slot_count(const struct keep_slot *slot, int64_t sign)
{
    const struct pod *pod = slot->pod;

    for (size_t i = 0; i < pod->want_count; i++)
        slot->node->releasing[slot->wants[i].res] -= sign * slot->wants[i].amount;
    slot->node->releasing[RES_PODS] -= sign;
    if (pod->shape->shared)
        slot->node->releasing[RES_GPU] -= sign * pod->shape->devices;
}

/* What the group will take of its queues' limits is not for others either. */
static void queues_count(const struct keep *keep, int64_t sign)
{
    for (struct queue *queue = keep->group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            queue->kept[r] += sign * keep->request[r];
            queue->kept_fixed[r] += keep->fixed ? sign * keep->request[r] : 0;
        }
}

void keep_apply(struct sched *sched, struct keep *keep, bool on)
{
    if (keep->applied == on)
        return;
    keep->applied = on;
    queues_count(keep, on ? 1 : -1);
    for (size_t i = 0; i < keep->count; i++) {
        struct node *node = keep->slots[i].node;

        slot_count(&keep->slots[i], on ? 1 : -1);
        node->keep = on ? keep : NULL;
        if (i + 1 == keep->count || keep->slots[i + 1].node != node)
            index_update(sched, node);
    }
}

/* Whether the queue, with that on top, has at most what it is guaranteed, or else its fair share. */
static bool within(const struct queue *queue,
                   const int64_t request[static SCHED_RESOURCES],
                   bool guaranteed)
{
    if (guaranteed)
        return queue_covers(queue, queue->allocated, request);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (request[r] > 0 && queue_units(r, queue->allocated[r] + request[r]) > queue->fair[r])
            return false;
    return true;
}

/* Whether one has a right to its request that the one whose room is kept does not have. Compared are
 * the queues by which the two ways up differ: above them both have the same. A guarantee holds if it
 * does all the way. */
static bool has_better_right(const struct keep *keep,
                             const struct group *group,
                             const int64_t request[static SCHED_RESOURCES],
                             bool guaranteed)
{
    const struct queue *kept = keep->group->queue;
    const struct queue *own = group->queue;
    bool kept_within = true;

    for (; kept->level > own->level; kept = kept->parent)
        kept_within = kept_within && (!guaranteed || within(kept, keep->request, true));
    for (; own->level > kept->level; own = own->parent)
        if (!within(own, request, guaranteed))
            return false;
    for (; kept->parent != own->parent; kept = kept->parent, own = own->parent) {
        kept_within = kept_within && (!guaranteed || within(kept, keep->request, true));
        if (!within(own, request, guaranteed))
            return false;
    }
    return within(own, request, guaranteed) &&
           !(kept_within && within(kept, keep->request, guaranteed));
}

/* What is guaranteed goes before a fair share of the rest. */
static bool keep_yields(const struct keep *keep,
                        const struct group *group,
                        const int64_t request[static SCHED_RESOURCES])
{
    const struct queue *kept = keep->group->queue;
    const struct queue *own = group->queue;

    if (kept == own)
        return group->priority > keep->group->priority; /* it would be first in line */
    if (kept->pool != own->pool || group_policy(group)->without_proportion)
        return false;
    return has_better_right(keep, group, request, false) ||
           has_better_right(keep, group, request, true);
}

void keep_lift(struct sched *sched, const struct group *group)
{
    struct pod_vec tasks = {0};
    int64_t request[SCHED_RESOURCES];

    if (!sched->keeps.count)
        return;
    group_tasks(sched, group, true, &tasks);
    tasks_request(sched, &tasks, request);
    for (size_t i = 0; i < sched->keeps.count; i++)
        if (sched->keeps.items[i] == group->keep ||
            keep_yields(sched->keeps.items[i], group, request))
            keep_apply(sched, sched->keeps.items[i], false);
}

void keep_restore(struct sched *sched)
{
    for (size_t i = 0; i < sched->keeps.count; i++)
        if (sched->keeps.items[i]->group->keep == sched->keeps.items[i])
            keep_apply(sched, sched->keeps.items[i], true);
}

void keeps_close(struct sched *sched)
{
    for (size_t i = 0; i < sched->keeps.count; i++) {
        keep_apply(sched, sched->keeps.items[i], false);
        sched->keeps.items[i]->group->keep = NULL;
    }
    sched->keeps.count = 0;
}

/* ---- lending ---- */
/* Groups that can be told to go at any moment. */
bool group_evictable(const struct group *group)
{
    return group->preemptible && !group->semi && !group->reserved &&
           runtime_of(group, SCHED_ACTION_PREEMPT) <= 0 &&
           runtime_of(group, SCHED_ACTION_RECLAIM) <= 0;
}

static int by_rank(const void *a, const void *b)
{
    const struct node *l = *(struct node *const *)a;
    const struct node *r = *(struct node *const *)b;

    return l->rank < r->rank ? -1 : l->rank > r->rank;
}

static struct node_set nodes_lendable(struct sched *sched, const struct pod *pod, bool evicted)
{
    struct node_set set = {0};
    size_t most = 0;

    for (size_t k = 0; k < sched->keeps.count; k++)
        most += sched->keeps.items[k]->count;
    set.nodes = ARENA_ARRAY(sched->arena, struct node *, most + 1);
    for (size_t k = 0; k < sched->keeps.count; k++) {
        const struct keep *keep = sched->keeps.items[k];
        int64_t run_ms = pod_run_ms(pod);
        bool ends =
            run_ms && keep->starts_ms && sched->now_ms + run_ms + START_SLACK_MS <= keep->starts_ms;

        for (size_t i = 0; keep->applied && (evicted || ends) && i < keep->count; i++)
            if (keep->group->queue->pool == pod->group->queue->pool &&
                (!i || keep->slots[i].node != keep->slots[i - 1].node))
                set.nodes[set.count++] = keep->slots[i].node;
    }
    if (set.count > 1)
        qsort(set.nodes, set.count, sizeof(*set.nodes), by_rank);
    return set;
}

/* Looks at the nodes as they are without keeps; the indexes are not asked. */
static void keeps_hidden(struct sched *sched, bool hidden)
{
    for (size_t k = 0; k < sched->keeps.count; k++) {
        const struct keep *keep = sched->keeps.items[k];
        for (size_t i = 0; keep->applied && i < keep->count; i++)
            slot_count(&keep->slots[i], hidden ? -1 : 1);
    }
}

bool keep_lend(struct sched *sched, struct pod *pod, struct placement *ret)
{
    if (!sched->keeps.count || pod->shape->shared || pod->claim_count || pod->group->keep)
        return false;
    bool back = group_evictable(pod->group);
    struct node_set set = nodes_lendable(sched, pod, back);
    if (!set.count)
        return false;
    keeps_hidden(sched, true);
    bool found = place_find(sched, pod, &set, ret) && ret->fit == FIT_IDLE;
    keeps_hidden(sched, false);
    if (found && back)
        ret->lent_for = ret->node->keep->group->id;
    return found;
}
