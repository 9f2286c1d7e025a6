#pragma once

#include "base/str.h"

#include <stdint.h>

struct arena;
struct err;
struct json;

/* quantity: amounts as Kubernetes writes them: "500m", "1.5", "4Gi", "2e3", "100n".
 *
 * Suffixes: n u m (none) k M G T P E, Ki Mi Gi Ti Pi Ei, or a decimal exponent. Values are exact to
 * a billionth and at most INT64_MAX whole units. Finer fractions, and the readers' fractions of
 * their own unit, are rounded up (away from zero), as Kubernetes does: nobody gets less than was
 * asked for. */
enum quantity_format {
    QUANTITY_DECIMAL,
    QUANTITY_BINARY,
    QUANTITY_EXPONENT,
};

#define QUANTITY_NANO ((__int128)1000000000) /* of one */

struct quantity {
    __int128 nano;
    enum quantity_format format; /* how it was written, for writing it again */
};

/* -EINVAL: not a quantity; -ERANGE: too large. *ret is untouched then, and err says what is
 * allowed. */
int quantity_parse(struct str text, struct quantity *ret, struct err *err);
/* Thousandths: for CPUs. */
int quantity_milli(struct str text, int64_t *ret, struct err *err);
/* Whole units: for bytes and device counts. */
int quantity_whole(struct str text, int64_t *ret, struct err *err);

/* A JSON string or number; absent and null are 0. */
int quantity_parse_json(const struct json *value, struct quantity *ret, struct err *err);
int quantity_milli_json(const struct json *value, int64_t *ret, struct err *err);
int quantity_whole_json(const struct json *value, int64_t *ret, struct err *err);

/* -1, 0, 1. */
int quantity_cmp(struct quantity a, struct quantity b);
/* The canonical text: the largest suffix of its format that leaves no fraction. */
struct str quantity_text(struct arena *arena, struct quantity quantity);
