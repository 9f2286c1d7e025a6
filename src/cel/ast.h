#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct cel_compile;
struct cel_function;
struct cel_program;
struct err;

/* ast: an expression as a tree. parse.c makes it, check.c finds what its names mean, eval.c goes
 * through it. Macros (all, exists, map, has ...) are nodes of their own. */
enum cel_op {
    CEL_OP_CONST,
    CEL_OP_IDENT,  /* name; slot after the check */
    CEL_OP_SELECT, /* args[0].name; `optional`: .?name */
    CEL_OP_HAS,    /* has(args[0].name) */
    CEL_OP_INDEX,  /* args[0][args[1]]; `optional`: [?] */
    CEL_OP_CALL,   /* name(args), or args[0].name(args[1] ...) where `member` */
    CEL_OP_LIST,   /* an item with a ? before it is an IF of one */
    CEL_OP_MAP,    /* key, value, key, value ...; a value whose key had a ? is an IF of one */
    CEL_OP_NOT,
    CEL_OP_NEGATE,
    CEL_OP_AND, /* two or more */
    CEL_OP_OR,
    CEL_OP_IF,
    CEL_OP_EQ,
    CEL_OP_NE,
    CEL_OP_LT,
    CEL_OP_LE,
    CEL_OP_GT,
    CEL_OP_GE,
    CEL_OP_IN,
    CEL_OP_ADD,
    CEL_OP_SUB,
    CEL_OP_MUL,
    CEL_OP_DIV,
    CEL_OP_MOD,
    CEL_OP_EACH, /* a comprehension over args[0] */
    CEL_OP_BIND, /* cel.bind(name, args[0], args[1]) */
    CEL_OP_OPT,  /* args[0].optMap(name, args[1]); `flat`: optFlatMap */
};

enum cel_each {
    CEL_EACH_ALL,
    CEL_EACH_EXISTS,
    CEL_EACH_ONE,
    CEL_EACH_FILTER,
    CEL_EACH_LIST,    /* map(), transformList() */
    CEL_EACH_MAP,     /* transformMap() */
    CEL_EACH_ENTRIES, /* transformMapEntry() */
};

struct cel_node {
    enum cel_op op;
    enum cel_each each;
    uint32_t at; /* where in the text */
    uint32_t slot;
    uint16_t height;
    bool optional;
    bool member;
    bool flat;
    bool root; /* of a name: it began with a dot */
    struct str name;
    struct str second; /* the second variable of a comprehension; STR_NONE: there is one only */
    struct cel_value constant;
    struct cel_node **args; /* of EACH: range, body, and a filter where there is one */
    size_t count;
    const struct cel_function *function;
};

int cel_parse(struct arena *arena, struct str text, struct cel_node **ret, struct err *err);

struct cel_check {
    const struct cel_compile *compile;
    struct cel_node *root;
    struct cel_program *program; /* used and result are filled in */
    struct err *err;
};
int cel_check(const struct cel_check *check);

/* "ERROR: <input>:LINE:COLUMN: WORDS" */
int cel_wrong(struct err *err, struct str text, uint32_t at, const char *words, struct str name);
