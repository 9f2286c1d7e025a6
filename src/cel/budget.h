#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct schema;
struct shape;

/* budget: what the rules of one schema may cost by estimate, each and together. A rule below a list
 * or a map is counted once for every member that there may be. */
#define BUDGET_RULE_MAX   UINT64_C(10000000)
#define BUDGET_SCHEMA_MAX UINT64_C(100000000)
#define BUDGET_NAMED_MAX  4 /* of the dearest rules are named when all are too much together */

/* How often a value may be there. */
struct budget_times {
    uint64_t count;
    bool unbounded; /* as often as fits into a request */
};

/* Of what is directly below a value of the schema. */
struct budget_times budget_times_below(struct budget_times times, const struct schema *schema);

/* What costs so much once, for all values of the shape. */
uint64_t budget_cost(uint64_t once, const struct shape *shape, struct budget_times times);

struct budget_item {
    struct str path;
    const char *what; /* "estimated rule cost" */
    uint64_t cost;
};

struct budget {
    bool one_may_be_over; /* of the rules, because it was taken before */
    uint64_t total;
    struct budget_item dearest[BUDGET_NAMED_MAX]; /* dearest first */
    size_t dearest_count;
};

/* What is over the bound for one becomes a cause. */
void budget_add(struct budget *budget, struct admit *admit, const struct budget_item *item);
/* When all were added: what is over the bound for all becomes causes. */
void budget_check(const struct budget *budget, struct admit *admit, struct str path);
