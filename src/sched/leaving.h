#pragma once

#include <stdint.h>

struct pod;
struct sched;

/* leaving: pods that ran and are being deleted for too long. Such a pod is stuck: it holds its room,
 * but nobody counts on that room any more, and evicting it would free nothing. */
#define LEAVING_STUCK_MS 120000 /* where the policy does not say */

/* It is being deleted since `deleted_ms`, which is when its time to end was over; 0: it never ran,
 * or is not being deleted. */
void leaving_note(struct sched *sched, struct pod *pod, int64_t deleted_ms);
void leaving_forget(struct sched *sched, struct pod *pod);
/* At the beginning of a cycle: those for whom it has become too long. */
void leaving_judge(struct sched *sched);
