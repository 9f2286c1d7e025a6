#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct err;
struct json;
struct kind;
struct object;

/* conversion: ConversionReview v1, asked and answered. Pure.
 *
 * A webhook may change everything of an object but what it is: apiVersion is the one that was asked
 * for, kind, name, namespace and uid are the same, and of the metadata only labels and annotations
 * are taken from the answer. */

/* One question. */
struct conversion {
    struct str uid;
    const struct kind *to;
    const struct object *const *objects; /* which are of other versions */
    size_t count;
};

struct str conversion_write(struct arena *arena, const struct conversion *conversion);

/* One tree for each of the objects, in their order; some of its strings point into them. -EINVAL: it
 * is no answer to that question, or says that it failed; the words say why. */
int conversion_read(struct arena *arena,
                    const struct conversion *conversion,
                    struct str body,
                    struct json **ret,
                    struct err *err);
