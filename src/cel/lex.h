#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdint.h>

struct arena;
struct err;

/* lex: the words of an expression. */
enum cel_token_kind {
    CEL_TOKEN_END,
    CEL_TOKEN_NAME,
    CEL_TOKEN_QUOTED, /* `a-b`, a field's name */
    CEL_TOKEN_VALUE,  /* a number, text or bytes: value */
    CEL_TOKEN_SIGN,   /* one or two characters: text */
};

struct cel_token {
    enum cel_token_kind kind;
    uint32_t at;
    struct str text;
    struct cel_value value;
};

struct cel_lex {
    struct arena *arena;
    struct str text;
    size_t at;
    struct err *err;
};

/* The next word; CEL_TOKEN_END at the end. */
int cel_lex(struct cel_lex *lex, struct cel_token *ret);
/* A number that a minus stands before: -9223372036854775808 is one. */
int cel_lex_negative(struct cel_lex *lex, struct cel_token *token);
