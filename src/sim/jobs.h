#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct kind;
struct rng;

/* jobs: a job of every kind that a controller of ours runs, as people of the simulator write them.
 * Sizes, restarts and what the pods ask for (whole GPUs, shares, none) are random. */
struct job_form {
    const struct kind *kind;
    const char *prefix; /* of names */
    const char *body;   /* see jobs.c */
};

extern const struct job_form job_forms[];
extern const size_t job_form_count;
extern const size_t job_form_count_wide; /* with those of sim_options.wide, which come last */

struct job_wish {
    struct rng *rng;
    const char *name;
    const char *queue;
    const char *user; /* a further label, with its comma; or empty */
};
/* As JSON, in `arena`. */
struct str job_body(struct arena *arena, const struct job_form *form, const struct job_wish *wish);
