#include "sched/lost.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/reclaim.h"
#include "sched/sched.h"
#include "sched/search.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void unit_add(const struct pod *pod, struct reclaim_unit *unit)
{
    unit->queue = (int)pod->group->queue->index;
    for (int r = 0; r < SCHED_RESOURCES; r++)
        unit->amount[r] += queue_units(r, pod->charge[r]);
}

static int by_group_and_order(const void *a, const void *b)
{
    const struct pod *l = *(struct pod *const *)a;
    const struct pod *r = *(struct pod *const *)b;

    if (l->group != r->group)
        return str_cmp(l->group->key, r->group->key);
    if (l->set != r->set)
        return l->set < r->set ? -1 : 1;
    return pod_order(l, r);
}

/* Whether the pod was to start in this cycle, in room that it had been promised. */
static bool comes_for_room(const struct sched *sched, const struct pod *pod)
{
    return pod->group->resumed_in / 2 == sched->cycle && pod->was == ST_BINDING &&
           pod->status == ST_PENDING;
}

/* Whether it was only promised its room. */
static bool was_promised(const struct search *search, const struct pod *pod)
{
    return !QUIRK(search->sched, NO_RESERVATION) && pod->was == ST_PIPELINED &&
           pod->status == ST_PENDING;
}

/* The pods that the group takes the room of. A promise is broken by right only, or groups that take
 * turns in it never start: what was to start in this cycle counts as if it ran, and what was promised
 * its room is judged when all the rest is gone. */
static void pods_lost(const struct search *search,
                      const struct pod_vec *evicted,
                      struct pod_vec *ret)
{
    struct sched *sched = search->sched;
    unsigned gone = ST_BIT(ST_RELEASING);

    sched->mark_now++;
    for (size_t i = 0; i < evicted->count; i++)
        if (comes_for_room(sched, evicted->items[i]) || was_promised(search, evicted->items[i])) {
            evicted->items[i]->group->mark = sched->mark_now;
            gone |= ST_BIT(ST_PENDING);
        }
    for (int last = 0; last < 2; last++) {
        size_t from = ret->count;

        for (size_t i = 0; i < evicted->count; i++)
            if (ST_IN(evicted->items[i]->status, gone) &&
                (evicted->items[i]->group->mark == sched->mark_now) == last)
                VEC_PUSH(sched->arena, ret, evicted->items[i]);
        if (ret->count > from + 1)
            qsort(&ret->items[from], ret->count - from, sizeof(*ret->items), by_group_and_order);
    }
}

/* What was to start in this cycle, or was only promised its room, and does not start any more, was
 * never there: its queue is above its quota with it for nobody. sign: it goes, or comes back. */
static void undone_count(struct search *search, const struct pod_vec *evicted, double sign)
{
    for (size_t i = 0; i < evicted->count; i++) {
        const struct pod *pod = evicted->items[i];

        if (pod->status != ST_PENDING || (pod->was != ST_BINDING && pod->was != ST_PIPELINED) ||
            pod->group->mark == search->sched->mark_now)
            continue;
        for (int q = (int)pod->group->queue->index; q >= 0; q = search->reclaim.queues[q].parent)
            for (int r = 0; r < SCHED_RESOURCES; r++)
                search->reclaim.queues[q].allocated[r] -= sign * queue_units(r, pod->charge[r]);
    }
}

/* Whether the queues may lose these of the evicted pods. */
static bool units_allowed(struct search *search,
                          const struct pod_vec *evicted,
                          const struct pod_vec *lost)
{
    struct arena *arena = search->sched->arena;
    struct reclaim_unit *units = ARENA_ARRAY(arena, struct reclaim_unit, evicted->count * 2 + 1);
    size_t count = 0;
    int64_t in_leaf = 0;

    for (size_t i = 0; i < lost->count;) {
        const struct group *group = lost->items[i]->group;
        struct reclaim_unit core = {.queue = -1};

        for (; i < lost->count && lost->items[i]->group == group; i++) {
            const struct pod *pod = lost->items[i];

            in_leaf = i && lost->items[i - 1]->group == group && lost->items[i - 1]->set == pod->set
                          ? in_leaf + 1
                          : 1;
            if (in_leaf > group->sets[pod->set].min)
                unit_add(pod, &units[count++]);
            else
                unit_add(pod, &core);
        }
        if (core.queue >= 0)
            units[count++] = core;
    }
    undone_count(search, evicted, 1);
    bool allowed = reclaim_valid(&search->reclaim, units, count);
    undone_count(search, evicted, -1);
    return allowed;
}

/* Who runs is one who may be lost also without those who were to start in this cycle and lose their
 * room with it: a queue that is above its quota with them alone is not. */
bool reclaim_allowed(struct search *search, const struct pod_vec *evicted)
{
    struct sched *sched = search->sched;
    struct pod_vec lost = {0};
    struct pod_vec running = {0};

    pods_lost(search, evicted, &lost);
    for (size_t i = 0; i < lost.count; i++)
        if (lost.items[i]->status == ST_RELEASING)
            VEC_PUSH(sched->arena, &running, lost.items[i]);
    if (!units_allowed(search, evicted, &lost))
        return false;
    if (!running.count || running.count == lost.count)
        return true;
    sched->mark_now++; /* nobody is marked */
    return units_allowed(search, evicted, &running);
}

void promise_lost(const struct search *search, struct group *group)
{
    if (QUIRK(search->sched, NO_RESERVATION))
        return;
    group->robbed_in = search->sched->cycle;
    if (search->action == SCHED_ACTION_RECLAIM)
        group->robbed_by = search->group->id;
}

void promise_undone(struct sched *sched, struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (pod->status == ST_PIPELINED && pod->placed_in == sched->cycle)
            pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    }
    group->reserved = group->count[ST_PIPELINED] > 0;
}

bool reclaim_lasts(const struct sched *sched,
                   const struct group *group,
                   const int64_t request[static SCHED_RESOURCES])
{
    bool waits = false;

    if (!group->robbed_by)
        return true;
    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];

        for (size_t i = 0; i < queue->pending.count; i++)
            waits = waits || (queue->pending.items[i]->id == group->robbed_by &&
                              queue->pending.items[i]->count[ST_PENDING]);
    }
    for (const struct queue *queue = group->queue; waits && queue; queue = queue->parent)
        if (!queue_covers(queue, queue->allocated, request))
            return false;
    return true;
}
