#pragma once

#include <stdbool.h>
#include <stddef.h>

struct pod;
struct shim_event;

/* standby: the next container of a pod that restarts in place, made while the present one trains.
 *
 * A pod with WARM_ANNOTATION "true" (api/place.h) whose main container is muster-launch gets its next instance as
 * soon as a rank of the present one has made a step: a container like any other, with the number that
 * it will have, whose launcher has torch imported and waits (launch/warm.h). When its round is on, an
 * empty file in the folder of its rank pages tells it to go, and from then on it is the container. One
 * that ends before that leaves nothing behind, and the round starts as without it.
 *
 * On disk c/<container>/<n>.standby says that instance n waits: it is no instance yet. */

/* After the pod's containers were looked at: makes one when it is time. */
void standby_step(struct pod *pod);
/* The container is to start: true if it does so by going on from its standby, whose process is *ret_pid;
 * 0: the shim will tell. */
bool standby_go(struct pod *pod, size_t index, int *ret_pid);
/* True: what the shim said is about the standby. */
bool standby_take(struct pod *pod, size_t index, const struct shim_event *event);
/* Whether that instance waits. */
bool standby_is(const struct pod *pod, size_t index, unsigned long instance);
/* The pod is over: nothing of a container that was never needed is kept. */
void standby_drop(struct pod *pod);
