#include "server/peer.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/tls_client.h"
#include "http1/response.h"
#include "server/request.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>
#include <uv.h>

#define READ_BYTES ((size_t)64 << 10)

struct peer {
    struct peer_reader reader;
    struct arena arena; /* the answer's headers */
    uv_poll_t poll;
    int fd;
    int events;
    struct tls_client *tls; /* NULL: plain */
    bool shaking;           /* hands, before anything is sent */
    bool shaken;            /* it was begun: TLS knows what it waits for */
    struct buf out;
    size_t out_sent;
    bool paused;
    bool closing;
    struct http_response response;
    struct buf in;
};

static void on_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    struct peer_reader reader = peer->reader;

    (void)close(peer->fd);
    tls_client_free(peer->tls);
    buf_done(&peer->out);
    buf_done(&peer->in);
    arena_done(&peer->arena);
    mem_free(peer);
    reader.closed(reader.user);
}

void peer_close(struct peer *peer)
{
    if (!peer || peer->closing)
        return;
    peer->closing = true;
    (void)uv_poll_stop(&peer->poll);
    uv_close((uv_handle_t *)&peer->poll, on_closed);
}

static void peer_end(struct peer *peer, const char *why)
{
    peer_close(peer);
    peer->reader.end(peer->reader.user, why);
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void poll_update(struct peer *peer)
{
    int events = 0;

    if (peer->closing)
        return;
    if (peer->shaking) {
        events = !peer->shaken || tls_client_writes(peer->tls) ? UV_WRITABLE : UV_READABLE;
    } else {
        if (!peer->paused)
            events |= UV_READABLE;
        /* What TLS has read already makes no socket readable. */
        if (peer->out_sent < peer->out.len ||
            (peer->tls && !peer->paused && tls_client_pending(peer->tls)))
            events |= UV_WRITABLE;
    }
    if (events == peer->events)
        return;
    peer->events = events;
    if (events)
        (void)uv_poll_start(&peer->poll, events, on_poll);
    else
        (void)uv_poll_stop(&peer->poll);
}

/* As send(), with -errno. */
static ssize_t send_bytes(struct peer *peer, const char *bytes, size_t size)
{
    if (peer->tls)
        return tls_client_send(peer->tls, bytes, size);
    ssize_t sent = send(peer->fd, bytes, size, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

static ssize_t receive_bytes(struct peer *peer, char *bytes, size_t size)
{
    if (peer->tls)
        return tls_client_recv(peer->tls, bytes, size);
    ssize_t count = recv(peer->fd, bytes, size, 0);
    return count < 0 ? -errno : count;
}

static void send_some(struct peer *peer)
{
    while (!peer->closing && !peer->shaking && peer->out_sent < peer->out.len) {
        ssize_t sent =
            send_bytes(peer, peer->out.p + peer->out_sent, peer->out.len - peer->out_sent);
        if (sent == -EAGAIN || sent == -EINTR)
            break;
        if (sent == -ECONNREFUSED || sent == -EHOSTUNREACH || sent == -ETIMEDOUT) {
            peer_end(peer, uv_strerror((int)sent)); /* dialled, and never connected */
            return;
        }
        if (sent < 0) {
            /* The other may have answered and closed before reading everything. */
            buf_clear(&peer->out);
            peer->out_sent = 0;
            break;
        }
        peer->out_sent += (size_t)sent;
    }
    if (peer->out_sent == peer->out.len) {
        buf_clear(&peer->out);
        peer->out_sent = 0;
    }
    if (!peer->closing)
        peer->reader.sent(peer->reader.user);
}

/* What came so far, handed on. */
static void take_answer(struct peer *peer, bool eof)
{
    _cleanup_(buf_done) struct buf body = {0};
    bool had_head = peer->response.head_done;
    struct err err = {0};

    peer->response.eof = eof;
    int r = http_response_read(&peer->response, &peer->arena, &peer->in, &body, &err);
    if (r < 0) {
        peer_end(peer, err.text);
        return;
    }
    if (!had_head && peer->response.head_done)
        peer->reader.head(peer->reader.user, &peer->response);
    if (body.len && !peer->closing)
        peer->reader.body(peer->reader.user, buf_str(&body));
    if (peer->response.done && !peer->closing)
        peer_end(peer, NULL);
}

static void receive(struct peer *peer)
{
    char bytes[READ_BYTES];
    ssize_t count = receive_bytes(peer, bytes, sizeof(bytes));

    if (count == -EAGAIN || count == -EINTR)
        return;
    if (count < 0) {
        peer_end(peer, uv_strerror((int)count));
        return;
    }
    buf_add(&peer->in, (struct str){bytes, (size_t)count});
    take_answer(peer, count == 0);
}

const char *pod_socket_trouble(int fd, int status)
{
    int code = 0;
    socklen_t size = sizeof(code);

    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) == 0 && code)
        status = -code;
    return uv_strerror(status);
}

static void shake(struct peer *peer)
{
    struct err err = {0};
    int r = tls_client_shake(peer->tls, &err);

    peer->shaken = true;
    if (r == 0)
        peer->shaking = false;
    else if (r != -EAGAIN)
        peer_end(peer, err.text);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct peer *peer = handle->data;

    if (peer->closing)
        return;
    if (status < 0) {
        peer_end(peer, pod_socket_trouble(peer->fd, status));
        return;
    }
    if (peer->shaking) {
        shake(peer);
        events |= UV_WRITABLE;
    }
    if ((events & UV_WRITABLE) && !peer->closing)
        send_some(peer);
    bool readable = (events & UV_READABLE) || (peer->tls && tls_client_pending(peer->tls));
    if (readable && !peer->paused && !peer->closing && !peer->shaking)
        receive(peer);
    poll_update(peer);
}

struct peer *peer_open(const struct peer_options *options,
                       const struct peer_reader *reader,
                       struct err *err)
{
    struct tls_client *tls = NULL;

    if (options->tls && tls_client_new(options->fd, options->tls, &tls, err) < 0) {
        (void)close(options->fd);
        return NULL;
    }
    struct peer *peer = MEM_NEW(struct peer);
    peer->reader = *reader;
    peer->fd = options->fd;
    peer->tls = tls;
    peer->shaking = tls != NULL;
    peer->response.no_body = options->no_body;
    peer->response.upgrades = options->upgrades;
    peer->poll.data = peer;
    (void)uv_poll_init_socket(options->loop, &peer->poll, options->fd);
    poll_update(peer);
    return peer;
}

void peer_send(struct peer *peer, struct str bytes)
{
    if (peer->closing)
        return;
    buf_add(&peer->out, bytes);
    if (!peer->shaking)
        send_some(peer);
    poll_update(peer);
}

size_t peer_waiting(const struct peer *peer)
{
    return peer->out.len - peer->out_sent;
}

void peer_pause(struct peer *peer, bool paused)
{
    peer->paused = paused;
    poll_update(peer);
}

int peer_fd(const struct peer *peer)
{
    return peer->fd;
}
