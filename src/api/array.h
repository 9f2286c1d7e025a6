#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;

/* array: the indexes of a job array, as sbatch writes them: "0-9", "1,3,5-20:5". */
#define ARRAY_COUNT_MAX 1000 /* jobs of one array: each is an object with pods of its own */
#define ARRAY_INDEX_MAX 9999 /* four digits in the names of its jobs */

/* Label of the jobs of an array, and of their place in it. */
#define ARRAY_LABEL       "torchrun.ai/array"
#define ARRAY_LABEL_INDEX "torchrun.ai/array-index"

/* Annotation of those that were suspended with their array, and go on with it; one that somebody
 * suspended by hand does not have it. */
#define ARRAY_SUSPENDED "muster.dev/suspended-with-array"

struct array_indexes {
    const int64_t *items; /* ascending, each once */
    size_t count;
};

/* -EINVAL in words: not such a text, none, too many, or too large. */
int array_parse(struct arena *arena, struct str text, struct array_indexes *ret, struct err *err);
/* The same as a text, as short as it can be without steps: "0-3,7". */
struct str array_text(struct arena *arena, const struct array_indexes *indexes);
