#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/c10d.h"
#include "workspace/disk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The store's connections: one thread, poll(), nothing shared with the rest of the process. */
#define READ_BYTES ((size_t)64 << 10)
/* A request of one key and two values, or of many keys. */
#define IN_BYTES_MAX  ((size_t)64 << 20)
#define OUT_BYTES_MAX ((size_t)64 << 20)
#define BACKLOG       1024

struct peer {
    struct c10d_conn conn;
    int fd;
    bool dead;
};

struct server {
    int fd;
    struct c10d store;
    VEC(struct peer *) peers;
    VEC(struct pollfd) polls;
};

static void accept_all(struct server *server)
{
    int yes = 1;
    int fd;

    while ((fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct peer *peer;

        if (server->peers.count >= C10D_CONNS_MAX) {
            close(fd);
            continue;
        }
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
        peer = MEM_NEW(struct peer);
        peer->fd = fd;
        peer->conn.store = &server->store;
        peer->conn.in.bytes_max = IN_BYTES_MAX;
        peer->conn.out.bytes_max = OUT_BYTES_MAX;
        VEC_PUSH(NULL, &server->peers, peer);
    }
}

static void peer_read(struct peer *peer)
{
    char bytes[READ_BYTES];
    ssize_t got = recv(peer->fd, bytes, sizeof(bytes), 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0 || c10d_input(&peer->conn, (struct str){bytes, (size_t)got}) < 0 ||
        peer->conn.in.overflow || peer->conn.out.overflow)
        peer->dead = true;
}

static void peer_write(struct peer *peer)
{
    ssize_t sent = send(peer->fd, peer->conn.out.p, peer->conn.out.len, MSG_NOSIGNAL);

    if (sent >= 0)
        buf_consume(&peer->conn.out, (size_t)sent);
    else if (errno != EAGAIN && errno != EINTR)
        peer->dead = true;
}

static void turn(struct server *server)
{
    size_t count = server->peers.count;

    server->polls.count = 0;
    VEC_PUSH(NULL, &server->polls, (struct pollfd){.fd = server->fd, .events = POLLIN});
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(
            NULL, &server->polls,
            (struct pollfd){
                .fd = server->peers.items[i]->fd,
                .events = (short)(POLLIN | (server->peers.items[i]->conn.out.len ? POLLOUT : 0))});
    if (poll(server->polls.items, server->polls.count, -1) < 0)
        return;
    if (server->polls.items[0].revents)
        accept_all(server);
    for (size_t i = 0; i < count; i++)
        if (server->polls.items[i + 1].revents)
            peer_read(server->peers.items[i]);
    for (size_t i = server->peers.count; i-- > 0;) {
        struct peer *peer = server->peers.items[i];

        c10d_wake(&peer->conn);
        if (peer->conn.out.len && !peer->dead)
            peer_write(peer);
        if (!peer->dead)
            continue;
        VEC_REMOVE_SWAP(&server->peers, i);
        close(peer->fd);
        c10d_conn_done(&peer->conn);
        mem_free(peer);
    }
}

static void *run(void *user)
{
    for (;;)
        turn(user);
    return NULL;
}

int c10d_start(const char *address, uint16_t port, struct err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    _cleanup_(disk_closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct server *server;
    pthread_t thread;
    int yes = 1;
    int r;

    if (address && inet_pton(AF_INET, address, &at.sin_addr) != 1)
        return err_set(err, -EINVAL, "'%s' is no address", address);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0)
        return err_set(err, -errno, "port %u: %s", port, strerrordesc_np(errno));
    server = MEM_NEW(struct server);
    server->fd = fd;
    r = pthread_create(&thread, NULL, run, server);
    if (r != 0) {
        mem_free(server);
        return err_set(err, -r, "a thread for the store: %s", strerrordesc_np(r));
    }
    (void)pthread_detach(thread);
    TAKE_FD(fd);
    return 0;
}
