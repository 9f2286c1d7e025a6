#pragma once

#include "api/zone.h"
#include "base/str.h"
#include "cel/cel.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct regex;

#define RUN_PATTERNS 4
#define RUN_ZONES    4

/* run: one evaluation, and what the functions know of it. */
struct cel_run {
    struct arena *arena;
    size_t bytes_at_start;
    uint64_t cost;
    uint64_t cost_max;
    struct cel_value stopped; /* CEL_ERROR: nothing is evaluated any more */
    /* The patterns that were last used: one in a loop is compiled once. */
    struct {
        struct str text;
        const struct regex *regex;
    } patterns[RUN_PATTERNS];
    size_t pattern_next;
    cel_zone_reader *read_zone; /* NULL: there are none */
    struct {
        struct str name;
        struct zone zone;
    } zones[RUN_ZONES]; /* that were last used */
    size_t zone_next;
    struct cel_value slots[CEL_VARIABLES_MAX + 2 * CEL_SCOPES_MAX];
};

/* A function of the language. Arguments are no errors; a receiver is the first of them. */
struct cel_function {
    const char *name;
    bool member;
    unsigned char least; /* arguments, with the receiver */
    unsigned char most;
    enum cel_type result; /* CEL_DYN: by its arguments */
    struct cel_value (*call)(struct cel_run *run, const struct cel_value *args, size_t count);
    const char *ways; /* to call it, as typed_call() has them */
};

/* The functions of each file, which end with one that has no name. */
extern const struct cel_function cel_functions_convert[];
extern const struct cel_function cel_functions_moment[];
extern const struct cel_function cel_functions_strings[];
extern const struct cel_function cel_functions_lists[];
extern const struct cel_function cel_functions_net[];
extern const struct cel_function cel_functions_url[];
extern const struct cel_function cel_functions_kube[];
extern const struct cel_function cel_functions_format[];

/* Of that name and number of arguments; *ret_known: there is one of that name. */
const struct cel_function *cel_function_find(struct str name,
                                             bool member,
                                             size_t count,
                                             bool *ret_known);

/* The ways to call all functions of that name, of whatever number of arguments. */
#define CEL_FUNCTION_WAYS_MAX 8
size_t cel_function_ways(struct str name, bool member, const char *ret[CEL_FUNCTION_WAYS_MAX]);

/* False: the evaluation has cost all it may, or would take more memory than it may. It is stopped
 * then, and whatever the caller returns does not count. */
bool run_charge(struct cel_run *run, uint64_t cost);
bool run_room(struct cel_run *run, size_t bytes);
/* A tenth of a unit a byte, rounded up. */
bool run_charge_text(struct cel_run *run, size_t bytes);

/* Looking into a list or a map: what is in large ones is found by going through them. */
bool run_charge_lookup(struct cel_run *run, struct cel_value of);
/* False: it is stopped. Large values cost by what is compared. */
bool run_equal(struct cel_run *run, struct cel_value a, struct cel_value b, bool *ret_same);

/* "no such overload" */
struct cel_value run_no_overload(void);
/* operate.c; `op` is of enum cel_op. */
struct cel_value run_operate(struct cel_run *run, int op, struct cel_value a, struct cel_value b);
struct cel_value run_negate(struct cel_value value);
struct cel_value run_index(struct cel_run *run, struct cel_value of, struct cel_value index);
