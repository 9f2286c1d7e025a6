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
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* shim_child: from a spec to a running process. The child reports trouble through a pipe that
 * closes by itself when it execs, so the shim knows which of the two happened. */
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

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = write(fd, text, strlen(text));
    int r = n < 0 ? -errno : 0;
    close(fd);
    return r;
}

/* Before the child is born: its groups. Limits that the machine refuses are not worth failing a pod
 * for: the agent has told of them in the node's conditions. */
int groups_make(const struct records *spec, char words[static 256])
{
    const char *file = "";
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);) {
        if (record_is(&record, "cgroup.make") && mkdir(record.value, 0755) < 0 && errno != EEXIST)
            return shim_fail(words, "mkdir", record.value);
        if (record_is(&record, "cgroup.file"))
            file = record.value;
        if (record_is(&record, "cgroup.write"))
            (void)write_text(file, record.value);
    }
    return 0;
}

/* Kernel settings of the pod's own namespaces, which this process is in. */
static int set_kernel(const struct records *spec, char words[static 256])
{
    const char *file = "";
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);) {
        if (record_is(&record, "sysctl.file"))
            file = record.value;
        if (!record_is(&record, "sysctl.write"))
            continue;
        int r = write_text(file, record.value);
        errno = -r;
        if (r)
            return shim_fail(words, "write", file);
    }
    return 0;
}

/* In the child, where it was not born into its group. */
static int join_groups(const struct records *spec, char words[static 256])
{
    struct record record;
    for (size_t next = 0; records_next(spec, &next, &record);)
        if (record_is(&record, "cgroup.join") && write_text(record.value, "0") < 0)
            return shim_fail(words, "join", record.value);
    const char *score = records_get(spec, "oomscore");
    if (score)
        (void)write_text("/proc/self/oom_score_adj", score);
    return 0;
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

static int enter_folder(const char *cwd, char words[static 256])
{
    if (!cwd || chdir(cwd) == 0)
        return 0;
    if (errno != ENOENT)
        return shim_fail(words, "working directory", cwd);
    char path[PATH_MAX];
    size_t len = strlen(cwd);
    if (len >= sizeof(path))
        return -ENAMETOOLONG;
    for (size_t i = 1; i <= len; i++)
        if (cwd[i] == '/' || cwd[i] == '\0') {
            memcpy(path, cwd, i);
            path[i] = '\0';
            (void)mkdir(path, 0755);
        }
    return chdir(cwd) < 0 ? shim_fail(words, "working directory", cwd) : 0;
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

static int become(const struct child_request *request, int report_fd, char words[static 256])
{
    const struct records *spec = request->spec;
    char **argv = values(spec, "arg"), **envp = values(spec, "env");
    if (!argv || !envp || !argv[0]) {
        errno = ENOENT;
        return shim_fail(words, "no command", "");
    }
    int r = set_stdio(request);
    if (r) {
        errno = -r;
        return shim_fail(words, "standard streams", "");
    }
    r = join_groups(spec, words);
    if (r == 0)
        r = request->join_fd >= 0 ? join_container(request, words) : mounts_make(request, words);
    if (r == 0 && request->terminal)
        r = set_terminal(report_fd, words);
    if (r == 0)
        r = enter_folder(records_get(spec, "cwd"), words);
    if (r == 0)
        r = await_begun(request, report_fd, words);
    if (r == 0)
        r = privileges_drop(spec, words);
    if (r)
        return r;
    umask(022);
    reset_signals();
    environ = envp;
    execvp(argv[0], argv);
    return shim_fail(words, "exec", argv[0]);
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
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
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

pid_t child_start(const struct child_request *request, int *ret_master, char words[static 256])
{
    int pair[2];
    words[0] = '\0';
    *ret_master = -1;
    int r = groups_make(request->spec, words);
    if (r == 0)
        r = set_kernel(request->spec, words);
    if (r)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return shim_fail(words, "socketpair", "");
    pid_t pid = clone_child(request);
    if (pid < 0) {
        close(pair[0]);
        close(pair[1]);
        errno = -pid;
        return shim_fail(words, "clone", "");
    }
    if (pid == 0) {
        struct report report = {0};
        close(pair[0]); /* or it would not see that the shim is gone */
        report.code = become(request, pair[1], report.text);
        _exit(report_send(pair[1], &report, -1) ? 126 : 127);
    }
    close(pair[1]);
    r = say_begun(request, pair[0], words);
    if (r == 0)
        r = report_await(pair[0], ret_master, words);
    close(pair[0]);
    if (r == 0)
        return pid;
    int status = 0;
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
