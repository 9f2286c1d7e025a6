#include "api/admit.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Queues, pod groups and topologies: what could never be honoured is refused when it is written,
 * with the field. What other queues there are is not looked at: a parent may come later. */

/* ---- queues ---- */

/* "-0.5" and the like: neither an amount nor -1 for unlimited. */
static bool is_negative(const struct json *value)
{
    return str_starts(json_number_text(value), STR("-"));
}

static void check_quota(struct admit *admit, const struct json *resources, const char *name)
{
    static const struct {
        const char *key;
        bool unlimited;
    } rows[] = {{"quota", true}, {"limit", true}, {"overQuotaWeight", false}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *value = json_get(json_get(resources, name), rows[i].key);

        if (is_negative(value) && !(rows[i].unlimited && json_i64_or(value, 0) == -1))
            admit_invalid(
                admit, str_printf(admit->arena, "spec.resources.%s.%s", name, rows[i].key), value,
                rows[i].unlimited ? "must not be negative; -1 means unlimited"
                                  : "must not be negative");
    }
}

void admit_queue_validate(struct admit *admit)
{
    static const char *const resources[] = {"gpu", "cpu", "memory"};
    static const char *const times[] = {"preemptMinRuntime", "reclaimMinRuntime"};
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *parent = json_get(spec, "parentQueue");
    int64_t ms;

    if (json_str(parent).len &&
        str_eq(json_str(parent), json_str_at(admit->object, "metadata.name")))
        admit_invalid(admit, STR("spec.parentQueue"), parent, "a queue cannot be its own parent");
    for (size_t i = 0; i < COUNT_OF(resources); i++)
        check_quota(admit, json_get(spec, "resources"), resources[i]);
    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct str text = json_str(json_get(spec, times[i]));

        if (text.len && (!time_parse_duration(text, &ms) || ms < 0))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", times[i]),
                          json_get(spec, times[i]),
                          "must be a duration, such as \"10m\" or \"1h30m\"");
    }
}

/* ---- pod groups ---- */

static size_t index_of(const struct json *list, struct str name)
{
    size_t index = 0;

    JSON_FOREACH(list, item) {
        if (str_eq(json_str(json_get(item, "name")), name))
            return index;
        index++;
    }
    return SIZE_MAX;
}

/* Going up from it, one comes back to it. */
static bool is_below_itself(const struct json *list, const struct json *from)
{
    const struct json *at = from;

    for (size_t steps = 0; steps < json_count(list); steps++) {
        struct str parent = json_str(json_get(at, "parent"));
        size_t index = parent.len ? index_of(list, parent) : SIZE_MAX;

        if (index == SIZE_MAX)
            return false;
        at = json_index(list, index);
        if (at == from)
            return true;
    }
    return false;
}

void admit_podgroup_validate(struct admit *admit)
{
    const struct json *list = json_at(admit->object, "spec.subGroups");
    size_t index = 0;

    JSON_FOREACH(list, item) {
        struct str path = str_printf(admit->arena, "spec.subGroups[%zu]", index);
        struct str parent_path = str_printf(admit->arena, STR_FMT ".parent", STR_ARG(path));
        const struct json *name = json_get(item, "name");
        const struct json *parent = json_get(item, "parent");

        if (index_of(list, json_str(name)) != index)
            admit_duplicate(admit, str_printf(admit->arena, STR_FMT ".name", STR_ARG(path)), name);
        else if (json_str(parent).len && index_of(list, json_str(parent)) == SIZE_MAX)
            admit_invalid(admit, parent_path, parent, "there is no subgroup of that name");
        else if (is_below_itself(list, item))
            admit_invalid(admit, parent_path, parent, "a subgroup cannot be its own ancestor");
        index++;
    }
}

/* ---- topologies ---- */

/* What the rules of the CRD say on a cluster. */
void admit_topology_validate(struct admit *admit)
{
    const struct json *levels = json_at(admit->object, "spec.levels");
    size_t index = 0;

    if (admit->old && !json_equal(json_at(admit->old, "spec.levels"), levels))
        admit_invalid(admit, STR("spec.levels"), levels,
                      "the levels of a Topology cannot be changed; create another Topology");
    JSON_FOREACH(levels, level) {
        const struct json *label = json_get(level, "nodeLabel");
        struct str path = str_printf(admit->arena, "spec.levels[%zu].nodeLabel", index);
        size_t before = 0;

        JSON_FOREACH(levels, other) {
            if (before++ == index)
                break;
            if (str_eq(json_str(json_get(other, "nodeLabel")), json_str(label)))
                admit_duplicate(admit, path, label);
        }
        if (str_is(json_str(label), "kubernetes.io/hostname") && index + 1 < json_count(levels))
            admit_invalid(admit, path, label, "can only be the last level");
        index++;
    }
}
