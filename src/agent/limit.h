#pragma once

#include "agent/env.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct arena;
struct buf;
struct err;
struct pod;

/* limit: libmuster-gpu.so in the containers that have a share of a GPU (api/limit.h), and in those
 * whose GPU memory it is to move when they are suspended (api/gpu_page.h). Without
 * agent_options.gpu_library nothing here does anything. */

/* Where the library is installed: beside the program, or in ../lib/muster from there. False: in
 * neither place; then *ret is the first of them. */
bool limit_find_library(char ret[static PATH_MAX]);

/* The file the container's processes count in. */
int limit_make_region(const struct pod *pod, struct err *err);
/* After the user's own environment: what is said here is true. */
void limit_env(const struct pod *pod, size_t index, struct arena *arena, struct env *env);
void limit_mounts(const struct pod *pod, size_t index, struct buf *records);
