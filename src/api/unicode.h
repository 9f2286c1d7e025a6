#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* unicode: which characters are letters, digits, Greek and so on. */
struct unicode_range {
    uint32_t low;
    uint32_t high;
};

/* The characters of a general category ("L" of all letters, "Lu" of large ones), of a script
 * ("Greek") or "Any", in ranges that are sorted and apart. `fold`: what is large, small or titled
 * is all three. False: there is none of that name. */
bool unicode_class(struct arena *arena,
                   struct str name,
                   bool fold,
                   const struct unicode_range **ret,
                   size_t *ret_count);

/* unicode_data.c */
extern const char unicode_runs[];
extern const char unicode_categories[];
extern const char unicode_scripts[];
