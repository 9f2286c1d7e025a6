#ifdef __linux__

#    include "base/err.h"
#    include "base/map.h"
#    include "base/mem.h"
#    include "system/errors.h"
#    include "workspace/watch.h"
#    include "workspace/watch_internal.h"

#    include <dirent.h>
#    include <errno.h>
#    include <fcntl.h>
#    include <limits.h>
#    include <stdio.h>
#    include <string.h>
#    include <sys/inotify.h>
#    include <sys/stat.h>
#    include <unistd.h>

#    define EVENTS_MASK                                                                     \
        (IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB | \
         IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_ONLYDIR)

struct watched {
    char key[16];
    size_t path_len;
    char path[]; /* relative; "" is the root */
};

static void add_folder(struct watch *watch, const char *path)
{
    char full[PATH_MAX];
    char below[PATH_MAX];
    struct watched *watched;
    struct dirent *item;
    DIR *dir;
    int wd;

    if (watch_is_private(path) || !watch_join(watch->root, path, full))
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
        if (folder && watch_join(path, item->d_name, below))
            add_folder(watch, below);
    }
    if (dir)
        closedir(dir);
}

int watch_inotify_open(struct watch *watch, struct err *err)
{
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd < 0)
        return err_set(err, -errno, "watching %s: %s", watch->root, errno_words(errno));
    add_folder(watch, "");
    return 0;
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
    if (!watched || !event->len || !watch_join(watched->path, event->name, path))
        return;
    if (watched->path_len == 0 && watch_is_private(event->name))
        return;
    /* A file that was only created is told again when it is closed; a link is not. */
    if ((event->mask & IN_CREATE) && !(event->mask & IN_ISDIR)) {
        char full[PATH_MAX];
        struct stat st;

        if (watch_join(watch->root, path, full) && lstat(full, &st) == 0 && S_ISREG(st.st_mode) &&
            st.st_nlink == 1)
            return;
    }
    if ((event->mask & IN_ISDIR) && (event->mask & (IN_CREATE | IN_MOVED_TO)))
        add_folder(watch, path);
    watch_add(watch, path);
}

void watch_inotify_read(struct watch *watch)
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
}

#endif
