#include "sched/lists.h"

#include "base/vec.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/shape.h"
#include "sched/state.h"
#include "sched/victims.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct group_vec VEC_FIELDS(struct group *);

static void list_add(void *list, struct group *group, uint32_t *index)
{
    struct group_vec *vec = list;

    *index = (uint32_t)vec->count;
    VEC_PUSH(NULL, vec, group);
}

static void list_remove(void *list, uint32_t *index, size_t offset)
{
    struct group_vec *vec = list;
    uint32_t at = *index;

    VEC_REMOVE_SWAP(vec, at);
    if (at < vec->count)
        memcpy((char *)vec->items[at] + offset, &at, sizeof(at));
    *index = LIST_NONE;
}

static void count_priority(struct queue *queue, struct group *group, int64_t sign)
{
    size_t at = 0;

    if (sign > 0)
        group->counted_priority = group->priority;
    while (at < queue->priorities.count &&
           queue->priorities.items[at].priority != group->counted_priority)
        at++;
    if (at == queue->priorities.count)
        VEC_PUSH(NULL, &queue->priorities, (struct priority_count){group->counted_priority, 0});
    queue->priorities.items[at].count += sign;
    if (!queue->priorities.items[at].count)
        VEC_REMOVE_SWAP(&queue->priorities, at);
}

/* Its pods go one by one, or what they leave depends on more than the node. */
static bool group_odd(const struct group *group)
{
    const struct pod *pod = group->pods.count ? group->pods.items[0] : NULL;

    return pod &&
           (group->pods.count > 1 || pod->claim_count || pod->shape->shared || !pod->shape->local);
}

static void odd_count(struct queue *queue, struct group *group, bool odd)
{
    queue->odd += (size_t)(odd - group->odd);
    group->odd = odd;
}

void group_lists(struct group *group)
{
    struct queue *queue = group->queue;

    if (!queue)
        return;
    bool pending = group->count[ST_PENDING] + group->count[ST_GATED] > 0;
    bool active = group->count[ST_BINDING] + group->count[ST_BOUND] + group->count[ST_RUNNING] +
                      group->count[ST_PIPELINED] >
                  0;
    if (pending && group->in_pending == LIST_NONE)
        list_add(&queue->pending, group, &group->in_pending);
    else if (!pending && group->in_pending != LIST_NONE)
        list_remove(&queue->pending, &group->in_pending, offsetof(struct group, in_pending));
    if (active && group->in_active == LIST_NONE) {
        list_add(&queue->active, group, &group->in_active);
        count_priority(queue, group, 1);
    } else if (!active && group->in_active != LIST_NONE) {
        list_remove(&queue->active, &group->in_active, offsetof(struct group, in_active));
        count_priority(queue, group, -1);
    }
    int elastic = active ? group_elastic(group) : 0;
    bool frail = elastic < 0;
    if (frail && group->in_frail == LIST_NONE)
        list_add(&queue->frail, group, &group->in_frail);
    else if (!frail && group->in_frail != LIST_NONE)
        list_remove(&queue->frail, &group->in_frail, offsetof(struct group, in_frail));
    odd_count(queue, group, active && group_odd(group));
    if (active)
        victims_note(group, elastic);
}

void group_link(struct group *group)
{
    list_add(&group->queue->groups, group, &group->in_queue);
    group_lists(group);
}

void group_unlink(struct group *group)
{
    struct queue *queue = group->queue;

    if (!queue)
        return;
    if (group->in_pending != LIST_NONE)
        list_remove(&queue->pending, &group->in_pending, offsetof(struct group, in_pending));
    if (group->in_active != LIST_NONE) {
        list_remove(&queue->active, &group->in_active, offsetof(struct group, in_active));
        count_priority(queue, group, -1);
    }
    if (group->in_frail != LIST_NONE)
        list_remove(&queue->frail, &group->in_frail, offsetof(struct group, in_frail));
    odd_count(queue, group, false);
    victims_forget(group);
    list_remove(&queue->groups, &group->in_queue, offsetof(struct group, in_queue));
    group->queue = NULL;
}

void group_stray(struct sched *sched, struct group *group)
{
    list_add(&sched->strays, group, &group->in_strays);
}

void group_unstray(struct sched *sched, struct group *group)
{
    if (group->in_strays != LIST_NONE)
        list_remove(&sched->strays, &group->in_strays, offsetof(struct group, in_strays));
}
