#include "sched/closers.h"

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/queue.h"
#include "sched/resource.h"
#include "sched/state.h"
#include "sched/victims.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void closers_note(struct sched *sched, struct node *node)
{
    if (node->closer_due || sched->config.plain)
        return;
    node->closer_due = true;
    VEC_PUSH(NULL, &sched->closers_due, node->slot);
}

/* What holds GPUs there. */
static bool counts(const struct pod *pod)
{
    return ST_IN(pod->status, ST_ACTIVE) && pod_holds(pod, RES_GPU) > 0;
}

/* NULL: there is none, or it can never be empty as long as things are as they are. */
static struct group *closer_of(const struct node *node)
{
    struct group *last = NULL;

    for (size_t i = 0; i < node->pods.count; i++) {
        struct group *group = node->pods.items[i]->group;

        if (!counts(node->pods.items[i]))
            continue;
        if (!group || !group->queue || !group->in_sorted || (last && group->queue != last->queue))
            return NULL;
        if (!last || group->sorted_at < last->sorted_at)
            last = group;
    }
    return last && last->pods.count == 1 ? last : NULL;
}

static void node_settle(struct node *node)
{
    struct group *closer = closer_of(node);

    for (size_t i = 0; i < node->pods.count; i++) {
        struct group *group = node->pods.items[i]->group;

        if (group && group->closes && group != closer)
            victims_close(group, false);
    }
    /* One that was it and is not here any more is the closer of where it is, or of nothing: who
     * follows it asks the node. */
    node->closer = closer;
    if (closer && !closer->closes)
        victims_close(closer, true);
}

void closers_settle(struct sched *sched)
{
    for (size_t i = 0; i < sched->queues.count; i++)
        if (sched->queues.items[i]->unsorted.count)
            victims_sorted(sched, sched->queues.items[i]);
    for (size_t i = 0; i < sched->closers_due.count; i++) {
        struct node *node = sched->nodes.items[sched->closers_due.items[i]];

        if (!node || !node->closer_due)
            continue;
        node->closer_due = false;
        node_settle(node);
    }
    sched->closers_due.count = 0;
}

int64_t closers_most(const struct sched *sched)
{
    int64_t most = 0;

    for (size_t i = 0; i < sched->pools.count; i++)
        most = i64_max(most, sched->pools.items[i]->most_gpus);
    return most;
}

int closers_verify(const struct sched *sched, const struct node *node, struct err *err)
{
    const struct group *closer = closer_of(node);

    if (sched->config.plain || node->closer_due)
        return 0;
    /* One that is to be sorted has its nodes noted then; one without a queue is no victim. */
    for (size_t i = 0; i < node->pods.count; i++) {
        const struct group *group = node->pods.items[i]->group;

        if (group && (group->in_unsorted || !group->queue))
            return 0;
    }
    if (closer == node->closer && (!closer || (closer->closes && victims_closes(closer))))
        return 0;
    return err_set(err, -EINVAL, "node " STR_FMT " has another group that is its last victim",
                   STR_ARG(node->name));
}
