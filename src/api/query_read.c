#include "api/query.h"
#include "api/query_tree.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Reading a query: by recursive descent, an operator of lower rank around those of higher rank. */
struct reader {
    struct arena *arena;
    struct str text;
    size_t at;
    size_t depth;
    struct err *err;
};

typedef const struct query *node_ptr;

static int node_read(struct reader *reader, size_t rank, node_ptr *ret);

static int reader_refuse(const struct reader *reader, const char *what)
{
    struct str rest = str_sub(reader->text, reader->at, 24);

    return err_set(reader->err, -EINVAL, "%s at \"" STR_FMT "\" of the expression " STR_FMT, what,
                   STR_ARG(rest), STR_ARG(str_sub(reader->text, 0, 80)));
}

static char reader_peek(struct reader *reader)
{
    while (reader->at < reader->text.len && strchr(" \t\r\n", reader->text.p[reader->at]))
        reader->at++;
    return reader->at < reader->text.len ? reader->text.p[reader->at] : '\0';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The word that begins here; empty: none does. */
static struct str reader_word(const struct reader *reader)
{
    size_t end = reader->at;

    while (end < reader->text.len &&
           (is_letter(reader->text.p[end]) || (end > reader->at && is_digit(reader->text.p[end]))))
        end++;
    return str_sub(reader->text, reader->at, end - reader->at);
}

/* Takes `word`, where nothing that belongs to it follows. */
static bool reader_take(struct reader *reader, const char *word)
{
    struct str rest;

    (void)reader_peek(reader);
    rest = str_sub(reader->text, reader->at, reader->text.len);
    if (is_letter(word[0]) ? !str_is(reader_word(reader), word) : !str_starts(rest, str_from(word)))
        return false;
    reader->at += strlen(word);
    return true;
}

static struct query *node_new(struct reader *reader, enum query_op op, node_ptr left)
{
    struct query *node = ARENA_NEW(reader->arena, struct query);

    *node = (struct query){.op = op, .left = left};
    return node;
}

static node_ptr node_literal(struct reader *reader, const struct json *value)
{
    struct query *node = node_new(reader, QUERY_LITERAL, NULL);

    node->literal = value;
    return node;
}

/* ---- the smallest parts ---- */
static int string_read(struct reader *reader, node_ptr *ret)
{
    size_t end = reader->at + 1;
    struct json *value = NULL;

    for (; end < reader->text.len && reader->text.p[end] != '"'; end++)
        if (reader->text.p[end] == '\\' && ++end < reader->text.len && reader->text.p[end] == '(')
            return reader_refuse(reader, "a string with an expression inside is not understood");
    if (end >= reader->text.len ||
        json_parse(reader->arena, str_sub(reader->text, reader->at, end + 1 - reader->at), &value,
                   NULL) < 0)
        return reader_refuse(reader, "a string is not closed or not well formed");
    reader->at = end + 1;
    *ret = node_literal(reader, value);
    return 0;
}

static int number_read(struct reader *reader, node_ptr *ret)
{
    size_t end = reader->at;
    int64_t number = 0;

    while (end < reader->text.len && is_digit(reader->text.p[end]))
        end++;
    if (!str_to_i64(str_sub(reader->text, reader->at, end - reader->at), &number) ||
        (end < reader->text.len && (reader->text.p[end] == '.' || is_letter(reader->text.p[end]))))
        return reader_refuse(reader, "only whole numbers are understood");
    reader->at = end;
    *ret = node_literal(reader, json_new_i64(reader->arena, number));
    return 0;
}

static const struct {
    const char *name;
    bool argument;
} functions[] = {
    [QUERY_FN_ADD] = {"add", false},
    [QUERY_FN_ALL] = {"all", false},
    [QUERY_FN_ANY] = {"any", false},
    [QUERY_FN_EMPTY] = {"empty", false},
    [QUERY_FN_ENDSWITH] = {"endswith", true},
    [QUERY_FN_HAS] = {"has", true},
    [QUERY_FN_KEYS] = {"keys", false},
    [QUERY_FN_LENGTH] = {"length", false},
    [QUERY_FN_MAP] = {"map", true},
    [QUERY_FN_NOT] = {"not", false},
    [QUERY_FN_SELECT] = {"select", true},
    [QUERY_FN_STARTSWITH] = {"startswith", true},
    [QUERY_FN_TO_ENTRIES] = {"to_entries", false},
    [QUERY_FN_TONUMBER] = {"tonumber", false},
    [QUERY_FN_TOSTRING] = {"tostring", false},
    [QUERY_FN_TYPE] = {"type", false},
    [QUERY_FN_VALUES] = {"values", false},
};

static int if_read(struct reader *reader, node_ptr *ret)
{
    struct query *node = node_new(reader, QUERY_IF, NULL);
    int r = node_read(reader, 0, &node->left);

    if (r == 0 && !reader_take(reader, "then"))
        return reader_refuse(reader, "\"then\" is missing");
    if (r == 0)
        r = node_read(reader, 0, &node->right);
    if (r == 0 && reader_take(reader, "elif")) {
        *ret = node;
        return if_read(reader, &node->third); /* it takes the end of both */
    }
    if (r == 0 && reader_take(reader, "else"))
        r = node_read(reader, 0, &node->third);
    if (r == 0 && !reader_take(reader, "end"))
        return reader_refuse(reader, "\"end\" is missing");
    *ret = node;
    return r;
}

static int word_read(struct reader *reader, node_ptr *ret)
{
    struct str word = reader_word(reader);

    if (reader_take(reader, "true") || reader_take(reader, "false")) {
        *ret = node_literal(reader, json_new_bool(reader->arena, str_is(word, "true")));
        return 0;
    }
    if (reader_take(reader, "null")) {
        *ret = node_literal(reader, json_new_null(reader->arena));
        return 0;
    }
    if (reader_take(reader, "if"))
        return if_read(reader, ret);
    for (size_t i = 0; i < COUNT_OF(functions); i++) {
        if (!str_is(word, functions[i].name))
            continue;
        struct query *node = node_new(reader, QUERY_CALL, NULL);
        node->function = (enum query_function)i;
        reader->at += word.len;
        *ret = node;
        if ((reader_peek(reader) == '(') != functions[i].argument)
            return reader_refuse(reader, functions[i].argument ? "an argument is missing"
                                                               : "an argument too many");
        if (!functions[i].argument)
            return 0;
        reader->at++;
        int r = node_read(reader, 0, &node->left);
        if (r == 0 && !reader_take(reader, ")"))
            return reader_refuse(reader, "\")\" is missing");
        return r;
    }
    return reader_refuse(reader, "this function is not understood");
}

/* What stands behind a dot: a name, a string, or nothing before a bracket. */
static int field_read(struct reader *reader, node_ptr of, node_ptr *ret)
{
    struct str word = reader_word(reader);
    struct query *node = NULL;
    char next = reader->at < reader->text.len ? reader->text.p[reader->at] : '\0';

    *ret = of;
    if (next == '.')
        return reader_refuse(reader, "what goes through everything (..) is not understood");
    if (!word.len && next != '"')
        return 0;
    node = node_new(reader, QUERY_KEY, of);
    *ret = node;
    if (next == '"')
        return string_read(reader, &node->right);
    node->right = node_literal(reader, json_new_str(reader->arena, word));
    reader->at += word.len;
    return 0;
}

static int bracket_read(struct reader *reader, node_ptr of, node_ptr *ret)
{
    struct query *node = NULL;

    if (reader_take(reader, "]")) {
        *ret = node_new(reader, QUERY_EACH, of);
        return 0;
    }
    node = node_new(reader, QUERY_KEY, of);
    *ret = node;
    int r = node_read(reader, 0, &node->right);
    if (r == 0 && !reader_take(reader, "]"))
        return reader_refuse(reader, "\"]\" is missing");
    return r;
}

static int primary_read(struct reader *reader, node_ptr *ret)
{
    char c = reader_peek(reader);
    struct query *node = NULL;
    int r = 0;

    if (c == '.') {
        reader->at++;
        return field_read(reader, node_new(reader, QUERY_INPUT, NULL), ret);
    }
    if (c == '"')
        return string_read(reader, ret);
    if (is_digit(c))
        return number_read(reader, ret);
    if (is_letter(c))
        return word_read(reader, ret);
    if (c == '(') {
        reader->at++;
        r = node_read(reader, 0, ret);
        return r < 0                       ? r
               : !reader_take(reader, ")") ? reader_refuse(reader, "\")\" is missing")
                                           : 0;
    }
    if (c != '[')
        return reader_refuse(reader, c ? "this is not understood" : "something is missing");
    reader->at++;
    node = node_new(reader, QUERY_LIST, NULL);
    *ret = node;
    if (reader_take(reader, "]"))
        return 0;
    r = node_read(reader, 0, &node->left);
    return r < 0 ? r : !reader_take(reader, "]") ? reader_refuse(reader, "\"]\" is missing") : 0;
}

static int term_read(struct reader *reader, node_ptr *ret)
{
    int r = 0;

    if (reader_peek(reader) == '-') {
        struct query *node = node_new(reader, QUERY_NEGATE, NULL);

        reader->at++;
        *ret = node;
        if (++reader->depth > QUERY_DEPTH_MAX)
            return reader_refuse(reader, "it is nested too deeply");
        r = term_read(reader, &node->left);
        reader->depth--;
        return r;
    }
    r = primary_read(reader, ret);
    while (r == 0) {
        char c = reader_peek(reader);

        if (c != '.' && c != '[' && c != '?')
            break;
        reader->at++;
        if (c == '?')
            *ret = node_new(reader, QUERY_TRY, *ret);
        else if (c == '[')
            r = bracket_read(reader, *ret, ret);
        else if (reader->at < reader->text.len && reader->text.p[reader->at] == '[')
            continue; /* .a.[0] */
        else if (!reader_word(reader).len && reader_peek(reader) != '"')
            return reader_refuse(reader, "behind a dot a name is missing");
        else
            r = field_read(reader, *ret, ret);
    }
    return r;
}

/* ---- operators ---- */
/* By rank, the loosest first; a longer one before one that it begins with. */
static const struct {
    const char *sign;
    enum query_op op;
    size_t rank;
    bool right; /* a x b x c is a x (b x c) */
} operators[] = {
    {"|", QUERY_PIPE, 0, true},      {",", QUERY_COMMA, 1, false},    {"//", QUERY_ELSE, 2, true},
    {"or", QUERY_OR, 3, false},      {"and", QUERY_AND, 4, false},    {"==", QUERY_EQUAL, 5, false},
    {"!=", QUERY_DIFFERS, 5, false}, {"<=", QUERY_MOST, 5, false},    {">=", QUERY_LEAST, 5, false},
    {"<", QUERY_LESS, 5, false},     {">", QUERY_MORE, 5, false},     {"+", QUERY_ADD, 6, false},
    {"-", QUERY_SUBTRACT, 6, false}, {"*", QUERY_MULTIPLY, 7, false}, {"/", QUERY_DIVIDE, 7, false},
    {"%", QUERY_REST, 7, false},
};
#define RANKS 8

/* The operator that comes next, where it has that rank; COUNT_OF: none does. What writes ("|=",
 * "+=", "//=", "=") is none of them, so it is refused where it stands. */
static size_t operator_next(struct reader *reader, size_t rank)
{
    for (size_t i = 0; i < COUNT_OF(operators); i++) {
        size_t before = reader->at;

        if (!reader_take(reader, operators[i].sign))
            continue;
        bool writes = operators[i].rank != 5 && reader->at < reader->text.len &&
                      reader->text.p[reader->at] == '=';
        if (operators[i].rank == rank && !writes)
            return i;
        reader->at = before;
        break;
    }
    return COUNT_OF(operators);
}

static int node_read(struct reader *reader, size_t rank, node_ptr *ret)
{
    size_t found = 0;
    int r = 0;

    if (rank == RANKS)
        return term_read(reader, ret);
    if (rank == 0 && ++reader->depth > QUERY_DEPTH_MAX)
        return reader_refuse(reader, "it is nested too deeply");
    r = node_read(reader, rank + 1, ret);
    while (r == 0 && (found = operator_next(reader, rank)) < COUNT_OF(operators)) {
        struct query *node = node_new(reader, operators[found].op, *ret);

        *ret = node;
        if (rank && operators[found].right && ++reader->depth > QUERY_DEPTH_MAX)
            return reader_refuse(reader, "it is nested too deeply");
        r = node_read(reader, operators[found].right ? rank : rank + 1, &node->right);
        if (rank && operators[found].right)
            reader->depth--;
    }
    if (rank == 0)
        reader->depth--;
    return r;
}

int query_read(struct arena *arena, struct str text, const struct query **ret, struct err *err)
{
    struct reader reader = {.arena = arena, .text = text, .err = err};

    if (text.len > QUERY_BYTES_MAX)
        return err_set(err, -EINVAL, "an expression may have %d bytes, and this has %zu",
                       QUERY_BYTES_MAX, text.len);
    int r = node_read(&reader, 0, ret);
    if (r == 0 && reader_peek(&reader))
        r = reader_refuse(&reader, "this is not understood");
    return r;
}
