#pragma once

#include "base/str.h"

#include <stddef.h>
#include <sys/types.h>

struct cgroups;
struct err;

/* freeze: the processes of a pod stand still, and go on. By the freezer of control groups, version 1
 * or 2; where there is none, by SIGSTOP to every process that descends from the containers' first
 * ones. Each call may be repeated, also by another process: what is so already stays so. */
#define FREEZE_PIDS_MAX 4096 /* as many as a pod may have, see CGROUP_POD_PIDS_MAX */

struct freeze {
    const struct cgroups *cgroups;
    struct str uid;     /* of the pod */
    const pid_t *roots; /* first processes of its containers, as the machine counts */
    size_t root_count;
};

/* 0: all of them stand. -EAGAIN: not yet, ask again soon. Else err has words. */
int freeze_stop(const struct freeze *freeze, struct err *err);
int freeze_go(const struct freeze *freeze, struct err *err);
/* They end where they stand, and run no further. */
void freeze_kill(const struct freeze *freeze);
size_t freeze_pids(const struct freeze *freeze, pid_t ret[static FREEZE_PIDS_MAX]);
