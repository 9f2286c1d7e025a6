#include "base/count.h"
#include "shim/openin.h"
#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* shim_child: from a spec to a running process. The child reports trouble through a pipe that
 * closes by itself when it execs, so the shim knows which of the two happened.
 *
 * Until it execs the child is the shim, and one that joins a container is seen by the processes there. So it has
 * nothing of the shim's open when it goes there, and cannot be looked into (the shim is not dumpable, nor are its
 * children). Whatever it does with a path after that it does as the container's user, or inside the container's
 * own file system. */
#define PROGRAMS_MAX \
    64 /* of one name in PATH, that are tried; those that are not there do not count */
#define JOIN_START_MS 10000
int64_t shim_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* All values of one record name as a NULL-ended array on the heap. */
static char **values(const struct records *spec, const char *name)
{
    size_t count = 0, i = 0;
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);)
        count += record_is(&record, name);
    char **list = calloc(count + 1, sizeof(*list));
    for (size_t next = 0; list && records_next(spec, &next, &record);)
        if (record_is(&record, name))
            list[i++] = spec->p + (record.value - spec->p);
    return list;
}

static int set_stdio(const struct child_request *request)
{
    if (setsid() < 0 && errno != EPERM)
        return -errno;
    if (request->terminal)
        return 0; /* comes when the file system is there */
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        if (dup2(request->stdio[i] >= 0 ? request->stdio[i] : null_fd, i) < 0)
            return -errno;
    return 0;
}

/* What the child has open from now on: its streams, the way to report, and whom it joins (-1: nobody). All else is
 * the shim's: the pod's folder, the other containers' streams, the agent. */
static int close_others(int *report_fd, int *join_fd)
{
    int *kept[] = {report_fd, join_fd};
    int next = STDERR_FILENO + 1;
    /* Out of the way first: one may be where the other goes. */
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        if (*kept[i] < 0)
            continue;
        *kept[i] = fcntl(*kept[i], F_DUPFD_CLOEXEC, next + (int)COUNT_OF(kept));
        if (*kept[i] < 0)
            return -errno;
    }
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        if (*kept[i] < 0)
            continue;
        if (dup3(*kept[i], next, O_CLOEXEC) < 0)
            return -errno;
        *kept[i] = next++;
    }
    return close_range((unsigned)next, ~0U, 0) < 0 ? -errno : 0;
}

/* A terminal of the container's own /dev/pts, so that programs find it under its name; its master
 * side goes to the shim. */
static int set_terminal(int report_fd, char words[static 256])
{
    char name[64];
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0 ||
        ptsname_r(master, name, sizeof(name)))
        return shim_fail(words, "open", "/dev/ptmx");
    int slave = open(name, O_RDWR | O_CLOEXEC);
    if (slave < 0)
        return shim_fail(words, "open", name);
    for (int i = 0; i < 3; i++)
        if (dup2(slave, i) < 0)
            return shim_fail(words, "terminal", name);
    if (ioctl(0, TIOCSCTTY, 0) < 0)
        return shim_fail(words, "terminal", name);
    struct report report = {0};
    return report_send(report_fd, &report, master) ? shim_fail(words, "send", name) : 0;
}

/* The shim's own: exec puts the others back by itself, and what the shim's parent ignored was put
 * back when the shim began. */
static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Into the file system of a container that runs; the pid namespace was entered by the shim. */
static int join_container(const struct child_request *request, char words[static 256])
{
    if (!records_has(request->spec, "ns", "mount"))
        return 0;
    return setns(request->join_fd, CLONE_NEWNS) < 0 ? shim_fail(words, "setns", "mount") : 0;
}

/* What of the path is missing in the container's own file system is made with the shim's rights, as other runtimes
 * do; not in a volume, which may be somebody else's folder. */
static void make_own_folder(const char *path)
{
    char piece[PATH_MAX];
    size_t len = strlen(path);
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 1; root >= 0 && i <= len && i < sizeof(piece); i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(piece, path, i);
        piece[i] = '\0';
        char *name = strrchr(piece, '/');
        if (!name || !name[1])
            continue;
        *name++ = '\0';
        int at = open_own(root, *piece ? piece : "/", O_PATH | O_DIRECTORY);
        if (at < 0)
            break;
        (void)mkdirat(at, name, 0755); /* where that fails, entering it says why */
        close(at);
    }
    if (root >= 0)
        close(root);
}

/* With the rights of the container: a folder that its user may not enter is no way to what lies in it. */
static int enter_folder(const char *cwd, char words[static 256])
{
    if (!cwd || chdir(cwd) == 0)
        return 0;
    if (errno != ENOENT)
        return shim_fail(words, "working directory", cwd);
    char path[PATH_MAX];
    size_t len = strlen(cwd);
    if (len >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return shim_fail(words, "working directory", "");
    }
    for (size_t i = 1; i <= len; i++)
        if (cwd[i] == '/' || cwd[i] == '\0') {
            memcpy(path, cwd, i);
            path[i] = '\0';
            (void)mkdir(path, 0755);
        }
    return chdir(cwd) < 0 ? shim_fail(words, "working directory", cwd) : 0;
}

/* ---- the program ---- */

static const char *path_of(char *const envp[])
{
    for (size_t i = 0; envp[i]; i++)
        if (strncmp(envp[i], "PATH=", 5) == 0)
            return envp[i] + 5;
    return "/bin:/usr/bin"; /* as execvp() has it */
}

/* Where a name without a slash is found in PATH: looked up before the rights are dropped, so that nobody can wait
 * for a child that walks a long one. Returns how many there are. */
static size_t programs_find(const char *name, char *const envp[], char *ret[static PROGRAMS_MAX])
{
    char path[PATH_MAX];
    size_t count = 0;
    for (const char *p = path_of(envp), *end; count < PROGRAMS_MAX; p = end + 1) {
        end = p + strcspn(p, ":");
        int n = snprintf(path, sizeof(path), "%.*s/%s", end > p ? (int)(end - p) : 1,
                         end > p ? p : ".", name);
        /* What is relative begins at a folder that is entered later. */
        bool is_there = *p != '/' || access(path, F_OK) == 0;
        if (n > 0 && (size_t)n < sizeof(path) && is_there && (ret[count] = strdup(path)))
            count++;
        if (!*end)
            break;
    }
    return count;
}

/* As execvp() does: one that may not be run does not hide the next of its name. Returns only where none can be. */
static int programs_run(char *const programs[],
                        size_t count,
                        char *const argv[],
                        char words[static 256])
{
    int error = ENOENT;
    for (size_t i = 0; i < count; i++) {
        execvp(programs[i], argv);
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            return shim_fail(words, "exec", argv[0]);
        error = errno == EACCES ? EACCES : error;
    }
    errno = error;
    return shim_fail(words, "exec", argv[0]);
}

/* The shim says that the disk has it; where that fails, or the shim is gone, nothing is run. */
static int await_begun(const struct child_request *request, int report_fd, char words[static 256])
{
    char word;
    ssize_t n = 1;
    if (!request->begun)
        return 0;
    do
        n = recv(report_fd, &word, sizeof(word), 0);
    while (n < 0 && errno == EINTR);
    errno = EIO;
    return n == 1 ? 0 : shim_fail(words, "open", request->begun);
}

/* Into the container's file system, with nothing of the shim's but the way to report. */
static int move_in(struct child_request *request, int *report_fd, char words[static 256])
{
    int r = set_stdio(request);
    if (r == 0)
        r = close_others(report_fd, &request->join_fd);
    if (r) {
        errno = -r;
        return shim_fail(words, "standard streams", "");
    }
    r = groups_join(request->spec, words);
    if (r == 0 && request->join_fd >= 0) {
        r = join_container(request, words);
        close(request->join_fd);
    } else if (r == 0) {
        r = mounts_make(request, words);
    }
    return r;
}

static int become(struct child_request *request, int *report_fd, char words[static 256])
{
    const struct records *spec = request->spec;
    const char *cwd = records_get(spec, "cwd");
    char **argv = values(spec, "arg"), **envp = values(spec, "env"), *programs[PROGRAMS_MAX];
    size_t program_count = 1;
    if (!argv || !envp || !argv[0]) {
        errno = ENOENT;
        return shim_fail(words, "no command", "");
    }
    int r = move_in(request, report_fd, words);
    if (r == 0 && request->terminal)
        r = set_terminal(*report_fd, words);
    if (r)
        return r;
    if (cwd && access(cwd, F_OK) < 0)
        make_own_folder(cwd);
    programs[0] = argv[0];
    if (!strchr(argv[0], '/'))
        program_count = programs_find(argv[0], envp, programs);
    r = await_begun(request, *report_fd, words);
    if (r == 0)
        r = privileges_drop(spec, words);
    umask(022);
    if (r == 0)
        r = enter_folder(cwd, words);
    if (r)
        return r;
    reset_signals();
    environ = envp;
    return programs_run(programs, program_count, argv, words);
}

static uint64_t clone_flags(const struct child_request *request)
{
    if (request->join_fd >= 0)
        return 0;
    return (records_has(request->spec, "ns", "pid") ? CLONE_NEWPID : 0ULL) |
           (records_has(request->spec, "ns", "mount") ? CLONE_NEWNS : 0ULL);
}

static pid_t clone_child(const struct child_request *request)
{
    int own = -1;
    /* Children are born in the pid namespace set here. */
    int into = request->join_fd >= 0 && records_has(request->spec, "ns", "pid") ? request->join_fd
                                                                                : request->pid_fd;
    if (into >= 0) {
        own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        if (own < 0 || setns(into, CLONE_NEWPID) < 0) {
            int r = -errno;
            if (own >= 0)
                close(own);
            return r;
        }
    }
    struct clone_args args = {.flags = clone_flags(request), .exit_signal = SIGCHLD};
    const char *group = records_get(request->spec, "cgroup.into");
    int group_fd = group ? open(group, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (group_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)group_fd;
    }
    /* One without its group would have no limits. */
    pid_t pid = group && group_fd < 0 ? -1 : (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    int r = pid < 0 ? -errno : pid;
    if (group_fd >= 0)
        close(group_fd);
    if (pid != 0 && own >= 0) {
        (void)setns(own, CLONE_NEWPID);
        close(own);
    }
    return r;
}

static int say_begun(const struct child_request *request, int socket_fd, char words[static 256])
{
    int r = request->begun ? exit_begun(request->begun) : 0;
    if (r) {
        errno = -r;
        return shim_fail(words, "open", request->begun);
    }
    /* One that has failed meanwhile says why. */
    if (request->begun)
        (void)send(socket_fd, "g", 1, MSG_NOSIGNAL);
    return 0;
}

/* Who is born among processes of another container can be stopped by them before it has become its program: the shim,
 * which has the rest of the pod to look after, waits only so long. */
static void limit_wait(const struct child_request *request, int socket_fd)
{
    struct timeval limit = {.tv_sec = JOIN_START_MS / 1000};
    if (request->pid_fd >= 0)
        (void)setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

/* In the child. */
static _Noreturn void child_run(const struct child_request *request, int report_fd)
{
    struct child_request own = *request;
    struct report report = {0};
    report.code = become(&own, &report_fd, report.text);
    _exit(report_send(report_fd, &report, -1) ? 126 : 127);
}

pid_t child_begin(const struct child_request *request, int *ret_report, char words[static 256])
{
    int pair[2];
    words[0] = '\0';
    int r = groups_make(request->spec, words);
    if (r == 0)
        r = groups_kernel(request->spec, words);
    if (r)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return shim_fail(words, "socketpair", "");
    pid_t pid = clone_child(request);
    if (pid == 0) {
        close(pair[0]); /* or it would not see that the shim is gone */
        child_run(request, pair[1]);
    }
    close(pair[1]);
    if (pid > 0) {
        *ret_report = pair[0];
        return pid;
    }
    close(pair[0]);
    errno = -pid;
    return shim_fail(words, "clone", "");
}

pid_t child_start(const struct child_request *request, int *ret_master, char words[static 256])
{
    int report_fd = -1, status = 0;
    *ret_master = -1;
    pid_t pid = child_begin(request, &report_fd, words);
    if (pid < 0)
        return pid;
    limit_wait(request, report_fd);
    int r = say_begun(request, report_fd, words);
    if (r == 0)
        r = report_await(report_fd, ret_master, words);
    close(report_fd);
    if (r == 0)
        return pid;
    if (r == -ETIMEDOUT)
        (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    if (r == -ECHILD && !words[0])
        (void)snprintf(words, 256, "killed by signal %d before its program ran%s",
                       WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                       WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                           ? ": its memory limit may be too small for any program"
                           : "");
    if (*ret_master >= 0)
        close(*ret_master);
    *ret_master = -1;
    return r;
}
