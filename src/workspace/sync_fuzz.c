#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "workspace/disk.h"
#include "workspace/door.h"
#include "workspace/sync.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The sync pod's service on a folder of its own, and one peer, who knows the secret of the job
 * ("secret") if the bytes say so: it sends all of them, says that this was all, and reads until
 * the service closes. The service goes on, an answer has a status, and nothing lies outside of
 * the folder. A file that is left open shows in a long run: then none can be opened. */
struct peer {
    struct str rest;
    int fd; /* -1: gone */
    bool all_sent;
    struct buf answer;
};

static void peer_end(struct peer *peer)
{
    if (peer->fd >= 0)
        (void)close(peer->fd);
    peer->fd = -1;
}

static void peer_begin(void *user, uint16_t port)
{
    struct peer *peer = user;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    /* Its end leaves no address in use for a minute: there are many of them. */
    struct linger none = {.l_onoff = 1};

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    FUZZ_HOLDS(peer->fd >= 0);
    FUZZ_HOLDS(setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0);
    FUZZ_HOLDS(connect(peer->fd, (struct sockaddr *)&to, sizeof(to)) == 0);
}

static void peer_send(struct peer *peer)
{
    while (peer->rest.len) {
        ssize_t sent = send(peer->fd, peer->rest.p, peer->rest.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0)
            break;
        peer->rest = str_sub(peer->rest, (size_t)sent, peer->rest.len);
    }
    if (!peer->all_sent)
        (void)shutdown(peer->fd, SHUT_WR);
    peer->all_sent = true;
}

/* After every turn of the service: one of the peer. True: it is over. */
static bool peer_turn(void *user)
{
    struct peer *peer = user;
    char bytes[4096];

    peer_send(peer);
    for (;;) {
        ssize_t got = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got < 0 && errno == EAGAIN)
            return false;
        if (got <= 0)
            return true;
        buf_add(&peer->answer, (struct str){bytes, (size_t)got});
    }
}

static size_t entries_of(const char *path)
{
    DIR *folder = opendir(path);
    size_t count = 0;

    FUZZ_HOLDS(folder);
    while (folder && readdir(folder))
        count++;
    if (folder)
        (void)closedir(folder);
    return count;
}

static void check_answer(struct str answer)
{
    int status = 0;
    char head[16];

    if (!answer.len)
        return;
    (void)snprintf(head, sizeof(head), STR_FMT, STR_ARG(str_sub(answer, 0, sizeof(head) - 1)));
    FUZZ_HOLDS(sscanf(head, "HTTP/1.1 %3d ", &status) == 1);
    FUZZ_HOLDS(status == 100 || (status >= 200 && status < 600));
}

FUZZ(sync)
{
    char outside[] = "/tmp/muster-fuzz-XXXXXX";
    char folder[sizeof(outside) + 8];
    struct peer peer = {.rest = input, .fd = -1};
    struct err err = {0};
    struct door *door =
        door_new(&(struct door_options){.job = "team/job", .secret = "secret", .peer_uid = -1});

    FUZZ_HOLDS(mkdtemp(outside));
    (void)snprintf(folder, sizeof(folder), "%s/inside", outside);
    FUZZ_HOLDS(disk_make_folders(folder) == 0);
    FUZZ_HOLDS(sync_serve(&(struct sync_options){.folder = folder,
                                                 .door = door,
                                                 .address = "127.0.0.1",
                                                 .ready = peer_begin,
                                                 .stop = peer_turn,
                                                 .user = &peer},
                          &err) == 0);
    peer_end(&peer);
    door_free(door);
    check_answer(buf_str(&peer.answer));
    FUZZ_HOLDS(entries_of(outside) == 3); /* "inside", "." and ".." */
    FUZZ_HOLDS(disk_remove_path(outside) == 0);
    buf_done(&peer.answer);
}
