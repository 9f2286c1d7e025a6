#pragma once

#include "base/cleanup.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* buf: bytes that grow, up to a stated maximum.
 *
 * Zero-initialise and set bytes_max (0 = BUF_BYTES_MAX). An addition that would pass the maximum is
 * dropped whole and sets `overflow`, so a writer checks once at the end instead of after every
 * call. Owns heap memory: release with buf_done() (or _cleanup_(buf_done)). */
#define BUF_BYTES_MAX ((size_t)1 << 30)

struct buf {
    char *p; /* NUL-terminated once anything was added; NULL before */
    size_t len;
    size_t capacity;
    size_t bytes_max;
    bool overflow;
};

void buf_add_grow(struct buf *buf, struct str s); /* the slow way of buf_add() */
void buf_addf(struct buf *buf, const char *fmt, ...) _printf_(2, 3);
static inline void buf_add(struct buf *buf, struct str s)
{
    /* capacity never passes bytes_max + 1, so what fits is also allowed. */
    if (buf->overflow || s.len >= buf->capacity - buf->len) {
        buf_add_grow(buf, s);
        return;
    }
    if (s.len)
        memcpy(buf->p + buf->len, s.p, s.len);
    buf->len += s.len;
    buf->p[buf->len] = '\0';
}
static inline void buf_addc(struct buf *buf, char c)
{
    buf_add(buf, (struct str){&c, 1});
}
/* As the value of a label in Prometheus' text format, without the quotes around it. */
void buf_add_label(struct buf *buf, struct str value);
/* As text or an attribute's value in HTML. */
void buf_add_html(struct buf *buf, struct str text);
/* As a part of an address: all but letters, digits and -._~ with percent signs. */
void buf_add_percent(struct buf *buf, struct str text);
/* Room for `bytes` more behind len, or NULL past the maximum. The caller writes and then adds to
 * len what it wrote. */
char *buf_room(struct buf *buf, size_t bytes);
/* Drop the first `bytes`; what is behind moves to the front. */
void buf_consume(struct buf *buf, size_t bytes);
void buf_clear(struct buf *buf);
void buf_done(struct buf *buf);

static inline struct str buf_str(const struct buf *buf)
{
    return (struct str){buf->p ? buf->p : "", buf->len};
}
