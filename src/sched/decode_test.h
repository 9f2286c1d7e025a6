#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "sched/decode.h"
#include "sched/sched.h"

#include <stdbool.h>

struct kind;
struct object;

/* decode_test: an object of the API as the core reads it, for unit tests. Texts are JSON with '
 * for ". */
struct reading {
    struct arena arena;
    struct sched_config config; /* the defaults; may be changed before it is read */
    struct object *object;
    struct err err;
    struct decode decode;
};
void reading_open(struct reading *reading, const struct kind *kind, const char *text);
void reading_close(struct reading *reading);
/* Whether what was wrong has these words; NULL: nothing was. */
bool reading_says(const struct reading *reading, const char *words);

/* A reference. */
struct object *object_quoted(struct arena *arena, const struct kind *kind, const char *text);
