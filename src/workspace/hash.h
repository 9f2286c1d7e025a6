#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* hash: the name of a piece of content, 128 bits of XXH3.
 *
 * It finds what changed and catches what was damaged on the way. It is no defence against a person
 * who builds two files with the same hash: both would be files of that person's own job, and nobody
 * else's workspace is ever looked up by hash. */
#define HASH_BYTES     16
#define HASH_HEX_BYTES 33 /* with the NUL */

struct hash {
    uint64_t high;
    uint64_t low;
};

static inline bool hash_eq(struct hash a, struct hash b)
{
    return a.high == b.high && a.low == b.low;
}

static inline bool hash_is_zero(struct hash hash)
{
    return hash.high == 0 && hash.low == 0;
}

/* The hash as a key of a map: its own bytes, which must live as long as the entry. */
static inline struct str hash_key(const struct hash *hash)
{
    return (struct str){(const char *)hash, sizeof(*hash)};
}

/* Sums modulo 2^128: the hash of a set is the sum of its members' hashes, in any order. */
struct hash hash_plus(struct hash a, struct hash b);
struct hash hash_minus(struct hash a, struct hash b);

struct hash hash_of(struct str bytes);
/* Everything that can be read from `fd`, from its beginning; returns the byte count or -errno. */
int64_t hash_fd(int fd, struct hash *ret);
/* The same a piece at a time. hasher_end() gives the memory back; `ret` may be NULL. */
struct hasher;
struct hasher *hasher_new(void);
void hasher_add(struct hasher *hasher, struct str bytes);
void hasher_end(struct hasher *hasher, struct hash *ret);

/* Sixteen bytes, most significant first. */
void hash_put(struct hash hash, unsigned char out[static HASH_BYTES]);
struct hash hash_take(const unsigned char in[static HASH_BYTES]);
/* 32 hex digits and a NUL, in `out`; returns `out`. */
const char *hash_hex(struct hash hash, char out[static HASH_HEX_BYTES]);
bool hash_parse(struct str hex, struct hash *ret);
