#pragma once

#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* processes: what /proc says of the processes of this machine, at one moment. */
struct process {
    int64_t pid;
    int64_t parent;
    char state;
    int64_t cpu_ms;
    size_t above;  /* its parent's place among them; SIZE_MAX: it is not there */
    int64_t inner; /* what process_inner_pid() said; 0: not asked yet */
    bool failed;   /* it is a zombie, and its exit status is not 0, as far as we may know */
    int64_t born;  /* ticks since boot: tells a process from a later one with its number */
};
struct processes VEC_FIELDS(struct process); /* by pid; heap */

#define PROCESSES_MAX      65536
#define PROCESS_FILE_BYTES 16384 /* of all files but maps */
#define PROCESS_DEPTH      64    /* generations between a container and its rank */

void processes_read(struct processes *ret);
/* NULL: there is none of that number. */
struct process *process_find(const struct processes *all, int64_t pid);
/* Whether `ancestor` is the process itself, its parent, its parent's parent, and so on. */
bool process_is_below(const struct processes *all, const struct process *process, int64_t ancestor);
/* The number that the process has in its own namespace; it is read once. -1: the process is gone.
 * 0: it would have to be read, and nothing is left of *opens, the files that may be opened. */
int64_t process_inner_pid(struct process *process, size_t *opens);
/* Bytes that it has read and written by itself so far, as the kernel counts them; 0: it does not say, or
 * nothing is left of *opens. */
int64_t process_io_bytes(int64_t pid, size_t *opens);
/* The file /proc/PID/NAME, or as much of it. False: there is none, or it is not ours to read. */
bool process_read(int64_t pid, const char *name, struct buf *ret, size_t bytes_max);
