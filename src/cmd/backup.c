#include "agent/host_path.h"
#include "api/people.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/sha1.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cmd/datadir.h"
#include "cmd/muster.h"
#include "plugin/past.h"
#include "plugin/spent.h"
#include "store/maintain.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/files.h"
#include "tool/option.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* muster backup DIR, muster restore DIR: the service, as one folder. In it are the store, what the
 * server is known by, and what was written down of jobs; MANIFEST says what there is, and is written
 * last. What pods wrote (pods, volumes, results, logs) is not: that is as large as the disk. */

#define MANIFEST        "MANIFEST.json"
#define MANIFEST_FORMAT 1
#define STORE           "store.db"

/* Beside the store. One that is not there is not copied: it may be from before there was such a file. */
static const char *const kept_files[] = {
    "tls/ca.key",
    "tls/ca.crt",
    "tls/server.key",
    "tls/server.crt",
    "tls/front-proxy.key",
    "tls/front-proxy-ca.crt",
    "tls/front-proxy.crt",
    "token",
    "token-key",
    "token-key.pem",
    "network",
    HOST_PATH_KUBECONFIGS,
    PAST_FILE,
    SPENT_FILE,
};
/* What belongs to the store that is there, and to no other. */
static const char *const store_files[] = {STORE, STORE "-wal", STORE "-shm", STORE "-acknowledged",
                                          STORE "-reserve"};

struct backup_values {
    const char *data_dir;
};

static const struct option backup_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct backup_values, data_dir), .value = "DIR",
     .help = "data folder of muster up (default: that of $KUBECONFIG, else the same as for up)"},
    {0},
};

static const char *beside(struct arena *arena, const char *folder, const char *name)
{
    return str_printf(arena, "%s/%s", folder, name).p;
}

/* The folders that files are named in. */
static int make_folders(struct arena *arena, const char *folder, struct err *err)
{
    int r = files_make_folder(folder, 0700, err);

    return r < 0 ? r : files_make_folder(beside(arena, folder, "tls"), 0700, err);
}

static void print_problem(void *user, const char *text)
{
    (void)user;
    (void)fprintf(stderr, "%s\n", text);
}

static int check_store(const char *path, uint64_t *ret_revision, struct err *err)
{
    struct store_report report = {0};
    int r = store_check(path, print_problem, NULL, &report, err);

    *ret_revision = report.revision;
    if (r == 0 && report.problems)
        r = err_set(err, -EUCLEAN, "%s has the %zu problems above; see muster store check", path,
                    report.problems);
    return r;
}

/* ---- backup ---- */

static int copy_files(struct arena *arena,
                      const char *from,
                      const char *to,
                      struct json *list,
                      struct err *err)
{
    for (size_t i = 0; i < COUNT_OF(kept_files); i++) {
        struct str text;
        int r = file_read(arena, beside(arena, from, kept_files[i]), &text, err);

        if (r == -ENOENT)
            continue;
        if (r == 0)
            r = file_replace(beside(arena, to, kept_files[i]), text, 0600, err);
        if (r < 0)
            return r;
        (void)json_push(list, json_make(arena, "{name: $, bytes: $, sha1: $}", kept_files[i],
                                        (int64_t)text.len, sha1_text(arena, text)));
    }
    return 0;
}

static int backup(struct arena *arena, const char *folder, const char *target, struct err *err)
{
    const char *made = str_printf(arena, "%s.partial", target).p;
    struct json *list = json_new_array(arena);
    uint64_t revision = 0;

    if (access(target, F_OK) == 0)
        return err_set(err, -EEXIST, "%s already exists; name a new folder", target);
    files_remove(made); /* of one that was killed */
    int r = make_folders(arena, made, err);
    if (r == 0)
        r = store_backup(beside(arena, folder, STORE), beside(arena, made, STORE), err);
    if (r == 0)
        r = check_store(beside(arena, made, STORE), &revision, err);
    if (r == 0)
        r = copy_files(arena, folder, made, list, err);
    if (r == 0) {
        struct json *manifest = json_make(
            arena, "{format: $, version: $, time: $, revision: $, files: $}", MANIFEST_FORMAT,
            MUSTER_VERSION, time_text(arena, clock_now_ms()), (int64_t)revision, list);
        r = file_replace(beside(arena, made, MANIFEST), json_text(arena, manifest), 0600, err);
    }
    if (r == 0 && rename(made, target) < 0)
        r = err_set(err, -errno, "cannot create %s: %s", target, strerrordesc_np(errno));
    if (r < 0) {
        files_remove(made);
        return r;
    }
    (void)printf("%s: the store at revision %" PRIu64 ", and %zu files of the service; whoever can "
                 "read it has every right. What pods wrote is not in it\n",
                 target, revision, json_count(list));
    return 0;
}

/* ---- restore ---- */

static int check_files(struct arena *arena,
                       const char *from,
                       const struct json *list,
                       struct err *err)
{
    JSON_FOREACH(list, entry) {
        const char *name = str_c(arena, json_str(json_get(entry, "name")));
        struct str text;
        bool known = false;

        for (size_t i = 0; i < COUNT_OF(kept_files); i++)
            known = known || str_is(str_from(name), kept_files[i]);
        if (!known)
            return err_set(err, -EINVAL, "%s/%s names %s, which is no file of a backup", from,
                           MANIFEST, name);
        int r = file_read(arena, beside(arena, from, name), &text, err);
        if (r < 0)
            return r;
        if (!str_eq(sha1_text(arena, text), json_str(json_get(entry, "sha1"))))
            return err_set(err, -EUCLEAN,
                           "%s/%s is not what was backed up: it was changed or damaged", from,
                           name);
    }
    return 0;
}

static int read_manifest(struct arena *arena, const char *from, struct json **ret, struct err *err)
{
    const char *path = beside(arena, from, MANIFEST);
    struct str text;
    int64_t format = 0;
    int r = file_read(arena, path, &text, err);

    if (r == -ENOENT)
        return err_set(err, r, "%s is no folder of muster backup: it has no " MANIFEST, from);
    if (r == 0)
        r = json_parse(arena, text, ret, err);
    if (r < 0)
        return err_wrap(err, r, "%s", path);
    if (!json_i64(json_get(*ret, "format"), &format) || format != MANIFEST_FORMAT)
        return err_set(err, -EPROTO, "%s is of format %lld, and this program knows %d", path,
                       (long long)format, MANIFEST_FORMAT);
    return check_files(arena, from, json_get(*ret, "files"), err);
}

/* What is there stays, in a folder of its own. */
static int move_away(struct arena *arena, const char *folder, const char **ret, struct err *err)
{
    const char *to = str_printf(arena, "%s/replaced-%" PRId64, folder, clock_now_ms()).p;
    int r = 0;

    *ret = NULL;
    if (access(beside(arena, folder, STORE), F_OK) < 0)
        return 0;
    r = make_folders(arena, to, err);
    for (size_t i = 0; r == 0 && i < COUNT_OF(store_files) + COUNT_OF(kept_files); i++) {
        size_t at = i - COUNT_OF(store_files);
        const char *name = i < COUNT_OF(store_files) ? store_files[i] : kept_files[at];

        if (rename(beside(arena, folder, name), beside(arena, to, name)) < 0 && errno != ENOENT)
            r = err_set(err, -errno, "cannot move %s/%s: %s", folder, name, strerrordesc_np(errno));
    }
    *ret = to;
    return r;
}

struct people {
    struct arena *arena;
    const char *before; /* the store that was replaced; NULL: there was none */
    struct json *accounts;
    struct json *spaces;
};

static void take_object(void *user, struct str value)
{
    struct json *object = NULL;
    struct arena *arena = ((struct people *)user)->arena;
    struct str text = str_dup(arena, value);

    if (json_parse(arena, text, &object, NULL) < 0)
        return;
    bool account = str_is(json_str_at(object, "metadata.namespace"), PEOPLE_NAMESPACE);
    (void)json_push(account ? ((struct people *)user)->accounts : ((struct people *)user)->spaces,
                    object);
}

static int read_people(struct arena *arena, const char *store, struct people *ret, struct err *err)
{
    *ret = (struct people){
        .arena = arena, .accounts = json_new_array(arena), .spaces = json_new_array(arena)};
    int r = store_each(store, "/serviceaccounts/" PEOPLE_NAMESPACE "/", take_object, ret, err);
    return r < 0 ? r : store_each(store, "/namespaces/", take_object, ret, err);
}

static bool has_account(const struct people *people, const struct json *account)
{
    JSON_FOREACH(people->accounts, other)
        if (str_eq(json_str_at(other, "metadata.uid"), json_str_at(account, "metadata.uid")))
            return true;
    return false;
}

/* Whose credentials are good again, and whose were revoked in the store that was replaced. */
static int tell_people(struct arena *arena, const char *store, const char *before, struct err *err)
{
    struct people now;
    struct people old;
    int r = read_people(arena, store, &now, err);

    if (r < 0)
        return r;
    bool compared = before && read_people(arena, before, &old, NULL) == 0;
    if (!compared)
        (void)printf("who was revoked after the backup is not known, as the store of then %s: "
                     "`muster user revoke` after the start, for each\n",
                     before ? "cannot be read" : "is not here");
    JSON_FOREACH(now.accounts, account) {
        struct str name = json_str_at(account, "metadata.name");
        struct str until = STR("");

        if (str_is(name, "default"))
            continue;
        JSON_FOREACH(now.spaces, space) {
            const struct json *notes = json_at(space, "metadata.annotations");

            if (str_eq(json_str(json_get(notes, PERSON_NAME)), name))
                until = json_str(json_get(notes, PERSON_UNTIL));
        }
        (void)printf("credentials of " STR_FMT " are good%s" STR_FMT "%s\n", STR_ARG(name),
                     until.len ? " until " : "", STR_ARG(until),
                     compared && !has_account(&old, account)
                         ? ", though they were REVOKED: `muster user revoke` after the start"
                         : "");
    }
    return 0;
}

static int restore_into(struct arena *arena, const char *from, const char *folder, struct err *err)
{
    struct json *manifest = NULL;
    const char *moved = NULL;
    uint64_t revision = 0;
    int r = read_manifest(arena, from, &manifest, err);

    if (r == 0)
        r = check_store(beside(arena, from, STORE), &revision, err);
    if (r == 0)
        r = move_away(arena, folder, &moved, err);
    if (r == 0)
        r = make_folders(arena, folder, err);
    JSON_FOREACH(json_get(manifest, "files"), entry) {
        const char *name = str_c(arena, json_str(json_get(entry, "name")));
        struct str text;

        if (r == 0)
            r = file_read(arena, beside(arena, from, name), &text, err);
        if (r == 0)
            r = file_replace(beside(arena, folder, name), text, 0600, err);
    }
    /* Last: without it there is no service. */
    if (r == 0)
        r = store_backup(beside(arena, from, STORE), beside(arena, folder, STORE), err);
    if (r < 0)
        return r;
    (void)printf("%s: the service of " STR_FMT ", at revision %" PRIu64 "%s%s\n", folder,
                 STR_ARG(json_str(json_get(manifest, "time"))), revision,
                 moved ? "; what was there is in " : "", moved ? moved : "");
    return tell_people(arena, beside(arena, folder, STORE),
                       moved ? beside(arena, moved, STORE) : NULL, err);
}

/* ---- the commands ---- */

static int backup_run(struct invocation *invocation)
{
    const struct backup_values *values = invocation->values;
    const char *folder = values->data_dir ? values->data_dir : datadir_meant(invocation->arena);
    struct err err = {0};

    if (backup(invocation->arena, folder, invocation->args[0], &err) == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "muster backup: %s\n", err.text);
    return EXIT_FAILURE;
}

static int restore_run(struct invocation *invocation)
{
    const struct backup_values *values = invocation->values;
    const char *folder = values->data_dir ? values->data_dir : datadir_meant(invocation->arena);
    struct datadir dir = {.lock_fd = -1};
    struct err err = {0};
    int r = datadir_hold(invocation->arena, folder, &dir, &err);

    if (r == 0)
        r = restore_into(invocation->arena, invocation->args[0], dir.path, &err);
    datadir_close(&dir);
    if (r < 0)
        (void)fprintf(stderr, "muster restore: %s\n", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_backup = {
    .name = "backup",
    .summary = "back up the service of muster up into a folder, also while it runs",
    .usage = "DIR",
    .about =
        "Writes the store as of one moment, the certificates, the keys that sign tokens, and what "
        "was written down of jobs that ended into DIR, a new folder. What pods wrote is not in it. "
        "muster restore DIR brings it back, on this machine or another one.",
    .example = "muster backup /backups/muster-monday",
    .options = backup_options,
    .values_size = sizeof(struct backup_values),
    .args_min = 1,
    .args_max = 1,
    .run = backup_run,
};

const struct command command_restore = {
    .name = "restore",
    .summary = "bring back what muster backup wrote, while muster up is stopped",
    .usage = "DIR",
    .about =
        "Checks DIR, moves what the data folder has of a service to replaced-TIME in it, and puts "
        "the backup in its place. It names every person whose credentials are good again, and who "
        "of them was revoked meanwhile. Pods that began after the backup end at the next start of "
        "muster up; what they wrote is moved aside and named.",
    .example =
        "systemctl stop muster; muster restore /backups/muster-monday; systemctl start muster",
    .options = backup_options,
    .values_size = sizeof(struct backup_values),
    .args_min = 1,
    .args_max = 1,
    .run = restore_run,
};
