#include "workspace/watch.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/mem.h"
#include "system/errors.h"
#include "workspace/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHANGED_MAX 10000 /* paths; more are "everything" */
#define EVENTS_MASK                                                                     \
    (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
     IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_ONLYDIR)

struct watched {
    char key[16];
    size_t path_len;
    char path[]; /* relative; "" is the root */
};

static const char *join(const char *a, const char *b, char out[static PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s%s%s", a, *a && *b ? "/" : "", b);

    return n < 0 || n >= PATH_MAX ? NULL : out;
}

static void add_folder(struct watch *watch, const char *path)
{
    char full[PATH_MAX];
    char below[PATH_MAX];
    struct watched *watched;
    struct dirent *item;
    DIR *dir;
    int wd;

    if (strcmp(path, ".git") == 0 || strcmp(path, WS_PRIVATE_DIR) == 0 ||
        !join(watch->root, path, full))
        return;
    wd = inotify_add_watch(watch->fd, full, EVENTS_MASK);
    if (wd < 0) {
        watch->everything |= errno == ENOSPC;
        return;
    }
    watched = mem_alloc(sizeof(*watched) + strlen(path) + 1);
    (void)snprintf(watched->key, sizeof(watched->key), "%d", wd);
    watched->path_len = strlen(path);
    memcpy(watched->path, path, watched->path_len + 1);
    mem_free(map_set(&watch->folders, str_from(watched->key), watched));
    dir = opendir(full);
    while (dir && (item = readdir(dir)) != NULL) {
        struct stat st;

        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0)
            continue;
        bool folder = item->d_type == DT_DIR ||
                      (item->d_type == DT_UNKNOWN &&
                       fstatat(dirfd(dir), item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISDIR(st.st_mode));
        if (folder && join(path, item->d_name, below))
            add_folder(watch, below);
    }
    if (dir)
        closedir(dir);
}

int watch_open(struct watch *watch, const char *root, struct err *err)
{
    *watch = (struct watch){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    if (watch->fd < 0)
        return err_set(err, -errno, "watching %s: %s", root, errno_words(errno));
    watch->root = mem_alloc(strlen(root) + 1);
    memcpy(watch->root, root, strlen(root) + 1);
    add_folder(watch, "");
    return 0;
}

static void clear_changed(struct watch *watch)
{
    MAP_FOREACH(&watch->changed, item)
        mem_free((void *)(uintptr_t)item->key.p);
    map_clear(&watch->changed);
}

void watch_done(struct watch *watch)
{
    if (watch->fd >= 0)
        close(watch->fd);
    clear_changed(watch);
    MAP_FOREACH(&watch->folders, item)
        mem_free(item->value);
    map_done(&watch->folders);
    map_done(&watch->changed);
    mem_free(watch->root);
}

static void add_changed(struct watch *watch, const char *path)
{
    size_t len = strlen(path);
    char *key;

    if (len == 0 || watch->changed.count >= CHANGED_MAX) {
        watch->everything = true;
        return;
    }
    if (map_get(&watch->changed, (struct str){path, len}))
        return;
    key = mem_alloc(len + 1);
    memcpy(key, path, len + 1);
    (void)map_set(&watch->changed, (struct str){key, len}, watch);
}

static void take_event(struct watch *watch, const struct inotify_event *event)
{
    char key[16];
    char path[PATH_MAX];
    const struct watched *watched;

    if (event->mask & IN_Q_OVERFLOW) {
        watch->everything = true;
        return;
    }
    (void)snprintf(key, sizeof(key), "%d", event->wd);
    if (event->mask & IN_IGNORED) {
        mem_free(map_remove(&watch->folders, str_from(key)));
        return;
    }
    watched = map_get(&watch->folders, str_from(key));
    if (!watched || !event->len || !join(watched->path, event->name, path))
        return;
    if (watched->path_len == 0 &&
        (strcmp(event->name, ".git") == 0 || strcmp(event->name, WS_PRIVATE_DIR) == 0))
        return;
    /* A file that was only created is told again when it is closed; a link is not. */
    if ((event->mask & IN_CREATE) && !(event->mask & IN_ISDIR)) {
        char full[PATH_MAX];
        struct stat st;

        if (join(watch->root, path, full) && lstat(full, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 1)
            return;
    }
    if ((event->mask & IN_ISDIR) && (event->mask & (IN_CREATE | IN_MOVED_TO)))
        add_folder(watch, path);
    if (strstr(path, ".gitignore") || strstr(path, ".torchrunignore"))
        watch->everything = true;
    add_changed(watch, path);
}

bool watch_read(struct watch *watch)
{
    union {
        char bytes[65536];
        struct inotify_event align;
    } in;
    ssize_t got;

    while ((got = read(watch->fd, in.bytes, sizeof(in.bytes))) > 0) {
        for (ssize_t at = 0; at < got;) {
            const struct inotify_event *event =
                (const struct inotify_event *)(const void *)(in.bytes + at);

            take_event(watch, event);
            at += (ssize_t)(sizeof(*event) + event->len);
        }
    }
    return watch->everything || watch->changed.count > 0;
}

static int by_bytes(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

size_t watch_take(struct watch *watch,
                  struct arena *arena,
                  struct str **ret_paths,
                  bool *ret_everything)
{
    size_t count = 0;

    *ret_paths = ARENA_ARRAY(arena, struct str, watch->changed.count + 1);
    MAP_FOREACH(&watch->changed, item)
        (*ret_paths)[count++] = str_dup(arena, item->key);
    if (count)
        qsort(*ret_paths, count, sizeof(**ret_paths), by_bytes);
    *ret_everything = watch->everything;
    watch->everything = false;
    clear_changed(watch);
    return count;
}
