#pragma once

#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>

struct arena;
struct buf;
struct err;

/* yaml: text to the same tree that base/json.h gives, and back.
 *
 * Plain scalars mean what they mean to kubectl: YAML 1.1 with Go's numbers. yes, on and y are true,
 * no, off and n are false (also as member names: `on: 1` is the member "true"), 0x1f, 0o17, 017 and
 * 0b1 are whole numbers, 1_000 is 1000, ~ and nothing are null; dates are strings. Merge keys (<<)
 * work, what the mapping says itself wins. Anchors are expanded: an alias is a copy, and the copies
 * of one text have a bound, so a small text cannot become a large tree. A text that starts with {
 * is tried as JSON first.
 *
 * The tree shares nothing with the text. Errors name line and column. */
#define YAML_BYTES_MAX     ((size_t)16 << 20)
#define YAML_DEPTH_MAX     128
#define YAML_DOCUMENTS_MAX 10000
#define YAML_COPIES_MAX \
    100000 /* nodes that aliases and merge keys may add, all documents together */
/* Of one document, keys and empty documents before it included: libyaml takes a microsecond for each, and whoever may write an object
 * sends three million bytes to a loop that serves everybody. An object of a megabyte has some 60,000. */
#define YAML_VALUES_MAX 100000

struct json_vec VEC_FIELDS(struct json *);

/* Every document of the text that is not empty. Returns 0, or -EINVAL or -E2BIG. */
int yaml_parse_all(struct arena *arena, struct str text, struct json_vec *ret, struct err *err);
/* Exactly one document of YAML_VALUES_MAX values; an empty text gives null. */
int yaml_parse(struct arena *arena, struct str text, struct json **ret, struct err *err);

/* One document as `kubectl -o yaml` lays it out, without a leading "---". */
void yaml_write(struct buf *buf, const struct json *value);
