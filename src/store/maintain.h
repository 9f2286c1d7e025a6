#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct err;

/* maintain: looking after a store's file from outside. Both work while a muster serves from it. */

struct store_report {
    size_t objects;
    size_t changes; /* remembered for watches */
    uint64_t revision;
    size_t problems;
};

/* Reads everything: the file itself (SQLite's own check), every object and change, and whether
 * their revisions agree. `problem` is called with a line for each thing that is wrong. -EIO when
 * the file cannot be read at all, -EPROTO when it is of a newer version. */
int store_check(const char *path,
                void (*problem)(void *user, const char *text),
                void *user,
                struct store_report *ret,
                struct err *err);

/* Every object whose key begins with `prefix` ("/serviceaccounts/NS/"), of a store that nobody writes to. */
int store_each(const char *path,
               const char *prefix,
               void (*fn)(void *user, struct str value),
               void *user,
               struct err *err);

/* A consistent copy, made beside the writer. `target` must not exist; it appears whole or not at
 * all. */
int store_backup(const char *path, const char *target, struct err *err);
