#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "workspace/hash.h"
#include "workspace/manifest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct stat;

/* statcache: the hash of a file that did not change, without reading it.
 *
 * As git's index does: a file whose size, times and inode are those of the last scan has the
 * content of the last scan. A file that was changed just before it was read is not remembered,
 * since it could change again within the resolution of its times. One file a folder, under
 * $XDG_CACHE_HOME/muster; losing it costs time and nothing else. */
#define STATCACHE_RACY_NS ((int64_t)50 * 1000 * 1000)

struct statcache_stat {
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t inode;
};

struct statcache {
    char path[512];     /* of the cache file; empty: there is none */
    int64_t started_ns; /* of the scan, wall clock */
    bool exact;         /* it knew every file of the manifest it was applied to, and no other */
    struct statcache_vec VEC_FIELDS(
        struct statcache_stat) stats; /* ws_entry.tag - 1 is the index */
};

/* For the folder `root`; `cache_home` is $XDG_CACHE_HOME or NULL, `home` is $HOME or NULL. */
void statcache_open(struct statcache *cache,
                    const char *root,
                    const char *cache_home,
                    const char *home);
/* All of them, of every folder, and where they are if nothing else is there. */
void statcache_remove_all(const char *cache_home, const char *home);
void statcache_done(struct statcache *cache);
/* Room for tags 1 to `count`; then a file's stat may be noted under its tag by any thread. */
void statcache_reserve(struct statcache *cache, size_t count);
void statcache_note(struct statcache *cache, uint32_t tag, const struct stat *st);
/* Give the entries of a sorted manifest the hashes that are known. */
void statcache_apply(struct statcache *cache, struct manifest *manifest);
/* Write it anew, unless it is exact, for a manifest whose hashes are known; failures do not matter.
 */
void statcache_save(struct statcache *cache, const struct manifest *manifest);
