#pragma once

#include "cel/ast.h"
#include "cel/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* guess: what the estimate knows of one part of an expression. Nothing overflows: what is too much
 * stays at UINT64_MAX. */
struct guess_size {
    uint64_t min;
    uint64_t max;
};

/* Where a value is in the object: the shapes on the way to it, the object's own first. NULL: the
 * schema does not say from there on. */
struct guess_path {
    const struct shape **steps;
    size_t count;
    size_t capacity;
};

/* Of the members of a list or map that the expression makes. */
struct guess_entry {
    bool known;
    bool list;
    struct guess_size key;
    struct guess_size value;
};

struct guess {
    uint64_t cost;
    const struct shape *type; /* never NULL */
    struct guess_path path;
    bool sized;
    struct guess_size size;
    struct guess_entry entry;
    const struct guess *variable; /* of a name: what it stands for */
};

uint64_t guess_add(uint64_t a, uint64_t b);
uint64_t guess_multiply(uint64_t a, uint64_t b);
/* Rounded up. */
uint64_t guess_part(uint64_t of, double factor);
struct guess_size guess_both(struct guess_size a,
                             struct guess_size b); /* of one behind the other */
struct guess_size guess_either(struct guess_size a, struct guess_size b); /* of one or the other */

/* What a unit of cost moves: ten bytes of text, or four of a pattern. */
#define GUESS_TEXT    0.1
#define GUESS_PATTERN 0.25

/* False: nothing is known of it. What is found at the path is kept. */
bool guess_size(struct guess *guess, struct guess_size *ret);
/* Anything, where nothing is known. */
struct guess_size guess_size_or_any(struct guess *guess);

/* The path of a member; an empty one becomes that of `first`. Paths share what they were made from as
 * long as there is room, so that one overwrites the end of another that was made from the same, as in
 * Kubernetes: it counts what stands there when it looks. */
struct guess_path guess_step(struct arena *arena,
                             const struct shape *first,
                             struct guess_path path,
                             const struct shape *step);
const struct shape *guess_at(struct guess_path path);

/* What a call costs and gives. `args` have the receiver first. */
void guess_call(struct arena *arena,
                const struct cel_node *node,
                struct guess *args,
                struct guess *ret);
/* The same of an operator with two operands. */
void guess_operator(enum cel_op op, struct guess *args, struct guess *ret);
