#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "workspace/hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;

/* manifest: what a workspace contains, without the contents.
 *
 * Entries are sorted by path (bytes), each path once; every directory has an entry of its own, so
 * empty ones survive. Permission bits are kept, owners and times are not: two folders with the same
 * files have the same revision wherever and whenever they were written.
 *
 * Manifests come from the network. manifest_check_path() and manifest_check_link() are the rules
 * that keep a workspace inside its folder; manifest_finish() applies them to every entry. */
enum ws_type {
    WS_FILE = 'f',
    WS_DIR = 'd',
    WS_LINK = 'l',
};

#define WS_PATH_MAX    4095
#define WS_NAME_MAX    255
#define WS_ENTRIES_MAX ((size_t)2 << 20)
#define WS_BYTES_MAX   ((uint64_t)1 << 40)
/* Our own state inside a workspace folder; never part of a manifest. */
#define WS_PRIVATE_DIR ".muster"
/* A change of this file restarts the ranks, as `sync --restart` does. */
#define WS_RESTART_FILE ".torchrun-restart"

struct ws_entry {
    struct str path;
    struct str target; /* links: where to; otherwise empty */
    uint64_t size;     /* files: bytes */
    struct hash hash;  /* files: of the contents */
    uint32_t mode;     /* permission bits, 0777; 0 for links */
    uint32_t tag;      /* the scanner's own (workspace/statcache.h); never travels */
    enum ws_type type;
};

/* The revision is the sum of the entries' hashes (and a constant, so that an empty folder is not
 * the same as none): it follows a change without looking at what did not change. */
struct manifest {
    struct arena arena;                                      /* owns the strings */
    struct ws_entry_vec VEC_FIELDS(struct ws_entry) entries; /* on the heap */
    uint64_t bytes;                                          /* of all files */
    struct hash revision; /* zero before manifest_finish(): nothing at all was ever put here */
    uint32_t refs;
};

/* A manifest on the heap with one reference. */
struct manifest *manifest_new(void);
struct manifest *manifest_ref(struct manifest *manifest);
void manifest_unref(struct manifest *manifest);
void manifest_unrefp(struct manifest **manifest);

/* Copies the strings. */
void manifest_add(struct manifest *manifest, const struct ws_entry *entry);
/* By path. */
void manifest_sort(struct manifest *manifest);
/* Sort, check every rule (-EINVAL names the path) and compute bytes and revision. */
int manifest_finish(struct manifest *manifest, struct err *err);
/* NULL when absent. */
const struct ws_entry *manifest_find(const struct manifest *manifest, struct str path);
/* Index of the first entry that does not sort before `path`. */
size_t manifest_lower_bound(const struct manifest *manifest, struct str path);
bool ws_entry_eq(const struct ws_entry *a, const struct ws_entry *b);
/* What the entry adds to the revision. */
struct hash ws_entry_hash(const struct ws_entry *entry);

/* Changes to a finished manifest, which stays finished: insert or replace; take out (absent is
 * fine). The rules must have been checked: manifest_check_entry() and a folder as parent. */
void manifest_set(struct manifest *manifest, const struct ws_entry *entry);
void manifest_remove(struct manifest *manifest, struct str path);
/* The folder part of a path; empty at the top. */
struct str manifest_parent(struct str path);

/* Relative, no empty, "." or ".." part, no NUL, bounded, not under WS_PRIVATE_DIR. */
int manifest_check_path(struct str path, struct err *err);
/* Does a link point inside the workspace: relative, and not above its top from where it is? */
int manifest_check_link(struct str path, struct str target, struct err *err);

/* All rules of one entry. A link may also have an absolute target, as data -> /datasets: nothing of
 * ours follows a link, and whoever runs there could make the same. */
int manifest_check_entry(const struct ws_entry *entry, struct err *err);

/* Differences in path order. `fn` gets the old entry (NULL: new), the new one (NULL: gone); entries
 * that are equal are not told. Stops at the first non-zero return and hands it on. */
typedef int manifest_diff_fn(void *user,
                             const struct ws_entry *before,
                             const struct ws_entry *after);
int manifest_diff(const struct manifest *before,
                  const struct manifest *after,
                  manifest_diff_fn *fn,
                  void *user);
