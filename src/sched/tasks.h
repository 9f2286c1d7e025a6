#pragma once

#include "base/vec.h"
#include "sched/group.h"
#include "sched/pod.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;
struct volume;

/* tasks: the pods of a group that have to be placed next. */
struct pod_vec VEC_FIELDS(struct pod *);

/* The pods that have to be placed next, in order: what the subgroups lack to their minimum, or,
 * when they have it, one pod more. `search`: pods evicted by the search under way count as waiting.
 */
void group_tasks(struct sched *sched, const struct group *group, bool search, struct pod_vec *ret);
/* The same pods without those of a search, in whatever order. */
void group_tasks_unordered(struct sched *sched, const struct group *group, struct pod_vec *ret);
/* What task `index` has to find of one of its wants, once the tasks before it are placed: a claim
 * that they share is found once. */
int64_t task_need(const struct sched *sched,
                  const struct pod_vec *tasks,
                  size_t index,
                  size_t want);
/* A claim that one of the tasks names and that does not exist, and the pod; NULL: there is none. */
const struct claim *tasks_claim_missing(const struct pod_vec *tasks, struct pod **ret_pod);
/* Of their claims of volumes the first that cannot be used yet, and the pod; NULL: none. */
const struct volume *tasks_volume_missing(const struct pod_vec *tasks, struct pod **ret_pod);
/* The first claim of theirs that no device could be found for, for a reason that has words; NULL:
 * none. */
const struct claim *tasks_claim_trouble(const struct pod_vec *tasks);
/* What the queues are charged when all of them are placed: gpu-memory by the smallest device there
 * is, and, at least, by the largest. */
void tasks_request(const struct sched *sched,
                   const struct pod_vec *tasks,
                   int64_t ret[static SCHED_RESOURCES]);
void tasks_least(const struct sched *sched,
                 const struct pod_vec *tasks,
                 int64_t ret[static SCHED_RESOURCES]);
