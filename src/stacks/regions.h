#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "stacks/image.h"
#include "stacks/memory.h"
#include "stacks/unwind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* regions: the code that a process has mapped, by address, and by it the frames of its threads. */
#define REGIONS_MAX 4096

struct region {
    uint64_t begin;
    uint64_t end;
    uint64_t base; /* where its file is mapped */
    struct str path;
    struct image image;
    bool opened;
    bool ok;
    bool used; /* there is a frame in it */
};

struct regions {
    struct memory memory; /* the process's; the caller's to fill in */
    VEC(struct region) all;
};

/* As /proc/PID/maps has them; none, where that is not ours to read. */
void regions_read(struct regions *regions, int64_t pid, struct arena *arena);
/* NULL: an address of no code. */
struct region *regions_find(const struct regions *regions, uint64_t address);
/* See unwind_stack(). */
size_t regions_unwind(struct regions *regions,
                      const struct unwind_start *start,
                      uint64_t ret[static UNWIND_FRAMES_MAX]);
