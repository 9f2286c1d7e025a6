#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct json;
struct object;
struct object_label;

/* selector: which objects a list, a watch or a Service means.
 *
 * Label selectors: "a=b,c!=d,e in (f,g),!h,i,j notin (k)". Field selectors: "metadata.name=x,
 * status.phase!=Failed"; which fields there are depends on the kind. A selector lives on the arena
 * it was parsed with; its texts point into the text that was parsed. The zero selector matches
 * everything. */
#define SELECTOR_TERMS_MAX  1000
#define SELECTOR_VALUES_MAX 1000

enum selector_op {
    SELECTOR_IN, /* also = and == */
    SELECTOR_NOT_IN,
    SELECTOR_EXISTS,
    SELECTOR_ABSENT,
    SELECTOR_GREATER,
    SELECTOR_LESS,
};

struct selector_term {
    struct str key;
    enum selector_op op;
    const struct str *values;
    size_t value_count;
};

struct selector {
    const struct selector_term *terms;
    size_t term_count;
};

/* What an object chooses by spec.selector: a LabelSelector or, of core kinds, a plain map of labels.
 * Read when somebody first asks, and kept as long as the object: every pod that changes asks all that
 * might choose it. NULL: it has none, or one that cannot be read. */
const struct selector *object_selector(const struct object *object);
struct selector_kept;
void selector_kept_free(struct selector_kept *kept); /* NULL is fine */

/* -EINVAL with words when the text is no selector. */
int selector_parse_labels(struct arena *arena,
                          struct str text,
                          struct selector *ret,
                          struct err *err);
int selector_parse_fields(struct arena *arena,
                          struct str text,
                          struct selector *ret,
                          struct err *err);
/* A LabelSelector as in specs: {"matchLabels": {...}, "matchExpressions": [...]}. NULL selects
 * nothing by convention of its users; here it is the selector that matches everything, as {} is. */
int selector_from_json(struct arena *arena,
                       const struct json *value,
                       struct selector *ret,
                       struct err *err);

bool selector_matches(const struct selector *selector,
                      const struct object_label *labels,
                      size_t label_count);
bool selector_matches_json(const struct selector *selector, const struct json *labels);
/* metadata.name and metadata.namespace are answered without a tree; others parse the object. */
bool selector_matches_fields(const struct selector *selector, const struct object *object);
