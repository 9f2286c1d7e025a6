#include "sched/link.h"

#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/group.h"
#include "sched/lists.h"
#include "sched/names.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"
#include "sched/victims.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int64_t class_priority(struct sched *sched, const struct group *group)
{
    const struct sched_priority_class *class =
        group->class_name ? map_get(&sched->classes, group->class_name->text) : NULL;

    if (group->has_priority)
        return group->own_priority;
    if (class)
        return class->value;
    MAP_FOREACH(&sched->classes, entry) {
        class = entry->value;
        if (class->global_default)
            return class->value;
    }
    return PRIORITY_DEFAULT;
}

void group_resolve(struct sched *sched, struct group *group)
{
    struct queue *queue =
        group->known ? queue_get(sched, name_text(group->queue_name), false) : NULL;

    group_weigh(group, -1);
    group_unlink(group);
    group->priority = class_priority(sched, group);
    group->due_ms = group->created_ms;
    if (queue && queue->known && queue->spec.order == SCHED_ORDER_EXPECTED)
        group->due_ms += SCHED_EXPECTED_TIMES * (group->expected_ms   ? group->expected_ms
                                                 : group->deadline_ms ? group->deadline_ms
                                                                      : SCHED_EXPECTED_MS);
    group->semi = group->preemptibility == SCHED_SEMI_PREEMPTIBLE;
    group->preemptible = group->preemptibility == SCHED_BY_PRIORITY
                             ? group->priority < PRIORITY_FIXED
                             : group->preemptibility != SCHED_NON_PREEMPTIBLE;
    group_unstray(sched, group);
    if (!queue || !queue->known)
        group_stray(sched, group);
    if (queue && queue->known) {
        group->queue = queue;
        group->payer = queue->spec.order == SCHED_ORDER_USERS
                           ? queue_payer(queue, name_text(group->user_name))
                           : NULL;
        for (size_t i = 0; i < group->pods.count; i++) /* by the smallest GPU of the queue's pool */
            if (group->pods.items[i]->shape->spec.gpu_memory_mib)
                pod_ask(sched, group->pods.items[i]);
        group_link(group);
        group_weigh(group, 1);
    }
    group_charge_core(group);
    for (size_t i = 0; i < group->pods.count; i++) /* what they guard may have changed with it */
        claims_settled(sched, group->pods.items[i]);
    sched->changed = true;
}

/* ---- the tree of queues ---- */
static int by_queue_age(const void *a, const void *b)
{
    const struct queue *l = *(struct queue *const *)a;
    const struct queue *r = *(struct queue *const *)b;

    if (l->spec.created_ms != r->spec.created_ms)
        return l->spec.created_ms < r->spec.created_ms ? -1 : 1;
    return str_cmp(l->name, r->name);
}

/* A queue is broken when its way up ends at a queue that is not there, or in a circle. */
static void queue_place(struct queue *queue)
{
    uint32_t level = 0;
    const struct queue *top = queue;

    while (top->parent && level <= QUEUE_DEPTH_MAX) {
        top = top->parent;
        level++;
    }
    queue->level = level;
    queue->broken = level > QUEUE_DEPTH_MAX || top->spec.parent.len > 0;
}

/* Queues that were deleted and that no group points to any more. */
static void queues_swept(struct sched *sched)
{
    MAP_FOREACH(&sched->queues_by_name, entry) {
        struct queue *queue = entry->value;

        if (queue->known)
            continue;
        map_remove(&sched->queues_by_name, queue->name);
        queue_free(queue);
    }
}

void queues_linked(struct sched *sched)
{
    if (!sched->queues_dirty)
        return;
    sched->queues_dirty = false;
    sched->queues.count = 0;
    for (size_t i = 0; i < sched->pools.count; i++)
        sched->pools.items[i]->tops.count = 0;
    MAP_FOREACH(&sched->queues_by_name, entry) {
        struct queue *queue = entry->value;

        memset(queue->allocated, 0, sizeof(queue->allocated));
        memset(queue->fixed, 0, sizeof(queue->fixed));
        memset(queue->asked, 0, sizeof(queue->asked));
        memset(queue->models, 0, sizeof(queue->models));
        for (size_t i = 0; i < queue->payers.count; i++)
            memset(queue->payers.items[i]->held, 0, sizeof(queue->payers.items[i]->held));
        queue->children.count = 0;
        queue->parent = NULL;
        victims_clear(queue);
        if (queue->known)
            VEC_PUSH(NULL, &sched->queues, queue);
    }
    if (sched->queues.count)
        qsort(sched->queues.items, sched->queues.count, sizeof(*sched->queues.items), by_queue_age);
    for (size_t i = 0; i < sched->queues.count; i++) {
        struct queue *queue = sched->queues.items[i];
        struct queue *parent = queue_get(sched, queue->spec.parent, false);

        queue->index = (uint32_t)i;
        queue->pool = pool_get(sched, queue->spec.pool);
        if (queue->spec.parent.len && parent && parent->known)
            queue->parent = parent;
    }
    for (size_t i = 0; i < sched->queues.count; i++)
        queue_place(sched->queues.items[i]);
    for (size_t i = 0; i < sched->queues.count; i++) {
        struct queue *queue = sched->queues.items[i];

        if (queue->broken)
            queue->parent = NULL;
        else if (queue->parent)
            VEC_PUSH(NULL, &queue->parent->children, queue);
        else
            VEC_PUSH(NULL, &queue->pool->tops, queue);
    }
    MAP_FOREACH(&sched->groups_by_key, entry) {
        struct group *group = entry->value;
        group_unlink(group);
        group_resolve(sched, group);
    }
    queues_swept(sched);
}
