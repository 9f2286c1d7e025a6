#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stddef.h>

/* The first line is a selector, the rest labels as JSON; both ways of asking give the same answer.
 */
static void match(struct arena *arena, const struct selector *selector, struct str text)
{
    struct object_label labels[16];
    struct json *json = NULL;
    size_t count = 0;

    if (json_parse_strict(arena, text, &json, NULL) < 0 || !json_is(json, JSON_OBJECT))
        return;
    JSON_FOREACH(json, member) {
        if (count == 16 || !json_is(member, JSON_STRING))
            return;
        labels[count++] = (struct object_label){json_key(member), json_str(member)};
    }
    bool by_labels = selector_matches(selector, labels, count);
    FUZZ_HOLDS(by_labels == selector_matches_json(selector, json));
}

FUZZ(selector)
{
    struct arena arena = {0};
    struct selector selector = {0};
    struct err err = {0};
    struct str rest = input;
    struct str line = STR_NONE;

    (void)str_cut(&rest, '\n', &line);
    if (selector_parse_labels(&arena, line, &selector, &err) == 0) {
        FUZZ_HOLDS(selector.term_count <= SELECTOR_TERMS_MAX);
        match(&arena, &selector, rest);
    } else {
        FUZZ_HOLDS(err.text[0] != '\0');
    }
    (void)selector_parse_fields(&arena, line, &selector, NULL);
    struct json *json = NULL;
    if (json_parse(&arena, input, &json, NULL) == 0 &&
        selector_from_json(&arena, json, &selector, &err) == 0)
        (void)selector_matches(&selector, NULL, 0);
    arena_done(&arena);
}
