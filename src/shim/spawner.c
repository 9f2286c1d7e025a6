#include "shim/parts.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* shim_spawner: a shim for every packet, without the cost of starting a program. */

/* One packet of SHIM_FD: a pod's folder, the descriptor its shim is to have as SHIM_FD, and that of
 * its lock. Returns bytes, 0 when the agent is gone. */
static ssize_t take_order(char *folder, size_t size, int ret_fds[static 2])
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec iov = {folder, size - 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(SHIM_FD, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    folder[n > 0 ? n : 0] = '\0';
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    ret_fds[0] = ret_fds[1] = -1;
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(ret_fds, CMSG_DATA(header), header->cmsg_len - CMSG_LEN(0));
    return n;
}

int spawner_run(const char *points, char *const paths[], int (*run)(const char *folder))
{
    char folder[PATH_MAX];
    int fds[2];
    int r = points ? points_make(points, paths) : 0;
    if (r < 0)
        return 1;
    (void)signal(SIGCHLD, SIG_IGN); /* nobody waits for shims */
    tzset();                        /* or the first line of every log would read a file for it */
    while (take_order(folder, sizeof(folder), fds) > 0) {
        pid_t pid = fds[0] >= 0 ? fork() : -1;
        if (pid == 0) {
            (void)signal(SIGCHLD, SIG_DFL);
            (void)setsid();
            if (dup2(fds[0], SHIM_FD) < 0)
                return 1;
            close(fds[0]);
            return run(folder); /* the lock stays open, and so locked, as long as this process */
        }
        /* Where fork() failed the closed socket tells the agent. */
        for (int i = 0; i < 2; i++)
            if (fds[i] >= 0)
                close(fds[i]);
    }
    return 0;
}
