#pragma once

#include "base/str.h"

#include <stdint.h>

struct arena;
struct control_input;
struct json;
struct object;

/* group: names that pods, pod groups and their makers agree on. */
#define GROUP_ANNOTATION     "pod-group-name"              /* on pods */
#define GROUP_SUBGROUP_LABEL "kai.scheduler/subgroup-name" /* on pods */

/* On pod groups, moments: when the scheduler first started it, and since when it is below its
 * minimum. Both outlive a restart of the scheduler. */
#define GROUP_START_ANNOTATION "kai.scheduler/last-start-timestamp"
#define GROUP_STALE_ANNOTATION "kai.scheduler/stale-podgroup-timestamp"

/* On pods that are objects only, nothing runs in them: they belong to no group. */
#define GROUP_MIRROR "kubernetes.io/config.mirror"

/* pg-<name>-<uid> of the object that owns the gang. */
struct str group_name(const struct object *owner, struct arena *arena);

/* Pods that have to start together, by the spec of a pod group: minMember, or what its subgroups
 * ask for together. */
int64_t group_minimum(const struct json *spec);

/* Names the group on a pod that is about to be created, uid and all, so that the pod grouper need
 * not write it afterwards. Where the pod names one, or its owners are not known yet, nothing is
 * done. */
void group_admit(const struct control_input *input, struct json *pod, struct arena *arena);
