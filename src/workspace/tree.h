#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "workspace/disk.h"
#include "workspace/frame.h"
#include "workspace/manifest.h"
#include "workspace/stage.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct changes;
struct err;

/* tree: a workspace on disk that is brought from one revision to the next.
 *
 * Contents arrive first, in pieces, and wait in the stage (workspace/stage.h); a commit then moves
 * them into place. Every file appears by rename, so a reader sees the old one or
 * the new one, never a part. What the job wrote is left alone (workspace/apply.h). A commit that is
 * cut leaves a note of what it was about: what of it has happened is found out. Staged contents and
 * the manifest survive a restart, so an upload that was interrupted continues where it stopped.
 *
 * Nothing of it is synced: a user waits for each commit, and has the folder that it comes from. What
 * a power cut left is found out instead. The manifest's neighbour has the machine's boot id; under
 * another one every file is read again, and those that are not what the manifest says become what
 * they are, so the next commit writes them anew. A manifest that breaks off counts up to there.
 *
 * Nothing here trusts its input: paths are walked from the root one part at a time without
 * following links, contents must have the hash they were announced with, sizes are bounded. */
#define TREE_SMALL_DELTA_MAX 64 /* up to this many changes are applied to the manifest in place */
#define TREE_LIGHT_BYTES_MAX ((uint64_t)8 << 20)
#define TREE_KEPT_NAMED      5 /* files of the job's that a commit names */

struct tree {
    int root_fd;
    struct stage stage;
    struct manifest *current;
    struct map located; /* hash -> entry of `current`; built when first asked */
    bool located_valid;
    int log_fd;           /* the manifest on disk, changes are appended */
    uint64_t log_entries; /* in it; rewritten when it has many more than the manifest */
    struct disk_walk walk;
    bool shared;  /* a job runs in the folder: set by whoever opened it */
    bool guarded; /* while a commit is applied: what is there may be the job's */
    /* Paths of the current revision that the job wrote before we shipped the same: when they go from
     * the revision, they stay on disk. */
    struct map own;
    struct arena own_arena;
    bool own_changed;
    /* Of the last commit: the job's files that stayed in place of ours, a few of them by name. */
    size_t kept_count;
    struct buf kept; /* a path a line */
};

/* Takes over what an earlier process left in `root`, which must exist. With `adopt`, a folder that
 * has no manifest of ours is scanned and becomes the current revision. */
int tree_open(struct tree *tree, const char *root, bool adopt, struct err *err);
void tree_done(struct tree *tree);

/* Is the content here, whole? If not, *ret_offset is how much of it has arrived. */
bool tree_has(struct tree *tree, struct hash hash, uint64_t size, uint64_t *ret_offset);
/* A piece of content. Pieces of one content come in order; one that is already here is ignored.
 * -EILSEQ: the whole does not have its hash (it changed while it was read, or was damaged). */
int tree_blob(struct tree *tree, const struct frame_blob *blob, struct err *err);
/* A commit: what changes, collected from frames. */
struct delta {
    struct arena arena;
    struct frame_begin begin;
    bool begun;
    struct ws_entry_vec set; /* strings on the arena */
    VEC(struct str) gone;
};

/* Takes begin, entry and gone frames. -EPROTO for others, or in the wrong order. */
int delta_frame(struct delta *delta, const struct frame *frame, struct err *err);
void delta_done(struct delta *delta);
/* Small enough to be handed to every worker in one go, contents included. */
bool delta_is_light(const struct delta *delta);
bool delta_sets(const struct delta *delta, struct str path);

/* Make the folder what the delta says. -ESTALE: its base is not the current revision. All contents
 * must be here (-ENOENT names one that is not); -EILSEQ: the result is not the announced revision.
 * Until those are checked nothing on disk changes. */
int tree_commit(struct tree *tree, const struct delta *delta, struct err *err);
/* ---- for workspace/apply.c ---- */
/* Which file of the current revision has this content? NULL: none. */
const struct ws_entry *tree_locate(struct tree *tree, struct hash hash, uint64_t size);
/* No file has it, whatever the manifest says. */
void tree_forget(struct tree *tree, struct hash hash);
bool tree_is_own(const struct tree *tree, struct str path);
void tree_set_own(struct tree *tree, struct str path, bool own);
void tree_note_kept(struct tree *tree, struct str path);
/* From here on the disk changes. */
int tree_begin(struct tree *tree, const struct changes *changes, struct err *err);
/* A file of the current revision, for reading; -errno. */
int tree_open_file(struct tree *tree, const struct ws_entry *entry, struct err *err);
