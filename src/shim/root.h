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
    bool of_person; /* parts of the machine are mounted with her rights alone ("as") */
    char **volumes; /* where a person's are, as the kernel names it */
    size_t volume_count;
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

/* ---- target.c: what a mount goes over, made where it is missing ---- */
/* A descriptor or -errno. In a person's volume it is made with her rights: on the machine it stays. */
int target_open(const struct root *root, const char *path, bool is_folder);
/* A volume of hers is at the path now. */
int target_note(struct root *root, const char *path);
/* What follows is done with the rights of the container's user: 0 or -errno; and back, in any case. */
int rights_of_user(const struct root *root);
void rights_of_shim(void);

/* ---- kernel_mounts.c ---- */
/* /dev and /sys, and /proc unless somebody else mounts it. */
int kernel_mounts_make(struct root *root, const struct records *spec, bool with_proc);
