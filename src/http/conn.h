#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct http_exchange;
struct http_server;
struct timer;
struct tls_identity;

/* conn: one connection of src/http/server.h, private to src/http.
 *
 * Input is parsed as it comes; output is collected during a turn of the loop and sent just before
 * the loop sleeps, so that all events of a turn leave in one record and no callback is entered from
 * inside a call of its own handler. One exchange at a time: the next request on the connection is
 * looked at when the last byte of the answer before it is with the kernel. */
enum answer {
    ANSWER_NONE,
    ANSWER_STREAMING,
    ANSWER_UPGRADED,
    ANSWER_DONE, /* all of it is queued */
};

struct http_conn {
    uv_poll_t poll;
    struct http_server *server;
    int fd;
    int events; /* what poll waits for now */
    gnutls_session_t tls;
    struct tls_identity *identity; /* of the session */
    bool handshaking;
    bool writable; /* the last send did not block */
    bool paused;   /* the handler wants no input */
    bool closing;
    bool lingering; /* answered; the rest of the input is thrown away */
    bool close_after;
    bool no_body; /* the answer to a HEAD */
    bool dirty;
    size_t tls_unsent; /* bytes of a record GnuTLS has taken but not sent */
    struct buf in;
    struct buf out;
    size_t out_sent;
    /* Parts of the body behind `out`; see http_reply_parts(). */
    const struct str *parts;
    size_t part_count;
    size_t part_index;
    size_t part_sent;
    void (*release)(void *);
    void *release_user;
    struct http_exchange *x;
    uint64_t deadline_ms; /* loop time; 0: none */
    struct http_conn *next;
    struct http_conn *previous;
    struct http_conn *dirty_next;
};

struct http_server {
    struct http_conn *conns;
    struct http_conn *dirty_first;
    struct http_conn *dirty_last;
    size_t conn_count;
    size_t conns_max;
    uv_loop_t *loop;
    struct tls_identity *tls;
    void (*begin)(void *user, struct http_exchange *x);
    void (*handle)(void *user, struct http_exchange *x);
    void *user;
    uv_poll_t listener;
    uv_prepare_t flusher;
    struct timer *sweeper;
    int listen_fd;
    int spare_fd; /* given up to refuse a connection when descriptors run out */
    int open_handles;
    uint16_t port;
    bool stopping;
    char scratch[65536];
};

/* Takes the socket over, whatever happens. */
void conn_open(struct http_server *server, int fd);
/* Tells the handler, drops everything. Safe to repeat. */
void conn_close(struct http_conn *conn);
/* There is something to send, or input to look at again. */
void conn_mark_dirty(struct http_conn *conn);
/* Called once a turn for dirty connections, just before the loop sleeps. */
void conn_flush(struct http_conn *conn);
/* Bytes queued and not sent. */
size_t conn_pending(const struct http_conn *conn);

/* exchange.c: from parsed head to finished answer. */
struct http_exchange *exchange_new(struct http_conn *conn, struct str head_bytes);
void exchange_gone(struct http_exchange *x); /* the connection closes */
