#include "http/server.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "http/conn.h"
#include "http/tls.h"
#include "tool/timer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define SWEEP_MS       5000
#define ACCEPTS_A_TURN 64
#define LISTEN_BACKLOG 4096
#define DEAD_PEER_MS   60000 /* unacknowledged bytes this old end a connection */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static int parse_address(const struct http_server_options *options,
                         union address *ret,
                         socklen_t *ret_len,
                         struct err *err)
{
    *ret = (union address){0};
    if (inet_pton(AF_INET, options->address, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        ret->v4.sin_port = htons(options->port);
        *ret_len = sizeof(ret->v4);
        return 0;
    }
    if (inet_pton(AF_INET6, options->address, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        ret->v6.sin6_port = htons(options->port);
        *ret_len = sizeof(ret->v6);
        return 0;
    }
    return err_set(err, -EINVAL, "listen address %s is not a numeric IP address", options->address);
}

static void fd_closep(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}

static int listen_on(const struct http_server_options *options,
                     int *ret,
                     uint16_t *ret_port,
                     struct err *err)
{
    union address address;
    socklen_t len = 0;
    int one = 1;
    int r = parse_address(options, &address, &len, err);

    if (r < 0)
        return r;
    _cleanup_(fd_closep) int fd =
        socket(address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", uv_strerror(-errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, &address.any, len) < 0 || listen(fd, LISTEN_BACKLOG) < 0) {
        int code = -errno;
        return err_set(err, code, "cannot listen on %s:%u: %s", options->address,
                       (unsigned)options->port, uv_strerror(code));
    }
    if (getsockname(fd, &address.any, &len) < 0)
        return err_set(err, -errno, "getsockname: %s", uv_strerror(-errno));
    *ret_port =
        ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    *ret = TAKE_FD(fd);
    return 0;
}

static void set_socket_options(int fd)
{
    int one = 1;
    int dead_ms = DEAD_PEER_MS;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
}

/* Descriptors ran out: take the connection with the spare one and drop it, else the loop would spin
 * on a listener that stays readable. */
static void shed_connection(struct http_server *server)
{
    (void)close(server->spare_fd);
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        (void)close(fd);
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void on_sweep(void *user)
{
    struct http_server *server = user;
    uint64_t now = uv_now(server->loop);
    struct http_conn *next = NULL;

    for (struct http_conn *conn = server->conns; conn; conn = next) {
        next = conn->next;
        if (conn->deadline_ms && conn->deadline_ms <= now && !conn->paused)
            conn_close(conn);
    }
    if (!server->conns)
        timer_cancel(server->sweeper);
}

static void on_accept(uv_poll_t *handle, int status, int events)
{
    struct http_server *server = handle->data;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                shed_connection(server);
            return;
        }
        if (server->conn_count >= server->conns_max) {
            (void)close(fd);
            continue;
        }
        set_socket_options(fd);
        conn_open(server, fd);
        if (!timer_is_set(server->sweeper))
            timer_every(server->sweeper, SWEEP_MS, SWEEP_MS, on_sweep);
    }
}

static void on_flush(uv_prepare_t *handle)
{
    struct http_server *server = handle->data;

    while (server->dirty_first) {
        struct http_conn *conn = server->dirty_first;

        server->dirty_first = conn->dirty_next;
        if (!server->dirty_first)
            server->dirty_last = NULL;
        conn_flush(conn);
    }
}

int http_server_start(const struct http_server_options *options,
                      struct http_server **ret,
                      struct err *err)
{
    _cleanup_(fd_closep) int fd = -1;
    uint16_t port = 0;
    int r = listen_on(options, &fd, &port, err);

    if (r < 0)
        return r;
    struct http_server *server = MEM_NEW(struct http_server);
    server->loop = options->loop;
    server->tls = tls_identity_ref(options->tls);
    server->begin = options->begin;
    server->handle = options->handle;
    server->user = options->user;
    server->port = port;
    server->conns_max = options->connections_max ? options->connections_max : HTTP_CONNECTIONS_MAX;
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->listener.data = server;
    server->flusher.data = server;
    r = uv_poll_init_socket(server->loop, &server->listener, fd);
    if (r < 0) {
        (void)close(server->spare_fd);
        tls_identity_free(server->tls);
        mem_free(server);
        return err_set(err, r, "watching the listening socket: %s", uv_strerror(r));
    }
    server->listen_fd = TAKE_FD(fd);
    (void)uv_prepare_init(server->loop, &server->flusher);
    server->sweeper = timer_new(server->loop, server);
    (void)uv_poll_start(&server->listener, UV_READABLE, on_accept);
    (void)uv_prepare_start(&server->flusher, on_flush);
    timer_every(server->sweeper, SWEEP_MS, SWEEP_MS, on_sweep);
    server->open_handles = 2;
    *ret = server;
    return 0;
}

void http_server_set_tls(struct http_server *server, struct tls_identity *tls)
{
    struct tls_identity *old = server->tls;

    server->tls = tls_identity_ref(tls);
    tls_identity_free(old);
}

uint16_t http_server_port(const struct http_server *server)
{
    return server->port;
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_server *server = handle->data;

    if (--server->open_handles)
        return;
    (void)close(server->listen_fd);
    (void)close(server->spare_fd);
    tls_identity_free(server->tls);
    mem_free(server);
}

void http_server_stop(struct http_server *server)
{
    if (!server || server->stopping)
        return;
    server->stopping = true;
    while (server->conns)
        conn_close(server->conns);
    on_flush(&server->flusher); /* closed connections on the dirty list are released by it */
    uv_close((uv_handle_t *)&server->listener, on_handle_closed);
    uv_close((uv_handle_t *)&server->flusher, on_handle_closed);
    timer_free(server->sweeper);
}
