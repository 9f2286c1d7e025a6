#include "api/large_test.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"

#include <string.h>

struct str large_list(struct arena *arena, size_t count, const char *before, const char *after)
{
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s%s%zu%s", i ? "," : "", before, i, after);
    return str_dup(arena, buf_str(&text));
}

struct str large_word(struct arena *arena, size_t bytes)
{
    char *text = arena_raw(arena, bytes, 1);

    memset(text, 'x', bytes);
    return (struct str){text, bytes};
}
