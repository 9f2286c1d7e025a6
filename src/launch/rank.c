#include "launch/rank.h"

#include "api/launch.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "launch/record.h"
#include "launch/shell.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ERROR_FILE_MAX ((size_t)64 << 10)

struct stream {
    int from; /* -1: ended */
    int to;
    char line[RANK_LINE_MAX];
    size_t len;
    int64_t since_ms; /* when the unfinished line began */
};

struct rank {
    int64_t rank;
    pid_t pid;
    int signal_fd;
    bool ended;
    int status; /* of waitpid() */
    struct stream streams[2];
    struct tail tail;
    int kept_fd; /* LAUNCH_KEPT_FILE; -1: nothing is kept */
    sigset_t old_mask;
};

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t now_ms(void)
{
    return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

/* One write a line, so that the lines of several ranks do not mix in the pod's log. */
static void put_line(struct rank *rank, struct stream *stream)
{
    char out[RANK_LINE_MAX + 64];
    int n = snprintf(out, sizeof(out), RANK_PREFIX_FORMAT "%.*s\n", (long long)rank->rank,
                     (int)stream->len, stream->line);
    struct str text = {out, (size_t)n};

    tail_add(&rank->tail, (struct str){stream->line, stream->len});
    tail_add(&rank->tail, STR("\n"));
    stream->len = 0;
    /* A little more than is kept, so that the sync pod sees that something is missing. */
    if (rank->kept_fd >= 0 && lseek(rank->kept_fd, 0, SEEK_END) <= (off_t)LAUNCH_KEPT_MAX)
        (void)!write(rank->kept_fd, text.p, text.len);
    while (text.len) {
        ssize_t done = write(stream->to, text.p, text.len);

        if (done < 0 && errno != EINTR)
            return; /* nobody reads: the command still runs on */
        if (done > 0)
            text = str_sub(text, (size_t)done, text.len);
    }
}

static void stream_take(struct rank *rank, struct stream *stream)
{
    char bytes[16384];
    ssize_t got = read(stream->from, bytes, sizeof(bytes));

    if (got < 0 && errno == EINTR)
        return;
    if (got <= 0) {
        close(TAKE_FD(stream->from));
        return;
    }
    if (stream->len == 0)
        stream->since_ms = now_ms();
    for (ssize_t i = 0; i < got; i++) {
        if (bytes[i] == '\n') {
            put_line(rank, stream);
            stream->since_ms = now_ms();
            continue;
        }
        stream->line[stream->len++] = bytes[i] ? bytes[i] : ' ';
        if (stream->len == sizeof(stream->line))
            put_line(rank, stream);
    }
}

static int rank_start(struct rank *rank, const char *command)
{
    int out[2];
    int err[2];

    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0)
        return -errno;
    rank->pid = fork();
    if (rank->pid == 0) {
        (void)sigprocmask(SIG_SETMASK, &rank->old_mask, NULL);
        (void)dup2(out[1], 1);
        (void)dup2(err[1], 2);
        shell_exec(command);
    }
    close(out[1]);
    close(err[1]);
    if (rank->pid < 0)
        return -errno;
    rank->streams[0] = (struct stream){.from = out[0], .to = 1};
    rank->streams[1] = (struct stream){.from = err[0], .to = 2};
    return 0;
}

static void take_signal(struct rank *rank)
{
    struct signalfd_siginfo info;

    if (read(rank->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo != SIGCHLD) {
        (void)kill(rank->pid, (int)info.ssi_signo);
        return;
    }
    if (waitpid(rank->pid, &rank->status, WNOHANG) == rank->pid)
        rank->ended = true;
}

/* A grandchild may keep the pipes open after the command has ended: then only what is there now is
 * read. */
static void rank_run(struct rank *rank)
{
    for (;;) {
        struct pollfd polls[3] = {{.fd = rank->signal_fd, .events = POLLIN},
                                  {.fd = rank->streams[0].from, .events = POLLIN},
                                  {.fd = rank->streams[1].from, .events = POLLIN}};
        bool held = rank->streams[0].len || rank->streams[1].len;
        bool open = rank->streams[0].from >= 0 || rank->streams[1].from >= 0;
        int ready;

        if (rank->ended && !open)
            return;
        ready = poll(polls, 3, rank->ended ? 0 : held ? RANK_HOLD_MS : -1);
        if (rank->ended && ready == 0)
            return;
        if (polls[0].revents)
            take_signal(rank);
        for (size_t i = 0; i < 2; i++) {
            struct stream *stream = &rank->streams[i];

            if (polls[i + 1].revents)
                stream_take(rank, stream);
            else if (stream->len && now_ms() - stream->since_ms >= RANK_HOLD_MS)
                put_line(rank, stream);
        }
    }
}

/* A training script decorated with torchelastic's `record` leaves its exception in a JSON file: its
 * message belongs in front of the last lines. */
static void add_error_file(struct buf *text)
{
    const char *path = getenv("TORCHELASTIC_ERROR_FILE");
    static const char key[] = "\"message\": \"";
    char content[ERROR_FILE_MAX];
    const char *found;
    ssize_t got;
    int fd;

    if (!path || (fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return;
    got = read(fd, content, sizeof(content) - 1);
    close(fd);
    content[got > 0 ? got : 0] = '\0';
    found = strstr(content, key);
    if (!found)
        return;
    for (found += sizeof(key) - 1; *found && *found != '"'; found++) {
        if (*found == '\\' && found[1])
            buf_addc(text, *++found == 'n' ? '\n' : *found);
        else
            buf_addc(text, *found);
    }
    buf_addc(text, '\n');
}

static void record_end(const struct rank *rank)
{
    const char *folder = getenv(LAUNCH_ENV_RUN_DIR);
    _cleanup_(buf_done) struct buf text = {.bytes_max = RECORD_TEXT_MAX};
    struct record record = {.when_ns = clock_ns(CLOCK_REALTIME), .rank = rank->rank};

    record.signal = WIFSIGNALED(rank->status) ? WTERMSIG(rank->status) : 0;
    record.code = WIFEXITED(rank->status) ? WEXITSTATUS(rank->status) : 0;
    if (!folder || (record.signal == 0 && record.code == 0))
        return;
    add_error_file(&text);
    struct str lines = tail_lines(&rank->tail);
    size_t room = RECORD_TEXT_MAX - 1 - text.len;
    if (lines.len > room)
        lines = str_sub(lines, lines.len - room, room);
    buf_add(&text, lines);
    record.text = buf_str(&text);
    (void)record_write(folder, &record, NULL);
}

static int open_kept(void)
{
    const char *folder = getenv(LAUNCH_ENV_RUN_DIR);
    char path[PATH_MAX];

    if (!folder)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/" LAUNCH_KEPT_FILE, folder);
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

int rank_main(void)
{
    const char *command = getenv(LAUNCH_ENV_COMMAND);
    const char *number = getenv("RANK");
    struct rank rank = {0};
    sigset_t mask;
    int r;

    if (!command) {
        fprintf(stderr, "muster-launch rank: %s is not set\n", LAUNCH_ENV_COMMAND);
        return 2;
    }
    if (number)
        (void)str_to_i64(str_from(number), &rank.rank);
    rank.kept_fd = open_kept();
    (void)sigemptyset(&mask);
    for (size_t i = 0; i < launch_signal_count; i++)
        (void)sigaddset(&mask, launch_signals[i]);
    (void)sigaddset(&mask, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &mask, &rank.old_mask);
    rank.signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    r = rank.signal_fd < 0 ? -errno : rank_start(&rank, command);
    if (r < 0) {
        fprintf(stderr, "muster-launch rank: %s\n", strerrordesc_np(-r));
        return 126;
    }
    rank_run(&rank);
    for (size_t i = 0; i < 2; i++)
        if (rank.streams[i].len)
            put_line(&rank, &rank.streams[i]);
    record_end(&rank);
    if (WIFSIGNALED(rank.status)) {
        (void)signal(WTERMSIG(rank.status), SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &rank.old_mask, NULL);
        (void)raise(WTERMSIG(rank.status));
        return 128 + WTERMSIG(rank.status);
    }
    return WEXITSTATUS(rank.status);
}
