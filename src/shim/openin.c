#include "shim/openin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
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
