#include "api/admit.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stdbool.h>
#include <stddef.h>

/* A schema up to the first line break, and an object behind it. A schema is refused with words, or
 * it does its work on any object within bounds: what it pruned and filled in is complete, so that
 * doing it again changes nothing. */
static void schema_apply(struct arena *arena, const struct schema *schema, struct json *object)
{
    struct schema_unknown unknown = {0};
    struct schema_unknown again = {0};
    struct admit admit = {.arena = arena, .object = object};
    size_t before = arena->bytes_used;

    schema_prune(arena, schema, object, &unknown);
    FUZZ_HOLDS(unknown.count <= SCHEMA_UNKNOWN_MAX);
    schema_prune(arena, schema, object, &again);
    FUZZ_HOLDS(again.count == 0);
    if (schema_default(arena, schema, object, NULL) == 0) {
        struct json *once = json_clone(arena, object);

        FUZZ_HOLDS(schema_default(arena, schema, object, NULL) == 0);
        FUZZ_HOLDS(json_equal(once, object));
        schema_validate(&admit, schema, object);
        FUZZ_HOLDS(admit.causes.count <= ADMIT_CAUSES_MAX);
    }
    FUZZ_HOLDS(arena->bytes_used - before < 4 * SCHEMA_DEFAULT_BYTES_MAX);
}

FUZZ(schema)
{
    size_t end = str_find(input, '\n');
    struct str text = str_sub(input, end < input.len ? end + 1 : end, input.len);
    struct arena arena = {0};
    const struct schema *schema = NULL;
    struct json *source = NULL;
    struct json *object = NULL;
    struct err err = {0};

    if (json_parse(&arena, str_sub(input, 0, end), &source, NULL) == 0) {
        if (schema_compile(&arena, source, &schema, &err) < 0)
            FUZZ_HOLDS(err.text[0] != '\0');
        else if (json_parse(&arena, text, &object, NULL) == 0 && json_is(object, JSON_OBJECT))
            schema_apply(&arena, schema, object);
    }
    arena_done(&arena);
}
