#include "api/schema.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/field.h"
#include "cel/run.h"
#include "cel/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the names of an expression mean: variables get their slot, calls their function, and where
 * the types of operands are known they must fit. */

/* What is known of a value before it is there. */
struct known {
    enum cel_type type;          /* CEL_DYN: nothing */
    const struct schema *schema; /* of what an optional holds, too */
    bool resource;
};

struct scope {
    struct str name;
    struct known known;
};

struct check {
    const struct cel_compile *compile;
    struct cel_program *program;
    struct err *err;
    struct scope scopes[2 * CEL_SCOPES_MAX];
    size_t scope_count;
};

static int check_node(struct check *check, struct cel_node *node, struct known *ret);

static int check_wrong(struct check *check,
                       const struct cel_node *node,
                       const char *words,
                       struct str name)
{
    return cel_wrong(check->err, check->compile->text, node->at, words, name);
}

static struct known known_type(enum cel_type type)
{
    return (struct known){.type = type};
}

static struct known known_schema(const struct schema *schema)
{
    return (struct known){.type = field_type(schema), .schema = schema};
}

/* ---- names ---- */

static bool find_scope(const struct check *check, struct str name, size_t *ret)
{
    for (size_t i = check->scope_count; i-- > 0;)
        if (str_eq(check->scopes[i].name, name)) {
            *ret = i;
            return true;
        }
    return false;
}

static bool find_variable(const struct check *check, struct str name, size_t *ret)
{
    for (size_t i = 0; i < check->compile->variable_count; i++)
        if (str_is(name, check->compile->variables[i].name)) {
            *ret = i;
            return true;
        }
    return false;
}

static bool find_type(struct str name, struct cel_value *ret)
{
    for (int type = CEL_NULL; type <= CEL_FORMAT; type++) {
        struct str known = cel_type_name((enum cel_type)type);

        if (str_eq(name, known)) {
            *ret = (struct cel_value){.type = CEL_TYPE, .s = known};
            return true;
        }
    }
    return false;
}

/* "a.b.c" of names and selections only; STR_NONE otherwise, or where the first name is a variable
 * of a comprehension. */
// NOLINTNEXTLINE(misc-no-recursion)
static struct str dotted(const struct check *check, const struct cel_node *node)
{
    size_t scope = 0;

    if (node->op == CEL_OP_IDENT)
        return !node->root && find_scope(check, node->name, &scope) ? STR_NONE : node->name;
    if (node->op != CEL_OP_SELECT || node->optional || node->root)
        return STR_NONE;
    struct str before = dotted(check, node->args[0]);
    return before.p ? str_printf(check->compile->arena, STR_FMT "." STR_FMT, STR_ARG(before),
                                 STR_ARG(node->name))
                    : STR_NONE;
}

static void use_variable(struct check *check,
                         struct cel_node *node,
                         size_t index,
                         struct known *ret)
{
    const struct cel_variable *variable = &check->compile->variables[index];

    node->op = CEL_OP_IDENT;
    node->slot = (uint32_t)index;
    check->program->used |= (uint64_t)1 << index;
    *ret = variable->schema ? known_schema(variable->schema) : known_type(variable->type);
    if (variable->type == CEL_OPTIONAL)
        ret->type = CEL_OPTIONAL;
    ret->resource = variable->resource;
}

/* A name, or names with dots between, that is a variable or a type. */
static bool resolve(struct check *check, struct cel_node *node, struct known *ret)
{
    struct str name = dotted(check, node);
    size_t index = 0;

    if (!name.p)
        return false;
    if (find_variable(check, name, &index)) {
        use_variable(check, node, index, ret);
        return true;
    }
    if (!find_type(name, &node->constant))
        return false;
    node->op = CEL_OP_CONST;
    *ret = known_type(CEL_TYPE);
    return true;
}

/* authorizer.group('apps')...: what it is asked for is not known either. */
static int check_undeclared(struct check *check, const struct cel_node *node, struct str name)
{
    const struct cel_node *first = node;

    while (first->count && (first->member || first->op == CEL_OP_SELECT))
        first = first->args[0];
    if (str_is(first->name, "authorizer"))
        return check_wrong(check, first, "authorizer is not there for this expression", STR_NONE);
    return check_wrong(check, node, "undeclared reference to", name);
}

static int check_ident(struct check *check, struct cel_node *node, struct known *ret)
{
    size_t index = 0;

    if (!node->root && find_scope(check, node->name, &index)) {
        node->slot = (uint32_t)(check->compile->variable_count + index);
        *ret = check->scopes[index].known;
        return 0;
    }
    return resolve(check, node, ret) ? 0 : check_undeclared(check, node, node->name);
}

/* ---- fields ---- */

/* The field of what `of` is known to be. */
static int check_field(struct check *check,
                       const struct cel_node *node,
                       const struct known *of,
                       struct known *ret)
{
    const struct schema *schema = of->schema;
    struct str name = node->root ? node->name : field_unescape(check->compile->arena, node->name);
    bool fields = of->type == CEL_MAP || of->type == CEL_OPTIONAL || of->type == CEL_DYN;

    *ret = known_type(CEL_DYN);
    if (!fields)
        return check_wrong(check, node,
                           "type does not support field selection:", cel_type_name(of->type));
    if (!schema || schema->int_or_string || schema->type != SCHEMA_OBJECT)
        return 0;
    if (field_is_object(schema)) {
        const struct schema *field = NULL;

        if (!field_schema(schema, of->resource || schema->embedded, name, &field))
            return check_wrong(check, node, "undefined field", name);
        *ret = known_schema(field);
    } else {
        *ret = known_schema(schema->additional);
    }
    if (of->type == CEL_OPTIONAL || node->optional)
        ret->type = CEL_OPTIONAL;
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_select(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known of = {0};

    if (!node->optional && node->op == CEL_OP_SELECT && resolve(check, node, ret))
        return 0;
    int r = check_node(check, node->args[0], &of);
    if (r == 0)
        r = check_field(check, node, &of, ret);
    if (node->op == CEL_OP_HAS)
        *ret = known_type(CEL_BOOL);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_index(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known of = {0};
    struct known index = {0};
    int r = check_node(check, node->args[0], &of);

    if (r == 0)
        r = check_node(check, node->args[1], &index);
    *ret = known_type(CEL_DYN);
    if (r < 0 || !of.schema)
        return r;
    if (of.schema->type == SCHEMA_ARRAY && of.schema->items)
        *ret = known_schema(of.schema->items);
    else if (of.schema->type == SCHEMA_OBJECT && of.schema->additional)
        *ret = known_schema(of.schema->additional);
    if (node->optional || of.type == CEL_OPTIONAL)
        ret->type = CEL_OPTIONAL;
    return 0;
}

/* ---- operators ---- */

static bool is_number(enum cel_type type)
{
    return type == CEL_INT || type == CEL_UINT || type == CEL_DOUBLE;
}

static bool fits_arithmetic(enum cel_op op, enum cel_type a, enum cel_type b, enum cel_type *ret)
{
    bool sum = op == CEL_OP_ADD || op == CEL_OP_SUB;

    *ret = a;
    if (sum && a == CEL_TIMESTAMP && b == CEL_TIMESTAMP) {
        *ret = CEL_DURATION;
        return op == CEL_OP_SUB;
    }
    if (sum && a == CEL_DURATION && b == CEL_TIMESTAMP) {
        *ret = CEL_TIMESTAMP;
        return op == CEL_OP_ADD;
    }
    if (sum && b == CEL_DURATION)
        return a == CEL_TIMESTAMP || a == CEL_DURATION;
    if (a != b)
        return false;
    if (is_number(a))
        return op != CEL_OP_MOD || a != CEL_DOUBLE;
    return op == CEL_OP_ADD && (a == CEL_STRING || a == CEL_BYTES || a == CEL_LIST);
}

static bool fits_order(enum cel_type a, enum cel_type b)
{
    return (is_number(a) && is_number(b)) ||
           (a == b && (a == CEL_STRING || a == CEL_BYTES || a == CEL_BOOL || a == CEL_TIMESTAMP ||
                       a == CEL_DURATION));
}

static const char *op_name(enum cel_op op)
{
    static const char *const names[] = {
        [CEL_OP_EQ] = "_==_", [CEL_OP_NE] = "_!=_", [CEL_OP_LT] = "_<_",  [CEL_OP_LE] = "_<=_",
        [CEL_OP_GT] = "_>_",  [CEL_OP_GE] = "_>=_", [CEL_OP_IN] = "@in",  [CEL_OP_ADD] = "_+_",
        [CEL_OP_SUB] = "_-_", [CEL_OP_MUL] = "_*_", [CEL_OP_DIV] = "_/_", [CEL_OP_MOD] = "_%_"};

    return names[op];
}

static bool is_arithmetic(enum cel_op op)
{
    return op >= CEL_OP_ADD && op <= CEL_OP_MOD;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_binary(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known a = {0};
    struct known b = {0};
    enum cel_type type = CEL_BOOL;
    bool fits = true;
    int r = check_node(check, node->args[0], &a);

    if (r == 0)
        r = check_node(check, node->args[1], &b);
    if (r < 0)
        return r;
    *ret = known_type(is_arithmetic(node->op) ? CEL_DYN : CEL_BOOL);
    if (a.type == CEL_DYN || b.type == CEL_DYN || check->compile->loose)
        return 0;
    if (is_arithmetic(node->op))
        fits = fits_arithmetic(node->op, a.type, b.type, &type);
    else if (node->op == CEL_OP_EQ || node->op == CEL_OP_NE)
        fits = a.type == b.type || a.type == CEL_NULL || b.type == CEL_NULL;
    else if (node->op == CEL_OP_IN)
        fits = b.type == CEL_LIST || b.type == CEL_MAP;
    else
        fits = fits_order(a.type, b.type);
    ret->type = type;
    if (fits)
        return 0;
    struct str types = str_printf(check->compile->arena,
                                  "%s' applied to '(" STR_FMT ", " STR_FMT ")", op_name(node->op),
                                  STR_ARG(cel_type_name(a.type)), STR_ARG(cel_type_name(b.type)));
    return check_wrong(check, node, "found no matching overload for", types);
}

/* Operands of !, && and ||, and the condition of a choice. */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_bool(struct check *check, struct cel_node *node)
{
    struct known known = {0};
    int r = check_node(check, node, &known);

    if (r < 0 || known.type == CEL_DYN || known.type == CEL_BOOL || check->compile->loose)
        return r;
    return check_wrong(check, node, "expected type 'bool' but found", cel_type_name(known.type));
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_logic(struct check *check, struct cel_node *node, struct known *ret)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < node->count; i++)
        r = check_bool(check, node->args[i]);
    *ret = known_type(CEL_BOOL);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_if(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known no = {0};

    if (node->count == 1)
        return check_node(check, node->args[0], ret);
    int r = check_bool(check, node->args[0]);
    if (r == 0)
        r = check_node(check, node->args[1], ret);
    if (r == 0)
        r = check_node(check, node->args[2], &no);
    if (ret->type != no.type)
        *ret = known_type(CEL_DYN);
    if (ret->schema != no.schema)
        ret->schema = NULL;
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_all(struct check *check,
                     struct cel_node *node,
                     enum cel_type type,
                     struct known *ret)
{
    struct known ignored = {0};
    int r = 0;

    for (size_t i = 0; r == 0 && i < node->count; i++)
        r = check_node(check, node->args[i], &ignored);
    *ret = known_type(type);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_negate(struct check *check, struct cel_node *node, struct known *ret)
{
    int r = check_node(check, node->args[0], ret);

    ret->schema = NULL;
    if (r == 0 && ret->type != CEL_DYN && ret->type != CEL_INT && ret->type != CEL_DOUBLE &&
        !check->compile->loose)
        r = check_wrong(check, node, "found no matching overload for '-_' applied to",
                        cel_type_name(ret->type));
    return r;
}

/* ---- calls ---- */

/* sets.contains(a, b) is a function of that name, where `sets` is no variable. */
static void take_namespace(struct check *check, struct cel_node *node)
{
    struct str before = node->member ? dotted(check, node->args[0]) : STR_NONE;
    size_t index = 0;
    bool known = false;

    if (!before.p || find_variable(check, str_sub(before, 0, str_find(before, '.')), &index))
        return;
    struct str name = str_printf(check->compile->arena, STR_FMT "." STR_FMT, STR_ARG(before),
                                 STR_ARG(node->name));
    (void)cel_function_find(name, false, node->count - 1, &known);
    if (!known)
        return;
    node->name = name;
    node->member = false;
    node->args++;
    node->count--;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_call(struct check *check, struct cel_node *node, struct known *ret)
{
    bool known = false;

    take_namespace(check, node);
    node->function = cel_function_find(node->name, node->member, node->count, &known);
    if (!known)
        return check_undeclared(check, node, node->name);
    if (!node->function)
        return check_wrong(check, node, "found no matching overload for", node->name);
    return check_all(check, node, node->function->result, ret);
}

/* ---- variables of their own ---- */

static int scope_push(struct check *check,
                      const struct cel_node *node,
                      struct str name,
                      struct known known)
{
    if (check->scope_count == COUNT_OF(check->scopes))
        return check_wrong(check, node, "more than 32 comprehensions are inside each other",
                           STR_NONE);
    check->scopes[check->scope_count++] = (struct scope){name, known};
    return 0;
}

/* What the variables of a comprehension are known to be. */
static int scope_each(struct check *check, struct cel_node *node, const struct known *range)
{
    bool two = node->second.p != NULL;
    const struct schema *schema = range->schema;
    bool list = range->type == CEL_LIST;
    struct known key = known_type(list ? CEL_INT : CEL_DYN);
    struct known value = known_type(CEL_DYN);

    if (list && schema)
        value = known_schema(schema->items);
    else if (range->type == CEL_MAP && schema) {
        key = known_type(CEL_STRING);
        value = schema->additional ? known_schema(schema->additional) : value;
    }
    node->slot = (uint32_t)(check->compile->variable_count + check->scope_count);
    if (!two)
        return scope_push(check, node, node->name, list ? value : key);
    int r = scope_push(check, node, node->name, key);
    return r < 0 ? r : scope_push(check, node, node->second, value);
}

static bool is_predicate(enum cel_each each)
{
    return each == CEL_EACH_ALL || each == CEL_EACH_EXISTS || each == CEL_EACH_ONE ||
           each == CEL_EACH_FILTER;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_each(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known range = {0};
    struct known body = {0};
    size_t before = check->scope_count;
    int r = check_node(check, node->args[0], &range);

    if (r == 0 && range.type != CEL_DYN && range.type != CEL_LIST && range.type != CEL_MAP &&
        !check->compile->loose)
        r = check_wrong(check, node,
                        "expression cannot be range of a comprehension (must be list, "
                        "map, or dynamic):",
                        cel_type_name(range.type));
    if (r == 0)
        r = scope_each(check, node, &range);
    if (r == 0 && node->count == 3)
        r = check_bool(check, node->args[2]);
    if (r == 0)
        r = is_predicate(node->each) ? check_bool(check, node->args[1])
                                     : check_node(check, node->args[1], &body);
    check->scope_count = before;
    *ret = known_type(node->each == CEL_EACH_FILTER || node->each == CEL_EACH_LIST ? CEL_LIST
                      : is_predicate(node->each)                                   ? CEL_BOOL
                                                                                   : CEL_MAP);
    if (node->each == CEL_EACH_FILTER && range.type == CEL_LIST)
        ret->schema = range.schema;
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_bound(struct check *check, struct cel_node *node, struct known *ret)
{
    struct known value = {0};
    size_t before = check->scope_count;
    int r = check_node(check, node->args[0], &value);

    if (node->op == CEL_OP_OPT)
        value = value.schema ? known_schema(value.schema) : known_type(CEL_DYN);
    node->slot = (uint32_t)(check->compile->variable_count + check->scope_count);
    if (r == 0)
        r = scope_push(check, node, node->name, value);
    if (r == 0)
        r = check_node(check, node->args[1], ret);
    check->scope_count = before;
    if (node->op == CEL_OP_OPT)
        *ret = known_type(CEL_OPTIONAL);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_node(struct check *check, struct cel_node *node, struct known *ret)
{
    switch (node->op) {
    case CEL_OP_CONST: *ret = known_type(node->constant.type); return 0;
    case CEL_OP_IDENT: return check_ident(check, node, ret);
    case CEL_OP_SELECT:
    case CEL_OP_HAS: return check_select(check, node, ret);
    case CEL_OP_INDEX: return check_index(check, node, ret);
    case CEL_OP_CALL: return check_call(check, node, ret);
    case CEL_OP_LIST: return check_all(check, node, CEL_LIST, ret);
    case CEL_OP_MAP: return check_all(check, node, CEL_MAP, ret);
    case CEL_OP_NEGATE: return check_negate(check, node, ret);
    case CEL_OP_NOT:
    case CEL_OP_AND:
    case CEL_OP_OR: return check_logic(check, node, ret);
    case CEL_OP_IF: return check_if(check, node, ret);
    case CEL_OP_EACH: return check_each(check, node, ret);
    case CEL_OP_BIND:
    case CEL_OP_OPT: return check_bound(check, node, ret);
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
    case CEL_OP_MOD: return check_binary(check, node, ret);
    }
    return 0;
}

int cel_check(const struct cel_check *what)
{
    struct check *check = ARENA_NEW(what->compile->arena, struct check);
    struct known known = {0};

    *check = (struct check){.compile = what->compile, .program = what->program, .err = what->err};
    if (what->compile->variable_count > CEL_VARIABLES_MAX)
        return err_set(what->err, -E2BIG, "an expression has at most %d variables",
                       CEL_VARIABLES_MAX);
    int r = check_node(check, what->root, &known);
    what->program->result = known.type;
    return r;
}
