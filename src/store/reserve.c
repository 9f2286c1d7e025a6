#include "store/reserve.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

void reserve_take(struct reserve *reserve)
{
    if (reserve->held || !reserve->path[0])
        return;
    int fd = open(reserve->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    reserve->held = posix_fallocate(fd, 0, RESERVE_BYTES) == 0;
    (void)close(fd);
    if (!reserve->held)
        (void)unlink(reserve->path);
}

void reserve_open(struct reserve *reserve, const char *store_path)
{
    int length = snprintf(reserve->path, sizeof(reserve->path), "%s-reserve", store_path);

    reserve->held = false;
    if (length >= (int)sizeof(reserve->path))
        reserve->path[0] = '\0';
}

void reserve_give_up(struct reserve *reserve)
{
    if (reserve->path[0])
        (void)unlink(reserve->path);
    reserve->held = false;
}

bool reserve_has_room(const struct reserve *reserve)
{
    struct statvfs disk;
    char folder[PATH_MAX];

    /* The file is gone: its folder is asked. */
    (void)snprintf(folder, sizeof(folder), "%s", reserve->path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[1] = '\0';
    return statvfs(slash ? folder : ".", &disk) != 0 ||
           (uint64_t)disk.f_bavail * disk.f_frsize >= 2 * (uint64_t)RESERVE_BYTES;
}
