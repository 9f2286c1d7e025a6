#pragma once

#include "sched/group.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;

/* charge: what pods and groups count for in their queue and in those above it. */

/* What the queue is charged for the pod on that node. */
void pod_charge(const struct sched *sched,
                const struct pod *pod,
                const struct node *node,
                int64_t ret[static SCHED_RESOURCES]);
/* Whether it is: while it holds room, or may yet. */
static inline bool pod_is_charged(const struct pod *pod)
{
    return ST_IN(pod->status, ST_ACTIVE) || (pod->may_stay && pod->status == ST_RELEASING);
}
/* What the pod asks of its queue while it waits, and of that for one of its claims. */
void pod_ask(const struct sched *sched, struct pod *pod);
int64_t claim_ask(const struct sched *sched, const struct pod *pod, size_t index);
/* GPUs, in thousandths, by which that is more than the pod costs on the pool's largest device. */
int64_t pod_ask_spared(const struct sched *sched, const struct pod *pod);
/* Adds or takes off what the pod, or every pod of the group, counts for. */
void pod_weigh(const struct pod *pod, int64_t sign);
void group_weigh(struct group *group, int64_t sign);
/* The same of what a suspended pod keeps, whatever its status: as long as it is in its group. */
void pod_weigh_kept(const struct pod *pod, int64_t sign);
/* Semi-preemptible groups: what the pods of its minimum are charged, of each leaf the first pods in
 * order, and the claims that any of its pods guards. */
void group_core(const struct group *group, int64_t ret[static SCHED_RESOURCES]);
/* The same worked out again and put on its queues. */
void group_charge_core(struct group *group);
