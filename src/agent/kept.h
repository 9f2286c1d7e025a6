#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct agent;
struct pod;

/* kept: logs of pods that are gone.
 *
 *     logs/<namespace>_<pod>_<generation>_<uid>/<container>/<n>.log ...
 *
 * When a pod is removed its log files move there, if they are not empty. <generation> is the pod's
 * label torchrun.ai/generation, empty without one: a job's pods have the same names again in its
 * next generation. Kept for KEPT_AGE_MS, the newest of up to KEPT_PODS_MAX pods and KEPT_BYTES_MAX
 * (a container has at most 50 MB, so that of the last hundred that wrote that much), shared out by
 * namespace: the newest of each stays before the second newest of any; so
 * `pods/NAME/log` still answers for a pod that is gone, and `?generation=N` says which one of that
 * name. */
#define KEPT_AGE_MS    ((int64_t)7 * 24 * 3600 * 1000)
#define KEPT_PODS_MAX  2000
#define KEPT_BYTES_MAX ((uint64_t)5 << 30)

/* Removes what is too old, or too much, in the folder of what is kept. */
struct kept_limits {
    int64_t since_ms; /* what is older goes */
    size_t pods;
    uint64_t bytes;
};
void kept_prune(const char *logs, const struct kept_limits *limits);

/* Moves the logs and what the pod wrote, and removes its folder, in a worker thread. */
void kept_bury(const struct pod *pod);
/* The pod has ended: of its folder, what is as it was shipped goes, in a worker thread. */
void kept_strip(const struct pod *pod);
/* From the heartbeat: what is kept of pods' results is looked through now and then. */
void kept_beat(struct agent *agent);

struct kept_request {
    struct str ns;
    struct str pod;
    struct str container;  /* empty: the only one, or the first */
    struct str generation; /* empty: the newest of that name */
    bool previous;
};
/* The folder and the number of the log; false: there is none. */
bool kept_find(const struct agent *agent,
               const struct kept_request *request,
               char *ret_folder,
               size_t folder_size,
               unsigned *ret_instance);
