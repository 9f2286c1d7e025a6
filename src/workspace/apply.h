#pragma once

#include "base/vec.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct err;
struct tree;

/* apply: a tree on disk goes from one revision to the next.
 *
 * Where a job runs in the folder (tree->shared), what is there may be the job's: what is not as it
 * was shipped, and what was there before we shipped the same. Such a file is never replaced and
 * never removed; it is named (tree->kept) and stays, and the rest of the revision comes. What the
 * job removed comes again when it changes. So nothing that a job does to its folder can keep a
 * revision from arriving. */
enum apply_verdict {
    APPLY_DO,   /* as the change says */
    APPLY_KEEP, /* the job's own is in its place */
    APPLY_NONE, /* it is so already */
};

struct change {
    const struct ws_entry *before; /* NULL: new */
    const struct ws_entry *after;  /* NULL: gone */
    enum apply_verdict verdict;
    bool there;       /* something was, when we looked */
    struct stat seen; /* which */
};

struct changes VEC_FIELDS(struct change);

/* In path order. `target` is the whole manifest to come, or NULL when only a few entries change. All
 * contents that are needed must be in the stage or the tree: -ENOENT names one that is not, and
 * nothing has changed. */
int apply_changes(struct tree *tree,
                  struct changes *changes,
                  const struct manifest *target,
                  struct err *err);
/* Is what lies at the entry's path what the entry says, its mode apart? */
bool apply_is_there(struct tree *tree, const struct ws_entry *entry);
