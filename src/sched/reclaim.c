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

static const double nothing[SCHED_RESOURCES];

/* Whether any of the amounts is of a resource that the queue names, or none of one that it does not.
 */
static bool names_some(const struct reclaim_queue *queue, const double *amounts)
{
    bool others = false;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        if (!queue->unset[r] && amounts[r] > 0)
            return true;
        others = others || amounts[r] > 0;
    }
    return !others;
}

/* Whether all that the queue names is within quota with the request, and some of the request is
 * named: then the rest goes along. */
static bool covers(const struct reclaim_queue *queue, const double *held, const double *request)
{
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!queue->unset[r] && !quota_unlimited(queue->quota[r]) &&
            held[r] + request[r] > queue->quota[r])
            return false;
    return names_some(queue, request);
}

/* Work that is not preemptible stays within quota. */
static bool over_fixed(const struct reclaim *reclaim, const struct reclaim_queue *queue, int r)
{
    return !reclaim->preemptible && !queue->unset[r] && !quota_unlimited(queue->quota[r]) &&
           queue->fixed[r] + reclaim->request[r] > queue->quota[r];
}

bool reclaim_within_share(const struct reclaim_queue *queue, const double *request)
{
    bool along = covers(queue, queue->allocated, request);

    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!(along && queue->unset[r]) && queue->allocated[r] + request[r] > queue->fair[r])
            return false;
    return true;
}

bool reclaim_may_start(const struct reclaim *reclaim)
{
    const struct reclaim_queue *queue = &reclaim->queues[reclaim->queue];

    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (over_fixed(reclaim, queue, r))
            return false;
    return reclaim_within_share(queue, reclaim->request);
}

bool reclaim_keeps_fair_share(const struct reclaim_queue *from,
                              const double *remaining,
                              const double *unit)
{
    bool kept = unit && covers(from, remaining, nothing) && names_some(from, unit);

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double most = queue_may_hold(from, r);
        if (kept && from->unset[r])
            continue;
        if (!quota_unlimited(most) && remaining[r] > most)
            return true;
    }
    return false;
}

bool reclaim_guarantees_quota(const struct reclaim_queue *to,
                              const double *request,
                              const struct reclaim_queue *from,
                              const double *remaining,
                              const double *unit)
{
    if (!covers(to, to->allocated, request))
        return false;
    if (unit)
        return !covers(from, remaining, nothing) || !names_some(from, unit);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        if (!quota_unlimited(from->quota[r]) && remaining[r] > from->quota[r])
            return true;
    return false;
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
    if (!covers(own, own->allocated, reclaim->request))
        return reclaim_keeps_fair_share(&reclaim->queues[from], reclaim->queues[from].allocated,
                                        NULL);
    return reclaim_above_quota(reclaim->request, &reclaim->queues[from]);
}

bool reclaim_spares(const struct reclaim *reclaim, int from, const double *unit)
{
    int to = reclaim->queue;
    bool unset = false;

    queues_part(reclaim, &to, &from);
    const struct reclaim_queue *queue = &reclaim->queues[from];
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double most = queue_may_hold(queue, r);

        if (!queue->unset[r] && !quota_unlimited(most) && queue->allocated[r] > most)
            return false;
        unset = unset || queue->unset[r];
    }
    return unset && names_some(queue, unit) && covers(queue, queue->allocated, nothing);
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
    bool along = names_some(to, reclaim->request) && covers(to, after, nothing);

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double own = share_ratio(after[r], to->fair[r]);

        if (!involved[r] || (along && to->unset[r]) || own <= 1 || !(sibling->fair[r] > 0))
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
            if (over_fixed(reclaim, queue, r))
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
        if (!reclaim_keeps_fair_share(&reclaim->queues[from], remaining, units[i].amount) &&
            !reclaim_guarantees_quota(&reclaim->queues[to], reclaim->request,
                                      &reclaim->queues[from], remaining, units[i].amount))
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
