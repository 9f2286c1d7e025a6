#pragma once

#include <limits.h>
#include <stdbool.h>

/* reserve: a file beside the store that is given up when the disk is full, so that deletes, which
 * make room for others, still have where to be written. */

/* The log of SQLite takes a few pages a write: some thousand small ones. */
#define RESERVE_BYTES (16 << 20)

struct reserve {
    char path[PATH_MAX]; /* empty: there is no file, and so no reserve */
    bool held;
};

/* Beside the store's file. */
void reserve_open(struct reserve *reserve, const char *store_path);
void reserve_give_up(struct reserve *reserve);
/* Whether there is room again for the reserve and as much besides. */
bool reserve_has_room(const struct reserve *reserve);
/* A reserve that cannot be had is none: the disk may be full already. */
void reserve_take(struct reserve *reserve);
