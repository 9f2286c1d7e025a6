#include "api/admit.h"
#include "api/group.h"
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
    static const char *const times[] = {"preemptMinRuntime", "reclaimMinRuntime", "maxRunTime"};
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

/* The subgroups, by their places in the list. */
struct tree {
    struct admit_names names;
    const struct json **items;
    size_t *parent;   /* SIZE_MAX: none, or none of that name */
    size_t *children; /* how many there are */
    size_t *walk;     /* in which it was passed on the way up, from 1 on; 0: not yet */
    size_t *depth;    /* levels from the top, itself counted; of a ring it means nothing */
    bool *ring;       /* going up from it, one comes back to it */
    size_t count;
};

/* Going up from `from`: everything is passed once, by whoever comes first. */
static void walk_up(struct tree *tree, size_t from)
{
    size_t at = from;
    size_t depth = 0;

    while (at != SIZE_MAX && !tree->walk[at]) {
        tree->walk[at] = from + 1;
        at = tree->parent[at];
        depth++;
    }
    if (at == SIZE_MAX || tree->walk[at] != from + 1) {
        depth += at == SIZE_MAX ? 0 : tree->depth[at];
        for (size_t own = from; own != at; own = tree->parent[own])
            tree->depth[own] = depth--;
        return;
    }
    for (; !tree->ring[at]; at = tree->parent[at])
        tree->ring[at] = true;
}

static void tree_read(struct arena *arena, const struct json *list, struct tree *ret)
{
    size_t count = json_count(list);
    size_t index = 0;

    *ret = (struct tree){.names = admit_names(arena, list, "name"),
                         .items = ARENA_ARRAY(arena, const struct json *, count),
                         .parent = ARENA_ARRAY(arena, size_t, count),
                         .children = ARENA_ARRAY(arena, size_t, count),
                         .walk = ARENA_ARRAY(arena, size_t, count),
                         .depth = ARENA_ARRAY(arena, size_t, count),
                         .ring = ARENA_ARRAY(arena, bool, count),
                         .count = count};
    JSON_FOREACH(list, item) {
        struct str parent = json_str(json_get(item, "parent"));

        ret->items[index] = item;
        ret->parent[index] = parent.len ? admit_names_find(&ret->names, parent) : SIZE_MAX;
        if (ret->parent[index] != SIZE_MAX)
            ret->children[ret->parent[index]]++;
        index++;
    }
    for (size_t i = 0; i < count; i++)
        walk_up(ret, i);
}

/* Names once, parents that are there, no rings. */
static void check_tree(struct admit *admit, const struct tree *tree)
{
    for (size_t i = 0; i < tree->count && !admit_is_full(admit); i++) {
        const struct json *item = tree->items[i];
        struct str path = str_printf(admit->arena, "spec.subGroups[%zu]", i);
        struct str parent_path = str_printf(admit->arena, STR_FMT ".parent", STR_ARG(path));
        const struct json *name = json_get(item, "name");
        const struct json *parent = json_get(item, "parent");

        if (tree->names.again[i])
            admit_duplicate(admit, str_printf(admit->arena, STR_FMT ".name", STR_ARG(path)), name);
        else if (json_str(parent).len && tree->parent[i] == SIZE_MAX)
            admit_invalid(admit, parent_path, parent, "there is no subgroup of that name");
        else if (tree->ring[i])
            admit_invalid(admit, parent_path, parent, "a subgroup cannot be its own ancestor");
        else if (tree->depth[i] > GROUP_DEPTH_MAX)
            admit_forbidden(admit, parent_path,
                            str_printf(admit->arena, "%zu levels of subgroups; at most %d",
                                       tree->depth[i], GROUP_DEPTH_MAX)
                                .p);
        else if (json_get(item, "minMember") && json_get(item, "minSubGroup"))
            admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".minSubGroup", STR_ARG(path)),
                            "minMember counts pods, minSubGroup the subgroups below; set one");
    }
}

/* Whether the stored group has the subgroup without minMember, as the new one has: what KAI up to
 * 0.13 made stays. */
static bool had_no_minimum(const struct tree *old, struct str name)
{
    size_t index = admit_names_find(&old->names, name);

    return index != SIZE_MAX && json_is_null(json_get(old->items[index], "minMember"));
}

static void check_minimum(struct admit *admit,
                          const struct tree *tree,
                          const struct tree *old,
                          size_t index)
{
    const struct json *item = tree->items[index];
    struct str path = str_printf(admit->arena, "spec.subGroups[%zu]", index);
    struct str name = json_str(json_get(item, "name"));
    const struct json *members = json_get(item, "minMember");
    const struct json *below = json_get(item, "minSubGroup");
    size_t children = tree->children[index];

    if (!children && !json_is_null(below))
        admit_forbidden(admit, str_printf(admit->arena, STR_FMT ".minSubGroup", STR_ARG(path)),
                        "no subgroup is below this one; set minMember");
    if (!children && json_is_null(members) && !had_no_minimum(old, name))
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
    struct tree tree = {0};
    struct tree old = {0};
    size_t roots = 0;

    check_times(admit, spec);
    if (!json_is_null(least) && !json_is_null(json_get(spec, "minMember")))
        admit_forbidden(admit, STR("spec.minSubGroup"),
                        "minMember counts pods, minSubGroup the subgroups; set one");
    if (json_count(list) > GROUP_SUBGROUPS_MAX) {
        admit_forbidden(admit, STR("spec.subGroups"),
                        str_printf(admit->arena, "%zu subgroups; a group has at most %d",
                                   json_count(list), GROUP_SUBGROUPS_MAX)
                            .p);
        return;
    }
    tree_read(admit->arena, list, &tree);
    tree_read(admit->arena, json_at(admit->old, "spec.subGroups"), &old);
    check_tree(admit, &tree);
    if (admit->causes.count)
        return;
    for (size_t i = 0; i < tree.count; i++) {
        roots += !json_str(json_get(tree.items[i], "parent")).len;
        check_minimum(admit, &tree, &old, i);
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
    const struct json *other = json_first(b);

    if (json_count(a) != json_count(b))
        return false;
    JSON_FOREACH(a, level) {
        if (!str_eq(json_str(json_get(level, "nodeLabel")), json_str(json_get(other, "nodeLabel"))))
            return false;
        other = json_next(other);
    }
    return true;
}

/* The labels and aliases of all levels. */
struct levels {
    struct admit_names labels;
    struct admit_names aliases;
    size_t count;
};

static void check_level(struct admit *admit,
                        const struct levels *levels,
                        const struct json *level,
                        size_t index)
{
    const struct json *label = json_get(level, "nodeLabel");
    const struct json *alias = json_get(level, "alias");
    struct str path = str_printf(admit->arena, "spec.levels[%zu].nodeLabel", index);
    struct str alias_path = str_printf(admit->arena, "spec.levels[%zu].alias", index);

    if (levels->labels.again[index])
        admit_duplicate(admit, path, label);
    if (levels->aliases.again[index])
        admit_invalid(admit, alias_path, alias, "aliases must be unique within the topology");
    if (json_str(alias).len && admit_names_have(&levels->labels, json_str(alias)))
        admit_invalid(admit, alias_path, alias, "an alias must not equal a nodeLabel");
    if (str_is(json_str(label), "kubernetes.io/hostname") && index + 1 < levels->count)
        admit_invalid(admit, path, label, "can only be the last level");
}

/* What the rules of the CRD say on a cluster. */
void admit_topology_validate(struct admit *admit)
{
    const struct json *levels = json_at(admit->object, "spec.levels");

    if (admit->old && !labels_same(json_at(admit->old, "spec.levels"), levels))
        admit_invalid(admit, STR("spec.levels"), levels,
                      "the levels of a Topology cannot be changed; create another Topology");
    const struct levels all = {.labels = admit_names(admit->arena, levels, "nodeLabel"),
                               .aliases = admit_names(admit->arena, levels, "alias"),
                               .count = json_count(levels)};
    size_t index = 0;
    JSON_FOREACH(levels, level)
        check_level(admit, &all, level, index++);
}
