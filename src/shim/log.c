#include "shim/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* shim_log: a container's output, one record a line, in files of bounded size. A full disk loses
 * lines, never the container: its pipe is always read. */
#define HEADER_BYTES 64
#define BATCH_LINES  32

int logfile_open(struct logfile *log, const char *path, off_t bytes_max)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    struct stat st;
    *log = (struct logfile){.fd = fd, .bytes_max = bytes_max, .tee_fd = -1};
    log->bytes = fstat(fd, &st) == 0 ? st.st_size : 0;
    (void)snprintf(log->path, sizeof(log->path), "%s", path);
    return 0;
}

void logfile_close(struct logfile *log)
{
    if (log->fd >= 0)
        close(log->fd);
    if (log->tee_fd >= 0)
        close(log->tee_fd);
    log->fd = log->tee_fd = -1;
}

/* Something is about to be lost: whoever reads the log is told. Not empty, or it would not be kept
 * with the rest. */
static void note_cut(const struct logfile *log)
{
    char oldest[sizeof(log->path) + 8], cut[sizeof(log->path) + 8];
    (void)snprintf(oldest, sizeof(oldest), "%s.%d", log->path, SHIM_LOG_FILES_MAX - 1);
    (void)snprintf(cut, sizeof(cut), "%s" SHIM_LOG_CUT, log->path);
    if (access(oldest, F_OK) < 0)
        return;
    int fd = open(cut, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    (void)!write(fd, "cut\n", 4);
    close(fd);
}

/* path -> path.1 -> path.2 ...: the oldest goes. */
static void rotate(struct logfile *log)
{
    char from[sizeof(log->path) + 8], to[sizeof(log->path) + 8];
    note_cut(log);
    for (int i = SHIM_LOG_FILES_MAX - 1; i >= 1; i--) {
        (void)snprintf(to, sizeof(to), "%s.%d", log->path, i);
        if (i > 1)
            (void)snprintf(from, sizeof(from), "%s.%d", log->path, i - 1);
        else
            (void)snprintf(from, sizeof(from), "%s", log->path);
        (void)rename(from, to);
    }
    int fd = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    close(log->fd);
    log->fd = fd;
    log->bytes = 0;
}

/* "2026-11-15T02:03:04.123456789Z stdout F " */
static size_t header(char *out, const char *stream, char tag)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    struct tm tm;
    gmtime_r(&ts.tv_sec, &tm);
    int n = snprintf(out, HEADER_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%09ldZ %s %c ",
                     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                     ts.tv_nsec, stream, tag);
    return (size_t)n;
}

static void write_batch(struct logfile *log, struct iovec *iov, int count)
{
    size_t total = 0;
    for (int i = 0; i < count; i++)
        total += iov[i].iov_len;
    if (log->bytes > 0 && log->bytes + (off_t)total > log->bytes_max)
        rotate(log);
    ssize_t n = writev(log->fd, iov, count);
    if (n > 0)
        log->bytes += n;
}

/* Records for all whole lines of `data`; returns the bytes they took. */
static size_t put_lines(struct logfile *log, const char *stream, char *data, size_t len)
{
    char head_whole[HEADER_BYTES];
    size_t head_len = header(head_whole, stream, 'F');
    struct iovec iov[BATCH_LINES * 2];
    int used = 0;
    size_t start = 0;
    char *newline;
    while (start < len && (newline = memchr(data + start, '\n', len - start))) {
        size_t line = (size_t)(newline - (data + start)) + 1;
        iov[used++] = (struct iovec){head_whole, head_len};
        iov[used++] = (struct iovec){data + start, line};
        start += line;
        if (used == BATCH_LINES * 2) {
            write_batch(log, iov, used);
            used = 0;
        }
    }
    if (used)
        write_batch(log, iov, used);
    return start;
}

static void put_piece(struct logfile *log, const char *stream, char tag, char *data, size_t len)
{
    char head[HEADER_BYTES];
    char end[] = "\n";
    struct iovec iov[] = {{head, header(head, stream, tag)}, {data, len}, {end, 1}};
    write_batch(log, iov, 3);
}

void logfile_flush(struct logfile *log, struct log_stream *stream)
{
    if (stream->len)
        put_piece(log, stream->name, 'F', stream->line, stream->len);
    stream->len = 0;
    free(stream->line);
    stream->line = NULL;
}

bool logfile_take(struct logfile *log, struct log_stream *stream)
{
    if (!stream->line)
        stream->line = malloc(SHIM_LINE_BYTES);
    if (!stream->line)
        return true; /* no memory now: the pipe holds it until there is */
    ssize_t n = read(stream->fd, stream->line + stream->len, SHIM_LINE_BYTES - stream->len);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) { /* a terminal ends with EIO */
        logfile_flush(log, stream);
        close(stream->fd);
        stream->fd = -1;
        return false;
    }
    if (log->tee_fd >= 0) {
        ssize_t told = write(log->tee_fd, stream->line + stream->len, (size_t)n);
        if (told < 0 && errno != EAGAIN && errno != EINTR) {
            close(log->tee_fd);
            log->tee_fd = -1;
        }
    }
    stream->len += (size_t)n;
    size_t done = put_lines(log, stream->name, stream->line, stream->len);
    memmove(stream->line, stream->line + done, stream->len - done);
    stream->len -= done;
    if (stream->len == SHIM_LINE_BYTES) {
        put_piece(log, stream->name, 'P', stream->line, stream->len);
        stream->len = 0;
    }
    if (stream->len == 0) { /* idle shims keep nothing */
        free(stream->line);
        stream->line = NULL;
    }
    return true;
}
