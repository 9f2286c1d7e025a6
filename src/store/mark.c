#include "store/mark.h"

#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define MARK_BYTES 21 /* 20 digits and a newline, whatever the number: written over in place */

static int mark_path(const char *store_path, char path[static PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s" MARK_SUFFIX, store_path);

    return n > 0 && n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

uint64_t mark_read(const char *store_path)
{
    char path[PATH_MAX];
    char text[MARK_BYTES];
    uint64_t revision = 0;

    if (mark_path(store_path, path) < 0)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (pread(fd, text, sizeof(text), 0) != MARK_BYTES ||
        !str_to_u64((struct str){text, MARK_BYTES - 1}, &revision))
        revision = 0;
    (void)close(fd);
    return revision;
}

int mark_open(struct mark *mark, const char *store_path, struct err *err)
{
    char path[PATH_MAX];
    int r = mark_path(store_path, path);

    mark->fd = r < 0 ? r : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (mark->fd < 0)
        return err_set(err, r < 0 ? r : -errno, "cannot open %s: %m", path);
    return 0;
}

void mark_set(struct mark *mark, uint64_t revision)
{
    char text[MARK_BYTES + 1];

    (void)snprintf(text, sizeof(text), "%020" PRIu64 "\n", revision);
    /* Where this fails less is known after the next crash, nothing else. */
    if (mark->fd >= 0 && pwrite(mark->fd, text, MARK_BYTES, 0) < 0)
        return;
}

void mark_close(struct mark *mark)
{
    if (mark->fd >= 0)
        (void)close(mark->fd);
    mark->fd = -1;
}
