#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct arena;
struct buf;
struct err;

/* parse: the grammar of an HTTP/1.1 request (RFC 9112), without I/O.
 *
 * Strict where leniency has hurt others: a request with two lengths, a folded header, a bare CR or
 * LF, a NUL or white space before a colon is refused, because a proxy in front might read it
 * differently. What is refused carries the status to answer in err->http_status. */
#define HTTP_HEAD_BYTES_MAX   ((size_t)32 << 10) /* request line and headers together */
#define HTTP_TARGET_BYTES_MAX ((size_t)16 << 10)
#define HTTP_HEADERS_MAX      64

struct http_header {
    struct str name;
    struct str value;
};

struct http_head {
    struct str method;
    struct str path;  /* as sent, percent signs included */
    struct str query; /* behind the first '?', or empty */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    int64_t content_length; /* -1: none was given */
    bool chunked;
    bool keep_alive;
    bool expect_continue;
    bool upgrade; /* Connection: Upgrade */
};

/* The length of the head (its empty line included), 0 when more bytes are needed, or -EBADMSG with
 * the status to answer. Strings point into `bytes`. */
ssize_t http_head_parse(struct str bytes, struct http_head *ret, struct err *err);

/* The value of a header, names without case; STR_NONE when absent. */
struct str http_head_get(const struct http_head *head, const char *name);
/* Whether a comma-separated value holds `token`, without case. */
bool http_token_in(struct str list, const char *token);
bool http_equal_nocase(struct str a, struct str b);

/* A chunked body, in pieces as they come from the wire. Zero is the start. */
struct http_chunked {
    uint64_t left; /* of the current chunk */
    int state;
    size_t line_bytes;
};

/* Take from `bytes` what it can and append the data to `out`. Returns how many bytes were used;
 * *ret_done when the body is complete (what follows belongs to the next request). -EBADMSG when the
 * framing is wrong, -EMSGSIZE when `out` is full. */
ssize_t http_chunked_read(struct http_chunked *chunked,
                          struct str bytes,
                          struct buf *out,
                          bool *ret_done);

/* The value of a query parameter, percent-decoded ('+' is a blank); STR_NONE when absent. */
struct str http_query(struct arena *arena, struct str query, const char *key);
/* All values of a parameter that repeats, in order, up to `max`; returns how many there are. */
size_t http_query_all(struct arena *arena,
                      struct str query,
                      const char *key,
                      struct str *out,
                      size_t max);
/* It is said, and neither "false" nor "0". */
bool http_query_bool(struct str query, const char *key);

/* %XX decoded. STR_NONE when a sequence is broken or means NUL. */
struct str http_percent_decode(struct arena *arena, struct str text, bool plus_is_blank);
