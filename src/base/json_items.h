#pragma once

#include "base/str.h"

#include <stdbool.h>

struct json;

/* json_items: items of a list that go, in one pass. json_index() walks to an item, so a loop over the indexes of a list takes
 * quadratic time, and a client chooses how many there are. */
typedef bool json_keep_fn(const struct json *item, const void *user);
void json_filter(struct json *array, json_keep_fn *keep, const void *user);
/* All whose member has that text; NULL: that are that text. */
void json_drop_items(struct json *array, const char *member, struct str text);
