#include "api/query.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"

#include <stddef.h>

/* A query up to the first line break, and a document behind it. A query is refused with words, or it
 * ends with so many values, or with words. */
FUZZ(query)
{
    size_t end = str_find(input, '\n');
    struct str text = str_sub(input, end < input.len ? end + 1 : end, input.len);
    struct arena arena = {0};
    const struct query *query = NULL;
    struct json *document = NULL;
    query_values values = {0};
    struct err err = {0};

    if (query_read(&arena, str_sub(input, 0, end), &query, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        arena_done(&arena);
        return;
    }
    if (json_parse(&arena, text, &document, NULL) < 0)
        document = NULL;
    if (query_run(&arena, query, document, &values, &err) < 0)
        FUZZ_HOLDS(err.text[0] != '\0');
    FUZZ_HOLDS(values.count <= QUERY_RESULTS_MAX);
    arena_done(&arena);
}
