#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/field.h"
#include "cel/run.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Going through the tree. An error is a value like others, which && and || may pass over; what
 * stops an evaluation (cost, memory) nothing passes over. Recursion is bounded by the height of
 * the tree. */

static struct cel_value eval(struct cel_run *run, const struct cel_node *node);

/* As Kubernetes counts. */
#define COST_LIST 10
#define COST_MAP  30
/* A turn of a comprehension: its condition and what it gathers. */
#define COST_TURN 3
/* Members that are passed in the time of a unit. */
#define MEMBERS_A_UNIT 64

bool run_charge(struct cel_run *run, uint64_t cost)
{
    if (run->stopped.type == CEL_ERROR)
        return false;
    run->cost += cost;
    if (run->cost <= run->cost_max)
        return true;
    run->stopped = cel_error(STR("operation cancelled: actual cost limit exceeded"));
    return false;
}

bool run_charge_text(struct cel_run *run, size_t bytes)
{
    return run_charge(run, bytes / 10 + (bytes % 10 ? 1 : 0));
}

bool run_charge_lookup(struct cel_run *run, struct cel_value of)
{
    return run_charge(run, cel_count(of) / MEMBERS_A_UNIT);
}

bool run_room(struct cel_run *run, size_t bytes)
{
    if (run->stopped.type == CEL_ERROR)
        return false;
    size_t used = run->arena->bytes_used - run->bytes_at_start;
    if (bytes <= CEL_MEMORY_MAX && used <= CEL_MEMORY_MAX - bytes)
        return true;
    run->stopped = cel_error(STR("operation cancelled: the expression takes too much memory"));
    return false;
}

/* ---- names and fields ---- */

static struct cel_value select_of(struct cel_run *run, struct cel_value of, struct str name)
{
    struct cel_value found = {0};

    if (of.type != CEL_MAP)
        return run_no_overload();
    if (!run_charge_lookup(run, of))
        return run->stopped;
    if (cel_map_at(run->arena, of, cel_string(name), &found))
        return found;
    struct str plain = of.map->json ? field_unescape(run->arena, name) : name;
    if (plain.p != name.p && cel_map_at(run->arena, of, cel_string(plain), &found))
        return found;
    return cel_error(str_printf(run->arena, "no such key: " STR_FMT, STR_ARG(plain)));
}

static bool has_member(struct cel_run *run, struct cel_value of, struct str name)
{
    struct cel_value found = {0};

    (void)run_charge_lookup(run, of);
    return cel_map_at(run->arena, of, cel_string(name), &found) ||
           (of.map->json &&
            cel_map_at(run->arena, of, cel_string(field_unescape(run->arena, name)), &found));
}

static struct cel_value none(void)
{
    return (struct cel_value){.type = CEL_OPTIONAL};
}

/* Of an optional: an optional of what is selected, none where it is not there. */
static struct cel_value optional_part(struct cel_run *run,
                                      struct cel_value of,
                                      const struct cel_node *node,
                                      struct cel_value index)
{
    struct cel_value found;

    if (of.type == CEL_OPTIONAL) {
        if (!of.held)
            return of;
        of = *of.held;
    }
    if (node->op == CEL_OP_SELECT) {
        if (of.type != CEL_MAP)
            return run_no_overload();
        if (!has_member(run, of, node->name))
            return none();
        found = select_of(run, of, node->name);
    } else {
        if (of.type != CEL_MAP && of.type != CEL_LIST)
            return run_no_overload();
        found = run_index(run, of, index);
        if (found.type == CEL_ERROR)
            return str_starts(found.s, STR("no such overload")) ? found : none();
    }
    return found.type == CEL_ERROR ? found : cel_new_optional(run->arena, found);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_select(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value of = eval(run, node->args[0]);

    if (of.type == CEL_ERROR)
        return of;
    if (node->optional || of.type == CEL_OPTIONAL)
        return optional_part(run, of, node, cel_null());
    return select_of(run, of, node->name);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_index(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value of = eval(run, node->args[0]);

    if (of.type == CEL_ERROR)
        return of;
    struct cel_value index = eval(run, node->args[1]);
    if (index.type == CEL_ERROR)
        return index;
    if (node->optional || of.type == CEL_OPTIONAL)
        return optional_part(run, of, node, index);
    return run_index(run, of, index);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_has(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value of = eval(run, node->args[0]);

    if (of.type == CEL_ERROR)
        return of;
    if (of.type == CEL_OPTIONAL) {
        if (!of.held)
            return cel_bool(false);
        of = *of.held;
    }
    return of.type == CEL_MAP ? cel_bool(has_member(run, of, node->name)) : run_no_overload();
}

/* ---- lists, maps, calls ---- */

/* An item with a ? before it: *ret_there tells whether there is one. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_item(struct cel_run *run, const struct cel_node *node, bool *ret_there)
{
    bool marked = node->op == CEL_OP_IF && node->count == 1;
    struct cel_value value = eval(run, marked ? node->args[0] : node);

    *ret_there = true;
    if (!marked || value.type == CEL_ERROR)
        return value;
    if (value.type != CEL_OPTIONAL)
        return run_no_overload();
    *ret_there = value.held != NULL;
    return value.held ? *value.held : value;
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_list(struct cel_run *run, const struct cel_node *node)
{
    size_t count = 0;

    if (!run_charge(run, COST_LIST) || !run_room(run, node->count * sizeof(struct cel_value)))
        return run->stopped;
    struct cel_value *items = ARENA_ARRAY(run->arena, struct cel_value, node->count);
    for (size_t i = 0; i < node->count; i++) {
        bool there = false;
        struct cel_value item = eval_item(run, node->args[i], &there);

        if (item.type == CEL_ERROR)
            return item;
        if (there)
            items[count++] = item;
    }
    return cel_new_list(run->arena, items, count);
}

static bool is_key(struct cel_value key)
{
    return key.type == CEL_STRING || key.type == CEL_INT || key.type == CEL_UINT ||
           key.type == CEL_BOOL;
}

/* Entries of a map that is being made; one key is there once. */
struct entries VEC_FIELDS(struct cel_entry);

static struct cel_value add_entry(struct cel_run *run,
                                  struct entries *entries,
                                  struct cel_value key,
                                  struct cel_value value)
{
    if (!is_key(key))
        return cel_error(STR("unsupported key type"));
    for (size_t i = 0; i < entries->count; i++)
        if (cel_equal(entries->items[i].key, key))
            return cel_error(STR("Failed with repeated key"));
    if (!run_charge(run, entries->count / 10) || !run_room(run, 2 * sizeof(struct cel_entry)))
        return run->stopped;
    VEC_PUSH(run->arena, entries, (struct cel_entry){key, value});
    return cel_bool(true);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_map(struct cel_run *run, const struct cel_node *node)
{
    struct entries entries = {0};

    if (!run_charge(run, COST_MAP))
        return run->stopped;
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        bool there = false;
        struct cel_value key = eval(run, node->args[i]);
        struct cel_value value =
            key.type == CEL_ERROR ? key : eval_item(run, node->args[i + 1], &there);

        if (value.type == CEL_ERROR)
            return value;
        struct cel_value added = there ? add_entry(run, &entries, key, value) : cel_bool(true);
        if (added.type == CEL_ERROR)
            return added;
    }
    return cel_new_map(run->arena, entries.items, entries.count);
}

#define ARGUMENTS_MAX 8

/* optional.or(x) and orValue(x) look at x only where they need it. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_call(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value args[ARGUMENTS_MAX];

    if (!run_charge(run, 1))
        return run->stopped;
    for (size_t i = 0; i < node->count; i++) {
        args[i] = eval(run, node->args[i]);
        if (args[i].type == CEL_ERROR)
            return args[i];
        if (i == 0 && node->member && args[0].type == CEL_OPTIONAL && args[0].held &&
            (str_is(node->name, "orValue") || str_is(node->name, "or")))
            return str_is(node->name, "or") ? args[0] : *args[0].held;
    }
    return node->function->call(run, args, node->count);
}

/* ---- logic ---- */

/* && for `decisive` false, || for true: one that is decisive decides, whatever the others are. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_logic(struct cel_run *run, const struct cel_node *node, bool decisive)
{
    struct cel_value error = {0};

    for (size_t i = 0; i < node->count; i++) {
        struct cel_value value = eval(run, node->args[i]);

        if (run->stopped.type == CEL_ERROR)
            return run->stopped;
        if (value.type == CEL_BOOL && value.truth == decisive)
            return value;
        if (value.type != CEL_BOOL && error.type != CEL_ERROR)
            error = value.type == CEL_ERROR ? value : run_no_overload();
    }
    return error.type == CEL_ERROR ? error : cel_bool(!decisive);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_if(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value condition = eval(run, node->args[0]);

    if (condition.type == CEL_ERROR || node->count < 3)
        return condition;
    if (condition.type != CEL_BOOL)
        return run_no_overload();
    return eval(run, node->args[condition.truth ? 1 : 2]);
}

/* ---- comprehensions ---- */

struct each {
    const struct cel_node *node;
    struct cel_value range;
    struct cel_value error; /* of all() and exists(), until something decides */
    size_t found;
    VEC(struct cel_value) items;
    struct entries entries;
    struct cel_value decided; /* CEL_DYN: not yet */
};

static void each_push(struct cel_run *run, struct each *each, struct cel_value value)
{
    if (value.type == CEL_ERROR)
        each->decided = value;
    else if (run_room(run, 2 * sizeof(value)))
        VEC_PUSH(run->arena, &each->items, value);
}

static void each_entry(struct cel_run *run,
                       struct each *each,
                       struct cel_value key,
                       struct cel_value value)
{
    struct cel_value added = {0};

    if (value.type == CEL_ERROR)
        added = value;
    else if (each->node->each == CEL_EACH_MAP)
        added = add_entry(run, &each->entries, key, value);
    else if (value.type != CEL_MAP)
        added = run_no_overload();
    else
        for (struct cel_walk walk = cel_walk(run->arena, value);
             added.type != CEL_ERROR && cel_next(&walk);)
            added = add_entry(run, &each->entries, walk.key, walk.value);
    if (added.type == CEL_ERROR)
        each->decided = added;
}

/* all() and exists() */
static void each_logic(struct each *each, struct cel_value value)
{
    bool decisive = each->node->each == CEL_EACH_EXISTS;

    if (value.type == CEL_BOOL && value.truth == decisive)
        each->decided = value;
    else if (value.type != CEL_BOOL && each->error.type != CEL_ERROR)
        each->error = value.type == CEL_ERROR ? value : run_no_overload();
}

/* A condition that must be true or false. */
static bool each_holds(struct each *each, struct cel_value value)
{
    if (value.type == CEL_BOOL)
        return value.truth;
    each->decided = value.type == CEL_ERROR ? value : run_no_overload();
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void each_turn(struct cel_run *run, struct each *each, const struct cel_walk *walk)
{
    const struct cel_node *node = each->node;
    bool two = node->second.p != NULL;
    bool list = each->range.type == CEL_LIST;

    run->slots[node->slot] = two || !list ? walk->key : walk->value;
    if (two)
        run->slots[node->slot + 1] = walk->value;
    if (node->count == 3 && !each_holds(each, eval(run, node->args[2])))
        return;
    struct cel_value value = eval(run, node->args[1]);
    switch (node->each) {
    case CEL_EACH_ALL:
    case CEL_EACH_EXISTS: each_logic(each, value); break;
    case CEL_EACH_ONE: each->found += each_holds(each, value) ? 1 : 0; break;
    case CEL_EACH_FILTER:
        if (each_holds(each, value))
            each_push(run, each, run->slots[node->slot]);
        break;
    case CEL_EACH_LIST: each_push(run, each, value); break;
    case CEL_EACH_MAP:
    case CEL_EACH_ENTRIES: each_entry(run, each, walk->key, value); break;
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_each(struct cel_run *run, const struct cel_node *node)
{
    struct each each = {.node = node, .range = eval(run, node->args[0])};

    if (each.range.type == CEL_ERROR)
        return each.range;
    if (each.range.type != CEL_LIST && each.range.type != CEL_MAP)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, each.range);
         each.decided.type == CEL_DYN && cel_next(&walk);) {
        /* A view of JSON becomes values here, which take memory too. */
        if (!run_charge(run, COST_TURN) || !run_room(run, 0))
            return run->stopped;
        if (walk.value.type == CEL_ERROR)
            return walk.value;
        each_turn(run, &each, &walk);
        if (run->stopped.type == CEL_ERROR)
            return run->stopped;
    }
    if (each.decided.type != CEL_DYN)
        return each.decided;
    switch (node->each) {
    case CEL_EACH_ALL:
    case CEL_EACH_EXISTS:
        return each.error.type == CEL_ERROR ? each.error : cel_bool(node->each == CEL_EACH_ALL);
    case CEL_EACH_ONE: return cel_bool(each.found == 1);
    case CEL_EACH_FILTER:
    case CEL_EACH_LIST: return cel_new_list(run->arena, each.items.items, each.items.count);
    case CEL_EACH_MAP:
    case CEL_EACH_ENTRIES: break;
    }
    return cel_new_map(run->arena, each.entries.items, each.entries.count);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_bound(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value value = eval(run, node->args[0]);

    if (node->op == CEL_OP_OPT) {
        if (value.type != CEL_OPTIONAL)
            return value.type == CEL_ERROR ? value : run_no_overload();
        if (!value.held)
            return value;
        value = *value.held;
    }
    run->slots[node->slot] = value; /* an error is one where it is used */
    struct cel_value result = eval(run, node->args[1]);
    if (node->op == CEL_OP_BIND || node->flat || result.type == CEL_ERROR)
        return result;
    return cel_new_optional(run->arena, result);
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_binary(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value a = eval(run, node->args[0]);

    if (a.type == CEL_ERROR)
        return a;
    struct cel_value b = eval(run, node->args[1]);
    if (b.type == CEL_ERROR)
        return b;
    return run_charge(run, 1) ? run_operate(run, (int)node->op, a, b) : run->stopped;
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_unary(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value value = eval(run, node->args[0]);

    if (value.type == CEL_ERROR)
        return value;
    if (!run_charge(run, 1))
        return run->stopped;
    if (node->op == CEL_OP_NEGATE)
        return run_negate(value);
    return value.type == CEL_BOOL ? cel_bool(!value.truth) : run_no_overload();
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval_node(struct cel_run *run, const struct cel_node *node)
{
    switch (node->op) {
    case CEL_OP_CONST: return node->constant;
    case CEL_OP_IDENT: return run_charge(run, 1) ? run->slots[node->slot] : run->stopped;
    case CEL_OP_SELECT: return run_charge(run, 1) ? eval_select(run, node) : run->stopped;
    case CEL_OP_HAS: return eval_has(run, node);
    case CEL_OP_INDEX: return run_charge(run, 1) ? eval_index(run, node) : run->stopped;
    case CEL_OP_CALL: return eval_call(run, node);
    case CEL_OP_LIST: return eval_list(run, node);
    case CEL_OP_MAP: return eval_map(run, node);
    case CEL_OP_NOT:
    case CEL_OP_NEGATE: return eval_unary(run, node);
    case CEL_OP_AND: return eval_logic(run, node, false);
    case CEL_OP_OR: return eval_logic(run, node, true);
    case CEL_OP_IF: return eval_if(run, node);
    case CEL_OP_EACH: return eval_each(run, node);
    case CEL_OP_BIND:
    case CEL_OP_OPT: return eval_bound(run, node);
    case CEL_OP_EQ:
    case CEL_OP_NE:
    case CEL_OP_LT:
    case CEL_OP_LE:
    case CEL_OP_GT:
    case CEL_OP_GE:
    case CEL_OP_IN:
    case CEL_OP_ADD:
    case CEL_OP_SUB:
    case CEL_OP_MUL:
    case CEL_OP_DIV:
    case CEL_OP_MOD: return eval_binary(run, node);
    }
    return run_no_overload();
}

// NOLINTNEXTLINE(misc-no-recursion)
static struct cel_value eval(struct cel_run *run, const struct cel_node *node)
{
    struct cel_value value = eval_node(run, node);

    return run->stopped.type == CEL_ERROR ? run->stopped : value;
}

static cel_zone_reader *read_zone;

void cel_set_zones(cel_zone_reader *read)
{
    read_zone = read;
}

struct cel_result cel_evaluate(const struct cel_program *program,
                               struct arena *arena,
                               const struct cel_value *values,
                               uint64_t cost_max)
{
    struct cel_run *run = ARENA_NEW(arena, struct cel_run);

    *run = (struct cel_run){.arena = arena,
                            .cost_max = cost_max,
                            .bytes_at_start = arena->bytes_used,
                            .read_zone = program->fixed_zones ? NULL : read_zone};
    for (size_t i = 0; i < program->variable_count; i++)
        run->slots[i] = values[i];
    struct cel_value value = eval(run, program->root);
    return (struct cel_result){
        .value = value, .cost = run->cost, .out_of_cost = run->stopped.type == CEL_ERROR};
}
