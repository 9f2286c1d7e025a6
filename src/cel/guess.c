#include "cel/guess.h"

#include "base/arena.h"
#include "cel/ast.h"
#include "cel/shape.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TWO_TO_64 18446744073709551616.0

/* ---- numbers ---- */

uint64_t guess_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t guess_multiply(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

uint64_t guess_part(uint64_t of, double factor)
{
    double part = (double)of * factor;

    if (part >= TWO_TO_64)
        return UINT64_MAX;
    uint64_t whole = (uint64_t)part;
    return (double)whole < part ? whole + 1 : whole;
}

struct guess_size guess_both(struct guess_size a, struct guess_size b)
{
    return (struct guess_size){guess_add(a.min, b.min), guess_add(a.max, b.max)};
}

struct guess_size guess_either(struct guess_size a, struct guess_size b)
{
    return (struct guess_size){a.min < b.min ? a.min : b.min, a.max > b.max ? a.max : b.max};
}

/* ---- sizes and paths ---- */

const struct shape *guess_at(struct guess_path path)
{
    return path.count ? path.steps[path.count - 1] : NULL;
}

struct guess_path guess_step(struct arena *arena,
                             const struct shape *first,
                             struct guess_path path,
                             const struct shape *step)
{
    if (path.count == path.capacity) {
        size_t capacity = path.capacity ? 2 * path.capacity : 1;
        const struct shape **steps = ARENA_ARRAY(arena, const struct shape *, capacity);

        if (path.count)
            memcpy(steps, path.steps, path.count * sizeof(*steps));
        path.steps = steps;
        path.capacity = capacity;
    }
    path.steps[path.count] = path.count ? step : first;
    path.count++;
    return path;
}

static bool is_scalar(const struct shape *type)
{
    while (type->type == CEL_OPTIONAL && type->item)
        type = type->item;
    return type->type == CEL_BOOL || type->type == CEL_INT || type->type == CEL_UINT ||
           type->type == CEL_DOUBLE || type->type == CEL_TIMESTAMP || type->type == CEL_DURATION;
}

bool guess_size(struct guess *guess, struct guess_size *ret)
{
    const struct shape *at = guess_at(guess->path);

    if (!guess->sized && at) {
        guess->sized = true;
        guess->size = (struct guess_size){0, at->max};
    }
    if (guess->sized)
        *ret = guess->size;
    else if (is_scalar(guess->type))
        *ret = (struct guess_size){1, 1};
    else if (guess->variable && guess->variable->sized)
        *ret = guess->variable->size;
    else
        return false;
    return true;
}

struct guess_size guess_size_or_any(struct guess *guess)
{
    struct guess_size size = {0};

    return guess_size(guess, &size) ? size : (struct guess_size){0, UINT64_MAX};
}

static void set_size(struct guess *ret, struct guess_size size)
{
    ret->sized = true;
    ret->size = size;
}

/* ---- operators ---- */

static bool may_be(const struct guess *guess, enum cel_type type)
{
    return guess->type->type == type || guess->type->type == CEL_DYN;
}

static bool both_may_be(const struct guess *args, enum cel_type type)
{
    return may_be(&args[0], type) && may_be(&args[1], type);
}

static bool is_dyn(const struct guess *guess)
{
    return guess->type->type == CEL_DYN;
}

/* Comparing goes through the shorter of both. */
static uint64_t compare_cost(struct guess *args)
{
    uint64_t a = guess_size_or_any(&args[0]).max;
    uint64_t b = guess_size_or_any(&args[1]).max;

    return guess_part(a < b ? a : b, GUESS_TEXT);
}

static uint64_t equal_cost(struct guess *args)
{
    enum cel_type type = args[0].type->type;
    struct guess_size size = {1, 1};

    if (type != args[1].type->type)
        return compare_cost(args);
    if (type == CEL_IP || type == CEL_CIDR || type == CEL_QUANTITY || type == CEL_SEMVER)
        return 1;
    if (type == CEL_FORMAT)
        return guess_part(64, GUESS_TEXT); /* the longest name of a format */
    if (type != CEL_URL)
        return compare_cost(args);
    (void)guess_size(&args[1], &size);
    return guess_part(size.max, GUESS_TEXT);
}

static uint64_t order_cost(struct guess *args)
{
    uint64_t cost =
        both_may_be(args, CEL_STRING) || both_may_be(args, CEL_BYTES) ? compare_cost(args) : 1;

    return is_dyn(&args[0]) && is_dyn(&args[1]) && cost < 1 ? 1 : cost;
}

static uint64_t in_cost(struct guess *args)
{
    uint64_t cost = may_be(&args[1], CEL_LIST) ? guess_size_or_any(&args[1]).max : 1;

    return is_dyn(&args[1]) && cost < 1 ? 1 : cost;
}

static struct guess_entry either_entry(const struct guess_entry *a, const struct guess_entry *b)
{
    if (!a->known || !b->known)
        return (struct guess_entry){0};
    return (struct guess_entry){.known = true,
                                .list = a->list,
                                .key = guess_either(a->key, b->key),
                                .value = guess_either(a->value, b->value)};
}

static uint64_t add_cost(struct guess *args, struct guess *ret)
{
    bool text = both_may_be(args, CEL_STRING) || both_may_be(args, CEL_BYTES);
    uint64_t cost = 1;

    ret->type = is_dyn(&args[0]) ? args[1].type : args[0].type;
    if (args[0].type->type == CEL_DURATION && args[1].type->type == CEL_TIMESTAMP)
        ret->type = args[1].type;
    if (!text && !both_may_be(args, CEL_LIST))
        return 1;
    set_size(ret, guess_both(guess_size_or_any(&args[0]), guess_size_or_any(&args[1])));
    ret->entry = either_entry(&args[0].entry, &args[1].entry);
    if (text)
        cost = guess_part(ret->size.max, GUESS_TEXT);
    return is_dyn(&args[0]) && is_dyn(&args[1]) && cost < 1 ? 1 : cost;
}

static const struct shape *arithmetic_type(enum cel_op op, const struct guess *args)
{
    if (op == CEL_OP_SUB && args[0].type->type == CEL_TIMESTAMP &&
        args[1].type->type == CEL_TIMESTAMP)
        return shape_simple(CEL_DURATION);
    return is_dyn(&args[0]) ? args[1].type : args[0].type;
}

void guess_operator(enum cel_op op, struct guess *args, struct guess *ret)
{
    uint64_t cost = 1;

    ret->type = shape_simple(CEL_BOOL);
    if (op == CEL_OP_EQ)
        cost = equal_cost(args);
    else if (op == CEL_OP_NE)
        cost = compare_cost(args);
    else if (op == CEL_OP_IN)
        cost = in_cost(args);
    else if (op == CEL_OP_ADD)
        cost = add_cost(args, ret);
    else if (op == CEL_OP_LT || op == CEL_OP_LE || op == CEL_OP_GT || op == CEL_OP_GE)
        cost = order_cost(args);
    else
        ret->type = arithmetic_type(op, args);
    ret->cost = guess_add(cost, guess_add(args[0].cost, args[1].cost));
}
