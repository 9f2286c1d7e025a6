#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct actions;
struct arena;
struct control_input;
struct json;
struct object;

/* group: the controller that puts every pod into its pod group. */

/* Condition of PodGroups of scheduling.k8s.io. */
#define GROUP_SCHEDULED "PodGroupInitiallyScheduled"

/* Words of GROUP_REFUSED: pods of another scheduler are in the group. */
bool group_is_mixed(struct str refused);

/* A pod that waits, and that the scheduler does not look at, learns why: a condition and an event,
 * once for the same words. */
void group_tell_pod(struct actions *actions,
                    const struct object *pod,
                    struct str message,
                    int64_t now_ms);

/* Is the pod for our scheduler? Where there is no other one, each is. */
bool group_is_ours(const struct control_input *input, const struct json *pod);

/* Names the group on a pod that is about to be created, uid and all, so that the pod grouper need
 * not write it afterwards. Where the pod names one, or its owners are not known yet, nothing is
 * done. */
void group_admit(const struct control_input *input, struct json *pod, struct arena *arena);
/* The group of a pod that was just made, of its own and nobody else's: to be written with it. NULL:
 * it is in another one, or there is something that the pod grouper has to say or to wait for. */
struct json *group_alone(const struct control_input *input,
                         const struct object *pod,
                         struct arena *arena);
