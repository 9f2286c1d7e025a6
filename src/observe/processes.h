#pragma once

#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* processes: what /proc says of the processes of this machine, at one moment. */
struct process {
    int64_t pid;
    int64_t parent;
    char state;
    int64_t cpu_ms;
    size_t above;  /* its parent's place among them; SIZE_MAX: it is not there */
    int64_t inner; /* what process_inner_pid() said; 0: not asked yet */
    int64_t born;  /* ticks since boot: tells a process from a later one with its number */
};
struct processes VEC_FIELDS(struct process); /* by pid; heap */

#define PROCESSES_MAX   65536
#define PROCESS_DEPTH   64  /* generations between a container and its rank */
#define PROCESS_THREADS 512 /* are looked at; with more nothing is said to be locked */

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
/* What its main thread waits in, by the kernel's name; empty where the kernel does not say. True:
 * it waits for another thread, and each of those for another one, in epoll, or in poll without a
 * limit: PyTorch's own for its store and gloo do. One that reads, sleeps or waits for a child may go
 * on by itself. Of *opens is taken what it costs; where nothing is left afterwards, the answer says
 * nothing. */
bool process_wait(int64_t pid, char *out, size_t out_bytes, size_t *opens);
