#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "workspace/curves.h"

#include <stddef.h>

static void curves_of(struct str input, size_t piece, struct buf *out)
{
    struct curves *curves = curves_new();

    curves_begin(curves, str_sub(input, 0, 3));
    for (size_t at = 0; at < input.len; at += piece)
        curves_add(curves, str_sub(input, at, piece));
    curves_write(curves, false, out);
    curves_free(curves);
}

/* Any bytes as an event file: read whole or in pieces they are the same curves, which are JSON within
 * the limits, with steps and numbers that are finite. */
FUZZ(events)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf whole = {0};
    _cleanup_(buf_done) struct buf pieces = {0};
    struct json *root = NULL;

    curves_of(input, input.len ? input.len : 1, &whole);
    curves_of(input, 7, &pieces);
    FUZZ_HOLDS(str_eq(buf_str(&whole), buf_str(&pieces)));
    FUZZ_HOLDS(json_parse(&arena, buf_str(&whole), &root, NULL) == 0);
    FUZZ_HOLDS(json_count(json_get(root, "series")) <= CURVES_SERIES_MAX);
    JSON_FOREACH(json_get(root, "series"), series) {
        const struct json *points = json_get(series, "points");

        FUZZ_HOLDS(json_str(json_get(series, "name")).len > 0);
        FUZZ_HOLDS(json_count(points) > 0 && json_count(points) <= CURVES_POINTS_MAX + 1);
        JSON_FOREACH(points, point)
            FUZZ_HOLDS(json_count(point) == 2);
    }
}
