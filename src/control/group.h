#pragma once

#include "base/str.h"

struct arena;
struct object;

/* group: names that pods, pod groups and their makers agree on. */
#define GROUP_ANNOTATION     "pod-group-name"              /* on pods */
#define GROUP_SUBGROUP_LABEL "kai.scheduler/subgroup-name" /* on pods */

/* pg-<name>-<uid> of the object that owns the gang. */
struct str group_name(const struct object *owner, struct arena *arena);
