#include "api/regex.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Thompson's way: the pattern becomes a program of steps, and the text is read once while the set
 * of steps that could be next is kept. Sets have at most one member per step, hence the bound. */

enum step_op {
    STEP_SET,   /* one character in ranges */
    STEP_SPLIT, /* go on at `to` and at `other` */
    STEP_JUMP,
    STEP_BEGIN,
    STEP_END,
    STEP_WORD,     /* \b */
    STEP_NOT_WORD, /* \B */
    STEP_MATCH,
};

struct range {
    uint32_t low;
    uint32_t high;
};

struct step {
    enum step_op op;
    uint32_t to;
    uint32_t other;
    const struct range *ranges;
    uint32_t range_count;
    bool negated;
};

struct regex {
    const struct step *steps;
    size_t count;
};

#define CODE_POINT_MAX 0x10ffff

struct ranges VEC_FIELDS(struct range);

struct parse {
    struct arena *arena;
    struct str text;
    size_t at;
    unsigned depth;
    bool fold; /* (?i) */
    VEC(struct step) steps;
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

/* The next code point; texts are valid UTF-8 because JSON is. */
static uint32_t decode(struct str text, size_t *at)
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
    VEC_PUSH(parse->arena, set, (struct range){low, high});
    if (!parse->fold)
        return;
    for (uint32_t c = 'a'; c <= 'z'; c++) {
        uint32_t upper = c - 'a' + 'A';

        if (c >= low && c <= high)
            VEC_PUSH(parse->arena, set, (struct range){upper, upper});
        if (upper >= low && upper <= high)
            VEC_PUSH(parse->arena, set, (struct range){c, c});
    }
}

static void add_ranges(struct parse *parse,
                       struct ranges *set,
                       const struct range *from,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        add_range(parse, set, from[i].low, from[i].high);
}

/* Everything that `from` leaves out; `from` is sorted and without overlap. */
static void add_inverse(struct parse *parse,
                        struct ranges *set,
                        const struct range *from,
                        size_t count)
{
    uint32_t next = 0;

    for (size_t i = 0; i < count; i++) {
        if (from[i].low > next)
            VEC_PUSH(parse->arena, set, (struct range){next, from[i].low - 1});
        next = from[i].high + 1;
    }
    VEC_PUSH(parse->arena, set, (struct range){next, CODE_POINT_MAX});
}

static const struct range digits[] = {{'0', '9'}};
static const struct range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct range blanks[] = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};

struct class
{
    const char *name;
    struct range ranges[4];
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
    *ret = decode(parse->text, &parse->at);
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
    return emit(parse, (struct step){.op = STEP_SET,
                                     .ranges = set.items,
                                     .range_count = (uint32_t)set.count,
                                     .negated = negated});
}

/* ---- structure ---- */

static int parse_either(struct parse *parse);

static int parse_char(struct parse *parse, uint32_t code)
{
    struct ranges set = {0};

    add_range(parse, &set, code, code);
    return emit(
        parse,
        (struct step){.op = STEP_SET, .ranges = set.items, .range_count = (uint32_t)set.count});
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
        return emit(
            parse,
            (struct step){.op = STEP_SET, .ranges = set.items, .range_count = (uint32_t)set.count});
    int r = escape_char(parse, &code);
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
    static const struct range line[] = {{'\n', '\n'}};

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
    return parse_char(parse, decode(parse->text, &parse->at));
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

/* ---- matching ---- */

/* The steps that could be next, each once. */
struct set {
    uint32_t *members;
    uint32_t *where; /* index of a step in members, when that is where it is */
    size_t count;
};

struct run {
    const struct regex *regex;
    struct str text;
    uint32_t *stack;
    bool matched;
};

static bool is_word(struct str text, size_t at)
{
    if (at >= text.len)
        return false;
    char c = text.p[at];
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= 'a' && c <= 'z');
}

static bool holds(const struct run *run, enum step_op op, size_t at)
{
    bool edge = is_word(run->text, at) != (at > 0 && is_word(run->text, at - 1));

    switch (op) {
    case STEP_BEGIN: return at == 0;
    case STEP_END: return at == run->text.len;
    case STEP_WORD: return edge;
    case STEP_NOT_WORD: return !edge;
    case STEP_SET:
    case STEP_SPLIT:
    case STEP_JUMP:
    case STEP_MATCH: break;
    }
    return false;
}

/* Add `step` and all that can be reached from it without reading. */
static void add(struct run *run, struct set *set, uint32_t step, size_t at)
{
    size_t depth = 0;

    run->stack[depth++] = step;
    while (depth) {
        step = run->stack[--depth];
        if (set->where[step] < set->count && set->members[set->where[step]] == step)
            continue;
        set->where[step] = (uint32_t)set->count;
        set->members[set->count++] = step;
        const struct step *what = &run->regex->steps[step];
        switch (what->op) {
        case STEP_MATCH: run->matched = true; break;
        case STEP_SET: break;
        case STEP_JUMP: run->stack[depth++] = what->to; break;
        case STEP_SPLIT:
            run->stack[depth++] = what->other;
            run->stack[depth++] = what->to;
            break;
        case STEP_BEGIN:
        case STEP_END:
        case STEP_WORD:
        case STEP_NOT_WORD:
            if (holds(run, what->op, at))
                run->stack[depth++] = step + 1;
            break;
        }
    }
}

static bool in_set(const struct step *step, uint32_t code)
{
    for (uint32_t i = 0; i < step->range_count; i++)
        if (code >= step->ranges[i].low && code <= step->ranges[i].high)
            return !step->negated;
    return step->negated;
}

bool regex_matches(const struct regex *regex, struct str text)
{
    _cleanup_(arena_done) struct arena arena = {0};
    /* A step is pushed at most once per edge into it: twice the steps is enough. */
    struct run run = {
        .regex = regex, .text = text, .stack = ARENA_ARRAY(&arena, uint32_t, regex->count * 2 + 2)};
    struct set sets[2];

    for (size_t i = 0; i < 2; i++)
        sets[i] = (struct set){.members = ARENA_ARRAY(&arena, uint32_t, regex->count),
                               .where = ARENA_ARRAY(&arena, uint32_t, regex->count)};
    struct set *now = &sets[0];
    struct set *next = &sets[1];
    size_t at = 0;
    for (;;) {
        add(&run, now, 0, at);
        if (run.matched || at >= text.len)
            return run.matched;
        uint32_t code = decode(text, &at);
        next->count = 0;
        for (size_t i = 0; i < now->count; i++) {
            const struct step *step = &regex->steps[now->members[i]];

            if (step->op == STEP_SET && in_set(step, code))
                add(&run, next, now->members[i] + 1, at);
        }
        struct set *swap = now;
        now = next;
        next = swap;
    }
}

/* ---- finding ---- */

/* A set whose members are in the order of preference, each with where its match began. */
struct ranked {
    struct set set;
    size_t *begins;
};

/* As add(), which keeps the order: what is reached by `to` comes before what is by `other`. */
static void add_ranked(struct run *run,
                       struct ranked *ranked,
                       uint32_t step,
                       size_t at,
                       size_t begin)
{
    size_t before = ranked->set.count;

    add(run, &ranked->set, step, at);
    for (size_t i = before; i < ranked->set.count; i++)
        ranked->begins[i] = begin;
}

/* One character further: threads move on in their order; a match ends those behind it. */
static void find_turn(struct run *run,
                      const struct ranked *now,
                      struct ranked *next,
                      size_t at,
                      struct str *found)
{
    size_t behind = at;
    uint32_t code = at < run->text.len ? decode(run->text, &behind) : 0;

    next->set.count = 0;
    for (size_t i = 0; i < now->set.count; i++) {
        const struct step *step = &run->regex->steps[now->set.members[i]];

        if (step->op == STEP_MATCH) {
            *found = str_sub(run->text, now->begins[i], at - now->begins[i]);
            return;
        }
        if (step->op == STEP_SET && at < run->text.len && in_set(step, code))
            add_ranked(run, next, now->set.members[i] + 1, behind, now->begins[i]);
    }
}

bool regex_find(const struct regex *regex, struct str text, size_t from, struct str *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct run run = {
        .regex = regex, .text = text, .stack = ARENA_ARRAY(&arena, uint32_t, regex->count * 2 + 2)};
    struct ranked sets[2];
    struct str found = STR_NONE;

    assert(text.p);

    for (size_t i = 0; i < 2; i++)
        sets[i] = (struct ranked){.set = {.members = ARENA_ARRAY(&arena, uint32_t, regex->count),
                                          .where = ARENA_ARRAY(&arena, uint32_t, regex->count)},
                                  .begins = ARENA_ARRAY(&arena, size_t, regex->count)};
    struct ranked *now = &sets[0];
    struct ranked *next = &sets[1];
    for (size_t at = from;; at < text.len ? (void)decode(text, &at) : (void)at++) {
        /* Who began earlier is preferred; once one has matched, nobody begins any more. */
        if (!found.p)
            add_ranked(&run, now, 0, at, at);
        if (!now->set.count)
            break;
        find_turn(&run, now, next, at, &found);
        if (at >= text.len)
            break;
        struct ranked *swap = now;
        now = next;
        next = swap;
    }
    if (found.p)
        *ret = found;
    return found.p != NULL;
}
