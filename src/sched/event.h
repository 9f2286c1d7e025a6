#pragma once

#include "base/str.h"
#include "sched/state.h"

#include <stdint.h>

/* event: what the shell observed becomes state; see sched_put_*() and sched_drop_*() in sched.h.
 * Here is what the files of events need of each other. The *_release() free an object once nothing
 * names it any more. */
void node_free(struct node *node);
void node_release(struct sched *sched, struct node *node);
void group_free(struct sched *sched, struct group *group);
void group_release(struct sched *sched, struct group *group);
/* The leaf that pods with this subgroup label belong to, or SET_NONE. */
uint32_t pod_find_set(const struct group *group, struct str subgroup);
void claim_release(struct sched *sched, struct claim *claim);
/* Takes a pod out of everything: it counts nowhere and belongs to no group. */
void pod_out(struct sched *sched, struct pod *pod);
void pod_forget(struct sched *sched, struct pod *pod);
