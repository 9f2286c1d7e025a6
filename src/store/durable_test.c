#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "store/db.h"
#include "store/faulty.h"
#include "store/harness.h"
#include "store/maintain.h"
#include "store/state.h"
#include "store/store.h"
#include "test.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the file is for: nothing acknowledged is lost, whatever the disk does. */

struct folder {
    char path[32];
    char file[48];
    char copy[48];
};

static void folder_make(struct folder *folder)
{
    (void)snprintf(folder->path, sizeof(folder->path), "/tmp/muster-store-XXXXXX");
    EXPECT(mkdtemp(folder->path) != NULL);
    (void)snprintf(folder->file, sizeof(folder->file), "%s/db", folder->path);
    (void)snprintf(folder->copy, sizeof(folder->copy), "%s/copy", folder->path);
}

static void folder_remove(struct folder *folder)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -r %s", folder->path);
    EXPECT(system(command) == 0);
}

static const char *config(char out[static 64], int number)
{
    (void)snprintf(out, 64, "{\"metadata\":{\"name\":\"c%d\"}}", number);
    return out;
}

static void fails_with(enum faulty_mode mode, const char *word)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    char body[64];

    folder_make(&folder);
    faulty_install();
    harness_open(&h, folder.file);
    for (int i = 0; i < 5; i++)
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, i)) == 0);
    EXPECT(!store_read_only(h.store));

    faulty_set(mode);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 5)) == -EROFS);
    EXPECT(h.status == 503 && faulty_count() > 0);
    EXPECT(strstr(h.text, "read-only") && strstr(h.text, word));
    EXPECT(store_read_only(h.store));
    EXPECT(harness_get(&h, &kind_configmap, "default", "c4") == 0);
    EXPECT(harness_get(&h, &kind_configmap, "default", "c5") == -ENOENT);
    faulty_set(FAULTY_FINE);
    /* Once is enough: what the disk has now is not known until it is read again. */
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 6)) == -EROFS);
    harness_close(&h);

    harness_open(&h, folder.file);
    for (int i = 0; i < 5; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "c%d", i);
        EXPECT(harness_get(&h, &kind_configmap, "default", name) == 0);
    }
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 7)) == 0);
    harness_close(&h);
}

TEST(a_full_disk_makes_the_store_read_only_until_there_is_room_and_loses_nothing)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    char body[64];
    char reserve[64];

    folder_make(&folder);
    (void)snprintf(reserve, sizeof(reserve), "%s-reserve", folder.file);
    faulty_install();
    harness_open(&h, folder.file);
    EXPECT(access(reserve, F_OK) == 0);
    for (int i = 0; i < 3; i++)
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, i)) == 0);

    faulty_set(FAULTY_FULL);
    for (int i = 3; i < 5; i++) {
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, i)) == -EROFS);
        EXPECT(h.status == 503 && strstr(h.text, "full") && strstr(h.text, "until there is space"));
        EXPECT(store_read_only(h.store));
    }
    EXPECT(access(reserve, F_OK) < 0);
    EXPECT(harness_list(&h, &kind_configmap, "default") == 0 && h.item_count == 3);

    faulty_set(FAULTY_FINE);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 4)) == 0);
    EXPECT(!store_read_only(h.store) && access(reserve, F_OK) == 0);
    EXPECT(harness_delete(&h, &kind_configmap, "default", "c0", "") == 0);
    harness_close(&h);

    harness_open(&h, folder.file);
    EXPECT(harness_list(&h, &kind_configmap, "default") == 0 && strcmp(h.names, "c1 c2 c4") == 0);
    harness_close(&h);
}

TEST(a_quota_that_is_used_up_is_a_full_disk)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    char body[64];

    folder_make(&folder);
    faulty_install();
    harness_open(&h, folder.file);
    faulty_set(FAULTY_QUOTA);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 1)) == -EROFS);
    EXPECT(h.status == 503 && strstr(h.text, "until there is space"));
    faulty_set(FAULTY_FINE);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 1)) == 0);
    harness_close(&h);
}

TEST(a_failed_fsync_makes_the_store_read_only_and_loses_nothing)
{
    fails_with(FAULTY_SYNC, "disk I/O error");
}

static void all_fail(void *user, const struct api_result *result)
{
    unsigned *count = user;

    EXPECT(result->err && result->err->http_status == 503);
    (*count)++;
}

/* Later writes were checked against earlier ones that never happened. */
TEST(a_failed_commit_takes_everything_staged_with_it)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    unsigned answered = 0;

    folder_make(&folder);
    faulty_install();
    harness_open(&h, folder.file);
    faulty_set(FAULTY_SYNC);
    for (int i = 0; i < 3; i++) {
        char body[64];

        api_call(h.api,
                 &(struct api_request){.verb = API_CREATE,
                                       .kind = &kind_configmap,
                                       .ns = STR("default"),
                                       .body = str_from(config(body, i))},
                 all_fail, &answered);
        api_call(h.api,
                 &(struct api_request){.verb = API_PATCH,
                                       .kind = &kind_configmap,
                                       .ns = STR("default"),
                                       .name = STR("c0"),
                                       .body = i % 2 ? STR("{\"data\":{\"a\":\"1\"}}")
                                                     : STR("{\"data\":{\"a\":\"2\"}}")},
                 all_fail, &answered);
        (void)uv_run(&h.loop, UV_RUN_NOWAIT);
    }
    while (answered < 6)
        (void)uv_run(&h.loop, UV_RUN_ONCE);
    EXPECT(harness_list(&h, &kind_configmap, "") == 0 && h.item_count == 0);
    harness_close(&h);
    faulty_set(FAULTY_FINE);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *handle = NULL;

    EXPECT(sqlite3_open(path, &handle) == SQLITE_OK);
    EXPECT(sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK);
    (void)sqlite3_close(handle);
}

TEST(a_file_of_a_newer_version_is_left_alone)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    struct store_report report;
    struct err err = {0};

    folder_make(&folder);
    harness_open(&h, folder.file);
    harness_close(&h);
    run_sql(folder.file, "UPDATE meta SET value = 99 WHERE name = 'version'");
    harness_open(&h, folder.file);
    EXPECT(h.code == -EPROTO && strstr(h.text, "newer version"));
    (void)uv_run(&h.loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&h.loop) == 0);
    EXPECT(store_check(folder.file, NULL, NULL, &report, &err) == -EPROTO);
}

TEST(a_file_that_is_no_store_is_refused)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;

    folder_make(&folder);
    FILE *file = fopen(folder.file, "we");
    EXPECT(file && fputs("this is not a database, and long enough to be looked at ......\n"
                         "................................................................\n",
                         file) >= 0);
    if (file)
        EXPECT(fclose(file) == 0);
    harness_open(&h, folder.file);
    EXPECT(h.code < 0 && strstr(h.text, "not a database"));
    (void)uv_run(&h.loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&h.loop) == 0);
}

static void count_problem(void *user, const char *text)
{
    (void)text;
    (*(unsigned *)user)++;
}

/* Five objects in a store that was killed: its file and its log are copied while it is open. */
static void killed_store(const struct folder *folder)
{
    struct harness h;
    char body[64];
    char command[400];

    harness_open(&h, folder->file);
    for (int i = 0; i < 5; i++)
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, i)) == 0);
    (void)snprintf(command, sizeof(command),
                   "for f in '' -wal -acknowledged; do [ ! -e %s$f ] || cp %s$f %s$f; done",
                   folder->file, folder->file, folder->copy);
    EXPECT(system(command) == 0);
    harness_close(&h);
}

static void expect_refused(const char *path, const char *word)
{
    struct harness h;

    harness_open(&h, path);
    EXPECT(h.code == -EUCLEAN && strstr(h.text, word));
    (void)uv_run(&h.loop, UV_RUN_DEFAULT);
    EXPECT(uv_loop_close(&h.loop) == 0);
}

TEST(a_store_that_lost_acknowledged_writes_says_so_and_does_not_start)
{
    static const struct {
        const char *damage; /* a command, with the store's path in $S */
        const char *why;
    } rows[] = {
        {"printf x | dd of=$S-wal bs=1 seek=20000 conv=notrunc status=none", "a byte of the log"},
        {"truncate -s 9000 $S-wal", "the end of the log"},
        {"rm $S-wal", "the log"},
        {"truncate -s 0 $S", "an empty file in its place"},
        {"rm $S", "no file in its place"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(folder_remove) struct folder folder;
        struct store_report report = {0};
        struct err err = {0};
        char command[128];
        unsigned problems = 0;
        struct harness h;

        test_case(rows[i].why);
        folder_make(&folder);
        killed_store(&folder);
        (void)snprintf(command, sizeof(command), "S=%s; %s", folder.copy, rows[i].damage);
        EXPECT(system(command) == 0);
        if (i < 3) {
            EXPECT(store_check(folder.copy, count_problem, &problems, &report, &err) == 0);
            EXPECT(problems > 0 && problems == report.problems);
        }
        expect_refused(folder.copy, "acknowledged");
        expect_refused(folder.copy, "--accept-lost-writes");
        harness_open_after_loss(&h, folder.copy);
        EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"n\"}}") ==
               0);
        harness_close(&h);
        harness_open(&h, folder.copy);
        EXPECT(harness_get(&h, &kind_configmap, "default", "n") == 0);
        harness_close(&h);
    }
}

TEST(a_store_that_was_killed_starts_with_all_that_was_acknowledged)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;

    folder_make(&folder);
    killed_store(&folder);
    harness_open(&h, folder.copy);
    EXPECT(harness_get(&h, &kind_configmap, "default", "c4") == 0);
    harness_close(&h);
}

/* A writer that never pauses must not make SQLite's log grow for ever. */
TEST(the_log_beside_the_file_stays_short_under_steady_writes)
{
    _cleanup_(folder_remove) struct folder folder;
    static char body[40000];
    struct harness h;
    char wal[64];
    struct stat info;

    folder_make(&folder);
    (void)snprintf(wal, sizeof(wal), "%s-wal", folder.file);
    harness_open(&h, folder.file);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"c%d\"},\"data\":{\"a\":\"%032000d\"}}", i, i);
        EXPECT(harness_create(&h, &kind_configmap, "default", body) == 0);
    }
    /* 32 MB were written; a copy begins at 4 MB and takes a moment. */
    EXPECT(stat(wal, &info) == 0 && info.st_size > 2 << 20 && info.st_size < 20 << 20);
    harness_close(&h);
    harness_open(&h, folder.file);
    EXPECT(harness_list(&h, &kind_configmap, "default") == 0 && h.item_count >= 1000);
    harness_close(&h);
}

static void load_sql(const char *path, int version)
{
    _cleanup_(buf_done) struct buf sql = {0};
    char name[256];
    char piece[4096];
    size_t count = 0;

    (void)snprintf(name, sizeof(name), STORE_FIXTURES "/version-%d.sql", version);
    FILE *file = fopen(name, "re");
    while (file && (count = fread(piece, 1, sizeof(piece), file)) > 0)
        buf_add(&sql, (struct str){piece, count});
    EXPECT(file && fclose(file) == 0);
    run_sql(path, sql.p ? sql.p : "");
}

/* Every store version that was ever released has a file in tests/store; a new one needs its own. */
TEST(a_store_of_every_version_opens_with_all_that_is_in_it)
{
    for (int version = 1; version <= DB_VERSION; version++) {
        _cleanup_(folder_remove) struct folder folder;
        struct store_report report = {0};
        struct err err = {0};
        struct harness h;
        unsigned problems = 0;

        folder_make(&folder);
        load_sql(folder.file, version);
        EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
        EXPECT(problems == 0 && report.revision == 54 && report.changes == 9);
        harness_open(&h, folder.file);
        EXPECT(harness_get(&h, &kind_configmap, "kept", "changed") == 0);
        EXPECT(strcmp(harness_text(&h, "data.a"), "2") == 0 && h.object->revision == 49);
        EXPECT(harness_get(&h, &kind_secret, "kept", "secret") == 0);
        EXPECT(strcmp(harness_text(&h, "data.k"), "dg==") == 0);
        EXPECT(harness_get(&h, &kind_configmap, "kept", "gone") == -ENOENT);
        /* Kinds that its definitions made are there again, and revisions go on. */
        const struct kind *widget =
            kinds_by_plural(h.api->kinds, STR("kept.example"), STR("v1"), STR("widgets"));
        EXPECT(widget && harness_get(&h, widget, "kept", "w") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.size"), "3") == 0);
        EXPECT(harness_patch(&h, &kind_configmap, "kept", "changed", "{\"data\":{\"a\":\"3\"}}") ==
               0);
        EXPECT(h.object->revision > 54);
        harness_close(&h);
    }
}

TEST(a_backup_made_while_serving_opens_and_checks_out)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;
    struct store_report report = {0};
    struct err err = {0};
    char body[64];
    unsigned problems = 0;

    folder_make(&folder);
    harness_open(&h, folder.file);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 1)) == 0);
    EXPECT(store_backup(folder.file, folder.copy, &err) == 0);
    EXPECT(store_backup(folder.file, folder.copy, &err) == -EEXIST);
    EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 2)) == 0);
    harness_close(&h);

    EXPECT(store_check(folder.copy, count_problem, &problems, &report, &err) == 0);
    EXPECT(problems == 0 && report.problems == 0 && report.objects > 5 && report.revision > 5);
    harness_open(&h, folder.copy);
    EXPECT(harness_get(&h, &kind_configmap, "default", "c1") == 0);
    EXPECT(harness_get(&h, &kind_configmap, "default", "c2") == -ENOENT);
    harness_close(&h);
}

#define DIGIT(table) \
    "UPDATE " table " SET value = CAST(replace(CAST(value AS TEXT), '4711', '4712') AS BLOB)"

TEST(a_digit_that_changed_where_it_lay_is_noticed)
{
    static const struct {
        const char *why;
        const char *damage;
        const char *digit; /* that is there afterwards */
    } rows[] = {
        {"of an object", DIGIT("objects"), "4712"},
        {"of a state before it", DIGIT("log"), "4711"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(folder_remove) struct folder folder;
        struct harness h;
        struct store_report report = {0};
        struct err err = {0};
        unsigned problems = 0;

        test_case(rows[i].why);
        folder_make(&folder);
        harness_open(&h, folder.file);
        EXPECT(harness_create(&h, &kind_configmap, "default",
                              "{\"metadata\":{\"name\":\"c\"},\"data\":{\"a\":\"4711\"}}") == 0);
        EXPECT(harness_patch(&h, &kind_configmap, "default", "c", "{\"data\":{\"b\":\"1\"}}") == 0);
        harness_close(&h);
        run_sql(folder.file, rows[i].damage);
        EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
        EXPECT(problems == 1);
        expect_refused(folder.file, "/configmaps/default/c is not what was written");
        expect_refused(folder.file, "--accept-lost-writes");
        harness_open_after_loss(&h, folder.file);
        EXPECT(harness_get(&h, &kind_configmap, "default", "c") == 0);
        EXPECT(strcmp(harness_text(&h, "data.a"), rows[i].digit) == 0);
        harness_close(&h);
        harness_open(&h, folder.file);
        harness_close(&h);
        EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
        EXPECT(problems == 1);
    }
}

TEST(a_row_without_a_checksum_gets_one_with_its_next_write)
{
    _cleanup_(folder_remove) struct folder folder;
    struct store_report report = {0};
    struct err err = {0};
    unsigned problems = 0;
    struct harness h;

    folder_make(&folder);
    load_sql(folder.file, 1);
    harness_open(&h, folder.file);
    EXPECT(harness_patch(&h, &kind_configmap, "kept", "changed", "{\"data\":{\"a\":\"4711\"}}") ==
           0);
    harness_close(&h);
    run_sql(folder.file, DIGIT("objects"));
    EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
    EXPECT(problems == 1);
    expect_refused(folder.file, "/configmaps/kept/changed is not what was written");
}

TEST(a_check_finds_what_is_wrong)
{
    static const char *const damages[] = {
        "UPDATE objects SET value = '{' WHERE key LIKE '%/c1'",
        "UPDATE objects SET revision = 1 WHERE key LIKE '%/c1'",
        "UPDATE objects SET key = key || 'x' WHERE key LIKE '%/c1'",
        "DELETE FROM objects WHERE key LIKE '%/c1'",
        "DELETE FROM log WHERE key LIKE '%/c1'",
        "UPDATE meta SET value = 1 WHERE name = 'revision'",
    };
    for (size_t i = 0; i < COUNT_OF(damages); i++) {
        _cleanup_(folder_remove) struct folder folder;
        struct harness h;
        struct store_report report = {0};
        struct err err = {0};
        char body[64];
        unsigned problems = 0;

        test_case(damages[i]);
        folder_make(&folder);
        harness_open(&h, folder.file);
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 1)) == 0);
        harness_close(&h);
        run_sql(folder.file, damages[i]);
        EXPECT(store_check(folder.file, count_problem, &problems, &report, &err) == 0);
        EXPECT(problems > 0 && problems == report.problems);
    }
}

struct told {
    unsigned times;
    bool trouble; /* the last time */
    char why[512];
};

static void on_trouble(void *user, const char *why)
{
    struct told *told = user;

    told->times++;
    told->trouble = why != NULL;
    (void)snprintf(told->why, sizeof(told->why), "%s", why ? why : "");
}

TEST(whoever_asked_is_told_once_that_the_disk_is_full_and_again_when_it_is_worse)
{
    _cleanup_(folder_remove) struct folder folder;
    struct told told = {0};
    struct harness h;
    char body[64];

    folder_make(&folder);
    faulty_install();
    harness_open(&h, folder.file);
    h.store->trouble = on_trouble;
    h.store->trouble_user = &told;
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 0)) == 0);
    EXPECT(told.times == 0);
    faulty_set(FAULTY_FULL);
    for (int i = 1; i < 4; i++) {
        EXPECT(harness_create(&h, &kind_configmap, "default", config(body, i)) == -EROFS);
        EXPECT(told.times == 1 && told.trouble && strstr(told.why, "until there is space"));
    }
    faulty_set(FAULTY_FINE);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 4)) == 0);
    EXPECT(told.times == 2 && !told.trouble);
    faulty_set(FAULTY_FULL);
    EXPECT(harness_create(&h, &kind_configmap, "default", config(body, 5)) == -EROFS);
    EXPECT(told.times == 3 && told.trouble);
    faulty_set(FAULTY_SYNC);
    EXPECT(harness_delete(&h, &kind_configmap, "default", "c0", "") == -EROFS);
    EXPECT(told.times == 4 && strstr(told.why, "repair the disk"));
    faulty_set(FAULTY_FINE);
    harness_close(&h);
}

TEST(a_namespace_that_was_being_deleted_goes_after_a_restart_too)
{
    _cleanup_(folder_remove) struct folder folder;
    struct harness h;

    folder_make(&folder);
    harness_open(&h, folder.file);
    EXPECT(harness_create(&h, &kind_namespace, "", "{\"metadata\":{\"name\":\"n\"}}") == 0);
    EXPECT(harness_create(&h, &kind_configmap, "n",
                          "{\"metadata\":{\"name\":\"c\",\"finalizers\":[\"x.io/y\"]}}") == 0);
    EXPECT(harness_delete(&h, &kind_namespace, "", "n", "") == 0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_namespace, "", "n") == 0);
    harness_close(&h);

    harness_open(&h, folder.file);
    EXPECT(harness_get(&h, &kind_namespace, "", "n") == 0);
    EXPECT(harness_patch(&h, &kind_configmap, "n", "c", "{\"metadata\":{\"finalizers\":null}}") ==
           0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_configmap, "n", "c") == -ENOENT);
    EXPECT(harness_get(&h, &kind_namespace, "", "n") == -ENOENT);
    harness_close(&h);
}
