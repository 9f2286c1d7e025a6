#pragma once

#include <stdint.h>

struct arena;
struct cel_program;
struct shape;

/* estimate: what an expression may cost at worst, from its text and from the sizes that a schema
 * allows; UINT64_MAX where nothing bounds it. It is counted as Kubernetes 1.33 counts, in all its
 * peculiarities, so that the same rules are refused: the cost that evaluating counts is another one.
 *
 * All variables are of the shape `root`: `self` and `oldSelf`, or `device`. */
uint64_t cel_estimate(struct arena *arena,
                      const struct cel_program *program,
                      const struct shape *root);
