#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

#define CHECKPOINT_NOTE_MAX 256

/* checkpoint: what processes have on GPUs, to host memory and back, by NVIDIA's driver (570 or
 * newer; loaded at run time), and by our library inside the processes where it owns memory, which is
 * faster (mover/gpu_copy.h): it goes first on the way out and last on the way in, because the driver
 * locks a process in between. Where it fails the driver moves everything. docs/internals/suspend.md
 * has what was measured.
 *
 * The driver's calls wait for a thread of the process they are about, without a limit that holds. So
 * they are made by a process of their own (`muster checkpoint-gpu`, a hidden command), which ends
 * itself when its time is over; the agent waits for its end and reads the file it left. Both ways
 * may be repeated at any point: the driver is asked first where each process stands. */
#define CHECKPOINT_COMMAND   "checkpoint-gpu"
#define CHECKPOINT_LIBRARY   "MUSTER_CUDA_LIBRARY" /* environment: another library, for tests */
#define CHECKPOINT_LOCK_MS   10000                 /* for work under way on the GPU to end */
#define CHECKPOINT_CARDS_MAX 64
/* A process with 90 GiB needs 50 s; 4 times that, and what starting takes. */
#define CHECKPOINT_LIMIT_S 240

struct checkpoint_order {
    bool out;                 /* to host memory; else back */
    const char *const *cards; /* UUIDs of cards that are the processes' own */
    size_t card_count;
    const pid_t *pids; /* all of the pod: those that use no GPU are left alone */
    size_t pid_count;
};

/* What it did, as the helper leaves it in its file. */
struct checkpoint_report {
    int64_t processes;              /* that use GPUs */
    int64_t moved_mib;              /* out: what is gone from the cards, where they tell */
    int64_t copied_mib;             /* out: how much of it our library moved */
    char note[CHECKPOINT_NOTE_MAX]; /* out: why it did not move what it should have; empty */
};

/* Does it, in this process. Out: all or none; where one fails the others are taken back. */
int checkpoint_do(const struct checkpoint_order *order,
                  struct checkpoint_report *ret,
                  struct err *err);
