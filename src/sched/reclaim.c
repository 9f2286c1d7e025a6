#include "sched/reclaim.h"

#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool quota_unlimited(double value)
{
    return value < 0;
}

static double queue_may_hold(const struct reclaim_queue *queue, int r)
{
    if (quota_unlimited(queue->quota[r]))
        return queue->limit[r];
    double most = queue->quota[r] > queue->fair[r] ? queue->quota[r] : queue->fair[r];
    return !quota_unlimited(queue->limit[r]) && queue->limit[r] < most ? queue->limit[r] : most;
}

bool reclaim_may_start(const struct reclaim *reclaim)
{
    const struct reclaim_queue *queue = &reclaim->queues[reclaim->queue];

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        if (queue->allocated[r] + reclaim->request[r] > queue->fair[r])
            return false;
        if (!reclaim->preemptible && !quota_unlimited(queue->quota[r]) &&
            queue->fixed[r] + reclaim->request[r] > queue->quota[r])
            return false;
    }
    return true;
}

bool reclaim_keeps_fair_share(const struct reclaim_queue *from, const double *remaining)
{
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double most = queue_may_hold(from, r);
        if (!quota_unlimited(most) && remaining[r] > most)
            return true;
    }
    return false;
}

bool reclaim_guarantees_quota(const struct reclaim_queue *to,
                              const double *request,
                              const struct reclaim_queue *from,
                              const double *remaining)
{
    bool over = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        if (!quota_unlimited(to->quota[r]) && to->allocated[r] + request[r] > to->quota[r])
            return false;
        over = over || (!quota_unlimited(from->quota[r]) && remaining[r] > from->quota[r]);
    }
    return over;
}

static int queue_depth(const struct reclaim *reclaim, int queue)
{
    int level = 0;

    for (; queue >= 0; queue = reclaim->queues[queue].parent)
        level++;
    return level;
}

/* The queues of the two paths at the first level where they differ. */
static void queues_part(const struct reclaim *reclaim, int *to, int *from)
{
    int depth_to = queue_depth(reclaim, *to);
    int depth_from = queue_depth(reclaim, *from);

    for (; depth_to > depth_from; depth_to--)
        *to = reclaim->queues[*to].parent;
    for (; depth_from > depth_to; depth_from--)
        *from = reclaim->queues[*from].parent;
    while (reclaim->queues[*to].parent != reclaim->queues[*from].parent) {
        *to = reclaim->queues[*to].parent;
        *from = reclaim->queues[*from].parent;
    }
}

bool reclaim_above_quota(const double *request, const struct reclaim_queue *from)
{
    bool below = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        if (request[r] <= 0 || quota_unlimited(from->quota[r]))
            continue;
        if (from->allocated[r] > from->quota[r])
            return true;
        below = below || from->allocated[r] < from->quota[r];
    }
    return !below;
}

bool reclaim_could_take(const struct reclaim *reclaim, int from)
{
    int to = reclaim->queue;

    queues_part(reclaim, &to, &from);
    const struct reclaim_queue *own = &reclaim->queues[to];
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!quota_unlimited(own->quota[r]) &&
            own->allocated[r] + reclaim->request[r] > own->quota[r])
            return reclaim_keeps_fair_share(&reclaim->queues[from],
                                            reclaim->queues[from].allocated);
    return reclaim_above_quota(reclaim->request, &reclaim->queues[from]);
}

static double *remaining_of(struct reclaim_queue *queue)
{
    if (!queue->lost) {
        memcpy(queue->remaining, queue->allocated, sizeof(queue->remaining));
        queue->lost = true;
    }
    return queue->remaining;
}

static double share_ratio(double amount, double fair)
{
    if (fair > 0)
        return amount / fair;
    return amount > 0 ? 1e300 : 0;
}

/* A queue that goes above its fair share may not end up with a larger part of its own than one it
 * takes from. */
static bool stays_below(const struct reclaim *reclaim,
                        const double *after,
                        const struct reclaim_queue *to,
                        const struct reclaim_queue *sibling,
                        const bool involved[static SCHED_RESOURCES])
{
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double own = share_ratio(after[r], to->fair[r]);

        if (!involved[r] || own <= 1 || !(sibling->fair[r] > 0))
            continue;
        if (own * reclaim->saturation >= share_ratio(sibling->remaining[r], sibling->fair[r]))
            return false;
    }
    return true;
}

static bool within_bounds(const struct reclaim *reclaim,
                          const bool involved[static SCHED_RESOURCES])
{
    for (int q = reclaim->queue; q >= 0; q = reclaim->queues[q].parent) {
        struct reclaim_queue *queue = &reclaim->queues[q];
        double after[SCHED_RESOURCES];

        for (int r = 0; r < SCHED_RESOURCES; r++) {
            double base = queue->lost ? queue->remaining[r] : queue->allocated[r];
            after[r] = base + reclaim->request[r];
            if (!reclaim->preemptible && !quota_unlimited(queue->quota[r]) &&
                queue->fixed[r] + reclaim->request[r] > queue->quota[r])
                return false;
        }
        for (size_t s = 0; s < reclaim->queue_count; s++) {
            const struct reclaim_queue *sibling = &reclaim->queues[s];
            if ((int)s != q && sibling->parent == queue->parent && sibling->lost &&
                !stays_below(reclaim, after, queue, sibling, involved))
                return false;
        }
    }
    return true;
}

static bool take_units(const struct reclaim *reclaim,
                       const struct reclaim_unit *units,
                       size_t unit_count,
                       bool involved[static SCHED_RESOURCES])
{
    for (size_t i = 0; i < unit_count; i++) {
        int to = reclaim->queue;
        int from = units[i].queue;

        queues_part(reclaim, &to, &from);
        const double *remaining = remaining_of(&reclaim->queues[from]);
        if (!reclaim_keeps_fair_share(&reclaim->queues[from], remaining) &&
            !reclaim_guarantees_quota(&reclaim->queues[to], reclaim->request,
                                      &reclaim->queues[from], remaining))
            return false;
        for (int q = units[i].queue; q >= 0; q = reclaim->queues[q].parent) {
            double *left = remaining_of(&reclaim->queues[q]);
            for (int r = 0; r < SCHED_RESOURCES; r++)
                left[r] -= units[i].amount[r];
        }
        for (int r = 0; r < SCHED_RESOURCES; r++)
            involved[r] = involved[r] || units[i].amount[r] > 0;
    }
    return true;
}

bool reclaim_valid(const struct reclaim *reclaim,
                   const struct reclaim_unit *units,
                   size_t unit_count)
{
    bool involved[SCHED_RESOURCES] = {false};
    bool valid =
        take_units(reclaim, units, unit_count, involved) && within_bounds(reclaim, involved);

    for (size_t q = 0; q < reclaim->queue_count; q++)
        reclaim->queues[q].lost = false;
    return valid;
}
