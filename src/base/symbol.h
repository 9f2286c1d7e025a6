#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdint.h>

/* symbol: names as small numbers, so that what compares them all day compares integers.
 *
 * Labels, resources and queue names repeat; a table keeps one copy of each and numbers them from 1
 * in the order they came. The number of a name never changes while the table lives. A table only
 * grows, up to SYMBOLS_MAX: give names that come and go (pods) a table that goes with them. */
#define SYMBOLS_MAX ((uint32_t)1 << 24)
#define SYMBOL_NONE ((uint32_t)0)

struct symbols {
    struct map numbers;
    VEC(struct str) names;
    struct arena texts;
};

/* The number of the name, a new one if need be; SYMBOL_NONE when the table is full. */
uint32_t symbol_add(struct symbols *symbols, struct str name);
/* SYMBOL_NONE for a name that was never added. */
uint32_t symbol_find(const struct symbols *symbols, struct str name);
/* The name; STR_NONE for SYMBOL_NONE and numbers that were never given out. */
struct str symbol_name(const struct symbols *symbols, uint32_t symbol);
void symbols_done(struct symbols *symbols);
