#include "shim/message.h"
#include "shim/parts.h"
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* muster-shim POD_FOLDER: keeps one pod's containers; shim/shim.h says how it is spoken to.
 *
 * One thread, one poll(). Everything that must survive is in files before it is told: a spec is
 * read from its file, a beginning is a .begun file, an end is an .exit file. */
#define GROUPS_MAX    32 /* of a container: one or two for each kind of limit */
#define POLLS_MAX     (3 + 2 * SHIM_CONTAINERS_MAX + EXECS_MAX)
#define DRAIN_TURNS   1024 /* of SHIM_LINE_BYTES: 16 MiB, more than a pipe can be made to hold */
#define END_BYTES     512  /* of an exit file: five numbers and 256 bytes of words */
#define OOM_MOMENT_MS 1000 /* between the ends of two that the kernel killed at once */
#define SETTLE_MIN_MS 50   /* before an exit file that could not be written is tried again; */
#define SETTLE_MAX_MS 2000 /* doubles up to this: soon after there is room it is there */

struct container {
    char name[SHIM_NAME_BYTES];
    unsigned instance;
    pid_t pid;  /* 0: not running */
    bool ended; /* reaped; its exit file waits for the end of its output */
    int status;
    int64_t started_ms;
    int64_t ended_ms;
    char end[END_BYTES]; /* what its exit file is to have; empty: it has not ended */
    int64_t settle_ms;   /* when it is tried again, and how long that was put off */
    int64_t settle_delay_ms;
    bool runtime; /* pid is an OCI runtime's, whose child the container is */
    int input_fd; /* write end of stdin, or the terminal; -1: none */
    bool input_once;
    char oom_path[PATH_MAX / 4];
    long oom_before;
    int64_t oom_beside_ms; /* when another instance in its group was killed for memory; 0: never */
    struct logfile log;
    struct log_stream streams[2];
};

struct shim {
    int folder_fd;
    int listen_fd;
    int agent_fd; /* -1: nobody */
    int signal_fd;
    bool stopping;
    bool forget; /* nobody will read the exit files */
    size_t container_count;
    struct container containers[SHIM_CONTAINERS_MAX];
    struct exec_session execs[EXECS_MAX];
};

static struct shim shim; /* a program, not a library: its state is the process's */

/* What ps shows of this process: the memory of its arguments. */
static struct {
    char *p;
    size_t bytes;
} title;

/* Whose shim it is, as far as there is room. */
static void set_title(const struct records *pod)
{
    const char *ns = records_get(pod, "agent.ns"), *name = records_get(pod, "agent.name");
    if (!title.bytes || !ns || !name)
        return;
    memset(title.p, 0, title.bytes);
    (void)snprintf(title.p, title.bytes, "muster-shim %s/%s", ns, name);
}

/* ---- telling the agent ---- */

/* An agent that does not read is let go: it asks for the state when it comes back. */
void shim_tell(int fd, const char *fmt, ...)
{
    char text[SHIM_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (shim.agent_fd < 0 || len < 0)
        return;
    struct iovec iov = {text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1};
    if (packet_send(shim.agent_fd, &iov, fd, MSG_DONTWAIT) < 0) {
        close(shim.agent_fd);
        shim.agent_fd = -1;
    }
}

#define TELL(...) shim_tell(-1, __VA_ARGS__)

/* ---- files ---- */

static long oom_kills(const char *path)
{
    char text[512];
    int fd = *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *found = strstr(text, "oom_kill ");
    uint64_t count = 0;
    if (found)
        (void)shim_number(found + 9, 10, &count);
    return (long)count;
}

/* ---- containers ---- */

static struct container *container_find(const char *name, unsigned instance)
{
    for (size_t i = 0; i < shim.container_count; i++)
        if (shim.containers[i].instance == instance && strcmp(shim.containers[i].name, name) == 0)
            return &shim.containers[i];
    return NULL;
}

/* Its next instance may be there already, and waits. */
static struct container *container_running(const char *name)
{
    struct container *found = NULL;
    for (size_t i = 0; i < shim.container_count; i++) {
        struct container *c = &shim.containers[i];
        if (c->pid && strcmp(c->name, name) == 0 && (!found || c->instance < found->instance))
            found = c;
    }
    return found;
}

/* The container's first process. */
static pid_t container_first(const struct container *c)
{
    char path[64], text[32];
    uint64_t child = 0;
    if (!c->runtime)
        return c->pid;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", c->pid, c->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    (void)shim_number(text, 10, &child);
    return child ? (pid_t)child : c->pid;
}

/* The same as a pidfd, for signals and namespaces; -1: it is gone. A runtime reaps its child whenever it likes, and the
 * number is somebody else's then, of the whole machine: it still has to be the runtime's child once it is held. It
 * changes twice at most, from the runtime to its child and back. */
static int container_target(const struct container *c)
{
    for (int tries = 0; c && tries < 3; tries++) {
        pid_t first = container_first(c);
        int fd = (int)syscall(SYS_pidfd_open, first, 0);
        if (fd >= 0 && container_first(c) == first)
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

static void container_signal(const struct container *c, int sig)
{
    int fd = container_target(c);
    if (fd < 0)
        return;
    (void)syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
    close(fd);
}

static void container_path(const struct container *c,
                           const char *ending,
                           char out[static SHIM_PATH_BYTES])
{
    (void)snprintf(out, SHIM_PATH_BYTES, "c/%s/%u.%s", c->name, c->instance, ending);
}

static int64_t uptime_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void container_forget(struct container *c)
{
    *c = shim.containers[--shim.container_count];
}

/* Put how it ended into its file. True: done, and the container is forgotten. What cannot be
 * written, on a full disk for instance, is told at once, kept, and tried again. */
static bool container_settle(struct container *c)
{
    char path[SHIM_PATH_BYTES];
    container_path(c, "exit", path);
    int r = exit_write(path, c->end);
    if (r == 0)
        TELL("exited %s %u", c->name, c->instance);
    /* A folder that is gone has nobody to read it. */
    if (r == 0 || r == -ENOENT || shim.forget) {
        container_forget(c);
        return true;
    }
    if (!c->settle_delay_ms)
        TELL("ended %s %u %s", c->name, c->instance, c->end);
    c->settle_delay_ms = c->settle_delay_ms ? 2 * c->settle_delay_ms : SETTLE_MIN_MS;
    if (c->settle_delay_ms > SETTLE_MAX_MS)
        c->settle_delay_ms = SETTLE_MAX_MS;
    c->settle_ms = uptime_ms() + c->settle_delay_ms;
    return false;
}

/* Those whose time has come. */
static void settle_again(void)
{
    int64_t now_ms = uptime_ms();
    for (size_t i = 0; i < shim.container_count;) {
        struct container *c = &shim.containers[i];
        bool due = c->end[0] && c->settle_ms <= now_ms;
        i += !(due && container_settle(c)); /* the last one has taken its place */
    }
}

/* Milliseconds until one of them is due, as poll() wants it; -1: there is none. */
static int settle_wait(void)
{
    int64_t wait_ms = -1, now_ms = uptime_ms();
    for (size_t i = 0; i < shim.container_count; i++) {
        const struct container *c = &shim.containers[i];
        int64_t left = c->settle_ms > now_ms ? c->settle_ms - now_ms : 0;
        if (c->end[0] && (wait_ms < 0 || left < wait_ms))
            wait_ms = left;
    }
    return (int)wait_ms;
}

static void container_end(struct container *c, const char *flags, const char *words)
{
    int code = WIFSIGNALED(c->status) ? 128 + WTERMSIG(c->status) : WEXITSTATUS(c->status);
    int sig = WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
    c->pid = 0;
    (void)snprintf(c->end, sizeof(c->end), "%d %d %lld %lld %s\n%.255s", code, sig,
                   (long long)c->started_ms, (long long)c->ended_ms, flags, words);
    (void)container_settle(c);
}

/* The container's groups, each before the pod's, which stay while another container is in them. */
static void remove_groups(const char *path)
{
    const char *made[GROUPS_MAX];
    size_t count = 0;
    struct records spec = {0};
    struct record record;
    if (records_open(&spec, shim.folder_fd, path) < 0)
        return;
    for (size_t next = 0; count < GROUPS_MAX && records_next(&spec, &next, &record);)
        if (record_is(&record, "cgroup.make"))
            made[count++] = record.value;
    while (count > 0)
        (void)rmdir(made[--count]);
    records_close(&spec);
}

/* What the runtime said before it gave up; false: nothing. */
static bool runtime_words(const struct container *c, char words[static 256])
{
    char path[SHIM_NAME_BYTES + 32];
    (void)snprintf(path, sizeof(path), "c/%s/%u.runtime", c->name, c->instance);
    int fd = c->runtime && c->status ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd >= 0 ? read(fd, words, 255) : 0;
    if (fd >= 0)
        close(fd);
    words[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* Did the kernel kill it for memory? The kernel counts kills for a group, and a container and its next instance, which
 * waits, share one. The one whose end is seen first is charged with them. The other one was killed too when it ended
 * by SIGKILL in the same moment: with memory.oom.group the whole group goes at once. Else its end has another reason. */
static bool container_oom(struct container *c)
{
    long kills = oom_kills(c->oom_path);
    bool killed = WIFSIGNALED(c->status) && WTERMSIG(c->status) == SIGKILL;
    bool together = killed && c->oom_beside_ms && c->ended_ms - c->oom_beside_ms <= OOM_MOMENT_MS;
    if (kills <= c->oom_before)
        return together;
    for (size_t i = 0; i < shim.container_count; i++) {
        struct container *other = &shim.containers[i];
        if (other == c || strcmp(other->oom_path, c->oom_path) != 0)
            continue;
        other->oom_before = kills;
        other->oom_beside_ms = killed ? c->ended_ms : 0;
    }
    return true;
}

/* A container is over when its process is and its output has been read to the end. A process that it left behind may
 * hold the pipe, where it shares processes with another container, and write on: so much is read as a pipe holds. */
static void container_finish(struct container *c)
{
    for (int i = 0; i < 2; i++)
        for (int turns = 0; c->streams[i].fd >= 0; turns++) {
            struct pollfd ready = {.fd = c->streams[i].fd, .events = POLLIN};
            if (turns == DRAIN_TURNS || poll(&ready, 1, 0) <= 0) {
                logfile_flush(&c->log, &c->streams[i]);
                close(c->streams[i].fd);
                c->streams[i].fd = -1;
            } else {
                (void)logfile_take(&c->log, &c->streams[i]);
            }
        }
    logfile_close(&c->log);
    if (c->input_fd >= 0)
        close(c->input_fd);
    c->input_fd = -1;
    bool oom = container_oom(c);
    char words[256] = "", path[SHIM_PATH_BYTES];
    bool never_started = runtime_words(c, words);
    container_path(c, "spec", path);
    remove_groups(path);
    if (never_started)
        c->status = 128 << 8;
    container_end(c, never_started ? "s" : oom ? "o" : "-", words);
}

struct pipes {
    int child[3];
    int ours[3];
    bool terminal;
};

static int pipes_open(struct pipes *pipes, const struct records *spec)
{
    *pipes = (struct pipes){{-1, -1, -1}, {-1, -1, -1}, false};
    pipes->terminal = records_number(spec, "tty", 0) != 0;
    if (pipes->terminal)
        return 0;
    for (int i = 0; i < 3; i++) {
        int pair[2];
        if (i == 0 && !records_number(spec, "stdin", 0))
            continue;
        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        pipes->child[i] = pair[i == 0 ? 0 : 1];
        pipes->ours[i] = pair[i == 0 ? 1 : 0];
        if (i > 0)
            (void)fcntl(pipes->ours[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static void pipes_close(int fds[3])
{
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Whose processes it sees beside its own: *ret is a pidfd, -1 where they are its own alone. */
static int container_open_pids(const struct records *spec, int *ret, char words[static 256])
{
    const char *name = records_get(spec, "pid.of");
    const struct container *other = name ? container_running(name) : NULL;
    *ret = container_target(other);
    if (!name || *ret >= 0)
        return 0;
    (void)snprintf(words, 256, "the target container %.100s does not run", name);
    return -ESRCH;
}

static pid_t container_spawn(struct container *c,
                             const struct records *spec,
                             char words[static 256])
{
    char path[SHIM_NAME_BYTES + 32];
    struct pipes pipes;
    (void)snprintf(path, sizeof(path), "c/%s/%u.log", c->name, c->instance);
    if (pipes_open(&pipes, spec) < 0 ||
        logfile_open(&c->log, path, records_number(spec, "log.bytes", SHIM_LOG_BYTES)) < 0) {
        int r = shim_fail(words, "open", path);
        pipes_close(pipes.child);
        pipes_close(pipes.ours);
        return r;
    }
    const char *oom = records_get(spec, "cgroup.oom");
    (void)snprintf(c->oom_path, sizeof(c->oom_path), "%s", oom ? oom : "");
    c->oom_before = oom_kills(c->oom_path);
    c->runtime = records_number(spec, "runtime", 0) != 0;
    char folder[SHIM_NAME_BYTES + 8], begun[SHIM_PATH_BYTES];
    (void)snprintf(folder, sizeof(folder), "c/%s", c->name);
    container_path(c, "begun", begun);
    struct child_request request = {.spec = spec,
                                    .begun = begun,
                                    .folder = folder,
                                    .instance = c->instance,
                                    .join_fd = -1,
                                    .pid_fd = -1,
                                    .terminal = pipes.terminal};
    memcpy(request.stdio, pipes.child, sizeof(request.stdio));
    int master = -1;
    pid_t pid = container_open_pids(spec, &request.pid_fd, words);
    if (pid == 0)
        pid = child_start(&request, &master, words);
    if (request.pid_fd >= 0)
        close(request.pid_fd);
    pipes_close(pipes.child);
    if (pipes.terminal && pid > 0) {
        pipes.ours[1] = master;
        if (records_number(spec, "stdin", 0))
            pipes.ours[0] = fcntl(master, F_DUPFD_CLOEXEC, 0);
    }
    if (pid < 0) {
        pipes_close(pipes.ours);
        logfile_close(&c->log);
        return pid;
    }
    c->input_fd = pipes.ours[0];
    c->input_once = records_number(spec, "stdin", 0) == 2 && !pipes.terminal;
    c->streams[0] = (struct log_stream){.fd = pipes.ours[1], .name = "stdout"};
    c->streams[1] = (struct log_stream){.fd = pipes.ours[2], .name = "stderr"};
    return pid;
}

/* It did not start, or not now: exit code 128, as runtimes say, or what is given. */
static void container_refuse(struct container *c, int code, const char *flags, const char *words)
{
    c->ended_ms = shim_now_ms();
    c->status = code << 8;
    container_end(c, flags, words);
}

static void container_start(const char *name, unsigned instance)
{
    char path[SHIM_PATH_BYTES], words[256];
    if (container_find(name, instance))
        return;
    if (shim.container_count == SHIM_CONTAINERS_MAX) {
        long long now_ms = shim_now_ms();
        TELL("ended %s %u 128 0 %lld %lld s\ntoo many containers", name, instance, now_ms, now_ms);
        return;
    }
    struct container *c = &shim.containers[shim.container_count++];
    *c = (struct container){.instance = instance, .input_fd = -1, .started_ms = shim_now_ms()};
    c->streams[0].fd = c->streams[1].fd = c->log.fd = c->log.tee_fd = -1;
    (void)snprintf(c->name, sizeof(c->name), "%s", name);
    container_path(c, "exit", path);
    if (access(path, F_OK) == 0) { /* it has ended, whoever asks */
        TELL("exited %s %u", name, instance);
        container_forget(c);
        return;
    }
    struct records spec = {0};
    container_path(c, "spec", path);
    int r = records_open(&spec, shim.folder_fd, path);
    if (r == 0) {
        container_path(c, "begun", path);
        r = exit_begin(path);
    }
    if (r) {
        errno = -r;
        (void)shim_fail(words, "open", path);
    }
    pid_t pid = r ? r : container_spawn(c, &spec, words);
    records_close(&spec);
    c->started_ms = shim_now_ms();
    if (r == -EEXIST) {
        container_refuse(c, 137, "l",
                         "the container was started before and nobody saw how it ended: its shim "
                         "or the machine was restarted");
        return;
    }
    if (pid < 0) {
        container_refuse(c, 128, "s", words);
        return;
    }
    c->pid = pid;
    TELL("started %s %u %d %lld", name, instance, pid, (long long)c->started_ms);
}

/* ---- exec ---- */

static void exec_start(const struct shim_order *order, const int *fds, int count)
{
    const struct container *c = container_running(order->name);
    struct records spec = {0};
    bool readable = records_open(&spec, shim.folder_fd, order->file) == 0;
    struct exec_order exec = {.id = order->id,
                              .join_fd = readable ? container_target(c) : -1,
                              .fds = fds,
                              .fd_count = count};
    execs_start(shim.execs, &exec, &spec);
    if (exec.join_fd >= 0)
        close(exec.join_fd);
    records_close(&spec);
    (void)unlinkat(shim.folder_fd, order->file, 0);
}

/* ---- messages ---- */

static void tell_state(void)
{
    for (size_t i = 0; i < shim.container_count; i++) {
        const struct container *c = &shim.containers[i];
        if (c->end[0])
            TELL("ended %s %u %s", c->name, c->instance, c->end);
        else
            TELL("running %s %u %d %lld", c->name, c->instance, c->pid, (long long)c->started_ms);
    }
    TELL("synced");
}

static void attach(const char *name)
{
    struct container *c = container_running(name);
    shim_tell(c ? c->input_fd : -1, "attached %s", name);
    /* Ours was the last one that would have kept it open. */
    if (c && c->input_once && c->input_fd >= 0) {
        close(c->input_fd);
        c->input_fd = -1;
    }
}

static void copy_output(const char *name, int fd)
{
    struct container *c = container_running(name);
    if (!c || fd < 0)
        return;
    if (c->log.tee_fd >= 0)
        close(c->log.tee_fd);
    c->log.tee_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    (void)fcntl(c->log.tee_fd, F_SETFL, O_NONBLOCK);
}

static void stop(bool forget)
{
    shim.stopping = true;
    shim.forget = forget;
    for (size_t i = 0; i < shim.container_count; i++) {
        struct container *c = &shim.containers[i];
        if (c->pid)
            container_signal(c, SIGKILL);
        else if (forget)
            c->settle_ms = 0; /* a last time */
    }
}

static void handle(const char *text, const int *fds, int fd_count)
{
    struct shim_order order;
    struct container *c;
    if (!shim_order_parse(text, &order))
        return; /* of a newer agent */
    switch (order.verb) {
    case SHIM_START: container_start(order.name, order.instance); break;
    case SHIM_SIGNAL:
        c = container_find(order.name, order.instance);
        if (c && c->pid && !c->ended)
            container_signal(c, order.signal);
        break;
    case SHIM_EXEC: exec_start(&order, fds, fd_count); break;
    case SHIM_EXECSIGNAL: execs_signal(shim.execs, order.id, order.signal); break;
    case SHIM_ATTACH: attach(order.name); break;
    case SHIM_TEE: copy_output(order.name, fd_count > 0 ? fds[0] : -1); break;
    case SHIM_STATE: tell_state(); break;
    case SHIM_STOP: stop(order.forget); break;
    }
}

static void take_message(void)
{
    char text[SHIM_MESSAGE_BYTES];
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(SHIM_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {text, sizeof(text) - 1};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(shim.agent_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(shim.agent_fd);
        shim.agent_fd = -1;
        return;
    }
    text[n] = '\0';
    int fds[SHIM_FDS_MAX], count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(fds, CMSG_DATA(c), (size_t)count * sizeof(int));
        }
    handle(text, fds, count);
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void take_agent(void)
{
    int fd = accept4(shim.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (shim.agent_fd >= 0)
        close(shim.agent_fd);
    shim.agent_fd = fd;
    TELL("hello %d", SHIM_PROTOCOL);
}

/* ---- reaping ---- */

static void reaped(pid_t pid, int status)
{
    if (execs_reaped(shim.execs, pid, status))
        return;
    for (size_t i = 0; i < shim.container_count; i++)
        if (shim.containers[i].pid == pid) {
            shim.containers[i].status = status;
            shim.containers[i].ended = true;
            shim.containers[i].ended_ms = shim_now_ms();
            container_finish(&shim.containers[i]);
            return;
        }
}

static void reap(void)
{
    struct signalfd_siginfo info;
    while (read(shim.signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        ;
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        reaped(pid, status);
}

/* ---- start ---- */

static int listen_at(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    (void)unlink(path);
    mode_t before = umask(077);
    int r = bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 4) < 0 ? -errno : 0;
    (void)umask(before);
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

static int shim_init(const char *folder)
{
    if (chdir(folder) < 0)
        return -errno;
    shim.agent_fd = fcntl(SHIM_FD, F_GETFD) >= 0 ? SHIM_FD : -1; /* before it is taken */
    shim.folder_fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (shim.agent_fd >= 0)
        (void)fcntl(shim.agent_fd, F_SETFD, FD_CLOEXEC);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    shim.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    struct records pod = {0};
    int r = records_open(&pod, shim.folder_fd, SHIM_POD_FILE);
    if (r == 0)
        r = sandbox_make(&pod);
    /* Neither this process nor a child that has not become its program yet is looked into by others. Not before: who is
     * not root could not write its own maps of users. */
    if (r == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        r = -errno;
    if (r == 0)
        set_title(&pod);
    if (r == 0) {
        shim.listen_fd = listen_at(SHIM_SOCKET_FILE);
        r = shim.listen_fd < 0 ? shim.listen_fd : 0;
    }
    if (r == 0) {
        char words[256]; /* who starts the container says what is wrong */
        TELL("hello %d", SHIM_PROTOCOL);
        (void)groups_make(&pod, words);
    }
    records_close(&pod);
    return r;
}

static void turn(void)
{
    struct pollfd polls[POLLS_MAX];
    struct log_stream *streams[POLLS_MAX] = {0};
    struct logfile *logs[POLLS_MAX] = {0};
    nfds_t count = 0;
    polls[count++] = (struct pollfd){.fd = shim.signal_fd, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = shim.listen_fd, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = shim.agent_fd, .events = POLLIN};
    for (size_t i = 0; i < shim.container_count; i++)
        for (int k = 0; k < 2; k++) {
            struct container *c = &shim.containers[i];
            if (c->streams[k].fd < 0)
                continue;
            logs[count] = &c->log;
            streams[count] = &c->streams[k];
            polls[count++] = (struct pollfd){.fd = c->streams[k].fd, .events = POLLIN};
        }
    nfds_t logs_end = count;
    count += execs_poll(shim.execs, polls + count);
    if (poll(polls, count, settle_wait()) < 0)
        return;
    for (nfds_t i = 3; i < logs_end; i++)
        if (polls[i].revents)
            (void)logfile_take(logs[i], streams[i]);
    execs_hear(shim.execs);
    if (polls[2].revents)
        take_message();
    if (polls[1].revents)
        take_agent();
    if (polls[0].revents)
        reap();
    settle_again();
}

static int run(const char *folder)
{
    shim.agent_fd = -1;
    int r = shim_init(folder);
    if (r < 0) {
        (void)fprintf(stderr, "muster-shim: %s: %s\n", folder, strerrordesc_np(-r));
        return 1;
    }
    while (!shim.stopping || shim.container_count)
        turn();
    remove_groups(SHIM_POD_FILE); /* of one that never started its first container */
    (void)unlink(SHIM_SOCKET_FILE);
    return 0;
}

int main(int argc, char *argv[])
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("muster-shim %s, protocol %d\n", MUSTER_VERSION, SHIM_PROTOCOL);
        return 0;
    }
    title.p = argv[0];
    title.bytes = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL); /* containers ignore nothing that muster's parent ignored */
    if (argc >= 2 && strcmp(argv[1], SHIM_SPAWNER) == 0)
        return spawner_run(argc > 2 ? argv[2] : NULL, argv + (argc > 2 ? 3 : 2), run);
    if (argc != 2) {
        (void)fprintf(stderr,
                      "muster-shim: usage: muster-shim POD_FOLDER (started by the node agent)\n");
        return 2;
    }
    return run(argv[1]);
}
