#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct schema;

/* typed: what the type of a value will be, known before there is one. Types fit each other as in
 * cel-go, which Kubernetes has: dyn fits everything, null what may be null, and a type that is not
 * known yet (of the items of [], say) becomes what it is first held against. */
struct typed {
    enum cel_type type;          /* CEL_DYN: nothing is known */
    uint32_t unknown;            /* not known yet: from 1 on, which one it is; 0: it is known */
    bool object;                 /* a CEL_MAP with the fields that its schema names */
    bool resource;               /* the root of one, with apiVersion, kind and metadata */
    const struct schema *schema; /* of an object: two are of one type where this is the same */
    const struct typed_field *fields; /* of an object that has none */
    size_t field_count;
    const struct typed *key;  /* of a map */
    const struct typed *item; /* of a list, a map or an optional */
};

struct typed_field {
    struct str name;
    const struct typed *typed;
};

struct typed_change {
    uint32_t unknown;
    const struct typed *before;
};

/* What is found out while an expression is gone through. */
struct typing {
    struct arena *arena;
    VEC(const struct typed *) known; /* of each unknown; NULL: not yet */
    VEC(struct typed_change) changes;
    uint64_t steps; /* past TYPED_STEPS_MAX nothing fits: a type may name another one twice */
};
#define TYPED_STEPS_MAX 1000000

/* What is no list, map or object. */
const struct typed *typed_simple(enum cel_type type);
/* A list or an optional of `item`, or a map from `key` to it. */
const struct typed *typed_holding(struct arena *arena,
                                  enum cel_type type,
                                  const struct typed *key,
                                  const struct typed *item);
/* NULL: expressions cannot see it, because its type or that of its items is not said. */
const struct typed *typed_schema(struct arena *arena, const struct schema *schema, bool resource);
const struct typed *typed_unknown(struct typing *typing);

/* Can `a` stand where `b` is wanted? What was not known is known then. */
bool typed_fits(struct typing *typing, const struct typed *a, const struct typed *b);
/* The type with all that is known now; `all`: what is not is dyn. */
const struct typed *typed_now(struct typing *typing, const struct typed *of, bool all);
/* The one of two, which fit each other, that says less. */
const struct typed *typed_wider(const struct typed *a, const struct typed *b);
bool typed_same(const struct typed *a, const struct typed *b);

/* What a function gives for these arguments: NULL: it takes none such. It has one way to be called,
 * or several with blanks between: "ss>i [A]A>i" takes two texts, or a list of anything and such a
 * thing, and gives a number. b bool, i int, u uint, d double, s string, y bytes, n null, t timestamp,
 * D duration, T type, U URL, I IP, C CIDR, Q quantity, V version, F format, * anything, [X] list,
 * {KV} map, ?X optional, A and B types of whatever is given. */
const struct typed *typed_call(struct typing *typing,
                               const char *ways,
                               const struct typed *const *args,
                               size_t count);

/* As Kubernetes writes it: "list(string)", "map(string, int)"; of an object "object". */
struct str typed_text(struct arena *arena, const struct typed *typed);
/* "int", or dyn of the last. */
static inline bool typed_is(const struct typed *typed, enum cel_type type)
{
    return typed->type == type && !typed->unknown;
}
