#include "sched/propose.h"

#include "base/arena.h"
#include "base/vec.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/order.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/reclaim.h"
#include "sched/resource.h"
#include "sched/runtime.h"
#include "sched/sched.h"
#include "sched/search.h"
#include "sched/state.h"
#include "sched/verify.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static bool group_admit(const void *user, const struct group *group)
{
    const struct search *search = user;

    return search->may_lose(search, group);
}

/* Whether groups of the queue can be victims at all. */
static bool may_take_from(const struct search *search, const struct queue *queue)
{
    bool own = queue == search->group->queue;

    if (queue->pool != search->group->queue->pool || queue->broken)
        return false;
    if (search->action == SCHED_ACTION_RECLAIM)
        return !own && (group_policy(search->group)->without_proportion ||
                        reclaim_could_take(&search->reclaim, (int)queue->index));
    return search->action == SCHED_ACTION_PREEMPT ? own : true;
}

/* ---- what room there would be ---- */
/* What a node would have of each want of a task; see propose.h. */
#define ROOM_WANTS 7
struct room {
    int64_t left[ROOM_WANTS];
    uint32_t stamp; /* id of the order it was worked out for */
};

/* The room of a node, as it is now where nothing was proposed there yet. */
static struct room *room_at(const struct proposals *proposals, const struct node *node)
{
    struct room *room = &proposals->search->sched->rooms.items[node->slot];
    const struct pod *task = proposals->task;

    if (room->stamp == proposals->order.id)
        return room;
    room->stamp = proposals->order.id;
    for (uint32_t w = 0; w < task->want_count; w++) {
        uint32_t res = task->wants[w].res;
        room->left[w] = node->idle[res] + node->releasing[res];
    }
    return room;
}

static void add_room(const struct proposals *proposals, const struct pod *pod)
{
    const struct pod *task = proposals->task;

    if (!task || !pod->node)
        return;
    struct room *room = room_at(proposals, pod->node);
    for (uint32_t w = 0; w < task->want_count; w++)
        room->left[w] += pod_holds(pod, task->wants[w].res);
}

bool proposals_could_hold(const struct proposals *proposals, const struct node *node)
{
    const struct pod *task = proposals->task;

    if (!task)
        return true;
    const struct room *room = room_at(proposals, node);
    for (uint32_t w = 0; w < task->want_count; w++)
        if (room->left[w] < task->wants[w].amount)
            return false;
    return true;
}

/* The sums again, from the pods. Once a try succeeded they are elsewhere. */
static bool proposals_right(const struct proposals *proposals)
{
    const struct sched *sched = proposals->search->sched;
    const struct pod *task = sched->journal.count == proposals->tried ? proposals->task : NULL;

    for (size_t n = 0; task && n < sched->nodes.count; n++) {
        const struct node *node = sched->nodes.items[n];

        for (uint32_t w = 0; node && w < task->want_count; w++) {
            uint32_t res = task->wants[w].res;
            int64_t left = room_at(proposals, node)->left[w];

            for (size_t i = 0; i < node->pods.count; i++)
                if (node->pods.items[i]->taken || node->pods.items[i]->recorded)
                    left -= pod_holds(node->pods.items[i], res);
            if (left != node->idle[res] + node->releasing[res])
                return false;
        }
    }
    return true;
}

/* ---- units ---- */
void proposals_open(struct proposals *proposals, struct search *search, const struct pod *task)
{
    struct sched *sched = search->sched;

    *proposals = (struct proposals){
        .search = search,
        .task = task && task->want_count <= ROOM_WANTS ? task : NULL,
        .tried = sched->journal.count,
    };
    order_init(&proposals->order, sched, ORDER_VICTIMS);
    while (proposals->task && sched->rooms.count < sched->nodes.count)
        VEC_PUSH(NULL, &sched->rooms, (struct room){0});
    for (size_t i = 0; i < search->recorded.count; i++)
        add_room(proposals, search->recorded.items[i]);
    proposals->order.admit = group_admit;
    proposals->order.user = search;
    for (size_t q = 0; q < sched->queues.count; q++)
        if (may_take_from(search, sched->queues.items[q]))
            order_add_active(&proposals->order, sched->queues.items[q]);
}

const struct queue *proposals_queue(const struct search *search)
{
    const struct sched *sched = search->sched;
    const struct queue *only = NULL;

    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];

        if (!queue->active.count || queue->children.count || !may_take_from(search, queue))
            continue;
        if (only)
            return NULL;
        only = queue;
    }
    return only;
}

void proposals_close(struct proposals *proposals)
{
    assert(!SCHED_WALK || proposals_right(proposals));
    for (size_t i = 0; i < proposals->taken.count; i++) {
        struct pod *pod = proposals->taken.items[i];
        pod->taken = false;
        pod->group->sets[pod->set].taken--;
    }
}

static void pod_take(struct proposals *proposals, struct pod *pod)
{
    if (!pod->recorded)
        add_room(proposals, pod);
    proposals->scattered = proposals->scattered || pod->group->pods.count > 1;
    pod->taken = true;
    pod->group->sets[pod->set].taken++;
    VEC_PUSH(proposals->search->sched->arena, &proposals->taken, pod);
}

static bool is_active(const struct pod *pod)
{
    return pod->set != SET_NONE && ST_IN(pod->status, ST_ACTIVE) && !pod->taken;
}

/* The last member of a set, in its order, of those with a surplus, or of those that are whole. */
static uint32_t last_member(const struct group *group, uint32_t set, bool surplus)
{
    uint32_t last = SET_NONE;

    for (uint32_t child = group->sets[set].first_child; child; child = group->sets[child].next)
        if ((surplus ? set_surplus(group, child) : set_left(group, child)) &&
            (last == SET_NONE || set_order(group, child, last) > 0))
            last = child;
    return last;
}

/* What of the group can go first without breaking it: a leaf that has a pod too many (*ret_one), or
 * a member that need not be there. SET_NONE: nothing. */
static uint32_t surplus_set(const struct group *group, bool *ret_one)
{
    uint32_t set = 0;

    *ret_one = false;
    if (group->single && group->set_count == 2) {
        *ret_one = true;
        return 1;
    }
    if (!group->set_count || group->whole || !set_surplus(group, 0))
        return SET_NONE;
    while (!group->sets[set].leaf) {
        uint32_t member = last_member(group, set, true);

        if (member == SET_NONE)
            return last_member(group, set, false);
        set = member;
    }
    *ret_one = true;
    return set;
}

bool propose_spares(struct search *search, const struct pod *pod)
{
    if (search->forced || !pod_is_spared(search->sched, pod))
        return false;
    search->spared = true;
    sched_wake(search->sched, pod_rare(pod)->spared_ms);
    return true;
}

/* The next victim unit of a group: one pod above a minimum, else a member more than it needs, else
 * all that is left. */
static void next_unit(struct proposals *proposals, const struct group *group)
{
    struct search *search = proposals->search;
    struct arena *arena = search->sched->arena;
    bool one = false;
    uint32_t set = surplus_set(group, &one);
    struct pod *last = NULL;

    proposals->pods.count = 0;
    search->sched->steps += group->pods.count;
    if ((set == SET_NONE || (group->single && !set_surplus(group, 0))) &&
        (group->semi || runtime_protects(search->sched, group, search->group, search->action)))
        return;
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (!is_active(pod) || (set != SET_NONE && !set_below(group, pod->set, set)))
            continue;
        bool spared = propose_spares(search, pod);
        if (spared && !one) { /* they go together or not at all */
            proposals->pods.count = 0;
            return;
        }
        if (!one)
            VEC_PUSH(arena, &proposals->pods, pod);
        else if (!spared && (!last || pod_order(pod, last) > 0))
            last = pod;
    }
    if (last)
        VEC_PUSH(arena, &proposals->pods, last);
}

/* Pods that earlier steps recorded are evicted anyway: they make no new unit. */
static bool take_recorded(struct proposals *proposals, const struct group *group)
{
    bool any = false;

    for (size_t i = 0; proposals->search->recorded.count && i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];
        if (pod->recorded && is_active(pod)) {
            pod_take(proposals, pod);
            any = true;
        }
    }
    return any;
}

static bool has_active(const struct group *group)
{
    for (uint32_t set = 0; set < group->set_count; set++)
        if (group->sets[set].leaf && set_active(&group->sets[set]) > group->sets[set].taken)
            return true;
    return false;
}

bool propose(struct proposals *proposals)
{
    struct group *group = NULL;

    while ((group = order_pop(&proposals->order))) {
        if (take_recorded(proposals, group)) {
            if (has_active(group))
                order_push(&proposals->order, group);
            continue;
        }
        next_unit(proposals, group);
        for (size_t i = 0; i < proposals->pods.count; i++)
            pod_take(proposals, proposals->pods.items[i]);
        if (!proposals->pods.count)
            continue;
        proposals->last = !has_active(group);
        if (!proposals->last)
            order_push(&proposals->order, group);
        return true;
    }
    return false;
}
