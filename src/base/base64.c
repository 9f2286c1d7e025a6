#include "base/base64.h"

#include "base/arena.h"

#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

bool base64_decode(struct arena *arena, struct str text, struct str *ret)
{
    char *out = arena_alloc(arena, text.len / 4 * 3 + 4, 1, 1);
    size_t len = 0;
    size_t digits = 0;
    uint32_t bits = 0;
    bool padding = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        int value = value_of(c);

        if (c == '\n' || c == '\r')
            continue;
        if (c == '=') {
            padding = true;
            continue;
        }
        if (value < 0 || padding)
            return false;
        bits = bits << 6 | (uint32_t)value;
        if (++digits % 4 != 1)
            out[len++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
    }
    if (digits % 4 == 1)
        return false;
    *ret = (struct str){out, len};
    return true;
}

struct str base64_encode(struct arena *arena, struct str bytes)
{
    char *out = arena_alloc(arena, (bytes.len + 2) / 3 * 4 + 1, 1, 1);
    size_t len = 0;

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t bits = (uint32_t)(unsigned char)bytes.p[i] << 16;

        if (left > 1)
            bits |= (uint32_t)(unsigned char)bytes.p[i + 1] << 8;
        if (left > 2)
            bits |= (unsigned char)bytes.p[i + 2];
        out[len++] = alphabet[bits >> 18];
        out[len++] = alphabet[bits >> 12 & 63];
        out[len++] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        out[len++] = left > 2 ? alphabet[bits & 63] : '=';
    }
    return (struct str){out, len};
}
