#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;

/* number: doubles from text and back. The pure layers have no strtod(), whose answer depends on the
 * locale anyway. */

/* "1", "-1.5e3", also "NaN", "inf" and "Infinity"; the nearest double. False: no number, or one
 * past the largest. */
bool number_parse(struct str text, double *ret);
/* The shortest text that is read as the same double, as Go writes it: 1.5, 1e+06, NaN, +Inf. */
struct str number_text(struct arena *arena, double value);
/* Towards zero; false: NaN, or outside of the type. */
bool number_to_i64(double value, int64_t *ret);
bool number_to_u64(double value, uint64_t *ret);
bool number_is_nan(double value);
bool number_is_infinite(double value);
