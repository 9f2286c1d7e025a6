#pragma once

#include "base/str.h"
#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

/* sbatch: what the #SBATCH lines of somebody's script ask for. No I/O.
 *
 * sbatch reads them until the first line that is a command. Those that have a meaning here are read; the
 * others are named, so that nobody relies on them. */
struct sbatch {
    bool any; /* there is a line */
    int64_t gpus;
    const char *name;
    const char *time;
    const char *array;
    const char *folder;
    bool requeue;
    int64_t memory_bytes; /* of the node that it gets */
    int64_t cpus;
    int64_t task_cpus; /* --cpus-per-task */
    struct option_list env;
    struct option_list after;
    struct option_list unread; /* "--partition=gpu" */
};

/* -EINVAL: a line that has no meaning, or a command that there is not here: srun. */
int sbatch_read(struct arena *arena, struct str text, struct sbatch *ret, struct err *err);
