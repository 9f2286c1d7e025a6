#pragma once

struct group;
struct pod;
struct sched;

/* event: what the shell observed becomes state; see sched_put_*() and sched_drop_*() in sched.h.
 * Here is what the files of events need of each other. The *_release() free an object once nothing
 * names it any more. */
void group_free(struct sched *sched, struct group *group);
void group_release(struct sched *sched, struct group *group);
/* Takes a pod out of everything: it counts nowhere and belongs to no group. */
void pod_out(struct sched *sched, struct pod *pod);
void pod_forget(struct sched *sched, struct pod *pod);
/* What one of its claims is has changed. */
void pod_reclaimed(struct sched *sched, struct pod *pod);
