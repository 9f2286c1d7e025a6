#include "agent/results.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "agent/results_kept.h"
#include "agent/stream.h"
#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "tool/timer.h"
#include "workspace/curves.h"
#include "workspace/frame.h"
#include "workspace/results.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

/* results: what a job wrote into its folder, read from the pod's own folder on this machine: so the
 * pod need not run. Everything that touches the file system happens in a worker thread, a bounded
 * piece at a time (workspace/results.h), and the next piece only when the reader has taken the last
 * one. */
#define BURIAL_LOOK_MS 20

struct results_stream {
    struct podio_stream stream; /* first */
    struct results *results;    /* NULL: could not be opened, or it is about curves */
    struct curves_walk *curves;
    struct buf out;
    struct err err;
    uv_work_t work;
    struct timer *pump;
    struct arena
        arena; /* of the request, while what it is about is on its way to where it is kept */
    struct podio_results_request request;
    bool waits;
    bool stays; /* the folder outlives its pod: it only moves */
    int left;   /* of the last turn: 1 there is more, 0 the end, or -errno */
    bool working;
    bool paused;
    bool sent;    /* something has gone out */
    bool ended;   /* told, or nobody listens any more */
    bool closing; /* by the reader */
    bool closed;  /* and the pump is gone */
};

static void stream_maybe_free(struct results_stream *rs)
{
    struct agent *agent = rs->stream.agent;
    if (!rs->closed || rs->working)
        return;
    results_free(rs->results);
    curves_walk_free(rs->curves);
    buf_done(&rs->out);
    arena_done(&rs->arena);
    mem_free(rs);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void stream_end(struct results_stream *rs, const struct err *err)
{
    if (rs->ended)
        return;
    rs->ended = true;
    rs->stream.reader.end(rs->stream.reader.user, 0, err);
}

/* ---- in the worker thread: nothing but the file system ---- */

static void stream_work(uv_work_t *work)
{
    struct results_stream *rs = work->data;
    rs->left = rs->curves ? curves_walk_turn(rs->curves, &rs->out, &rs->err)
                          : results_turn(rs->results, &rs->out, &rs->err);
}

/* ---- in the loop ---- */

static void on_pump(void *user);

static void stream_pump_soon(struct results_stream *rs)
{
    if (!rs->ended && !rs->paused && !rs->working)
        timer_in(rs->pump, 0, on_pump);
}

static void stream_worked(uv_work_t *work, int status)
{
    struct results_stream *rs = work->data;
    rs->working = false;
    if (rs->closing) {
        stream_maybe_free(rs);
        return;
    }
    if (status < 0)
        rs->left = err_set(&rs->err, status, "the folder cannot be read: %s", uv_strerror(status));
    /* A failure at the very beginning is an answer of its own; later the last frame has the words,
     * and the stream ends without the frame that says it is whole. */
    if (rs->out.len && !rs->ended && (rs->left >= 0 || rs->sent)) {
        rs->sent = true;
        rs->stream.reader.data(rs->stream.reader.user, 1, buf_str(&rs->out));
    }
    buf_clear(&rs->out);
    if (rs->left > 0) {
        stream_pump_soon(rs);
        return;
    }
    if (rs->left == -ENOENT || rs->left == -ENOTDIR)
        rs->err.http_status = 404;
    stream_end(rs, rs->left < 0 && !rs->sent ? &rs->err : NULL);
}

static void stream_begin_kept(struct results_stream *rs);

static void on_pump(void *user)
{
    struct results_stream *rs = user;
    if (rs->ended || rs->paused || rs->working)
        return;
    if (rs->waits)
        stream_begin_kept(rs);
    if (rs->waits) {
        timer_in(rs->pump, BURIAL_LOOK_MS, on_pump);
        return;
    }
    if (rs->err.code) {
        stream_end(rs, &rs->err);
        return;
    }
    rs->working = true;
    rs->work.data = rs;
    if (uv_queue_work(rs->stream.agent->loop, &rs->work, stream_work, stream_worked) < 0) {
        rs->working = false;
        (void)err_set(&rs->err, -EAGAIN, "cannot start a worker thread");
        stream_end(rs, &rs->err);
    }
}

/* ---- stream operations ---- */

static void results_pause(struct podio_stream *stream, bool paused)
{
    struct results_stream *rs = (struct results_stream *)stream;
    rs->paused = paused;
    stream_pump_soon(rs);
}

static void pump_closed(void *user)
{
    struct results_stream *rs = user;
    rs->closed = true;
    stream_maybe_free(rs);
}

static void results_close(struct podio_stream *stream)
{
    struct results_stream *rs = (struct results_stream *)stream;
    rs->ended = rs->closing = true;
    stream_unlink(stream);
    timer_close(rs->pump, pump_closed);
}

/* What has been read is not all: the last frame says why. */
static void results_give_way(struct podio_stream *stream, const struct err *err)
{
    struct results_stream *rs = (struct results_stream *)stream;
    if (rs->ended)
        return;
    if (rs->sent) {
        _cleanup_(buf_done) struct buf words = {0};
        frame_add_gone(&words, str_from(err->text));
        rs->stream.reader.data(rs->stream.reader.user, 1, buf_str(&words));
    }
    stream_end(rs, rs->sent ? NULL : err);
}

/* A folder that goes with the pod. */
static void results_container_ended(struct podio_stream *stream, const struct run_container *c)
{
    struct err gone = {0};
    if (c || ((const struct results_stream *)stream)->stays)
        return;
    (void)err_set(&gone, -ENOENT, "the pod and its folder were deleted in the meantime");
    gone.http_status = 404;
    results_give_way(stream, &gone);
}

static const struct stream_ops results_ops = {.pause = results_pause,
                                              .close = results_close,
                                              .give_way = results_give_way,
                                              .container_ended = results_container_ended};

/* ---- opening ---- */

/* How much of `folder` the mount covers; 0: it does not. */
static size_t mount_covers(struct str mount, struct str folder)
{
    while (mount.len > 1 && mount.p[mount.len - 1] == '/')
        mount.len--;
    if (!mount.len || !str_starts(folder, mount))
        return 0;
    return folder.len == mount.len || folder.p[mount.len] == '/' ? mount.len : 0;
}

/* Only a volume that is the pod's own folder: others have an owner who may not be the pod's. */
bool results_volume_is_own(const struct pod *pod, struct str name)
{
    JSON_FOREACH(json_at(pod->root, "spec.volumes"), volume) {
        const struct json *empty = json_get(volume, "emptyDir");
        if (str_eq(json_str(json_get(volume, "name")), name))
            return empty && !str_is(json_str(json_get(empty, "medium")), "Memory");
    }
    return false;
}

static int pod_open_folder(const struct pod *pod,
                           const struct podio_results_request *request,
                           struct err *err)
{
    size_t index = pod_choose_container(pod, request->container);
    const struct json *best = NULL;
    size_t most = 0;
    char path[PATH_MAX];
    if (index >= pod->run.count)
        return err_set(err, -ENOENT, "container " STR_FMT " is not valid for pod " STR_FMT,
                       STR_ARG(request->container), STR_ARG(pod->name));
    JSON_FOREACH(json_get(pod_container_spec(pod, index), "volumeMounts"), mount) {
        size_t covered = mount_covers(json_str(json_get(mount, "mountPath")), request->folder);
        if (covered > most) {
            most = covered;
            best = mount;
        }
    }
    struct str name = json_str(json_get(best, "name"));
    if (!best || !results_volume_is_own(pod, name) || json_get(best, "subPath") ||
        json_get(best, "subPathExpr"))
        return err_set(err, -EINVAL,
                       "folder '" STR_FMT "' of pod " STR_FMT
                       " is not in an emptyDir volume of the pod: only such folders can be read",
                       STR_ARG(request->folder), STR_ARG(pod->name));
    int n = snprintf(path, sizeof(path), "%s/volumes/" STR_FMT, pod->folder, STR_ARG(name));
    int top = n < 0 || (size_t)n >= sizeof(path)
                  ? -1
                  : open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return err_set(err, -ENOENT, "pod " STR_FMT " has no folder yet: it has not started",
                       STR_ARG(pod->name));
    struct str below = str_sub(request->folder, most, request->folder.len);
    int fd = results_folder(top, str_sub(below, below.len ? 1 : 0, below.len));
    close(top);
    if (fd < 0)
        return err_set(err, fd, "folder '" STR_FMT "' of pod " STR_FMT ": %s",
                       STR_ARG(request->folder), STR_ARG(pod->name), strerrordesc_np(-fd));
    return fd;
}

/* Takes the descriptor. */
static void stream_begin_folder(struct results_stream *rs,
                                const struct podio_results_request *request,
                                int fd)
{
    if (request->curves)
        rs->curves = curves_walk_new(fd);
    else
        rs->results = results_new(
            fd, &(struct results_request){.path = request->path, .list = request->list});
}

/* Of a generation whose pod is gone. One that goes just now is waited for. */
static void stream_begin_kept(struct results_stream *rs)
{
    const struct podio_results_request *request = &rs->request;
    int fd = results_kept_open(rs->stream.agent->options.data_dir,
                               &(struct results_kept_request){
                                   .ns = request->ns,
                                   .pod = request->pod,
                                   .generation = request->generation,
                                   .job_uid = request->job_uid,
                                   .since_ms = agent_namespace_ms(rs->stream.agent, request->ns)});

    rs->waits = fd < 0 && rs->stream.agent->burials_open > 0;
    if (rs->waits)
        return;
    if (fd < 0) {
        rs->err.http_status = 404;
        (void)err_set(&rs->err, -ENOENT, "nothing is kept of pod " STR_FMT ", generation " STR_FMT,
                      STR_ARG(request->pod), STR_ARG(request->generation));
        return;
    }
    stream_begin_folder(rs, request, fd);
}

static void request_keep(struct results_stream *rs, const struct podio_results_request *from)
{
    rs->request =
        (struct podio_results_request){.ns = str_dup(&rs->arena, from->ns),
                                       .pod = str_dup(&rs->arena, from->pod),
                                       .path = str_dup(&rs->arena, from->path),
                                       .generation = str_dup(&rs->arena, from->generation),
                                       .job_uid = str_dup(&rs->arena, from->job_uid),
                                       .list = from->list,
                                       .curves = from->curves};
}

/* Something is kept of that very generation, or on its way there. */
static bool request_is_kept(const struct agent *agent, const struct podio_results_request *request)
{
    struct results_kept_request kept = {request->ns, request->pod, request->generation,
                                        request->job_uid, agent_namespace_ms(agent, request->ns)};
    int fd = results_kept_open(agent->options.data_dir, &kept);

    if (fd >= 0)
        close(fd);
    return fd >= 0 || agent->burials_open > 0;
}

/* Whether the pod that is there is the one that is asked for. By its number the generation of a pod that has
 * replaced another, as in an elastic job, means that other. */
static bool pod_is_meant(const struct pod *pod, const struct podio_results_request *request)
{
    if (!pod || !request->generation.len || str_is(request->generation, RESULTS_NEWEST_WORD))
        return pod != NULL;
    return str_eq(object_label(pod->object, "torchrun.ai/generation"), request->generation) &&
           !request_is_kept(pod->agent, request);
}

static void stream_begin(struct results_stream *rs, const struct podio_results_request *request)
{
    struct agent *agent = rs->stream.agent;
    struct pod *pod = pod_by_name(agent, request->ns, request->pod);
    bool newest = str_is(request->generation, RESULTS_NEWEST_WORD);
    struct results_burial burial;
    if (!stream_enter(&rs->stream, STREAM_RESULTS, request->ns, &rs->err))
        return;
    if (!pod && !request->generation.len) {
        rs->err.http_status = 404;
        (void)err_set(&rs->err, -ENOENT, "pod " STR_FMT " has no folder on this node",
                      STR_ARG(request->pod));
        return;
    }
    bool meant = pod_is_meant(pod, request);
    int fd = meant ? pod_open_folder(pod, request, &rs->err) : -ENOENT;
    if (fd == -ENOENT && request->generation.len && (newest || !meant)) {
        rs->err = (struct err){0};
        request_keep(rs, request);
        stream_begin_kept(rs);
        return;
    }
    if (fd < 0) {
        rs->err.http_status = fd == -ENOENT ? 404 : 400;
        return;
    }
    stream_begin_folder(rs, request, fd);
    rs->stays = results_burial_prepare(pod, &burial) && !burial.claim && !burial.settled;
    stream_link(&rs->stream, pod);
}

struct podio_stream *results_open(struct podio *podio,
                                  const struct podio_results_request *request,
                                  const struct podio_reader *reader)
{
    struct agent *agent = (struct agent *)podio;
    struct results_stream *rs = MEM_NEW(struct results_stream);
    rs->stream = (struct podio_stream){.ops = &results_ops, .agent = agent, .reader = *reader};
    rs->pump = timer_new(agent->loop, rs);
    agent->streams_open++;
    stream_begin(rs, request);
    stream_pump_soon(rs);
    return &rs->stream;
}
