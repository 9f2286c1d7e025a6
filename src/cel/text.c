#include "cel/text.h"

#include "base/buf.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

bool text_add_code(struct buf *buf, uint32_t code)
{
    char out[4];
    size_t len = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};

    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return false;
    for (size_t i = len; i-- > 1; code >>= 6)
        out[i] = (char)(unsigned char)(0x80 | (code & 0x3f));
    out[0] = (char)(unsigned char)(first[len] | code);
    buf_add(buf, (struct str){out, len});
    return true;
}

uint32_t text_next(struct str text, size_t *at)
{
    size_t len = str_utf8_len(str_sub(text, *at, 4));
    unsigned char first = (unsigned char)text.p[*at];

    if (len < 2) {
        (*at)++;
        return len ? first : 0xfffd;
    }
    uint32_t code = first & (0x7fU >> len);
    for (size_t i = 1; i < len; i++)
        code = code << 6 | ((unsigned char)text.p[*at + i] & 0x3fU);
    *at += len;
    return code;
}

int text_hex(char c)
{
    char lower = (char)(c | 0x20);

    if (c >= '0' && c <= '9')
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

size_t text_count(struct str text)
{
    size_t count = 0;

    for (size_t at = 0; at < text.len; count++)
        (void)text_next(text, &at);
    return count;
}

size_t text_offset(struct str text, size_t index)
{
    size_t at = 0;

    while (index-- > 0 && at < text.len)
        (void)text_next(text, &at);
    return at;
}

size_t text_find(struct str text, struct str needle, size_t from)
{
    for (size_t at = from; needle.len <= text.len && at <= text.len - needle.len; at++)
        if (!needle.len || memcmp(text.p + at, needle.p, needle.len) == 0)
            return at;
    return SIZE_MAX;
}

size_t text_find_last(struct str text, struct str needle, size_t from)
{
    if (needle.len > text.len)
        return SIZE_MAX;
    size_t start = text.len - needle.len < from ? text.len - needle.len : from;
    for (size_t at = start + 1; at-- > 0;)
        if (!needle.len || memcmp(text.p + at, needle.p, needle.len) == 0)
            return at;
    return SIZE_MAX;
}
