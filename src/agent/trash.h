#pragma once

#include <stdatomic.h>
#include <stdbool.h>

struct err;

/* trash: folders that are to go. They vanish from their place at once, by a rename into
 * DATA/trash, and are emptied from there in a worker thread, which can be stopped at any file:
 * what is left then goes after the next start. */
struct trash {
    char folder[512];
    atomic_bool stop;
    atomic_bool busy;
    atomic_uint next;
    long long begun; /* makes names that an earlier muster did not use */
};

int trash_open(struct trash *trash, const char *data_dir, struct err *err);
/* Out of sight. A path that cannot be moved stays where it is. */
void trash_put(struct trash *trash, const char *path);
/* Remove all that is there, however deep and without following links; for a worker thread. Returns
 * at once where another thread is at it: that one takes what was put meanwhile. Files that cannot
 * be removed stay. True when nothing is left. */
bool trash_empty(struct trash *trash);
