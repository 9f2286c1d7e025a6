#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct err;
struct json;
struct pod;

/* cgroup: requests and limits as control groups, version 1 or 2, as records for the shim, which
 * makes and removes them. A pod's group is <base>/<uid>, a container's <base>/<uid>/<name>. */
#define CGROUP_PATH_BYTES   512
#define CGROUP_POD_PIDS_MAX 4096 /* processes and threads of one pod: a fork bomb ends there */

enum cgroup_kind {
    CGROUP_NONE,
    CGROUP_V1,
    CGROUP_V2,
};

struct cgroups {
    enum cgroup_kind kind;
    char memory[CGROUP_PATH_BYTES]; /* base folders; version 2 uses this one alone */
    char cpu[CGROUP_PATH_BYTES];
    char pids[CGROUP_PATH_BYTES];
    char freezer[CGROUP_PATH_BYTES]; /* of version 1; empty: there is none */
    char why[240];                   /* CGROUP_NONE: what is missing */
};

/* Find and prepare the base folders. */
void cgroup_look(struct cgroups *cgroups);
void cgroup_add(const struct pod *pod, const struct json *container, struct buf *records);
/* The same of the container that starts first, for the pod's own file. */
void cgroup_add_first(const struct pod *pod, struct buf *records);
/* The records of an exec: join the group of the container that runs. */
void cgroup_add_join(const struct pod *pod, const struct json *container, struct buf *records);
/* The processes of a pod of that uid; none where there are no groups. */
size_t cgroup_pids(const struct cgroups *cgroups, struct str uid, pid_t *ret, size_t max);
/* A container may use so many bytes more than its limit; 0: as many as that says. Without a limit,
 * or a group, nothing happens. */
void cgroup_allow(const struct pod *pod, const struct json *container, int64_t extra_bytes);
/* The groups of a pod of that uid, where its shim could not remove them. Those in use stay. */
void cgroup_remove(const struct cgroups *cgroups, struct str uid);
