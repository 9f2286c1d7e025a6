#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

/* pickle: the plain values in a file of Python's pickle: no object is made, no name is looked up, nothing
 * is called. Opcodes that would do so are refused; so are all that PyTorch's own writer of plain values
 * and Python's, protocols 2 to 5, do not use for None, numbers, strings, lists, tuples and dicts.
 *
 * Pure. A value may be in several places, so what is read is a graph, and may have rings: go to what
 * you know by name, do not walk it. */
#define PICKLE_BYTES_MAX ((size_t)16 << 20)
/* Values, of some 50 bytes each, and references to them, of some 30. A recorder of 2,000 entries with 20
 * frames each has 400,000. */
#define PICKLE_VALUES_MAX 1000000
#define PICKLE_DEPTH_MAX  64 /* marks that are open */

enum pickle_type {
    PICKLE_NONE, /* None, and floats, which nobody asks for */
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_STR,
    PICKLE_LIST, /* and tuples */
    PICKLE_DICT,
};

struct pickle_value;
struct pickle_values VEC_FIELDS(struct pickle_value *);

struct pickle_value {
    enum pickle_type type;
    int64_t number;             /* of BOOL and INT */
    struct str text;            /* points into what was read */
    struct pickle_values items; /* of a dict key, value, key, value */
};

/* The value that the file is, or NULL and why. */
struct pickle_value *pickle_read(struct arena *arena, struct str bytes, struct err *err);

/* NULL where there is none: all of these take NULL, and values of any type. */
const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key);
const struct pickle_value *pickle_at(const struct pickle_value *list, size_t index);
struct str pickle_str(const struct pickle_value *value);
int64_t pickle_i64(const struct pickle_value *value, int64_t otherwise);
