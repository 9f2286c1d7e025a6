#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "workspace/address.h"
#include "workspace/c10d.h"
#include "workspace/disk.h"
#include "workspace/door.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* The store's connections: one thread, poll(), nothing shared with the rest of the process. */
#define READ_BYTES ((size_t)64 << 10)
/* A request of one key and two values, or of many keys. */
#define IN_BYTES_MAX  ((size_t)64 << 20)
#define OUT_BYTES_MAX ((size_t)64 << 20)
#define BACKLOG       1024
/* A stranger that comes again and again is told of only so often. */
#define NOTES_MAX 20

struct peer {
    struct c10d_conn conn;
    int fd;
    bool dead;
    bool admitted;    /* not yet: nothing is read from it */
    int64_t until_ms; /* for how long it may wait for that */
    struct address address;
};

struct server {
    int fd;
    struct c10d_options options;
    size_t notes;
    size_t waiting; /* peers that are not admitted yet */
    struct c10d store;
    VEC(struct peer *) peers;
    VEC(struct pollfd) polls;
    VEC(struct c10d_waiting) waiters;
    VEC(struct peer *) waiting_peers; /* the same */
};

static int64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Is it one of the job's? There is no way to refuse in words here: the sync pod's log has them. */
static void admit(struct server *server, struct peer *peer)
{
    int64_t now_ms = clock_ms();
    struct err err = {0};
    enum door_answer answer = door_peer(server->options.door, peer->fd, now_ms, &err);

    if (!peer->until_ms)
        peer->until_ms = now_ms + DOOR_WAIT_MS;
    peer->admitted = answer == DOOR_OPEN;
    if (answer == DOOR_OPEN || (answer == DOOR_WAIT && now_ms < peer->until_ms))
        return;
    if (answer == DOOR_WAIT)
        door_unknown(server->options.door, peer->fd, &err);
    peer->dead = true;
    if (server->notes++ < NOTES_MAX)
        server->options.note(server->options.user, err.text);
}

/* A new one has to wait: somebody else may have waited long enough. */
static void make_room(struct server *server, struct address address)
{
    server->waiters.count = server->waiting_peers.count = 0;
    for (size_t i = 0; i < server->peers.count; i++) {
        struct peer *peer = server->peers.items[i];

        if (peer->admitted || peer->dead)
            continue;
        VEC_PUSH(NULL, &server->waiters,
                 (struct c10d_waiting){.address = peer->address, .until_ms = peer->until_ms});
        VEC_PUSH(NULL, &server->waiting_peers, peer);
    }
    size_t gone = c10d_gives_way(server->waiters.items, server->waiters.count, address);
    if (gone < server->waiting_peers.count)
        server->waiting_peers.items[gone]->dead = true;
}

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
        peer->address = door_address(fd);
        peer->conn.store = &server->store;
        peer->conn.in.bytes_max = IN_BYTES_MAX;
        peer->conn.out.bytes_max = OUT_BYTES_MAX;
        admit(server, peer);
        if (!peer->admitted && !peer->dead)
            make_room(server, peer->address);
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
    server->waiting = 0;
    VEC_PUSH(NULL, &server->polls, (struct pollfd){.fd = server->fd, .events = POLLIN});
    for (size_t i = 0; i < count; i++) {
        const struct peer *peer = server->peers.items[i];
        int events = peer->admitted ? POLLIN | (peer->conn.out.len ? POLLOUT : 0) : 0;

        server->waiting += !peer->admitted;
        VEC_PUSH(NULL, &server->polls, (struct pollfd){.fd = peer->fd, .events = (short)events});
    }
    if (poll(server->polls.items, server->polls.count, server->waiting ? DOOR_RETRY_MS : -1) < 0)
        return;
    if (server->polls.items[0].revents)
        accept_all(server);
    for (size_t i = 0; i < count; i++) {
        struct peer *peer = server->peers.items[i];
        short events = server->polls.items[i + 1].revents;

        if (peer->dead)
            continue; /* it gave way */
        if (!peer->admitted && (events & (POLLERR | POLLHUP)))
            peer->dead = true; /* it did not wait for our answer */
        else if (!peer->admitted)
            admit(server, peer);
        else if (events)
            peer_read(peer);
    }
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

int c10d_start(const struct c10d_options *options, struct err *err)
{
    _cleanup_(disk_closep) int fd = address_listen(options->address, options->port, BACKLOG, err);
    struct server *server;
    pthread_t thread;
    int r;

    if (fd < 0)
        return fd;
    server = MEM_NEW(struct server);
    server->fd = fd;
    server->options = *options;
    r = pthread_create(&thread, NULL, run, server);
    if (r != 0) {
        mem_free(server);
        return err_set(err, -r, "a thread for the store: %s", strerrordesc_np(r));
    }
    (void)pthread_detach(thread);
    TAKE_FD(fd);
    return 0;
}
