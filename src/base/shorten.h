#pragma once

#include "base/str.h"

#include <stddef.h>

/* shorten: what a person reads, where there is room for `max` bytes of it. It ends behind a word, and
 * with "..."; a text without spaces is cut between two characters. */
#define SHORTEN_MORE "..."

struct str str_shorten(struct arena *arena, struct str s, size_t max);
/* How much of `s` that is. */
size_t str_shortened_len(struct str s, size_t max);
