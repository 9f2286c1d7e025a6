#include "base/buf.h"

#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAPACITY_MIN ((size_t)256)

char *buf_room(struct buf *buf, size_t bytes)
{
    size_t bytes_max = buf->bytes_max ? buf->bytes_max : BUF_BYTES_MAX;

    if (buf->overflow || bytes > bytes_max || buf->len > bytes_max - bytes) {
        buf->overflow = true;
        return NULL;
    }
    size_t needed = buf->len + bytes + 1;
    if (needed > buf->capacity) {
        size_t capacity = buf->capacity ? buf->capacity : CAPACITY_MIN;

        while (capacity < needed)
            capacity *= 2;
        if (capacity > bytes_max + 1)
            capacity = bytes_max + 1;
        char *grown = realloc(buf->p, capacity);
        if (!grown)
            mem_exhausted();
        buf->p = grown;
        buf->capacity = capacity;
    }
    return buf->p + buf->len;
}

void buf_add_grow(struct buf *buf, struct str s)
{
    char *room = buf_room(buf, s.len);

    if (!room)
        return;
    if (s.len)
        memcpy(room, s.p, s.len);
    buf->len += s.len;
    buf->p[buf->len] = '\0';
}

void buf_addf(struct buf *buf, const char *fmt, ...)
{
    va_list args;
    va_list again;

    va_start(args, fmt);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    assert(len >= 0);

    char *room = buf_room(buf, (size_t)len);
    if (room) {
        (void)vsnprintf(room, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void buf_consume(struct buf *buf, size_t bytes)
{
    assert(bytes <= buf->len);
    if (bytes == 0)
        return;
    memmove(buf->p, buf->p + bytes, buf->len - bytes);
    buf->len -= bytes;
    buf->p[buf->len] = '\0';
}

void buf_clear(struct buf *buf)
{
    buf->len = 0;
    buf->overflow = false;
    if (buf->p)
        buf->p[0] = '\0';
}

void buf_done(struct buf *buf)
{
    free(buf->p);
    *buf = (struct buf){.bytes_max = buf->bytes_max};
}

void buf_add_label(struct buf *buf, struct str value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.p[i] == '\n') {
            buf_add(buf, STR("\\n"));
            continue;
        }
        if (value.p[i] == '\\' || value.p[i] == '"')
            buf_addc(buf, '\\');
        buf_addc(buf, value.p[i]);
    }
}

void buf_add_html(struct buf *buf, struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        switch (text.p[i]) {
        case '<': buf_add(buf, STR("&lt;")); break;
        case '>': buf_add(buf, STR("&gt;")); break;
        case '&': buf_add(buf, STR("&amp;")); break;
        case '"': buf_add(buf, STR("&quot;")); break;
        default: buf_addc(buf, text.p[i]);
        }
}

void buf_add_percent(struct buf *buf, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     c == '-' || c == '.' || c == '_' || c == '~';

        if (plain)
            buf_addc(buf, c);
        else
            buf_addf(buf, "%%%02X", (unsigned)(unsigned char)c);
    }
}
