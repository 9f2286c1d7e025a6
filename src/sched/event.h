#pragma once

#include "sched/pod.h"

#include <stdbool.h>
#include <stdint.h>

struct group;
struct node;
struct sched;
struct sched_pod;

/* event: what the shell observed becomes state; see sched_put_*() and sched_drop_*() in sched.h.
 * Here is what the files of events need of each other. The *_release() free an object once nothing
 * names it any more. */
void group_free(struct sched *sched, struct group *group);
void group_release(struct sched *sched, struct group *group);
/* Takes a pod out of everything: it counts nowhere and belongs to no group. */
void pod_out(struct sched *sched, struct pod *pod);
void pod_forget(struct sched *sched, struct pod *pod);
/* Where it was bound or promised to be it will not be: it waits, and has none of the devices and
 * zones that were chosen for it there. */
void pod_unplanned(struct sched *sched, struct pod *pod);
/* Its names in one piece; the map's key moves with them. */
void pod_call(struct sched *sched, struct pod *pod, const struct sched_pod *spec);
/* What one of its claims is has changed. */
void pod_reclaimed(struct sched *sched, struct pod *pod);

/* What one of its claims of volumes means has changed. */
void pod_reshaped(struct sched *sched, struct pod *pod);
void pod_take_volumes(struct sched *sched, struct pod *pod, const struct sched_pod *spec);
void pod_volumes_dropped(struct sched *sched, struct pod *pod);
/* Storage classes and limits that changed are looked at again. */
void volumes_settled(struct sched *sched);

/* What it has to give, from its description and its devices. */
void node_totals(struct sched *sched, struct node *node);
/* Slices that changed are looked at again. */
void devices_settled(struct sched *sched);

/* Until when the room of a pod that left it now would be held; 0: it is not. `gone`: it did not
 * fail, it is just not there any more. */
int64_t hold_until(const struct sched *sched, const struct pod *pod, bool gone);
/* The same of a stand-in. */
int64_t stand_in_until(const struct pod *pod);
/* The pod failed, or is gone: true if its room is held, and the pod is its own stand-in from now on
 * (hold.h). */
bool hold_leaves(struct sched *sched, struct pod *pod, bool gone);
/* It is being deleted, by its new status: true if it counts as running until it is gone. */
bool hold_stays(struct sched *sched, struct pod *pod, enum status status);
void hold_forget(struct sched *sched, struct pod *pod);
/* A pod that was never seen before. One that has failed already may be of the time of another core,
 * which held its room: holds_revived() does it again, in the first cycle. */
void hold_seen(struct sched *sched, struct pod *pod, const struct sched_pod *spec);
void holds_revived(struct sched *sched);
/* Pods of the group that are being deleted already: the group says only now that they are held. */
void holds_regroup(struct sched *sched, struct group *group);
/* The group is no more: one of its name that comes after it is another. */
void holds_dropped(struct sched *sched, struct group *group);
/* Stand-ins that lost their room in this cycle are forgotten. Last thing in it. */
void holds_swept(struct sched *sched);
