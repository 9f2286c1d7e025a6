#include "shim/openin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_how(int at_fd, const char *path, const struct open_how *how)
{
    int fd = (int)syscall(SYS_openat2, at_fd, path, how, sizeof(*how));
    return fd < 0 ? -errno : fd;
}

int open_in(int root_fd, const char *path, uint64_t flags, mode_t mode)
{
    return open_how(root_fd, path,
                    &(struct open_how){.flags = flags | O_CLOEXEC,
                                       .mode = flags & O_CREAT ? mode : 0,
                                       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS});
}

int open_own(int root_fd, const char *path, uint64_t flags)
{
    return open_how(
        root_fd, path,
        &(struct open_how){.flags = flags | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV});
}

int open_beneath(int root_fd, const char *path, uint64_t flags)
{
    return open_how(root_fd, path,
                    &(struct open_how){.flags = flags | O_CLOEXEC,
                                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS});
}

int open_exact(const char *path, uint64_t flags)
{
    return open_how(AT_FDCWD, path,
                    &(struct open_how){.flags = flags | O_CLOEXEC,
                                       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS});
}

#define LINKS_MAX 40 /* as the kernel has it */

struct walk {
    int root_fd;
    int at;
    unsigned links;
    char rest[2 * PATH_MAX]; /* of the path */
};

static int walk_to(struct walk *walk, int fd)
{
    if (walk->at >= 0)
        close(walk->at);
    walk->at = fd;
    return fd < 0 ? fd : 0;
}

/* The link's words in the place of its name. */
static int walk_link(struct walk *walk, int link)
{
    char words[PATH_MAX];
    struct stat st;
    ssize_t n = readlinkat(link, "", words, sizeof(words));
    size_t left = strlen(walk->rest);
    if (n < 0 || fstat(link, &st) < 0)
        return -errno;
    if ((st.st_uid != 0 && st.st_uid != geteuid()) || ++walk->links > LINKS_MAX)
        return -ELOOP;
    if ((size_t)n + 1 + left + 1 > sizeof(walk->rest))
        return -ENAMETOOLONG;
    memmove(walk->rest + n + 1, walk->rest, left + 1);
    memcpy(walk->rest, words, (size_t)n);
    walk->rest[n] = '/';
    return words[0] == '/' ? walk_to(walk, open_in(walk->root_fd, "/", O_PATH, 0)) : 0;
}

/* One name further. */
static int walk_step(struct walk *walk)
{
    char name[NAME_MAX + 1];
    struct stat st;
    size_t slashes = strspn(walk->rest, "/"), len = strcspn(walk->rest + slashes, "/");
    if (len > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, walk->rest + slashes, len);
    name[len] = '\0';
    memmove(walk->rest, walk->rest + slashes + len, strlen(walk->rest + slashes + len) + 1);
    if (!len || strcmp(name, ".") == 0)
        return 0;
    if (strcmp(name, "..") == 0)
        return -ELOOP;
    int fd = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISLNK(st.st_mode))
        return walk_to(walk, fd);
    int r = walk_link(walk, fd);
    close(fd);
    return r;
}

int open_trusted(int root_fd, const char *path, uint64_t flags)
{
    struct walk walk = {.root_fd = root_fd, .at = -1};
    size_t len = strlen(path);
    if (len >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(walk.rest, path, len + 1);
    int r = walk_to(&walk, open_in(root_fd, "/", O_PATH, 0));
    while (r == 0 && *walk.rest)
        r = walk_step(&walk);
    /* The folder itself, with the flags that are wanted. */
    int fd = r ? r : open_in(walk.at, "/", flags, 0);
    if (walk.at >= 0)
        close(walk.at);
    return fd;
}

bool is_mount_point(const char *path)
{
    struct statx st;
    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, 0, &st) < 0)
        return errno != ENOENT;
    return !(st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) ||
           st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}
