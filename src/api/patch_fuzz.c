#include "api/kind.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stddef.h>

/* Two lines of JSON: a document and a patch. All three kinds of patch are tried. A merge patch
 * tried twice changes nothing the second time; no patch makes a tree that cannot be written and
 * read. */
static void check_tree(struct arena *arena, const struct json *value)
{
    struct json *again = NULL;
    struct str text = json_text(arena, value);
    struct err err = {0};

    /* Operations may nest deeper than a text may be. */
    if (json_parse(arena, text, &again, &err) == 0)
        FUZZ_HOLDS(json_equal(value, again));
    else
        FUZZ_HOLDS(str_contains(str_from(err.text), STR("nested too deeply")));
}

FUZZ(patch)
{
    struct arena arena = {0};
    struct json *document = NULL;
    struct json *patch = NULL;
    struct json *result = NULL;
    struct err err = {0};
    struct str rest = input;
    struct str line = STR_NONE;

    (void)str_cut(&rest, '\n', &line);
    if (json_parse(&arena, line, &document, NULL) == 0 &&
        json_parse(&arena, rest, &patch, NULL) == 0) {
        result = patch_merge(&arena, json_clone(&arena, document), patch);
        check_tree(&arena, result);
        const struct json *once = json_clone(&arena, result);
        FUZZ_HOLDS(json_equal(once, patch_merge(&arena, result, patch)));

        if (patch_json(&arena, json_clone(&arena, document), patch, &result, &err) == 0)
            check_tree(&arena, result);
        else
            FUZZ_HOLDS(err.text[0] != '\0');

        struct json *target = json_clone(&arena, document);
        err = (struct err){0};
        if (json_is(target, JSON_OBJECT) && json_is(patch, JSON_OBJECT)) {
            if (patch_strategic(&arena, &kind_pod, target, patch, &err) == 0)
                check_tree(&arena, target);
            else
                FUZZ_HOLDS(err.text[0] != '\0');
        }
    }
    arena_done(&arena);
}
