#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* bitset: a set of small numbers (nodes, GPUs, ports), 64 to a word.
 *
 * Zero-initialise; it grows when a member is added. A number that was never added is not in the
 * set, however large. Heap memory: release with bitset_done(). */
#define BITSET_MEMBER_MAX ((size_t)1 << 30)
#define BITSET_NONE       SIZE_MAX

struct bitset {
    uint64_t *words;
    size_t count; /* of words */
    size_t capacity;
};

void bitset_add(struct bitset *set, size_t member);
void bitset_remove(struct bitset *set, size_t member);
static inline bool bitset_has(const struct bitset *set, size_t member)
{
    return member / 64 < set->count && (set->words[member / 64] >> (member % 64) & 1);
}
/* The smallest member at or above `from`, or BITSET_NONE. */
size_t bitset_next(const struct bitset *set, size_t from);
/* The smallest number at or above `from` that is no member. */
size_t bitset_next_free(const struct bitset *set, size_t from);
size_t bitset_count(const struct bitset *set);
void bitset_add_all(struct bitset *set, const struct bitset *other);    /* union */
void bitset_keep_all(struct bitset *set, const struct bitset *other);   /* intersection */
void bitset_remove_all(struct bitset *set, const struct bitset *other); /* difference */
bool bitset_equal(const struct bitset *a, const struct bitset *b);
void bitset_clear(struct bitset *set);
void bitset_done(struct bitset *set);

#define BITSET_FOREACH(set, member)                                  \
    for (size_t member = bitset_next(set, 0); member != BITSET_NONE; \
         member = bitset_next(set, member + 1))
