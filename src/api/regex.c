#include "api/regex.h"

#include "api/regex_parts.h"
#include "api/unicode.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Thompson's way: the pattern becomes a program of steps, and the text is read once while the set
 * of steps that could be next is kept. Sets have at most one member per step, hence the bound. */

#define CODE_POINT_MAX 0x10ffff

struct large_classes VEC_FIELDS(struct large_class);

/* Of a set. */
struct ranges {
    struct unicode_range *items;
    size_t count;
    size_t capacity;
    struct large_classes classes;
};

struct parse {
    struct arena *arena;
    struct str text;
    size_t at;
    unsigned depth;
    bool fold; /* (?i) */
    VEC(struct step) steps;
    struct large_classes classes; /* that were named so far: each is made once */
    struct err *err;
};

static int wrong(struct parse *parse, const char *why)
{
    return err_set(parse->err, -EINVAL, "pattern \"" STR_FMT "\": %s at character %zu",
                   STR_ARG(str_sub(parse->text, 0, 80)), why, parse->at + 1);
}

static bool more(const struct parse *parse)
{
    return parse->at < parse->text.len;
}

static char peek(const struct parse *parse)
{
    return more(parse) ? parse->text.p[parse->at] : '\0';
}

static bool take(struct parse *parse, const char *what)
{
    if (!str_starts(str_sub(parse->text, parse->at, parse->text.len), str_from(what)))
        return false;
    parse->at += strlen(what);
    return true;
}

uint32_t regex_decode(struct str text, size_t *at)
{
    unsigned char first = (unsigned char)text.p[*at];
    size_t more_bytes = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    uint32_t code = more_bytes == 0 ? first : first & (0x3fU >> more_bytes);

    (*at)++;
    for (; more_bytes && *at < text.len; more_bytes--, (*at)++)
        code = code << 6 | ((unsigned char)text.p[*at] & 0x3fU);
    return code;
}

static int emit(struct parse *parse, struct step step)
{
    if (parse->steps.count == REGEX_STEPS_MAX)
        return err_set(parse->err, -E2BIG,
                       "pattern \"" STR_FMT "\" is too large: repeat less of it",
                       STR_ARG(str_sub(parse->text, 0, 80)));
    VEC_PUSH(parse->arena, &parse->steps, step);
    return 0;
}

static uint32_t here(const struct parse *parse)
{
    return (uint32_t)parse->steps.count;
}

/* ---- character sets ---- */

static void add_range(struct parse *parse, struct ranges *set, uint32_t low, uint32_t high)
{
    VEC_PUSH(parse->arena, set, (struct unicode_range){low, high});
    if (!parse->fold)
        return;
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        uint32_t upper = c - 'a' + 'A';

        if (c >= low && c <= high)
            VEC_PUSH(parse->arena, set, (struct unicode_range){upper, upper});
        if (upper >= low && upper <= high)
            VEC_PUSH(parse->arena, set, (struct unicode_range){c, c});
    }
}

static void add_ranges(struct parse *parse,
                       struct ranges *set,
                       const struct unicode_range *from,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_range(parse, set, from[i].low, from[i].high);
}

/* Everything that `from` leaves out; `from` is sorted and without overlap. */
static void add_inverse(struct parse *parse,
                        struct ranges *set,
                        const struct unicode_range *from,
                        size_t count)
{
    uint32_t next = 0;

    for (size_t i = 0; i < count; i++) {
        if (from[i].low > next)
            VEC_PUSH(parse->arena, set, (struct unicode_range){next, from[i].low - 1});
        next = from[i].high + 1;
    }
    VEC_PUSH(parse->arena, set, (struct unicode_range){next, CODE_POINT_MAX});
}

static const struct unicode_range digits[] = {{'0', '9'}};
static const struct unicode_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct unicode_range blanks[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

struct class
{
    const char *name;
    struct unicode_range ranges[4];
    size_t count;
};
static const struct class classes[] = {
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}, 2},
    {"digit", {{'0', '9'}}, 1},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}, 3},
    {"upper", {{'A', 'Z'}}, 1},
    {"lower", {{'a', 'z'}}, 1},
    {"space", {{'\t', '\r'}, {' ', ' '}}, 2},
    {"blank", {{'\t', '\t'}, {' ', ' '}}, 2},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, 4},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, 3},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4},
    {"print", {{' ', '~'}}, 1},
    {"graph", {{'!', '~'}}, 1},
    {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}, 2},
};

/* \d \w \s and capitals behind a backslash that was taken. */
static bool escape_class(struct parse *parse, struct ranges *set)
{
    switch (peek(parse)) {
    case 'd': add_ranges(parse, set, digits, 1); break;
    case 'D': add_inverse(parse, set, digits, 1); break;
    case 'w': add_ranges(parse, set, words, 4); break;
    case 'W': add_inverse(parse, set, words, 4); break;
    case 's': add_ranges(parse, set, blanks, 3); break;
    case 'S': add_inverse(parse, set, blanks, 3); break;
    default: return false;
    }
    parse->at++;
    return true;
}

static int emit_set(struct parse *parse, const struct ranges *set, bool negated)
{
    return emit(parse, (struct step){.op = STEP_SET,
                                     .ranges = set->items,
                                     .range_count = (uint32_t)set->count,
                                     .classes = set->classes.items,
                                     .class_count = (uint32_t)set->classes.count,
                                     .negated = negated});
}

static int add_large(struct parse *parse, struct ranges *set, struct str name, bool inverse)
{
    struct large_class class = {.name = name, .fold = parse->fold};

    for (size_t i = 0; i < parse->classes.count; i++)
        if (str_eq(parse->classes.items[i].name, name) &&
            parse->classes.items[i].fold == parse->fold)
            class = parse->classes.items[i];
    if (!class.count) {
        if (!unicode_class(parse->arena, name, parse->fold, &class.ranges, &class.count))
            return wrong(parse, "there is no class of that name");
        VEC_PUSH(parse->arena, &parse->classes, class);
    }
    class.inverse = inverse;
    VEC_PUSH(parse->arena, &set->classes, class);
    return 0;
}

/* \pL, \p{Greek}, \p{^Lu} and \P, behind a backslash that was taken. */
static int unicode_escape(struct parse *parse, struct ranges *set, bool *ret_any)
{
    bool inverse = peek(parse) == 'P';

    *ret_any = take(parse, "p") || take(parse, "P");
    if (!*ret_any)
        return 0;
    struct str rest = str_sub(parse->text, parse->at, parse->text.len);
    bool braces = take(parse, "{");
    size_t end = braces ? str_find(rest, '}') : 0;
    if (!rest.len || (braces && end == rest.len))
        return wrong(parse, "expected a class of characters: \\pL or \\p{Greek}");
    struct str name = braces ? str_sub(rest, 1, end - 1) : str_sub(rest, 0, 1);
    if (braces && str_starts(name, STR("^"))) {
        inverse = !inverse;
        name = str_sub(name, 1, name.len);
    }
    int r = add_large(parse, set, name, inverse);
    parse->at += braces ? end : 1;
    return r;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \x41 or \x{1f600} */
static int escape_hex(struct parse *parse, uint32_t *ret)
{
    bool braces = take(parse, "{");
    uint32_t code = 0;
    unsigned count = 0;

    for (; hex_value(peek(parse)) >= 0 && count < (braces ? 6 : 2); count++)
        code = code * 16 + (uint32_t)hex_value(parse->text.p[parse->at++]);
    if (count < (braces ? 1 : 2) || code > CODE_POINT_MAX || (braces && !take(parse, "}")))
        return wrong(parse, "expected hexadecimal digits: \\x41 or \\x{1f600}");
    *ret = code;
    return 0;
}

/* \0, \07 or \012 */
static uint32_t escape_octal(struct parse *parse)
{
    uint32_t code = 0;

    for (int i = 0; i < 2 && peek(parse) >= '0' && peek(parse) <= '7'; i++)
        code = code * 8 + (uint32_t)(parse->text.p[parse->at++] - '0');
    return code;
}

/* One escaped character behind a backslash that was taken. */
static int escape_char(struct parse *parse, uint32_t *ret)
{
    static const char from[] = "ntrfva";
    static const char to[] = "\n\t\r\f\v\a";
    char c = peek(parse);
    const char *found = c ? strchr(from, c) : NULL;

    if (!more(parse))
        return wrong(parse, "nothing after the backslash");
    parse->at++;
    if (found)
        *ret = (unsigned char)to[found - from];
    else if (c == 'x')
        return escape_hex(parse, ret);
    else if (c == '0')
        *ret = escape_octal(parse);
    else if (hex_value(c) >= 0 || (c >= 'g' && c <= 'z') || (c >= 'G' && c <= 'Z') ||
             (unsigned char)c >= 0x80)
        return wrong(parse, "this escape is not supported");
    else
        *ret = (unsigned char)c;
    return 0;
}

/* [:alpha:] or [:^alpha:], where one begins here. */
static int posix_class(struct parse *parse, struct ranges *set, bool *ret_any)
{
    struct str rest = str_sub(parse->text, parse->at, parse->text.len);
    struct str name = str_sub(rest, 2, rest.len);
    size_t end = str_find(name, ':');

    *ret_any = str_starts(rest, STR("[:")) && str_starts(str_sub(name, end, name.len), STR(":]"));
    if (!*ret_any)
        return 0;
    bool inverse = str_starts(name, STR("^"));
    name = str_sub(name, inverse, end - inverse);
    /* What is neither large nor small, where both are the same; of the others nothing changes. */
    if (inverse && parse->fold && (str_is(name, "upper") || str_is(name, "lower")))
        name = STR("alpha");
    for (size_t i = 0; i < COUNT_OF(classes); i++)
        if (str_is(name, classes[i].name)) {
            (inverse ? add_inverse : add_ranges)(parse, set, classes[i].ranges, classes[i].count);
            parse->at += end + 4; /* with both brackets */
            return 0;
        }
    return wrong(parse, "there is no class of that name");
}

static int set_char(struct parse *parse, uint32_t *ret)
{
    if (take(parse, "\\"))
        return escape_char(parse, ret);
    *ret = regex_decode(parse->text, &parse->at);
    return 0;
}

static int set_item(struct parse *parse, struct ranges *set)
{
    uint32_t low = 0;
    uint32_t high = 0;

    bool class = false;
    int r = posix_class(parse, set, &class);
    if (r < 0 || class)
        return r;
    if (take(parse, "\\")) {
        if (escape_class(parse, set))
            return 0;
        r = unicode_escape(parse, set, &class);
        if (r < 0 || class)
            return r;
        parse->at--;
    }
    r = set_char(parse, &low);
    if (r < 0)
        return r;
    high = low;
    if (peek(parse) == '-' && parse->at + 1 < parse->text.len &&
        parse->text.p[parse->at + 1] != ']') {
        parse->at++;
        r = set_char(parse, &high);
        if (r == 0 && high < low)
            r = wrong(parse, "this range runs backwards");
    }
    if (r == 0)
        add_range(parse, set, low, high);
    return r;
}

/* Behind '['. */
static int parse_set(struct parse *parse)
{
    struct ranges set = {0};
    bool negated = take(parse, "^");
    bool first = true;

    while (first || peek(parse) != ']') {
        if (!more(parse))
            return wrong(parse, "']' is missing");
        int r = set_item(parse, &set);
        if (r < 0)
            return r;
        first = false;
    }
    parse->at++;
    return emit_set(parse, &set, negated);
}

/* ---- structure ---- */

static int parse_either(struct parse *parse);

static int parse_char(struct parse *parse, uint32_t code)
{
    struct ranges set = {0};

    add_range(parse, &set, code, code);
    return emit_set(parse, &set, false);
}

static int parse_escape(struct parse *parse)
{
    struct ranges set = {0};
    uint32_t code = 0;

    if (take(parse, "b"))
        return emit(parse, (struct step){.op = STEP_WORD});
    if (take(parse, "B"))
        return emit(parse, (struct step){.op = STEP_NOT_WORD});
    if (take(parse, "A"))
        return emit(parse, (struct step){.op = STEP_BEGIN});
    if (take(parse, "z"))
        return emit(parse, (struct step){.op = STEP_END});
    if (escape_class(parse, &set))
        return emit_set(parse, &set, false);
    bool class = false;
    int r = unicode_escape(parse, &set, &class);
    if (r < 0 || class)
        return r < 0 ? r : emit_set(parse, &set, false);
    r = escape_char(parse, &code);
    return r < 0 ? r : parse_char(parse, code);
}

/* Behind '('. */
// NOLINTNEXTLINE(misc-no-recursion)
static int parse_group(struct parse *parse)
{
    bool fold = parse->fold;

    if (take(parse, "?i)")) {
        parse->fold = true;
        return 0;
    }
    if (take(parse, "?P<") || take(parse, "?<")) {
        while (more(parse) && !take(parse, ">"))
            parse->at++;
    } else if (take(parse, "?i:")) {
        parse->fold = true;
    } else if (!take(parse, "?:") && peek(parse) == '?') {
        return wrong(parse, "this kind of group is not supported");
    }
    if (++parse->depth > REGEX_DEPTH_MAX)
        return wrong(parse, "groups are nested too deep");
    int r = parse_either(parse);
    parse->depth--;
    parse->fold = fold;
    if (r == 0 && !take(parse, ")"))
        r = wrong(parse, "')' is missing");
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_atom(struct parse *parse)
{
    static const struct unicode_range line[] = {{'\n', '\n'}};

    if (take(parse, "("))
        return parse_group(parse);
    if (take(parse, "["))
        return parse_set(parse);
    if (take(parse, "\\"))
        return parse_escape(parse);
    if (take(parse, "^"))
        return emit(parse, (struct step){.op = STEP_BEGIN});
    if (take(parse, "$"))
        return emit(parse, (struct step){.op = STEP_END});
    if (take(parse, "."))
        return emit(parse, (struct step){
                               .op = STEP_SET, .ranges = line, .range_count = 1, .negated = true});
    if (peek(parse) == '*' || peek(parse) == '+' || peek(parse) == '?')
        return wrong(parse, "nothing to repeat");
    return parse_char(parse, regex_decode(parse->text, &parse->at));
}

static bool take_number(struct parse *parse, unsigned *ret)
{
    size_t start = parse->at;
    unsigned number = 0;

    while (peek(parse) >= '0' && peek(parse) <= '9' && number <= REGEX_REPEAT_MAX)
        number = number * 10 + (unsigned)(parse->text.p[parse->at++] - '0');
    *ret = number;
    return parse->at > start;
}

#define ENDLESS UINT32_MAX

/* A quantifier, if there is one: *ret_min..*ret_max times. */
static int take_repeat(struct parse *parse, unsigned *ret_min, unsigned *ret_max, bool *ret_any)
{
    size_t start = parse->at;

    *ret_any = true;
    *ret_min = 0;
    *ret_max = ENDLESS;
    if (take(parse, "*"))
        return 0;
    if (take(parse, "?")) {
        *ret_max = 1;
        return 0;
    }
    *ret_min = 1;
    if (take(parse, "+"))
        return 0;
    if (take(parse, "{") && take_number(parse, ret_min)) {
        if (!take(parse, ","))
            *ret_max = *ret_min;
        else if (!take_number(parse, ret_max))
            *ret_max = ENDLESS;
        if (take(parse, "}")) {
            if (*ret_min > REGEX_REPEAT_MAX ||
                (*ret_max != ENDLESS && (*ret_max > REGEX_REPEAT_MAX || *ret_max < *ret_min)))
                return wrong(parse, "this repeat count is not possible");
            return 0;
        }
    }
    /* "{" that starts no count is an ordinary character. */
    parse->at = start;
    *ret_any = false;
    return 0;
}

/* Steps that move take what they point at along. */
static struct step moved(struct step step, uint32_t shift)
{
    if (step.op == STEP_SPLIT || step.op == STEP_JUMP) {
        step.to += shift;
        step.other += shift;
    }
    return step;
}

/* x{min,max} as min copies of x, then either x* or nested x?. The atom's steps are from..end, and
 * are taken out first: they are the template. */
static int repeat(struct parse *parse, uint32_t from, unsigned min, unsigned max, bool lazy)
{
    uint32_t end = here(parse);
    uint32_t size = end - from;
    struct step *atom = ARENA_ARRAY(parse->arena, struct step, size);
    unsigned count = max == ENDLESS ? min + 1 : max;

    memcpy(atom, &parse->steps.items[from], size * sizeof(*atom));
    parse->steps.count = from;
    for (unsigned i = 0; i < count; i++) {
        bool optional = i >= min;
        uint32_t start = here(parse);
        uint32_t shift = start + (optional ? 1 : 0) - from;
        int r = 0;

        /* A split around an optional copy; its exit is where the copy ends. */
        if (optional) {
            uint32_t out = start + 1 + size + (max == ENDLESS ? 1 : 0);

            r = emit(parse, (struct step){.op = STEP_SPLIT,
                                          .to = lazy ? out : start + 1,
                                          .other = lazy ? start + 1 : out});
        }
        for (uint32_t j = 0; r == 0 && j < size; j++)
            r = emit(parse, moved(atom[j], shift));
        if (r == 0 && optional && max == ENDLESS)
            r = emit(parse, (struct step){.op = STEP_JUMP, .to = start, .other = start});
        if (r < 0)
            return r;
    }
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_sequence(struct parse *parse)
{
    while (more(parse) && peek(parse) != '|' && peek(parse) != ')') {
        uint32_t from = here(parse);
        unsigned min = 0;
        unsigned max = 0;
        bool any = false;
        int r = parse_atom(parse);

        if (r == 0)
            r = take_repeat(parse, &min, &max, &any);
        if (r == 0 && any) {
            bool lazy = take(parse, "?"); /* the same for a yes or no, not for regex_find() */

            r = repeat(parse, from, min, max, lazy);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

/* a|b becomes split, a, jump, b: a moves on by one to make room for the split. */
// NOLINTNEXTLINE(misc-no-recursion)
static int parse_either(struct parse *parse)
{
    uint32_t from = here(parse);
    int r = parse_sequence(parse);

    while (r == 0 && take(parse, "|")) {
        uint32_t end = here(parse);

        r = emit(parse, (struct step){.op = STEP_JUMP});
        if (r == 0)
            r = emit(parse, (struct step){.op = STEP_JUMP});
        if (r < 0)
            break;
        for (uint32_t i = end; i-- > from;)
            parse->steps.items[i + 1] = moved(parse->steps.items[i], 1);
        parse->steps.items[from] =
            (struct step){.op = STEP_SPLIT, .to = from + 1, .other = end + 2};
        r = parse_sequence(parse);
        parse->steps.items[end + 1] =
            (struct step){.op = STEP_JUMP, .to = here(parse), .other = here(parse)};
    }
    return r;
}

int regex_compile(struct arena *arena, struct str pattern, struct regex **ret, struct err *err)
{
    struct parse parse = {.arena = arena, .text = pattern, .err = err};

    if (pattern.len > REGEX_BYTES_MAX)
        return err_set(err, -E2BIG, "a pattern has at most %d bytes", REGEX_BYTES_MAX);
    int r = parse_either(&parse);
    if (r == 0 && more(&parse))
        r = wrong(&parse, "')' without '('");
    if (r == 0)
        r = emit(&parse, (struct step){.op = STEP_MATCH});
    if (r < 0)
        return r;
    struct regex *regex = ARENA_NEW(arena, struct regex);
    *regex = (struct regex){.steps = parse.steps.items, .count = parse.steps.count};
    *ret = regex;
    return 0;
}

size_t regex_steps(const struct regex *regex)
{
    return regex->count;
}

/* A class of Unicode has up to 700 ranges, which are halved. */
#define CLASS_WORK 10

size_t regex_work(const struct regex *regex)
{
    size_t work = 0;

    for (size_t i = 0; i < regex->count; i++)
        work += 1 + regex->steps[i].range_count + (size_t)regex->steps[i].class_count * CLASS_WORK;
    return work;
}
