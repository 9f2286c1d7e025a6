#include "store/db.h"

#include "api/api.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/checkpoint.h"
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/file.h>
#include <unistd.h>

/* Durability: WAL with synchronous=FULL, so a COMMIT returns after the fsync of the log. The lock
 * file keeps a second process out; SQLite's own locks let `muster store backup` read meanwhile. */

#define BUSY_MS 5000 /* a backup or check in another process may hold the file */

struct db {
    sqlite3 *handle;
    sqlite3_stmt *put;
    sqlite3_stmt *drop;
    sqlite3_stmt *log;
    sqlite3_stmt *fill;
    sqlite3_stmt *meta;
    sqlite3_stmt *cut;
    sqlite3_stmt *sum;
    sqlite3_stmt *unsum;
    sqlite3_stmt *cut_sums;
    bool accept_loss;
    struct checkpoint *checkpoint;
    struct mark mark;
    int lock_fd;
};

/* That is no trouble of the disk: it goes by like a full one. SQLite takes it for an I/O error of the
 * file it wrote to, which is the log. */
static bool quota_is_used_up(const struct db *db)
{
    sqlite3_file *log = NULL;
    int number = 0;

    return sqlite3_file_control(db->handle, NULL, SQLITE_FCNTL_JOURNAL_POINTER, &log) ==
               SQLITE_OK &&
           log && log->pMethods &&
           log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK &&
           number == EDQUOT;
}

static int sql_fail(const struct db *db, struct err *err, const char *doing)
{
    int code = sqlite3_extended_errcode(db->handle);
    bool full =
        (code & 0xff) == SQLITE_FULL || (code == SQLITE_IOERR_WRITE && quota_is_used_up(db));
    int r = full ? -ENOSPC : (code & 0xff) == SQLITE_BUSY ? -EBUSY : -EIO;

    return err_set(err, r, "%s: %s", doing, sqlite3_errmsg(db->handle));
}

static int db_exec(const struct db *db, const char *sql, struct err *err)
{
    if (sqlite3_exec(db->handle, sql, NULL, NULL, NULL) != SQLITE_OK)
        return sql_fail(db, err, "store");
    return 0;
}

static int statement_prepare(const struct db *db,
                             const char *sql,
                             sqlite3_stmt **ret,
                             struct err *err)
{
    if (sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL) != SQLITE_OK)
        return sql_fail(db, err, "store");
    return 0;
}

static int file_lock(struct db *db, const char *path, struct err *err)
{
    _cleanup_(buf_done) struct buf name = {0};

    buf_addf(&name, "%s.lock", path);
    db->lock_fd = open(name.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (db->lock_fd < 0)
        return err_set(err, -errno,
                       "cannot create %s: %m; check that the folder is there and "
                       "writable",
                       name.p);
    if (flock(db->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return err_set(err, -EBUSY, "%s is in use by another process; stop that one first", path);
    return 0;
}

static int meta_get(const struct db *db, const char *name, uint64_t *ret, struct err *err)
{
    sqlite3_stmt *select = NULL;
    int r = statement_prepare(db, "SELECT value FROM meta WHERE name = ?", &select, err);

    if (r < 0)
        return r;
    sqlite3_bind_text(select, 1, name, -1, SQLITE_STATIC);
    r = sqlite3_step(select);
    if (r == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    return r == SQLITE_ROW || r == SQLITE_DONE ? 0
                                               : sql_fail(db, err, "store: reading its version");
}

static int db_lay_out(const struct db *db, const char *path, struct err *err)
{
    static const char sql[] =
        "BEGIN IMMEDIATE;"
        "CREATE TABLE IF NOT EXISTS meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
        "CREATE TABLE IF NOT EXISTS objects(key TEXT PRIMARY KEY, revision INTEGER NOT NULL,"
        " value BLOB NOT NULL);"
        "CREATE TABLE IF NOT EXISTS log(revision INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,"
        " event INTEGER NOT NULL, key TEXT NOT NULL, value BLOB);"
        "CREATE TABLE IF NOT EXISTS sums(revision INTEGER PRIMARY KEY, sum INTEGER NOT NULL);"
        "INSERT OR IGNORE INTO meta VALUES('version', 1), ('revision', 0), ('compacted', 0);"
        "COMMIT;";
    uint64_t version = 0;
    sqlite3_stmt *probe = NULL;

    /* The version is read before anything is written: a newer file stays as it is. */
    if (sqlite3_prepare_v2(db->handle, "SELECT value FROM meta WHERE name = 'version'", -1, &probe,
                           NULL) == SQLITE_OK &&
        sqlite3_step(probe) == SQLITE_ROW)
        version = (uint64_t)sqlite3_column_int64(probe, 0);
    sqlite3_finalize(probe);
    if (version > DB_VERSION)
        return err_set(err, -EPROTO,
                       "%s was written by a newer version (store version %" PRIu64
                       ", this program knows %d): start that version, or another folder",
                       path, version, DB_VERSION);
    return db_exec(db, sql, err);
}

static int prepare_all(struct db *db, struct err *err)
{
    int r = statement_prepare(db,
                              "INSERT INTO objects(key, revision, value) VALUES(?1, ?2, ?3)"
                              " ON CONFLICT(key) DO UPDATE SET revision = ?2, value = ?3",
                              &db->put, err);
    if (r == 0)
        r = statement_prepare(db, "DELETE FROM objects WHERE key = ?1", &db->drop, err);
    if (r == 0)
        r = statement_prepare(db, "INSERT INTO log VALUES(?1, ?2, ?3, ?4, ?5)", &db->log, err);
    if (r == 0)
        r = statement_prepare(db, "UPDATE log SET value = ?2 WHERE revision = ?1 AND value IS NULL",
                              &db->fill, err);
    if (r == 0)
        r = statement_prepare(db, "UPDATE meta SET value = ?2 WHERE name = ?1", &db->meta, err);
    if (r == 0)
        r = statement_prepare(db, "DELETE FROM log WHERE revision <= ?1", &db->cut, err);
    if (r == 0)
        r = statement_prepare(db, "INSERT OR REPLACE INTO sums VALUES(?1, ?2)", &db->sum, err);
    if (r == 0)
        r = statement_prepare(db, "DELETE FROM sums WHERE revision = ?1", &db->unsum, err);
    if (r == 0)
        r = statement_prepare(db,
                              "DELETE FROM sums WHERE revision IN (SELECT revision FROM log"
                              " WHERE revision <= ?1 AND value IS NOT NULL)",
                              &db->cut_sums, err);
    return r;
}

static int open_file(struct db *db, const char *path, struct err *err)
{
    int r = file_lock(db, path, err);

    if (r < 0)
        return r;
    /* Nobody else's to read; SQLite makes its other files with the mode of this one. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, -errno, "cannot open %s: %m", path);
    (void)close(fd);
    if (sqlite3_open_v2(path, &db->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
                        NULL) != SQLITE_OK)
        return sql_fail(db, err, path);
    (void)sqlite3_busy_timeout(db->handle, BUSY_MS);
    r = db_lay_out(db, path, err);
    if (r == 0)
        /* The log is cut to this after a burst; SQLite leaves it as long as it ever was. */
        r = db_exec(db,
                    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                    "PRAGMA journal_size_limit = 16777216;",
                    err);
    if (r == 0)
        r = prepare_all(db, err);
    return r < 0 ? r : checkpoint_start(db->handle, path, &db->checkpoint, err);
}

/* SQLite starts with what of its log is whole, and takes an empty file for a new one. */
static int loss_check(struct db *db, const char *path, bool accept_loss, struct err *err)
{
    uint64_t acknowledged = mark_read(path);
    uint64_t revision = 0;
    int r = meta_get(db, "revision", &revision, err);

    if (r == 0 && revision < acknowledged && !accept_loss)
        r = err_set(err, -EUCLEAN,
                    "%s is at revision %" PRIu64 ", but %" PRIu64 " was acknowledged: it was "
                    "damaged or replaced. Restore a backup; to start with what is there use "
                    "--accept-lost-writes once",
                    path, revision, acknowledged);
    if (r == 0)
        r = mark_open(&db->mark, path, err);
    if (r == 0)
        mark_set(&db->mark, revision);
    return r;
}

int db_open(const char *path, bool accept_loss, struct db **ret, struct err *err)
{
    struct db *db = MEM_NEW(struct db);

    db->lock_fd = -1;
    db->mark.fd = -1;
    db->accept_loss = accept_loss;
    int r = open_file(db, path, err);
    if (r == 0)
        r = loss_check(db, path, accept_loss, err);
    if (r < 0) {
        db_close(db);
        return r;
    }
    *ret = db;
    return 0;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    checkpoint_stop(db->checkpoint);
    sqlite3_finalize(db->put);
    sqlite3_finalize(db->drop);
    sqlite3_finalize(db->log);
    sqlite3_finalize(db->fill);
    sqlite3_finalize(db->meta);
    sqlite3_finalize(db->cut);
    sqlite3_finalize(db->sum);
    sqlite3_finalize(db->unsum);
    sqlite3_finalize(db->cut_sums);
    (void)sqlite3_close(db->handle);
    mark_close(&db->mark);
    if (db->lock_fd >= 0)
        (void)close(db->lock_fd);
    mem_free(db);
}

static struct str column_text(sqlite3_stmt *statement, int index)
{
    const char *text = sqlite3_column_blob(statement, index);

    return (struct str){text, (size_t)sqlite3_column_bytes(statement, index)};
}

/* Runs a bound statement that gives no rows. */
static bool statement_run(sqlite3_stmt *statement)
{
    bool done = sqlite3_step(statement) == SQLITE_DONE;

    /* sqlite3_reset() repeats the error of the step, which the caller reads from the handle. */
    (void)sqlite3_reset(statement);
    return done;
}

uint64_t db_sum(struct str key, uint64_t revision, struct str value)
{
    return str_hash(value, str_hash(key, revision));
}

static bool sum_put(struct db *db, struct str key, uint64_t revision, struct str value)
{
    sqlite3_bind_int64(db->sum, 1, (sqlite3_int64)revision);
    sqlite3_bind_int64(db->sum, 2, (sqlite3_int64)db_sum(key, revision, value));
    return statement_run(db->sum);
}

static bool sum_drop(struct db *db, uint64_t revision)
{
    sqlite3_bind_int64(db->unsum, 1, (sqlite3_int64)revision);
    return statement_run(db->unsum);
}

/* A row whose value is not what was written. Whoever accepts a loss takes what is there, from now on. */
static int sum_check(struct db *db, const struct db_row *row, uint64_t sum, struct err *err)
{
    if (!row->value.p || db_sum(row->key, row->revision, row->value) == sum)
        return 0;
    if (!db->accept_loss)
        return err_set(err, -EUCLEAN,
                       "store: " STR_FMT " is not what was written: its checksum differs at "
                       "revision %" PRIu64 ". Restore a backup; to start with what is there use "
                       "--accept-lost-writes once",
                       STR_ARG(row->key), row->revision);
    return sum_put(db, row->key, row->revision, row->value)
               ? 0
               : sql_fail(db, err, "store: writing a checksum");
}

/* Columns: revision, at_ms, event, key, value, sum. */
static int rows_walk(struct db *db,
                     sqlite3_stmt *select,
                     db_row_fn *fn,
                     void *user,
                     struct err *err)
{
    int r = 0;
    int step = SQLITE_DONE;

    while (r == 0 && (step = sqlite3_step(select)) == SQLITE_ROW) {
        struct db_row row = {.revision = (uint64_t)sqlite3_column_int64(select, 0),
                             .at_ms = sqlite3_column_int64(select, 1),
                             .event = sqlite3_column_int(select, 2),
                             .key = column_text(select, 3),
                             .value = column_text(select, 4)};

        if (sqlite3_column_type(select, 5) != SQLITE_NULL)
            r = sum_check(db, &row, (uint64_t)sqlite3_column_int64(select, 5), err);
        if (r == 0)
            r = fn(user, &row, err);
    }
    if (r == 0 && step != SQLITE_DONE)
        r = sql_fail(db, err, "store: reading it");
    sqlite3_finalize(select);
    return r;
}

int db_objects(struct db *db, struct str prefix, db_row_fn *fn, void *user, struct err *err)
{
    sqlite3_stmt *select = NULL;
    int r = statement_prepare(db,
                              "SELECT o.revision, 0, 0, key, value, sum FROM objects o"
                              " LEFT JOIN sums s ON s.revision = o.revision"
                              " WHERE substr(key, 1, length(?1)) = ?1 ORDER BY key",
                              &select, err);

    if (r < 0)
        return r;
    sqlite3_bind_text(select, 1, prefix.p, (int)prefix.len, SQLITE_STATIC);
    return rows_walk(db, select, fn, user, err);
}

int db_log(struct db *db, db_row_fn *fn, void *user, struct err *err)
{
    sqlite3_stmt *select = NULL;
    int r = statement_prepare(db,
                              "SELECT l.revision, at_ms, event, key, value, sum FROM log l"
                              " LEFT JOIN sums s ON s.revision = l.revision ORDER BY l.revision",
                              &select, err);

    return r < 0 ? r : rows_walk(db, select, fn, user, err);
}

int db_revisions(struct db *db, uint64_t *ret_revision, uint64_t *ret_compacted, struct err *err)
{
    int r = meta_get(db, "revision", ret_revision, err);

    return r < 0 ? r : meta_get(db, "compacted", ret_compacted, err);
}

static bool set_meta(struct db *db, const char *name, uint64_t value)
{
    sqlite3_bind_text(db->meta, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_int64(db->meta, 2, (sqlite3_int64)value);
    return statement_run(db->meta);
}

/* The state that goes out of objects moves into the log. (A change that is forgotten already is no
 * longer there to be filled.) */
static bool log_fill(struct db *db, const struct db_write *write)
{
    if (!write->previous_revision)
        return true;
    sqlite3_bind_int64(db->fill, 1, (sqlite3_int64)write->previous_revision);
    sqlite3_bind_blob(db->fill, 2, write->previous_value.p, (int)write->previous_value.len,
                      SQLITE_STATIC);
    if (!statement_run(db->fill))
        return false;
    return sqlite3_changes(db->handle) > 0 || sum_drop(db, write->previous_revision);
}

static bool write_one(struct db *db, const struct db_write *write, int64_t at_ms, struct buf *key)
{
    bool gone = write->event == API_DELETED;
    sqlite3_stmt *change = gone ? db->drop : db->put;

    buf_clear(key);
    buf_addf(key, STR_FMT "/" STR_FMT "/" STR_FMT "/" STR_FMT, STR_ARG(write->group),
             STR_ARG(write->plural), STR_ARG(write->ns), STR_ARG(write->name));
    sqlite3_bind_text(change, 1, key->p, (int)key->len, SQLITE_STATIC);
    if (!gone) {
        sqlite3_bind_int64(change, 2, (sqlite3_int64)write->revision);
        sqlite3_bind_blob(change, 3, write->value.p, (int)write->value.len, SQLITE_STATIC);
    }
    sqlite3_bind_int64(db->log, 1, (sqlite3_int64)write->revision);
    sqlite3_bind_int64(db->log, 2, at_ms);
    sqlite3_bind_int(db->log, 3, write->event);
    sqlite3_bind_text(db->log, 4, key->p, (int)key->len, SQLITE_STATIC);
    if (gone)
        sqlite3_bind_blob(db->log, 5, write->value.p, (int)write->value.len, SQLITE_STATIC);
    else
        sqlite3_bind_null(db->log, 5);
    return log_fill(db, write) && statement_run(change) && statement_run(db->log) &&
           sum_put(db, buf_str(key), write->revision, write->value);
}

static bool write_all(struct db *db, const struct db_commit *commit)
{
    _cleanup_(buf_done) struct buf key = {0};

    for (size_t i = 0; i < commit->count; i++)
        if (!write_one(db, &commit->writes[i], commit->at_ms, &key))
            return false;
    if (commit->count && !set_meta(db, "revision", commit->writes[commit->count - 1].revision))
        return false;
    if (!commit->compact)
        return true;
    sqlite3_bind_int64(db->cut_sums, 1, (sqlite3_int64)commit->compact);
    sqlite3_bind_int64(db->cut, 1, (sqlite3_int64)commit->compact);
    return statement_run(db->cut_sums) && statement_run(db->cut) &&
           set_meta(db, "compacted", commit->compact);
}

int db_commit(struct db *db, const struct db_commit *commit, struct err *err)
{
    int r = db_exec(db, "BEGIN IMMEDIATE", err);

    if (r < 0)
        return r;
    if (write_all(db, commit) &&
        sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) {
        if (commit->count)
            mark_set(&db->mark, commit->writes[commit->count - 1].revision);
        return 0;
    }
    r = sql_fail(db, err, "the store could not be written");
    (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

void db_rest(struct db *db)
{
    checkpoint_finish(db->checkpoint);
}
