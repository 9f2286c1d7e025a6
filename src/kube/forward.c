#include "kube/forward.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "kube/kubeconfig.h"
#include "kube/wire.h"
#include "system/sockets.h"
#include "tool/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#define TUNNELS_MAX   64 /* at a time: browsers open six; more wait to be accepted */
#define PIECE_BYTES   16384
#define WAITING_BYTES ((size_t)256 << 10) /* on its way to either side; beyond, the other waits */
#define LOOK_EVERY_MS 1000
#define SILENT_MS     5000 /* after the client's end: it may have gone for good */
#define TRY_MS        500  /* for a refusal of the pod's to arrive */
#define NUMBER_BYTES  2    /* each channel begins with the port */

enum {
    CHANNEL_DATA,
    CHANNEL_TROUBLE,
    CHANNELS
};

/* One connection. */
struct tunnel {
    struct wire wire;
    int fd; /* of the client; -1: this place is free */
    struct buf to_client;
    struct buf trouble;
    size_t skipped[CHANNELS]; /* bytes of the port's number that have come */
    int64_t heard_ms;
    bool client_done;
};

struct forward {
    const struct forward_request *request;
    struct wire_door door;
    struct tunnel tunnels[TUNNELS_MAX];
};

static int tunnel_open(struct forward *forward, struct tunnel *tunnel, int fd, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct forward_request *request = forward->request;

    *tunnel = (struct tunnel){.fd = fd, .heard_ms = clock_monotonic_ms()};
    return wire_open(
        &tunnel->wire, &forward->door,
        &(struct wire_request){
            .path = str_printf(&arena, "/api/v1/namespaces/%s/pods/%s/portforward?ports=%d",
                               request->ns, request->pod, request->port),
            .protocols = "v4.channel.k8s.io",
            .patient = true,
            .stop = request->stop},
        err);
}

static void tunnel_close(struct tunnel *tunnel)
{
    wire_close(&tunnel->wire);
    buf_done(&tunnel->to_client);
    buf_done(&tunnel->trouble);
    if (tunnel->fd >= 0)
        (void)close(tunnel->fd);
    *tunnel = (struct tunnel){.fd = -1};
}

static void on_message(void *user, struct str data)
{
    struct tunnel *tunnel = user;
    unsigned channel = data.len ? (unsigned char)data.p[0] : CHANNELS;

    if (channel >= CHANNELS)
        return;
    data = str_sub(data, 1, data.len);
    while (data.len && tunnel->skipped[channel] < NUMBER_BYTES) {
        tunnel->skipped[channel]++;
        data = str_sub(data, 1, data.len);
    }
    if (data.len)
        tunnel->heard_ms = clock_monotonic_ms();
    buf_add(channel == CHANNEL_DATA ? &tunnel->to_client : &tunnel->trouble, data);
}

/* From the client. False: its connection is broken. */
static bool tunnel_read(struct tunnel *tunnel)
{
    char piece[PIECE_BYTES];
    ssize_t got = recv(tunnel->fd, piece, sizeof(piece), 0);

    if (got > 0)
        wire_send_channel(&tunnel->wire, CHANNEL_DATA, (struct str){piece, (size_t)got});
    if (got == 0 && !tunnel->client_done) {
        tunnel->client_done = true;
        tunnel->heard_ms = clock_monotonic_ms(); /* the pod's answer is waited for from here */
    }
    return got >= 0 || errno == EAGAIN || errno == EINTR;
}

/* To the client. False: it takes nothing any more. */
static bool tunnel_write(struct tunnel *tunnel)
{
    while (tunnel->to_client.len) {
        ssize_t sent = send(tunnel->fd, tunnel->to_client.p, tunnel->to_client.len, MSG_NOSIGNAL);

        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        buf_consume(&tunnel->to_client, (size_t)sent);
    }
    return true;
}

static bool tunnel_wants_more(const struct tunnel *tunnel)
{
    return tunnel->to_client.len < WAITING_BYTES && !tunnel->wire.closed;
}

/* Everything that can be done without waiting. False: it is over. */
static bool tunnel_step(struct tunnel *tunnel, struct err *err)
{
    struct wire *wire = &tunnel->wire;
    bool more = true;

    while (more) {
        if (wire_take(wire, on_message, tunnel, err) < 0 || !tunnel_write(tunnel))
            return false;
        more = tunnel_wants_more(tunnel) && wire_receive(wire);
    }
    if (tunnel->trouble.len || (wire->closed && !tunnel->to_client.len))
        return false;
    if (wire->closed)
        return true;
    wire_ping(wire);
    if (wire_push(wire, err) < 0)
        return false;
    if (wire->out.len || wire->going.len) /* what the client said last is still on its way */
        return true;
    return !tunnel->client_done || clock_monotonic_ms() - tunnel->heard_ms < SILENT_MS;
}

static short tunnel_client_events(const struct tunnel *tunnel)
{
    const struct wire *wire = &tunnel->wire;
    bool reads =
        !tunnel->client_done && !wire->closed && wire->out.len + wire->going.len < WAITING_BYTES;

    return (short)((reads ? POLLIN : 0) | (tunnel->to_client.len ? POLLOUT : 0));
}

/* The pod's own words, which kubelets begin with their own. */
static void tunnel_tell(const struct forward *forward, const struct tunnel *tunnel)
{
    struct err words = {0};

    if (!tunnel->trouble.len)
        return;
    (void)err_set(&words, -EIO, "port %d of pod %s: " STR_FMT, forward->request->port,
                  forward->request->pod, STR_ARG(str_sub(buf_str(&tunnel->trouble), 0, 180)));
    forward->request->say(forward->request->user, words.text);
}

static bool forward_is_stopped(const struct forward *forward)
{
    return forward->request->stop && *forward->request->stop;
}

/* The server is busy, or its way to the node is: the next connection may do better. */
static bool forward_refusal_passes(const struct err *err)
{
    return err->http_status == 429 || err->http_status >= 500;
}

/* The next connection. Only a refusal of the server that stays is an error: there will be no other
 * one. */
static int forward_accept(struct forward *forward, struct tunnel *tunnel, struct err *err)
{
    struct err trouble = {0};
    int fd = socket_accept(forward->request->listener);

    if (fd < 0)
        return 0;
    int r = tunnel_open(forward, tunnel, fd, &trouble);
    if (r == 0)
        return 0;
    tunnel_close(tunnel);
    if ((r == -EACCES && !forward_refusal_passes(&trouble)) || r == -EINTR) {
        *err = trouble;
        return r;
    }
    forward->request->say(forward->request->user, trouble.text);
    return 0;
}

static int forward_turn(struct forward *forward, struct err *err)
{
    struct pollfd waits[1 + 2 * TUNNELS_MAX];
    struct tunnel *room = NULL;

    for (size_t i = 0; i < TUNNELS_MAX; i++) {
        struct tunnel *tunnel = &forward->tunnels[i];
        struct pollfd *wait = &waits[1 + 2 * i];
        struct err lost = {0};

        if (tunnel->fd >= 0 && !tunnel_step(tunnel, &lost)) {
            tunnel_tell(forward, tunnel);
            tunnel_close(tunnel);
        }
        room = tunnel->fd < 0 ? tunnel : room;
        short events = tunnel->fd < 0 ? 0 : wire_events(&tunnel->wire);
        if (!tunnel_wants_more(tunnel))
            events &= (short)~POLLIN;
        wait[0] = (struct pollfd){.fd = events ? tunnel->wire.socket : -1, .events = events};
        events = tunnel->fd < 0 ? 0 : tunnel_client_events(tunnel);
        wait[1] = (struct pollfd){.fd = events ? tunnel->fd : -1, .events = events};
    }
    waits[0] = (struct pollfd){.fd = room ? forward->request->listener : -1, .events = POLLIN};
    if (poll(waits, 1 + 2 * TUNNELS_MAX, LOOK_EVERY_MS) <= 0)
        return 0;
    for (size_t i = 0; i < TUNNELS_MAX; i++) {
        struct tunnel *tunnel = &forward->tunnels[i];

        if (tunnel->fd >= 0 && (waits[2 + 2 * i].revents & (POLLIN | POLLHUP | POLLERR)) &&
            !tunnel_read(tunnel))
            tunnel_close(tunnel);
    }
    return waits[0].revents ? forward_accept(forward, room, err) : 0;
}

int forward_try(struct uv_loop_s *loop,
                const struct kube_config *config,
                const struct forward_request *request,
                struct err *err)
{
    struct forward forward = {.request = request};
    struct tunnel *tunnel = &forward.tunnels[0];
    int r = wire_door_open(&forward.door, loop, config, err);

    if (r < 0)
        return r;
    r = tunnel_open(&forward, tunnel, -1, err);
    int64_t until = clock_monotonic_ms() + TRY_MS; /* credentials and TLS may have taken longer */
    while (r == 0 && !tunnel->trouble.len && !tunnel->wire.closed && clock_monotonic_ms() < until) {
        struct pollfd wait = {.fd = tunnel->wire.socket, .events = POLLIN};

        if (!wire_receive(&tunnel->wire))
            (void)poll(&wait, 1, TRY_MS / 10);
        r = wire_take(&tunnel->wire, on_message, tunnel, err);
    }
    if (r == 0 && tunnel->trouble.len)
        r = err_set(err, -ECONNREFUSED, STR_FMT,
                    STR_ARG(str_sub(buf_str(&tunnel->trouble), 0, 180)));
    tunnel_close(tunnel);
    wire_door_close(&forward.door);
    return r;
}

int forward_run(struct uv_loop_s *loop,
                const struct kube_config *config,
                const struct forward_request *request,
                struct err *err)
{
    struct forward forward = {.request = request};
    int r = wire_door_open(&forward.door, loop, config, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < TUNNELS_MAX; i++)
        forward.tunnels[i].fd = -1;
    while (r == 0) {
        r = forward_turn(&forward, err);
        if (r == 0 && forward_is_stopped(&forward))
            r = err_set(err, -EINTR, "interrupted");
    }
    for (size_t i = 0; i < TUNNELS_MAX; i++)
        if (forward.tunnels[i].fd >= 0)
            tunnel_close(&forward.tunnels[i]);
    wire_door_close(&forward.door);
    return r;
}
