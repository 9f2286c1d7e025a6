#include "sched/victims.h"

#include "base/vec.h"
#include "sched/closers.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The active groups of a queue in the order of group_order(), so that victims are taken from the
 * end: the last to start is the first to go.
 *
 * Groups that start, or whose place may have changed, are only noted. Before the order is used they
 * are sorted among themselves and merged from the end, as far as they reach: what started last goes
 * last, so that a cycle costs what it started and not what runs. Groups that ended stay until they
 * come to the end.
 *
 * Invariant after victims_sorted(): every active group is in `sorted`, at sorted_at, under its
 * present elasticity; the order is strict; `unsorted` is empty. A bit of queue->closing is set
 * exactly where a group lies that is a closer. */

static void mark_at(struct queue *queue, size_t at, bool closes)
{
    while (queue->closing.count <= at / 64)
        VEC_PUSH(NULL, &queue->closing, 0);
    if (closes)
        queue->closing.items[at / 64] |= UINT64_C(1) << (at % 64);
    else
        queue->closing.items[at / 64] &= ~(UINT64_C(1) << (at % 64));
}

static void put_at(struct queue *queue, struct group *group, size_t at)
{
    queue->sorted.items[at] = group;
    mark_at(queue, at, group && group->closes);
    if (!group)
        return;
    group->in_sorted = true;
    group->sorted_at = (uint32_t)at;
}

static void take_out(struct queue *queue, struct group *group)
{
    if (group->in_sorted)
        put_at(queue, NULL, group->sorted_at);
    group->in_sorted = false;
}

void victims_close(struct group *group, bool closes)
{
    group->closes = closes;
    if (group->in_sorted)
        mark_at(group->queue, group->sorted_at, closes);
}

bool victims_closes(const struct group *group)
{
    return group->in_sorted &&
           victims_closing(group->queue, group->sorted_at + 1) == group->sorted_at + 1;
}

size_t victims_closing(const struct queue *queue, size_t end)
{
    for (size_t word = (end + 63) / 64; word > 0; word--) {
        uint64_t bits = queue->closing.items[word - 1];

        if (word * 64 > end)
            bits &= UINT64_MAX >> (word * 64 - end);
        if (bits)
            return word * 64 - (size_t)__builtin_clzll(bits);
    }
    return 0;
}

void victims_note(struct group *group, int elastic)
{
    if (group->in_unsorted || (group->in_sorted && elastic == group->sorted_elastic))
        return;
    group->in_unsorted = true;
    group->unsorted_at = (uint32_t)group->queue->unsorted.count;
    VEC_PUSH(NULL, &group->queue->unsorted, group);
}

void victims_forget(struct group *group)
{
    struct queue *queue = group->queue;

    take_out(queue, group);
    if (group->in_unsorted) {
        VEC_REMOVE_SWAP(&queue->unsorted, group->unsorted_at);
        if (group->unsorted_at < queue->unsorted.count)
            queue->unsorted.items[group->unsorted_at]->unsorted_at = group->unsorted_at;
    }
    group->in_unsorted = false;
}

void victims_clear(struct queue *queue)
{
    for (size_t i = 0; i < queue->sorted.count; i++)
        if (queue->sorted.items[i])
            queue->sorted.items[i]->in_sorted = false;
    for (size_t i = 0; i < queue->unsorted.count; i++)
        queue->unsorted.items[i]->in_unsorted = false;
    queue->sorted.count = queue->unsorted.count = 0;
}

static int by_group_order(const void *a, const void *b)
{
    const struct group *l = *(struct group *const *)a;
    const struct group *r = *(struct group *const *)b;

    return group_order(l, l->sorted_elastic, r, r->sorted_elastic);
}

/* Another group may be the closer there. */
static void note_nodes(struct sched *sched, const struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++)
        if (group->pods.items[i]->node)
            closers_note(sched, group->pods.items[i]->node);
}

/* Keeps of the noted groups those that have to be put in, in order. */
static void sort_noted(struct sched *sched, struct queue *queue)
{
    struct group **noted = queue->unsorted.items;
    size_t count = 0;
    bool in_order = true;

    for (size_t i = 0; i < queue->unsorted.count; i++) {
        struct group *group = noted[i];
        int elastic = group->in_active != LIST_NONE ? group_elastic(group) : 0;

        group->in_unsorted = false;
        if (group->in_active == LIST_NONE || (group->in_sorted && elastic == group->sorted_elastic))
            continue;
        take_out(queue, group);
        note_nodes(sched, group);
        group->sorted_elastic = (int8_t)elastic;
        in_order = in_order && (!count || by_group_order(&noted[count - 1], &noted[i]) < 0);
        noted[count++] = group;
    }
    queue->unsorted.count = count;
    if (!in_order) /* groups mostly start in their order */
        qsort(noted, count, sizeof(*noted), by_group_order);
}

static void drop_ended(struct queue *queue)
{
    while (queue->sorted.count) {
        struct group *last = queue->sorted.items[queue->sorted.count - 1];

        if (last && last->in_active != LIST_NONE)
            return;
        if (last)
            last->in_sorted = false;
        queue->sorted.count--;
    }
}

void victims_sorted(struct sched *sched, struct queue *queue)
{
    for (size_t i = 0; sched->config.plain && i < queue->active.count; i++) {
        take_out(queue, queue->active.items[i]);
        victims_note(queue->active.items[i], 0);
    }
    sort_noted(sched, queue);
    drop_ended(queue);
    size_t fresh = queue->unsorted.count;
    size_t old = queue->sorted.count;
    for (size_t i = 0; i < fresh; i++)
        VEC_PUSH(NULL, &queue->sorted, NULL);
    for (size_t at = old + fresh; fresh; at--) {
        struct group *group = old ? queue->sorted.items[old - 1] : NULL;
        bool hole = old && !group;

        if (hole || (group && by_group_order(&group, &queue->unsorted.items[fresh - 1]) > 0)) {
            put_at(queue, group, at - 1);
            old--;
        } else {
            put_at(queue, queue->unsorted.items[--fresh], at - 1);
        }
    }
    queue->unsorted.count = 0;
}
