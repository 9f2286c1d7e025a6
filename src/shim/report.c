#include "shim/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* report: what a child says before it becomes its program. */

int shim_fail(char words[static 256], const char *step, const char *what)
{
    int r = errno ? -errno : -EIO;
    (void)snprintf(words, 256, "%s %s: %s", step, what ? what : "", strerrordesc_np(-r));
    return r;
}

ssize_t packet_send(int socket_fd, const struct iovec *bytes, int fd, int flags)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)bytes, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    return sendmsg(socket_fd, &message, flags | MSG_NOSIGNAL);
}

int report_send(int socket_fd, const struct report *report, int fd)
{
    struct iovec iov = {(void *)(uintptr_t)report, sizeof(*report)};
    return packet_send(socket_fd, &iov, fd, 0) == (ssize_t)sizeof(*report) ? 0 : -EIO;
}

/* Bytes received: 0 when the child has exec'd (or died). */
static ssize_t report_take(int socket_fd, int flags, struct report *ret, int *ret_fd)
{
    struct iovec iov = {ret, sizeof(*ret)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fd, CMSG_DATA(header), sizeof(*ret_fd));
    return n;
}

int report_next(int socket_fd, int flags, int *ret_master, char words[static 256])
{
    struct report report;
    int fd = -1;
    ssize_t n = report_take(socket_fd, flags, &report, &fd);
    if (n == 0)
        return 0;
    if (n < 0 && (errno == EAGAIN || errno == ECONNRESET))
        return -errno;
    if (n != (ssize_t)sizeof(report)) {
        errno = EIO;
        return shim_fail(words, "start", "");
    }
    if (report.code) {
        memcpy(words, report.text, 256);
        return report.code < 0 ? report.code : -EIO;
    }
    if (fd >= 0)
        *ret_master = fd;
    return 1;
}

int report_await(int socket_fd, int *ret_master, char words[static 256])
{
    /* The child closed its side without having read that it may begin, so it does not run its program. The
     * kernel says so once, before it hands out what the child said last. */
    bool left = false;
    for (;;) {
        int r = report_next(socket_fd, 0, ret_master, words);
        if (r == -ECONNRESET && !left) {
            left = true;
            continue;
        }
        if (r == -EAGAIN) {
            errno = ETIMEDOUT;
            return shim_fail(words, "wait for",
                             "its program, which a process of another container may have stopped");
        }
        if (r <= 0)
            return r == 0 && left ? -ECHILD : r;
    }
}
