#include "api/array.h"

#include "base/arena.h"
#include "base/err.h"

#include <errno.h>
#include <stdbool.h>

struct array_part {
    int64_t first;
    int64_t last;
    int64_t step;
};

static bool array_number(struct str text, int64_t *ret)
{
    return text.len && text.len <= 6 && text.p[0] >= '0' && text.p[0] <= '9' &&
           str_to_i64(text, ret);
}

/* "5", "5-20", "5-20:5". */
static bool array_read_part(struct str text, struct array_part *ret)
{
    size_t colon = str_find(text, ':');
    struct str range = str_sub(text, 0, colon);
    size_t dash = str_find(range, '-');

    *ret = (struct array_part){.step = 1};
    if (!array_number(str_sub(range, 0, dash), &ret->first))
        return false;
    ret->last = ret->first;
    if (dash < range.len && !array_number(str_sub(range, dash + 1, range.len), &ret->last))
        return false;
    if (colon < text.len &&
        (dash >= range.len || !array_number(str_sub(text, colon + 1, text.len), &ret->step)))
        return false;
    return ret->step > 0 && ret->last >= ret->first;
}

int array_parse(struct arena *arena, struct str text, struct array_indexes *ret, struct err *err)
{
    bool *wanted = ARENA_ARRAY(arena, bool, ARRAY_INDEX_MAX + 1);
    struct str rest = text;
    struct array_part part;
    struct str word;
    size_t count = 0;

    while (str_cut(&rest, ',', &word)) {
        if (!array_read_part(word, &part))
            return err_set(err, -EINVAL,
                           "\"%.*s\" is not a list of indexes such as 0-9 or 1,3,5-20:5",
                           (int)(text.len < 80 ? text.len : 80), text.p);
        if (part.last > ARRAY_INDEX_MAX)
            return err_set(err, -EINVAL, "index %lld is above %d", (long long)part.last,
                           ARRAY_INDEX_MAX);
        for (int64_t i = part.first; i <= part.last; i += part.step) {
            count += !wanted[i];
            wanted[i] = true;
        }
    }
    if (!count || count > ARRAY_COUNT_MAX)
        return err_set(err, -EINVAL, "%zu indexes; an array has 1 to %d", count, ARRAY_COUNT_MAX);
    int64_t *items = ARENA_ARRAY(arena, int64_t, count);
    count = 0;
    for (int64_t i = 0; i <= ARRAY_INDEX_MAX; i++)
        if (wanted[i])
            items[count++] = i;
    *ret = (struct array_indexes){items, count};
    return 0;
}

struct str array_text(struct arena *arena, const struct array_indexes *indexes)
{
    struct str text = STR_NONE;

    for (size_t i = 0; i < indexes->count; i++) {
        int64_t first = indexes->items[i];

        while (i + 1 < indexes->count && indexes->items[i + 1] == indexes->items[i] + 1)
            i++;
        text = str_printf(arena, STR_FMT "%s%lld", STR_ARG(text), text.len ? "," : "",
                          (long long)first);
        if (indexes->items[i] != first)
            text = str_printf(arena, STR_FMT "-%lld", STR_ARG(text), (long long)indexes->items[i]);
    }
    return text;
}
