#include "sched/share.h"

#include "base/str.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static bool quota_unlimited(double value)
{
    return value < 0;
}

/* At most this much of the resource can the queue ask for. */
static double share_requestable(const struct share_queue *queue)
{
    if (quota_unlimited(queue->limit) || queue->asked < queue->limit)
        return queue->asked;
    return queue->limit;
}

/* floor() for the amounts that occur: below 2^53 the conversion is exact, above it doubles are
 * whole anyway. */
static double amount_whole(double value)
{
    return value < 9007199254740992.0 ? (double)(int64_t)value : value;
}

static bool wants_more(const struct share_queue *queue)
{
    return queue->asked > queue->fair &&
           (quota_unlimited(queue->limit) || queue->limit > queue->fair);
}

static double round_weight(const struct share_queue *queue, double weights, double k_value)
{
    double normal = queue->weight / weights;
    double weight = normal + k_value * (normal - queue->usage);

    return weight > 0 ? weight : 0;
}

/* One round for one priority. Sets *again when somebody needed less than was offered. */
static double divide_round(struct share_queue *queues,
                           size_t count,
                           int64_t priority,
                           double remaining,
                           double k_value,
                           bool *again)
{
    double weights = 0;
    double shares = 0;
    double amount = remaining;

    *again = false;
    for (size_t i = 0; i < count; i++)
        if (queues[i].priority == priority && share_requestable(&queues[i]) > queues[i].fair)
            weights += queues[i].weight;
    if (!(weights > 0 || weights < 0))
        return remaining;
    for (size_t i = 0; i < count; i++)
        if (queues[i].priority == priority && share_requestable(&queues[i]) > queues[i].fair)
            shares += round_weight(&queues[i], weights, k_value);
    if (!(shares > 0))
        return remaining;
    for (size_t i = 0; i < count; i++) {
        struct share_queue *queue = &queues[i];

        if (queue->priority != priority || !wants_more(queue) || !(queue->weight > 0))
            continue;
        double offer = amount * (round_weight(queue, weights, k_value) / shares);
        double missing = share_requestable(queue) - queue->fair;
        if (missing <= offer) {
            queue->fair += missing;
            queue->remainder = -1;
            remaining -= missing;
            *again = *again || missing < offer;
        } else {
            double given = amount_whole(offer);
            queue->fair += given;
            queue->remainder = offer - given;
            remaining -= given;
        }
    }
    return remaining;
}

/* Next lower priority than `below`, in *ret. */
static bool next_priority(const struct share_queue *queues,
                          size_t count,
                          bool first,
                          int64_t below,
                          int64_t *ret)
{
    bool found = false;

    for (size_t i = 0; i < count; i++)
        if ((first || queues[i].priority < below) && (!found || queues[i].priority > *ret)) {
            *ret = queues[i].priority;
            found = true;
        }
    return found;
}

static bool remainder_before(const struct share_queue *a, const struct share_queue *b)
{
    if (a->remainder > b->remainder || a->remainder < b->remainder)
        return a->remainder > b->remainder;
    if (a->created_ms != b->created_ms)
        return a->created_ms < b->created_ms;
    return str_cmp(a->name, b->name) < 0;
}

static double hand_out_units(struct share_queue *queues,
                             size_t count,
                             int64_t priority,
                             double remaining)
{
    while (remaining > 0) {
        struct share_queue *best = NULL;

        for (size_t i = 0; i < count; i++)
            if (queues[i].priority == priority && queues[i].remainder >= 0 &&
                (!best || remainder_before(&queues[i], best)))
                best = &queues[i];
        if (!best)
            break;
        double unit = remaining < 1 ? remaining : 1;
        best->fair += unit;
        best->remainder = -1;
        remaining -= unit;
    }
    return remaining;
}

double share_over_quota(struct share_queue *queues, size_t count, double remaining, double k_value)
{
    int64_t priority = 0;

    if (k_value < 0)
        k_value = 0;
    for (size_t i = 0; i < count; i++)
        queues[i].remainder = -1;
    for (bool first = true; next_priority(queues, count, first, priority, &priority);
         first = false) {
        bool again = remaining > 0;

        while (again && remaining > 0)
            remaining = divide_round(queues, count, priority, remaining, k_value, &again);
    }
    for (bool first = true; next_priority(queues, count, first, priority, &priority); first = false)
        remaining = hand_out_units(queues, count, priority, remaining);
    return remaining;
}

double share_divide(struct share_queue *queues, size_t count, double total, double k_value)
{
    double remaining = total;

    for (size_t i = 0; i < count; i++) {
        double quota = quota_unlimited(queues[i].quota) ? total : queues[i].quota;
        double requestable = share_requestable(&queues[i]);

        queues[i].fair = quota < requestable ? quota : requestable;
        remaining -= queues[i].fair;
    }
    if (remaining <= 0)
        return 0;
    return share_over_quota(queues, count, remaining, k_value);
}
