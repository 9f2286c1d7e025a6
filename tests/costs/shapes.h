#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct json;
struct kind;
struct kinds;

/* shapes: what an object can be large in, from the tables of types and the schemas of CRDs.
 *
 * Every kind is walked from its root. A message is looked at where it is met first: each of its lists,
 * maps and texts is a shape. Besides each kind has one in which everything is large at once. */
enum shape_form {
    SHAPE_TEXT,  /* one long text */
    SHAPE_LIST,  /* many items, with what they must have */
    SHAPE_CHAIN, /* many items, with all of their texts: each names the one before */
    SHAPE_MAP,
    SHAPE_WHOLE, /* every list and map of the object, or the pods it makes */
};

#define SHAPE_DEPTH_MAX 24 /* further in nothing is looked at */

struct shape {
    const struct kind *kind;
    enum shape_form form;
    bool status;     /* it is in the status, which is written by itself */
    struct str path; /* "spec.subGroups" */
    const void *place;
};

struct shapes {
    struct arena *arena;
    const struct kinds *kinds;
    VEC(struct shape) list;
};

/* All of them, in the order of the kinds. */
void shapes_make(struct shapes *shapes);
/* "scheduling.run.ai/podgroups:spec.subGroups:chain" */
void shape_name(const struct shape *shape, char *ret, size_t bytes);
/* The smallest object of the kind that is accepted. */
struct json *shape_base(struct arena *arena, const struct kind *kind);
/* An object of that shape, as a text of about so many bytes. */
struct str shape_body(struct arena *arena, const struct shape *shape, size_t bytes);
