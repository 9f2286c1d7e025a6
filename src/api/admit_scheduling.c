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

struct str admit_queue_stays(struct arena *arena, const struct json *queue)
{
    const struct json *children = json_at(queue, "status.childQueues");

    if (!json_count(children))
        return STR_NONE;
    return str_printf(arena,
                      "cannot delete queue \"" STR_FMT "\": %zu queue%s below it (" STR_FMT
                      "%s); delete them, or give them another parentQueue, first",
                      STR_ARG(json_str_at(queue, "metadata.name")), json_count(children),
                      json_count(children) == 1 ? " is" : "s are",
                      STR_ARG(json_str(json_index(children, 0))),
                      json_count(children) == 1 ? "" : ", ...");
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

static size_t children_of(const struct json *list, struct str name)
{
    size_t count = 0;

    JSON_FOREACH(list, item)
        count += str_eq(json_str(json_get(item, "parent")), name);
    return count;
}

/* The tree: names once, parents that are there, no rings. */
static void check_tree(struct admit *admit, const struct json *list)
{
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
        else if (json_get(item, "minMember") && json_get(item, "minSubGroup"))
            admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".minSubGroup", STR_ARG(path)),
                            "minMember counts pods, minSubGroup the subgroups below; set one");
        index++;
    }
}

/* Whether the stored group has the subgroup without that field, or with it, as the new one has:
 * what KAI up to 0.13 made stays. */
static bool was_so(const struct admit *admit, struct str name, const char *field, bool there)
{
    const struct json *list = json_at(admit->old, "spec.subGroups");
    size_t index = index_of(list, name);

    return index != SIZE_MAX && !json_is_null(json_get(json_index(list, index), field)) == there;
}

static void check_minimum(struct admit *admit,
                          const struct json *list,
                          const struct json *item,
                          struct str path)
{
    struct str name = json_str(json_get(item, "name"));
    const struct json *members = json_get(item, "minMember");
    const struct json *below = json_get(item, "minSubGroup");
    size_t children = children_of(list, name);

    if (!children && !json_is_null(below))
        admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".minSubGroup", STR_ARG(path)),
                        "no subgroup is below this one; set minMember");
    if (!children && json_is_null(members) && !was_so(admit, name, "minMember", false))
        admit_required(admit, str_printf(admit->arena, STR_FMT ".minMember", STR_ARG(path)),
                       "how many pods of it must start; 0 when none has to");
    if (children && !json_is_null(members)) {
        if (!admit->old)
            admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".minMember", STR_ARG(path)),
                            "other subgroups are below this one; set minSubGroup, or neither");
        else
            admit_warn(admit, str_printf(admit->arena,
                                         STR_FMT ".minMember has no effect: other subgroups are "
                                                 "below " STR_FMT,
                                         STR_ARG(path), STR_ARG(name)));
    }
    if (children && json_i64_or(below, 0) > (int64_t)children)
        admit_warn(admit,
                   str_printf(admit->arena,
                              STR_FMT ".minSubGroup is %lld, and %zu subgroups are below " STR_FMT,
                              STR_ARG(path), (long long)json_i64_or(below, 0), children,
                              STR_ARG(name)));
}

static void check_times(struct admit *admit, const struct json *spec)
{
    static const struct {
        const char *field;
        bool negative;
    } rows[] = {{"preemptionDelay", false}, {"stalenessGracePeriod", true}, {"maxRunTime", false}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *value = json_get(spec, rows[i].field);
        int64_t ms = 0;

        if (!json_is_null(value) &&
            (!time_parse_duration(json_str(value), &ms) || (ms < 0 && !rows[i].negative)))
            admit_invalid(admit, str_printf(admit->arena, "spec.%s", rows[i].field), value,
                          rows[i].negative ? "must be a duration such as \"5m\"; -1s means never"
                                           : "must be a duration such as \"5m\", not negative");
    }
}

void admit_podgroup_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *list = json_get(spec, "subGroups");
    const struct json *least = json_get(spec, "minSubGroup");
    size_t roots = 0;
    size_t index = 0;

    check_times(admit, spec);
    if (!json_is_null(least) && !json_is_null(json_get(spec, "minMember")))
        admit_forbidden(admit, STR("spec.minSubGroup"),
                        "minMember counts pods, minSubGroup the subgroups; set one");
    check_tree(admit, list);
    if (admit->causes.count)
        return;
    JSON_FOREACH(list, item) {
        roots += !json_str(json_get(item, "parent")).len;
        check_minimum(admit, list, item, str_printf(admit->arena, "spec.subGroups[%zu]", index++));
    }
    if (!json_is_null(least) && json_i64_or(least, 0) < 1)
        admit_invalid(admit, STR("spec.minSubGroup"), least, "must be at least 1");
    else if (json_i64_or(least, 0) > (int64_t)roots)
        admit_warn(admit, str_printf(admit->arena,
                                     "spec.minSubGroup is %lld, and the group has %zu subgroups "
                                     "at the top",
                                     (long long)json_i64_or(least, 0), roots));
}

/* ---- topologies ---- */

/* The labels, in their order: aliases may change. */
static bool labels_same(const struct json *a, const struct json *b)
{
    size_t index = 0;

    if (json_count(a) != json_count(b))
        return false;
    JSON_FOREACH(a, level)
        if (!str_eq(json_str(json_get(level, "nodeLabel")),
                    json_str(json_get(json_index(b, index++), "nodeLabel"))))
            return false;
    return true;
}

static bool is_label(const struct json *levels, struct str word)
{
    JSON_FOREACH(levels, level)
        if (str_eq(json_str(json_get(level, "nodeLabel")), word))
            return true;
    return false;
}

static void check_level(struct admit *admit, const struct json *levels, size_t index)
{
    const struct json *level = json_index(levels, index);
    const struct json *label = json_get(level, "nodeLabel");
    const struct json *alias = json_get(level, "alias");
    struct str path = str_printf(admit->arena, "spec.levels[%zu].nodeLabel", index);
    struct str alias_path = str_printf(admit->arena, "spec.levels[%zu].alias", index);

    for (size_t before = 0; before < index; before++) {
        const struct json *other = json_index(levels, before);

        if (str_eq(json_str(json_get(other, "nodeLabel")), json_str(label)))
            admit_duplicate(admit, path, label);
        if (json_str(alias).len && str_eq(json_str(json_get(other, "alias")), json_str(alias)))
            admit_invalid(admit, alias_path, alias, "aliases must be unique within the topology");
    }
    if (json_str(alias).len && is_label(levels, json_str(alias)))
        admit_invalid(admit, alias_path, alias, "an alias must not equal a nodeLabel");
    if (str_is(json_str(label), "kubernetes.io/hostname") && index + 1 < json_count(levels))
        admit_invalid(admit, path, label, "can only be the last level");
}

/* What the rules of the CRD say on a cluster. */
void admit_topology_validate(struct admit *admit)
{
    const struct json *levels = json_at(admit->object, "spec.levels");

    if (admit->old && !labels_same(json_at(admit->old, "spec.levels"), levels))
        admit_invalid(admit, STR("spec.levels"), levels,
                      "the levels of a Topology cannot be changed; create another Topology");
    for (size_t i = 0; i < json_count(levels); i++)
        check_level(admit, levels, i);
}
