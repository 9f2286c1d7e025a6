#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;

/* large: texts for the tests of what a request may cost. */

/* `count` items with commas between them, each its index between `before` and `after`. */
struct str large_list(struct arena *arena, size_t count, const char *before, const char *after);
/* A word of so many bytes. */
struct str large_word(struct arena *arena, size_t bytes);
