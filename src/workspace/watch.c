#include "workspace/watch.h"

#include "base/arena.h"
#include "base/mem.h"
#include "workspace/manifest.h"
#include "workspace/watch_internal.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGED_MAX 10000 /* paths; more are "everything" */

const char *watch_join(const char *a, const char *b, char out[static PATH_MAX])
{
    int n = snprintf(out, PATH_MAX, "%s%s%s", a, *a && *b ? "/" : "", b);

    return n < 0 || n >= PATH_MAX ? NULL : out;
}

bool watch_is_private(const char *path)
{
    return strcmp(path, ".git") == 0 || strcmp(path, WS_PRIVATE_DIR) == 0;
}

int watch_open(struct watch *watch, const char *root, struct err *err)
{
    *watch = (struct watch){.fd = -1};
    watch->root = mem_alloc(strlen(root) + 1);
    memcpy(watch->root, root, strlen(root) + 1);
#ifdef __linux__
    return watch_inotify_open(watch, err);
#else
    (void)err;
    watch_poll_open(watch);
    return 0;
#endif
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

void watch_add(struct watch *watch, const char *path)
{
    size_t len = strlen(path);
    char *key;

    if (strstr(path, ".gitignore") || strstr(path, ".torchrunignore"))
        watch->everything = true;
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

bool watch_read(struct watch *watch)
{
#ifdef __linux__
    watch_inotify_read(watch);
#else
    watch_poll_read(watch);
#endif
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
