#include "agent/podio.h"

#include "agent/core.h"
#include "agent/dial.h"
#include "agent/exec.h"
#include "agent/logs.h"
#include "agent/network.h"
#include "agent/pod.h"
#include "agent/results.h"
#include "agent/stacks.h"
#include "agent/stream.h"
#include "agent/suspend.h"
#include "agent/usage.h"
#include "api/podio.h"
#include "base/err.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* podio: the agent's side of api/podio.h, as one table. */

static void stream_write(struct podio_stream *stream, struct str bytes)
{
    if (stream->ops->write)
        stream->ops->write(stream, bytes);
}

static void stream_resize(struct podio_stream *stream, uint16_t columns, uint16_t rows)
{
    if (stream->ops->resize)
        stream->ops->resize(stream, columns, rows);
}

static void stream_pause(struct podio_stream *stream, bool paused)
{
    stream->stalled_ms = paused ? agent_now_ms() : 0;
    stream->ops->pause(stream, paused);
}

static void stream_close(struct podio_stream *stream)
{
    if (!stream)
        return;
    stream_leave(stream);
    stream->ops->close(stream);
}

static int pod_dial(struct podio *podio,
                    struct str ns,
                    struct str name,
                    uint16_t port,
                    struct err *err)
{
    struct agent *agent = (struct agent *)podio;
    struct pod *pod = pod_by_name(agent, ns, name);
    if (!pod || !pod->ip[0])
        return err_set(err, -ENOENT, "pod " STR_FMT "/" STR_FMT " does not run", STR_ARG(ns),
                       STR_ARG(name));
    (void)suspend_want(pod); /* whoever connects is answered when it goes on */
    int fd = dial_pod(pod->ip, network_has_bridge(pod), port);
    return fd >= 0 ? fd
                   : err_set(err, fd, "pod " STR_FMT "/" STR_FMT " port %u: %s", STR_ARG(ns),
                             STR_ARG(name), port, strerrordesc_np(-fd));
}

const struct podio_ops streams_ops = {
    .logs = logs_open,
    .exec = exec_open,
    .results = results_open,
    .stacks = stacks_open,
    .write = stream_write,
    .resize = stream_resize,
    .pause = stream_pause,
    .close = stream_close,
    .dial = pod_dial,
    .usage = usage_tell,
};
