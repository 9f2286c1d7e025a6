#pragma once

#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;

/* watch: which paths below a folder have changed, coalesced: by inotify, or, where there is none, by looking again at each
 * watch_read() (then fd is -1).
 *
 * Every folder is watched, new ones as they appear. What changed is collected as a set of paths
 * relative to the root; a path stands for everything below it. When the kernel's queue overflows,
 * or more folders exist than may be watched, the set is the root itself: look at everything. */
struct watch {
    int fd;
    char *root;
    struct map
        folders; /* watch descriptor (decimal) -> struct watched; when looking: path -> struct seen */
    unsigned int look;  /* how many times it was looked at */
    struct map changed; /* path -> anything; keys are owned */
    bool everything;
};

int watch_open(struct watch *watch, const char *root, struct err *err);
void watch_done(struct watch *watch);
/* Read what the kernel has; true when there is something in the set. */
bool watch_read(struct watch *watch);
/* Hand the set over, sorted, in the arena; *ret_everything means the whole folder. */
size_t watch_take(struct watch *watch,
                  struct arena *arena,
                  struct str **ret_paths,
                  bool *ret_everything);
