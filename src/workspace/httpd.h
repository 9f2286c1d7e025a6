#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct httpd;
struct httpd_conn;

/* httpd: the sync pod's HTTP/1.1 server: libc alone, one thread, poll().
 *
 * For a few hundred peers (the plugin through the API server's proxy, the workers, torchrun's etcd
 * clients): small, bounded, no TLS; whom to serve is the handler's business (workspace/door.h). A
 * request reaches the handler in three steps: `begin` when its head is complete, `body` for
 * every piece of its body, `end` when it is complete. The handler answers with httpd_reply() at any
 * time from `begin` on, also long after `end` (a long poll keeps the connection and answers later),
 * or opens a stream. An answer given before the body is complete closes the connection afterwards.
 * Requests are read by the grammar of all our servers (http1/parse.h), and refused by it. */
#define HTTPD_CONNS_MAX     1024
#define HTTPD_READ_BYTES    ((size_t)256 << 10)
#define HTTPD_BUFFERED_MAX  ((size_t)64 << 20) /* a peer that reads slower than that is dropped */
#define HTTPD_IDLE_LIMIT_MS 120000             /* without a byte in the middle of a request */

struct httpd_request {
    struct str method;
    struct str path;   /* decoded of its query only; percent signs stay */
    struct str query;  /* behind '?', or empty */
    struct str host;   /* as the client calls us */
    struct str secret; /* value of DOOR_HEADER (workspace/door.h); empty: not given */
};

struct httpd_handler {
    void (*begin)(void *user, struct httpd_conn *conn, const struct httpd_request *request);
    void (*body)(void *user, struct httpd_conn *conn, struct str bytes);
    void (*end)(void *user, struct httpd_conn *conn);
    /* The stream's peer took everything: add more. True: there is still more, ask again soon. */
    bool (*drained)(void *user, struct httpd_conn *conn);
    /* The connection is gone, with whatever answer was owed. */
    void (*closed)(void *user, struct httpd_conn *conn);
    /* Called about every `tick_ms` and after every turn. */
    void (*tick)(void *user, int64_t now_ms);
    void *user;
    size_t conns_max; /* 0: HTTPD_CONNS_MAX */
};

/* Listens on all addresses, or on `address` when it is given ("127.0.0.1", "::1"); port 0 picks one. */
int httpd_open(const char *address,
               uint16_t port,
               const struct httpd_handler *handler,
               struct httpd **ret,
               struct err *err);
uint16_t httpd_port(const struct httpd *httpd);
/* One turn: wait at most timeout_ms, handle what happened. */
int httpd_turn(struct httpd *httpd, int timeout_ms, struct err *err);
void httpd_close(struct httpd *httpd);

/* The request's head as it was told to `begin`; valid until the answer is complete. */
const struct httpd_request *httpd_request(const struct httpd_conn *conn);
/* Name and value of a query parameter, percent-decoded, in the caller's buffer; false: not given.
 */
bool httpd_query(const struct httpd_conn *conn, const char *name, char *out, size_t out_bytes);

/* `headers`: extra lines, each ending in \r\n, or "". */
void httpd_reply(struct httpd_conn *conn,
                 int status,
                 const char *headers,
                 const char *type,
                 struct str body);
/* An answer without a known end: chunks follow. False from httpd_stream_add(): the peer is too far
 * behind and was dropped. */
void httpd_stream_begin(struct httpd_conn *conn, const char *type);
bool httpd_stream_add(struct httpd_conn *conn, struct str bytes);
/* Its end: the connection can be used again. */
void httpd_stream_end(struct httpd_conn *conn);
/* Close it at the end of the turn, without a further word. */
void httpd_drop(struct httpd_conn *conn);
/* Its socket, to ask who is at the other end. */
int httpd_fd(const struct httpd_conn *conn);
void *httpd_user(const struct httpd_conn *conn); /* the handler's `user` */
/* What the handler keeps for a connection. */
void httpd_set_data(struct httpd_conn *conn, void *data);
void *httpd_data(const struct httpd_conn *conn);
