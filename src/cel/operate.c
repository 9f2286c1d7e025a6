#include "api/schema.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/moment.h"
#include "cel/number.h"
#include "cel/object.h"
#include "cel/run.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The operators. */

struct cel_value run_no_overload(void)
{
    return cel_error(STR("no such overload"));
}

/* ---- arithmetic ---- */

static struct cel_value int_operate(enum cel_op op, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool over = false;

    if ((op == CEL_OP_DIV || op == CEL_OP_MOD) && b == 0)
        return cel_error(op == CEL_OP_DIV ? STR("division by zero") : STR("modulus by zero"));
    if ((op == CEL_OP_DIV || op == CEL_OP_MOD) && b == -1 && a == INT64_MIN)
        return cel_error(STR("integer overflow"));
    if (op == CEL_OP_ADD)
        over = __builtin_add_overflow(a, b, &result);
    else if (op == CEL_OP_SUB)
        over = __builtin_sub_overflow(a, b, &result);
    else if (op == CEL_OP_MUL)
        over = __builtin_mul_overflow(a, b, &result);
    else
        result = op == CEL_OP_DIV ? a / b : a % b;
    return over ? cel_error(STR("integer overflow")) : cel_int(result);
}

static struct cel_value uint_operate(enum cel_op op, uint64_t a, uint64_t b)
{
    uint64_t result = 0;
    bool over = false;

    if ((op == CEL_OP_DIV || op == CEL_OP_MOD) && b == 0)
        return cel_error(op == CEL_OP_DIV ? STR("division by zero") : STR("modulus by zero"));
    if (op == CEL_OP_ADD)
        over = __builtin_add_overflow(a, b, &result);
    else if (op == CEL_OP_SUB)
        over = __builtin_sub_overflow(a, b, &result);
    else if (op == CEL_OP_MUL)
        over = __builtin_mul_overflow(a, b, &result);
    else
        result = op == CEL_OP_DIV ? a / b : a % b;
    return over ? cel_error(STR("unsigned integer overflow")) : cel_uint(result);
}

static struct cel_value double_operate(enum cel_op op, double a, double b)
{
    if (op == CEL_OP_ADD)
        return cel_double(a + b);
    if (op == CEL_OP_SUB)
        return cel_double(a - b);
    if (op == CEL_OP_MUL)
        return cel_double(a * b);
    return op == CEL_OP_DIV ? cel_double(a / b) : run_no_overload();
}

static struct cel_value moment_operate(enum cel_op op, struct cel_value a, struct cel_value b)
{
    bool add = op == CEL_OP_ADD;

    if (!add && op != CEL_OP_SUB)
        return run_no_overload();
    if (a.type == CEL_TIMESTAMP && b.type == CEL_TIMESTAMP)
        return add ? run_no_overload() : moment_between(a, b);
    if (a.type == CEL_TIMESTAMP && b.type == CEL_DURATION)
        return add || b.i != INT64_MIN ? moment_add(a, add ? b.i : -b.i)
                                       : cel_error(STR("integer overflow"));
    if (a.type == CEL_DURATION && b.type == CEL_TIMESTAMP)
        return add ? moment_add(b, a.i) : run_no_overload();
    if (a.type != CEL_DURATION || b.type != CEL_DURATION)
        return run_no_overload();
    struct cel_value sum = int_operate(op, a.i, b.i);
    return sum.type == CEL_ERROR ? sum : cel_duration(sum.i);
}

struct cel_value run_negate(struct cel_value value)
{
    if (value.type == CEL_DOUBLE)
        return cel_double(-value.d);
    if (value.type != CEL_INT)
        return run_no_overload();
    return value.i == INT64_MIN ? cel_error(STR("integer overflow")) : cel_int(-value.i);
}

/* ---- joining ---- */

static struct cel_value join_text(struct cel_run *run, struct cel_value a, struct cel_value b)
{
    if (!run_charge_text(run, a.s.len + b.s.len) || !run_room(run, a.s.len + b.s.len))
        return run->stopped;
    char *out = arena_raw(run->arena, a.s.len + b.s.len + 1, 1);
    if (a.s.len)
        memcpy(out, a.s.p, a.s.len);
    if (b.s.len)
        memcpy(out + a.s.len, b.s.p, b.s.len);
    out[a.s.len + b.s.len] = '\0';
    return (struct cel_value){.type = a.type, .s = {out, a.s.len + b.s.len}};
}

/* Is it the same member: of a set by its value, of a list by key by its keys? False: stopped. */
static bool same_member(struct cel_run *run,
                        const struct schema *schema,
                        struct cel_value a,
                        struct cel_value b,
                        bool *ret)
{
    if (schema->list == SCHEMA_LIST_SET)
        return run_equal(run, a, b, ret);
    *ret = true;
    JSON_FOREACH(schema->list_keys, key) {
        struct cel_value name = cel_string(json_str(key));
        struct cel_value of_a = cel_null();
        struct cel_value of_b = cel_null();
        bool same = false;

        (void)cel_map_at(run->arena, a, name, &of_a);
        (void)cel_map_at(run->arena, b, name, &of_b);
        if (!run_equal(run, of_a, of_b, &same))
            return false;
        *ret = *ret && same;
    }
    return true;
}

/* Of sets and lists by key: what both have is there once, where the first has it; of a list by key
 * the second's takes its place. */
static struct cel_value merge_lists(struct cel_run *run,
                                    const struct schema *schema,
                                    struct cel_value *items,
                                    size_t count,
                                    struct cel_value b)
{
    struct cel_list *merged = ARENA_NEW(run->arena, struct cel_list);

    for (struct cel_walk walk = cel_walk(run->arena, b); cel_next(&walk);) {
        bool same = false;
        size_t at = 0;

        for (; at < count; at++) {
            if (!run_charge(run, 1) || !run_room(run, 0) ||
                !same_member(run, schema, items[at], walk.value, &same))
                return run->stopped;
            if (same)
                break;
        }
        if (at == count)
            count++;
        items[at] = walk.value;
    }
    *merged = (struct cel_list){.items = items, .count = count, .schema = schema};
    return (struct cel_value){.type = CEL_LIST, .list = merged};
}

static struct cel_value join_lists(struct cel_run *run, struct cel_value a, struct cel_value b)
{
    const struct schema *schema = a.list->schema;
    size_t total = cel_count(a) + cel_count(b);
    size_t count = 0;

    if (!run_charge_text(run, total) || !run_room(run, total * sizeof(struct cel_value)))
        return run->stopped;
    struct cel_value *items = ARENA_ARRAY(run->arena, struct cel_value, total);
    for (struct cel_walk walk = cel_walk(run->arena, a); cel_next(&walk);)
        items[count++] = walk.value;
    if (schema && schema->list != SCHEMA_LIST_ATOMIC)
        return merge_lists(run, schema, items, count, b);
    for (struct cel_walk walk = cel_walk(run->arena, b); cel_next(&walk);)
        items[count++] = walk.value;
    return cel_new_list(run->arena, items, count);
}

static struct cel_value arithmetic(struct cel_run *run,
                                   enum cel_op op,
                                   struct cel_value a,
                                   struct cel_value b)
{
    if (a.type == CEL_TIMESTAMP || a.type == CEL_DURATION)
        return moment_operate(op, a, b);
    if (a.type != b.type)
        return run_no_overload();
    if (a.type == CEL_INT)
        return int_operate(op, a.i, b.i);
    if (a.type == CEL_UINT)
        return uint_operate(op, a.u, b.u);
    if (a.type == CEL_DOUBLE)
        return double_operate(op, a.d, b.d);
    if (op == CEL_OP_ADD && (a.type == CEL_STRING || a.type == CEL_BYTES))
        return join_text(run, a, b);
    return op == CEL_OP_ADD && a.type == CEL_LIST ? join_lists(run, a, b) : run_no_overload();
}

/* ---- comparison ---- */

static size_t size_of(struct cel_value value)
{
    return value.type == CEL_STRING || value.type == CEL_BYTES ? value.s.len : cel_count(value);
}

static bool is_number(enum cel_type type)
{
    return type == CEL_INT || type == CEL_UINT || type == CEL_DOUBLE;
}

static struct cel_value ordered(struct cel_run *run,
                                enum cel_op op,
                                struct cel_value a,
                                struct cel_value b)
{
    int order = cel_compare(a, b);

    if (!(is_number(a.type) && is_number(b.type)) && order == 2)
        return run_no_overload();
    size_t least = size_of(a) < size_of(b) ? size_of(a) : size_of(b);
    if (!run_charge_text(run, least))
        return run->stopped;
    if (order == 2) /* NaN */
        return cel_bool(false);
    return cel_bool(op == CEL_OP_LT   ? order < 0
                    : op == CEL_OP_LE ? order <= 0
                    : op == CEL_OP_GT ? order > 0
                                      : order >= 0);
}

bool run_equal(struct cel_run *run, struct cel_value a, struct cel_value b, bool *ret_same)
{
    uint64_t most = run->cost < run->cost_max ? (run->cost_max - run->cost) * 10 + 10 : 10;
    uint64_t left = most;

    *ret_same = cel_equal_within(a, b, &left);
    return run_charge(run, (most - left) / 10);
}

static struct cel_value contained(struct cel_run *run, struct cel_value a, struct cel_value b)
{
    struct cel_value found = {0};
    bool same = false;

    if (b.type == CEL_MAP)
        return run_charge_lookup(run, b) ? cel_bool(cel_map_at(run->arena, b, a, &found))
                                         : run->stopped;
    if (b.type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, b); cel_next(&walk);) {
        if (!run_charge(run, 1) || !run_room(run, 0) || !run_equal(run, walk.value, a, &same))
            return run->stopped;
        if (same)
            return cel_bool(true);
    }
    return cel_bool(false);
}

struct cel_value run_operate(struct cel_run *run, int op, struct cel_value a, struct cel_value b)
{
    size_t least = size_of(a) < size_of(b) ? size_of(a) : size_of(b);
    bool same = false;

    switch ((enum cel_op)op) {
    case CEL_OP_EQ:
    case CEL_OP_NE:
        if (!run_charge_text(run, least) || !run_equal(run, a, b, &same))
            return run->stopped;
        return cel_bool(same == (op == CEL_OP_EQ));
    case CEL_OP_LT:
    case CEL_OP_LE:
    case CEL_OP_GT:
    case CEL_OP_GE: return ordered(run, (enum cel_op)op, a, b);
    case CEL_OP_IN: return contained(run, a, b);
    case CEL_OP_ADD:
    case CEL_OP_SUB:
    case CEL_OP_MUL:
    case CEL_OP_DIV:
    case CEL_OP_MOD: return arithmetic(run, (enum cel_op)op, a, b);
    case CEL_OP_CONST:
    case CEL_OP_IDENT:
    case CEL_OP_SELECT:
    case CEL_OP_HAS:
    case CEL_OP_INDEX:
    case CEL_OP_CALL:
    case CEL_OP_LIST:
    case CEL_OP_MAP:
    case CEL_OP_NOT:
    case CEL_OP_NEGATE:
    case CEL_OP_AND:
    case CEL_OP_OR:
    case CEL_OP_IF:
    case CEL_OP_EACH:
    case CEL_OP_BIND:
    case CEL_OP_OPT: break;
    }
    return run_no_overload();
}

/* ---- index ---- */

/* A whole number that a list can have as index; SIZE_MAX: none. */
static size_t index_of(struct cel_value index)
{
    struct cel_value whole = index;

    if (index.type == CEL_DOUBLE && !number_to_i64(index.d, &whole.i))
        return SIZE_MAX;
    whole.type = index.type == CEL_DOUBLE ? CEL_INT : index.type;
    if (cel_compare(whole, index) != 0 || cel_compare(whole, cel_int(0)) < 0)
        return SIZE_MAX;
    return (size_t)whole.u;
}

struct cel_value run_index(struct cel_run *run, struct cel_value of, struct cel_value index)
{
    struct cel_value found = {0};

    if (!run_charge_lookup(run, of))
        return run->stopped;
    if (of.type == CEL_LIST) {
        if (!is_number(index.type))
            return run_no_overload();
        return cel_list_at(run->arena, of, index_of(index), &found)
                   ? found
                   : cel_error(str_printf(run->arena, "index out of bounds: " STR_FMT,
                                          STR_ARG(object_text(run->arena, index))));
    }
    if (of.type != CEL_MAP)
        return run_no_overload();
    if (!is_number(index.type) && index.type != CEL_STRING && index.type != CEL_BOOL)
        return cel_error(STR("no such overload: this type is no key of a map"));
    if (cel_map_at(run->arena, of, index, &found))
        return found;
    return of.map->open
               ? cel_new_map(run->arena, NULL, 0)
               : cel_error(str_printf(run->arena, "no such key: " STR_FMT,
                                      STR_ARG(str_sub(object_text(run->arena, index), 0, 200))));
}
