#pragma once

#include "base/str.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <sys/types.h>

struct err;

/* disk: what the workspace does with files: relative to an open folder, never through a link. */

/* For _cleanup_: closes unless negative. */
void disk_closep(int *fd);
/* All of it; 0 or -errno. */
int disk_write(int fd, struct str bytes);
/* Are they all zeros? */
bool disk_is_hole(struct str bytes);
/* disk_write() to the end of a file of our own: where whole blocks are zeros, it has holes. */
int disk_write_sparse(int fd, struct str bytes);
/* From where `from` stands to its end, as disk_write_sparse(). */
int disk_copy(int from, int to);
/* A file, a link, or a folder with everything below it; 0 also when it was not there. */
int disk_remove(int parent, const char *name);
/* The same for a path. */
int disk_remove_path(const char *path);
/* A folder and those above it, where they are missing. */
int disk_make_folders(const char *folder);

/* The folder last worked in, kept open: paths come sorted, so it is mostly the next one too. */
struct disk_walk {
    int fd; /* -1: none */
    char path[WS_PATH_MAX + 1];
};

#define DISK_WALK_NONE ((struct disk_walk){.fd = -1})

/* The folder that `path` (NUL-terminated, checked by manifest_check_path) lies in, opened from
 * `root` one part at a time; `make` is the mode in which parts that are missing are made, 0:
 * none is. It belongs to the walk and is good until the next call. *ret_name points to the last part of the path. */
int disk_parent(struct disk_walk *walk,
                int root,
                struct str path,
                mode_t make,
                const char **ret_name,
                struct err *err);
void disk_walk_done(struct disk_walk *walk);
