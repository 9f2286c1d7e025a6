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
#include <sys/stat.h>
#include <time.h>

/* How much is kept of pods that are gone. */
struct kept_item {
    struct timespec at;
    uint64_t bytes;
    char name[NAME_MAX + 1];
};

static int item_newest_first(const void *a, const void *b)
{
    const struct kept_item *x = a, *y = b;
    if (x->at.tv_sec != y->at.tv_sec)
        return x->at.tv_sec < y->at.tv_sec ? 1 : -1;
    return x->at.tv_nsec < y->at.tv_nsec ? 1 : x->at.tv_nsec > y->at.tv_nsec ? -1 : 0;
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
    for (size_t i = 0; i < items.count; i++) {
        const struct kept_item *item = &items.items[i];
        bool old = (int64_t)item->at.tv_sec * 1000 < limits->since_ms;
        bytes += item->bytes;
        (void)snprintf(path, sizeof(path), "%s/%s", logs, item->name);
        if (old || i >= limits->pods || bytes > limits->bytes)
            files_remove(path);
    }
    VEC_DONE(&items);
}
