#include "base/base64.h"

#include "base/arena.h"

#include <stdint.h>

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

/* All 64 digits, the last two being what the alphabets differ in. */
static const char ordinary[] = LETTERS_AND_DIGITS "+/";
static const char for_urls[] = LETTERS_AND_DIGITS "-_";

static int value_of(const char alphabet[static 64], char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == alphabet[62])
        return 62;
    return c == alphabet[63] ? 63 : -1;
}

/* `lenient`: line breaks and padding are skipped. */
static bool decode(struct arena *arena,
                   const char alphabet[static 64],
                   bool lenient,
                   struct str text,
                   struct str *ret)
{
    char *out = arena_alloc(arena, text.len / 4 * 3 + 4, 1, 1);
    size_t len = 0;
    size_t digits = 0;
    uint32_t bits = 0;
    bool padding = false;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        int value = value_of(alphabet, c);

        if (lenient && (c == '\n' || c == '\r'))
            continue;
        if (lenient && c == '=') {
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

static struct str encode(struct arena *arena,
                         const char alphabet[static 64],
                         bool padded,
                         struct str bytes)
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
        if (left > 1 || padded)
            out[len++] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        if (left > 2 || padded)
            out[len++] = left > 2 ? alphabet[bits & 63] : '=';
    }
    return (struct str){out, len};
}

bool base64_decode(struct arena *arena, struct str text, struct str *ret)
{
    return decode(arena, ordinary, true, text, ret);
}

struct str base64_encode(struct arena *arena, struct str bytes)
{
    return encode(arena, ordinary, true, bytes);
}

bool base64url_decode(struct arena *arena, struct str text, struct str *ret)
{
    return decode(arena, for_urls, false, text, ret);
}

struct str base64url_encode(struct arena *arena, struct str bytes)
{
    return encode(arena, for_urls, false, bytes);
}
