#include "cel/budget.h"

#include "api/admit.h"
#include "api/schema.h"
#include "base/str.h"
#include "cel/guess.h"
#include "cel/shape.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget_times budget_times_below(struct budget_times times, const struct schema *schema)
{
    bool many = schema->type == SCHEMA_ARRAY ||
                (schema->type == SCHEMA_OBJECT && schema->additional != NULL);

    if (!many)
        return times;
    if (times.unbounded || schema->max_length < 0)
        return (struct budget_times){.unbounded = true};
    times.count = guess_multiply(times.count, (uint64_t)schema->max_length);
    return times;
}

uint64_t budget_cost(uint64_t once, const struct shape *shape, struct budget_times times)
{
    /* A comma between them at least. */
    uint64_t count = times.unbounded ? SHAPE_REQUEST_BYTES / (shape->bytes_min + 1) : times.count;

    return guess_multiply(once, count);
}

static const char *over(struct admit *admit, const char *what, uint64_t cost, uint64_t max)
{
    double factor = (double)cost / (double)max;
    struct str times = factor > 100   ? STR("more than 100x")
                       : factor < 1.5 ? str_printf(admit->arena, "%fx", factor)
                                      : str_printf(admit->arena, "%.1fx", factor);

    return str_printf(admit->arena,
                      "%s exceeds budget by factor of " STR_FMT
                      " (try simplifying the rule, or adding maxItems, maxProperties, and "
                      "maxLength where arrays, maps, and strings are declared)",
                      what, STR_ARG(times))
        .p;
}

void budget_add(struct budget *budget, struct admit *admit, const struct budget_item *item)
{
    size_t at = budget->dearest_count;

    if (item->cost > BUDGET_RULE_MAX && !budget->one_may_be_over)
        admit_forbidden(admit, item->path, over(admit, item->what, item->cost, BUDGET_RULE_MAX));
    budget->total = guess_add(budget->total, item->cost);
    if (item->cost < BUDGET_SCHEMA_MAX / 100)
        return;
    while (at > 0 && budget->dearest[at - 1].cost < item->cost)
        at--;
    if (at == BUDGET_NAMED_MAX)
        return;
    if (budget->dearest_count < BUDGET_NAMED_MAX)
        budget->dearest_count++;
    for (size_t i = budget->dearest_count - 1; i > at; i--)
        budget->dearest[i] = budget->dearest[i - 1];
    budget->dearest[at] = *item;
}

void budget_check(const struct budget *budget, struct admit *admit, struct str path)
{
    if (budget->total <= BUDGET_SCHEMA_MAX)
        return;
    for (size_t i = 0; i < budget->dearest_count; i++)
        admit_forbidden(admit, budget->dearest[i].path,
                        "contributed to estimated rule cost total exceeding cost limit for entire "
                        "OpenAPIv3 schema");
    admit_forbidden(admit, path,
                    over(admit,
                         "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 "
                         "schema",
                         budget->total, BUDGET_SCHEMA_MAX));
}
