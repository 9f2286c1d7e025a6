#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct cgroups;

/* counters: what the kernel has counted of a pod or one of its containers, from the files of their
 * control groups. Memory is what is charged to the group, so that a memfd or a file in /dev/shm
 * counts though no process has it mapped; what can be given back at once does not. */
struct counters {
    int64_t cpu_ns;
    int64_t memory_bytes;
    int64_t tasks; /* of a pod: processes and threads */
    bool has_cpu;
    bool has_memory;
};

/* Of a process that has no group for it only the first so many of a container are looked at. */
#define COUNTERS_PROCESSES_MAX 512

/* False: nothing is known. */
bool counters_of_container(const struct cgroups *cgroups,
                           struct str uid,
                           struct str container,
                           struct counters *ret);
/* Memory and tasks; zeroes where nothing is known. */
struct counters counters_of_pod(const struct cgroups *cgroups, struct str uid);
