#include "sched/search_try.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/affinity.h"
#include "sched/allocate.h"
#include "sched/arrange.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/lost.h"
#include "sched/node.h"
#include "sched/order.h"
#include "sched/pending.h"
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

#define HOLD_IN_ORDER 16 /* pods of a gang whose order is kept where they are looked at again */
#define BESIDE_COST   64 /* nodes that it would take to look at, to put everybody else in order */

/* Evicts a pod in the journal. */
static void pod_evict(struct search *search, struct pod *pod, struct pod_vec *evicted)
{
    pod->victim = true;
    pod->was = pod->status;
    search->sched->steps += SEARCH_STEPS_EVICT;
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

/* ---- pods whose place depends on others ---- */
bool search_in_place(const struct sched *sched, const struct pod *pod)
{
    if (pod->status != pod->was || pod->left)
        return false;
    for (size_t i = 0; pod->status == ST_PIPELINED && i < sched->journal.count; i++)
        if (sched->journal.items[i].pod == pod) /* the first entry: where it was */
            return sched->journal.items[i].node == pod->node;
    return true;
}

static bool any_in_order(const struct sched *sched, const struct pod_vec *tasks)
{
    for (size_t i = 0; i < tasks->count; i++)
        if (affinity_in_order(sched, tasks->items[i]->shape))
            return true;
    return false;
}

/* Who of the group was placed last comes last: in another order they may not fit. */
static struct pod_vec tasks_as_placed(const struct search *search, const struct pod_vec *tasks)
{
    struct sched *sched = search->sched;
    struct pod_vec placed = {.items = ARENA_ARRAY(sched->arena, struct pod *, tasks->count + 1)};
    size_t left = tasks->count;

    placed.count = tasks->count;
    for (size_t i = sched->journal.count; i-- > 0 && left;) {
        struct pod *pod = sched->journal.items[i].pod;
        bool wanted = false;

        for (size_t t = 0; t < tasks->count && pod->group == search->group; t++)
            wanted = wanted || tasks->items[t] == pod;
        for (size_t t = left; t < tasks->count && wanted; t++)
            wanted = placed.items[t] != pod;
        if (wanted)
            placed.items[--left] = pod;
    }
    return left ? *tasks : placed;
}

/* Whether pods of a group would be placed once more, one after the other, each where it is; those that
 * start in this cycle at once. */
static bool fit_where_they_are(struct sched *sched,
                               struct group *group,
                               const struct pod_vec *tasks)
{
    struct node **nodes = ARENA_ARRAY(sched->arena, struct node *, tasks->count + 1);
    bool *starts = ARENA_ARRAY(sched->arena, bool, tasks->count + 1);
    struct mark mark = journal_mark(sched);
    struct failure failure;

    for (size_t i = 0; i < tasks->count; i++) {
        nodes[i] = tasks->items[i]->node;
        starts[i] = tasks->items[i]->status == ST_BINDING;
        pod_set(sched, tasks->items[i], ST_PENDING, NULL, NULL, 0);
    }
    bool fit = allocate_at(sched, group, tasks, nodes, &failure);
    for (size_t i = 0; fit && i < tasks->count; i++)
        fit = !starts[i] || tasks->items[i]->status == ST_BINDING;
    journal_rollback(sched, mark);
    return fit;
}

/* Whether the group's pods may be where they are, beside those that are there by now. */
static bool tasks_hold(struct search *search, const struct pod_vec *tasks)
{
    struct pod_vec placed = tasks->count <= HOLD_IN_ORDER ? tasks_as_placed(search, tasks) : *tasks;

    return fit_where_they_are(search->sched, search->group, &placed);
}

/* The same while those that leave their places are nowhere: the group starts then, before they are
 * where they are to be. Else it would wait for them, and they, placed anew, could go elsewhere. */
static bool tasks_hold_alone(struct search *search,
                             const struct pod_vec *tasks,
                             const struct pod_vec *evicted)
{
    struct mark mark = journal_mark(search->sched);

    for (size_t i = 0; i < evicted->count; i++)
        if (!search_in_place(search->sched, evicted->items[i]))
            pod_set(search->sched, evicted->items[i], ST_PENDING, NULL, NULL, 0);
    bool hold = tasks_hold(search, tasks);
    journal_rollback(search->sched, mark);
    return hold;
}

static bool tasks_start(struct search *search,
                        const struct pod_vec *tasks,
                        const struct pod_vec *evicted)
{
    return tasks_hold(search, tasks) && tasks_hold_alone(search, tasks, evicted);
}

/* Puts a victim anywhere. Once the group that it had to go for has its place, nobody is moved who can
 * stay where it was: the next one may need that room. */
static bool victim_placed(struct search *search,
                          struct group *group,
                          const struct pod_vec *own,
                          bool placed,
                          struct failure *failure)
{
    struct mark mark = journal_mark(search->sched);
    bool moved = false;

    if (!allocate_tasks(search->sched, group, own, true, failure))
        return false;
    for (size_t i = 0; placed && i < own->count; i++)
        moved = moved || !search_in_place(search->sched, own->items[i]);
    if (!moved || search->action == SCHED_ACTION_CONSOLIDATE ||
        QUIRK(search->sched, NO_RESERVATION))
        return true;
    journal_rollback(search->sched, mark);
    return pods_stay(search->sched, group, own) ||
           allocate_tasks(search->sched, group, own, true, failure);
}

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
        struct mark mark = journal_mark(sched);
        if (!victim_placed(search, group, &own, placed, &failure)) {
            note_failed(&order, group, &own, &failure);
            continue;
        }
        if (search->careful && placed && !tasks_start(search, tasks, evicted)) {
            journal_rollback(sched, mark); /* it is what stands in the way */
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

/* Whether it is to start by what this cycle decided, at once or where room is made for it. */
static bool decided_now(const struct sched *sched, const struct pod *pod)
{
    return pending_comes(sched, pod) ||
           (pod->status == ST_PIPELINED && pod->group->reserved && pod->placed_in == sched->cycle);
}

/* Whether the group's pods that are to start may be where they are, beside those that are left. */
static bool starts_hold(struct sched *sched, struct group *group)
{
    struct mark mark = journal_mark(sched);
    struct pod_vec tasks = {0};
    struct pod_vec first = {0}; /* they are there before the others */

    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (!decided_now(sched, pod))
            continue;
        VEC_PUSH(sched->arena, &tasks, pod);
        if (pending_comes(sched, pod))
            VEC_PUSH(sched->arena, &first, pod);
    }
    if (!fit_where_they_are(sched, group, &tasks))
        return false;
    for (size_t i = 0; i < tasks.count; i++)
        if (!pending_comes(sched, tasks.items[i]))
            pod_set(sched, tasks.items[i], ST_PENDING, NULL, NULL, 0);
    bool hold = !first.count || fit_where_they_are(sched, group, &first);
    journal_rollback(sched, mark);
    return hold;
}

/* Nobody goes, or is taken back, whom somebody must be near that is to start by what this cycle
 * decided, be it of the group itself: it never would. */
static bool company_stays(const struct search *search, const struct pod_vec *evicted)
{
    struct sched *sched = search->sched;
    struct mark mark = journal_mark(sched);
    bool stays = true;

    if (sched->near_in != sched->cycle || QUIRK(sched, NO_RESERVATION))
        return true;
    sched->mark_now++;
    for (size_t i = 0; i < evicted->count; i++) {
        evicted->items[i]->group->mark = sched->mark_now;
        if (!search_in_place(sched, evicted->items[i]))
            pod_set(sched, evicted->items[i], ST_PENDING, NULL, NULL, 0);
    }
    for (size_t i = 0; stays && i < sched->touched.count; i++) {
        const struct pod *pod = sched->touched.items[i].pod;

        if (!pod->shape->spec.affinity_count || !pod->group ||
            pod->group->mark == sched->mark_now || !decided_now(sched, pod))
            continue;
        pod->group->mark = sched->mark_now;
        stays = starts_hold(sched, pod->group);
    }
    journal_rollback(sched, mark);
    return stays;
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

enum outcome {
    OUTCOME_GOOD,
    OUTCOME_BAD,
    OUTCOME_CROWDED, /* beside those that found their room the group could not be where it is */
};

static enum outcome attempt_made(struct search *search,
                                 const struct pod_vec *tasks,
                                 const struct pod_vec *more,
                                 enum turn turn,
                                 struct pod_vec *ret)
{
    search->sched->tally[search->action].simulated++;
    ret->count = 0;
    for (size_t i = 0; i < search->recorded.count; i++)
        pod_evict(search, search->recorded.items[i], ret);
    for (size_t i = 0; more && i < more->count; i++)
        pod_evict(search, more->items[i], ret);
    bool placed = place_everybody(search, tasks, ret, turn);
    bool good = placed && victims_acceptable(search, ret) && company_stays(search, ret);
    search->contested = search->contested || (placed && !good);
    if (!good || QUIRK(search->sched, NO_RESERVATION) || !any_in_order(search->sched, tasks))
        return good ? OUTCOME_GOOD : OUTCOME_BAD;
    return tasks_start(search, tasks, ret) ? OUTCOME_GOOD : OUTCOME_CROWDED;
}

static bool attempt_once(struct search *search,
                         const struct pod_vec *tasks,
                         const struct pod_vec *more,
                         enum turn turn,
                         struct pod_vec *ret)
{
    struct mark mark = journal_mark(search->sched);
    enum outcome outcome = OUTCOME_CROWDED;

    search->careful = false;
    for (int i = 0; i < 2 && outcome == OUTCOME_CROWDED; i++) {
        outcome = attempt_made(search, tasks, more, turn, ret);
        if (outcome == OUTCOME_GOOD)
            return true;
        search->careful = true;
        journal_rollback(search->sched, mark);
        pods_spare(ret);
    }
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

/* Whether the pod was to be moved for another group and has lost the room that it was to have. */
static bool lost_its_move(const struct pod *pod)
{
    return pod->was == ST_PIPELINED && pod->status == ST_RELEASING &&
           pod->action == SCHED_ACTION_CONSOLIDATE && pod->evicted_for;
}

/* Whether those who are not where they were have a place, or may be lost for the search's own group. */
static bool undoing_will_do(struct search *search, size_t moved)
{
    const struct pod_vec *all = &search->recorded;

    for (size_t i = all->count - moved; i < all->count; i++)
        if (!ST_IN(all->items[i]->status, ST_ACTIVE))
            return false;
    return victims_acceptable(search, all);
}

void search_undo_moves(struct search *search)
{
    struct sched *sched = search->sched;
    struct pod_vec *all = &search->recorded;
    struct mark mark = journal_mark(sched);
    size_t count = all->count;
    bool any = false;

    sched->mark_now++;
    for (size_t i = 0; i < count; i++)
        if (lost_its_move(all->items[i])) {
            all->items[i]->evicted_for->mark = sched->mark_now;
            promise_undone(sched, all->items[i]->evicted_for);
            any = true;
        }
    for (size_t i = 0; any && i < sched->touched.count; i++) {
        struct pod *pod = sched->touched.items[i].pod;

        if (pod->status == ST_PIPELINED && pod->action == SCHED_ACTION_CONSOLIDATE &&
            pod->evicted_for && pod->evicted_for->mark == sched->mark_now)
            pod_evict(search, pod, all);
    }
    if (!any)
        return;
    if (place_in_order(search, &search->tasks, all, true) &&
        undoing_will_do(search, all->count - count)) {
        sched->undone = true; /* what was to be had by moving may be had in another way */
        return;
    }
    journal_rollback(sched, mark);
    while (all->count > count)
        all->items[--all->count]->victim = false;
}
