#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>

struct arena;
struct err;
struct json;

/* query: the part of the jq language in which Karta objects say where something stands in another
 * object.
 *
 * There are paths (.a, .["a"], .a[0], .a[], with ? where it may be missing), strings, whole
 * numbers, true, false and null, (), [], if, the operators | , // or and == != < <= > >= + - * / %
 * and these functions: add all any empty endswith(s) has(k) keys length map(f) not select(f)
 * startswith(s) to_entries tonumber tostring type values. What is not among them is refused in
 * words when the query is read: nothing assigns, defines or recurses, so a query ends. Numbers are
 * whole; a division that is not even is an error. */
#define QUERY_BYTES_MAX   1024
#define QUERY_DEPTH_MAX   32     /* brackets within brackets */
#define QUERY_RESULTS_MAX 1024   /* of one query */
#define QUERY_STEPS_MAX   100000 /* a few milliseconds */

struct query;
typedef VEC(const struct json *) query_values;

/* -EINVAL with words. What is returned points into `text`. */
int query_read(struct arena *arena, struct str text, const struct query **ret, struct err *err);
/* Adds what the query says of `input` to *ret. */
int query_run(struct arena *arena,
              const struct query *query,
              const struct json *input,
              query_values *ret,
              struct err *err);
