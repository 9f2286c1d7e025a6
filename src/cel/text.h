#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* text: code points of UTF-8, which is how CEL counts text. */

/* False: no character has that number. */
bool text_add_code(struct buf *buf, uint32_t code);
/* The code point at *at, which moves behind it; U+FFFD for a byte that begins none. */
uint32_t text_next(struct str text, size_t *at);
/* What a hexadecimal digit counts; -1: it is none. */
int text_hex(char c);
/* How many code points. */
size_t text_count(struct str text);
/* Where the code point `index` begins; text.len at and behind the end. */
size_t text_offset(struct str text, size_t index);
/* Where `needle` is first found at or behind `from`, or last at or before it; SIZE_MAX: nowhere. */
size_t text_find(struct str text, struct str needle, size_t from);
size_t text_find_last(struct str text, struct str needle, size_t from);
