#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "http1/parse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct http_conn;
struct http_exchange;
struct tls_identity;
struct uv_loop_s;

/* http server: HTTP/1.1 over TCP or TLS on the program's loop; keep-alive, chunked answers that
 * last as long as they like (watches, logs), upgrades to other protocols.
 *
 * One request and its answer are a `struct http_exchange`. The server calls
 *   begin   when the head is there. It may answer at once (then the body is not read), ask for the
 *           body piece by piece (on_body), raise or lower body_max, or do nothing;
 *   handle  when the whole body is there (x->body); not called if begin answered or set on_body.
 * The answer may come later: take a reference (http_ref) until it is given. When the peer goes away
 * meanwhile, on_close is called and every further call on the exchange does nothing.
 *
 * Why not libmicrohttpd: it does not watch suspended connections for hang-ups, so that abandoned
 * watches and log followers would live until their next event, and an upgraded TLS connection costs
 * two more sockets and a copy of every byte. `make bench` prints its speed beside ours.
 *
 * Everything is bounded: connections, head and body bytes, seconds to send a head, seconds idle,
 * and bytes waiting to be read by a slow peer (a writer looks at http_pending()). */
#define HTTP_BODY_BYTES_MAX ((size_t)8 << 20) /* default; an object is far below it */

struct http_exchange {
    struct arena arena; /* the request's; for handlers too */
    struct http_head head;
    struct str body;
    void *user;      /* the handler's own */
    int status;      /* of the answer; 0: none was given yet */
    size_t body_max; /* may be changed in begin */

    /* Set by handlers that want them. All come from the loop, never from inside a call below. */
    void (*on_body)(struct http_exchange *x, struct str bytes, bool last);
    void (*on_data)(struct http_exchange *x, struct str bytes); /* after http_upgrade() */
    void (*on_drain)(struct http_exchange *x);                  /* all that was written has left */
    void (*on_close)(struct http_exchange *x); /* the peer is gone before the answer's end */

    /* ---- private ---- */
    struct http_conn *conn; /* NULL: the peer is gone */
    unsigned refs;
    int answer; /* enum answer */
    bool body_done;
    struct buf headers; /* of the answer, set before it begins */
    struct buf body_buf;
    struct http_chunked chunked;
    uint64_t body_left;
};

typedef void http_handler_fn(void *user, struct http_exchange *x);

struct http_server_options {
    struct uv_loop_s *loop;
    const char *address;      /* numeric; IPv4 or IPv6 */
    uint16_t port;            /* 0: a free one */
    struct tls_identity *tls; /* NULL: plain TCP; takes a reference */
    size_t connections_max;   /* 0: HTTP_CONNECTIONS_MAX */
    http_handler_fn *begin;   /* may be NULL */
    http_handler_fn *handle;
    void *user;
};

#define HTTP_CONNECTIONS_MAX 16384

struct http_server;

/* Binds and listens; requests arrive once the loop runs. */
int http_server_start(const struct http_server_options *options,
                      struct http_server **ret,
                      struct err *err);
/* Another identity for connections from now on; the server must have been started with one. */
void http_server_set_tls(struct http_server *server, struct tls_identity *tls);
/* The port it listens on. */
uint16_t http_server_port(const struct http_server *server);
/* Closes the listener and every connection (on_close is called); memory goes with the next turns of
 * the loop. NULL is fine. */
void http_server_stop(struct http_server *server);

struct http_exchange *http_ref(struct http_exchange *x);
void http_unref(struct http_exchange *x);
bool http_is_open(const struct http_exchange *x);
/* The address of the peer, "192.0.2.7" or "::1"; empty once it is gone. */
struct str http_peer_address(struct http_exchange *x);
/* The peer proved who it is with a client certificate: its subject's common name and
 * organizations ("CN\0O1\0O2"), or STR_NONE. */
struct str http_peer_identity(struct http_exchange *x);

/* A header of the answer; before http_reply(), http_begin() or http_upgrade(). */
void http_header(struct http_exchange *x, const char *name, struct str value);

/* The whole answer, copied. */
void http_reply(struct http_exchange *x, int status, const char *content_type, struct str body);
/* The whole answer from parts that stay where they are until `release` is called, once, whatever
 * happens. `parts` itself must live that long too. */
void http_reply_parts(struct http_exchange *x,
                      int status,
                      const char *content_type,
                      const struct str *parts,
                      size_t count,
                      void (*release)(void *),
                      void *release_user);

/* An answer in pieces: chunked, or up to the end of the connection for HTTP/1.0. */
void http_begin(struct http_exchange *x, int status, const char *content_type);
void http_write(struct http_exchange *x, struct str bytes);
void http_end(struct http_exchange *x);
/* Cut the connection: an answer that cannot be completed must not look complete. */
void http_abort(struct http_exchange *x);

/* 101 with the headers set before; from now on on_data gets raw bytes, http_write() sends them, and
 * http_end() closes the connection when they are sent. */
void http_upgrade(struct http_exchange *x, const char *protocol);

/* Bytes written but not yet taken by the peer's socket. */
size_t http_pending(const struct http_exchange *x);
/* Stop and restart on_body and on_data. */
void http_pause(struct http_exchange *x, bool paused);

/* "404" -> "Not Found". */
const char *http_status_text(int status);
