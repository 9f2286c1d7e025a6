#include "agent/trash.h"

#include "tool/clock.h"
#include "tool/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int trash_open(struct trash *trash, const char *data_dir, struct err *err)
{
    (void)snprintf(trash->folder, sizeof(trash->folder), "%s/trash", data_dir);
    trash->begun = clock_now_ms();
    return files_make_folder(trash->folder, 0700, err);
}

static void next_name(struct trash *trash, char out[static 64])
{
    (void)snprintf(out, 64, "%lld.%u", trash->begun, atomic_fetch_add(&trash->next, 1));
}

void trash_put(struct trash *trash, const char *path)
{
    char name[64], to[PATH_MAX];
    next_name(trash, name);
    (void)snprintf(to, sizeof(to), "%s/%s", trash->folder, name);
    (void)rename(path, to);
}

static void folder_make_writable(int parent, const char *name)
{
    int r = fchmodat(parent, name, 0700, AT_SYMLINK_NOFOLLOW);
    (void)r; /* where it cannot be, what is in it stays */
}

/* One entry of an opened folder. A folder that is not empty moves up into the trash itself, to be
 * emptied in its turn: so no depth is too deep. True: it is no longer where it was. */
static bool entry_remove(struct trash *trash, int top, int parent, const char *name)
{
    char up[64];
    if (unlinkat(parent, name, 0) == 0)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return errno == ENOENT;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        return true;
    if (parent == top || (errno != ENOTEMPTY && errno != EEXIST))
        return false;
    next_name(trash, up);
    folder_make_writable(parent, name); /* its parent changes */
    return renameat(parent, name, top, up) == 0;
}

/* What is in one folder of the trash. Takes the descriptor; true when anything went. */
static bool folder_empty(struct trash *trash, int top, int fd)
{
    bool progress = false;
    (void)fchmod(fd, 0700);
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return false;
    }
    for (struct dirent *e; !atomic_load(&trash->stop) && (e = readdir(folder));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            progress = entry_remove(trash, top, fd, e->d_name) || progress;
    closedir(folder);
    return progress;
}

/* One look at everything in the trash. True when anything went; *ret_left counts what did not. */
static bool trash_pass(struct trash *trash, int top, size_t *ret_left)
{
    bool progress = false;
    int again = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = again >= 0 ? fdopendir(again) : NULL;
    *ret_left = 0;
    for (struct dirent *e; folder && !atomic_load(&trash->stop) && (e = readdir(folder));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (entry_remove(trash, top, top, e->d_name)) {
            progress = true;
            continue;
        }
        folder_make_writable(top, e->d_name);
        int fd = openat(top, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            progress = folder_empty(trash, top, fd) || progress;
        ++*ret_left;
    }
    if (folder)
        closedir(folder);
    else if (again >= 0)
        close(again);
    return progress;
}

bool trash_empty(struct trash *trash)
{
    size_t left = 1;
    bool progress = true;
    while (progress && !atomic_load(&trash->stop)) {
        if (atomic_exchange(&trash->busy, true))
            return false;
        int top = open(trash->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        progress = top >= 0 && trash_pass(trash, top, &left);
        if (top >= 0)
            close(top);
        atomic_store(&trash->busy, false);
    }
    return left == 0;
}
