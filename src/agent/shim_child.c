#include "agent/shim_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* shim_child: from a spec to a running process. The child reports trouble through a pipe that
 * closes by itself when it execs, so the shim knows which of the two happened. */
int shim_fail(char words[static 256], const char *step, const char *what)
{
    int r = errno ? -errno : -EIO;
    (void)snprintf(words, 256, "%s %s: %s", step, what ? what : "", strerrordesc_np(-r));
    return r;
}

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
    for (size_t offset = 0; records_next(spec, &offset, &record);)
        count += record_is(&record, name);
    char **list = calloc(count + 1, sizeof(*list));
    for (size_t offset = 0; list && records_next(spec, &offset, &record);)
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

/* Limits that the machine refuses are not worth failing a pod for: the agent has told of them in
 * the node's conditions. Joining is. */
static int join_cgroups(const struct records *spec, char words[static 256])
{
    const char *file = "";
    struct record record;
    for (size_t offset = 0; records_next(spec, &offset, &record);) {
        if (record_is(&record, "cgroup.make") && mkdir(record.value, 0755) < 0 && errno != EEXIST)
            return shim_fail(words, "mkdir", record.value);
        if (record_is(&record, "cgroup.file"))
            file = record.value;
        if (record_is(&record, "cgroup.write"))
            (void)write_text(file, record.value);
        if (record_is(&record, "cgroup.join") && write_text(record.value, "0") < 0)
            return shim_fail(words, "join", record.value);
    }
    const char *score = records_get(spec, "oomscore");
    if (score)
        (void)write_text("/proc/self/oom_score_adj", score);
    return 0;
}

static int set_stdio(const struct child_request *request)
{
    if (setsid() < 0 && errno != EPERM)
        return -errno;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        int from = request->terminal ? request->stdio[0] : request->stdio[i];
        if (dup2(from >= 0 ? from : null_fd, i) < 0)
            return -errno;
    }
    if (request->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        return -errno;
    return 0;
}

static void reset_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int i = 1; i < 32; i++)
        (void)signal(i, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Into the file system of a container that runs; the pid namespace was entered by the shim. */
static int join_container(int join_fd, char words[static 256])
{
    return setns(join_fd, CLONE_NEWNS) < 0 ? shim_fail(words, "setns", "mount") : 0;
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

static int become(const struct child_request *request, char words[static 256])
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
    r = join_cgroups(spec, words);
    if (r == 0)
        r = request->join_fd >= 0 ? join_container(request->join_fd, words)
                                  : mounts_make(request, words);
    const char *cwd = records_get(spec, "cwd");
    if (r == 0)
        r = enter_folder(cwd, words);
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
    if (request->join_fd >= 0) { /* children are born in the pid namespace set here */
        own = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
        if (own < 0 || setns(request->join_fd, CLONE_NEWPID) < 0) {
            int r = -errno;
            if (own >= 0)
                close(own);
            return r;
        }
    }
    struct clone_args args = {.flags = clone_flags(request), .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    int r = pid < 0 ? -errno : pid;
    if (pid != 0 && own >= 0) {
        (void)setns(own, CLONE_NEWPID);
        close(own);
    }
    return r;
}

pid_t child_start(const struct child_request *request, char words[static 256])
{
    int trouble[2];
    words[0] = '\0';
    if (pipe2(trouble, O_CLOEXEC) < 0)
        return shim_fail(words, "pipe", "");
    pid_t pid = clone_child(request);
    if (pid < 0) {
        close(trouble[0]);
        close(trouble[1]);
        errno = -pid;
        return shim_fail(words, "clone", "");
    }
    if (pid == 0) {
        char text[256] = "";
        int r = become(request, text);
        struct {
            int code;
            char text[256];
        } report = {.code = r};
        memcpy(report.text, text, sizeof(text));
        ssize_t n = write(trouble[1], &report, sizeof(report));
        _exit(n == (ssize_t)sizeof(report) ? 127 : 126);
    }
    close(trouble[1]);
    struct {
        int code;
        char text[256];
    } report;
    ssize_t n;
    do
        n = read(trouble[0], &report, sizeof(report));
    while (n < 0 && errno == EINTR);
    close(trouble[0]);
    if (n == 0)
        return pid;
    int status;
    (void)waitpid(pid, &status, 0);
    if (n != (ssize_t)sizeof(report)) {
        errno = EIO;
        return shim_fail(words, "start", "");
    }
    memcpy(words, report.text, 256);
    return report.code < 0 ? report.code : -EIO;
}
