#pragma once

#include <stdint.h>

struct arena;
struct buf;
struct json;
struct kind_column;

/* column: a printer column of a CustomResourceDefinition, evaluated. Pure.
 *
 * The JSONPath subset that printer columns use: .a.b, ['a'], [0], [-1:], [*], [?(@.a=="b")] and \.
 * inside a name. A path that finds nothing gives an empty cell (null), one that finds several
 * values gives the first, as in Kubernetes. Dates become ages. */
void column_cell(struct arena *arena,
                 struct buf *buf,
                 const struct kind_column *column,
                 const struct json *root,
                 int64_t now_ms);
/* What the path finds first, or NULL. */
const struct json *column_find(struct arena *arena, const struct json *root, const char *path);
