#include "api/regex.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/constant.h"
#include "cel/field.h"
#include "cel/moment.h"
#include "cel/run.h"
#include "cel/typed.h"
#include "cel/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the names of an expression mean: variables get their slot, calls their function, and what is
 * known of the types of values must fit. */

struct scope {
    struct str name;
    const struct typed *typed;
};

struct check {
    const struct cel_compile *compile;
    struct cel_program *program;
    struct err *err;
    struct typing typing;
    const struct typed *variables[CEL_VARIABLES_MAX]; /* NULL: not named yet */
    struct scope scopes[2 * CEL_SCOPES_MAX];
    size_t scope_count;
    size_t formatting; /* format() is around it */
};

static int check_node(struct check *check, struct cel_node *node, const struct typed **ret);

static int check_wrong(struct check *check,
                       const struct cel_node *node,
                       const char *words,
                       struct str name)
{
    return cel_wrong(check->err, check->compile->text, node->at, words, name);
}

/* What does not fit. A loose expression shows that when it is evaluated. */
static int check_unfit(struct check *check,
                       const struct cel_node *node,
                       const struct typed **ret,
                       struct str words)
{
    *ret = typed_simple(CEL_DYN);
    if (check->compile->loose)
        return 0;
    return check_wrong(check, node, words.p, STR_NONE);
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

static const struct typed *variable_typed(struct check *check, const struct cel_variable *variable)
{
    struct arena *arena = check->compile->arena;
    const struct typed *typed = typed_simple(variable->type);

    if (variable->typed)
        return variable->typed;
    if (variable->type == CEL_OPTIONAL && !variable->schema)
        return typed;
    if (variable->schema)
        typed = typed_schema(arena, variable->schema, variable->resource);
    if (!typed)
        typed = typed_simple(CEL_DYN);
    return variable->type == CEL_OPTIONAL ? typed_holding(arena, CEL_OPTIONAL, NULL, typed) : typed;
}

static const struct typed *use_variable(struct check *check, struct cel_node *node, size_t index)
{
    const struct typed **typed = &check->variables[index];

    node->op = CEL_OP_IDENT;
    node->slot = (uint32_t)index;
    check->program->used |= (uint64_t)1 << index;
    if (!*typed)
        *typed = variable_typed(check, &check->compile->variables[index]);
    return *typed;
}

/* A name, or names with dots between, that is a variable or a type; NULL otherwise. */
static const struct typed *resolve(struct check *check, struct cel_node *node)
{
    struct str name = dotted(check, node);
    size_t index = 0;

    if (!name.p)
        return NULL;
    if (find_variable(check, name, &index))
        return use_variable(check, node, index);
    if (!find_type(name, &node->constant))
        return NULL;
    node->op = CEL_OP_CONST;
    return typed_simple(CEL_TYPE);
}

#define NAME_BYTES_MAX 80 /* of a name that a message quotes */

/* authorizer.group('apps')...: what it is asked for is not known either. */
static int check_undeclared(struct check *check, const struct cel_node *node, struct str name)
{
    const struct cel_node *first = node;

    while (first->count && (first->member || first->op == CEL_OP_SELECT))
        first = first->args[0];
    if (str_is(first->name, "authorizer"))
        return check_wrong(check, first, "authorizer is not there for this expression", STR_NONE);
    return check_wrong(check, node,
                       str_printf(check->compile->arena,
                                  "undeclared reference to '" STR_FMT "' (in container '')",
                                  STR_ARG(str_sub(name, 0, NAME_BYTES_MAX)))
                           .p,
                       STR_NONE);
}

static int check_ident(struct check *check, struct cel_node *node, const struct typed **ret)
{
    size_t index = 0;

    if (!node->root && find_scope(check, node->name, &index)) {
        node->slot = (uint32_t)(check->compile->variable_count + index);
        *ret = check->scopes[index].typed;
        return 0;
    }
    *ret = resolve(check, node);
    return *ret ? 0 : check_undeclared(check, node, node->name);
}

/* ---- fields ---- */

/* What has the fields: an optional's are optional. */
static const struct typed *field_holder(struct check *check, const struct typed *of)
{
    of = typed_now(&check->typing, of, false);
    return typed_is(of, CEL_OPTIONAL) ? of->item : of;
}

/* NULL: there is none, or expressions cannot see it. */
static const struct typed *field_typed(struct check *check,
                                       const struct typed *object,
                                       struct str name)
{
    const struct schema *field = NULL;

    for (size_t i = 0; i < object->field_count; i++)
        if (str_eq(object->fields[i].name, name))
            return object->fields[i].typed;
    return object->schema && field_schema(object->schema, object->resource, name, &field)
               ? typed_schema(check->compile->arena, field, false)
               : NULL;
}

/* A field whose name has "__" is written with "__underscores__". */
static bool is_unescaped(const struct check *check, const struct cel_node *node, struct str plain)
{
    return !check->compile->loose && !node->root && str_eq(node->name, plain) &&
           str_contains(plain, STR("__"));
}

/* The field of what `of` is known to be. */
static int check_field(struct check *check,
                       const struct cel_node *node,
                       const struct typed *of,
                       const struct typed **ret)
{
    struct arena *arena = check->compile->arena;
    struct str name = node->root ? node->name : field_unescape(arena, node->name);
    const struct typed *holder = field_holder(check, of);

    *ret = typed_simple(CEL_DYN);
    if (holder->object) {
        *ret = field_typed(check, holder, name);
        if (!*ret || is_unescaped(check, node, name))
            return check_wrong(check, node, "undefined field", name);
    } else if (holder->unknown) {
        (void)typed_fits(&check->typing, *ret, holder);
    } else if (holder->type == CEL_MAP) {
        *ret = holder->item;
    } else if (holder->type != CEL_DYN) {
        return check_unfit(check, node, ret,
                           str_printf(arena, "type '" STR_FMT "' does not support field selection",
                                      STR_ARG(typed_text(arena, holder))));
    }
    if (holder != of || node->optional)
        *ret = typed_holding(arena, CEL_OPTIONAL, NULL, *ret);
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_select(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *of = NULL;

    if (!node->optional && node->op == CEL_OP_SELECT && (*ret = resolve(check, node)) != NULL)
        return 0;
    int r = check_node(check, node->args[0], &of);
    if (r == 0)
        r = check_field(check, node, of, ret);
    if (node->op == CEL_OP_HAS)
        *ret = typed_simple(CEL_BOOL);
    return r;
}

/* ---- what fits ---- */

/* "(int, string)", or "string.(int)" of a member. */
static struct str arguments_text(struct check *check,
                                 const struct typed *const *args,
                                 size_t count,
                                 bool member)
{
    struct arena *arena = check->compile->arena;
    struct str text = STR("");

    for (size_t i = 0; i < count; i++) {
        struct str of = typed_text(arena, typed_now(&check->typing, args[i], true));

        text =
            str_printf(arena, STR_FMT "%s" STR_FMT "%s", STR_ARG(text),
                       i > (member ? 1 : 0) ? ", " : "", STR_ARG(of), member && i == 0 ? ".(" : "");
    }
    return str_printf(arena, "%s" STR_FMT ")", member ? "" : "(", STR_ARG(text));
}

/* What is not there for these arguments. */
static int check_overload(struct check *check,
                          const struct cel_node *node,
                          struct str name,
                          const struct typed *const *args,
                          size_t count,
                          const struct typed **ret)
{
    struct str given = arguments_text(check, args, count, node->member);

    return check_unfit(check, node, ret,
                       str_printf(check->compile->arena,
                                  "found no matching overload for '" STR_FMT
                                  "' applied to '" STR_FMT "'",
                                  STR_ARG(name), STR_ARG(given)));
}

static int check_mismatch(struct check *check,
                          const struct cel_node *node,
                          const struct typed *wanted,
                          const struct typed *found,
                          const struct typed **ret)
{
    struct arena *arena = check->compile->arena;
    struct str want = typed_text(arena, typed_now(&check->typing, wanted, true));
    struct str have = typed_text(arena, typed_now(&check->typing, found, true));

    return check_unfit(check, node, ret,
                       str_printf(arena, "expected type '" STR_FMT "' but found '" STR_FMT "'",
                                  STR_ARG(want), STR_ARG(have)));
}

/* ---- operators ---- */

#define COMPARED "bb>b ii>b id>b iu>b uu>b ud>b ui>b dd>b di>b du>b ss>b yy>b tt>b DD>b"

static const struct {
    const char *name;
    const char *ways;
} operators[] = {
    [CEL_OP_INDEX] = {"_[_]", "[A]i>A {AB}A>B ?[A]i>?A ?{AB}A>?B"},
    [CEL_OP_NOT] = {"!_", "b>b"},
    [CEL_OP_NEGATE] = {"-_", "d>d i>i"},
    [CEL_OP_IF] = {"_?_:_", "bAA>A"},
    [CEL_OP_EQ] = {"_==_", "AA>b"},
    [CEL_OP_NE] = {"_!=_", "AA>b"},
    [CEL_OP_LT] = {"_<_", COMPARED},
    [CEL_OP_LE] = {"_<=_", COMPARED},
    [CEL_OP_GT] = {"_>_", COMPARED},
    [CEL_OP_GE] = {"_>=_", COMPARED},
    [CEL_OP_IN] = {"@in", "A[A]>b A{AB}>b"},
    [CEL_OP_ADD] = {"_+_", "yy>y dd>d DD>D Dt>t tD>t ii>i [A][A]>[A] ss>s uu>u"},
    [CEL_OP_SUB] = {"_-_", "dd>d DD>D ii>i tD>t tt>D uu>u"},
    [CEL_OP_MUL] = {"_*_", "dd>d ii>i uu>u"},
    [CEL_OP_DIV] = {"_/_", "dd>d ii>i uu>u"},
    [CEL_OP_MOD] = {"_%_", "ii>i uu>u"},
};

#define OPERANDS_MAX 3

// NOLINTNEXTLINE(misc-no-recursion)
static int check_operator(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *args[OPERANDS_MAX];
    bool optional = node->op == CEL_OP_INDEX && node->optional;
    const char *ways = optional ? "[A]i>?A ?[A]i>?A {AB}A>?B ?{AB}A>?B" : operators[node->op].ways;

    for (size_t i = 0; i < node->count; i++) {
        int r = check_node(check, node->args[i], &args[i]);

        if (r < 0)
            return r;
    }
    *ret = typed_call(&check->typing, ways, args, node->count);
    return *ret ? 0
                : check_overload(check, node,
                                 str_from(optional ? "_[?_]" : operators[node->op].name), args,
                                 node->count, ret);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_bool(struct check *check, struct cel_node *node)
{
    const struct typed *typed = NULL;
    int r = check_node(check, node, &typed);

    if (r < 0 || typed_fits(&check->typing, typed, typed_simple(CEL_BOOL)))
        return r;
    return check_mismatch(check, node, typed_simple(CEL_BOOL), typed, &typed);
}

/* && and || */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_logic(struct check *check, struct cel_node *node, const struct typed **ret)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < node->count; i++)
        r = check_bool(check, node->args[i]);
    *ret = typed_simple(CEL_BOOL);
    return r;
}

/* ---- lists and maps ---- */

/* An item with a ? before it is what an optional holds. */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_item(struct check *check, struct cel_node *node, const struct typed **ret)
{
    bool marked = node->op == CEL_OP_IF && node->count == 1;
    int r = check_node(check, marked ? node->args[0] : node, ret);

    if (r < 0 || !marked || typed_is(*ret, CEL_DYN))
        return r;
    if (typed_is(*ret, CEL_OPTIONAL)) {
        *ret = (*ret)->item;
        return 0;
    }
    return check_mismatch(check, node->args[0],
                          typed_holding(check->compile->arena, CEL_OPTIONAL, NULL, *ret), *ret,
                          ret);
}

/* All of a list are of one type, but in what is given to format(). *type is of those before, NULL
 * at first. */
static int check_join(struct check *check,
                      const struct cel_node *node,
                      const struct typed *item,
                      const struct typed **type)
{
    struct typing *typing = &check->typing;
    bool fits = !*type || typed_fits(typing, *type, item);

    if (*type && !check->formatting &&
        !(fits && typed_same(typed_now(typing, *type, true), typed_now(typing, item, true))))
        return check_mismatch(check, node, *type, item, type);
    *type = !*type ? item : fits ? typed_wider(*type, item) : typed_simple(CEL_DYN);
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_list(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *type = NULL;
    const struct typed *item = NULL;

    for (size_t i = 0; i < node->count; i++) {
        int r = check_item(check, node->args[i], &item);

        if (r == 0)
            r = check_join(check, node->args[i], item, &type);
        if (r < 0)
            return r;
    }
    *ret = typed_holding(check->compile->arena, CEL_LIST, NULL,
                         type ? type : typed_unknown(&check->typing));
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_map(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *types[2] = {NULL};
    const struct typed *item = NULL;

    for (size_t i = 0; i < node->count; i++) {
        int r = check_item(check, node->args[i], &item);

        if (r == 0)
            r = check_join(check, node->args[i], item, &types[i % 2]);
        if (r < 0)
            return r;
    }
    if (!node->count) {
        types[0] = typed_unknown(&check->typing);
        types[1] = typed_unknown(&check->typing);
    }
    *ret = typed_holding(check->compile->arena, CEL_MAP, types[0], types[1]);
    return 0;
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

/* Texts that are written down are looked at before they are used. */
static int check_literal(struct check *check, const struct cel_node *node)
{
    const struct cel_node *text = node->count ? node->args[0] : NULL;
    const char *what = str_is(node->name, "duration")    ? "duration"
                       : str_is(node->name, "timestamp") ? "timestamp"
                                                         : NULL;
    struct cel_value moment = {0};
    struct regex *regex = NULL;
    struct err err = {0};

    if (node->member && node->count == 2 && str_is(node->name, "matches"))
        text = node->args[1];
    if (!text || text->op != CEL_OP_CONST || text->constant.type != CEL_STRING ||
        check->compile->loose)
        return 0;
    if (str_is(node->name, "matches") && (node->member || node->count == 2)) {
        text = node->args[1];
        if (text->op != CEL_OP_CONST || text->constant.type != CEL_STRING ||
            regex_compile(check->compile->arena, text->constant.s, &regex, &err) == 0)
            return 0;
        return check_wrong(
            check, text,
            str_printf(check->compile->arena, "invalid matches argument: %s", err.text).p,
            STR_NONE);
    }
    bool good =
        !what || (str_is(node->name, "duration")
                      ? moment_parse_duration(text->constant.s, &moment)
                      : text->constant.s.len > 10 && moment_parse(text->constant.s, &moment));
    return good ? 0
                : check_wrong(check, text,
                              str_printf(check->compile->arena, "invalid %s argument", what).p,
                              STR_NONE);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_call(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const char *ways[CEL_FUNCTION_WAYS_MAX];
    const struct typed **args =
        ARENA_ARRAY(check->compile->arena, const struct typed *, node->count + 1);
    bool known = false;
    int r = 0;

    take_namespace(check, node);
    node->function = cel_function_find(node->name, node->member, node->count, &known);
    bool format = node->member && str_is(node->name, "format");
    check->formatting += format ? 1 : 0;
    for (size_t i = 0; r == 0 && i < node->count; i++)
        r = check_node(check, node->args[i], &args[i]);
    check->formatting -= format ? 1 : 0;
    if (r < 0)
        return r;
    if (!known)
        return check_undeclared(check, node, node->name);
    size_t count = cel_function_ways(node->name, node->member, ways);
    *ret = NULL;
    for (size_t i = 0; i < count && !*ret; i++)
        *ret = typed_call(&check->typing, ways[i], args, node->count);
    if (!node->function && !*ret && check->compile->loose)
        return check_wrong(check, node, "found no matching overload for", node->name);
    if (!*ret)
        return check_overload(check, node, node->name, args, node->count, ret);
    r = check_literal(check, node);
    return r < 0 || check->compile->loose ? r : constant_check(check->compile, node, check->err);
}

/* ---- variables of their own ---- */

static int scope_push(struct check *check,
                      const struct cel_node *node,
                      struct str name,
                      const struct typed *typed)
{
    if (check->scope_count == COUNT_OF(check->scopes))
        return check_wrong(check, node, "more than 32 comprehensions are inside each other",
                           STR_NONE);
    check->scopes[check->scope_count++] = (struct scope){name, typed};
    return 0;
}

/* What is gone through: a list, a map or what is not known, which is told to be anything. */
static int check_range(struct check *check, struct cel_node *node, const struct typed **ret)
{
    struct arena *arena = check->compile->arena;

    *ret = typed_now(&check->typing, *ret, false);
    if ((*ret)->unknown)
        (void)typed_fits(&check->typing, typed_simple(CEL_DYN), *ret);
    if ((*ret)->unknown || (*ret)->type == CEL_DYN || (*ret)->type == CEL_LIST ||
        ((*ret)->type == CEL_MAP && !(*ret)->object))
        return 0;
    return check_unfit(check, node->args[0], ret,
                       str_printf(arena,
                                  "expression of type '" STR_FMT
                                  "' cannot be range of a comprehension (must be list, map, or "
                                  "dynamic)",
                                  STR_ARG(typed_text(arena, *ret))));
}

/* What the variables of a comprehension are known to be. */
static int scope_each(struct check *check, struct cel_node *node, const struct typed *range)
{
    bool two = node->second.p != NULL;
    bool list = typed_is(range, CEL_LIST);
    const struct typed *any = typed_simple(CEL_DYN);
    const struct typed *key = list                       ? typed_simple(CEL_INT)
                              : typed_is(range, CEL_MAP) ? range->key
                                                         : any;
    const struct typed *value = list || typed_is(range, CEL_MAP) ? range->item : any;

    node->slot = (uint32_t)(check->compile->variable_count + check->scope_count);
    if (!two)
        return scope_push(check, node, node->name, list ? value : key);
    int r = scope_push(check, node, node->name, key);
    return r < 0 ? r : scope_push(check, node, node->second, value);
}

/* A condition that decides about a member is the first operand of a choice in Kubernetes. */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_choice(struct check *check,
                        const struct cel_node *each,
                        struct cel_node *condition,
                        const struct typed *of)
{
    const struct typed *args[OPERANDS_MAX] = {NULL, of, of};
    struct cel_node choice = {.at = each->at};
    int r = check_node(check, condition, &args[0]);

    if (r < 0 || typed_fits(&check->typing, args[0], typed_simple(CEL_BOOL)))
        return r;
    return check_overload(check, &choice, STR("_?_:_"), args, OPERANDS_MAX, &args[0]);
}

/* What a comprehension gives. */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_body(struct check *check,
                      struct cel_node *node,
                      const struct typed *range,
                      const struct typed **ret)
{
    struct arena *arena = check->compile->arena;
    const struct typed *any = typed_simple(CEL_DYN);
    const struct typed *first = check->scopes[check->scope_count - 1].typed;
    const struct typed *key = typed_is(range, CEL_LIST)  ? typed_simple(CEL_INT)
                              : typed_is(range, CEL_MAP) ? range->key
                                                         : any;
    const struct typed *body = NULL;
    int r = 0;

    *ret = typed_simple(CEL_BOOL);
    if (node->each == CEL_EACH_ALL || node->each == CEL_EACH_EXISTS)
        return check_bool(check, node->args[1]);
    if (node->each == CEL_EACH_ONE)
        return check_choice(check, node, node->args[1], typed_simple(CEL_INT));
    if (node->each == CEL_EACH_FILTER) {
        *ret = typed_holding(arena, CEL_LIST, NULL, first);
        return check_choice(check, node, node->args[1], *ret);
    }
    r = check_node(check, node->args[1], &body);
    if (r < 0)
        return r;
    *ret = node->each == CEL_EACH_LIST  ? typed_holding(arena, CEL_LIST, NULL, body)
           : node->each == CEL_EACH_MAP ? typed_holding(arena, CEL_MAP, key, body)
                                        : body;
    return node->count == 3 ? check_choice(check, node, node->args[2], *ret) : 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_each(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *range = NULL;
    size_t before = check->scope_count;
    int r = check_node(check, node->args[0], &range);

    if (r == 0)
        r = check_range(check, node, &range);
    if (r == 0)
        r = scope_each(check, node, range);
    if (r == 0)
        r = check_body(check, node, range, ret);
    check->scope_count = before;
    if (r < 0)
        return r;
    const struct typed *map = typed_simple(CEL_MAP);
    if (node->each == CEL_EACH_ENTRIES && !typed_fits(&check->typing, *ret, map))
        return check_overload(check, node, STR("cel.@mapInsert"),
                              (const struct typed *const[]){map, *ret}, 2, ret);
    return 0;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_bind(struct check *check, struct cel_node *node, const struct typed **ret)
{
    const struct typed *value = NULL;
    size_t before = check->scope_count;
    int r = check_node(check, node->args[0], &value);

    node->slot = (uint32_t)(check->compile->variable_count + check->scope_count);
    if (r == 0)
        r = scope_push(check, node, node->name, value);
    if (r == 0)
        r = check_node(check, node->args[1], ret);
    check->scope_count = before;
    return r;
}

/* optMap() and optFlatMap() */
// NOLINTNEXTLINE(misc-no-recursion)
static int check_optional(struct check *check, struct cel_node *node, const struct typed **ret)
{
    struct arena *arena = check->compile->arena;
    const struct typed *args[OPERANDS_MAX] = {NULL};
    const struct typed *held = NULL;
    size_t before = check->scope_count;
    int r = check_node(check, node->args[0], &args[0]);

    if (r < 0)
        return r;
    held = typed_call(&check->typing, "?A>A", args, 1);
    if (!held) {
        struct cel_node member = {.at = node->at, .member = true};

        r = check_overload(check, &member, STR("hasValue"), args, 1, &held);
    }
    node->slot = (uint32_t)(check->compile->variable_count + check->scope_count);
    if (r == 0)
        r = scope_push(check, node, node->name, held);
    if (r == 0)
        r = check_node(check, node->args[1], ret);
    check->scope_count = before;
    if (r < 0)
        return r;
    args[0] = typed_simple(CEL_BOOL);
    args[1] = node->flat ? *ret : typed_holding(arena, CEL_OPTIONAL, NULL, *ret);
    args[2] = typed_holding(arena, CEL_OPTIONAL, NULL, typed_unknown(&check->typing));
    *ret = typed_call(&check->typing, operators[CEL_OP_IF].ways, args, OPERANDS_MAX);
    return *ret ? 0 : check_overload(check, node, STR("_?_:_"), args, OPERANDS_MAX, ret);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int check_node(struct check *check, struct cel_node *node, const struct typed **ret)
{
    switch (node->op) {
    case CEL_OP_CONST: *ret = typed_simple(node->constant.type); return 0;
    case CEL_OP_IDENT: return check_ident(check, node, ret);
    case CEL_OP_SELECT:
    case CEL_OP_HAS: return check_select(check, node, ret);
    case CEL_OP_CALL: return check_call(check, node, ret);
    case CEL_OP_LIST: return check_list(check, node, ret);
    case CEL_OP_MAP: return check_map(check, node, ret);
    case CEL_OP_AND:
    case CEL_OP_OR: return check_logic(check, node, ret);
    case CEL_OP_EACH: return check_each(check, node, ret);
    case CEL_OP_BIND: return check_bind(check, node, ret);
    case CEL_OP_OPT: return check_optional(check, node, ret);
    case CEL_OP_INDEX:
    case CEL_OP_NOT:
    case CEL_OP_NEGATE:
    case CEL_OP_IF:
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
    case CEL_OP_MOD: return check_operator(check, node, ret);
    }
    return 0;
}

int cel_check(const struct cel_check *what)
{
    struct check *check = ARENA_NEW(what->compile->arena, struct check);
    const struct typed *typed = NULL;

    *check = (struct check){.compile = what->compile,
                            .program = what->program,
                            .err = what->err,
                            .typing = {.arena = what->compile->arena}};
    if (what->compile->variable_count > CEL_VARIABLES_MAX)
        return err_set(what->err, -E2BIG, "an expression has at most %d variables",
                       CEL_VARIABLES_MAX);
    int r = check_node(check, what->root, &typed);
    if (r < 0)
        return r;
    if (check->typing.steps > TYPED_STEPS_MAX && !what->compile->loose)
        return err_set(what->err, -E2BIG, "the types of the expression are too large");
    what->program->typed = typed_now(&check->typing, typed, true);
    what->program->result = what->program->typed->type;
    return 0;
}
