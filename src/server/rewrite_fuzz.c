#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "server/rewrite.h"

#include <stddef.h>

/* A page that a pod serves. In pieces it becomes what it becomes as a whole; nothing is lost, and
 * where there is nothing to put before a link, nothing is changed. */

static void play(struct str prefix, struct str input, size_t step, struct buf *out)
{
    struct rewrite rewrite = {.at = {prefix, STR("h:1"), STR("10.0.0.1:80")}};

    for (size_t at = 0; at < input.len; at += step)
        rewrite_html(&rewrite, str_sub(input, at, step), false, out);
    rewrite_html(&rewrite, STR(""), true, out);
    FUZZ_HOLDS(rewrite.tag.len == 0);
    rewrite_done(&rewrite);
}

FUZZ(rewrite)
{
    _cleanup_(buf_done) struct buf whole = {0};
    _cleanup_(buf_done) struct buf pieces = {0};

    play(STR("/p"), input, input.len + 1, &whole);
    play(STR("/p"), input, 1, &pieces);
    FUZZ_HOLDS(str_eq(buf_str(&whole), buf_str(&pieces)));
}
