#include "agent/spawner.h"

#include "api/account_volume.h"
#include "api/launch.h"
#include "base/err.h"
#include "base/mem.h"
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

struct spawner {
    pid_t pid; /* 0: none */
    int fd;
    const char *program;
    char points[SPAWNER_POINTS_BYTES];
};

/* Everywhere the same, but for /var/run, which is a link to /run nearly everywhere. */
static void token_point(char out[static PATH_MAX])
{
    char run[PATH_MAX];
    if (!realpath("/var/run", run))
        (void)snprintf(run, sizeof(run), "/var/run");
    (void)snprintf(out, PATH_MAX, "%.*s%s/", PATH_MAX - 128, run,
                   &ACCOUNT_MOUNT_PATH[strlen("/var/run")]);
}

static int program_start(const struct spawner *spawner, int fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&actions, 0, 1);
    posix_spawn_file_actions_adddup2(&actions, 0, 2);
    posix_spawn_file_actions_adddup2(&actions, fd, SHIM_FD);
    posix_spawn_file_actions_addclosefrom_np(&actions, SHIM_FD + 1);
    char name[] = "muster-shim", flag[] = SHIM_SPAWNER, launch[] = LAUNCH_PATH;
    char points[SPAWNER_POINTS_BYTES], token[PATH_MAX];
    memcpy(points, spawner->points, sizeof(points));
    token_point(token);
    char *argv[] = {name, flag, *points ? points : NULL, launch, token, NULL}, *envp[] = {NULL};
    int r = posix_spawn(ret_pid, spawner->program, &actions, &attributes, argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -r;
}

static int pair_make(int pair[static 2], struct err *err)
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0)
        return 0;
    int r = -errno;
    return err_set(err, r, "cannot create a socket: %s", strerrordesc_np(-r));
}

static void spawner_end(struct spawner *spawner)
{
    if (!spawner->pid)
        return;
    close(spawner->fd);
    /* It ends by itself when its socket does; shims it made stay. */
    (void)waitpid(spawner->pid, NULL, 0);
    spawner->pid = 0;
}

static int spawner_begin(struct spawner *spawner, struct err *err)
{
    int pair[2];
    spawner_end(spawner);
    int r = pair_make(pair, err);
    if (r)
        return r;
    /* dup2 onto itself would leave close-on-exec set. */
    if (pair[1] == SHIM_FD) {
        pair[1] = fcntl(SHIM_FD, F_DUPFD_CLOEXEC, SHIM_FD + 1);
        close(SHIM_FD);
    }
    r = program_start(spawner, pair[1], &spawner->pid);
    close(pair[1]);
    if (r) {
        close(pair[0]);
        return err_set(err, r, "cannot start %s: %s", spawner->program, strerrordesc_np(-r));
    }
    spawner->fd = pair[0];
    return 0;
}

int spawner_start(const char *program, const char *points, struct spawner **ret, struct err *err)
{
    struct spawner *spawner = MEM_NEW(struct spawner);
    spawner->program = program;
    (void)snprintf(spawner->points, sizeof(spawner->points), "%s", points);
    int r = spawner_begin(spawner, err);
    if (r)
        mem_free(spawner);
    else
        *ret = spawner;
    return r;
}

void spawner_stop(struct spawner *spawner)
{
    if (!spawner)
        return;
    spawner_end(spawner);
    mem_free(spawner);
}

const char *spawner_points(const struct spawner *spawner)
{
    return spawner->points;
}

static bool spawner_send(const struct spawner *spawner, const char *folder, int lock_fd, int fd)
{
    struct iovec iov = {(void *)(uintptr_t)folder, strlen(folder)};
    int fds[] = {fd, lock_fd};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = {0};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(header), fds, sizeof(fds));
    return spawner->pid && sendmsg(spawner->fd, &message, MSG_NOSIGNAL) > 0;
}

int spawner_make(struct spawner *spawner, const char *folder, int lock_fd, struct err *err)
{
    int pair[2];
    int r = pair_make(pair, err);
    if (r)
        return r;
    /* A spawner that was killed is replaced. */
    if (!spawner_send(spawner, folder, lock_fd, pair[1])) {
        r = spawner_begin(spawner, err);
        if (r == 0 && !spawner_send(spawner, folder, lock_fd, pair[1]))
            r = err_set(err, -EIO, "%s does not accept commands", spawner->program);
    }
    close(pair[1]);
    if (r)
        close(pair[0]);
    return r ? r : pair[0];
}
