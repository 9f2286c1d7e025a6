#pragma once

#include "base/count.h"
#include "base/json.h"

/* json_make: a document written down as it looks.
 *
 *     json_make(arena, "{name: $, emptyDir: {}}", name)
 *     json_make(arena, "{kind: 'Role', metadata: {name: $, namespace: $?}, rules: [$, $]}",
 *               name, ns, a, b)
 *     json_fill(arena, object, "{phase: $, ready: true}", phase)
 *
 * Each $ stands for the next argument, by its type: struct str and C strings become strings (text,
 * never read as JSON), bool a truth value, struct json * is put in as it is (and belongs to the
 * document from then on), anything else is a whole number. A comparison is an int in C: write
 * (bool)(a == b). Behind $? the member, or the element of an array, is left out when the argument is
 * absent: an empty string or NULL. Besides there are 'text', numbers, true, false and null.
 *
 * Names need no quotes when they consist of letters, digits and -_./ and are borrowed, as strings
 * are: the template must be a literal. A template that is no document, and a number of arguments
 * other than that of its $, are bugs in the caller and abort; tests/tidy.py counts them too. Where a
 * path is hot, json_add_*() does the same without reading a template. */
struct json_arg {
    enum {
        JSON_ARG_TEXT,
        JSON_ARG_I64,
        JSON_ARG_BOOL,
        JSON_ARG_TREE
    } type;
    union {
        struct str text;
        int64_t number;
        bool truth;
        struct json *tree;
    };
};

struct json *json_make_args(struct arena *arena,
                            const char *template,
                            const struct json_arg *args,
                            size_t count);
/* Set the members of the template in an object that is there already. */
void json_fill_args(struct arena *arena,
                    struct json *object,
                    const char *template,
                    const struct json_arg *args,
                    size_t count);

static inline struct json_arg json_arg_text(struct str text)
{
    return (struct json_arg){.type = JSON_ARG_TEXT, .text = text};
}
static inline struct json_arg json_arg_c(const char *text)
{
    return (struct json_arg){.type = JSON_ARG_TEXT, .text = str_from(text)};
}
static inline struct json_arg json_arg_bool(bool truth)
{
    return (struct json_arg){.type = JSON_ARG_BOOL, .truth = truth};
}
static inline struct json_arg json_arg_tree(struct json *tree)
{
    return (struct json_arg){.type = JSON_ARG_TREE, .tree = tree};
}
static inline struct json_arg json_arg_i64(int64_t number)
{
    return (struct json_arg){.type = JSON_ARG_I64, .number = number};
}

/* For size_t, whose conversion the compiler warns of: no count of ours has 64 bits. */
static inline struct json_arg json_arg_size(size_t number)
{
    return json_arg_i64((int64_t)number);
}

/* clang-format off */
#define JSON_ARG(x)                   \
    _Generic((x),                     \
        struct str: json_arg_text,    \
        char *: json_arg_c,           \
        const char *: json_arg_c,     \
        bool: json_arg_bool,          \
        struct json *: json_arg_tree, \
        size_t: json_arg_size,        \
        default: json_arg_i64)(x)
/* clang-format on */

/* JSON_ARG() of up to 16 arguments. The first element is there so that none is no special case. */
#define JSON_EACH_0()
#define JSON_EACH_1(a)       , JSON_ARG(a)
#define JSON_EACH_2(a, ...)  , JSON_ARG(a) JSON_EACH_1(__VA_ARGS__)
#define JSON_EACH_3(a, ...)  , JSON_ARG(a) JSON_EACH_2(__VA_ARGS__)
#define JSON_EACH_4(a, ...)  , JSON_ARG(a) JSON_EACH_3(__VA_ARGS__)
#define JSON_EACH_5(a, ...)  , JSON_ARG(a) JSON_EACH_4(__VA_ARGS__)
#define JSON_EACH_6(a, ...)  , JSON_ARG(a) JSON_EACH_5(__VA_ARGS__)
#define JSON_EACH_7(a, ...)  , JSON_ARG(a) JSON_EACH_6(__VA_ARGS__)
#define JSON_EACH_8(a, ...)  , JSON_ARG(a) JSON_EACH_7(__VA_ARGS__)
#define JSON_EACH_9(a, ...)  , JSON_ARG(a) JSON_EACH_8(__VA_ARGS__)
#define JSON_EACH_10(a, ...) , JSON_ARG(a) JSON_EACH_9(__VA_ARGS__)
#define JSON_EACH_11(a, ...) , JSON_ARG(a) JSON_EACH_10(__VA_ARGS__)
#define JSON_EACH_12(a, ...) , JSON_ARG(a) JSON_EACH_11(__VA_ARGS__)
#define JSON_EACH_13(a, ...) , JSON_ARG(a) JSON_EACH_12(__VA_ARGS__)
#define JSON_EACH_14(a, ...) , JSON_ARG(a) JSON_EACH_13(__VA_ARGS__)
#define JSON_EACH_15(a, ...) , JSON_ARG(a) JSON_EACH_14(__VA_ARGS__)
#define JSON_EACH_16(a, ...) , JSON_ARG(a) JSON_EACH_15(__VA_ARGS__)
#define JSON_EACH_NTH(_, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, \
                      name, ...)                                                                \
    name
#define JSON_EACH(...)                                                                          \
    JSON_EACH_NTH(_ __VA_OPT__(, ) __VA_ARGS__, JSON_EACH_16, JSON_EACH_15, JSON_EACH_14,       \
                  JSON_EACH_13, JSON_EACH_12, JSON_EACH_11, JSON_EACH_10, JSON_EACH_9,          \
                  JSON_EACH_8, JSON_EACH_7, JSON_EACH_6, JSON_EACH_5, JSON_EACH_4, JSON_EACH_3, \
                  JSON_EACH_2, JSON_EACH_1, JSON_EACH_0)                                        \
    (__VA_ARGS__)
#define JSON_ARGS(...) ((const struct json_arg[]){{0} JSON_EACH(__VA_ARGS__)})

#define json_make(arena, template, ...)                            \
    json_make_args(arena, "" template, JSON_ARGS(__VA_ARGS__) + 1, \
                   COUNT_OF(JSON_ARGS(__VA_ARGS__)) - 1)
#define json_fill(arena, object, template, ...)                            \
    json_fill_args(arena, object, "" template, JSON_ARGS(__VA_ARGS__) + 1, \
                   COUNT_OF(JSON_ARGS(__VA_ARGS__)) - 1)
