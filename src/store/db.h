#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct db;
struct err;

/* db: the SQLite file. Tables: meta(name, value), objects(key, revision, value) and
 * log(revision, at_ms, event, key, value), keys being "group/plural/namespace/name". A change whose
 * object is still the newest has no value in the log: it is in objects, once. It moves over when a
 * newer one takes its place.
 *
 * sums(revision, sum): of each such state a checksum over key, revision and value, so that a digit that
 * changed where it lay is noticed when it is read. It goes when the state goes. A row without one is of a
 * muster that did not know them, and gets one with its next write; such a muster still opens the file,
 * writes rows without, and does not mind. */
#define DB_VERSION 1

/* Opens or makes the file. See store_open() for the failures. */
int db_open(const char *path, bool accept_loss, struct db **ret, struct err *err);
void db_close(struct db *db);

/* Everything, for the start. Texts live until the callback returns; a negative return ends the walk
 * and is returned. */
struct db_row {
    uint64_t revision;
    int64_t at_ms;
    int event;
    struct str key;
    struct str value; /* STR_NONE: in objects */
};
typedef int db_row_fn(void *user, const struct db_row *row, struct err *err);
/* Those whose key starts with `prefix`. */
int db_objects(struct db *db, struct str prefix, db_row_fn *fn, void *user, struct err *err);
int db_log(struct db *db, db_row_fn *fn, void *user, struct err *err);
int db_revisions(struct db *db, uint64_t *ret_revision, uint64_t *ret_compacted, struct err *err);

/* Of a row that has a value. */
uint64_t db_sum(struct str key, uint64_t revision, struct str value);

/* One transaction. */
struct db_write {
    struct str group;
    struct str plural;
    struct str ns;
    struct str name;
    uint64_t revision;
    int event;
    struct str value; /* the object; of a deletion its last state */
    /* What it replaces; 0: nothing. */
    uint64_t previous_revision;
    struct str previous_value;
};
struct db_commit {
    const struct db_write *writes;
    size_t count;
    int64_t at_ms;
    uint64_t compact; /* forget the log up to here; 0: nothing new */
};
int db_commit(struct db *db, const struct db_commit *commit, struct err *err);
/* Between two commits, when nobody waits for one: keeps SQLite's log short. */
void db_rest(struct db *db);
