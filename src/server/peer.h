#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct http_response;
struct tls_client_options;
struct peer;
struct uv_loop_s;

/* peer: one HTTP/1.1 exchange with whoever answers on a socket, plain or by TLS: what the
 * proxies send goes there piece by piece, and the answer comes back the same way. What waits in each
 * direction is for the user to bound: peer_waiting(), peer_pause().
 *
 * Calls come from the loop or from inside peer_send(). After `end` and peer_close() nothing
 * is called but `closed`, once, when the memory may go. */
struct peer_reader {
    void (*head)(void *user, const struct http_response *response);
    void (*body)(void *user, struct str bytes);
    void (*end)(void *user, const char *why); /* NULL: the answer is complete */
    void (*sent)(void *user);                 /* something has left */
    void (*closed)(void *user);
    void *user;
};

struct peer_options {
    struct uv_loop_s *loop;
    int fd;                               /* non-blocking, perhaps still connecting; taken over */
    const struct tls_client_options *tls; /* NULL: plain */
    bool no_body;                         /* the request is a HEAD */
    bool upgrades; /* 101 may be the answer; what follows is bytes without an end of their own */
};

/* NULL: err says why, `closed` is not called and the socket is closed. */
struct peer *peer_open(const struct peer_options *options,
                       const struct peer_reader *reader,
                       struct err *err);
/* Also before it is connected. */
void peer_send(struct peer *peer, struct str bytes);
/* Bytes that have not left yet. */
size_t peer_waiting(const struct peer *peer);
/* Stop and restart `body`. */
void peer_pause(struct peer *peer, bool paused);
int peer_fd(const struct peer *peer);
/* NULL, and one that has ended, are fine. */
void peer_close(struct peer *peer);
