#include "tool/file.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 << 10)

static int read_all(int fd, struct buf *buf)
{
    for (;;) {
        char *room = buf_room(buf, PIECE_BYTES);
        ssize_t got;

        if (!room)
            return -EFBIG;
        got = read(fd, room, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        buf->len += (size_t)got;
    }
}

int file_read(struct arena *arena, const char *path, struct str *ret, struct err *err)
{
    _cleanup_(buf_done) struct buf buf = {.bytes_max = FILE_BYTES_MAX};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return err_set(err, -errno, "%s: %s", path, strerrordesc_np(errno));
    r = read_all(fd, &buf);
    (void)close(fd);
    if (r < 0)
        return err_set(err, r, "%s: %s", path, strerrordesc_np(-r));
    *ret = str_dup(arena, buf_str(&buf));
    return 0;
}
