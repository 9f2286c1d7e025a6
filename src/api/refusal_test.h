#pragma once

#include <stddef.h>

struct kind;

/* The rules of single kinds, a row each: the field of the first cause, or nothing. */
struct refusal {
    const char *why;
    const struct kind *kind;
    const char *before; /* the spec that it replaces; NULL: it is new */
    const char *spec;
    const char *field;
};

/* Fails for each row that has another outcome. The object is n/q, JSON with ' for ". */
void refusals_play(const struct refusal *rows, size_t count);
/* `before` and `spec` are whole objects. */
void refusals_play_whole(const struct refusal *rows, size_t count);
