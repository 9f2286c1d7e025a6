#include "agent/kept.h"
#include "base/mem.h"
#include "base/vec.h"
#include "tool/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* How much is kept of pods that are gone. */
struct kept_item {
    struct timespec at;
    uint64_t bytes;
    size_t rank;        /* pods of its namespace that are newer */
    uint64_t all_bytes; /* of them and of this one */
    char name[NAME_MAX + 1];
};

static int item_newest_first(const void *a, const void *b)
{
    const struct kept_item *x = a, *y = b;
    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? 1 : -1;
    return x->at.tv_nsec < y->at.tv_nsec ? 1 : x->at.tv_nsec > y->at.tv_nsec ? -1 : 0;
}

static int item_by_rank(const void *a, const void *b)
{
    const struct kept_item *x = a, *y = b;
    return x->rank != y->rank ? (x->rank > y->rank ? 1 : -1) : item_newest_first(a, b);
}

static int item_by_bytes(const void *a, const void *b)
{
    const struct kept_item *x = a, *y = b;
    return x->all_bytes != y->all_bytes ? (x->all_bytes > y->all_bytes ? 1 : -1)
                                        : item_newest_first(a, b);
}

/* Of items that stand newest first: what comes before each in its namespace. */
static void share_out(struct kept_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(items[i].name, "_"); /* no namespace has one in its name */
        size_t before = i;
        items[i].all_bytes = items[i].bytes;
        while (before-- > 0)
            if (strncmp(items[before].name, items[i].name, len + 1) == 0) {
                items[i].rank = items[before].rank + 1;
                items[i].all_bytes += items[before].all_bytes;
                break;
            }
    }
}

/* Of what lies in a folder: files, and those of its folders down to `depth`. */
static uint64_t folder_bytes(const char *path, int depth)
{
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        char below[PATH_MAX];
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int n = snprintf(below, sizeof(below), "%s/%s", path, e->d_name);
        if (S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_size;
        else if (S_ISDIR(st.st_mode) && depth > 0 && n > 0 && (size_t)n < sizeof(below))
            bytes += folder_bytes(below, depth - 1);
    }
    if (folder)
        closedir(folder);
    return bytes;
}

void kept_prune(const char *logs, const struct kept_limits *limits)
{
    VEC(struct kept_item) items = {0};
    char path[PATH_MAX];
    uint64_t bytes = 0;
    DIR *folder = opendir(logs);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        struct kept_item item = {0};
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(folder), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        (void)snprintf(item.name, sizeof(item.name), "%s", e->d_name);
        (void)snprintf(path, sizeof(path), "%s/%s", logs, e->d_name);
        item.at = st.st_mtim;
        item.bytes = folder_bytes(path, 1);
        VEC_PUSH(NULL, &items, item);
    }
    if (folder)
        closedir(folder);
    if (items.count)
        qsort(items.items, items.count, sizeof(items.items[0]), item_newest_first);
    share_out(items.items, items.count);
    /* The newest of each namespace first, then the second newest of each; and once more by bytes. */
    for (int by_bytes = 0; by_bytes < 2 && items.count; by_bytes++) {
        qsort(items.items, items.count, sizeof(items.items[0]),
              by_bytes ? item_by_bytes : item_by_rank);
        for (size_t i = 0; i < items.count; i++) {
            const struct kept_item *item = &items.items[i];
            bool old = (int64_t)item->at.tv_sec * 1000 < limits->since_ms;
            bytes += by_bytes ? item->bytes : 0;
            (void)snprintf(path, sizeof(path), "%s/%s", logs, item->name);
            if (old || (!by_bytes && i >= limits->pods) || bytes > limits->bytes)
                files_remove(path);
        }
    }
    VEC_DONE(&items);
}
