#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;

/* group: what a pod group says of its pods. */
#define GROUP_ANNOTATION "pod-group-name" /* on pods: their group */
/* On pods: the PodGroup of scheduling.k8s.io that they name is not looked at. */
#define GROUP_IGNORE_WORKLOAD "kai.scheduler/ignore-workload-api"
/* On pod groups: why none of their pods is started, in words. */
#define GROUP_REFUSED "muster.dev/refused"

/* Subgroups of one group: 10000 segments of workers or Jobs of a set, what is above them, and some
 * more. A group of so many has less than a megabyte. */
#define GROUP_SUBGROUPS_MAX 10240
/* Levels of them: those that are made have three at most, and whoever counts a subgroup goes up. */
#define GROUP_DEPTH_MAX 32

/* pg-<name>-<uid> of what owns a gang. A name that leaves no room for the rest is cut, and told from
 * others that begin alike: any pod that can be stored can have a group. */
struct str group_name_make(struct arena *arena, struct str name, struct str uid);

/* The PodGroup of scheduling.k8s.io that a pod names and is to be in; empty: none. */
struct str group_named_by(const struct json *pod);
/* Our group that stands for that one. Its name follows from the other's alone, so that a pod that
 * says the one need not be told the other. */
#define GROUP_NAME_BYTES 254
struct str group_for_named(struct str named, char out[static GROUP_NAME_BYTES]);
/* The group that a pod is in: the one that it is told, or that which stands for what it names. */
struct str group_of_pod(const struct json *pod, char out[static GROUP_NAME_BYTES]);

/* Whether another subgroup is below this one. */
bool group_is_parent(const struct json *subgroups, struct str name);
/* Pods that have to start together, by the spec of a pod group: minMember, or what its subgroups
 * ask for together. */
int64_t group_minimum(const struct json *spec);
