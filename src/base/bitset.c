#include "base/bitset.h"

#include "base/vec.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static void grow(struct bitset *set, size_t words)
{
    struct {
        uint64_t *items;
        size_t count;
        size_t capacity;
    } vec = {set->words, set->count, set->capacity};

    while (vec.count < words)
        VEC_PUSH(NULL, &vec, 0);
    *set = (struct bitset){vec.items, vec.count, vec.capacity};
}

void bitset_add(struct bitset *set, size_t member)
{
    assert(member <= BITSET_MEMBER_MAX);
    grow(set, member / 64 + 1);
    set->words[member / 64] |= (uint64_t)1 << (member % 64);
}

void bitset_remove(struct bitset *set, size_t member)
{
    if (member / 64 < set->count)
        set->words[member / 64] &= ~((uint64_t)1 << (member % 64));
}

/* The lowest bit at or above `from` in the words, each turned over by `flip`. */
static size_t find(const struct bitset *set, size_t from, uint64_t flip)
{
    for (size_t i = from / 64; i < set->count; i++) {
        uint64_t word = set->words[i] ^ flip;

        if (i == from / 64)
            word &= UINT64_MAX << (from % 64);
        if (word)
            return i * 64 + (size_t)__builtin_ctzll(word);
    }
    return BITSET_NONE;
}

size_t bitset_next(const struct bitset *set, size_t from)
{
    return find(set, from, 0);
}

size_t bitset_next_free(const struct bitset *set, size_t from)
{
    size_t found = find(set, from, UINT64_MAX);

    if (found != BITSET_NONE)
        return found;
    return from > set->count * 64 ? from : set->count * 64;
}

size_t bitset_count(const struct bitset *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->count; i++)
        count += (size_t)__builtin_popcountll(set->words[i]);
    return count;
}

void bitset_add_all(struct bitset *set, const struct bitset *other)
{
    grow(set, other->count);
    for (size_t i = 0; i < other->count; i++)
        set->words[i] |= other->words[i];
}

void bitset_keep_all(struct bitset *set, const struct bitset *other)
{
    for (size_t i = 0; i < set->count; i++)
        set->words[i] &= i < other->count ? other->words[i] : 0;
}

void bitset_remove_all(struct bitset *set, const struct bitset *other)
{
    for (size_t i = 0; i < set->count && i < other->count; i++)
        set->words[i] &= ~other->words[i];
}

bool bitset_equal(const struct bitset *a, const struct bitset *b)
{
    size_t count = a->count > b->count ? a->count : b->count;

    for (size_t i = 0; i < count; i++)
        if ((i < a->count ? a->words[i] : 0) != (i < b->count ? b->words[i] : 0))
            return false;
    return true;
}

void bitset_clear(struct bitset *set)
{
    for (size_t i = 0; i < set->count; i++)
        set->words[i] = 0;
}

void bitset_done(struct bitset *set)
{
    vec_free(set->words);
    *set = (struct bitset){0};
}
