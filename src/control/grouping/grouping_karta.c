#include "api/karta.h"
#include "api/names.h"
#include "api/query.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_rule.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds that a Karta describes (api/karta.h). In the newer form, gangScheduling.podGroup, the whole
 * workload is one group and each component that is named a subgroup; in the older one, podGroups,
 * pods with the same keys are a group, that starts with as many as the component has. */

struct scene {
    const struct grouping_input *input;
    const struct karta *karta;
    const struct json *owner;
    struct err *err;
};

/* ---- the Karta of a kind ---- */

static bool instructs(const struct json *object)
{
    const struct json *gang = json_at(object, "spec.optimizationInstructions.gangScheduling");

    return !grouping_meta(object, "deletionTimestamp").len &&
           (!json_is_null(json_get(gang, "podGroup")) || json_count(json_get(gang, "podGroups")));
}

static bool is_of_kind(const struct json *component, struct str api, struct str name)
{
    const struct json *kind = json_get(component, "kind");
    struct str group = grouping_api_group(api);
    struct str version = group.len ? str_sub(api, group.len + 1, api.len) : api;

    return str_eq(json_str(json_get(kind, "kind")), name) &&
           str_eq(json_str(json_get(kind, "version")), version) &&
           str_eq(json_str(json_get(kind, "group")), group);
}

static bool describes(const struct json *object, const struct json *owner)
{
    return is_of_kind(json_at(object, "spec.structureDefinition.rootComponent"),
                      json_str(json_get(owner, "apiVersion")), json_str(json_get(owner, "kind")));
}

bool grouping_karta_names(const struct json *karta, struct str api_version, struct str kind)
{
    const struct json *parts = json_at(karta, "spec.structureDefinition");

    if (is_of_kind(json_get(parts, "rootComponent"), api_version, kind))
        return true;
    JSON_FOREACH(json_get(parts, "childComponents"), part)
        if (is_of_kind(part, api_version, kind))
            return true;
    return false;
}

/* NULL: there is none that can be used. Why not is in ret->warning where there is one. */
static const struct karta *karta_of(const struct grouping_input *input,
                                    const struct json *owner,
                                    struct grouping *ret)
{
    struct karta *karta = ARENA_NEW(input->arena, struct karta);
    const struct json *found = NULL;
    const struct json *object;
    struct err err = {0};
    size_t cursor = 0;

    while ((object = input->next(input->user, KARTA_KIND, STR(""), &cursor))) {
        if (!describes(object, owner) || !instructs(object))
            continue;
        if (found) {
            ret->warning = str_printf(
                input->arena,
                "Kartas \"" STR_FMT "\" and \"" STR_FMT "\" both describe " STR_FMT
                ", so none of them is used; delete one of them",
                STR_ARG(grouping_meta(found, "name")), STR_ARG(grouping_meta(object, "name")),
                STR_ARG(json_str(json_get(owner, "kind"))));
            return NULL;
        }
        found = object;
    }
    if (found && karta_read(input->arena, found, karta, &err) < 0)
        ret->warning = str_printf(input->arena, "Karta \"" STR_FMT "\" is not used: %s",
                                  STR_ARG(grouping_meta(found, "name")), err.text);
    return found && !ret->warning.len ? karta : NULL;
}

/* ---- what expressions say ---- */

static int values_of(const struct scene *scene,
                     const struct query *query,
                     const struct json *of,
                     query_values *ret)
{
    int r = query ? query_run(scene->input->arena, query, of, ret, scene->err) : 0;

    return r < 0
               ? err_wrap(scene->err, -EINVAL, "Karta \"" STR_FMT "\"", STR_ARG(scene->karta->name))
               : 0;
}

/* The one value that the expression has of the pod, as text. */
static int pod_key(const struct scene *scene, struct str text, struct str *ret)
{
    struct arena *arena = scene->input->arena;
    const struct query *query = NULL;
    query_values values = {0};
    int r = query_read(arena, text, &query, scene->err);

    if (r == 0)
        r = values_of(scene, query, scene->input->pod, &values);
    if (r < 0)
        return r;
    const struct json *value = values.count == 1 ? values.items[0] : NULL;
    *ret = json_is(value, JSON_STRING) ? json_str(value)
           : json_is_null(value)       ? STR_NONE
                                       : json_text(arena, value);
    if (!ret->len)
        return err_set(scene->err, -EINVAL,
                       "Karta \"" STR_FMT "\": " STR_FMT
                       " has to be one value of the pod that is not empty",
                       STR_ARG(scene->karta->name), STR_ARG(text));
    return 0;
}

/* Whether the pod is one of the component, by its selector. */
static int pod_matches(const struct scene *scene, size_t component, bool *ret)
{
    const struct karta_component *part = &scene->karta->components[component];
    query_values values = {0};
    int r = values_of(scene, part->type, scene->input->pod, &values);

    *ret = false;
    for (size_t i = 0; r == 0 && i < values.count; i++)
        *ret = *ret ||
               (part->type_value ? str_eq(json_str(values.items[i]), json_str(part->type_value))
                                 : !json_is_null(values.items[i]));
    return r;
}

/* The same of the component and all below it. */
static int pod_matches_below(const struct scene *scene, size_t component, bool *ret)
{
    int r = pod_matches(scene, component, ret);

    for (size_t i = 1; r == 0 && !*ret && i < scene->karta->count; i++)
        if (scene->karta->components[i].parent == component)
            r = pod_matches_below(scene, i, ret);
    return r;
}

/* ---- how many pods ---- */

static int instances_of(const struct scene *scene, size_t component, query_values *ret)
{
    const struct karta_component *part = &scene->karta->components[component];
    int r = values_of(scene, part->instances, scene->owner, ret);

    for (size_t i = 0; r == 0 && i < ret->count; i++)
        if (!json_str(ret->items[i]).len)
            r = err_set(scene->err, -EINVAL,
                        "Karta \"" STR_FMT "\": instanceIdPath of component \"" STR_FMT
                        "\" gives an empty name",
                        STR_ARG(scene->karta->name), STR_ARG(part->name));
    return r;
}

/* A number of replicas that is said; 0: none is. */
static int replicas_at(const struct scene *scene,
                       const query_values *from,
                       size_t index,
                       int64_t *ret)
{
    const struct json *value = index < from->count ? from->items[index] : NULL;

    *ret = 0;
    if (json_is_null(value) || (json_i64(value, ret) && *ret >= 0 && *ret <= INT32_MAX))
        return 0;
    return err_set(scene->err, -EINVAL,
                   "Karta \"" STR_FMT "\": its replicas have to be numbers, and one is " STR_FMT,
                   STR_ARG(scene->karta->name), STR_ARG(json_text(scene->input->arena, value)));
}

static int check_countable(const struct scene *scene, int64_t pods)
{
    return pods <= INT32_MAX
               ? 0
               : err_set(scene->err, -EINVAL, "Karta \"" STR_FMT "\": %lld pods are too many",
                         STR_ARG(scene->karta->name), (long long)pods);
}

/* Of the component alone, of all its instances or the one that is named; 0: nothing is said. */
static int own_scale(const struct scene *scene, size_t component, struct str only, int64_t *ret)
{
    const struct karta_component *part = &scene->karta->components[component];
    query_values ids = {0};
    query_values least = {0};
    query_values replicas = {0};
    int r = instances_of(scene, component, &ids);

    *ret = 0;
    if (r == 0)
        r = values_of(scene, part->min_replicas, scene->owner, &least);
    if (r == 0)
        r = values_of(scene, part->replicas, scene->owner, &replicas);
    if (r < 0 || !part->scaled)
        return r;
    size_t count = least.count > replicas.count ? least.count : replicas.count;
    if (count != (part->instances ? ids.count : 1))
        return err_set(scene->err, -EINVAL,
                       "Karta \"" STR_FMT "\": component \"" STR_FMT
                       "\" has %zu numbers of replicas for %zu instances",
                       STR_ARG(scene->karta->name), STR_ARG(part->name), count,
                       part->instances ? ids.count : (size_t)1);
    for (size_t i = 0; r == 0 && i < count; i++) {
        int64_t number = 0;

        /* Who is asked for is an instance, so that there is one for each number. */
        if (only.len && !str_eq(json_str(ids.items[i]), only))
            continue;
        r = replicas_at(scene, &least, i, &number);
        if (r == 0 && !number)
            r = replicas_at(scene, &replicas, i, &number);
        *ret += number;
    }
    return r < 0 ? r : check_countable(scene, *ret);
}

/* Pods of the component and all below it: its own number times theirs. */
static int scale_of(const struct scene *scene, size_t component, struct str only, int64_t *ret)
{
    int64_t own = 0;
    int64_t below = 0;
    int r = own_scale(scene, component, only, &own);

    for (size_t i = 1; r == 0 && i < scene->karta->count; i++) {
        int64_t one = 0;

        if (scene->karta->components[i].parent != component)
            continue;
        r = scale_of(scene, i, STR_NONE, &one);
        below += one;
    }
    if (r == 0)
        r = check_countable(scene, below);
    if (r < 0)
        return r;
    *ret = !own ? below : !below ? own : own * below;
    return check_countable(scene, *ret);
}

/* Where no component says its replicas: one pod each, or one an instance. */
static int leaves_of(const struct scene *scene, size_t component, struct str only, int64_t *ret)
{
    const struct karta_component *part = &scene->karta->components[component];
    query_values ids = {0};
    int r = 0;

    *ret = 0;
    if (part->holds) {
        r = instances_of(scene, component, &ids);
        *ret = part->instances && !only.len ? (int64_t)ids.count : 1;
        return r;
    }
    for (size_t i = 1; r == 0 && i < scene->karta->count; i++) {
        int64_t one = 0;

        if (scene->karta->components[i].parent != component)
            continue;
        r = leaves_of(scene, i, STR_NONE, &one);
        *ret += one;
    }
    return r;
}

static int pods_of(const struct scene *scene, size_t component, struct str only, int64_t *ret)
{
    return scene->karta->scaled ? scale_of(scene, component, only, ret)
                                : leaves_of(scene, component, only, ret);
}

/* ---- gangScheduling.podGroup ---- */

static struct grouping_topology topology_of(const struct json *from)
{
    return (struct grouping_topology){
        .topology = json_str(json_get(from, "topologyName")),
        .required = json_str(json_get(from, "requiredTopologyLevel")),
        .preferred = json_str(json_get(from, "preferredTopologyLevel")),
    };
}

static int add_component(const struct scene *scene, const struct json *from, struct grouping *ret)
{
    const struct karta *karta = scene->karta;
    size_t component = karta_find(karta, json_str(json_get(from, "componentName")));
    struct grouping_sub sub = {.name = karta->components[component].name,
                               .topology = topology_of(json_get(from, "topology"))};
    bool member = false;
    int r = pods_of(scene, component, STR_NONE, &sub.min);

    if (r == 0 && !sub.min)
        return err_set(scene->err, -EINVAL,
                       "Karta \"" STR_FMT "\": component \"" STR_FMT
                       "\" must expose a replica scale definition: its scaleDefinition gives no "
                       "replicas of this workload",
                       STR_ARG(karta->name), STR_ARG(sub.name));
    if (r == 0)
        r = pod_matches_below(scene, component, &member);
    if (r < 0)
        return r;
    if (member && !ret->pod_sub.len)
        ret->pod_sub = sub.name;
    grouping_sub_add(scene->input, ret, &sub);
    return 0;
}

static int group_whole(const struct scene *scene, const struct json *from, struct grouping *ret)
{
    const struct json *subs = json_get(from, "subGroups");
    int r = 0;

    ret->name = str_printf(scene->input->arena, "pg-" STR_FMT "-" STR_FMT,
                           STR_ARG(grouping_meta(scene->owner, "uid")),
                           STR_ARG(json_str(json_get(from, "name"))));
    if (!json_is_null(json_get(from, "topology")))
        ret->topology = topology_of(json_get(from, "topology"));
    for (const struct json *sub = json_first(subs); r == 0 && sub; sub = json_next(sub))
        r = add_component(scene, sub, ret);
    ret->min_member = 0;
    ret->min_sub = (int64_t)ret->subs.count;
    return r < 0 || ret->subs.count ? r : pods_of(scene, 0, STR_NONE, &ret->min_member);
}

/* ---- gangScheduling.podGroups ---- */

/* The component that the pod is of: the only one that has pods, or the one whose selector it fits. */
static int component_of(const struct scene *scene, size_t *ret)
{
    size_t holding = 0;
    bool matches = false;
    int r = 0;

    for (size_t i = 0; i < scene->karta->count; i++)
        if (scene->karta->components[i].holds) {
            *ret = i;
            holding++;
        }
    for (size_t i = 0; r == 0 && holding != 1 && !matches && i < scene->karta->count; i++)
        if (scene->karta->components[i].holds) {
            *ret = i;
            r = pod_matches(scene, i, &matches);
        }
    if (r == 0 && holding != 1 && !matches)
        r = err_set(scene->err, -EINVAL,
                    "pod " STR_FMT " fits the podSelector of no component of Karta \"" STR_FMT "\"",
                    STR_ARG(grouping_meta(scene->input->pod, "name")), STR_ARG(scene->karta->name));
    return r;
}

static int passes(const struct scene *scene, const struct json *member, bool *ret)
{
    struct arena *arena = scene->input->arena;
    int r = 0;

    *ret = true;
    for (const struct json *one = json_first(json_get(member, "filters")); r == 0 && *ret && one;
         one = json_next(one)) {
        const struct query *query = NULL;
        query_values values = {0};

        r = query_read(arena, json_str(one), &query, scene->err);
        if (r == 0)
            r = values_of(scene, query, scene->input->pod, &values);
        *ret = values.count == 1 && json_bool_or(values.items[0], false);
    }
    return r;
}

/* The member that the pod belongs to: of its component, else of the nearest one above it. */
static int member_of(const struct scene *scene,
                     size_t component,
                     const struct json **ret,
                     size_t *ret_component)
{
    const struct json *groups = json_get(scene->karta->gang, "podGroups");
    bool passed = false;

    for (size_t at = component;; at = scene->karta->components[at].parent) {
        JSON_FOREACH(groups, group)
            JSON_FOREACH(json_get(group, "members"), member) {
                if (!str_eq(json_str(json_get(member, "componentName")),
                            scene->karta->components[at].name))
                    continue;
                int r = passes(scene, member, &passed);
                if (r < 0)
                    return r;
                if (!passed)
                    continue;
                *ret = member;
                *ret_component = at;
                return 0;
            }
        if (!at)
            break;
    }
    return err_set(scene->err, -EINVAL,
                   "pod " STR_FMT " does not match any Karta pod group member definition: see spec."
                   "optimizationInstructions.gangScheduling.podGroups of Karta \"" STR_FMT "\"",
                   STR_ARG(grouping_meta(scene->input->pod, "name")), STR_ARG(scene->karta->name));
}

static int name_by_keys(const struct scene *scene, const struct json *member, struct grouping *ret)
{
    struct arena *arena = scene->input->arena;
    const struct json *paths = json_get(member, "groupByKeyPaths");
    int r = 0;

    ret->name = str_printf(arena, "pg-" STR_FMT, STR_ARG(grouping_meta(scene->owner, "uid")));
    for (const struct json *path = json_first(paths); r == 0 && path; path = json_next(path)) {
        struct str key = STR_NONE;

        r = pod_key(scene, json_str(path), &key);
        ret->name = str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(ret->name), STR_ARG(key));
    }
    if (r == 0 && json_count(paths) && names_dns_subdomain(ret->name))
        r = err_set(scene->err, -EINVAL,
                    "groupByKeyPaths of Karta \"" STR_FMT "\" name the group \"" STR_FMT
                    "\", which is not a lowercase RFC 1123 subdomain",
                    STR_ARG(scene->karta->name), STR_ARG(ret->name));
    return r;
}

/* The instance of the component that the pod is of; empty: it has none. */
static int instance_of(const struct scene *scene, size_t component, struct str *ret)
{
    const struct karta_component *part = &scene->karta->components[component];
    query_values ids = {0};
    query_values own = {0};
    int r = instances_of(scene, component, &ids);

    *ret = STR_NONE;
    if (r == 0)
        r = values_of(scene, part->instance, scene->input->pod, &own);
    if (r < 0 || !part->instances || !ids.count)
        return r;
    for (size_t i = 0; i < ids.count && own.count == 1; i++)
        if (str_eq(json_str(ids.items[i]), json_str(own.items[0])))
            *ret = json_str(ids.items[i]);
    return ret->len ? 0
                    : err_set(scene->err, -EINVAL,
                              "pod " STR_FMT " is of no instance of component \"" STR_FMT
                              "\" of Karta \"" STR_FMT "\"",
                              STR_ARG(grouping_meta(scene->input->pod, "name")),
                              STR_ARG(part->name), STR_ARG(scene->karta->name));
}

static int group_by_keys(const struct scene *scene, struct grouping *ret)
{
    const struct json *member = NULL;
    struct str instance = STR_NONE;
    size_t component = 0;
    size_t effective = 0;
    int r = component_of(scene, &component);

    if (r == 0)
        r = member_of(scene, component, &member, &effective);
    if (r == 0 && effective == component)
        r = instance_of(scene, component, &instance);
    if (r == 0)
        r = name_by_keys(scene, member, ret);
    return r < 0 ? r : pods_of(scene, effective, instance, &ret->min_member);
}

int grouping_karta(const struct grouping_input *input,
                   const struct json *owner,
                   struct grouping *ret,
                   struct err *err)
{
    struct scene scene = {input, karta_of(input, owner, ret), owner, err};

    if (!scene.karta)
        return 0;
    const struct json *whole = json_get(scene.karta->gang, "podGroup");
    return json_is_null(whole) ? group_by_keys(&scene, ret) : group_whole(&scene, whole, ret);
}
