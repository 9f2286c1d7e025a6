#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* place: how the job engine and a node speak of a gang that restarts in the pods that it has.
 *
 * A pod that carries the annotation stays when its program fails: its node keeps it, with its GPUs,
 * address and volumes, and waits to be told. "N stop" ends its containers unless they are the Nth
 * since the first (restartCount); "N go" starts them as the Nth. All pods of a gang have stopped
 * before any goes, so that no rank of the new round meets one of the old. "over" lets go of a pod
 * that failed. Whoever does not know the annotation lets the pod fail, as any pod does. */
#define PLACE_ANNOTATION "muster.dev/restart-in-place"

#define PLACE_ROUNDS_MAX 1000000000

struct place {
    bool set; /* the pod stays when its program fails */
    bool go;  /* its containers may run */
    int64_t round;
};

/* What is no such word says nothing: `set` is false. */
struct place place_parse(struct str text);
struct str place_text(struct arena *arena, int64_t round, bool go);
#define PLACE_OVER "over"

/* Annotation of a pod whose work is over: its node ends its containers as if it were deleted, and it stays, with its logs and
 * what it ended with. A kubelet does not know it. */
#define END_ANNOTATION "muster.dev/end"

/* Annotation of jobs and their pods, "true": while the ranks train, the next container waits with torch
 * imported, for the next restart in place (agent/standby.h). */
#define WARM_ANNOTATION "muster.dev/warm-processes"

/* Environment of a container that was restarted: which round it is. It is a part of the id of its
 * rendezvous. */
#define PLACE_ENV "MUSTER_ROUND"
