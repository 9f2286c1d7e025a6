#include "base/sha1.h"

#include "base/arena.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* FIPS 180-4. */

#define BLOCK 64

static uint32_t rotate(uint32_t value, unsigned count)
{
    return value << count | value >> (32 - count);
}

static uint32_t mix(size_t round, const uint32_t s[static 5], uint32_t *ret_constant)
{
    if (round < 20) {
        *ret_constant = 0x5a827999;
        return (s[1] & s[2]) | (~s[1] & s[3]);
    }
    if (round >= 40 && round < 60) {
        *ret_constant = 0x8f1bbcdc;
        return (s[1] & s[2]) | (s[1] & s[3]) | (s[2] & s[3]);
    }
    *ret_constant = round < 40 ? 0x6ed9eba1 : 0xca62c1d6;
    return s[1] ^ s[2] ^ s[3];
}

static void absorb(uint32_t hash[static 5], const unsigned char block[static BLOCK])
{
    uint32_t words[80];
    uint32_t s[5];

    for (size_t i = 0; i < 16; i++)
        words[i] = (uint32_t)block[i * 4] << 24 | (uint32_t)block[i * 4 + 1] << 16 |
                   (uint32_t)block[i * 4 + 2] << 8 | block[i * 4 + 3];
    for (size_t i = 16; i < 80; i++)
        words[i] = rotate(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
    memcpy(s, hash, sizeof(s));
    for (size_t i = 0; i < 80; i++) {
        uint32_t constant = 0;
        uint32_t mixed = mix(i, s, &constant);
        uint32_t first = rotate(s[0], 5) + mixed + s[4] + constant + words[i];

        s[4] = s[3];
        s[3] = s[2];
        s[2] = rotate(s[1], 30);
        s[1] = s[0];
        s[0] = first;
    }
    for (size_t i = 0; i < 5; i++)
        hash[i] += s[i];
}

struct str sha1_text(struct arena *arena, struct str data)
{
    static const char digits[] = "0123456789abcdef";
    uint32_t hash[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    char *text = ARENA_ARRAY(arena, char, SHA1_TEXT_LEN + 1);
    unsigned char block[BLOCK];
    uint64_t bits = (uint64_t)data.len * 8;
    size_t at = 0;

    for (; data.len - at >= BLOCK; at += BLOCK) {
        memcpy(block, data.p + at, BLOCK);
        absorb(hash, block);
    }
    size_t rest = data.len - at;
    memset(block, 0, BLOCK);
    if (rest)
        memcpy(block, data.p + at, rest);
    block[rest] = 0x80;
    if (rest >= BLOCK - 8) {
        absorb(hash, block);
        memset(block, 0, BLOCK);
    }
    for (size_t i = 0; i < 8; i++)
        block[BLOCK - 1 - i] = (unsigned char)(bits >> (8 * i));
    absorb(hash, block);
    for (size_t i = 0; i < SHA1_TEXT_LEN; i++)
        text[i] = digits[hash[i / 8] >> (28 - 4 * (i % 8)) & 15];
    return (struct str){text, SHA1_TEXT_LEN};
}
