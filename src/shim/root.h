#pragma once

#include "shim/hidden.h"
#include "shim/parts.h"

#include <limits.h>

/* root: a container's file system while it is put together (mount.c), and what its parts are made with. All
 * return 0, or -errno with the step and the path in root->words. */
#define PATH_BYTES PATH_MAX

struct root {
    int fd; /* the new root */
    const struct records *spec;
    char base[PATH_BYTES]; /* <n>. files, as absolute path prefix: /.../c/<name>/<n> */
    unsigned overlay_count;
    const char *points; /* mount points that are there already; may be NULL */
    bool shares; /* what is hidden is covered by a folder of theirs, which other pods have too */
    const char *lower; /* what the overlay of the root is over */
    struct hidden hidden;
    uid_t uid; /* whom the container runs as */
    gid_t gid;
    gid_t groups[SHIM_GROUPS_MAX];
    size_t group_count;
    char *words;
};

/* A new file system at `target` inside the root; the current folder is there then. */
int mount_in(struct root *root,
             const char *type,
             const char *target,
             unsigned long flags,
             const char *data);
/* `source` of the machine at `target` inside the root; of the options "ro", "nosuid", "nodev", "rec" count. */
int bind_path(struct root *root, const char *source, const char *target, const char *options);

/* The folder `path` inside the root, and every mount below it. */
int make_read_only(struct root *root, const char *path);

/* ---- kernel_mounts.c ---- */
/* /dev and /sys, and /proc unless somebody else mounts it. */
int kernel_mounts_make(struct root *root, const struct records *spec, bool with_proc);
