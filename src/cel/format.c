#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "cel/number.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* "%s has %d".format([name, count]) */

#define PRECISION_MAX 100 /* more digits than a double has */

struct writing {
    struct cel_run *run;
    struct buf out;
    struct cel_value error; /* CEL_ERROR: what went wrong */
};

static void writing_fails(struct writing *writing, struct str words)
{
    if (writing->error.type != CEL_ERROR)
        writing->error = cel_error(words);
}

static bool has_text(enum cel_type type)
{
    return type != CEL_OPTIONAL && type != CEL_FORMAT && type != CEL_ERROR;
}

static void write_text(struct writing *writing, struct cel_value value)
{
    if (has_text(value.type))
        buf_add(&writing->out, object_text(writing->run->arena, value));
    else
        writing_fails(writing, STR("string clause can only be used on strings, bools, bytes, ints, "
                                   "doubles, maps, lists, types, durations, and timestamps"));
}

static void write_special(struct writing *writing, double value, bool quoted)
{
    struct str text = number_is_nan(value) ? STR("NaN")
                      : value > 0          ? STR("\u221e")
                                           : STR("-\u221e");

    if (quoted)
        buf_addc(&writing->out, '"');
    buf_add(&writing->out, text);
    if (quoted)
        buf_addc(&writing->out, '"');
}

/* What is inside of a list or map is written as an expression would have it. */
static void write_quoted(struct writing *writing, struct cel_value value)
{
    const char *before = value.type == CEL_STRING      ? "\""
                         : value.type == CEL_BYTES     ? "b\""
                         : value.type == CEL_TIMESTAMP ? "timestamp(\""
                         : value.type == CEL_DURATION  ? "duration(\""
                                                       : "";
    bool moment = value.type == CEL_TIMESTAMP || value.type == CEL_DURATION;

    buf_add(&writing->out, str_from(before));
    write_text(writing, value);
    buf_add(&writing->out, moment ? STR("\")") : *before ? STR("\"") : STR(""));
}

static void write_inside(struct writing *writing, struct cel_value value);

struct keyed {
    struct str key; /* as it is written */
    struct cel_value value;
};

static int keyed_order(const void *a, const void *b)
{
    return str_cmp(((const struct keyed *)a)->key, ((const struct keyed *)b)->key);
}

/* The entries in the order of their keys as they are written; NULL: stopped. */
static struct keyed *entries_in_order(struct writing *writing, struct cel_value map)
{
    struct cel_run *run = writing->run;
    size_t count = 0;

    if (!run_charge(run, cel_count(map)) || !run_room(run, cel_count(map) * sizeof(struct keyed))) {
        writing->error = run->stopped;
        return NULL;
    }
    struct keyed *entries = ARENA_ARRAY(run->arena, struct keyed, cel_count(map));
    for (struct cel_walk walk = cel_walk(run->arena, map); cel_next(&walk);) {
        struct writing key = {.run = run, .out = {.bytes_max = CEL_MEMORY_MAX}};

        write_quoted(&key, walk.key);
        entries[count++] = (struct keyed){str_dup(run->arena, buf_str(&key.out)), walk.value};
        buf_done(&key.out);
    }
    qsort(entries, count, sizeof(*entries), keyed_order);
    return entries;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_map(struct writing *writing, struct cel_value map)
{
    const struct keyed *entries = entries_in_order(writing, map);

    buf_addc(&writing->out, '{');
    for (size_t i = 0; entries && i < cel_count(map); i++) {
        if (i > 0)
            buf_add(&writing->out, STR(", "));
        buf_add(&writing->out, entries[i].key);
        buf_addc(&writing->out, ':');
        write_inside(writing, entries[i].value);
    }
    buf_addc(&writing->out, '}');
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_list(struct writing *writing, struct cel_value list)
{
    buf_addc(&writing->out, '[');
    for (struct cel_walk walk = cel_walk(writing->run->arena, list); cel_next(&walk);) {
        if (walk.index > 1)
            buf_add(&writing->out, STR(", "));
        write_inside(writing, walk.value);
    }
    buf_addc(&writing->out, ']');
}

// NOLINTNEXTLINE(misc-no-recursion)
static void write_inside(struct writing *writing, struct cel_value value)
{
    if (!run_charge(writing->run, 1) || !run_room(writing->run, writing->out.len)) {
        writing->error = writing->run->stopped;
        return;
    }
    if (value.type == CEL_LIST)
        write_list(writing, value);
    else if (value.type == CEL_MAP)
        write_map(writing, value);
    else if (value.type != CEL_DOUBLE)
        write_quoted(writing, value);
    else if (number_is_nan(value.d) || number_is_infinite(value.d))
        write_special(writing, value.d, true);
    else
        buf_addf(&writing->out, "%.6f", value.d);
}

/* %s */
static void write_value(struct writing *writing, struct cel_value value)
{
    if (value.type == CEL_LIST || value.type == CEL_MAP)
        write_inside(writing, value);
    else
        write_text(writing, value);
}

/* %d */
static void write_decimal(struct writing *writing, struct cel_value value)
{
    if (value.type == CEL_INT || value.type == CEL_UINT)
        write_value(writing, value);
    else
        writing_fails(writing, STR("decimal clause can only be used on integers"));
}

/* 1.5 times ten to the third, with narrow blanks around the sign and the exponent raised. */
static void write_exponent(struct writing *writing, double value, int precision)
{
    static const char *const raised[] = {"\u2070", "\u00b9", "\u00b2", "\u00b3", "\u2074",
                                         "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
    struct str text = str_printf(writing->run->arena, "%.*e", precision, value);
    size_t mark = str_find(text, 'e');

    buf_add(&writing->out, str_sub(text, 0, mark));
    buf_add(&writing->out, STR("\u202f\u00d7\u202f10"));
    if (text.p[mark + 1] == '-')
        buf_add(&writing->out, STR("\u207b"));
    for (size_t i = mark + 2; i < text.len; i++)
        buf_add(&writing->out, str_from(raised[text.p[i] - '0']));
}

/* %f and %e */
static void write_real(struct writing *writing, struct cel_value value, bool fixed, int precision)
{
    double real = value.d;

    if (value.type == CEL_INT)
        real = (double)value.i;
    else if (value.type == CEL_UINT)
        real = (double)value.u;
    else if (value.type == CEL_STRING && !number_parse(value.s, &real)) {
        writing_fails(writing, STR("a text is no number"));
        return;
    } else if (value.type != CEL_DOUBLE && value.type != CEL_STRING) {
        writing_fails(writing, fixed ? STR("fixed-point clause can only be used on doubles")
                                     : STR("scientific clause can only be used on doubles"));
        return;
    }
    if (number_is_nan(real) || number_is_infinite(real))
        write_special(writing, real, false);
    else if (fixed)
        buf_addf(&writing->out, "%.*f", precision, real);
    else
        write_exponent(writing, real, precision);
}

static void write_digits(struct writing *writing, uint64_t value, unsigned base, bool upper)
{
    static const char lower_digits[] = "0123456789abcdef";
    static const char upper_digits[] = "0123456789ABCDEF";
    char out[65];
    size_t at = sizeof(out);

    do {
        out[--at] = (upper ? upper_digits : lower_digits)[value % base];
        value /= base;
    } while (value);
    buf_add(&writing->out, (struct str){out + at, sizeof(out) - at});
}

/* %b %o %x %X of numbers */
static void write_based(struct writing *writing, struct cel_value value, char clause)
{
    unsigned base = clause == 'b' ? 2 : clause == 'o' ? 8 : 16;
    bool upper = clause == 'X';

    if (value.type == CEL_BOOL && base == 2)
        write_digits(writing, value.truth, base, upper);
    else if (value.type == CEL_UINT)
        write_digits(writing, value.u, base, upper);
    else if (value.type == CEL_INT) {
        if (value.i < 0)
            buf_addc(&writing->out, '-');
        write_digits(writing, value.i < 0 ? -(uint64_t)value.i : (uint64_t)value.i, base, upper);
    } else if (base == 16 && (value.type == CEL_STRING || value.type == CEL_BYTES))
        for (size_t i = 0; i < value.s.len; i++) {
            unsigned char byte = (unsigned char)value.s.p[i];

            write_digits(writing, byte >> 4, 16, upper);
            write_digits(writing, byte & 15, 16, upper);
        }
    else
        writing_fails(writing, base == 2 ? STR("only integers and bools can be formatted as binary")
                               : base == 8 ? STR("octal clause can only be used on integers")
                                           : STR("only integers, byte buffers, and strings can be "
                                                 "formatted as hex"));
}

/* One clause behind its %; *at moves behind it. */
static void write_clause(struct writing *writing,
                         struct str format,
                         size_t *at,
                         struct cel_value value)
{
    int precision = 6;

    if (*at < format.len && format.p[*at] == '.')
        for (precision = 0, ++*at; *at < format.len && format.p[*at] >= '0' && format.p[*at] <= '9';
             ++*at)
            precision = precision < 1000 ? precision * 10 + (format.p[*at] - '0') : precision;
    if (precision > PRECISION_MAX) {
        writing_fails(writing, STR("the precision of a number is at most 100"));
        return;
    }
    char clause = *at < format.len ? format.p[(*at)++] : '\0';
    if (clause == 's')
        write_value(writing, value);
    else if (clause == 'd')
        write_decimal(writing, value);
    else if (clause == 'f' || clause == 'e')
        write_real(writing, value, clause == 'f', precision);
    else if (clause == 'b' || clause == 'o' || clause == 'x' || clause == 'X')
        write_based(writing, value, clause);
    else
        writing_fails(writing, STR("could not parse formatting clause: unrecognized formatting "
                                   "clause"));
}

static void write_all(struct writing *writing, struct str format, struct cel_value list)
{
    struct cel_walk walk = cel_walk(writing->run->arena, list);

    for (size_t at = 0; at < format.len && writing->error.type != CEL_ERROR;) {
        size_t len = str_find(str_sub(format, at, format.len), '%');

        buf_add(&writing->out, str_sub(format, at, len));
        at += len;
        if (at >= format.len)
            break;
        if (str_starts(str_sub(format, at, 2), STR("%%"))) {
            buf_addc(&writing->out, '%');
            at += 2;
            continue;
        }
        at++;
        if (!cel_next(&walk)) {
            writing_fails(writing, STR("index out of bounds: there are more clauses than values"));
            return;
        }
        write_clause(writing, format, &at, walk.value);
        if (!run_charge(writing->run, 1) || !run_room(writing->run, writing->out.len))
            writing->error = writing->run->stopped;
    }
}

static struct cel_value fn_format(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct writing writing = {.run = run, .out = {.bytes_max = CEL_MEMORY_MAX}};

    (void)count;
    if (args[0].type != CEL_STRING || args[1].type != CEL_LIST)
        return run_no_overload();
    if (!run_charge_text(run, args[0].s.len))
        return run->stopped;
    write_all(&writing, args[0].s, args[1]);
    struct cel_value value = writing.error;
    size_t bytes = writing.out.overflow ? SIZE_MAX : writing.out.len;
    if (value.type != CEL_ERROR && run_charge_text(run, writing.out.len) && run_room(run, bytes))
        value = cel_string(str_utf8(run->arena, str_dup(run->arena, buf_str(&writing.out))));
    buf_done(&writing.out);
    return value.type == CEL_DYN ? run->stopped : value;
}

const struct cel_function cel_functions_format[] = {
    {"format", true, 2, 2, CEL_STRING, fn_format, "s[*]>s"},
    {0},
};
