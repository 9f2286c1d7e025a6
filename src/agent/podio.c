#include "agent/podio.h"

#include "agent/core.h"
#include "agent/exec.h"
#include "agent/logs.h"
#include "agent/pod.h"
#include "agent/results.h"
#include "agent/stacks.h"
#include "agent/stream.h"
#include "agent/usage.h"
#include "api/podio.h"
#include "base/err.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
    stream->ops->pause(stream, paused);
}

static void stream_close(struct podio_stream *stream)
{
    if (stream)
        stream->ops->close(stream);
}

/* In the host's network a pod is reached at its own loopback address, and then, for programs that
 * listen on localhost only, there. */
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
    const char *addresses[] = {pod->ip, "127.0.0.1"};
    int r = -ECONNREFUSED;
    for (size_t i = 0; i < 2; i++) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0)
            return err_set(err, -errno, "cannot create a socket");
        (void)inet_pton(AF_INET, addresses[i], &to.sin_addr);
        /* On the machine itself connecting succeeds or fails at once. */
        if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0) {
            int on = 1;
            (void)ioctl(fd, FIONBIO, &on);
            return fd;
        }
        r = -errno;
        close(fd);
    }
    return err_set(err, r, "pod " STR_FMT "/" STR_FMT " port %u: %s", STR_ARG(ns), STR_ARG(name),
                   port, strerrordesc_np(-r));
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
