#pragma once

#include "base/str.h"
#include "cel/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct schema;
struct typed;

/* cel: the Common Expression Language as Kubernetes has it: rules of CustomResourceDefinitions,
 * admission policies, device selectors.
 *
 * An expression is compiled once, against the variables that it may name, and evaluated many times.
 * It comes from whoever may write the object it stands in, so everything about it is bounded: its
 * text, its nesting, what an evaluation costs (counted as Kubernetes counts: about a step a unit)
 * and the memory that it takes.
 *
 * Variables, functions and the fields that a schema names must be there, and what is known of the
 * types of values must fit (typed.h). What is dyn shows when it is evaluated. Messages have protobuf's names nowhere: there are no messages here. */
#define CEL_TEXT_BYTES_MAX 100000 /* of an expression, as in Kubernetes */
#define CEL_DEPTH_MAX      100 /* of nested expressions: each takes some ten frames of the stack */
#define CEL_HEIGHT_MAX     250 /* of the tree: a + b + c ... is a tree, too */
#define CEL_VARIABLES_MAX  64
#define CEL_SCOPES_MAX     32 /* comprehensions inside each other; each declares two variables */

/* What one evaluation may cost, and all of one object's or one policy's together. */
#define CEL_COST_MAX        1000000
#define CEL_COST_BUDGET     10000000
#define CEL_COST_CONDITIONS 2500000
/* A unit of cost moves ten bytes of text; lists are cheaper than that, so memory is bounded apart.
 */
#define CEL_MEMORY_MAX ((size_t)32 << 20)

/* A variable that an expression may name. With a schema its fields are known; `type` otherwise:
 * CEL_DYN for anything. */
struct cel_variable {
    const char *name;
    enum cel_type type;
    const struct schema *schema;
    bool resource; /* of the schema: the root of an object, which has apiVersion, kind, metadata */
    const struct typed *typed; /* instead of both, where it is set */
};

struct cel_program {
    const struct cel_node *root;
    struct str text;
    const struct cel_variable *variables;
    size_t variable_count;
    bool fixed_zones;
    uint64_t used;             /* a bit a variable: the expression names it */
    enum cel_type result;      /* CEL_DYN: known only by evaluating */
    const struct typed *typed; /* the same, with what is in it */
};

struct cel_compile {
    struct arena *arena;
    struct str text; /* lives as long as the program, as do the variables */
    const struct cel_variable *variables;
    size_t variable_count;
    bool loose;       /* types are compared only when it is evaluated */
    bool fixed_zones; /* no file is read: of time zones it knows UTC and offsets */
};

/* -EINVAL: "ERROR: <input>:1:5: Syntax error: ...", or what it names and is not there. -E2BIG: past
 * the bounds. */
int cel_compile(const struct cel_compile *compile, struct cel_program **ret, struct err *err);

/* Where the files of time zones come from (api/zone.h), on the arena; false: there is none of that
 * name. Set once, before anything is evaluated; until then, none is known by name. */
typedef bool cel_zone_reader(struct arena *arena, struct str name, struct str *ret_bytes);
void cel_set_zones(cel_zone_reader *read);

/* May a variable have this name? */
bool cel_is_name(struct str text);

/* Does the expression name the variable? */
bool cel_uses(const struct cel_program *program, const char *variable);

struct cel_result {
    struct cel_value value; /* CEL_ERROR: its words are why */
    uint64_t cost;
    bool out_of_cost; /* it was stopped; the value is an error then */
};

/* `values`: one for each variable of the program, in that order. The result lives on the arena, and
 * borrows from the values. */
struct cel_result cel_evaluate(const struct cel_program *program,
                               struct arena *arena,
                               const struct cel_value *values,
                               uint64_t cost_max);
