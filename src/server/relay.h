#pragma once

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct http_exchange;
struct http_response;
struct relay;
struct request;
struct timer;
struct tls_client_options;
struct peer;

/* relay: a request that somebody else answers. Its body goes there and the answer comes back, each
 * as a stream with a bound on what waits; an upgrade makes both of them plain bytes. One connection
 * a request. Whoever relays embeds this in memory of the request's arena. */
struct relay_ops {
    /* The answer's head: headers and http_begin(), or http_upgrade(). */
    void (*begin)(struct relay *relay, const struct http_response *response);
    /* NULL: what comes is passed on as it is. */
    void (*body)(struct relay *relay, struct str bytes, bool last);
    /* There will be no answer, and none has begun. */
    void (*fail)(struct relay *relay, const char *why);
    /* It is over, whatever became of it. NULL: nothing is to be let go. */
    void (*done)(struct relay *relay);
};

struct relay {
    struct request *request;
    struct http_exchange *x;
    const struct relay_ops *ops;
    struct peer *peer;   /* NULL: nobody was dialled yet */
    struct buf early;    /* what goes there then */
    struct timer *timer; /* NULL: it takes as long as it takes */
    bool whole;          /* the timer is for the whole answer, not for its beginning alone */
    bool begun;
    bool upgraded;
    bool closing;
};

/* From here on the body is the relay's; `relay` has its request, exchange and ops. */
void relay_begin(struct relay *relay);
/* The request's method, its path as `target` and its headers, but for those of our own connection
 * and those that the caller keeps back. More may be added to relay->early before relay_end_head(). */
void relay_write_head(struct relay *relay, struct str target, bool (*keeps_back)(struct str name));
void relay_end_head(struct relay *relay);
/* How long the answer may be waited for. */
void relay_limit(struct relay *relay, int64_t limit_ms, bool whole);
/* The socket is taken over. `tls` NULL: plain. */
void relay_connect(struct relay *relay, int fd, const struct tls_client_options *tls);
/* One who was looked for is not there: the caller answers. */
void relay_close(struct relay *relay);
/* Headers of the answer that are not about the connection to who gave it, but for those in
 * `without`; and of http_begin() the type. */
const char *relay_copy_headers(struct relay *relay,
                               const struct http_response *response,
                               struct str without);
/* http_begin(), or http_upgrade() to what it says. */
void relay_start(struct relay *relay, const struct http_response *response, const char *type);
