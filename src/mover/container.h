#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* container: all processes of the container that this one runs in, off their GPU and back, by our
 * library inside of them (mover/gpu_copy.h). It is what `muster-launch gpu-memory` does, where no agent
 * of ours is on the node and only `pods/exec` reaches a pod: there the driver's part, contexts, stays
 * on the card.
 *
 * Out: all or none. The library must own all but CONTAINER_LEFT_MIB of what is allocated, since the
 * rest would stay on a card that is somebody else's by then; and host memory must have room for it
 * within the limit of the container, since nobody can raise that from here. Both ways may be repeated
 * at any point, also by another process after this one was killed. */
#define CONTAINER_COMMAND       "gpu-memory" /* of muster-launch; then "out" or "in" */
#define CONTAINER_LIMIT_S       240          /* then it ends itself, see agent/checkpoint.h */
#define CONTAINER_PROCESSES_MAX 64           /* with GPU memory: one a GPU is usual */
#define CONTAINER_LEFT_MIB      64           /* in pieces of less than 2 MiB */
#define CONTAINER_SPARE_MIB     128 /* of host memory, that the container keeps for itself */

/* Processes that are looked at; none: all that can be seen. */
struct container_order {
    const pid_t *pids;
    size_t pid_count;
};

struct container_report {
    int64_t processes; /* with memory on the card */
    int64_t moved_mib; /* out: that is in host memory now */
};

/* Where it fails, err says why, and everything is as it was. */
int container_out(const struct container_order *order,
                  struct container_report *ret,
                  struct err *err);
/* Where it fails, err says why, and those that could not be brought back are still held. */
int container_in(const struct container_order *order,
                 struct container_report *ret,
                 struct err *err);

/* ---- for tests ---- */

/* MiB that the container may still take, by the files of its control group under `root`, of either
 * version; INT64_MAX: it has no limit. */
int64_t container_room_mib(const char *root);
