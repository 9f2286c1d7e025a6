#pragma once

#include "base/str.h"

struct arena;

/* sha1: where a protocol demands this hash (names and labels others made with it). Not for
 * security. */
#define SHA1_TEXT_LEN 40

/* Forty hexadecimal digits, lower case. */
struct str sha1_text(struct arena *arena, struct str data);
