#pragma once

#include "sched/node.h"
#include "sched/place.h"
#include "sched/pod.h"

struct sched;

/* pick: which devices of a node the claims of a pod are given: the first ones, in the order of their
 * slices, that are what each request means, keep every constraint and are nobody's. Claims that
 * have devices already, or are to share those of another pod, need none. */
#define PICK_STEPS_MAX \
    100000                  /* devices looked at for one pod and node: some tens of milliseconds */
#define PICK_RESULTS_MAX 32 /* of one claim, as Kubernetes has it */

/* FIT_RELEASING: with devices that others are about to give up. FIT_NO: an expression without an
 * answer, too; the claim's `trouble` has the words. */
enum fit pick_fit(struct sched *sched, struct pod *pod, struct node *node);
/* They are the claims' from now on, as far as the pod's status says. */
void pick_devices(struct sched *sched, struct pod *pod, struct node *node);
/* The devices of a pod that asks for GPUs as nvidia.com/gpu, on a node that has no device plugin:
 * how many there are was counted before, now it is said which. Fewer than it asks for where others
 * claim them by a class that does not count as GPUs. */
void pick_whole(struct sched *sched, struct pod *pod, struct node *node);
/* It has none of them any more. */
void pick_whole_done(struct sched *sched, struct pod *pod);
