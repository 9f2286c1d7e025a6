#include "sched/search_try.h"

#include "base/str.h"
#include "base/vec.h"
#include "sched/allocate.h"
#include "sched/arrange.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/lost.h"
#include "sched/node.h"
#include "sched/order.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/search.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/tasks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BESIDE_COST 64 /* nodes that it would take to look at, to put everybody else in order */

/* Evicts a pod in the journal. */
static void pod_evict(struct search *search, struct pod *pod, struct pod_vec *evicted)
{
    pod->victim = true;
    pod->was = pod->status;
    VEC_PUSH(search->sched->arena, evicted, pod);
    pod_send_away(search->sched, pod);
}

static void pods_spare(struct pod_vec *evicted)
{
    for (size_t i = 0; i < evicted->count; i++)
        evicted->items[i]->victim = false;
}

/* A single pod like one that found no room in this round, which only ever fills up. */
static bool no_use(const struct sched *sched, const struct order *order, const struct group *group)
{
    return group->pods.count == 1 && search_simple(group) &&
           group->pods.items[0]->shape->failed_in == order->id &&
           place_alike(sched, group->pods.items[0]);
}

/* Remembers a shape that found no room, where that holds for all its pods. */
static void note_failed(const struct order *order,
                        const struct group *group,
                        const struct pod_vec *tasks,
                        const struct failure *failure)
{
    if (tasks->count == 1 && failure->reason == SCHED_REASON_NO_ROOM && search_simple(group) &&
        place_alike(order->sched, tasks->items[0]) && !order->sched->config.plain)
        tasks->items[0]->shape->failed_in = order->id;
}

/* What of a victim would go back next; where it is stopped as a whole, all that was evicted. */
static void victim_tasks(struct search *search,
                         const struct group *group,
                         const struct pod_vec *evicted,
                         struct pod_vec *ret)
{
    if (!group->whole) {
        group_tasks(search->sched, group, true, ret);
        return;
    }
    ret->count = 0;
    for (size_t i = 0; i < evicted->count; i++)
        if (evicted->items[i]->group == group && evicted->items[i]->status == ST_RELEASING)
            VEC_PUSH(search->sched->arena, ret, evicted->items[i]);
}

/* Who is placed when: the group among those that were evicted for it, in fair order; before them; or
 * before them in every way that there is, until they have room, too. */
enum turn {
    TURN_FAIR,
    TURN_FIRST,
    TURN_EVERY_WAY,
};

/* Places the group's first pods, where it has no place yet, and whoever was evicted for them. */
static bool place_in_order(struct search *search,
                           const struct pod_vec *tasks,
                           const struct pod_vec *evicted,
                           bool placed)
{
    struct sched *sched = search->sched;
    bool first = placed;
    struct order order;
    struct group *group = NULL;
    struct failure failure;

    order_init(&order, sched, ORDER_SEARCH);
    sched->mark_now++;
    search->group->mark = sched->mark_now;
    if (!first)
        order_push_tasks(&order, search->group, tasks);
    for (size_t i = 0; i < evicted->count; i++) {
        struct group *victim = evicted->items[i]->group;
        if (victim->mark == sched->mark_now)
            continue;
        victim->mark = sched->mark_now;
        if (search->action != SCHED_ACTION_RECLAIM ||
            group_policy(search->group)->consolidating_reclaim)
            order_push(&order, victim);
    }
    while ((group = order_pop(&order))) {
        struct pod_vec own = {0};

        if (group == search->group) {
            if (!allocate_tasks(sched, group, tasks, true, &failure)) {
                search->reason = failure.reason;
                return false;
            }
            placed = true;
            continue;
        }
        if (no_use(sched, &order, group))
            continue;
        victim_tasks(search, group, evicted, &own);
        if (!own.count)
            continue;
        if (!allocate_tasks(sched, group, &own, true, &failure)) {
            note_failed(&order, group, &own, &failure);
            continue;
        }
        search->crowded = search->crowded || !placed;
        victim_tasks(search, group, evicted, &own);
        if (own.count)
            order_push(&order, group);
    }
    return true;
}

static bool victims_acceptable(struct search *search, const struct pod_vec *evicted)
{
    if (search->action == SCHED_ACTION_RECLAIM)
        return group_policy(search->group)->without_proportion || reclaim_allowed(search, evicted);
    if (search->action != SCHED_ACTION_CONSOLIDATE)
        return true;
    int64_t groups = 0;
    search->sched->mark_now++;
    for (size_t i = 0; i < evicted->count; i++) {
        struct group *group = evicted->items[i]->group;

        if (!ST_IN(evicted->items[i]->status, ST_ACTIVE))
            return false;
        groups += group->mark != search->sched->mark_now;
        group->mark = search->sched->mark_now;
    }
    return group_policy(search->group)->consolidate_max < 0 ||
           groups <= group_policy(search->group)->consolidate_max;
}

struct beside {
    struct search *search;
    const struct pod_vec *tasks;
    const struct pod_vec *evicted;
};

static bool others_have_room(void *user)
{
    const struct beside *beside = user;

    return place_in_order(beside->search, beside->tasks, beside->evicted, true) &&
           victims_acceptable(beside->search, beside->evicted);
}

static bool place_everybody(struct search *search,
                            const struct pod_vec *tasks,
                            const struct pod_vec *evicted,
                            enum turn turn)
{
    struct beside beside = {.search = search, .tasks = tasks, .evicted = evicted};
    size_t nodes = search->group->queue->pool->nodes.count;
    struct failure failure = {0};
    struct attempt attempt = {.sched = search->sched,
                              .group = search->group,
                              .later = true,
                              .failure = &failure,
                              .accept = others_have_room,
                              .user = &beside,
                              .cost = (int64_t)(evicted->count * nodes) + BESIDE_COST};

    search->reason = SCHED_REASON_NONE;
    search->crowded = false;
    if (turn == TURN_EVERY_WAY)
        return allocate_beside(&attempt, tasks);
    if (turn == TURN_FIRST && !allocate_tasks(search->sched, search->group, tasks, true, &failure))
        return false;
    return place_in_order(search, tasks, evicted, turn == TURN_FIRST);
}

static bool attempt_once(struct search *search,
                         const struct pod_vec *tasks,
                         const struct pod_vec *more,
                         enum turn turn,
                         struct pod_vec *ret)
{
    struct mark mark = journal_mark(search->sched);

    search->sched->tally[search->action].simulated++;
    ret->count = 0;
    for (size_t i = 0; i < search->recorded.count; i++)
        pod_evict(search, search->recorded.items[i], ret);
    for (size_t i = 0; more && i < more->count; i++)
        pod_evict(search, more->items[i], ret);
    bool placed = place_everybody(search, tasks, ret, turn);
    if (placed && victims_acceptable(search, ret))
        return true;
    search->contested = search->contested || placed;
    journal_rollback(search->sched, mark);
    pods_spare(ret);
    return false;
}

/* Few enough that what those who move need can be seen to in every way in which the group could be
 * placed. */
static bool few_enough(struct search *search,
                       const struct pod_vec *tasks,
                       const struct pod_vec *more)
{
    size_t pods = tasks->count + search->recorded.count + (more ? more->count : 0);

    return pods > tasks->count && pods <= 2 * ARRANGE_CERTAIN &&
           search->group->queue->pool->nodes.count <= 2 * ARRANGE_CERTAIN &&
           search->sched->beside_left-- > 0;
}

bool search_attempt(struct search *search,
                    const struct pod_vec *tasks,
                    const struct pod_vec *more,
                    struct pod_vec *ret)
{
    bool tied = false; /* to devices, or to pods that may be among those that move */

    if (attempt_once(search, tasks, more, TURN_FAIR, ret))
        return true;
    for (size_t i = 0; i < tasks->count; i++)
        tied = tied || tasks->items[i]->claim_count || tasks->items[i]->shape->mounts ||
               tasks->items[i]->shape->spec.affinity_count;
    if (search->action != SCHED_ACTION_CONSOLIDATE || tied || QUIRK(search->sched, GREEDY_GANG))
        return false;
    return (search->crowded && attempt_once(search, tasks, more, TURN_FIRST, ret)) ||
           (few_enough(search, tasks, more) &&
            attempt_once(search, tasks, more, TURN_EVERY_WAY, ret));
}
