#pragma once

#include "base/map.h"
#include "base/str.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* stage: contents that have arrived for a workspace and wait for the commit that names them.
 *
 * They lie in WS_PRIVATE_DIR/stage: under their hash; large ones that are still arriving as
 * HASH.SIZE.part; and, as long as the workspace has never had a revision, in stage/laid under the
 * path they will have, so that the first commit moves a few folders instead of every file. All of
 * it survives the process: what is there is found again, and a content that was half here continues
 * where it was. */
#define STAGE_DIR WS_PRIVATE_DIR "/stage"

struct staged {
    char hex[HASH_HEX_BYTES];
    struct hash hash;
    uint64_t size;
    uint64_t have;
    uint32_t mode;  /* of the file */
    uint32_t needs; /* while a commit runs: entries that still want it */
    bool settled;   /* laid out, and already moved into the workspace */
    char *place;    /* NULL: under its hash; else its path in stage/laid */
};

struct stage {
    int fd;
    int laid_fd; /* -1 until something is laid out */
    struct disk_walk walk;
    struct map contents; /* hash -> struct staged */
    uint64_t bytes;      /* sum of their sizes */
    mode_t mask;         /* the process's umask: what a new file's mode loses */
};

/* Takes over what an earlier process left. With `doubt` the machine went down since: contents that
 * are not what their name says are thrown away, and so are pieces, which nobody can check. */
int stage_open(struct stage *stage, const char *root, int root_fd, bool doubt, struct err *err);
void stage_done(struct stage *stage);

struct staged *stage_find(const struct stage *stage, struct hash hash);
/* A piece of content; see tree_blob(). With `lay_out`, a small file goes where its path says. */
int stage_blob(struct stage *stage, const struct frame_blob *blob, bool lay_out, struct err *err);
/* A copy of what is read from `fd`, which must have this hash (-EILSEQ). */
int stage_copy(struct stage *stage, int fd, struct hash hash, uint64_t size);

/* ---- while a commit runs ---- */

/* What was laid out comes into the workspace, folder by folder; what `target` does not have in that
 * place goes back under its hash. */
int stage_settle(struct stage *stage, int root_fd, const struct manifest *target, struct err *err);
/* The content becomes parent/name, which is entry->path. Its last use moves it. */
int stage_put(struct stage *stage,
              int root_fd,
              int parent,
              const char *name,
              const struct ws_entry *entry);
/* A content that no entry of the commit wanted after all. */
void stage_drop_unused(struct stage *stage, struct hash hash);
int stage_put_link(struct stage *stage, int parent, const char *name, struct str target);
