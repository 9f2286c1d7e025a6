#include "api/unicode.h"

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CODE_POINT_MAX 0x10ffff

struct ranges VEC_FIELDS(struct unicode_range);

/* The number that begins here, or `otherwise`; *at moves behind it. */
static uint32_t take_number(const char **at, uint32_t otherwise)
{
    uint32_t value = 0;

    if (**at < '0' || **at > '9')
        return otherwise;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        value = value * 10 + (uint32_t)(**at - '0');
    return value;
}

static bool is_cased(struct str category)
{
    return str_is(category, "Lu") || str_is(category, "Ll") || str_is(category, "Lt");
}

static bool is_of(struct str category, struct str name, bool fold)
{
    if (str_is(category, "Cn")) /* what is not assigned is of no class */
        return false;
    if (fold && is_cased(name) && is_cased(category))
        return true;
    return str_starts(category, name);
}

static void add_category(struct arena *arena, struct str name, bool fold, struct ranges *ranges)
{
    uint32_t code = 0;

    for (const char *at = unicode_runs; *at;) {
        int index = *at >= 'a' ? *at - 'a' + 26 : *at - 'A';
        struct str category = {unicode_categories + (size_t)index * 2, 2};

        at++;
        uint32_t count = take_number(&at, 1);
        struct unicode_range *last = ranges->count ? &ranges->items[ranges->count - 1] : NULL;
        if (is_of(category, name, fold)) {
            if (last && last->high + 1 == code)
                last->high = code + count - 1;
            else
                VEC_PUSH(arena, ranges, (struct unicode_range){code, code + count - 1});
        }
        code += count;
    }
}

static void add_script(struct arena *arena, struct str name, struct ranges *ranges)
{
    struct str rest = str_from(unicode_scripts);
    struct str script = STR_NONE;

    while (str_cut(&rest, ' ', &script)) {
        size_t end = str_find(script, '+');
        const char *at = script.p + end;
        uint32_t code = 0;

        if (!str_eq(str_sub(script, 0, end), name))
            continue;
        while (*at == '+') {
            at++;
            uint32_t low = code + take_number(&at, 0);
            if (*at == '-')
                at++;
            code = low + (at[-1] == '-' ? take_number(&at, 0) : 0);
            VEC_PUSH(arena, ranges, (struct unicode_range){low, code});
        }
    }
}

bool unicode_class(struct arena *arena,
                   struct str name,
                   bool fold,
                   const struct unicode_range **ret,
                   size_t *ret_count)
{
    struct ranges ranges = {0};

    if (str_is(name, "Any"))
        VEC_PUSH(arena, &ranges, (struct unicode_range){0, CODE_POINT_MAX});
    else if (name.len == 1 || name.len == 2)
        add_category(arena, name, fold, &ranges);
    else
        add_script(arena, name, &ranges);
    *ret = ranges.items;
    *ret_count = ranges.count;
    return ranges.count > 0;
}
