#include "cel/lists.h"

#include "base/arena.h"
#include "base/str.h"
#include "cel/ast.h"
#include "cel/run.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kubernetes' functions of lists, and sets. */

struct cel_value lists_index(struct cel_run *run, const struct cel_value *args, bool last)
{
    int64_t found = -1;
    bool same = false;

    if (args[0].type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, args[0]);
         (last || found < 0) && cel_next(&walk);) {
        if (!run_charge(run, 1) || !run_room(run, 0) || !run_equal(run, walk.value, args[1], &same))
            return run->stopped;
        if (same)
            found = walk.key.i;
    }
    return cel_int(found);
}

static struct cel_value fn_is_sorted(struct cel_run *run,
                                     const struct cel_value *args,
                                     size_t count)
{
    struct cel_value before = {0};

    (void)count;
    if (args[0].type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        int order = walk.index > 1 ? cel_compare(before, walk.value) : 0;

        if (!run_charge(run, 1))
            return run->stopped;
        if (order == 2)
            return run_no_overload();
        if (order > 0)
            return cel_bool(false);
        before = walk.value;
    }
    return cel_bool(true);
}

static struct cel_value fn_sum(struct cel_run *run, const struct cel_value *args, size_t count)
{
    struct cel_value sum = cel_int(0);

    (void)count;
    if (args[0].type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        if (!run_charge(run, 1))
            return run->stopped;
        enum cel_type type = walk.value.type;
        if (type != CEL_INT && type != CEL_UINT && type != CEL_DOUBLE && type != CEL_DURATION)
            return run_no_overload();
        sum = walk.index == 1 ? walk.value : run_operate(run, CEL_OP_ADD, sum, walk.value);
        if (sum.type == CEL_ERROR)
            return sum;
    }
    return sum;
}

static struct cel_value extreme(struct cel_run *run, const struct cel_value *args, int sign)
{
    struct cel_value best = {0};

    if (args[0].type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        int order = walk.index > 1 ? cel_compare(walk.value, best) : sign;

        if (!run_charge(run, 1))
            return run->stopped;
        if (order == 2)
            return run_no_overload();
        if (order == sign)
            best = walk.value;
    }
    return best.type == CEL_DYN ? cel_error(sign < 0 ? STR("min called on empty list")
                                                     : STR("max called on empty list"))
                                : best;
}

static struct cel_value fn_min(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return extreme(run, args, -1);
}

static struct cel_value fn_max(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return extreme(run, args, 1);
}

/* ---- with optionals ---- */

static struct cel_value end_of(struct cel_run *run, struct cel_value list, size_t index)
{
    struct cel_value found = {0};

    if (list.type != CEL_LIST)
        return run_no_overload();
    return cel_list_at(run->arena, list, index, &found) ? cel_new_optional(run->arena, found)
                                                        : (struct cel_value){.type = CEL_OPTIONAL};
}

static struct cel_value fn_first(struct cel_run *run, const struct cel_value *args, size_t count)
{
    (void)count;
    return end_of(run, args[0], 0);
}

static struct cel_value fn_last(struct cel_run *run, const struct cel_value *args, size_t count)
{
    size_t items = cel_count(args[0]);

    (void)count;
    return end_of(run, args[0], items ? items - 1 : 0);
}

/* What the optionals of a list hold. */
static struct cel_value fn_unwrap(struct cel_run *run, const struct cel_value *args, size_t count)
{
    size_t held = 0;

    (void)count;
    if (args[0].type != CEL_LIST)
        return run_no_overload();
    if (!run_room(run, cel_count(args[0]) * sizeof(struct cel_value)))
        return run->stopped;
    struct cel_value *items = ARENA_ARRAY(run->arena, struct cel_value, cel_count(args[0]));
    for (struct cel_walk walk = cel_walk(run->arena, args[0]); cel_next(&walk);) {
        if (!run_charge(run, 1))
            return run->stopped;
        if (walk.value.type != CEL_OPTIONAL)
            return run_no_overload();
        if (walk.value.held)
            items[held++] = *walk.value.held;
    }
    return cel_new_list(run->arena, items, held);
}

/* ---- sets ---- */

/* How many of `of` are in `in`; the first that decides ends it. */
static struct cel_value set_has(struct cel_run *run,
                                struct cel_value in,
                                struct cel_value of,
                                bool any)
{
    if (in.type != CEL_LIST || of.type != CEL_LIST)
        return run_no_overload();
    for (struct cel_walk walk = cel_walk(run->arena, of); cel_next(&walk);) {
        struct cel_value found = run_operate(run, CEL_OP_IN, walk.value, in);

        if (found.type == CEL_ERROR || found.truth == any)
            return found;
    }
    return cel_bool(!any);
}

static struct cel_value fn_set_contains(struct cel_run *run,
                                        const struct cel_value *args,
                                        size_t count)
{
    (void)count;
    return set_has(run, args[0], args[1], false);
}

static struct cel_value fn_set_intersects(struct cel_run *run,
                                          const struct cel_value *args,
                                          size_t count)
{
    (void)count;
    return set_has(run, args[0], args[1], true);
}

static struct cel_value fn_set_equivalent(struct cel_run *run,
                                          const struct cel_value *args,
                                          size_t count)
{
    struct cel_value one = set_has(run, args[0], args[1], false);

    (void)count;
    return cel_is_true(one) ? set_has(run, args[1], args[0], false) : one;
}

const struct cel_function cel_functions_lists[] = {
    {"isSorted", true, 1, 1, CEL_BOOL, fn_is_sorted,
     "[i]>b [u]>b [d]>b [b]>b [D]>b [t]>b [s]>b [y]>b"},
    {"sum", true, 1, 1, CEL_DYN, fn_sum, "[i]>i [u]>u [d]>d [D]>D"},
    {"min", true, 1, 1, CEL_DYN, fn_min, "[i]>i [u]>u [d]>d [b]>b [D]>D [t]>t [s]>s [y]>y"},
    {"max", true, 1, 1, CEL_DYN, fn_max, "[i]>i [u]>u [d]>d [b]>b [D]>D [t]>t [s]>s [y]>y"},
    {"first", true, 1, 1, CEL_OPTIONAL, fn_first, "[A]>?A"},
    {"last", true, 1, 1, CEL_OPTIONAL, fn_last, "[A]>?A"},
    {"optional.unwrap", false, 1, 1, CEL_LIST, fn_unwrap, "[?A]>[A]"},
    {"unwrapOpt", true, 1, 1, CEL_LIST, fn_unwrap, "[?A]>[A]"},
    {"sets.contains", false, 2, 2, CEL_BOOL, fn_set_contains, "[A][A]>b"},
    {"sets.intersects", false, 2, 2, CEL_BOOL, fn_set_intersects, "[A][A]>b"},
    {"sets.equivalent", false, 2, 2, CEL_BOOL, fn_set_equivalent, "[A][A]>b"},
    {0},
};
