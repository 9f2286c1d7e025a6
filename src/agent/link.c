#include "agent/link.h"

#include "agent/spawner.h"
#include "base/err.h"
#include "shim/shim.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

/* link: packets to and from one shim. A shim reads its socket promptly and messages are short, so
 * sending does not wait; a shim whose socket is full is stuck and counts as lost. */

static void on_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    link->closed(link->user);
}

void link_close(struct link *link)
{
    if (!link->open)
        return;
    link->open = false;
    (void)uv_poll_stop(&link->poll);
    uv_close((uv_handle_t *)&link->poll, on_closed);
    close(link->fd);
    link->fd = -1;
}

/* One packet; false when there is none left. */
static bool link_take(struct link *link)
{
    char text[SHIM_MESSAGE_BYTES];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec iov = {text, sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        link->lost(link->user);
        return false;
    }
    text[n] = '\0';
    int fd = -1;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    link->message(link->user, text, fd);
    if (fd >= 0)
        close(fd);
    return link->open;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)events;
    struct link *link = poll->data;
    if (status < 0) {
        link->lost(link->user);
        return;
    }
    while (link->open && link_take(link))
        ;
}

static int link_adopt(struct link *link, uv_loop_t *loop, int fd, struct err *err)
{
    int r = uv_poll_init(loop, &link->poll, fd);
    if (r < 0)
        return err_set(err, r, "cannot watch the shim's socket: %s", uv_strerror(r));
    link->poll.data = link;
    link->fd = fd;
    link->open = true;
    r = uv_poll_start(&link->poll, UV_READABLE, on_poll);
    assert(r == 0);
    return 0;
}

/* ---- the lock ---- */

static int lock_open(const char *folder, int flags, int operation, struct err *err)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, SHIM_LOCK_FILE);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    int r = fd < 0 || flock(fd, operation | LOCK_NB) < 0 ? -errno : 0;
    if (r == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return err_set(err, r == -EWOULDBLOCK ? -EBUSY : r, "cannot lock %s: %s", path,
                   strerrordesc_np(-r));
}

int link_lock(const char *folder, struct err *err)
{
    return lock_open(folder, O_CREAT, LOCK_EX, err);
}

bool link_locked(const char *folder)
{
    /* Shared, so that two that look do not take each other for the shim. */
    int fd = lock_open(folder, 0, LOCK_SH, NULL);
    if (fd >= 0)
        close(fd);
    return fd == -EBUSY;
}

/* ---- opening ---- */

int link_spawn(struct link *link, uv_loop_t *loop, const struct link_order *order, struct err *err)
{
    int fd = spawner_make(order->spawner, order->folder, order->lock_fd, err);
    if (fd < 0)
        return fd;
    int r = link_adopt(link, loop, fd, err);
    if (r)
        close(fd);
    return r;
}

int link_connect(struct link *link, uv_loop_t *loop, const char *folder, struct err *err)
{
    /* A socket's address holds 108 bytes: a path through the folder's descriptor always fits. */
    int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", folder_fd,
                   SHIM_SOCKET_FILE);
    int r = folder_fd < 0 || fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0
                ? -errno
                : 0;
    if (folder_fd >= 0)
        close(folder_fd);
    if (r) {
        if (fd >= 0)
            close(fd);
        return err_set(err, r, "no shim in %s: %s", folder, strerrordesc_np(-r));
    }
    return link_adopt(link, loop, fd, err);
}

/* ---- sending ---- */

void link_send(struct link *link, const int *fds, size_t fd_count, const char *fmt, ...)
{
    char text[SHIM_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert(fd_count <= SHIM_FDS_MAX && len >= 0 && (size_t)len < sizeof(text));
    if (!link->open)
        return;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(SHIM_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {text, (size_t)len};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(header), fds, fd_count * sizeof(int));
    }
    /* A shim that died is noticed by the poll. */
    (void)sendmsg(link->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}
