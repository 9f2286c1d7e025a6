#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct unicode_range;

/* regex_parts: what a pattern is made into, for what makes it and what runs it. */

enum step_op {
    STEP_SET,   /* one character in ranges */
    STEP_SPLIT, /* go on at `to` and at `other` */
    STEP_JUMP,
    STEP_BEGIN,
    STEP_END,
    STEP_WORD,     /* \b */
    STEP_NOT_WORD, /* \B */
    STEP_MATCH,
};

/* Of Unicode: sorted, so that a character is found in few steps. */
struct large_class {
    struct str name;
    bool fold;
    bool inverse;
    const struct unicode_range *ranges;
    size_t count;
};

struct step {
    enum step_op op;
    uint32_t to;
    uint32_t other;
    const struct unicode_range *ranges;
    const struct large_class *classes;
    uint32_t range_count;
    uint32_t class_count;
    bool negated;
};

struct regex {
    const struct step *steps;
    size_t count;
};

/* The next code point; texts are valid UTF-8 because JSON is. */
uint32_t regex_decode(struct str text, size_t *at);
