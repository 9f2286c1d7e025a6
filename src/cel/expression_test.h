#pragma once

#include "cel/cel.h"

#include <stddef.h>
#include <stdint.h>

struct arena;

/* expression_test: expressions for unit tests, over one variable `self` of no schema. */

/* An expression, and the words of the error that it gives or is refused with. */
struct expression_error {
    const char *text;
    const char *words;
};

/* What it gives with a JSON value as `self`. Types are compared when it is evaluated. What does not
 * compile is an error with those words. */
struct cel_result expression_value(struct arena *arena,
                                   const char *text,
                                   const char *self,
                                   uint64_t cost_max);
/* Every one gives true with `self`. */
void expression_all_true(const char *const *texts, size_t count, const char *self);
/* Every one gives an error of just these words, and was not stopped. */
void expression_all_fail(const struct expression_error *rows, size_t count, const char *self);
