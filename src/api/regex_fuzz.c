#include "api/regex.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stddef.h>

/* A pattern up to the first line break, and a text behind it. A pattern is refused with words, or
 * it has at most so many steps: then a match costs steps times text, and what is found lies in the
 * text, exactly where there is a match at all. */
FUZZ(regex)
{
    size_t end = str_find(input, '\n');
    struct str text = str_sub(input, end < input.len ? end + 1 : end, input.len);
    struct arena arena = {0};
    struct regex *regex = NULL;
    struct err err = {0};
    struct str found = STR_NONE;

    if (!text.p)
        text = STR("");
    if (regex_compile(&arena, str_sub(input, 0, end), &regex, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        arena_done(&arena);
        return;
    }
    FUZZ_HOLDS(regex_steps(regex) <= REGEX_STEPS_MAX);
    bool matches = regex_matches(regex, text);
    FUZZ_HOLDS(matches == regex_find(regex, text, 0, &found));
    if (matches)
        FUZZ_HOLDS(found.p >= text.p && found.p + found.len <= text.p + text.len);
    /* From behind the first match on there is another, or none: it never goes back. */
    if (matches && found.p + found.len < text.p + text.len) {
        size_t from = (size_t)(found.p - text.p) + (found.len ? found.len : 1);
        struct str next = STR_NONE;

        if (from <= text.len && regex_find(regex, text, from, &next))
            FUZZ_HOLDS(next.p >= text.p + from && next.p + next.len <= text.p + text.len);
    }
    arena_done(&arena);
}
