#include "net/datagrams.h"

#include "base/mem.h"

#include <stddef.h>
#include <uv.h>

#define DATAGRAM_BYTES 65536
#define SWEEP_MS       10000

/* One client of a port. */
struct flow {
    struct flow *next; /* the one that spoke last is the first */
    struct datagrams *port;
    struct sockaddr_in client;
    uint64_t spoke_ms;
    uv_udp_t socket;
};

struct datagrams {
    struct datagrams_options options;
    uv_udp_t listener;
    uv_timer_t sweep;
    struct flow *flows;
    size_t flow_count;
    size_t handles; /* that are not closed yet */
    bool closing;
    char buffer[DATAGRAM_BYTES]; /* filled and emptied within one callback */
};

static void port_release(struct datagrams *port)
{
    if (--port->handles)
        return;
    if (port->closing && port->options.closed)
        port->options.closed(port->options.user);
    mem_free(port);
}

static void on_handle_closed(uv_handle_t *handle)
{
    port_release(handle->data);
}

static void on_flow_closed(uv_handle_t *handle)
{
    struct flow *flow = handle->data;
    struct datagrams *port = flow->port;
    mem_free(flow);
    port_release(port);
}

static void flow_unlink(const struct flow *flow)
{
    for (struct flow **at = &flow->port->flows; *at; at = &(*at)->next)
        if (*at == flow) {
            *at = flow->next;
            flow->port->flow_count--;
            return;
        }
}

static void flow_close(struct flow *flow)
{
    flow_unlink(flow);
    uv_close((uv_handle_t *)&flow->socket, on_flow_closed);
}

static void flow_spoke(struct flow *flow)
{
    flow_unlink(flow);
    flow->spoke_ms = uv_now(flow->port->options.loop);
    flow->next = flow->port->flows;
    flow->port->flows = flow;
    flow->port->flow_count++;
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf, struct datagrams *port)
{
    (void)handle;
    (void)size;
    *buf = uv_buf_init(port->buffer, DATAGRAM_BYTES);
}

static void on_flow_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    on_alloc(handle, size, buf, ((struct flow *)handle->data)->port);
}

static void on_listener_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    on_alloc(handle, size, buf, handle->data);
}

/* ---- from the other end ---- */

static void on_answer(uv_udp_t *socket,
                      ssize_t n,
                      const uv_buf_t *buf,
                      const struct sockaddr *from,
                      unsigned flags)
{
    struct flow *flow = socket->data;
    (void)flags;
    if (n < 0) { /* nobody listens there any more */
        flow_close(flow);
        return;
    }
    if (!from)
        return;
    uv_buf_t out = uv_buf_init(buf->base, (unsigned)n);
    flow_spoke(flow);
    (void)uv_udp_try_send(&flow->port->listener, &out, 1, (const struct sockaddr *)&flow->client);
}

/* ---- from the client ---- */

static struct flow *flow_find(const struct datagrams *port, const struct sockaddr_in *client)
{
    for (struct flow *flow = port->flows; flow; flow = flow->next)
        if (flow->client.sin_addr.s_addr == client->sin_addr.s_addr &&
            flow->client.sin_port == client->sin_port)
            return flow;
    return NULL;
}

static void port_make_room(struct datagrams *port)
{
    struct flow *last = port->flows;
    if (port->flow_count < DATAGRAMS_FLOWS_MAX)
        return;
    while (last->next)
        last = last->next;
    flow_close(last);
}

/* NULL: there is nobody to pass it on to. */
static struct flow *flow_new(struct datagrams *port, const struct sockaddr_in *client)
{
    struct sockaddr_in to;
    if (!port->options.choose(port->options.user, client->sin_addr.s_addr, &to))
        return NULL;
    port_make_room(port);
    struct flow *flow = MEM_NEW(struct flow);
    flow->port = port;
    flow->client = *client;
    (void)uv_udp_init(port->options.loop, &flow->socket);
    flow->socket.data = flow;
    port->handles++;
    flow_spoke(flow);
    if (uv_udp_connect(&flow->socket, (const struct sockaddr *)&to) < 0 ||
        uv_udp_recv_start(&flow->socket, on_flow_alloc, on_answer) < 0) {
        flow_close(flow);
        return NULL;
    }
    return flow;
}

static void on_datagram(uv_udp_t *listener,
                        ssize_t n,
                        const uv_buf_t *buf,
                        const struct sockaddr *from,
                        unsigned flags)
{
    struct datagrams *port = listener->data;
    (void)flags;
    if (n < 0 || !from || from->sa_family != AF_INET)
        return;
    const struct sockaddr_in *client = (const struct sockaddr_in *)(const void *)from;
    struct flow *flow = flow_find(port, client);
    if (!flow)
        flow = flow_new(port, client);
    if (!flow)
        return;
    uv_buf_t out = uv_buf_init(buf->base, (unsigned)n);
    flow_spoke(flow);
    (void)uv_udp_try_send(&flow->socket, &out, 1, NULL);
}

static void on_sweep(uv_timer_t *timer)
{
    struct datagrams *port = timer->data;
    uint64_t now = uv_now(port->options.loop);
    for (struct flow *flow = port->flows, *next; flow; flow = next) {
        next = flow->next;
        if (now - flow->spoke_ms >= DATAGRAMS_SILENT_MS)
            flow_close(flow);
    }
}

/* ---- the port ---- */

static void port_close(struct datagrams *port)
{
    while (port->flows)
        flow_close(port->flows);
    uv_close((uv_handle_t *)&port->sweep, on_handle_closed);
    uv_close((uv_handle_t *)&port->listener, on_handle_closed);
}

int datagrams_listen(const struct datagrams_options *options, struct datagrams **ret)
{
    struct datagrams *port = MEM_NEW(struct datagrams);
    port->options = *options;
    (void)uv_udp_init(options->loop, &port->listener);
    (void)uv_timer_init(options->loop, &port->sweep);
    port->listener.data = port->sweep.data = port;
    port->handles = 2;
    int r = uv_udp_bind(&port->listener, (const struct sockaddr *)&options->at, 0);
    if (r == 0)
        r = uv_udp_recv_start(&port->listener, on_listener_alloc, on_datagram);
    if (r == 0)
        r = uv_timer_start(&port->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    if (r < 0) {
        port_close(port);
        return r;
    }
    *ret = port;
    return 0;
}

void datagrams_close(struct datagrams *port)
{
    port->closing = true;
    port_close(port);
}
