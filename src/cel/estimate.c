#include "cel/estimate.h"

#include "base/arena.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/field.h"
#include "cel/guess.h"
#include "cel/shape.h"
#include "cel/text.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The estimate goes once through the expression, which is bounded in height. Every part adds to the
 * cost; sizes, paths and types are passed up, because what a call costs depends on them. Macros cost
 * what the loop costs that Kubernetes makes of them. */

#define ARGS_MAX  4  /* of a function, with its receiver */
#define LIST_COST 10 /* of making one */
#define MAP_COST  30

struct estimate {
    struct arena *arena;
    const struct cel_program *program;
    const struct shape *root;
    const struct shape *elsewhere; /* what a path begins with that does not begin with the root */
    struct guess locals[2 * CEL_SCOPES_MAX];
};

static void estimate_node(struct estimate *e, const struct cel_node *node, struct guess *ret);

static const struct shape *dyn(void)
{
    return shape_simple(CEL_DYN);
}

static const struct shape *or_dyn(const struct shape *shape)
{
    return shape ? shape : dyn();
}

/* ---- names and members ---- */

static void estimate_variable(struct estimate *e,
                              const struct cel_variable *variable,
                              struct guess *ret)
{
    ret->type =
        variable->type == CEL_OPTIONAL ? shape_holding(e->arena, CEL_OPTIONAL, e->root) : e->root;
    ret->path = guess_step(e->arena, e->root, (struct guess_path){0}, NULL);
}

/* The path of a member of what is at this path. */
static struct guess_path step(struct estimate *e,
                              struct guess_path path,
                              const struct shape *member)
{
    return guess_step(e->arena, e->elsewhere, path, member);
}

static void estimate_ident(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    ret->cost = 1;
    if (node->slot < e->program->variable_count) {
        estimate_variable(e, &e->program->variables[node->slot], ret);
        return;
    }
    const struct guess *local = &e->locals[node->slot - e->program->variable_count];
    ret->type = local->type;
    ret->path = local->path;
    ret->entry = local->entry;
    ret->variable = local;
}

static void estimate_const(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    const struct cel_value *value = &node->constant;

    ret->type = shape_simple(value->type);
    if (value->type == CEL_TYPE) { /* it is written as a name */
        ret->cost = 1;
        ret->path = step(e, (struct guess_path){0}, NULL);
        return;
    }
    uint64_t size = value->type == CEL_STRING  ? text_count(value->s)
                    : value->type == CEL_BYTES ? value->s.len
                                               : 1;
    ret->sized = true;
    ret->size = (struct guess_size){size, size};
}

/* What a member is that is asked for by name. */
static const struct shape *member_type(const struct shape *of, struct str name)
{
    return or_dyn(of->object ? shape_field(of, name) : of->item);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_select(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess of = {0};
    struct str name = node->root ? node->name : field_unescape(e->arena, node->name);

    estimate_node(e, node->args[0], &of);
    ret->cost = of.cost;
    ret->type = shape_simple(CEL_BOOL);
    if (node->op == CEL_OP_HAS)
        return;
    bool held = of.type->type == CEL_OPTIONAL;
    ret->type = member_type(held ? or_dyn(of.type->item) : of.type, name);
    if (held || node->optional)
        ret->type = shape_holding(e->arena, CEL_OPTIONAL, ret->type);
    if (node->optional || of.type->type == CEL_MAP)
        ret->cost = guess_add(ret->cost, 1);
    if (!node->optional)
        ret->path = step(e, of.path, shape_field(guess_at(of.path), name));
}

static const struct shape *items_at(struct guess_path path)
{
    const struct shape *at = guess_at(path);

    return at ? at->item : NULL;
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_index(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess of = {0};
    struct guess index = {0};
    struct guess_size ignored = {0};

    estimate_node(e, node->args[0], &of);
    estimate_node(e, node->args[1], &index);
    ret->cost = guess_add(guess_add(of.cost, index.cost), 1);
    bool held = of.type->type == CEL_OPTIONAL;
    const struct shape *holder = held ? or_dyn(of.type->item) : of.type;
    ret->type = or_dyn(holder->item);
    if (held || node->optional) {
        ret->type = shape_holding(e->arena, CEL_OPTIONAL, ret->type);
        return;
    }
    ret->path = step(e, of.path, items_at(of.path));
    ret->sized = of.entry.known;
    ret->size = of.entry.value;
    (void)guess_size(ret, &ignored);
}

/* ---- what is made ---- */

static struct guess_size widened(struct guess_size size, struct guess *by)
{
    return guess_either(size, guess_size_or_any(by));
}

/* The type that all of them have. */
static const struct shape *common(const struct shape *so_far, const struct shape *type)
{
    if (!so_far)
        return type;
    return so_far->type == type->type ? so_far : dyn();
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_made(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    bool list = node->op == CEL_OP_LIST;
    struct guess_size none = {node->count ? UINT64_MAX : 0, 0};
    const struct shape *type = NULL;
    uint64_t size = list ? node->count : node->count / 2;

    ret->cost = list ? LIST_COST : MAP_COST;
    ret->entry = (struct guess_entry){
        .known = true, .list = list, .key = list ? (struct guess_size){1, 1} : none, .value = none};
    for (size_t i = 0; i < node->count; i++) {
        struct guess part = {0};

        estimate_node(e, node->args[i], &part);
        ret->cost = guess_add(ret->cost, part.cost);
        if (!list && i % 2 == 0) {
            ret->entry.key = widened(ret->entry.key, &part);
            continue;
        }
        ret->entry.value = widened(ret->entry.value, &part);
        type = common(type, part.type);
    }
    ret->type = shape_holding(e->arena, list ? CEL_LIST : CEL_MAP, or_dyn(type));
    ret->sized = true;
    ret->size = (struct guess_size){size, size};
}

/* ---- operators ---- */

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_logic(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    ret->type = shape_simple(CEL_BOOL);
    for (size_t i = 0; i < node->count; i++) {
        struct guess part = {0};

        estimate_node(e, node->args[i], &part);
        ret->cost = guess_add(ret->cost, part.cost);
    }
}

/* Twice the same sign in one place is none; the parser keeps it for its type. */
// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_sign(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess of = {0};

    if (node->args[0]->op == node->op && node->args[0]->at == node->at) {
        estimate_node(e, node->args[0]->args[0], ret);
        return;
    }
    estimate_node(e, node->args[0], &of);
    ret->type = node->op == CEL_OP_NOT ? shape_simple(CEL_BOOL) : of.type;
    ret->cost = guess_add(of.cost, 1);
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_if(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess part = {0};
    struct guess no = {0};

    if (node->count == 1) { /* [?x] */
        estimate_node(e, node->args[0], ret);
        return;
    }
    estimate_node(e, node->args[0], &part);
    uint64_t asked = part.cost;
    part = (struct guess){0};
    estimate_node(e, node->args[1], &part);
    struct guess_size size = guess_size_or_any(&part);
    estimate_node(e, node->args[2], &no);
    ret->cost = guess_add(asked, part.cost > no.cost ? part.cost : no.cost);
    ret->type = common(part.type, no.type);
    ret->sized = true;
    ret->size = widened(size, &no);
    if (part.entry.known && no.entry.known)
        ret->entry = (struct guess_entry){.known = true,
                                          .list = part.entry.list,
                                          .key = guess_either(part.entry.key, no.entry.key),
                                          .value = guess_either(part.entry.value, no.entry.value)};
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_binary(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess args[2] = {0};
    struct guess_size ignored = {0};

    for (size_t i = 0; i < 2; i++) {
        estimate_node(e, node->args[i], &args[i]);
        (void)guess_size(&args[i], &ignored);
    }
    guess_operator(node->op, args, ret);
}

/* A receiver is looked at last. */
// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_call(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess args[ARGS_MAX] = {0};
    struct guess_size ignored = {0};

    for (size_t n = 0; n < node->count; n++) {
        size_t i = node->member ? (n + 1) % node->count : n;

        estimate_node(e, node->args[i], &args[i]);
        (void)guess_size(&args[i], &ignored);
    }
    guess_call(e->arena, node, args, ret);
}

/* ---- loops ---- */

/* The variables of a loop: the index or key, and the value. */
static void set_locals(struct estimate *e, const struct cel_node *node, const struct guess *range)
{
    struct guess *first = &e->locals[node->slot - e->program->variable_count];
    bool list = range->entry.known ? range->entry.list : range->type->type == CEL_LIST;
    bool map = range->type->type == CEL_MAP;
    const struct shape *at = guess_at(range->path);
    struct guess key = {.type = shape_simple(list ? CEL_INT : CEL_DYN),
                        .sized = range->entry.known,
                        .size = range->entry.key};
    struct guess value = {
        .type = or_dyn(range->type->item), .sized = range->entry.known, .size = range->entry.value};

    if (map)
        key.type = or_dyn(range->type->key);
    bool one_value = !node->second.p && list;
    if (!one_value)
        key.path = step(e, range->path, at && !list ? at->key : NULL);
    if (one_value || node->second.p)
        value.path = step(e, range->path, at ? at->item : NULL);
    first[0] = one_value ? value : key;
    if (node->second.p)
        first[1] = value;
}

/* What a loop costs for each member, beside its body. */
static uint64_t each_cost(enum cel_each each)
{
    switch (each) {
    case CEL_EACH_ALL: return 3;                /* goes on while it is true; && what it was */
    case CEL_EACH_EXISTS: return 4;             /* goes on while it is not; || what it was */
    case CEL_EACH_ONE: return 2;                /* counts */
    case CEL_EACH_FILTER: return 3 + LIST_COST; /* + [x] */
    case CEL_EACH_LIST: return 2 + LIST_COST;   /* + [body] */
    case CEL_EACH_MAP: return 3;
    case CEL_EACH_ENTRIES: return 2;
    }
    return 0;
}

static uint64_t each_once(enum cel_each each)
{
    switch (each) {
    case CEL_EACH_ALL:
    case CEL_EACH_EXISTS: return 1;
    case CEL_EACH_ONE: return 2;
    case CEL_EACH_FILTER:
    case CEL_EACH_LIST: return LIST_COST + 1;
    case CEL_EACH_MAP:
    case CEL_EACH_ENTRIES: return MAP_COST + 1;
    }
    return 0;
}

static const struct shape *each_type(struct estimate *e,
                                     const struct cel_node *node,
                                     const struct guess *body)
{
    const struct guess *first = &e->locals[node->slot - e->program->variable_count];

    switch (node->each) {
    case CEL_EACH_ALL:
    case CEL_EACH_EXISTS:
    case CEL_EACH_ONE: return shape_simple(CEL_BOOL);
    case CEL_EACH_FILTER: return shape_holding(e->arena, CEL_LIST, first->type);
    case CEL_EACH_LIST: return shape_holding(e->arena, CEL_LIST, body->type);
    case CEL_EACH_MAP: return shape_holding(e->arena, CEL_MAP, body->type);
    case CEL_EACH_ENTRIES: return body->type;
    }
    return dyn();
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_each(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess range = {0};
    struct guess filter = {0};
    struct guess body = {0};
    struct guess_size one = {1, 1};
    bool makes = node->each == CEL_EACH_FILTER || node->each == CEL_EACH_LIST;
    bool maps = node->each == CEL_EACH_MAP || node->each == CEL_EACH_ENTRIES;

    estimate_node(e, node->args[0], &range);
    set_locals(e, node, &range);
    if (node->count == 3)
        estimate_node(e, node->args[2], &filter);
    estimate_node(e, node->args[1], &body);
    if (makes) {
        struct guess item = {0};

        if (node->each == CEL_EACH_FILTER)
            estimate_ident(e, node, &item);
        else
            item = body;
        ret->entry = (struct guess_entry){
            .known = true, .list = true, .key = one, .value = guess_size_or_any(&item)};
        ret->entry.value.min = 0;
    }
    /* Only now: what stands at its path then counts. */
    struct guess_size count = guess_size_or_any(&range);
    uint64_t each = guess_add(guess_add(body.cost, filter.cost), each_cost(node->each));
    ret->type = each_type(e, node, &body);
    ret->cost =
        guess_add(guess_add(range.cost, each_once(node->each)), guess_multiply(count.max, each));
    ret->sized = true;
    ret->size = makes || maps ? count : one;
}

/* ---- names for values ---- */

/* What is bound is what is copied: cel.bind(), and value() of an optional. */
// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_bound(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    struct guess *local = &e->locals[node->slot - e->program->variable_count];
    struct guess value = {0};
    struct guess body = {0};

    estimate_node(e, node->args[0], &value);
    if (node->op == CEL_OP_OPT) /* hasValue() of it, and value() of a copy */
        value = (struct guess){.cost = guess_add(guess_multiply(value.cost, 2), 2),
                               .type = or_dyn(value.type->item)};
    value.sized = guess_size(&value, &value.size);
    value.variable = NULL;
    *local = value;
    estimate_node(e, node->args[1], &body);
    ret->cost = guess_add(guess_add(value.cost, body.cost), LIST_COST);
    ret->type = body.type;
    if (node->op == CEL_OP_BIND) {
        ret->sized = guess_size(&body, &ret->size);
        ret->entry = body.entry;
        return;
    }
    if (!node->flat) {
        ret->type = shape_holding(e->arena, CEL_OPTIONAL, body.type);
        ret->cost = guess_add(ret->cost, 1);
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static void estimate_node(struct estimate *e, const struct cel_node *node, struct guess *ret)
{
    switch (node->op) {
    case CEL_OP_CONST: estimate_const(e, node, ret); return;
    case CEL_OP_IDENT: estimate_ident(e, node, ret); return;
    case CEL_OP_SELECT:
    case CEL_OP_HAS: estimate_select(e, node, ret); return;
    case CEL_OP_INDEX: estimate_index(e, node, ret); return;
    case CEL_OP_CALL: estimate_call(e, node, ret); return;
    case CEL_OP_LIST:
    case CEL_OP_MAP: estimate_made(e, node, ret); return;
    case CEL_OP_NOT:
    case CEL_OP_NEGATE: estimate_sign(e, node, ret); return;
    case CEL_OP_AND:
    case CEL_OP_OR: estimate_logic(e, node, ret); return;
    case CEL_OP_IF: estimate_if(e, node, ret); return;
    case CEL_OP_EACH: estimate_each(e, node, ret); return;
    case CEL_OP_BIND:
    case CEL_OP_OPT: estimate_bound(e, node, ret); return;
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
    case CEL_OP_MOD: estimate_binary(e, node, ret); return;
    }
}

uint64_t cel_estimate(struct arena *arena,
                      const struct cel_program *program,
                      const struct shape *root)
{
    struct estimate *e = ARENA_NEW(arena, struct estimate);
    struct guess guess = {0};

    e->arena = arena;
    e->program = program;
    e->root = root;
    e->elsewhere = root->alone ? NULL : root;
    estimate_node(e, program->root, &guess);
    return guess.cost;
}
