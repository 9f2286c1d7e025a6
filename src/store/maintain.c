#include "store/maintain.h"

#include "api/api.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/db.h"
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define BUSY_MS        5000
#define PAGES_PER_STEP 1024
#define PROBLEM_BYTES  512

static void handle_close(sqlite3 **handle)
{
    (void)sqlite3_close(*handle);
}

static void statement_done(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

static int sqlite_failed(sqlite3 *handle, const char *path, struct err *err)
{
    return err_set(err, -EIO, "%s: %s", path, sqlite3_errmsg(handle));
}

static int open_for_reading(const char *path, sqlite3 **ret, struct err *err)
{
    if (access(path, R_OK) < 0)
        return err_set(err, -errno, "%s: there is no store there that can be read", path);
    if (sqlite3_open_v2(path, ret, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return sqlite_failed(*ret, path, err);
    (void)sqlite3_busy_timeout(*ret, BUSY_MS);
    return 0;
}

/* ---- check ---- */

struct check {
    sqlite3 *handle;
    const char *path;
    void (*problem)(void *user, const char *text);
    void *user;
    struct store_report report;
    uint64_t compacted;
};

static void report_problem(struct check *check, const char *fmt, ...) _printf_(2, 3);

static void report_problem(struct check *check, const char *fmt, ...)
{
    char text[PROBLEM_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    check->report.problems++;
    check->problem(check->user, text);
}

static int check_number(struct check *check, const char *sql, uint64_t *ret, struct err *err)
{
    _cleanup_(statement_done) sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(check->handle, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW)
        return sqlite_failed(check->handle, check->path, err);
    *ret = (uint64_t)sqlite3_column_int64(statement, 0);
    return 0;
}

static int check_file(struct check *check, struct err *err)
{
    _cleanup_(statement_done) sqlite3_stmt *statement = NULL;

    if (sqlite3_prepare_v2(check->handle, "PRAGMA integrity_check", -1, &statement, NULL) !=
        SQLITE_OK)
        return sqlite_failed(check->handle, check->path, err);
    while (sqlite3_step(statement) == SQLITE_ROW) {
        struct str line = str_from((const char *)sqlite3_column_text(statement, 0));

        if (!str_is(line, "ok"))
            report_problem(check, "file: " STR_FMT, STR_ARG(line));
    }
    return 0;
}

/* The key says what the object says, and the row's revision is the object's. */
static void check_object(struct check *check, struct str key, struct str value, uint64_t revision)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    struct err err = {0};
    uint64_t own = 0;

    if (json_parse(&arena, value, &root, &err) < 0) {
        report_problem(check, STR_FMT ": not an object: %s", STR_ARG(key), err.text);
        return;
    }
    struct str name = json_str_at(root, "metadata.name");
    struct str ns = json_str_at(root, "metadata.namespace");
    struct str tail = str_printf(&arena, "/" STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
    if (!str_ends(key, tail))
        report_problem(check, STR_FMT ": holds the object " STR_FMT "/" STR_FMT, STR_ARG(key),
                       STR_ARG(ns), STR_ARG(name));
    if (!str_to_u64(json_str_at(root, "metadata.resourceVersion"), &own) || own != revision)
        report_problem(check, STR_FMT ": its revision is %" PRIu64 ", the object says %" PRIu64,
                       STR_ARG(key), revision, own);
    if (revision > check->report.revision)
        report_problem(check,
                       STR_FMT ": its revision %" PRIu64 " is later than the newest revision",
                       STR_ARG(key), revision);
}

static struct str column_text(sqlite3_stmt *statement, int index)
{
    const char *text = sqlite3_column_blob(statement, index);

    return (struct str){text ? text : "", (size_t)sqlite3_column_bytes(statement, index)};
}

/* Columns: key, value, revision, sum. */
static int check_rows(struct check *check, const char *sql, size_t *count, struct err *err)
{
    _cleanup_(statement_done) sqlite3_stmt *statement = NULL;
    int step = SQLITE_DONE;

    if (sqlite3_prepare_v2(check->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        return sqlite_failed(check->handle, check->path, err);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW) {
        struct str key = column_text(statement, 0), value = column_text(statement, 1);
        uint64_t revision = (uint64_t)sqlite3_column_int64(statement, 2);

        if (sqlite3_column_type(statement, 3) != SQLITE_NULL &&
            db_sum(key, revision, value) != (uint64_t)sqlite3_column_int64(statement, 3))
            report_problem(check,
                           STR_FMT ": is not what was written: its checksum differs at revision "
                                   "%" PRIu64,
                           STR_ARG(key), revision);
        check_object(check, key, value, revision);
        (*count)++;
    }
    return step == SQLITE_DONE ? 0 : sqlite_failed(check->handle, check->path, err);
}

/* Every revision behind the compacted ones is in the log once, and the newest state of each key is
 * what the objects table has. In one pass: the log has no index by key, so a look for each row at
 * all others would take hours for a log of ten busy minutes. Beside max(), SQLite takes the other
 * columns of a group from the row that has it. */
static int check_log(struct check *check, struct err *err)
{
    uint64_t missing = 0;
    uint64_t apart = 0;
    int r = check_number(check,
                         "SELECT (SELECT value FROM meta WHERE name = 'revision') -"
                         " (SELECT value FROM meta WHERE name = 'compacted') - count(*) FROM log"
                         " WHERE revision > (SELECT value FROM meta WHERE name = 'compacted')",
                         &missing, err);

    if (r == 0)
        r = check_number(check,
                         "SELECT count(*) FROM (SELECT key, event, max(revision) FROM log"
                         " GROUP BY key) l WHERE (l.event = 2) ="
                         " EXISTS(SELECT 1 FROM objects o WHERE o.key = l.key)",
                         &apart, err);
    if (r < 0)
        return r;
    if (missing)
        report_problem(check, "log: %" PRId64 " changes are missing", (int64_t)missing);
    if (apart)
        report_problem(check, "log: %" PRIu64 " objects do not agree with their last change",
                       apart);
    return 0;
}

_Static_assert(API_DELETED == 2, "the log's events are written in the file");

static int check_all(struct check *check, struct err *err)
{
    uint64_t version = 0;
    int r = check_number(check, "SELECT value FROM meta WHERE name = 'version'", &version, err);

    if (r == 0 && version > DB_VERSION)
        return err_set(err, -EPROTO, "%s is of the newer store version %" PRIu64, check->path,
                       version);
    if (r == 0)
        r = check_number(check, "SELECT value FROM meta WHERE name = 'revision'",
                         &check->report.revision, err);
    uint64_t acknowledged = mark_read(check->path);
    if (r == 0 && check->report.revision < acknowledged)
        report_problem(check,
                       "revision %" PRIu64 " was acknowledged, and the newest here is %" PRIu64
                       ": what came between is lost",
                       acknowledged, check->report.revision);
    if (r == 0)
        r = check_file(check, err);
    uint64_t summed = 0; /* not by a muster that knew no checksums */
    if (r == 0)
        r = check_number(check, "SELECT count(*) FROM sqlite_master WHERE name = 'sums'", &summed,
                         err);
    if (r == 0)
        r = check_rows(check,
                       summed ? "SELECT key, value, o.revision, sum FROM objects o LEFT JOIN sums s"
                                " ON s.revision = o.revision"
                              : "SELECT key, value, revision, NULL FROM objects",
                       &check->report.objects, err);
    if (r == 0) /* what is in objects was looked at there */
        r = check_rows(
            check,
            summed ? "SELECT l.key, coalesce(l.value, o.value), l.revision,"
                     " CASE WHEN l.value IS NOT NULL THEN sum END FROM log l LEFT JOIN objects o ON"
                     " l.value IS NULL AND o.key = l.key AND o.revision = l.revision"
                     " LEFT JOIN sums s ON s.revision = l.revision"
                   : "SELECT l.key, coalesce(l.value, o.value), l.revision, NULL FROM log l LEFT"
                     " JOIN objects o ON l.value IS NULL AND o.key = l.key AND"
                     " o.revision = l.revision",
            &check->report.changes, err);
    return r < 0 ? r : check_log(check, err);
}

int store_check(const char *path,
                void (*on_problem)(void *user, const char *text),
                void *user,
                struct store_report *ret,
                struct err *err)
{
    _cleanup_(handle_close) sqlite3 *handle = NULL;
    struct check check = {.path = path, .problem = on_problem, .user = user};
    int r = open_for_reading(path, &handle, err);

    if (r < 0)
        return r;
    check.handle = handle;
    /* One transaction: everything is seen as of one moment. */
    if (sqlite3_exec(handle, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        return sqlite_failed(handle, path, err);
    r = check_all(&check, err);
    (void)sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    if (r == 0)
        *ret = check.report;
    return r;
}

int store_each(const char *path,
               const char *prefix,
               void (*fn)(void *user, struct str value),
               void *user,
               struct err *err)
{
    _cleanup_(handle_close) sqlite3 *handle = NULL;
    _cleanup_(statement_done) sqlite3_stmt *statement = NULL;
    int step = SQLITE_DONE;
    int r = open_for_reading(path, &handle, err);

    if (r < 0)
        return r;
    if (sqlite3_prepare_v2(handle,
                           "SELECT value FROM objects WHERE substr(key, 1, length(?1)) = ?1"
                           " ORDER BY key",
                           -1, &statement, NULL) != SQLITE_OK)
        return sqlite_failed(handle, path, err);
    sqlite3_bind_text(statement, 1, prefix, -1, SQLITE_STATIC);
    while ((step = sqlite3_step(statement)) == SQLITE_ROW)
        fn(user, column_text(statement, 0));
    return step == SQLITE_DONE ? 0 : sqlite_failed(handle, path, err);
}

/* ---- backup ---- */

static int pages_copy(sqlite3 *from, sqlite3 *to, const char *target, struct err *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    int step = SQLITE_OK;

    if (!backup)
        return sqlite_failed(to, target, err);
    while (step == SQLITE_OK || step == SQLITE_BUSY || step == SQLITE_LOCKED)
        step = sqlite3_backup_step(backup, PAGES_PER_STEP);
    (void)sqlite3_backup_finish(backup);
    return step == SQLITE_DONE ? 0 : sqlite_failed(to, target, err);
}

static int write_copy(sqlite3 *from, const char *path, struct err *err)
{
    _cleanup_(handle_close) sqlite3 *to = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, -errno, "cannot create %s: %m", path);
    (void)close(fd);
    if (sqlite3_open_v2(path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return sqlite_failed(to, path, err);
    /* The copy must stand alone, without a log beside it. */
    int r = pages_copy(from, to, path, err);
    if (r == 0 && sqlite3_exec(to, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK)
        r = sqlite_failed(to, path, err);
    return r;
}

int store_backup(const char *path, const char *target, struct err *err)
{
    _cleanup_(handle_close) sqlite3 *from = NULL;
    _cleanup_(buf_done) struct buf partial = {0};
    int r = open_for_reading(path, &from, err);

    if (r < 0)
        return r;
    if (access(target, F_OK) == 0)
        return err_set(err, -EEXIST, "%s already exists; name a new file", target);
    buf_addf(&partial, "%s.partial", target);
    (void)unlink(partial.p);
    r = write_copy(from, partial.p, err);
    if (r == 0 && rename(partial.p, target) < 0)
        r = err_set(err, -errno, "cannot create %s: %m", target);
    if (r < 0)
        (void)unlink(partial.p);
    return r;
}
