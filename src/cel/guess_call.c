#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/guess.h"
#include "cel/run.h"
#include "cel/shape.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What calls cost, by function: one that goes through a text costs by its length. `args` have the
 * receiver first; what is known of the size of the result is set in `ret`. */

static uint64_t text_cost(struct guess *of)
{
    return guess_part(guess_size_or_any(of).max, GUESS_TEXT);
}

static void set_size(struct guess *ret, uint64_t min, uint64_t max)
{
    ret->sized = true;
    ret->size = (struct guess_size){min, max};
}

static struct guess_size product(struct guess_size a, struct guess_size b)
{
    return (struct guess_size){guess_multiply(a.min, b.min), guess_multiply(a.max, b.max)};
}

static bool may_be(const struct guess *guess, enum cel_type type)
{
    return guess->type->type == type || guess->type->type == CEL_DYN;
}

/* ---- texts ---- */

/* Goes through the first, and gives as much. */
static uint64_t cost_as_long(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size size = guess_size_or_any(&args[0]);

    (void)node;
    set_size(ret, size.min, size.max);
    return text_cost(&args[0]);
}

static uint64_t cost_format(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return text_cost(&args[0]);
}

/* Goes through what it is given; a receiver does not count. */
static uint64_t cost_given(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)ret;
    return text_cost(&args[node->member ? 1 : 0]);
}

static uint64_t cost_twice(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return guess_part(guess_size_or_any(&args[0]).max, 2 * GUESS_TEXT);
}

static uint64_t cost_quote(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size size = guess_size_or_any(&args[0]);

    (void)node;
    set_size(ret, size.min + 2, size.max * 2 + 2);
    return text_cost(&args[0]);
}

/* A text that becomes bytes, or bytes that become a text; other conversions are a step. */
static uint64_t convert(struct guess *from,
                        enum cel_type type,
                        struct guess_size to,
                        struct guess *ret)
{
    uint64_t cost = text_cost(from);

    if (!may_be(from, type))
        return 1;
    set_size(ret, to.min, to.max);
    return from->type->type == CEL_DYN && cost < 1 ? 1 : cost;
}

static uint64_t cost_bytes(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size size = guess_size_or_any(&args[0]);

    (void)node;
    return convert(&args[0], CEL_STRING, (struct guess_size){size.min, size.max * 4}, ret);
}

static uint64_t cost_string(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size size = guess_size_or_any(&args[0]);

    (void)node;
    return convert(&args[0], CEL_BYTES, (struct guess_size){size.min / 4, size.max}, ret);
}

static uint64_t cost_contains(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return guess_multiply(text_cost(&args[0]), text_cost(&args[1]));
}

/* matches(text, pattern) is a step, text.matches(pattern) is not. */
static uint64_t cost_matches(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    uint64_t length = guess_add(guess_size_or_any(&args[0]).max, 1);

    (void)ret;
    return node->member ? guess_multiply(guess_part(length, GUESS_TEXT),
                                         guess_part(guess_size_or_any(&args[1]).max, GUESS_PATTERN))
                        : 1;
}

static uint64_t cost_find(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    set_size(ret, 0, guess_size_or_any(&args[0]).max);
    return cost_matches(node, args, ret);
}

static uint64_t parts_of(uint64_t of, uint64_t each)
{
    return guess_part(1, (double)of / (double)each);
}

/* How long what is given can be, and how short. */
static uint64_t cost_replace(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size text = guess_size_or_any(&args[0]);
    struct guess_size old = guess_size_or_any(&args[1]);
    struct guess_size new = guess_size_or_any(&args[2]);
    struct guess_size times = {0};
    struct guess_size kept = {0};

    (void)node;
    if (old.min == 0) { /* between all characters */
        times.max = guess_add(text.max, 1);
        kept.max = text.max;
    } else if (new.max <= old.min) {
        kept.max = text.max;
    } else {
        times.max = parts_of(text.max, old.min);
    }
    if (old.max == 0) {
        times.min = guess_add(text.min, 1);
        kept.min = text.min;
    } else if (old.max <= new.min) {
        kept.min = text.min;
    } else {
        times.min = parts_of(text.min, old.max);
    }
    struct guess_size size = guess_both(product(times, new), kept);
    set_size(ret, size.min, size.max);
    return guess_part(text.max, 2 * GUESS_TEXT);
}

static uint64_t cost_split(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    uint64_t most = guess_size_or_any(&args[0]).max;

    if (node->count > 2 && node->args[2]->op == CEL_OP_CONST &&
        node->args[2]->constant.type == CEL_INT)
        most = (uint64_t)node->args[2]->constant.i;
    set_size(ret, 0, most);
    return guess_part(guess_size_or_any(&args[0]).max, 2 * GUESS_TEXT);
}

/* By a pattern of 128 characters. */
static uint64_t cost_validate(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return guess_part(text_cost(&args[1]), 128 * GUESS_PATTERN);
}

/* ---- lists ---- */

/* The size of the items: known where the list is in the object. */
static struct guess_size items_size(const struct guess *list)
{
    const struct shape *at = guess_at(list->path);

    return at && at->item ? (struct guess_size){0, at->item->max}
                          : (struct guess_size){0, UINT64_MAX};
}

static uint64_t cost_items(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    const struct shape *item = args[0].type->type == CEL_LIST ? args[0].type->item : NULL;
    uint64_t each = 1;

    (void)node;
    (void)ret;
    if (!item)
        return text_cost(&args[0]); /* indexOf of a text */
    if (item->type == CEL_STRING || item->type == CEL_BYTES)
        each = guess_add(each, guess_part(items_size(&args[0]).max, GUESS_TEXT));
    return guess_multiply(guess_size_or_any(&args[0]).max, each);
}

static uint64_t cost_join(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    struct guess_size count = guess_size_or_any(&args[0]);
    struct guess_size size = {0};

    if (args[0].type->type == CEL_LIST)
        size = product(count, items_size(&args[0]));
    if (node->count > 1) {
        struct guess_size gaps = {count.min ? count.min - 1 : 0, count.max ? count.max - 1 : 0};

        size = guess_both(size, product(guess_size_or_any(&args[1]), gaps));
    }
    set_size(ret, size.min, size.max);
    return guess_part(size.max, GUESS_TEXT);
}

static uint64_t pairs(struct guess *args)
{
    return guess_multiply(guess_size_or_any(&args[0]).max, guess_size_or_any(&args[1]).max);
}

static uint64_t cost_sets(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return guess_add(guess_part(pairs(args), 1), 1);
}

static uint64_t cost_sets_twice(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    (void)ret;
    return guess_add(guess_part(pairs(args), 2), 1);
}

/* ---- others ---- */

/* A text is read; a CIDR's own ip() is a step. */
static uint64_t cost_ip(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    return node->member ? 1 : cost_given(node, args, ret);
}

/* Comparing two addresses of at most 16 bytes; one that is a text is read first. */
static uint64_t cost_contains_ip(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    uint64_t cost = guess_part(32, GUESS_TEXT);

    (void)node;
    (void)ret;
    return may_be(&args[1], CEL_STRING) ? guess_add(cost, text_cost(&args[1])) : cost;
}

static uint64_t cost_contains_cidr(const struct cel_node *node,
                                   struct guess *args,
                                   struct guess *ret)
{
    return guess_add(cost_contains_ip(node, args, ret), guess_part(16, GUESS_TEXT) + 1);
}

static uint64_t cost_dyn(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    (void)node;
    ret->sized = guess_size(&args[0], &ret->size);
    ret->entry = args[0].entry;
    return 1;
}

/* What is not here is a step, whatever it is given. */
static const struct {
    const char *name;
    uint64_t (*cost)(const struct cel_node *node, struct guess *args, struct guess *ret);
} costs[] = {
    {"lowerAscii", cost_as_long},
    {"upperAscii", cost_as_long},
    {"substring", cost_as_long},
    {"trim", cost_as_long},
    {"url", cost_as_long},
    {"startsWith", cost_given},
    {"endsWith", cost_given},
    {"cidr", cost_given},
    {"isIP", cost_given},
    {"isCIDR", cost_given},
    {"quantity", cost_given},
    {"isQuantity", cost_given},
    {"semver", cost_given},
    {"isSemver", cost_given},
    {"ip", cost_ip},
    {"ip.isCanonical", cost_twice},
    {"format", cost_format},
    {"strings.quote", cost_quote},
    {"bytes", cost_bytes},
    {"string", cost_string},
    {"contains", cost_contains},
    {"matches", cost_matches},
    {"find", cost_find},
    {"findAll", cost_find},
    {"replace", cost_replace},
    {"split", cost_split},
    {"validate", cost_validate},
    {"isSorted", cost_items},
    {"sum", cost_items},
    {"min", cost_items},
    {"max", cost_items},
    {"indexOf", cost_items},
    {"lastIndexOf", cost_items},
    {"join", cost_join},
    {"sets.contains", cost_sets},
    {"sets.intersects", cost_sets},
    {"sets.equivalent", cost_sets_twice},
    {"containsIP", cost_contains_ip},
    {"containsCIDR", cost_contains_cidr},
    {"dyn", cost_dyn},
};

static uint64_t call_cost(const struct cel_node *node, struct guess *args, struct guess *ret)
{
    for (size_t i = 0; i < COUNT_OF(costs); i++)
        if (str_is(node->name, costs[i].name))
            return costs[i].cost(node, args, ret);
    return 1;
}

/* What a call gives, where the function alone does not say. */
static const struct shape *call_type(struct arena *arena,
                                     const struct cel_node *node,
                                     const struct guess *args)
{
    enum cel_type type = node->function->result;
    const struct shape *first = node->count ? args[0].type : shape_simple(CEL_DYN);
    const struct shape *held = first->item ? first->item : shape_simple(CEL_DYN);
    const struct shape *text = shape_simple(CEL_STRING);

    if (str_is(node->name, "first") || str_is(node->name, "last"))
        return shape_holding(arena, CEL_OPTIONAL, held);
    if (str_is(node->name, "unwrapOpt") || str_is(node->name, "optional.unwrap"))
        return shape_holding(arena, CEL_LIST, held->item ? held->item : shape_simple(CEL_DYN));
    if (type == CEL_LIST) /* split, findAll */
        return shape_holding(arena, CEL_LIST, text);
    if (type == CEL_MAP) /* getQuery */
        return shape_holding(arena, CEL_MAP, shape_holding(arena, CEL_LIST, text));
    if (str_starts(node->name, STR("optional.")))
        return shape_holding(arena, CEL_OPTIONAL, first);
    if (str_is(node->name, "validate"))
        return shape_holding(arena, CEL_OPTIONAL, shape_holding(arena, CEL_LIST, text));
    if (str_is(node->name, "format.named"))
        return shape_holding(arena, CEL_OPTIONAL, shape_simple(CEL_FORMAT));
    if (type == CEL_OPTIONAL) /* or */
        return first;
    if (str_is(node->name, "orValue") && !first->item)
        return args[1].type;
    return type == CEL_DYN && !str_is(node->name, "dyn") ? held : shape_simple(type);
}

void guess_call(struct arena *arena,
                const struct cel_node *node,
                struct guess *args,
                struct guess *ret)
{
    ret->type = call_type(arena, node, args);
    ret->cost = call_cost(node, args, ret);
    for (size_t i = 0; i < node->count; i++)
        ret->cost = guess_add(ret->cost, args[i].cost);
}
