#include "workspace/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct hash from_xxh(XXH128_hash_t value)
{
    return (struct hash){.high = value.high64, .low = value.low64};
}

struct hash hash_of(struct str bytes)
{
    return from_xxh(XXH3_128bits(bytes.len ? bytes.p : "", bytes.len));
}

struct hash hash_plus(struct hash a, struct hash b)
{
    struct hash sum = {.low = a.low + b.low};

    sum.high = a.high + b.high + (sum.low < a.low);
    return sum;
}

struct hash hash_minus(struct hash a, struct hash b)
{
    return (struct hash){.high = a.high - b.high - (a.low < b.low), .low = a.low - b.low};
}

/* Always on the heap: it is to lie at a multiple of 64, and a sanitizer's stack does not keep to
 * that. */
struct hasher {
    XXH3_state_t state;
};

struct hasher *hasher_new(void)
{
    struct hasher *hasher = aligned_alloc(_Alignof(struct hasher), sizeof(struct hasher));

    if (!hasher)
        abort();
    (void)XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void hasher_add(struct hasher *hasher, struct str bytes)
{
    (void)XXH3_128bits_update(&hasher->state, bytes.p, bytes.len);
}

void hasher_end(struct hasher *hasher, struct hash *ret)
{
    if (hasher && ret)
        *ret = from_xxh(XXH3_128bits_digest(&hasher->state));
    free(hasher);
}

int64_t hash_fd(int fd, struct hash *ret)
{
    struct hasher *hasher = hasher_new();
    char block[16384];
    int64_t total = 0;

    for (;;) {
        ssize_t got = pread(fd, block, sizeof(block), total);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            total = -errno;
            break;
        }
        if (got == 0)
            break;
        hasher_add(hasher, (struct str){block, (size_t)got});
        total += got;
    }
    hasher_end(hasher, total < 0 ? NULL : ret);
    return total;
}

void hash_put(struct hash hash, unsigned char out[static HASH_BYTES])
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (unsigned char)(hash.high >> (56 - 8 * i));
        out[8 + i] = (unsigned char)(hash.low >> (56 - 8 * i));
    }
}

struct hash hash_take(const unsigned char in[static HASH_BYTES])
{
    struct hash hash = {0};

    for (unsigned i = 0; i < 8; i++) {
        hash.high = hash.high << 8 | in[i];
        hash.low = hash.low << 8 | in[8 + i];
    }
    return hash;
}

const char *hash_hex(struct hash hash, char out[static HASH_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[HASH_BYTES];

    hash_put(hash, bytes);
    for (size_t i = 0; i < HASH_BYTES; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * HASH_BYTES] = '\0';
    return out;
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

bool hash_parse(struct str hex, struct hash *ret)
{
    unsigned char bytes[HASH_BYTES];

    if (hex.len != HASH_HEX_BYTES - 1)
        return false;
    for (size_t i = 0; i < HASH_BYTES; i++) {
        int high = digit(hex.p[2 * i]);
        int low = digit(hex.p[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    *ret = hash_take(bytes);
    return true;
}
