#include "api/schema.h"
#include "base/arena.h"
#include "base/str.h"
#include "cel/number.h"
#include "cel/object.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Equality and order. Numbers compare by amount, whatever their types. */

#define UNORDERED 2

static bool is_number(struct cel_value value)
{
    return value.type == CEL_INT || value.type == CEL_UINT || value.type == CEL_DOUBLE;
}

static int order_i64(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

static int order_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int order_double(double a, double b)
{
    if (number_is_nan(a) || number_is_nan(b))
        return UNORDERED;
    return a < b ? -1 : a > b;
}

/* As the reference has it: the whole number is rounded to a double where it is in the range. */
static int order_whole_double(struct cel_value whole, double b)
{
    if (whole.type == CEL_INT)
        return b < -9223372036854775808.0  ? 1
               : b > 9223372036854775808.0 ? -1
                                           : order_double((double)whole.i, b);
    return b < 0 ? 1 : b > 18446744073709551616.0 ? -1 : order_double((double)whole.u, b);
}

static int order_numbers(struct cel_value a, struct cel_value b)
{
    if (a.type == CEL_DOUBLE && b.type == CEL_DOUBLE)
        return order_double(a.d, b.d);
    if (b.type == CEL_DOUBLE)
        return order_whole_double(a, b.d);
    if (a.type == CEL_DOUBLE) {
        int r = order_whole_double(b, a.d);

        return r == UNORDERED ? r : -r;
    }
    if (a.type == CEL_INT && b.type == CEL_INT)
        return order_i64(a.i, b.i);
    if (a.type == CEL_INT && a.i < 0)
        return -1;
    if (b.type == CEL_INT && b.i < 0)
        return 1;
    return order_u64(a.u, b.u); /* the bits of what is not negative are the same */
}

int cel_compare(struct cel_value a, struct cel_value b)
{
    if (is_number(a) && is_number(b))
        return order_numbers(a, b);
    if (a.type != b.type)
        return UNORDERED;
    switch (a.type) {
    case CEL_BOOL: return (int)a.truth - (int)b.truth;
    case CEL_STRING:
    case CEL_BYTES: return str_cmp(a.s, b.s);
    case CEL_DURATION: return order_i64(a.i, b.i);
    case CEL_TIMESTAMP: {
        int r = order_i64(a.i, b.i);

        return r ? r : order_u64(a.nanos, b.nanos);
    }
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_NULL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_LIST:
    case CEL_MAP:
    case CEL_TYPE:
    case CEL_OPTIONAL:
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER:
    case CEL_FORMAT: break;
    }
    return UNORDERED;
}

/* Equality of what may be large: each pair of values is a step, and so are some sixteen members that
 * are looked through for one. */
struct comparing {
    struct arena *arena;
    uint64_t steps_left;
};

static bool equal(struct comparing *c, struct cel_value a, struct cel_value b);

static bool comparing_step(struct comparing *c, uint64_t steps)
{
    c->steps_left = c->steps_left > steps ? c->steps_left - steps : 0;
    return c->steps_left > 0;
}

/* Sets and lists by key: each is somewhere in the other. Their members are unique. */
// NOLINTNEXTLINE(misc-no-recursion)
static bool equal_unordered(struct comparing *c, struct cel_value a, struct cel_value b)
{
    for (struct cel_walk one = cel_walk(c->arena, a); cel_next(&one);) {
        bool found = false;

        for (struct cel_walk two = cel_walk(c->arena, b); !found && cel_next(&two);)
            found = equal(c, one.value, two.value);
        if (!found)
            return false;
    }
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool equal_lists(struct comparing *c, struct cel_value a, struct cel_value b)
{
    struct cel_walk one = cel_walk(c->arena, a);
    struct cel_walk two = cel_walk(c->arena, b);

    if (a.list->count != b.list->count)
        return false;
    if (a.list->schema && a.list->schema->list != SCHEMA_LIST_ATOMIC)
        return equal_unordered(c, a, b);
    while (cel_next(&one) && cel_next(&two))
        if (!equal(c, one.value, two.value))
            return false;
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool equal_maps(struct comparing *c, struct cel_value a, struct cel_value b)
{
    struct cel_value other = {0};

    if (a.map->count != b.map->count)
        return false;
    for (struct cel_walk walk = cel_walk(c->arena, a); cel_next(&walk);)
        if (!comparing_step(c, b.map->count / 16) || !cel_map_at(c->arena, b, walk.key, &other) ||
            !equal(c, walk.value, other))
            return false;
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static bool equal(struct comparing *c, struct cel_value a, struct cel_value b)
{
    if (!comparing_step(c, 1))
        return false;
    if (is_number(a) && is_number(b))
        return order_numbers(a, b) == 0;
    if (a.type != b.type)
        return false;
    switch (a.type) {
    case CEL_NULL: return true;
    case CEL_LIST: return equal_lists(c, a, b);
    case CEL_MAP: return equal_maps(c, a, b);
    case CEL_TYPE:
    case CEL_FORMAT: return str_eq(a.s, b.s);
    case CEL_OPTIONAL: return a.held && b.held ? equal(c, *a.held, *b.held) : !a.held && !b.held;
    case CEL_URL:
    case CEL_IP:
    case CEL_CIDR:
    case CEL_QUANTITY:
    case CEL_SEMVER: return object_equal(a, b);
    case CEL_BOOL:
    case CEL_STRING:
    case CEL_BYTES:
    case CEL_TIMESTAMP:
    case CEL_DURATION: return cel_compare(a, b) == 0;
    case CEL_DYN:
    case CEL_ERROR:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE: break;
    }
    return false;
}

bool cel_equal_within(struct cel_value a, struct cel_value b, uint64_t *steps)
{
    struct arena scratch = {0};
    struct comparing c = {.arena = &scratch, .steps_left = *steps};
    bool same = equal(&c, a, b);

    arena_done(&scratch);
    *steps = c.steps_left;
    return same;
}

bool cel_equal(struct cel_value a, struct cel_value b)
{
    uint64_t steps = UINT64_MAX;

    return cel_equal_within(a, b, &steps);
}
