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
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ERROR_FILE_MAX  ((size_t)64 << 10)
#define RANK_READ_BYTES 16384

struct stream {
    int from; /* -1: ended */
    int to;
    char line[RANK_LINE_MAX];
    size_t len;
    int64_t since_ms; /* when the unfinished line began */
    /* Progress bars end their line with a return and write the next one over it: */
    bool returned;     /* the last byte was one */
    bool over;         /* this line is written over another one */
    bool drawn;        /* its bytes so far were handed on */
    int64_t update_ms; /* when one was last handed on */
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
static struct str write_line(const struct rank *rank,
                             const struct stream *stream,
                             const char *end,
                             char out[static RANK_LINE_MAX + 64])
{
    int n = snprintf(out, RANK_LINE_MAX + 64, RANK_PREFIX_FORMAT "%.*s%s", (long long)rank->rank,
                     (int)stream->len, stream->line, end);
    struct str whole = {out, (size_t)n};
    struct str text = whole;

    while (text.len) {
        ssize_t done = write(stream->to, text.p, text.len);

        if (done < 0 && errno != EINTR)
            break; /* nobody reads: the command still runs on */
        if (done > 0)
            text = str_sub(text, (size_t)done, text.len);
    }
    return whole;
}

static void stream_begin(struct stream *stream, bool over)
{
    stream->len = 0;
    stream->over = over;
    stream->drawn = false;
    stream->since_ms = now_ms();
}

static void put_line(struct rank *rank, struct stream *stream)
{
    char out[RANK_LINE_MAX + 64];
    struct str text = write_line(rank, stream, "\n", out);

    tail_add(&rank->tail, (struct str){stream->line, stream->len});
    tail_add(&rank->tail, STR("\n"));
    /* A little more than is kept, so that the sync pod sees that something is missing. */
    if (rank->kept_fd >= 0 && lseek(rank->kept_fd, 0, SEEK_END) <= (off_t)LAUNCH_KEPT_MAX)
        (void)!write(rank->kept_fd, text.p, text.len);
    stream_begin(stream, false);
}

/* A line that another will be written over: it ends with a return, by which `logs` knows it, and there is
 * one in a while. It is no last word of a program. */
static void put_update(struct rank *rank, struct stream *stream)
{
    char out[RANK_LINE_MAX + 64];

    if (!stream->len || stream->drawn ||
        (stream->update_ms && now_ms() - stream->update_ms < RANK_UPDATE_MS))
        return;
    (void)write_line(rank, stream, "\r\n", out);
    stream->drawn = true;
    stream->update_ms = now_ms();
}

static void stream_put(struct rank *rank, struct stream *stream, char byte)
{
    if (byte == '\n') {
        stream->returned = false;
        put_line(rank, stream);
        return;
    }
    if (stream->returned) {
        put_update(rank, stream);
        stream_begin(stream, true);
    }
    stream->returned = byte == '\r';
    if (stream->returned)
        return;
    stream->line[stream->len++] = byte ? byte : ' ';
    if (stream->len == sizeof(stream->line))
        put_line(rank, stream);
}

/* What stands there unfinished for a while is handed on. */
static void stream_hold(struct rank *rank, struct stream *stream)
{
    if (!stream->len || stream->drawn || now_ms() - stream->since_ms < RANK_HOLD_MS)
        return;
    if (stream->over || stream->returned)
        put_update(rank, stream);
    else
        put_line(rank, stream);
}

static size_t stream_take(struct rank *rank, struct stream *stream, size_t most)
{
    char bytes[RANK_READ_BYTES];
    ssize_t got = read(stream->from, bytes, most < sizeof(bytes) ? most : sizeof(bytes));

    if (got < 0 && errno == EINTR)
        return 0;
    if (got <= 0) {
        close(TAKE_FD(stream->from));
        return 0;
    }
    if (stream->len == 0)
        stream->since_ms = now_ms();
    for (ssize_t i = 0; i < got; i++)
        stream_put(rank, stream, bytes[i]);
    return (size_t)got;
}

/* A grandchild may keep the pipes open after the command has ended, and write for ever: only what is there
 * now is read. */
static void stream_rest(struct rank *rank, struct stream *stream)
{
    int left = 0;

    if (stream->from >= 0 && ioctl(stream->from, FIONREAD, &left) < 0)
        left = 0;
    while (left > 0 && stream->from >= 0) {
        size_t got = stream_take(rank, stream, (size_t)left);

        left -= (int)got;
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

static bool stream_is_held(const struct stream *stream)
{
    return stream->len && !stream->drawn;
}

static void rank_run(struct rank *rank)
{
    while (!rank->ended) {
        struct pollfd polls[3] = {{.fd = rank->signal_fd, .events = POLLIN},
                                  {.fd = rank->streams[0].from, .events = POLLIN},
                                  {.fd = rank->streams[1].from, .events = POLLIN}};
        bool held = stream_is_held(&rank->streams[0]) || stream_is_held(&rank->streams[1]);

        (void)poll(polls, 3, held ? RANK_HOLD_MS : -1);
        if (polls[0].revents)
            take_signal(rank);
        for (size_t i = 0; i < 2; i++) {
            struct stream *stream = &rank->streams[i];

            if (polls[i + 1].revents)
                (void)stream_take(rank, stream, RANK_READ_BYTES);
            else
                stream_hold(rank, stream);
        }
    }
    for (size_t i = 0; i < 2; i++)
        stream_rest(rank, &rank->streams[i]);
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
