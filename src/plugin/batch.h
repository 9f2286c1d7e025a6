#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;

/* batch: what `sync --watch` sends after a change: what to set, what is gone, and the revision that
 * this gives. No I/O. */
struct batch {
    VEC(struct ws_entry) set; /* entries borrow from `now` */
    VEC(struct str) gone;
    struct hash revision;
};

/* Whether `path` is the folder or lies in it. */
bool batch_is_below(struct str path, struct str folder);
/* Whether a folder above paths[at] is among the (sorted) paths as well: whoever looks at that one
 * sees this one too. It need not be the path before: "a-b" sorts between "a" and "a/x". */
bool batch_is_covered(const struct str *paths, size_t count, size_t at);
/* Compares what the other side has with everything at and below the changed paths, as it is `now`
 * (both sorted). `paths` is sorted; those that others cover are not looked at again. */
void batch_compare(struct arena *arena,
                   const struct manifest *have,
                   const struct manifest *now,
                   const struct str *paths,
                   size_t count,
                   struct batch *ret);
