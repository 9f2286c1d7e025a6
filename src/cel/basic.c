#include "api/regex.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/moment.h"
#include "cel/run.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The functions that every CEL has, optionals, and the table of all functions. */

static struct cel_value fn_size(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    switch (args[0].type) {
    case CEL_STRING:
        return run_charge_text(run, args[0].s.len) ? cel_int((int64_t)text_count(args[0].s))
                                                   : run->stopped;
    case CEL_BYTES: return cel_int((int64_t)args[0].s.len);
    case CEL_LIST:
    case CEL_MAP: return cel_int((int64_t)cel_count(args[0]));
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_NULL:
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_TIMESTAMP:
    case CEL_DURATION:
    case CEL_TYPE:
    case CEL_OPTIONAL:
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: break;
    }
    return run_no_overload();
}

static bool are_texts(const struct cel_value *args, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (args[i].type != CEL_STRING)
            return false;
    return true;
}

static struct cel_value fn_contains(struct cel_run *run, const struct cel_value *args, size_t count)
{
    if (!are_texts(args, count))
        return run_no_overload();
    /* As many steps as the two have bytes, multiplied, in the worst case. */
    if (!run_charge(run, (args[0].s.len + 9) / 10 * ((args[1].s.len + 9) / 10)))
        return run->stopped;
    return cel_bool(text_find(args[0].s, args[1].s, 0) != SIZE_MAX);
}

static struct cel_value fn_starts(struct cel_run *run, const struct cel_value *args, size_t count)
{
    if (!are_texts(args, count))
        return run_no_overload();
    return run_charge_text(run, args[1].s.len) ? cel_bool(str_starts(args[0].s, args[1].s))
                                               : run->stopped;
}

static struct cel_value fn_ends(struct cel_run *run, const struct cel_value *args, size_t count)
{
    if (!are_texts(args, count))
        return run_no_overload();
    return run_charge_text(run, args[1].s.len) ? cel_bool(str_ends(args[0].s, args[1].s))
                                               : run->stopped;
}

/* ---- patterns ---- */

/* Steps, their copies and the ranges of a compiled pattern: 8,192 steps of 48 bytes, twice. */
#define PATTERN_BYTES_MAX ((size_t)1 << 20)

/* NULL: *ret_error says why. */
static const struct regex *pattern_of(struct cel_run *run,
                                      struct str text,
                                      struct cel_value *ret_error)
{
    struct regex *regex = NULL;
    struct err err = {0};

    for (size_t i = 0; i < RUN_PATTERNS; i++)
        if (run->patterns[i].regex && str_eq(run->patterns[i].text, text))
            return run->patterns[i].regex;
    *ret_error = run->stopped;
    if (!run_charge_text(run, text.len * 10) || !run_room(run, PATTERN_BYTES_MAX)) {
        *ret_error = run->stopped;
        return NULL;
    }
    if (regex_compile(run->arena, text, &regex, &err) < 0) {
        *ret_error = cel_error(str_dup(run->arena, str_from(err.text)));
        return NULL;
    }
    size_t place = run->pattern_next++ % RUN_PATTERNS;
    run->patterns[place].text = text;
    run->patterns[place].regex = regex;
    return regex;
}

/* A unit is some two hundred comparisons. */
#define WORK_A_UNIT 200

/* What matching costs: the text's length times a guess at the pattern's parts, of four bytes, as
 * Kubernetes counts; or what it may take here, where repeats and sets make the pattern larger than that. */
static bool charge_match(struct cel_run *run,
                         const struct regex *regex,
                         struct str text,
                         struct str pattern)
{
    uint64_t guess = (uint64_t)(text.len + 10) / 10 * ((pattern.len + 3) / 4);
    uint64_t most = (uint64_t)text.len * regex_work(regex) / WORK_A_UNIT;

    return run_charge(run, guess > most ? guess : most);
}

static struct cel_value fn_matches(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value error = {0};

    if (!are_texts(args, count))
        return run_no_overload();
    const struct regex *regex = pattern_of(run, args[1].s, &error);
    if (!regex)
        return error;
    return charge_match(run, regex, args[0].s, args[1].s)
               ? cel_bool(regex_matches(regex, args[0].s))
               : run->stopped;
}

static struct cel_value fn_find(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value error = {0};
    struct str found = STR("");

    if (!are_texts(args, count))
        return run_no_overload();
    const struct regex *regex = pattern_of(run, args[1].s, &error);
    if (!regex)
        return error;
    if (!charge_match(run, regex, args[0].s, args[1].s))
        return run->stopped;
    return args[0].s.p && regex_find(regex, args[0].s, 0, &found) ? cel_string(found)
                                                                  : cel_string(STR(""));
}

static struct cel_value fn_find_all(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value error = {0};
    size_t most =
        count == 3 && args[2].type == CEL_INT && args[2].i >= 0 ? (size_t)args[2].i : SIZE_MAX;
    struct str text = args[0].s.p ? args[0].s : STR("");

    if (!are_texts(args, 2) || (count == 3 && args[2].type != CEL_INT))
        return run_no_overload();
    const struct regex *regex = pattern_of(run, args[1].s, &error);
    if (!regex)
        return error;
    size_t room = text.len + 1 < most ? text.len + 1 : most;
    if (!run_room(run, room * sizeof(struct cel_value)))
        return run->stopped;
    struct cel_value *items = ARENA_ARRAY(run->arena, struct cel_value, room);
    size_t found = 0;
    struct str match = STR_NONE;
    size_t last_end = SIZE_MAX;
    for (size_t at = 0; found < room && at <= text.len;) {
        if (!charge_match(run, regex, str_sub(text, at, text.len), args[1].s))
            return run->stopped;
        if (!regex_find(regex, text, at, &match))
            break;
        size_t begin = (size_t)(match.p - text.p);
        /* Nothing, right behind a match, is none. */
        if (match.len || begin != last_end)
            items[found++] = cel_string(match);
        last_end = begin + match.len;
        at = match.len ? last_end
                       : begin + (begin < text.len ? str_utf8_len(str_sub(text, begin, 4)) : 1);
        if (at == begin && !match.len)
            at++;
    }
    return cel_new_list(run->arena, items, found);
}

/* ---- types ---- */

static struct cel_value fn_type(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    return (struct cel_value){.type = CEL_TYPE, .s = cel_type_name(args[0].type)};
}

static struct cel_value fn_dyn(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    return args[0];
}

/* ---- optionals ---- */

static struct cel_value fn_none(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)args;
    (void)count;
    return (struct cel_value){.type = CEL_OPTIONAL};
}

static struct cel_value fn_of(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return cel_new_optional(run->arena, args[0]);
}

static bool is_zero(struct cel_value value)
{
    switch (value.type) {
    case CEL_NULL: return true;
    case CEL_BOOL: return !value.truth;
    case CEL_INT:
    case CEL_DURATION: return value.i == 0;
    case CEL_UINT: return value.u == 0;
    case CEL_DOUBLE: return value.d <= 0 && value.d >= 0;
    case CEL_STRING:
    case CEL_BYTES: return value.s.len == 0;
    case CEL_LIST:
    case CEL_MAP: return cel_count(value) == 0;
    case CEL_OPTIONAL: return !value.held;
    case CEL_TIMESTAMP: return moment_is_first(value);
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_TYPE:
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: break;
    }
    return false;
}

static struct cel_value fn_of_non_zero(struct cel_run *run,
                                       const struct cel_value *args,
                                       size_t count)
{
    (void)count;
    return is_zero(args[0]) ? (struct cel_value){.type = CEL_OPTIONAL}
                            : cel_new_optional(run->arena, args[0]);
}

static struct cel_value fn_has_value(struct cel_run *run,
                                     const struct cel_value *args,
                                     size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_OPTIONAL ? cel_bool(args[0].held != NULL) : run_no_overload();
}

static struct cel_value fn_value(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    if (args[0].type != CEL_OPTIONAL)
        return run_no_overload();
    return args[0].held ? *args[0].held : cel_error(STR("optional.none() dereference"));
}

/* One that holds something was answered before the second argument was looked at (eval.c). */
static struct cel_value fn_or(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_OPTIONAL && args[1].type == CEL_OPTIONAL ? args[1]
                                                                        : run_no_overload();
}

static struct cel_value fn_or_value(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)run;
    (void)count;
    return args[0].type == CEL_OPTIONAL ? args[1] : run_no_overload();
}

static const struct cel_function functions_basic[] = {
    {"size", false, 1, 1, CEL_INT, fn_size, "y>i [A]>i {AB}>i s>i"},
    {"size", true, 1, 1, CEL_INT, fn_size, "y>i [A]>i {AB}>i s>i"},
    {"contains", true, 2, 2, CEL_BOOL, fn_contains, "ss>b"},
    {"startsWith", true, 2, 2, CEL_BOOL, fn_starts, "ss>b"},
    {"endsWith", true, 2, 2, CEL_BOOL, fn_ends, "ss>b"},
    {"matches", true, 2, 2, CEL_BOOL, fn_matches, "ss>b"},
    {"matches", false, 2, 2, CEL_BOOL, fn_matches, "ss>b"},
    {"find", true, 2, 2, CEL_STRING, fn_find, "ss>s"},
    {"findAll", true, 2, 3, CEL_LIST, fn_find_all, "ss>[s] ssi>[s]"},
    {"type", false, 1, 1, CEL_TYPE, fn_type, "A>T"},
    {"dyn", false, 1, 1, CEL_DYN, fn_dyn, "A>*"},
    {"optional.none", false, 0, 0, CEL_OPTIONAL, fn_none, ">?A"},
    {"optional.of", false, 1, 1, CEL_OPTIONAL, fn_of, "A>?A"},
    {"optional.ofNonZeroValue", false, 1, 1, CEL_OPTIONAL, fn_of_non_zero, "A>?A"},
    {"hasValue", true, 1, 1, CEL_BOOL, fn_has_value, "?A>b"},
    {"value", true, 1, 1, CEL_DYN, fn_value, "?A>A"},
    {"or", true, 2, 2, CEL_OPTIONAL, fn_or, "?A?A>?A"},
    {"orValue", true, 2, 2, CEL_DYN, fn_or_value, "?AA>A"},
    {0},
};

static const struct cel_function *const tables[] = {
    functions_basic,       cel_functions_convert, cel_functions_moment,
    cel_functions_strings, cel_functions_lists,   cel_functions_net,
    cel_functions_url,     cel_functions_kube,    cel_functions_format};

const struct cel_function *cel_function_find(struct str name,
                                             bool member,
                                             size_t count,
                                             bool *ret_known)
{
    *ret_known = false;
    for (size_t i = 0; i < COUNT_OF(tables); i++)
        for (const struct cel_function *at = tables[i]; at->name; at++) {
            if (!str_is(name, at->name))
                continue;
            *ret_known = true;
            if (at->member == member && count >= at->least && count <= at->most)
                return at;
        }
    return NULL;
}

size_t cel_function_ways(struct str name, bool member, const char *ret[CEL_FUNCTION_WAYS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < COUNT_OF(tables); i++)
        for (const struct cel_function *at = tables[i]; at->name; at++)
            if (at->member == member && str_is(name, at->name) && count < CEL_FUNCTION_WAYS_MAX)
                ret[count++] = at->ways;
    return count;
}
