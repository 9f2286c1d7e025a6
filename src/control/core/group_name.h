#pragma once

#include "api/group.h"
#include "base/str.h"

struct arena;
struct object;

/* group_name: names that pods, pod groups and their makers agree on. */
#define GROUP_SUBGROUP_LABEL "kai.scheduler/subgroup-name" /* on pods */

/* On pod groups, moments: when the scheduler first started it, and since when it is below its
 * minimum. Both outlive a restart of the scheduler. */
#define GROUP_START_ANNOTATION "kai.scheduler/last-start-timestamp"
#define GROUP_STALE_ANNOTATION "kai.scheduler/stale-podgroup-timestamp"
/* And when it last lost pods to others, where it has a preemptionDelay. */
#define GROUP_EVICTION_ANNOTATION "kai.scheduler/last-eviction-timestamp"
/* When it had run for its maxRunTime; it is not started again. */
#define GROUP_OVER_ANNOTATION "muster.dev/max-run-time-reached"

/* On pods that are objects only, nothing runs in them: they belong to no group. */
#define GROUP_MIRROR "kubernetes.io/config.mirror"
/* Label of those among them that stand for parts of this program: a list of the pods of all
 * namespaces that does not ask for labels leaves them out, and so does the scheduler. */
#define GROUP_STAND_IN "muster.dev/stand-in"

/* On pod groups: "all" where their pods are stopped together or not at all, "single" where any of
 * them may be stopped alone. */
#define GROUP_DISRUPTION "muster.dev/disruption-mode"

/* The PodGroup of scheduling.k8s.io that a pod names in spec.schedulingGroup; empty: none. */
struct str group_named(const struct object *pod, struct arena *arena);

/* pg-<name>-<uid> of the object that owns the gang. */
struct str group_name(const struct object *owner, struct arena *arena);

/* Annotation of a Job's template in a JobSet: it begins with that many of its pods. */
#define GROUPING_MIN_PODS "torchrun.ai/min-pods"
