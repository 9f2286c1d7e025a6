#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* fence: ranks on a node that was given up, where they may still run, end when the next gang begins.
 *
 * Old and new pods share the checkpoint volume, so it is there that they hear of each other: every
 * gang but the first of a job leaves an empty file in the job's folder (LAUNCH_ENV_FENCE) before its
 * first rank starts, named GENERATION.ROUND. A pod that finds the file of a later gang starts no rank
 * and ends those it has. Files are only added, so nobody who is late takes one back.
 *
 * Who is cut off from the volume as well hears nothing, and writes nothing there either. Looking is
 * left to a process of its own: a volume that does not answer holds up nothing else. */
#define FENCE_LOOK_MS 2000

struct fence_gang {
    uint64_t generation; /* whole-gang restarts before it */
    uint64_t round;      /* and restarts in the pods that there were */
};

/* The one that this pod belongs to, by its environment. */
struct fence_gang fence_own(void);
/* Is there a later gang, and which is the latest? */
bool fence_is_passed(const char *folder, struct fence_gang own, struct fence_gang *ret_by);
/* Tells those before this gang that it begins. -ESTALE: a later one has. */
int fence_raise(const char *folder, struct fence_gang own, struct err *err);
/* A process that looks every FENCE_LOOK_MS, and ends with exit status 1 once it is passed. */
pid_t fence_watch(const char *folder, struct fence_gang own);
