#include "plugin/home_record.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "system/errors.h"
#include "system/random.h"
#include "tool/file.h"
#include "workspace/results.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEPT_S ((time_t)366 * 24 * 3600)

/* ~/.local/state/muster/homes, as the XDG base directories have it. */
static const char *record_folder(struct arena *arena)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (state && state[0] == '/')
        return str_printf(arena, "%s/muster/homes", state).p;
    return str_printf(arena, "%s/.local/state/muster/homes", home && home[0] == '/' ? home : "/tmp")
        .p;
}

static bool record_is_name(struct str id)
{
    if (id.len != HOME_ID_BYTES)
        return false;
    for (size_t i = 0; i < id.len; i++)
        if (!strchr("0123456789abcdef", id.p[i]) || !id.p[i])
            return false;
    return true;
}

static void record_remove_old(const char *folder)
{
    char path[PATH_MAX];
    DIR *dir = opendir(folder);
    struct stat st;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!record_is_name(str_from(entry->d_name)))
            continue;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &st) == 0 && st.st_mtime < time(NULL) - KEPT_S)
            (void)unlink(path);
    }
    if (dir)
        closedir(dir);
}

/* The folder and those above it, for this person alone. */
static int record_make_folder(const char *folder, struct err *err)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s", folder);
    for (char *slash = path + 1;; slash++) {
        if (*slash && *slash != '/')
            continue;
        char was = *slash;
        *slash = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return err_set(err, -errno, "cannot make the folder %s: %s", path, errno_words(errno));
        *slash = was;
        if (!was)
            return 0;
    }
}

int home_record_name(char id[HOME_ID_BYTES + 1], struct err *err)
{
    unsigned char random[HOME_ID_BYTES / 2];

    if (!random_bytes(random, sizeof(random)))
        return err_set(err, -EIO, "no random numbers can be had");
    for (size_t i = 0; i < sizeof(random); i++)
        (void)snprintf(id + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* A path is bytes, which JSON cannot have in a string unless they are UTF-8: else their numbers. */
static struct json *path_json(struct arena *arena, struct str path)
{
    if (str_utf8(arena, path).p == path.p)
        return json_new_str(arena, path);
    struct json *bytes = json_new_array(arena);
    for (size_t i = 0; i < path.len; i++)
        (void)json_push(bytes, json_new_i64(arena, (unsigned char)path.p[i]));
    return bytes;
}

static struct str path_read(struct arena *arena, const struct json *json)
{
    size_t len = json_count(json);
    char *path = ARENA_ARRAY(arena, char, len + 1);
    size_t at = 0;

    if (!len)
        return json_str(json);
    JSON_FOREACH(json, byte)
        path[at++] = (char)json_i64_or(byte, 0);
    return (struct str){path, len};
}

int home_record_write(struct arena *arena,
                      const char *id,
                      const struct home_record *record,
                      struct err *err)
{
    const char *folder = record_folder(arena);
    struct json *text =
        json_make(arena, "{namespace: $, job: $, since: $, most: $, server: $}", record->ns,
                  record->job, record->since_ns, record->bytes_max, record->server);
    (void)json_set(text, STR("folder"), path_json(arena, record->folder));
    if (record->array.len)
        json_add_str(arena, text, "array", record->array);
    struct json *files = json_add_array(arena, text, "files");
    int r = record_make_folder(folder, err);

    for (size_t i = 0; i < record->files.count; i++) {
        const struct home_file *file = &record->files.items[i];

        const int64_t numbers[] = {(int64_t)file->id.inode, (int64_t)file->id.size,
                                   file->id.modified_ns, file->id.changed_ns};
        struct json *line = json_new_array(arena);

        (void)json_push(line, path_json(arena, file->path));
        for (size_t j = 0; j < COUNT_OF(numbers); j++)
            (void)json_push(line, json_new_i64(arena, numbers[j]));
        (void)json_push(files, line);
    }

    if (r < 0)
        return r;
    record_remove_old(folder);
    return file_replace(str_printf(arena, "%s/%s", folder, id).p, json_text(arena, text), 0600,
                        err);
}

void home_record_remove_of(struct arena *arena, const char *server)
{
    const char *folder = record_folder(arena);
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *path = str_printf(arena, "%s/%s", folder, entry->d_name).p;
        struct json *record = NULL;
        struct str text;

        if (record_is_name(str_from(entry->d_name)) && file_read(arena, path, &text, NULL) == 0 &&
            json_parse(arena, text, &record, NULL) == 0 &&
            str_is(json_str(json_get(record, "server")), server))
            (void)unlink(path);
    }
    if (dir)
        closedir(dir);
    if (rmdir(folder) == 0)
        (void)rmdir(str_printf(arena, "%.*s", (int)(strrchr(folder, '/') - folder), folder).p);
}

static int by_path(const void *a, const void *b)
{
    return str_cmp(((const struct home_file *)a)->path, ((const struct home_file *)b)->path);
}

void home_record_sort(struct home_record *record)
{
    if (record->files.count)
        qsort(record->files.items, record->files.count, sizeof(record->files.items[0]), by_path);
    record->sorted = record->files.count;
}

const struct results_id *home_record_file(const struct home_record *record, struct str path)
{
    struct home_file key = {.path = path};
    const struct home_file *found = record->sorted
                                        ? bsearch(&key, record->files.items, record->sorted,
                                                  sizeof(record->files.items[0]), by_path)
                                        : NULL;

    return found ? &found->id : NULL;
}

void home_record_add(struct arena *arena,
                     struct home_record *record,
                     struct str path,
                     const struct results_id *id)
{
    struct home_file key = {.path = path};
    struct home_file *found = record->sorted ? bsearch(&key, record->files.items, record->sorted,
                                                       sizeof(record->files.items[0]), by_path)
                                             : NULL;

    if (found)
        found->id = *id;
    else
        VEC_PUSH(arena, &record->files,
                 (struct home_file){.path = str_dup(arena, path), .id = *id});
}

int home_record_find(struct arena *arena,
                     const struct home_record *like,
                     char id[HOME_ID_BYTES + 1],
                     struct err *err)
{
    const char *folder = record_folder(arena);
    DIR *dir = opendir(folder);
    time_t newest = 0;

    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *path = str_printf(arena, "%s/%s", folder, entry->d_name).p;
        struct json *record = NULL;
        struct str text;
        struct stat st;

        if (!record_is_name(str_from(entry->d_name)) || stat(path, &st) < 0 ||
            st.st_mtime < newest || file_read(arena, path, &text, NULL) < 0 ||
            json_parse(arena, text, &record, NULL) < 0 ||
            !str_eq(json_str(json_get(record, "namespace")), like->ns) ||
            !str_eq(json_str(json_get(record, "job")), like->job) ||
            !str_eq(json_str(json_get(record, "server")), like->server))
            continue;
        newest = st.st_mtime;
        (void)snprintf(id, HOME_ID_BYTES + 1, "%.*s", HOME_ID_BYTES, entry->d_name);
    }
    if (dir)
        closedir(dir);
    return newest ? 0
                  : err_set(err, -ENOENT, "job " STR_FMT " does not exist in namespace " STR_FMT,
                            STR_ARG(like->job), STR_ARG(like->ns));
}

static void record_read_files(struct arena *arena,
                              const struct json *record,
                              struct home_record *ret)
{
    JSON_FOREACH(json_get(record, "files"), file) {
        struct results_id id = {.inode = (uint64_t)json_i64_or(json_index(file, 1), 0),
                                .size = (uint64_t)json_i64_or(json_index(file, 2), 0),
                                .modified_ns = json_i64_or(json_index(file, 3), 0),
                                .changed_ns = json_i64_or(json_index(file, 4), 0)};

        VEC_PUSH(arena, &ret->files, (struct home_file){path_read(arena, json_index(file, 0)), id});
    }
    home_record_sort(ret);
}

int home_record_read(struct arena *arena,
                     struct str id,
                     struct str ns,
                     struct str job,
                     struct home_record *ret,
                     struct err *err)
{
    struct str text;
    struct json *record = NULL;
    const char *path = str_printf(arena, "%s/" STR_FMT, record_folder(arena), STR_ARG(id)).p;
    struct stat st;

    if (record_is_name(id) && stat(path, &st) == 0 && st.st_uid == geteuid() &&
        file_read(arena, path, &text, NULL) == 0 && json_parse(arena, text, &record, NULL) == 0 &&
        str_eq(json_str(json_get(record, "namespace")), ns) &&
        str_eq(json_str(json_get(record, "job")), job)) {
        *ret = (struct home_record){.ns = ns,
                                    .job = job,
                                    .folder = path_read(arena, json_get(record, "folder")),
                                    .since_ns = json_i64_or(json_get(record, "since"), 0),
                                    .bytes_max = json_i64_or(json_get(record, "most"), 0),
                                    .server = json_str(json_get(record, "server")),
                                    .array = json_str(json_get(record, "array"))};
        record_read_files(arena, record, ret);
        if (ret->folder.len && ret->folder.p[0] == '/')
            return 0;
    }
    return err_set(err, -ENOENT,
                   "you did not submit job " STR_FMT
                   " from a folder of this machine; --to DIR says "
                   "where its files should go",
                   STR_ARG(job));
}
