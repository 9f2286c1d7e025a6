#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* pod: what all ranks of a pod are doing, as a document:
 *
 *     {"processes": [{"pid": 41, "rank": 3, "main": true, "command": "python train.py", "state": "S",
 *                     "python": "3.11.7", "why": "...", "threads": [
 *         {"tid": 41, "name": "python", "state": "S", "wchan": "futex_do_wait", "syscall": "futex",
 *          "frames": [{"function": "get", "file": "/app/data.py", "line": 88}], "cut": true,
 *          "native": [{"function": "sem_wait", "file": "libc.so.6", "at": "0x8f1ac"}]}],
 *                     "flight": {...}}],
 *      "left": "..."}
 *
 * "main" is the process that is the rank; the others are those it has started (workers of a data
 * loader). "flight" is what its flight recorder says (stacks/flight.h). Frames begin with the innermost one. What is not known is left out: "why" says why there
 * are no stacks, "left" that processes were left out. Only processes of Python are told, and of a
 * rank that has none the one that was started.
 *
 * A rank is what its environment says (RANK of torchrun and of every framework that follows it; that
 * of an MPI, of JAX): the process where this begins, as the launcher above has another or none. A
 * pod without any shows its outermost processes of Python, without a number. */
#define POD_STACKS_PROCESSES_MAX 256
#define POD_STACKS_BYTES_MAX     ((size_t)8 << 20)
#define POD_STACKS_MS_MAX        10000 /* for all processes together */
#define POD_FLIGHT_MS_MAX        2000  /* for recorders that were asked, all together */

struct pod_stacks_request {
    const int64_t
        *roots;        /* the processes that the pod's containers began with; none: every process */
    size_t root_count; /* that is seen, but our own */
    const atomic_bool
        *given_up; /* set once nobody waits for it any more; NULL: somebody always does */
};
void pod_stacks(const struct pod_stacks_request *request, struct buf *out);
