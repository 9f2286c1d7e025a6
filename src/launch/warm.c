#include "launch/warm.h"

#include "api/launch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launch/python.h"
#include "launch/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define REQUEST_MAX     ((size_t)4 << 20) /* as in warm.py */
#define ANSWER_LIMIT_S  30                /* a fork takes milliseconds */
#define TITLE_ROOM      2048              /* of arguments that ps shows */
#define ANSWER_BYTES    64
#define EXIT_NOT_FOUND  127
#define CPU_SETS_BYTES  1024 /* 8,192 CPUs */
#define MPOL_IS_DEFAULT 0

extern const char warm_py[]; /* tools/embed_text.c made it of warm.py */

/* ---- the server ---- */

static int script_write(char path[static PATH_MAX])
{
    const char *folder = getenv(LAUNCH_ENV_RUN_DIR);
    size_t len = strlen(warm_py);
    int fd;

    (void)snprintf(path, PATH_MAX, "%s/warm.py", folder ? folder : "/tmp");
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    bool whole = write(fd, warm_py, len) == (ssize_t)len;
    close(fd);
    return whole ? 0 : -EIO;
}

void warm_start(const struct python *python, const sigset_t *mask)
{
    const char *folder = getenv(LAUNCH_ENV_RUN_DIR);
    char room[TITLE_ROOM + 1];
    char script[PATH_MAX];
    char path[PATH_MAX];
    int null;

    (void)snprintf(path, sizeof(path), "%s/warm.sock", folder ? folder : "/tmp");
    if (script_write(script) < 0 || fork() != 0)
        goto told;
    memset(room, ' ', TITLE_ROOM);
    room[TITLE_ROOM] = '\0';
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)dup2(null, 0);
    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)execl(python->path, python->path, script, path, room, (char *)NULL);
    _exit(EXIT_NOT_FOUND);
told:
    (void)setenv(LAUNCH_ENV_WARM, path, 1);
}

/* ---- who asks ---- */

static int warm_connect(const char *path, pid_t *ret_pid)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_LIMIT_S};
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int fd;

    if (strlen(path) >= sizeof(at.sun_path))
        return -1;
    memcpy(at.sun_path, path, strlen(path));
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 && peer.uid == geteuid()) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        *ret_pid = peer.pid;
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* What a child of the server would have, and we might not: a shell before us may have set it. */
static bool limits_are_alike(pid_t server)
{
    unsigned char cpus[2][CPU_SETS_BYTES] = {{0}};
    int policy = MPOL_IS_DEFAULT;

    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit ours;
        struct rlimit theirs;

        if (getrlimit((__rlimit_resource_t)i, &ours) < 0 ||
            prlimit(server, (enum __rlimit_resource)i, NULL, &theirs) < 0 ||
            ours.rlim_cur != theirs.rlim_cur || ours.rlim_max != theirs.rlim_max)
            return false;
    }
    if (syscall(SYS_sched_getaffinity, 0, sizeof(cpus[0]), cpus[0]) < 0 ||
        syscall(SYS_sched_getaffinity, server, sizeof(cpus[1]), cpus[1]) < 0 ||
        memcmp(cpus[0], cpus[1], sizeof(cpus[0])) != 0)
        return false;
    if (syscall(SYS_get_mempolicy, &policy, NULL, 0UL, NULL, 0UL) == 0 && policy != MPOL_IS_DEFAULT)
        return false;
    return getpriority(PRIO_PROCESS, 0) == getpriority(PRIO_PROCESS, (id_t)server);
}

/* The program's own Pythons start as ever: only torchrun's ranks may need the address. */
static bool is_for_others(const char *variable)
{
    static const char name[] = LAUNCH_ENV_WARM "=";

    return strncmp(variable, name, sizeof(name) - 1) != 0 || !getenv("RANK");
}

static void request_make(char *const *argv, struct buf *body, uint32_t head[static 2])
{
    mode_t mask = umask(0);
    char cwd[PATH_MAX];
    uint32_t count = 0;

    (void)umask(mask);
    buf_add(body, str_from(getcwd(cwd, sizeof(cwd)) ? cwd : "/"));
    buf_addc(body, '\0');
    buf_addf(body, "%o", (unsigned)mask);
    buf_addc(body, '\0');
    for (; argv[count]; count++) {
        buf_add(body, str_from(argv[count]));
        buf_addc(body, '\0');
    }
    for (char **variable = environ; *variable; variable++)
        if (is_for_others(*variable)) {
            buf_add(body, str_from(*variable));
            buf_addc(body, '\0');
        }
    head[0] = (uint32_t)body->len;
    head[1] = count;
}

static bool request_send(int fd, char *const *argv)
{
    static const int fds[3] = {0, 1, 2};
    _cleanup_(buf_done) struct buf body = {.bytes_max = REQUEST_MAX};
    uint32_t head[2];
    struct iovec iov = {head, sizeof(head)};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(fds))];
    } control = {0};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    request_make(argv, &body, head);
    *header = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(fds))};
    memcpy(CMSG_DATA(header), fds, sizeof(fds));
    if (body.overflow || sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(head))
        return false;
    for (size_t done = 0; done < body.len;) {
        ssize_t sent = send(fd, body.p + done, body.len - done, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        done += (size_t)sent;
    }
    return true;
}

/* A line "WORD NUMBER" of the server; false: it is another one, or none. */
static bool answer_read(int fd, char word, int64_t *ret)
{
    char line[ANSWER_BYTES];
    size_t len = 0;

    while (len + 1 < sizeof(line) && (len == 0 || line[len - 1] != '\n')) {
        ssize_t got = read(fd, line + len, 1);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        len++;
    }
    line[len ? len - 1 : 0] = '\0';
    return line[0] == word && line[1] == ' ' && str_to_i64(str_from(line + 2), ret);
}

/* ---- in between ---- */

static void end_like(int status) __attribute__((noreturn));
static void end_like(int status)
{
    struct rlimit none = {0, 0};
    sigset_t all;

    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status));
    (void)setrlimit(RLIMIT_CORE, &none); /* it has left one, if it was to */
    (void)signal(WTERMSIG(status), SIG_DFL);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_UNBLOCK, &all, NULL);
    (void)raise(WTERMSIG(status));
    _exit(128 + WTERMSIG(status));
}

/* For muster-launch worker, which looks whether torchrun has ranks: they are that process's. */
static void pid_tell(pid_t pid)
{
    const char *folder = getenv(LAUNCH_ENV_RUN_DIR);
    char path[PATH_MAX];
    int fd;

    if (!folder || getenv("RANK"))
        return;
    fprintf(stderr, "muster-launch: torchrun starts from a process that has torch imported\n");
    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_WARM_FILE, folder);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)dprintf(fd, "%d", pid);
    close(fd);
}

static void stand_between(int fd, pid_t pid, int signal_fd) __attribute__((noreturn));
static void stand_between(int fd, pid_t pid, int signal_fd)
{
    struct pollfd polls[2] = {{.fd = signal_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    struct signalfd_siginfo info;
    int64_t status;

    for (;;) {
        if (poll(polls, 2, -1) < 0 && errno != EINTR)
            break;
        while (read(signal_fd, &info, sizeof(info)) == sizeof(info))
            (void)kill(pid, (int)info.ssi_signo);
        if (!polls[1].revents)
            continue;
        if (answer_read(fd, 'e', &status))
            end_like((int)status);
        break;
    }
    (void)kill(pid, SIGKILL); /* nobody will say how it ends */
    end_like(SIGKILL);
}

void warm_become(char *const *argv)
{
    const char *path = getenv(LAUNCH_ENV_WARM);
    pid_t server;
    int64_t pid;
    sigset_t mask;
    sigset_t before;
    int fd = path ? warm_connect(path, &server) : -1;

    if (fd < 0)
        return;
    (void)sigemptyset(&mask);
    for (size_t i = 0; i < launch_signal_count; i++)
        (void)sigaddset(&mask, launch_signals[i]);
    int signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    (void)sigprocmask(SIG_BLOCK, &mask, &before);
    if (signal_fd >= 0 && limits_are_alike(server) && request_send(fd, argv) &&
        answer_read(fd, 'f', &pid) && pid > 1) {
        pid_tell((pid_t)pid);
        stand_between(fd, (pid_t)pid, signal_fd);
    }
    close(fd);
    if (signal_fd >= 0)
        close(signal_fd);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
}

int warm_main(char *const *argv)
{
    warm_become(argv);
    if (getenv("RANK"))
        (void)unsetenv(LAUNCH_ENV_WARM); /* as if it had never been there */
    (void)execv(argv[0], argv);
    fprintf(stderr, "muster-launch: %s: %s\n", argv[0], strerrordesc_np(errno));
    return EXIT_NOT_FOUND;
}
