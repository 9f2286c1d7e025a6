#include "api/query.h"

#include "api/query_tree.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Running a query. A part of it is a function from one value to any number of them; where two
 * parts are combined, every pair of their values is, the right one's outside, as jq does it. */
struct run {
    struct arena *arena;
    size_t steps;
    struct err *err;
};

static int node_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret);

static int run_refuse(const struct run *run, const char *what)
{
    return err_set(run->err, -EINVAL, "%s", what);
}

/* What is copied costs steps, too, or a query could double what it has again and again. -E2BIG is
 * a limit of ours: the rest of the values is not known, and no ? and no // hides that. */
static int run_spend(struct run *run, size_t steps)
{
    run->steps += steps;
    return run->steps > QUERY_STEPS_MAX ? err_set(run->err, -E2BIG, "it takes too long") : 0;
}

/* Values in the value, strings by their length; a little more than `most` where it is larger. */
static size_t value_size(const struct json *value, size_t most)
{
    size_t size = 1 + json_str(value).len / 16;

    for (const struct json *one = json_first(value); one && size <= most; one = json_next(one))
        size += value_size(one, most - size);
    return size;
}

static int copy_push(struct run *run, struct json *list, const struct json *value)
{
    int r = run_spend(run, value_size(value, QUERY_STEPS_MAX));

    if (r == 0)
        json_push(list, json_clone(run->arena, value));
    return r;
}

static int run_give(const struct run *run, const struct json *value, query_values *ret)
{
    if (ret->count >= QUERY_RESULTS_MAX)
        return err_set(run->err, -E2BIG, "it gives more than %d values", QUERY_RESULTS_MAX);
    VEC_PUSH(run->arena, ret, value ? value : json_new_null(run->arena));
    return 0;
}

static int run_give_bool(const struct run *run, bool truth, query_values *ret)
{
    return run_give(run, json_new_bool(run->arena, truth), ret);
}

static bool is_true(const struct json *value)
{
    return !json_is_null(value) && (!json_is(value, JSON_BOOL) || json_bool_or(value, false));
}

static const char *type_name(const struct json *value)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "boolean", [JSON_NUMBER] = "number",
        [JSON_STRING] = "string", [JSON_ARRAY] = "array",  [JSON_OBJECT] = "object"};

    return names[json_is_null(value) ? JSON_NULL : value->type];
}

static int members_needed(const struct run *run, const struct json *of)
{
    return json_is(of, JSON_ARRAY) || json_is(of, JSON_OBJECT)
               ? 0
               : err_set(run->err, -EINVAL, "a value of type %s has no members", type_name(of));
}

/* Gives what there is before an error. */
static int quiet_run(struct run *run,
                     const struct query *node,
                     const struct json *input,
                     query_values *ret)
{
    struct run quiet = *run;
    struct err err = {0};

    quiet.err = &err;
    int r = node_run(&quiet, node, input, ret);
    run->steps = quiet.steps;
    return r == -E2BIG ? err_set(run->err, r, "%s", err.text) : 0;
}

/* ---- paths ---- */
static int key_give(struct run *run,
                    const struct json *of,
                    const struct json *key,
                    query_values *ret)
{
    int64_t index = 0;

    if (json_is_null(of))
        return run_give(run, NULL, ret);
    if (json_is(of, JSON_OBJECT) && json_is(key, JSON_STRING))
        return run_give(run, json_get_str(of, json_str(key)), ret);
    if (json_is(of, JSON_ARRAY) && json_i64(key, &index)) {
        if (index < 0)
            index += (int64_t)json_count(of);
        return run_give(run, index < 0 ? NULL : json_index(of, (size_t)index), ret);
    }
    return err_set(run->err, -EINVAL, "a value of type %s has no member of type %s", type_name(of),
                   type_name(key));
}

static int path_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    query_values objects = {0};
    query_values keys = {0};
    int r = node_run(run, node->left, input, &objects);

    if (r == 0 && node->op == QUERY_KEY)
        r = node_run(run, node->right, input, &keys);
    for (size_t k = 0; r == 0 && k < keys.count; k++)
        for (size_t i = 0; r == 0 && i < objects.count; i++)
            r = key_give(run, objects.items[i], keys.items[k], ret);
    for (size_t i = 0; r == 0 && node->op == QUERY_EACH && i < objects.count; i++) {
        r = members_needed(run, objects.items[i]);
        for (const struct json *one = json_first(objects.items[i]); r == 0 && one;
             one = json_next(one))
            r = run_give(run, one, ret);
    }
    return r;
}

/* ---- operators ---- */
static int rank_of(const struct json *value)
{
    if (json_is(value, JSON_BOOL))
        return json_bool_or(value, false) ? 2 : 1;
    return json_is_null(value) ? 0 : (int)value->type + 1;
}

/* Negative: a first. */
static int compare(const struct run *run, const struct json *a, const struct json *b, int *ret)
{
    int64_t x = 0;
    int64_t y = 0;

    *ret = rank_of(a) - rank_of(b);
    if (*ret || json_is_null(a) || json_is(a, JSON_BOOL))
        return 0;
    if (json_is(a, JSON_STRING)) {
        *ret = str_cmp(json_str(a), json_str(b));
        return 0;
    }
    if (json_is(a, JSON_NUMBER) && json_i64(a, &x) && json_i64(b, &y)) {
        *ret = x < y ? -1 : x > y;
        return 0;
    }
    return run_refuse(run, "only strings and whole numbers have an order");
}

static bool same(const struct json *a, const struct json *b)
{
    int64_t x = 0;
    int64_t y = 0;

    return (json_is_null(a) && json_is_null(b)) || json_equal(a, b) ||
           (json_i64(a, &x) && json_i64(b, &y) && x == y);
}

static int text_give(struct run *run, struct str a, struct str b, query_values *ret)
{
    int r = run_spend(run, (a.len + b.len) / 16);

    if (r < 0)
        return r;
    struct str text = str_printf(run->arena, STR_FMT STR_FMT, STR_ARG(a), STR_ARG(b));
    return run_give(run, json_new_str(run->arena, text), ret);
}

static int calculate(struct run *run,
                     enum query_op op,
                     const struct json *a,
                     const struct json *b,
                     query_values *ret)
{
    int64_t x = 0;
    int64_t y = 0;
    int64_t got = 0;
    bool beyond = false;

    if (op == QUERY_ADD && (json_is_null(a) || json_is_null(b)))
        return run_give(run, json_is_null(a) ? b : a, ret);
    if (op == QUERY_ADD && json_is(a, JSON_STRING) && json_is(b, JSON_STRING))
        return text_give(run, json_str(a), json_str(b), ret);
    if (!json_i64(a, &x) || !json_i64(b, &y))
        return err_set(run->err, -EINVAL, "values of type %s and %s cannot be reckoned with here",
                       type_name(a), type_name(b));
    if (op == QUERY_ADD)
        beyond = __builtin_add_overflow(x, y, &got);
    else if (op == QUERY_SUBTRACT)
        beyond = __builtin_sub_overflow(x, y, &got);
    else if (op == QUERY_MULTIPLY)
        beyond = __builtin_mul_overflow(x, y, &got);
    else if (y == 0 || (x == INT64_MIN && y == -1) || (op == QUERY_DIVIDE && x % y))
        return run_refuse(run, "a division is not even");
    else
        got = op == QUERY_DIVIDE ? x / y : x % y;
    if (beyond)
        return run_refuse(run, "a number is too large");
    return run_give(run, json_new_i64(run->arena, got), ret);
}

static int pair_run(struct run *run,
                    enum query_op op,
                    const struct json *a,
                    const struct json *b,
                    query_values *ret)
{
    int order = 0;

    if (op >= QUERY_ADD)
        return calculate(run, op, a, b, ret);
    if (op == QUERY_EQUAL || op == QUERY_DIFFERS)
        return run_give_bool(run, same(a, b) == (op == QUERY_EQUAL), ret);
    int r = compare(run, a, b, &order);
    if (r < 0)
        return r;
    return run_give_bool(run,
                         op == QUERY_LESS   ? order < 0
                         : op == QUERY_MOST ? order <= 0
                         : op == QUERY_MORE ? order > 0
                                            : order >= 0,
                         ret);
}

static int pairs_run(struct run *run,
                     const struct query *node,
                     const struct json *input,
                     query_values *ret)
{
    query_values left = {0};
    query_values right = {0};
    int r = node_run(run, node->left, input, &left);

    if (r == 0)
        r = node_run(run, node->right, input, &right);
    for (size_t j = 0; r == 0 && j < right.count; j++)
        for (size_t i = 0; r == 0 && i < left.count; i++)
            r = pair_run(run, node->op, left.items[i], right.items[j], ret);
    return r;
}

/* or, and: the right side is asked only where the left one does not decide. */
static int truth_run(struct run *run,
                     const struct query *node,
                     const struct json *input,
                     query_values *ret)
{
    query_values left = {0};
    int r = node_run(run, node->left, input, &left);

    for (size_t i = 0; r == 0 && i < left.count; i++) {
        query_values right = {0};

        if (is_true(left.items[i]) == (node->op == QUERY_OR)) {
            r = run_give_bool(run, node->op == QUERY_OR, ret);
            continue;
        }
        r = node_run(run, node->right, input, &right);
        for (size_t j = 0; r == 0 && j < right.count; j++)
            r = run_give_bool(run, is_true(right.items[j]), ret);
    }
    return r;
}

/* What the left side gives that is neither null nor false, whatever errors it has; else the
 * right. */
static int else_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    query_values left = {0};
    size_t before = ret->count;
    int r = quiet_run(run, node->left, input, &left);

    for (size_t i = 0; r == 0 && i < left.count; i++)
        if (is_true(left.items[i]))
            r = run_give(run, left.items[i], ret);
    return r == 0 && ret->count == before ? node_run(run, node->right, input, ret) : r;
}

/* ---- functions ---- */
static int entries_give(struct run *run, const struct json *input, bool keys, query_values *ret)
{
    struct json *list = json_new_array(run->arena);

    if (keys && json_is(input, JSON_ARRAY)) {
        for (size_t i = 0; i < json_count(input); i++)
            json_push(list, json_new_i64(run->arena, (int64_t)i));
        return run_give(run, list, ret);
    }
    if (!json_is(input, JSON_OBJECT))
        return err_set(run->err, -EINVAL, "a value of type %s has no keys", type_name(input));
    /* Sorting looks at every pair. */
    int r = run_spend(run, keys ? json_count(input) * json_count(input) / 16
                                : value_size(input, QUERY_STEPS_MAX));
    if (r < 0)
        return r;
    JSON_FOREACH(input, member) {
        struct json *key = json_new_str(run->arena, json_key(member));
        struct json *entry = json_new_object(run->arena);

        if (keys) {
            size_t at = 0; /* jq sorts them */

            while (at < json_count(list) &&
                   str_cmp(json_str(json_index(list, at)), json_key(member)) < 0)
                at++;
            json_insert(list, at, key);
            continue;
        }
        json_set(entry, STR("key"), key);
        json_set(entry, STR("value"), json_clone(run->arena, member));
        json_push(list, entry);
    }
    return run_give(run, list, ret);
}

static int sum_give(struct run *run, const struct json *input, query_values *ret)
{
    const struct json *sum = NULL;
    int r = members_needed(run, input);

    for (const struct json *one = json_first(input); r == 0 && one; one = json_next(one)) {
        query_values so_far = {0};

        r = calculate(run, QUERY_ADD, sum, one, &so_far);
        sum = r == 0 ? so_far.items[0] : NULL;
    }
    return r < 0 ? r : run_give(run, sum, ret);
}

static int length_give(struct run *run, const struct json *input, query_values *ret)
{
    int64_t number = 0;

    if (json_is(input, JSON_BOOL))
        return run_refuse(run, "a value of type boolean has no length");
    if (json_is(input, JSON_NUMBER)) {
        enum query_op op = json_i64_or(input, 0) < 0 ? QUERY_SUBTRACT : QUERY_ADD;

        return calculate(run, op, json_new_i64(run->arena, 0), input, ret);
    }
    if (json_is(input, JSON_STRING)) {
        struct str text = json_str(input);

        for (size_t at = 0; at < text.len; number++) {
            size_t len = str_utf8_len(str_sub(text, at, text.len));
            at += len ? len : 1;
        }
        return run_give(run, json_new_i64(run->arena, number), ret);
    }
    return run_give(run, json_new_i64(run->arena, (int64_t)json_count(input)), ret);
}

static int number_give(struct run *run, const struct json *input, query_values *ret)
{
    int64_t number = 0;

    if (json_is(input, JSON_NUMBER))
        return run_give(run, input, ret);
    if (!str_to_i64(json_str(input), &number))
        return run_refuse(run, "tonumber needs a whole number");
    return run_give(run, json_new_i64(run->arena, number), ret);
}

static int string_give(struct run *run, const struct json *input, query_values *ret)
{
    int r = run_spend(run, value_size(input, QUERY_STEPS_MAX));

    if (r < 0)
        return r;
    return run_give(run,
                    json_is(input, JSON_STRING)
                        ? input
                        : json_new_str(run->arena, json_text(run->arena, input)),
                    ret);
}

static int ends_give(struct run *run,
                     const struct query *node,
                     const struct json *input,
                     query_values *ret)
{
    query_values words = {0};
    int r = node_run(run, node->left, input, &words);

    for (size_t i = 0; r == 0 && i < words.count; i++) {
        struct str word = json_str(words.items[i]);

        if (!json_is(input, JSON_STRING) || !json_is(words.items[i], JSON_STRING))
            return run_refuse(run, "startswith and endswith need strings");
        r = run_give_bool(run,
                          node->function == QUERY_FN_ENDSWITH ? str_ends(json_str(input), word)
                                                              : str_starts(json_str(input), word),
                          ret);
    }
    return r;
}

static int has_give(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    query_values keys = {0};
    int64_t index = 0;
    int r = node_run(run, node->left, input, &keys);

    for (size_t i = 0; r == 0 && i < keys.count; i++) {
        const struct json *key = keys.items[i];

        if (json_is(input, JSON_OBJECT) && json_is(key, JSON_STRING))
            r = run_give_bool(run, json_get_str(input, json_str(key)) != NULL, ret);
        else if (json_is(input, JSON_ARRAY) && json_i64(key, &index))
            r = run_give_bool(run, index >= 0 && index < (int64_t)json_count(input), ret);
        else
            return err_set(run->err, -EINVAL, "a value of type %s has no member of type %s",
                           type_name(input), type_name(key));
    }
    return r;
}

/* Those for which the argument is true, or a list of what it gives of each. */
static int each_give(struct run *run,
                     const struct query *node,
                     const struct json *input,
                     query_values *ret)
{
    query_values got = {0};
    int r = 0;

    if (node->function == QUERY_FN_SELECT) {
        r = node_run(run, node->left, input, &got);
        for (size_t i = 0; r == 0 && i < got.count; i++)
            if (is_true(got.items[i]))
                r = run_give(run, input, ret);
        return r;
    }
    r = members_needed(run, input);
    for (const struct json *one = json_first(input); r == 0 && one; one = json_next(one))
        r = node_run(run, node->left, one, &got);
    struct json *list = json_new_array(run->arena);
    for (size_t i = 0; r == 0 && i < got.count; i++)
        r = copy_push(run, list, got.items[i]);
    return r < 0 ? r : run_give(run, list, ret);
}

/* any and all: whether one is true, or none false. */
static int any_give(struct run *run, const struct json *input, bool truth, query_values *ret)
{
    int r = members_needed(run, input);
    bool found = false;

    JSON_FOREACH(input, one)
        found = found || is_true(one) == truth;
    return r < 0 ? r : run_give_bool(run, found == truth, ret);
}

static int call_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    switch (node->function) {
    case QUERY_FN_ADD: return sum_give(run, input, ret);
    case QUERY_FN_ALL: return any_give(run, input, false, ret);
    case QUERY_FN_ANY: return any_give(run, input, true, ret);
    case QUERY_FN_EMPTY: return 0;
    case QUERY_FN_STARTSWITH:
    case QUERY_FN_ENDSWITH: return ends_give(run, node, input, ret);
    case QUERY_FN_HAS: return has_give(run, node, input, ret);
    case QUERY_FN_KEYS: return entries_give(run, input, true, ret);
    case QUERY_FN_LENGTH: return length_give(run, input, ret);
    case QUERY_FN_MAP:
    case QUERY_FN_SELECT: return each_give(run, node, input, ret);
    case QUERY_FN_NOT: return run_give_bool(run, !is_true(input), ret);
    case QUERY_FN_TO_ENTRIES: return entries_give(run, input, false, ret);
    case QUERY_FN_TONUMBER: return number_give(run, input, ret);
    case QUERY_FN_TOSTRING: return string_give(run, input, ret);
    case QUERY_FN_TYPE:
        return run_give(run, json_new_str(run->arena, str_from(type_name(input))), ret);
    case QUERY_FN_VALUES: return json_is_null(input) ? 0 : run_give(run, input, ret);
    }
    return 0;
}

static int if_run(struct run *run,
                  const struct query *node,
                  const struct json *input,
                  query_values *ret)
{
    query_values conditions = {0};
    int r = node_run(run, node->left, input, &conditions);

    for (size_t i = 0; r == 0 && i < conditions.count; i++)
        if (is_true(conditions.items[i]))
            r = node_run(run, node->right, input, ret);
        else
            r = node->third ? node_run(run, node->third, input, ret) : run_give(run, input, ret);
    return r;
}

static int list_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    struct json *list = json_new_array(run->arena);
    query_values got = {0};
    int r = node->left ? node_run(run, node->left, input, &got) : 0;

    for (size_t i = 0; r == 0 && i < got.count; i++)
        r = copy_push(run, list, got.items[i]);
    return r < 0 ? r : run_give(run, list, ret);
}

static int pipe_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    query_values between = {0};
    int r = node_run(run, node->left, input, &between);

    for (size_t i = 0; r == 0 && i < between.count; i++)
        r = node_run(run, node->right, between.items[i], ret);
    return r;
}

static int negate_run(struct run *run,
                      const struct query *node,
                      const struct json *input,
                      query_values *ret)
{
    const struct json *zero = json_new_i64(run->arena, 0);
    query_values got = {0};
    int r = node_run(run, node->left, input, &got);

    for (size_t i = 0; r == 0 && i < got.count; i++)
        r = calculate(run, QUERY_SUBTRACT, zero, got.items[i], ret);
    return r;
}

static int node_run(struct run *run,
                    const struct query *node,
                    const struct json *input,
                    query_values *ret)
{
    int r = 0;

    r = run_spend(run, 1);
    if (r < 0)
        return r;
    switch (node->op) {
    case QUERY_INPUT: return run_give(run, input, ret);
    case QUERY_LITERAL: return run_give(run, node->literal, ret);
    case QUERY_KEY:
    case QUERY_EACH: return path_run(run, node, input, ret);
    case QUERY_TRY: return quiet_run(run, node->left, input, ret);
    case QUERY_LIST: return list_run(run, node, input, ret);
    case QUERY_CALL: return call_run(run, node, input, ret);
    case QUERY_IF: return if_run(run, node, input, ret);
    case QUERY_NEGATE: return negate_run(run, node, input, ret);
    case QUERY_PIPE: return pipe_run(run, node, input, ret);
    case QUERY_COMMA:
        r = node_run(run, node->left, input, ret);
        return r < 0 ? r : node_run(run, node->right, input, ret);
    case QUERY_ELSE: return else_run(run, node, input, ret);
    case QUERY_OR:
    case QUERY_AND: return truth_run(run, node, input, ret);
    case QUERY_EQUAL:
    case QUERY_DIFFERS:
    case QUERY_LESS:
    case QUERY_MOST:
    case QUERY_MORE:
    case QUERY_LEAST:
    case QUERY_ADD:
    case QUERY_SUBTRACT:
    case QUERY_MULTIPLY:
    case QUERY_DIVIDE:
    case QUERY_REST: return pairs_run(run, node, input, ret);
    }
    return 0;
}

int query_run(struct arena *arena,
              const struct query *query,
              const struct json *input,
              query_values *ret,
              struct err *err)
{
    struct run run = {.arena = arena, .err = err};

    return node_run(&run, query, input, ret);
}
