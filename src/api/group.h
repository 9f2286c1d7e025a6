#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

/* group: what a pod group says of its pods. */
#define GROUP_ANNOTATION "pod-group-name" /* on pods: their group */

/* Whether another subgroup is below this one. */
bool group_is_parent(const struct json *subgroups, struct str name);
/* Pods that have to start together, by the spec of a pod group: minMember, or what its subgroups
 * ask for together. */
int64_t group_minimum(const struct json *spec);
