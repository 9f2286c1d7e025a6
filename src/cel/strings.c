#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/lists.h"
#include "cel/run.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The strings extension. Positions count code points. */

static struct cel_value out_of_range(struct cel_run *run, int64_t index)
{
    return cel_error(str_printf(run->arena, "index out of range: %lld", (long long)index));
}

/* A position in the text as an offset; false: outside of it. The end is a position, too. */
static bool offset_of(struct str text, int64_t index, size_t *ret)
{
    if (index < 0 || (uint64_t)index > text_count(text))
        return false;
    *ret = text_offset(text, (size_t)index);
    return true;
}

static struct cel_value fn_char_at(struct cel_run *run, const struct cel_value *args, size_t count)
{
    size_t at = 0;

    (void)count;
    if (args[0].type != CEL_STRING || args[1].type != CEL_INT)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    if (!offset_of(args[0].s, args[1].i, &at))
        return out_of_range(run, args[1].i);
    return cel_string(
        str_sub(args[0].s, at, at < args[0].s.len ? str_utf8_len(str_sub(args[0].s, at, 4)) : 0));
}

/* As many steps as the two have bytes, multiplied, in the worst case. */
static bool charge_search(struct cel_run *run, struct str text, struct str needle)
{
    return run_charge(run, (text.len + 9) / 10 * ((needle.len + 9) / 10));
}

/* Of texts; lists.c has them of lists. */
static struct cel_value text_index(struct cel_run *run,
                                   const struct cel_value *args,
                                   size_t count,
                                   bool last)
{
    struct str text = args[0].s;
    size_t from = last ? text.len : 0;

    if (args[1].type != CEL_STRING || (count == 3 && args[2].type != CEL_INT))
        return run_no_overload();
    if (!charge_search(run, text, args[1].s))
        return run->stopped;
    if (count == 3 && !offset_of(text, args[2].i, &from))
        return out_of_range(run, args[2].i);
    size_t at = last ? text_find_last(text, args[1].s, from) : text_find(text, args[1].s, from);
    return cel_int(at == SIZE_MAX ? -1 : (int64_t)text_count(str_sub(text, 0, at)));
}

static struct cel_value fn_index_of(struct cel_run *run, const struct cel_value *args, size_t count)
{
    if (args[0].type == CEL_STRING)
        return text_index(run, args, count, false);
    return count == 2 ? lists_index(run, args, false) : run_no_overload();
}

static struct cel_value fn_last_index_of(struct cel_run *run,
                                         const struct cel_value *args,
                                         size_t count)
{
    if (args[0].type == CEL_STRING)
        return text_index(run, args, count, true);
    return count == 2 ? lists_index(run, args, true) : run_no_overload();
}

static struct cel_value fn_substring(struct cel_run *run,
                                     const struct cel_value *args,
                                     size_t count)
{
    size_t from = 0;
    size_t to = args[0].s.len;

    if (args[0].type != CEL_STRING || args[1].type != CEL_INT ||
        (count == 3 && args[2].type != CEL_INT))
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    if (!offset_of(args[0].s, args[1].i, &from))
        return out_of_range(run, args[1].i);
    if (count == 3 && !offset_of(args[0].s, args[2].i, &to))
        return out_of_range(run, args[2].i);
    if (from > to)
        return cel_error(STR("invalid substring range: it ends before it begins"));
    return cel_string(str_sub(args[0].s, from, to - from));
}

/* ---- letters ---- */

static struct cel_value letters(struct cel_run *run,
                                const struct cel_value *args,
                                char low,
                                char shift)
{
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len) || !run_room(run, args[0].s.len))
        return run->stopped;
    char *copy = str_c(run->arena, args[0].s);
    for (size_t i = 0; i < args[0].s.len; i++)
        if (copy[i] >= low && copy[i] < low + 26)
            copy[i] = (char)(copy[i] + shift);
    return cel_string((struct str){copy, args[0].s.len});
}

static struct cel_value fn_lower(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return letters(run, args, 'A', 'a' - 'A');
}

static struct cel_value fn_upper(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return letters(run, args, 'a', 'A' - 'a');
}

/* Unicode's blanks. */
static bool is_blank(uint32_t code)
{
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xa0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

static struct cel_value fn_trim(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct str text = args[0].s;
    size_t begin = SIZE_MAX;
    size_t end = 0;

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, text.len))
        return run->stopped;
    for (size_t at = 0; at < text.len;) {
        size_t here = at;

        if (is_blank(text_next(text, &at)))
            continue;
        begin = begin == SIZE_MAX ? here : begin;
        end = at;
    }
    return cel_string(begin == SIZE_MAX ? STR("") : str_sub(text, begin, end - begin));
}

static struct cel_value fn_reverse(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct str text = args[0].s;

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    if (!run_charge_text(run, text.len) || !run_room(run, text.len))
        return run->stopped;
    char *out = arena_raw(run->arena, text.len + 1, 1);
    for (size_t at = 0; at < text.len;) {
        size_t here = at;

        (void)text_next(text, &at);
        memcpy(out + text.len - at, text.p + here, at - here);
    }
    return cel_string((struct str){out, text.len});
}

static struct cel_value fn_quote(struct cel_run *run, const struct cel_value *args, size_t count)
{
    static const char from[] = "\a\b\f\n\r\t\v\\\"";
    static const char to[] = "abfnrtv\\\"";
    struct buf out = {0};

    (void)count;
    if (args[0].type != CEL_STRING)
        return run_no_overload();
    struct str text = str_utf8(run->arena, args[0].s);
    if (!run_charge_text(run, text.len * 2) || !run_room(run, text.len * 2 + 2))
        return run->stopped;
    buf_addc(&out, '"');
    for (size_t i = 0; i < text.len; i++) {
        const char *found = text.p[i] ? strchr(from, text.p[i]) : NULL;

        if (found)
            buf_addc(&out, '\\');
        buf_addc(&out, found ? to[found - from] : text.p[i]);
    }
    buf_addc(&out, '"');
    struct cel_value quoted = cel_string(str_dup(run->arena, buf_str(&out)));
    buf_done(&out);
    return quoted;
}

/* ---- parts ---- */

/* The length of `text` with at most `most` needles replaced, which says what room it takes. */
static size_t count_found(struct str text, struct str needle, size_t most)
{
    size_t found = 0;

    if (!needle.len)
        return text_count(text) + 1 < most ? text_count(text) + 1 : most;
    for (size_t at = 0; found < most; found++) {
        at = text_find(text, needle, at);
        if (at == SIZE_MAX)
            break;
        at += needle.len;
    }
    return found;
}

/* An empty needle is found before every code point, and at the end. */
static void replace_into(struct buf *out, const struct cel_value *args, size_t most)
{
    struct str text = args[0].s;
    struct str needle = args[1].s;
    size_t at = 0;

    for (size_t i = 0; i < most; i++) {
        size_t found = needle.len ? text_find(text, needle, at) : at;

        if (found == SIZE_MAX)
            break;
        buf_add(out, str_sub(text, at, found - at));
        buf_add(out, args[2].s);
        at = found + needle.len;
        if (needle.len)
            continue;
        if (at >= text.len)
            return;
        (void)text_next(text, &at);
        buf_add(out, str_sub(text, found, at - found));
    }
    buf_add(out, str_sub(text, at, text.len));
}

static struct cel_value fn_replace(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct buf out = {.bytes_max = CEL_MEMORY_MAX};

    for (size_t i = 0; i < 3; i++)
        if (args[i].type != CEL_STRING)
            return run_no_overload();
    if (count == 4 && args[3].type != CEL_INT)
        return run_no_overload();
    size_t most = count == 4 && args[3].i >= 0 ? (size_t)args[3].i : SIZE_MAX;
    if (!charge_search(run, args[0].s, args[1].s))
        return run->stopped;
    size_t found = count_found(args[0].s, args[1].s, most);
    size_t bytes = 0;
    if (__builtin_mul_overflow(found, args[2].s.len, &bytes) ||
        __builtin_add_overflow(bytes, args[0].s.len, &bytes))
        bytes = CEL_MEMORY_MAX + 1;
    if (!run_charge_text(run, args[0].s.len + bytes) || !run_room(run, bytes))
        return run->stopped;
    replace_into(&out, args, found);
    struct cel_value value = cel_string(str_dup(run->arena, buf_str(&out)));
    buf_done(&out);
    return value;
}

static struct cel_value fn_split(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct str rest = args[0].s;
    struct str needle = args[1].s;
    VEC(struct cel_value) items = {0};

    if (args[0].type != CEL_STRING || args[1].type != CEL_STRING ||
        (count == 3 && args[2].type != CEL_INT))
        return run_no_overload();
    size_t most = count == 3 && args[2].i >= 0 ? (size_t)args[2].i : SIZE_MAX;
    if (!charge_search(run, rest, needle))
        return run->stopped;
    /* A part may take more memory than its text. */
    size_t parts = count_found(rest, needle, most) + 1;
    if (!run_charge_text(run, rest.len * 2) || !run_room(run, parts * 3 * sizeof(struct cel_value)))
        return run->stopped;
    while (items.count + 1 < most && (needle.len || rest.len)) {
        size_t at = needle.len ? text_find(rest, needle, 0) : text_offset(rest, 1);

        if (at == SIZE_MAX || (!needle.len && at >= rest.len))
            break;
        VEC_PUSH(run->arena, &items, cel_string(str_sub(rest, 0, at)));
        rest = str_sub(rest, at + needle.len, rest.len);
    }
    if (most > 0 && (needle.len || rest.len))
        VEC_PUSH(run->arena, &items, cel_string(rest));
    return cel_new_list(run->arena, items.items, items.count);
}

static struct cel_value fn_join(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct str between = count == 2 ? args[1].s : STR("");
    struct buf out = {.bytes_max = CEL_MEMORY_MAX};
    size_t bytes = 0;

    if (args[0].type != CEL_LIST || (count == 2 && args[1].type != CEL_STRING))
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        if (walk.value.type != CEL_STRING)
            return run_no_overload();
        bytes += walk.value.s.len + between.len;
        if (!run_charge(run, 1) || !run_room(run, bytes))
            return run->stopped;
    }
    if (!run_charge_text(run, bytes * 2))
        return run->stopped;
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        if (walk.index > 1)
            buf_add(&out, between);
        buf_add(&out, walk.value.s);
    }
    struct cel_value value = cel_string(str_dup(run->arena, buf_str(&out)));
    buf_done(&out);
    return value;
}

const struct cel_function cel_functions_strings[] = {
    {"charAt", true, 2, 2, CEL_STRING, fn_char_at, "si>s"},
    {"indexOf", true, 2, 3, CEL_INT, fn_index_of, "ss>i ssi>i [A]A>i"},
    {"lastIndexOf", true, 2, 3, CEL_INT, fn_last_index_of, "ss>i ssi>i [A]A>i"},
    {"substring", true, 2, 3, CEL_STRING, fn_substring, "si>s sii>s"},
    {"lowerAscii", true, 1, 1, CEL_STRING, fn_lower, "s>s"},
    {"upperAscii", true, 1, 1, CEL_STRING, fn_upper, "s>s"},
    {"trim", true, 1, 1, CEL_STRING, fn_trim, "s>s"},
    {"reverse", true, 1, 1, CEL_STRING, fn_reverse, "s>s"},
    {"strings.quote", false, 1, 1, CEL_STRING, fn_quote, "s>s"},
    {"replace", true, 3, 4, CEL_STRING, fn_replace, "sss>s sssi>s"},
    {"split", true, 2, 3, CEL_LIST, fn_split, "ss>[s] ssi>[s]"},
    {"join", true, 1, 2, CEL_STRING, fn_join, "[s]>s [s]s>s"},
    {0},
};
