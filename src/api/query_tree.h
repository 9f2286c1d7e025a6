#pragma once

#include "base/str.h"

/* query_tree: a query as it was read; for query.c, which runs it, and query_read.c. */
enum query_op {
    QUERY_INPUT,   /* . */
    QUERY_LITERAL, /* literal */
    QUERY_KEY,     /* left[right] */
    QUERY_EACH,    /* left[] */
    QUERY_TRY,     /* left? */
    QUERY_LIST,    /* [left]; NULL: an empty one */
    QUERY_CALL,    /* function(left) */
    QUERY_IF,      /* if left then right else third end; third NULL: the input */
    QUERY_NEGATE,  /* -left */
    QUERY_PIPE,
    QUERY_COMMA,
    QUERY_ELSE, /* // */
    QUERY_OR,
    QUERY_AND,
    QUERY_EQUAL,
    QUERY_DIFFERS,
    QUERY_LESS,
    QUERY_MOST, /* <= */
    QUERY_MORE,
    QUERY_LEAST, /* >= */
    QUERY_ADD,
    QUERY_SUBTRACT,
    QUERY_MULTIPLY,
    QUERY_DIVIDE,
    QUERY_REST, /* % */
};

enum query_function {
    QUERY_FN_ADD,
    QUERY_FN_ALL,
    QUERY_FN_ANY,
    QUERY_FN_EMPTY,
    QUERY_FN_ENDSWITH,
    QUERY_FN_HAS,
    QUERY_FN_KEYS,
    QUERY_FN_LENGTH,
    QUERY_FN_MAP,
    QUERY_FN_NOT,
    QUERY_FN_SELECT,
    QUERY_FN_STARTSWITH,
    QUERY_FN_TO_ENTRIES,
    QUERY_FN_TONUMBER,
    QUERY_FN_TOSTRING,
    QUERY_FN_TYPE,
    QUERY_FN_VALUES,
};

struct json;

struct query {
    enum query_op op;
    enum query_function function;
    const struct query *left;
    const struct query *right;
    const struct query *third;
    const struct json *literal;
};
