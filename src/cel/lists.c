#include "cel/lists.h"

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
    {"isSorted", true, 1, 1, CEL_BOOL, fn_is_sorted},
    {"sum", true, 1, 1, CEL_DYN, fn_sum},
    {"min", true, 1, 1, CEL_DYN, fn_min},
    {"max", true, 1, 1, CEL_DYN, fn_max},
    {"sets.contains", false, 2, 2, CEL_BOOL, fn_set_contains},
    {"sets.intersects", false, 2, 2, CEL_BOOL, fn_set_intersects},
    {"sets.equivalent", false, 2, 2, CEL_BOOL, fn_set_equivalent},
    {0},
};
