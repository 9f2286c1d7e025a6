#pragma once

#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stdint.h>

struct sched;

/* quota: whether limits and quotas let a group have more. */
enum queue_verdict {
    QUEUE_OK,
    QUEUE_OVER_LIMIT,
    QUEUE_OVER_QUOTA, /* not preemptible and above quota */
};
/* Whether what the group lacks may only use quota: it is not preemptible, or the minimum of it. */
bool group_fixed(const struct group *group);
/* Whether `request` more fits the queue and everything above it; *ret_queue is where it does not.
 */
enum queue_verdict queue_check(const struct group *group,
                               const int64_t request[static SCHED_RESOURCES],
                               const struct queue **ret_queue,
                               enum sched_resource *ret_resource);
/* Whether all of `request` is within quotas: what a queue lends (api/beyond.h) is not, and no reason
 * to evict anybody. */
bool queue_guarantees(const struct group *group, const int64_t request[static SCHED_RESOURCES]);
/* The sums of the group's queue and those above it, and whether any of them has grown since then
 * past a limit, or past a quota with what is not preemptible. What pods really cost is known only
 * when they are placed: by which GPUs they share, by who guards their claims. */
struct queue_sums {
    int64_t allocated[SCHED_RESOURCES];
    int64_t fixed[SCHED_RESOURCES];
};
#define QUEUE_SUMS (QUEUE_DEPTH_MAX + 1)
void queue_note(const struct group *group, struct queue_sums ret[static QUEUE_SUMS]);
enum queue_verdict queue_grew(const struct group *group,
                              const struct queue_sums before[static QUEUE_SUMS],
                              const struct queue **ret_queue,
                              enum sched_resource *ret_resource);
/* Whether the request would be within every limit and quota if the queues held nothing else; and
 * within its queue's fair share too. */
bool queue_bounds_allow(const struct group *group, const int64_t request[static SCHED_RESOURCES]);
bool queue_could_hold(const struct group *group, const int64_t request[static SCHED_RESOURCES]);
/* Whether GPUs of the node's model are left for the pod in its queue and those above. */
bool queue_allows_model(const struct sched *sched, const struct pod *pod, const struct node *node);
bool queue_allows_pod(const struct sched *sched, const struct pod *pod, const struct node *node);
