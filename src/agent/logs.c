#include "agent/logs.h"

#include "agent/core.h"
#include "agent/kept.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/stream.h"
#include "api/object.h"
#include "api/podio.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "shim/shim.h"
#include "tool/timer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* logs: a container's log files as one stream.
 *
 * The shim writes <n>.log and turns it over to <n>.log.1 and so on. A reader opens all files there
 * are at the start, oldest first, and reads them through their descriptors, so that turning over
 * behind its back changes nothing; at the end of the newest one it follows, it looks whether the
 * name leads to another file by now. */
#define CHUNK_BYTES 65536
#define TURN_BYTES  (1 << 20) /* read in one go, so that others get the loop */
#define FOLLOW_MS   1000      /* looked at again that often even if no file event came */

struct logs {
    struct podio_stream stream; /* first */
    struct podio_log_request request;
    char path[PATH_MAX]; /* of <n>.log */
    char folder[PATH_MAX];
    int fds[SHIM_LOG_FILES_MAX + 1];
    size_t fd_count;
    size_t fd_at;
    off_t offset;       /* in the current file */
    struct buf pending; /* the start of a record whose end has not been read */
    int64_t sent_bytes;
    struct str container;
    uint64_t instance;
    bool container_ended;
    bool paused;
    bool ended;
    struct err err;
    struct timer *pump;
    uv_fs_event_t event;
};

static void logs_pump_soon(struct logs *logs);

/* ---- records ---- */

struct record {
    struct str time;
    struct str text;
    bool whole;
};

/* "TIME stdout F text" without its newline. */
static bool record_parse(struct str line, struct record *ret)
{
    struct str name, tag;
    if (!str_cut(&line, ' ', &ret->time) || !str_cut(&line, ' ', &name) ||
        !str_cut(&line, ' ', &tag) || tag.len != 1)
        return false;
    ret->whole = tag.p[0] == 'F';
    ret->text = line;
    return true;
}

static void logs_put(struct logs *logs, struct str bytes)
{
    int64_t limit = logs->request.limit_bytes;
    if (limit >= 0 && logs->sent_bytes + (int64_t)bytes.len > limit)
        bytes.len = (size_t)(limit - logs->sent_bytes);
    logs->sent_bytes += (int64_t)bytes.len;
    if (bytes.len)
        logs->stream.reader.data(logs->stream.reader.user, 1, bytes);
}

static void logs_put_record(struct logs *logs, struct str line, struct buf *out)
{
    struct record record;
    int64_t when_ms;
    if (!record_parse(line, &record))
        return;
    if (logs->request.since_ms && time_parse(record.time, &when_ms) &&
        when_ms < logs->request.since_ms)
        return;
    if (logs->request.timestamps) {
        buf_add(out, record.time);
        buf_addc(out, ' ');
    }
    buf_add(out, record.text);
    if (record.whole)
        buf_addc(out, '\n');
}

/* Records for everything whole in `pending`. */
static void logs_put_pending(struct logs *logs)
{
    _cleanup_(buf_done) struct buf out = {0};
    struct str all = buf_str(&logs->pending);
    size_t used = 0;
    for (;;) {
        struct str rest = str_sub(all, used, all.len);
        size_t end = str_find(rest, '\n');
        if (end == rest.len)
            break;
        logs_put_record(logs, str_sub(rest, 0, end), &out);
        used += end + 1;
    }
    buf_consume(&logs->pending, used);
    if (out.len)
        logs_put(logs, buf_str(&out));
}

/* ---- where to begin ---- */

/* Where the last `lines` records of the file begin; *lines is what is left to find before it. */
static off_t tail_offset(int fd, int64_t *lines)
{
    struct stat st;
    char block[4096];
    if (fstat(fd, &st) < 0)
        return 0;
    bool last = true; /* the newline at the very end closes a line, it does not start one */
    for (off_t end = st.st_size; end > 0;) {
        off_t start = end > (off_t)sizeof(block) ? end - (off_t)sizeof(block) : 0;
        ssize_t n = pread(fd, block, (size_t)(end - start), start);
        for (ssize_t i = n; i > 0; i--) {
            if (block[i - 1] != '\n')
                continue;
            if (!last && --*lines <= 0)
                return start + i;
            last = false;
        }
        end = start;
    }
    if (st.st_size > 0)
        --*lines;
    return 0;
}

static void logs_seek_tail(struct logs *logs)
{
    int64_t lines = logs->request.tail_lines;
    if (lines < 0 || !logs->fd_count)
        return;
    logs->fd_at = logs->fd_count - 1;
    if (lines == 0) {
        struct stat st;
        logs->offset = fstat(logs->fds[logs->fd_at], &st) == 0 ? st.st_size : 0;
        return;
    }
    for (;;) {
        logs->offset = tail_offset(logs->fds[logs->fd_at], &lines);
        if (lines <= 0 || logs->fd_at == 0)
            return;
        logs->fd_at--;
    }
}

/* Who asks for all of a log, and cannot have all, is told in its first line. */
static void logs_say_cut(struct logs *logs)
{
    char path[PATH_MAX + 8];
    (void)snprintf(path, sizeof(path), "%s" SHIM_LOG_CUT, logs->path);
    if (logs->request.tail_lines >= 0 || logs->request.since_ms || access(path, F_OK) < 0)
        return;
    buf_addf(&logs->pending,
             "1970-01-01T00:00:00.000000000Z stdout F [muster] the beginning of this log was "
             "dropped: %d MB are kept, with the time of each line\n",
             SHIM_LOG_FILES_MAX * (SHIM_LOG_BYTES >> 20));
}

static void logs_open_files(struct logs *logs)
{
    char path[PATH_MAX + 8];
    for (int i = SHIM_LOG_FILES_MAX - 1; i >= 0; i--) {
        (void)snprintf(path, sizeof(path), i ? "%s.%d" : "%s", logs->path, i);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            logs->fds[logs->fd_count++] = fd;
    }
    logs_say_cut(logs);
}

/* The shim has turned the file over: go on with the new one. */
static bool logs_next_file(struct logs *logs)
{
    struct stat ours, named;
    if (logs->fd_at + 1 < logs->fd_count) {
        logs->fd_at++;
        logs->offset = 0;
        return true;
    }
    if (stat(logs->path, &named) < 0)
        return false;
    if (logs->fd_count && fstat(logs->fds[logs->fd_at], &ours) == 0 && ours.st_ino == named.st_ino)
        return false;
    int fd = open(logs->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (size_t i = 0; i < logs->fd_count; i++)
        close(logs->fds[i]);
    logs->fds[0] = fd;
    logs->fd_count = 1;
    logs->fd_at = 0;
    logs->offset = 0;
    return true;
}

/* ---- pumping ---- */

static void logs_end(struct logs *logs, const struct err *err)
{
    if (logs->ended)
        return;
    logs->ended = true;
    logs->stream.reader.end(logs->stream.reader.user, 0, err);
}

/* Read and send; returns false when there is nothing more for now. */
static bool logs_read_some(struct logs *logs)
{
    char *room = buf_room(&logs->pending, CHUNK_BYTES);
    if (!room || !logs->fd_count)
        return logs_next_file(logs);
    ssize_t n = pread(logs->fds[logs->fd_at], room, CHUNK_BYTES, logs->offset);
    if (n <= 0)
        return logs_next_file(logs);
    logs->offset += n;
    logs->pending.len += (size_t)n;
    logs_put_pending(logs);
    return true;
}

static bool logs_are_full(const struct logs *logs)
{
    return logs->request.limit_bytes >= 0 && logs->sent_bytes >= logs->request.limit_bytes;
}

static void on_pump(void *user)
{
    struct logs *logs = user;
    if (logs->ended || logs->paused)
        return;
    if (logs->err.code) {
        logs_end(logs, &logs->err);
        return;
    }
    /* Looked at before reading: what was written before the end is read, then the end is true. */
    bool last_look = logs->container_ended || !logs->request.follow;
    for (int64_t budget = TURN_BYTES; budget > 0; budget -= CHUNK_BYTES) {
        if (logs_are_full(logs) || !logs_read_some(logs)) {
            if (last_look || logs_are_full(logs))
                logs_end(logs, NULL);
            else
                timer_in(logs->pump, FOLLOW_MS, on_pump);
            return;
        }
        if (logs->ended || logs->paused)
            return;
    }
    logs_pump_soon(logs);
}

static void logs_pump_soon(struct logs *logs)
{
    if (!logs->ended && !logs->paused)
        timer_in(logs->pump, 0, on_pump);
}

static void on_file(uv_fs_event_t *event, const char *name, int events, int status)
{
    (void)name;
    (void)events;
    (void)status;
    logs_pump_soon(event->data);
}

/* ---- stream operations ---- */

static void logs_pause(struct podio_stream *stream, bool paused)
{
    struct logs *logs = (struct logs *)stream;
    logs->paused = paused;
    logs_pump_soon(logs);
}

static void event_closed(uv_handle_t *handle)
{
    struct logs *logs = handle->data;
    for (size_t i = 0; i < logs->fd_count; i++)
        close(logs->fds[i]);
    buf_done(&logs->pending);
    struct agent *agent = logs->stream.agent;
    mem_free(logs);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void logs_close(struct podio_stream *stream)
{
    struct logs *logs = (struct logs *)stream;
    logs->ended = true;
    stream_unlink(stream);
    timer_free(logs->pump);
    uv_close((uv_handle_t *)&logs->event, event_closed);
}

static void logs_container_ended(struct podio_stream *stream, const struct run_container *c)
{
    struct logs *logs = (struct logs *)stream;
    if (c && !(str_eq(c->name, logs->container) && c->instance == logs->instance))
        return;
    logs->container_ended = true;
    logs_pump_soon(logs);
}

static void logs_give_way(struct podio_stream *stream, const struct err *err)
{
    logs_end((struct logs *)stream, err);
}

static const struct stream_ops logs_ops = {.pause = logs_pause,
                                           .close = logs_close,
                                           .give_way = logs_give_way,
                                           .container_ended = logs_container_ended};

/* ---- opening ---- */

static int logs_choose_container(struct pod *pod, struct str name, size_t *ret, struct err *err)
{
    *ret = pod_choose_container(pod, name);
    if (*ret < pod->run.count)
        return 0;
    err->http_status = 400;
    return err_set(err, -ENOENT, "container " STR_FMT " is not valid for pod " STR_FMT,
                   STR_ARG(name), STR_ARG(pod->name));
}

static int logs_choose_instance(struct pod *pod, struct logs *logs, size_t index, struct err *err)
{
    const struct run_container *c = &pod->run.containers[index];
    unsigned instance = c->instance;
    bool ran = c->state == RUN_RUNNING || c->state == RUN_ENDED || c->state == RUN_STARTING;
    /* While the next instance waits for its back-off the last one's log is the current one. */
    if (!ran && c->previous.set)
        instance--;
    else if (!ran) {
        err->http_status = 400;
        return err_set(err, -EINVAL,
                       "container \"" STR_FMT "\" in pod \"" STR_FMT "\" is waiting to start",
                       STR_ARG(c->name), STR_ARG(pod->name));
    }
    if (logs->request.previous) {
        if (!instance) {
            err->http_status = 400;
            return err_set(err, -EINVAL,
                           "previous terminated container \"" STR_FMT "\" in pod \"" STR_FMT
                           "\" not found",
                           STR_ARG(c->name), STR_ARG(pod->name));
        }
        instance--;
    }
    logs->instance = instance;
    logs->container_ended = instance != c->instance || c->state == RUN_ENDED;
    return 0;
}

/* Of a pod that is gone. */
static bool logs_open_kept(struct agent *agent, struct logs *logs)
{
    unsigned instance;
    struct kept_request request = {.ns = logs->request.ns,
                                   .pod = logs->request.pod,
                                   .container = logs->request.container,
                                   .generation = logs->request.generation,
                                   .previous = logs->request.previous};
    if (!kept_find(agent, &request, logs->folder, sizeof(logs->folder), &instance))
        return false;
    int n = snprintf(logs->path, sizeof(logs->path), "%s/%u.log", logs->folder, instance);
    if (n < 0 || (size_t)n >= sizeof(logs->path))
        return false;
    logs->container_ended = true;
    logs_open_files(logs);
    logs_seek_tail(logs);
    return true;
}

static int logs_open_newest(struct agent *agent, struct logs *logs, struct err *err)
{
    struct pod *pod = pod_by_name(agent, logs->request.ns, logs->request.pod);
    size_t index = 0;
    struct str generation = logs->request.generation;
    bool other = pod && generation.len &&
                 !str_eq(object_label(pod->object, "torchrun.ai/generation"), generation);
    if ((!pod || other) && logs_open_kept(agent, logs))
        return 0;
    if (!pod || other) {
        err->http_status = 404;
        return err_set(err, -ENOENT, "pod " STR_FMT " does not run on this node",
                       STR_ARG(logs->request.pod));
    }
    int r = logs_choose_container(pod, logs->request.container, &index, err);
    if (r == 0)
        r = logs_choose_instance(pod, logs, index, err);
    if (r)
        return r;
    logs->container = pod->run.containers[index].name;
    (void)snprintf(logs->folder, sizeof(logs->folder), "%s/c/" STR_FMT, pod->folder,
                   STR_ARG(logs->container));
    (void)snprintf(logs->path, sizeof(logs->path), "%s/c/" STR_FMT "/%llu.log", pod->folder,
                   STR_ARG(logs->container), (unsigned long long)logs->instance);
    stream_link(&logs->stream, pod);
    logs_open_files(logs);
    logs_seek_tail(logs);
    return 0;
}

struct podio_stream *logs_open(struct podio *podio,
                               const struct podio_log_request *request,
                               const struct podio_reader *reader)
{
    struct agent *agent = (struct agent *)podio;
    struct logs *logs = MEM_NEW(struct logs);
    logs->stream = (struct podio_stream){.ops = &logs_ops, .agent = agent, .reader = *reader};
    logs->request = *request;
    if (stream_enter(&logs->stream, STREAM_LOGS, request->ns, &logs->err))
        (void)logs_open_newest(agent, logs, &logs->err);
    logs->request.ns = logs->request.pod = STR_NONE; /* the caller's */
    logs->request.container = logs->request.generation = STR_NONE;
    logs->pump = timer_new(agent->loop, logs);
    (void)uv_fs_event_init(agent->loop, &logs->event);
    logs->event.data = logs;
    agent->streams_open++;
    if (request->follow && !logs->err.code)
        (void)uv_fs_event_start(&logs->event, on_file, logs->folder, 0);
    logs_pump_soon(logs);
    return &logs->stream;
}

void logs_tail(struct pod *pod, const struct run_container *c, size_t bytes_max, struct buf *ret)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/c/" STR_FMT "/%u.log", pod->folder, STR_ARG(c->name),
                   c->instance);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    /* Each record has some 45 bytes before its text. */
    off_t want = (off_t)(2 * bytes_max), start = st.st_size > want ? st.st_size - want : 0;
    _cleanup_(buf_done) struct buf raw = {0};
    char *room = buf_room(&raw, (size_t)want);
    ssize_t n = room ? pread(fd, room, (size_t)want, start) : 0;
    close(fd);
    raw.len = n > 0 ? (size_t)n : 0;
    struct str rest = buf_str(&raw), line;
    struct record record;
    if (start > 0)
        (void)str_cut(&rest, '\n', &line);
    while (str_cut(&rest, '\n', &line))
        if (record_parse(line, &record)) {
            buf_add(ret, record.text);
            if (record.whole)
                buf_addc(ret, '\n');
        }
    if (ret->len > bytes_max)
        buf_consume(ret, ret->len - bytes_max);
}
