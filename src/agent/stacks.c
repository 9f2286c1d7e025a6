#include "agent/stacks.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/stream.h"
#include "api/podio.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/str.h"
#include "stacks/pod.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define ROOTS_MAX 64 /* containers of a pod */

/* stacks: stacks/pod.h in a worker thread, on the processes that the pod's containers began with.
 * Nothing in the pod is stopped or started for it. */
struct stacks_stream {
    struct podio_stream stream; /* first */
    int64_t roots[ROOTS_MAX];
    size_t root_count;
    struct buf out;
    struct err err;
    uv_work_t work;
    struct timer *begin;
    atomic_bool given_up; /* the worker may stop: nobody waits for it */
    bool waiting;         /* for a worker */
    bool working;
    bool stale; /* a container has ended since: its number may be another's now */
    bool ended; /* told, or nobody listens any more */
    bool closed;
};

static void stream_maybe_free(struct stacks_stream *ss)
{
    struct agent *agent = ss->stream.agent;
    if (!ss->closed || ss->working)
        return;
    buf_done(&ss->out);
    mem_free(ss);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void stream_end(struct stacks_stream *ss, const struct err *err)
{
    if (ss->ended)
        return;
    ss->ended = true;
    ss->stream.reader.end(ss->stream.reader.user, 0, err);
}

/* In the worker thread: nothing but /proc. */
static void stacks_work(uv_work_t *work)
{
    struct stacks_stream *ss = work->data;
    pod_stacks(&(struct pod_stacks_request){.roots = ss->roots,
                                            .root_count = ss->root_count,
                                            .given_up = &ss->given_up},
               &ss->out);
}

static void stacks_next(struct agent *agent);

static void stacks_worked(uv_work_t *work, int status)
{
    struct stacks_stream *ss = work->data;
    ss->working = false;
    ss->stream.agent->stacks_working--;
    stacks_next(ss->stream.agent);
    if (ss->closed || ss->ended) {
        stream_maybe_free(ss);
        return;
    }
    if (status < 0)
        (void)err_set(&ss->err, status, "the stacks cannot be read: %s", uv_strerror(status));
    else if (ss->stale)
        (void)err_set(&ss->err, -EAGAIN, "a container of the pod has ended meanwhile; ask again");
    if (ss->stale)
        ss->err.http_status = 409;
    if (!ss->err.code)
        ss->stream.reader.data(ss->stream.reader.user, 1, buf_str(&ss->out));
    stream_end(ss, ss->err.code ? &ss->err : NULL);
}

static void stacks_begin(struct stacks_stream *ss)
{
    ss->waiting = false;
    ss->working = true;
    ss->work.data = ss;
    ss->stream.agent->stacks_working++;
    if (uv_queue_work(ss->stream.agent->loop, &ss->work, stacks_work, stacks_worked) < 0) {
        ss->working = false;
        ss->stream.agent->stacks_working--;
        (void)err_set(&ss->err, -EAGAIN, "cannot start a worker thread");
        stream_end(ss, &ss->err);
    }
}

static void stacks_next(struct agent *agent)
{
    while (!agent->stopping && agent->stacks_working < STACKS_WORKERS) {
        struct podio_stream *streams[STREAM_STACKS_MAX];
        struct share_turn items[STREAM_STACKS_MAX];
        size_t count = agent->places[STREAM_STACKS].count;
        size_t at = count;
        for (struct podio_stream *stream = agent->places[STREAM_STACKS].newest; stream && at;
             stream = stream->older) {
            const struct stacks_stream *ss = (const struct stacks_stream *)stream;
            streams[--at] = stream; /* the oldest first */
            items[at] = (struct share_turn){.ns = stream->ns,
                                            .state = ss->working                 ? SHARE_WORKS
                                                     : ss->waiting && !ss->ended ? SHARE_WAITS
                                                                                 : SHARE_DONE};
        }
        size_t next = share_next(items, count);
        if (next == count)
            return;
        stacks_begin((struct stacks_stream *)streams[next]);
    }
}

static void on_begin(void *user)
{
    struct stacks_stream *ss = user;
    if (ss->ended)
        return;
    if (ss->err.code) {
        stream_end(ss, &ss->err);
        return;
    }
    ss->waiting = true;
    stacks_next(ss->stream.agent);
}

/* ---- stream operations ---- */

static void stacks_pause(struct podio_stream *stream, bool paused)
{
    (void)stream; /* it is one piece, of POD_STACKS_BYTES_MAX or little more */
    (void)paused;
}

static void begin_closed(void *user)
{
    struct stacks_stream *ss = user;
    ss->closed = true;
    stream_maybe_free(ss);
}

static void stacks_close(struct podio_stream *stream)
{
    struct stacks_stream *ss = (struct stacks_stream *)stream;
    ss->ended = true;
    atomic_store(&ss->given_up, true);
    stream_unlink(stream);
    timer_close(ss->begin, begin_closed);
}

static void stacks_container_ended(struct podio_stream *stream, const struct run_container *c)
{
    (void)c;
    ((struct stacks_stream *)stream)->stale = true;
}

static void stacks_give_way(struct podio_stream *stream, const struct err *err)
{
    stream_end((struct stacks_stream *)stream, err);
}

static const struct stream_ops stacks_ops = {.pause = stacks_pause,
                                             .close = stacks_close,
                                             .give_way = stacks_give_way,
                                             .container_ended = stacks_container_ended};

/* ---- opening ---- */

static int stream_refuse(struct stacks_stream *ss, int http_status, int code)
{
    ss->err.http_status = http_status;
    return code;
}

static bool pod_is_read(const struct pod *pod)
{
    for (const struct podio_stream *stream = pod->streams; stream; stream = stream->next)
        if (stream->ops == &stacks_ops)
            return true;
    return false;
}

static void stream_choose(struct stacks_stream *ss, const struct pod *pod, struct str container)
{
    for (size_t i = 0; i < pod->run.count && ss->root_count < ROOTS_MAX; i++) {
        const struct run_container *c = &pod->run.containers[i];
        if (c->state == RUN_RUNNING && c->pid > 0 && (!container.len || str_eq(container, c->name)))
            ss->roots[ss->root_count++] = c->pid;
    }
}

static int stream_begin(struct stacks_stream *ss, const struct podio_stacks_request *request)
{
    struct agent *agent = ss->stream.agent;
    struct pod *pod = pod_by_name(agent, request->ns, request->pod);
    if (!pod)
        return stream_refuse(ss, 404,
                             err_set(&ss->err, -ENOENT, "pod " STR_FMT " is not on this node",
                                     STR_ARG(request->pod)));
    if (pod_is_read(pod))
        return stream_refuse(ss, 429,
                             err_set(&ss->err, -EBUSY,
                                     "stacks of pod " STR_FMT
                                     " are being read for somebody else; ask again soon",
                                     STR_ARG(request->pod)));
    if (!stream_enter(&ss->stream, STREAM_STACKS, request->ns, &ss->err))
        return -EBUSY;
    stream_choose(ss, pod, request->container);
    if (!ss->root_count)
        return stream_refuse(ss, 409,
                             err_set(&ss->err, -ESRCH,
                                     "no container of pod " STR_FMT
                                     " runs: only what runs has stacks",
                                     STR_ARG(request->pod)));
    stream_link(&ss->stream, pod);
    return 0;
}

struct podio_stream *stacks_open(struct podio *podio,
                                 const struct podio_stacks_request *request,
                                 const struct podio_reader *reader)
{
    struct agent *agent = (struct agent *)podio;
    struct stacks_stream *ss = MEM_NEW(struct stacks_stream);
    ss->stream = (struct podio_stream){.ops = &stacks_ops, .agent = agent, .reader = *reader};
    ss->begin = timer_new(agent->loop, ss);
    agent->streams_open++;
    (void)stream_begin(ss, request);
    timer_in(ss->begin, 0, on_begin);
    return &ss->stream;
}
