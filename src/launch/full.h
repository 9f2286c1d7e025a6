#pragma once

#include "base/str.h"

struct arena;
struct statvfs;

/* full: file systems without room, where a rank has failed.
 *
 * What a program says of a full disk depends on who wrote: PyTorch's archives name a position in the file
 * and no reason. */

/* "/data and /dev/shm" of the mounts in a text like /proc/self/mounts that can be written and have next to
 * nothing left; at most three of them. Empty: none. */
struct str full_names(struct arena *arena,
                      struct str mounts,
                      int (*look)(const char *path, struct statvfs *ret));
/* The same of this process. */
struct str full_here(struct arena *arena);
