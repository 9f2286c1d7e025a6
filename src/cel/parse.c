#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "cel/ast.h"
#include "cel/cel.h"
#include "cel/lex.h"
#include "cel/text.h"
#include "cel/value.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One function a level of precedence. Each takes its tokens and gives back a node. */

struct nodes VEC_FIELDS(struct cel_node *);

struct parse {
    struct arena *arena;
    struct cel_lex lex;
    struct cel_token token; /* the one that comes next */
    unsigned depth;
    struct err *err;
};

static int parse_expr(struct parse *parse, struct cel_node **ret);
static int parse_unary(struct parse *parse, struct cel_node **ret);

#define WORDS_BYTES_MAX 80 /* of a name that a message quotes */

int cel_wrong(struct err *err, struct str text, uint32_t at, const char *words, struct str name)
{
    size_t line = 1;
    size_t begin = 0;

    for (size_t i = 0; i < at && i < text.len; i++)
        if (text.p[i] == '\n') {
            line++;
            begin = i + 1;
        }
    size_t column = text_count(str_sub(text, begin, at - begin)) + 1;
    name = str_sub(name, 0, WORDS_BYTES_MAX);
    if (!name.len)
        return err_set(err, -EINVAL, "ERROR: <input>:%zu:%zu: %s", line, column, words);
    return err_set(err, -EINVAL, "ERROR: <input>:%zu:%zu: %s '" STR_FMT "'", line, column, words,
                   STR_ARG(name));
}

static int parse_wrong(struct parse *parse, uint32_t at, const char *words, struct str name)
{
    return cel_wrong(parse->err, parse->lex.text, at, words, name);
}

static int parse_unexpected(struct parse *parse)
{
    const struct cel_token *token = &parse->token;
    struct str text = str_sub(parse->lex.text, token->at, parse->lex.at - token->at);

    if (token->kind == CEL_TOKEN_END)
        return parse_wrong(parse, token->at, "Syntax error: mismatched input '<EOF>'", STR_NONE);
    return parse_wrong(parse, token->at, "Syntax error: mismatched input", text);
}

static int parse_next(struct parse *parse)
{
    return cel_lex(&parse->lex, &parse->token);
}

static bool parse_sees(const struct parse *parse, const char *sign)
{
    return parse->token.kind == CEL_TOKEN_SIGN && str_is(parse->token.text, sign);
}

/* Takes the sign where it comes next; *ret_taken tells. */
static int parse_take(struct parse *parse, const char *sign, bool *ret_taken)
{
    *ret_taken = parse_sees(parse, sign);
    return *ret_taken ? parse_next(parse) : 0;
}

static int parse_need(struct parse *parse, const char *sign)
{
    return parse_sees(parse, sign) ? parse_next(parse) : parse_unexpected(parse);
}

static struct cel_node *node_new(struct parse *parse, enum cel_op op, uint32_t at)
{
    struct cel_node *node = ARENA_NEW(parse->arena, struct cel_node);

    *node = (struct cel_node){.op = op, .at = at, .height = 1};
    return node;
}

static int node_adopt(struct parse *parse, struct cel_node *node, const struct nodes *args)
{
    node->args = args->items;
    node->count = args->count;
    for (size_t i = 0; i < args->count; i++)
        if (args->items[i]->height >= node->height)
            node->height = (uint16_t)(args->items[i]->height + 1);
    if (node->height > CEL_HEIGHT_MAX)
        return err_set(parse->err, -E2BIG, "the expression is nested deeper than %d levels",
                       CEL_HEIGHT_MAX);
    return 0;
}

static int node_join(struct parse *parse,
                     struct cel_node *node,
                     struct cel_node *a,
                     struct cel_node *b)
{
    struct nodes args = {0};

    VEC_PUSH(parse->arena, &args, a);
    if (b)
        VEC_PUSH(parse->arena, &args, b);
    return node_adopt(parse, node, &args);
}

/* ---- macros ---- */

static const struct {
    const char *name;
    enum cel_each each;
    size_t variables;
    size_t count; /* of what stands in the parentheses; a filter is one more, where there is one */
    bool filter;
} macros[] = {
    {"all", CEL_EACH_ALL, 1, 2, false},
    {"exists", CEL_EACH_EXISTS, 1, 2, false},
    {"exists_one", CEL_EACH_ONE, 1, 2, false},
    {"existsOne", CEL_EACH_ONE, 1, 2, false},
    {"filter", CEL_EACH_FILTER, 1, 2, false},
    {"map", CEL_EACH_LIST, 1, 2, true},
    {"all", CEL_EACH_ALL, 2, 3, false},
    {"exists", CEL_EACH_EXISTS, 2, 3, false},
    {"existsOne", CEL_EACH_ONE, 2, 3, false},
    {"exists_one", CEL_EACH_ONE, 2, 3, false},
    {"transformList", CEL_EACH_LIST, 2, 3, true},
    {"transformMap", CEL_EACH_MAP, 2, 3, true},
    {"transformMapEntry", CEL_EACH_ENTRIES, 2, 3, true},
};

static int macro_variable(struct parse *parse, const struct cel_node *node, struct str *ret)
{
    if (node->op != CEL_OP_IDENT || node->root)
        return parse_wrong(parse, node->at, "argument must be a simple name", STR_NONE);
    *ret = node->name;
    return 0;
}

static int macro_each(struct parse *parse, struct cel_node *call, size_t index)
{
    size_t variables = macros[index].variables;
    bool filtered = call->count - 1 > macros[index].count;
    struct nodes args = {0};
    int r = macro_variable(parse, call->args[1], &call->name);

    if (r == 0 && variables == 2)
        r = macro_variable(parse, call->args[2], &call->second);
    if (r < 0)
        return r;
    if (variables == 2 && str_eq(call->name, call->second))
        return parse_wrong(parse, call->at, "the two variables have one name:", call->name);
    call->op = CEL_OP_EACH;
    call->each = macros[index].each;
    VEC_PUSH(parse->arena, &args, call->args[0]);
    VEC_PUSH(parse->arena, &args, call->args[call->count - 1]);
    if (filtered)
        VEC_PUSH(parse->arena, &args, call->args[1 + variables]);
    return node_adopt(parse, call, &args);
}

static int macro_opt(struct parse *parse, struct cel_node *call)
{
    call->flat = str_is(call->name, "optFlatMap");
    int r = macro_variable(parse, call->args[1], &call->name);

    call->op = CEL_OP_OPT;
    return r < 0 ? r : node_join(parse, call, call->args[0], call->args[2]);
}

static int macro_bind(struct parse *parse, struct cel_node *call)
{
    int r = macro_variable(parse, call->args[1], &call->name);

    call->op = CEL_OP_BIND;
    return r < 0 ? r : node_join(parse, call, call->args[2], call->args[3]);
}

static int macro_has(struct parse *parse, struct cel_node *call)
{
    const struct cel_node *field = call->args[0];

    if (field->op != CEL_OP_SELECT || field->optional)
        return parse_wrong(parse, field->at, "invalid argument to has() macro", STR_NONE);
    call->op = CEL_OP_HAS;
    call->name = field->name;
    return node_join(parse, call, field->args[0], NULL);
}

static int parse_macro(struct parse *parse, struct cel_node *call)
{
    size_t inside = call->count - (call->member ? 1 : 0);

    if (!call->member)
        return str_is(call->name, "has") && inside == 1 ? macro_has(parse, call) : 0;
    if (inside == 2 && (str_is(call->name, "optMap") || str_is(call->name, "optFlatMap")))
        return macro_opt(parse, call);
    if (inside == 3 && str_is(call->name, "bind") && call->args[0]->op == CEL_OP_IDENT &&
        str_is(call->args[0]->name, "cel"))
        return macro_bind(parse, call);
    for (size_t i = 0; i < COUNT_OF(macros); i++)
        if (str_is(call->name, macros[i].name) &&
            (inside == macros[i].count || (macros[i].filter && inside == macros[i].count + 1)) &&
            /* x.all(i, v, p) has two variables where map(v, p, t) has a filter */
            (macros[i].variables == 1 || inside >= 3))
            return macro_each(parse, call, i);
    return 0;
}

/* ---- primaries ---- */

/* The arguments of a call, up to the closing sign, which is taken. */
// NOLINTNEXTLINE(misc-no-recursion)
static int parse_arguments(struct parse *parse, struct nodes *ret)
{
    bool more = !parse_sees(parse, ")");

    while (more) {
        struct cel_node *item = NULL;
        int r = parse_expr(parse, &item);

        if (r == 0) {
            VEC_PUSH(parse->arena, ret, item);
            r = parse_take(parse, ",", &more);
        }
        if (r < 0)
            return r;
    }
    return parse_need(parse, ")");
}

/* An item with a ? before it: an IF of one. The item itself may be a selection that is optional. */
static struct cel_node *node_wrap(struct parse *parse, struct cel_node *inner)
{
    struct cel_node *node = node_new(parse, CEL_OP_IF, inner->at);

    (void)node_join(parse, node, inner, NULL);
    return node;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_map(struct parse *parse, struct cel_node *node)
{
    struct nodes items = {0};
    bool more = !parse_sees(parse, "}");

    while (more) {
        struct cel_node *key = NULL;
        struct cel_node *value = NULL;
        bool marked = false;
        int r = parse_take(parse, "?", &marked);

        if (r == 0)
            r = parse_expr(parse, &key);
        if (r == 0)
            r = parse_need(parse, ":");
        if (r == 0)
            r = parse_expr(parse, &value);
        if (r < 0)
            return r;
        VEC_PUSH(parse->arena, &items, key);
        VEC_PUSH(parse->arena, &items, marked ? node_wrap(parse, value) : value);
        r = parse_take(parse, ",", &more);
        if (r < 0)
            return r;
        if (more && parse_sees(parse, "}"))
            break;
    }
    int r = parse_need(parse, "}");
    return r < 0 ? r : node_adopt(parse, node, &items);
}

static bool is_reserved(struct str name)
{
    static const char *const words[] = {
        "as",  "break", "const",   "continue",  "else",   "for", "function", "if",    "import",
        "let", "loop",  "package", "namespace", "return", "var", "void",     "while", "in",
    };

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(name, words[i]))
            return true;
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_call(struct parse *parse, struct cel_node *node, struct cel_node *target)
{
    struct nodes args = {0};

    node->op = CEL_OP_CALL;
    node->member = target != NULL;
    if (target)
        VEC_PUSH(parse->arena, &args, target);
    int r = parse_arguments(parse, &args);
    if (r == 0)
        r = node_adopt(parse, node, &args);
    return r < 0 ? r : parse_macro(parse, node);
}

static bool name_is_constant(struct str name, struct cel_value *ret)
{
    if (str_is(name, "true") || str_is(name, "false"))
        *ret = cel_bool(str_is(name, "true"));
    else if (str_is(name, "null"))
        *ret = cel_null();
    else
        return false;
    return true;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_name(struct parse *parse, bool dotted, struct cel_node **ret)
{
    struct cel_node *node = node_new(parse, CEL_OP_IDENT, parse->token.at);
    bool call = false;

    if (parse->token.kind != CEL_TOKEN_NAME)
        return parse_unexpected(parse);
    node->name = parse->token.text;
    node->root = dotted;
    *ret = node;
    if (!dotted && name_is_constant(node->name, &node->constant)) {
        node->op = CEL_OP_CONST;
        return parse_next(parse);
    }
    if (is_reserved(node->name))
        return parse_wrong(parse, node->at, "Syntax error: reserved identifier:", node->name);
    int r = parse_next(parse);
    uint32_t at = parse->token.at;
    if (r == 0)
        r = parse_take(parse, "(", &call);
    if (r < 0 || !call)
        return r;
    node->at = at;
    return parse_call(parse, node, NULL);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_list(struct parse *parse, struct cel_node *node)
{
    struct nodes items = {0};
    bool more = !parse_sees(parse, "]");

    while (more) {
        struct cel_node *item = NULL;
        bool marked = false;
        int r = parse_take(parse, "?", &marked);

        if (r == 0)
            r = parse_expr(parse, &item);
        if (r < 0)
            return r;
        VEC_PUSH(parse->arena, &items, marked ? node_wrap(parse, item) : item);
        r = parse_take(parse, ",", &more);
        if (r < 0)
            return r;
        if (more && parse_sees(parse, "]"))
            break;
    }
    int r = parse_need(parse, "]");
    return r < 0 ? r : node_adopt(parse, node, &items);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_primary(struct parse *parse, struct cel_node **ret)
{
    uint32_t at = parse->token.at;
    bool taken = false;

    if (parse->token.kind == CEL_TOKEN_VALUE) {
        *ret = node_new(parse, CEL_OP_CONST, at);
        (*ret)->constant = parse->token.value;
        return parse_next(parse);
    }
    if (parse->token.kind == CEL_TOKEN_NAME)
        return parse_name(parse, false, ret);
    int r = parse_take(parse, ".", &taken);
    if (r < 0 || taken)
        return r < 0 ? r : parse_name(parse, true, ret);
    r = parse_take(parse, "(", &taken);
    if (r == 0 && taken) {
        r = parse_expr(parse, ret);
        return r < 0 ? r : parse_need(parse, ")");
    }
    if (r == 0)
        r = parse_take(parse, "[", &taken);
    if (r == 0 && taken) {
        *ret = node_new(parse, CEL_OP_LIST, at);
        return parse_list(parse, *ret);
    }
    if (r == 0)
        r = parse_take(parse, "{", &taken);
    if (r == 0 && taken) {
        *ret = node_new(parse, CEL_OP_MAP, at);
        return parse_map(parse, *ret);
    }
    return r < 0 ? r : parse_unexpected(parse);
}

/* ---- what follows a primary ---- */

/* Behind the dot, which is the place of a field; that of a call is where its arguments begin. */
// NOLINTNEXTLINE(misc-no-recursion)
static int parse_selection(struct parse *parse, struct cel_node **node, uint32_t at)
{
    struct cel_node *target = *node;
    bool optional = false;
    bool call = false;
    int r = parse_take(parse, "?", &optional);

    if (r < 0)
        return r;
    bool quoted = parse->token.kind == CEL_TOKEN_QUOTED;
    if (!quoted && parse->token.kind != CEL_TOKEN_NAME)
        return parse_unexpected(parse);
    struct cel_value constant = {0};
    if (!quoted &&
        (name_is_constant(parse->token.text, &constant) || str_is(parse->token.text, "in")))
        return parse_unexpected(parse);
    *node = node_new(parse, CEL_OP_SELECT, at);
    (*node)->name = parse->token.text;
    (*node)->optional = optional;
    (*node)->root = quoted;
    r = parse_next(parse);
    at = parse->token.at;
    if (r == 0 && !optional && !quoted)
        r = parse_take(parse, "(", &call);
    if (r < 0)
        return r;
    if (!call)
        return node_join(parse, *node, target, NULL);
    (*node)->at = at;
    return parse_call(parse, *node, target);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_index(struct parse *parse, struct cel_node **node, uint32_t at)
{
    struct cel_node *target = *node;
    struct cel_node *index = NULL;
    bool optional = false;
    int r = parse_take(parse, "?", &optional);

    if (r == 0)
        r = parse_expr(parse, &index);
    if (r == 0)
        r = parse_need(parse, "]");
    if (r < 0)
        return r;
    *node = node_new(parse, CEL_OP_INDEX, at);
    (*node)->optional = optional;
    return node_join(parse, *node, target, index);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_member(struct parse *parse, struct cel_node **ret)
{
    int r = parse_primary(parse, ret);

    while (r == 0) {
        uint32_t at = parse->token.at;
        bool taken = false;

        r = parse_take(parse, ".", &taken);
        if (r == 0 && taken) {
            r = parse_selection(parse, ret, at);
            continue;
        }
        if (r == 0)
            r = parse_take(parse, "[", &taken);
        if (r == 0 && taken) {
            r = parse_index(parse, ret, at);
            continue;
        }
        if (r == 0 && parse_sees(parse, "{") &&
            ((*ret)->op == CEL_OP_IDENT || (*ret)->op == CEL_OP_SELECT))
            return parse_wrong(parse, at, "messages cannot be made here: there is no type",
                               (*ret)->name);
        return r;
    }
    return r;
}

/* ---- operators ---- */

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_prefixed(struct parse *parse,
                          enum cel_op op,
                          const char *sign,
                          struct cel_node **ret)
{
    uint32_t at = parse->token.at;
    struct cel_node *inner = NULL;
    size_t count = 0;
    int r = 0;

    while (r == 0 && parse_sees(parse, sign)) {
        /* The sign of a number belongs to it, or the least one could not be written. */
        bool number = op == CEL_OP_NEGATE && parse->lex.at < parse->lex.text.len &&
                      parse->lex.text.p[parse->lex.at] >= '0' &&
                      parse->lex.text.p[parse->lex.at] <= '9';

        if (number) {
            r = cel_lex_negative(&parse->lex, &parse->token);
            break;
        }
        count++;
        r = parse_next(parse);
    }
    if (r == 0)
        r = parse_member(parse, &inner);
    /* Twice is not at all, but must still be of the type: keep one pair. */
    for (size_t left = count > 2 ? 2 - (count & 1) : count; r == 0 && left > 0; left--) {
        struct cel_node *node = node_new(parse, op, at);

        r = node_join(parse, node, inner, NULL);
        inner = node;
    }
    *ret = inner;
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_unary(struct parse *parse, struct cel_node **ret)
{
    if (parse_sees(parse, "!"))
        return parse_prefixed(parse, CEL_OP_NOT, "!", ret);
    if (parse_sees(parse, "-"))
        return parse_prefixed(parse, CEL_OP_NEGATE, "-", ret);
    return parse_member(parse, ret);
}

#define LEVELS 3
static const struct {
    const char *sign;
    enum cel_op op;
    unsigned level; /* the higher binds tighter */
} operators[] = {
    {"==", CEL_OP_EQ, 0}, {"!=", CEL_OP_NE, 0}, {"<=", CEL_OP_LE, 0}, {">=", CEL_OP_GE, 0},
    {"<", CEL_OP_LT, 0},  {">", CEL_OP_GT, 0},  {"in", CEL_OP_IN, 0}, {"+", CEL_OP_ADD, 1},
    {"-", CEL_OP_SUB, 1}, {"*", CEL_OP_MUL, 2}, {"/", CEL_OP_DIV, 2}, {"%", CEL_OP_MOD, 2},
};

static bool parse_operator(const struct parse *parse, unsigned level, enum cel_op *ret)
{
    for (size_t i = 0; i < COUNT_OF(operators); i++) {
        bool word = operators[i].op == CEL_OP_IN;

        if (operators[i].level == level &&
            parse->token.kind == (word ? CEL_TOKEN_NAME : CEL_TOKEN_SIGN) &&
            str_is(parse->token.text, operators[i].sign)) {
            *ret = operators[i].op;
            return true;
        }
    }
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_level(struct parse *parse, unsigned level, struct cel_node **ret)
{
    enum cel_op op = CEL_OP_EQ;
    int r = level == LEVELS ? parse_unary(parse, ret) : parse_level(parse, level + 1, ret);

    while (r == 0 && level < LEVELS && parse_operator(parse, level, &op)) {
        struct cel_node *node = node_new(parse, op, parse->token.at);
        struct cel_node *right = NULL;

        r = parse_next(parse);
        if (r == 0)
            r = parse_level(parse, level + 1, &right);
        if (r == 0)
            r = node_join(parse, node, *ret, right);
        *ret = node;
    }
    return r;
}

/* a && b && c is one node: a chain of any length is not deep. */
// NOLINTNEXTLINE(misc-no-recursion)
static int parse_chain(struct parse *parse, bool any, struct cel_node **ret)
{
    const char *sign = any ? "||" : "&&";
    int r = any ? parse_chain(parse, false, ret) : parse_level(parse, 0, ret);

    if (r < 0 || !parse_sees(parse, sign))
        return r;
    struct cel_node *node = node_new(parse, any ? CEL_OP_OR : CEL_OP_AND, parse->token.at);
    struct nodes args = {0};
    VEC_PUSH(parse->arena, &args, *ret);
    while (r == 0 && parse_sees(parse, sign)) {
        struct cel_node *next = NULL;

        r = parse_next(parse);
        if (r == 0)
            r = any ? parse_chain(parse, false, &next) : parse_level(parse, 0, &next);
        if (r == 0)
            VEC_PUSH(parse->arena, &args, next);
    }
    *ret = node;
    return r < 0 ? r : node_adopt(parse, node, &args);
}

// NOLINTNEXTLINE(misc-no-recursion)
static int parse_expr(struct parse *parse, struct cel_node **ret)
{
    uint32_t at = 0;
    bool choice = false;
    struct nodes args = {0};
    struct cel_node *node = NULL;

    if (++parse->depth > CEL_DEPTH_MAX)
        return err_set(parse->err, -E2BIG, "the expression is nested deeper than %d levels",
                       CEL_DEPTH_MAX);
    int r = parse_chain(parse, true, &node);
    at = parse->token.at;
    if (r == 0)
        r = parse_take(parse, "?", &choice);
    if (r == 0 && choice) {
        struct cel_node *yes = NULL;
        struct cel_node *no = NULL;

        VEC_PUSH(parse->arena, &args, node);
        node = node_new(parse, CEL_OP_IF, at);
        r = parse_chain(parse, true, &yes);
        if (r == 0)
            r = parse_need(parse, ":");
        if (r == 0)
            r = parse_expr(parse, &no);
        if (r < 0)
            return r;
        VEC_PUSH(parse->arena, &args, yes);
        VEC_PUSH(parse->arena, &args, no);
        r = node_adopt(parse, node, &args);
    }
    parse->depth--;
    *ret = node;
    return r;
}

int cel_parse(struct arena *arena, struct str text, struct cel_node **ret, struct err *err)
{
    struct parse parse = {
        .arena = arena, .err = err, .lex = {.arena = arena, .text = text, .err = err}};
    struct cel_node *root = NULL;

    if (text.len > CEL_TEXT_BYTES_MAX)
        return err_set(err, -E2BIG, "the expression has %zu bytes, at most %d", text.len,
                       CEL_TEXT_BYTES_MAX);
    int r = parse_next(&parse);
    if (r == 0)
        r = parse_expr(&parse, &root);
    if (r == 0 && parse.token.kind != CEL_TOKEN_END)
        r = parse_unexpected(&parse);
    if (r == 0)
        *ret = root;
    return r;
}
