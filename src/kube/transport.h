#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uv_loop_s;

/* transport: HTTPS requests to one server from a libuv loop, over as few connections as HTTP/2
 * allows.
 *
 * Callbacks come from the loop, never from inside transport_send(). A request ends with exactly one
 * `done`, unless it was cancelled: then nothing is called any more. Inside callbacks everything may
 * be called, transport_cancel() of the very request included.
 *
 * A connection that has gone silent (a partition, a server that was suspended) is not seen by TCP
 * for a long time, and all streams of HTTP/2 share its fate. Who has found one out calls transport_reset():
 * everything under way fails with -ECONNRESET and the next request connects anew. A request that times
 * out is no such proof: its server may be slow, and about to answer all the others. */
#define TRANSPORT_CONNECTIONS_MAX 256 /* an HTTP/1.1 server needs one a watch and one a request */
#define TRANSPORT_REPLY_BYTES_MAX \
    ((size_t)64 << 20) /* one list page or object; streams: one piece */

struct transport;

struct transport_options {
    struct uv_loop_s *loop;
    const char *server; /* "https://10.0.0.1:6443", perhaps with a path in front of /api */
    const char *proxy;  /* NULL: what the environment says */
    const char *user_agent;
};

/* How to meet the server; may change while running (certificates are rotated). Paths of files. */
struct transport_tls {
    const char *ca_file;   /* NULL: the system's */
    const char *cert_file; /* NULL: no client certificate */
    const char *key_file;
    const char *server_name; /* NULL: the host of the URL */
    bool insecure;           /* any certificate will do */
};

struct transport_reply {
    int code;               /* 0 when an HTTP answer arrived, whatever it says; else -errno */
    const struct err *err;  /* when code is not 0 */
    int status;             /* HTTP status */
    struct str body;        /* empty for streams that were delivered through `data` */
    int64_t retry_after_ms; /* -1: the server did not say */
    struct str warnings;    /* texts of Warning headers, one a line */
};

struct transport_request {
    const char *method;
    struct str path;          /* with query, behind the server's own path */
    const char *content_type; /* of the body; NULL: no body */
    const char *accept;       /* NULL: JSON */
    struct str body;          /* copied */
    struct str bearer;        /* token; empty: none */
    struct str header;        /* more of them, "Name: value", one a line; empty: none */
    int64_t timeout_ms;       /* for the whole request; 0: none */
    /* Where a connection breaks that has served before, a request is sent again on another one;
     * one of these is not, when anything of its body was sent. */
    bool once;
    bool alone; /* on a new connection, which is closed behind it */
    /* Set: the body of a 2xx answer is handed over in pieces as it arrives. */
    void (*data)(void *user, struct str bytes);
    void (*done)(void *user, const struct transport_reply *reply);
    void *user;
};

struct transport_exchange; /* one request under way */

int transport_new(const struct transport_options *options, struct transport **ret, struct err *err);
/* Cancels everything under way. Handles are closed by the loop: run it once more before freeing it.
 */
void transport_free(struct transport *transport);
/* Strings are copied. */
void transport_set_tls(struct transport *transport, const struct transport_tls *tls);

struct transport_exchange *transport_send(struct transport *transport,
                                          const struct transport_request *request);
/* NULL is fine. */
void transport_cancel(struct transport_exchange *exchange);
/* A stream whose reader is slow: nothing more is taken from the server until it goes on. */
void transport_pause(struct transport_exchange *exchange, bool paused);
void transport_reset(struct transport *transport, const char *why);
/* Settings of a connection that notice soon that its other end is gone. `patient`: it may take what
 * is sent as late as it likes; then only silence is noticed soon. */
void transport_keep_alive(int fd, bool patient);
/* Of a host without its port: proxies of the environment are not for this machine. */
bool transport_is_loopback(struct str host);
/* When anything last arrived by a connection that is shared, in clock_monotonic_ms(). */
int64_t transport_last_heard_ms(const struct transport *transport);
