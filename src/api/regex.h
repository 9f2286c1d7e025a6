#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct arena;
struct err;
struct regex;

/* regex: the `pattern` of schemas, in the syntax Kubernetes takes (RE2's): literals, . [] [^]
 * [[:alpha:]] \d \w \s \pL \p{Greek} and their capitals, ^ $ \b \B, groups, |, * + ? {n,m} and their lazy forms,
 * (?:...), (?i). No back references, no look-around: they do not exist in RE2 either.
 *
 * The pattern comes from whoever may write a CRD, the text from whoever may write an object, so
 * both costs are bounded: a compiled pattern has at most REGEX_STEPS_MAX steps, and a match takes
 * time proportional to steps times text, whatever the pattern. */
#define REGEX_BYTES_MAX  4096
#define REGEX_STEPS_MAX  8192
#define REGEX_REPEAT_MAX 1000
#define REGEX_DEPTH_MAX  100

/* -EINVAL: not a pattern, or one we do not have; -E2BIG: beyond the bounds. */
int regex_compile(struct arena *arena, struct str pattern, struct regex **ret, struct err *err);

size_t regex_steps(const struct regex *regex);
/* How many comparisons a match takes at most for each character of the text: of its steps, and of the
 * ranges of each. */
size_t regex_work(const struct regex *regex);

/* Is there a match anywhere in the text? (Anchor the pattern to match all of it.) */
bool regex_matches(const struct regex *regex, struct str text);

/* The match that begins first at or behind `from`, and of those that begin there the one that the
 * pattern prefers: a|b the left one, a* the longest, a*? the shortest. *ret points into the text,
 * which is set. */
bool regex_find(const struct regex *regex, struct str text, size_t from, struct str *ret);
