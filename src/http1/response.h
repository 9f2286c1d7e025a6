#pragma once

#include "http1/parse.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct err;

/* response: reads an HTTP/1.x answer piece by piece, for the proxy. Pure. Zero is the start. */
#define HTTP_INTERIM_MAX 16 /* 1xx before it; one is usual, and a few hints for browsers */

struct http_response {
    bool head_done;
    int status;
    struct http_header headers[HTTP_HEADERS_MAX]; /* strings in the arena */
    size_t header_count;
    int interim_count; /* answers that only announced this one */
    bool chunked;
    int64_t left; /* of the body; -1: up to the end of the connection */
    struct http_chunked chunks;
    bool no_body;  /* set by the caller: the request was a HEAD */
    bool upgrades; /* set by the caller: 101 is an answer, and what follows belongs to it */
    bool eof;      /* set by the caller: no more will come */
    bool done;     /* the answer is complete */
};

/* Take what it can from `in` (used bytes are consumed) and append body bytes to `body`. -EBADMSG
 * when the answer is malformed or cut short. */
int http_response_read(struct http_response *response,
                       struct arena *arena,
                       struct buf *in,
                       struct buf *body,
                       struct err *err);
