#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* shim_points: the mount points that every pod needs and the host lacks, made once, in memory, in a
 * mount namespace of the spawner and its shims. A pod's root has them as a layer of its own:
 * making them in every pod's upper layer would be the larger part of the work of starting one. They
 * are a file system of their own because overlays refuse layers inside each other. */

/* `path` below the folder; what is there on the host keeps its owner and mode, because the top
 * layer's folder is the one that is seen. */
static int make_below(const char *folder, const char *path)
{
    char at[PATH_MAX], host[PATH_MAX];
    size_t len = strlen(path);
    for (size_t i = 1; i < len; i++) {
        if (path[i] != '/' && path[i + 1])
            continue;
        struct stat st;
        (void)snprintf(host, sizeof(host), "%.*s", (int)(path[i] == '/' ? i : i + 1), path);
        int n = snprintf(at, sizeof(at), "%s%s", folder, host);
        if (n < 0 || (size_t)n >= sizeof(at))
            return -ENAMETOOLONG;
        if (path[i] != '/') { /* the last word, a file */
            int fd = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
            if (fd < 0)
                return -errno;
            close(fd);
            return 0;
        }
        if (mkdir(at, 0755) < 0 && errno != EEXIST)
            return -errno;
        if (lstat(host, &st) == 0 &&
            (chmod(at, st.st_mode & 07777) < 0 || chown(at, st.st_uid, st.st_gid) < 0))
            return -errno;
    }
    return 0;
}

static int make_nothing(const char *folder)
{
    char at[PATH_MAX];
    int n = snprintf(at, sizeof(at), "%s" POINTS_NOTHING, folder);
    if (n < 0 || (size_t)n >= sizeof(at))
        return -ENAMETOOLONG;
    int r = make_below(folder, POINTS_NOTHING "/");
    return r == 0 && chmod(at, 0) < 0 ? -errno : r;
}

int points_make(const char *folder, char *const paths[])
{
    struct stat st;
    /* What the host mounts later is still seen. */
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0 ||
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=64k") < 0)
        return -errno;
    if (stat("/", &st) == 0 && chmod(folder, st.st_mode & 07777) < 0)
        return -errno;
    int r = 0;
    for (size_t i = 0; r == 0 && paths[i]; i++)
        r = make_below(folder, paths[i]);
    if (r == 0)
        r = make_nothing(folder);
    if (r == 0 && mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "") < 0)
        r = -errno;
    return r;
}
