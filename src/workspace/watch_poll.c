#include "base/map.h"
#include "base/mem.h"
#include "system/files.h"
#include "workspace/manifest.h"
#include "workspace/watch.h"
#include "workspace/watch_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* What is there, as it was at the last look. Of a folder only that it is one, and its rights: what is in it is told for itself.
 * More than WS_ENTRIES_MAX cannot be sent; from there on every look finds everything changed. */
struct seen {
    struct timespec changed;
    off_t size;
    ino_t inode;
    mode_t mode;
    unsigned int look; /* the last one that found it */
    size_t path_len;
    char path[]; /* relative */
};

static bool seen_is_same(const struct seen *seen, const struct stat *st)
{
    struct timespec changed = file_changed(st);

    if (seen->mode != st->st_mode || seen->inode != st->st_ino)
        return false;
    return S_ISDIR(st->st_mode) ||
           (seen->size == st->st_size && seen->changed.tv_sec == changed.tv_sec &&
            seen->changed.tv_nsec == changed.tv_nsec);
}

/* True when it was not there, or not so. */
static bool seen_note(struct watch *watch, const char *path, const struct stat *st)
{
    size_t len = strlen(path);
    struct seen *seen = map_get(&watch->folders, (struct str){path, len});
    bool same = seen && seen_is_same(seen, st);

    if (!seen) {
        seen = mem_alloc(sizeof(*seen) + len + 1);
        seen->path_len = len;
        memcpy(seen->path, path, len + 1);
        (void)map_set(&watch->folders, (struct str){seen->path, len}, seen);
    }
    seen->changed = file_changed(st);
    seen->size = st->st_size;
    seen->inode = st->st_ino;
    seen->mode = st->st_mode;
    seen->look = watch->look;
    return !same;
}

static void poll_folder(struct watch *watch, const char *path)
{
    char full[PATH_MAX];
    char below[PATH_MAX];
    struct dirent *item;
    struct stat st;
    DIR *dir = watch_join(watch->root, path, full) ? opendir(full) : NULL;

    while (dir && (item = readdir(dir)) != NULL) {
        if (strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0 ||
            !watch_join(path, item->d_name, below) || watch_is_private(below) ||
            fstatat(dirfd(dir), item->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (watch->folders.count >= WS_ENTRIES_MAX) {
            watch->everything = true;
            break;
        }
        if (seen_note(watch, below, &st) && watch->look > 1)
            watch_add(watch, below);
        if (S_ISDIR(st.st_mode))
            poll_folder(watch, below);
    }
    if (dir)
        closedir(dir);
}

void watch_poll_read(struct watch *watch)
{
    watch->look++;
    poll_folder(watch, "");
    MAP_FOREACH(&watch->folders, item) {
        struct seen *seen = item->value;

        if (seen->look == watch->look)
            continue;
        watch_add(watch, seen->path);
        mem_free(map_remove(&watch->folders, (struct str){seen->path, seen->path_len}));
    }
}

void watch_poll_open(struct watch *watch)
{
    watch_poll_read(watch); /* the first look has nothing to compare with */
}
