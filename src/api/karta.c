#include "api/karta.h"

#include "api/admit.h"
#include "api/query.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define STRUCTURE "spec.structureDefinition"

size_t karta_find(const struct karta *karta, struct str name)
{
    size_t i = 0;

    while (i < karta->count && !str_eq(karta->components[i].name, name))
        i++;
    return i;
}

/* ---- components ---- */

static int expression_read(struct arena *arena,
                           const struct json *text,
                           const char *field,
                           const struct query **ret,
                           struct err *err)
{
    *ret = NULL;
    if (!json_str(text).len)
        return 0;
    int r = query_read(arena, json_str(text), ret, err);
    return r < 0 ? err_wrap(err, r, "%s", field) : 0;
}

/* An expression that is somewhere below the component. */
static int part_read(struct arena *arena,
                     const struct json *from,
                     const char *path,
                     const struct query **ret,
                     struct err *err)
{
    struct str field = str_printf(arena, "component \"" STR_FMT "\": %s",
                                  STR_ARG(json_str(json_get(from, "name"))), path);

    return expression_read(arena, json_at(from, path), str_c(arena, field), ret, err);
}

static int component_read(struct arena *arena,
                          const struct json *from,
                          struct karta_component *ret,
                          struct err *err)
{
    const struct json *pods = json_get(from, "specDefinition");
    const struct json *type = json_at(from, "podSelector.componentTypeSelector");
    size_t said = 0;
    int r = 0;

    *ret = (struct karta_component){.name = json_str(json_get(from, "name")),
                                    .type_value = json_get(type, "value")};
    if (!ret->name.len)
        return err_set(err, -EINVAL, STRUCTURE ": a component has no name");
    said += !json_is_null(json_get(pods, "podTemplateSpecPath"));
    said += !json_is_null(json_get(pods, "podSpecPath"));
    said += !json_is_null(json_get(pods, "fragmentedPodSpecDefinition"));
    if (said > 1)
        return err_set(err, -EINVAL,
                       STRUCTURE ": component \"" STR_FMT
                                 "\" says more than once where its pods are described",
                       STR_ARG(ret->name));
    ret->holds = said == 1;
    ret->scaled = !json_is_null(json_get(from, "scaleDefinition"));
    const struct {
        const char *path;
        const struct query **to;
    } parts[] = {{"scaleDefinition.replicasPath", &ret->replicas},
                 {"scaleDefinition.minReplicasPath", &ret->min_replicas},
                 {"instanceIdPath", &ret->instances},
                 {"podSelector.componentTypeSelector.keyPath", &ret->type},
                 {"podSelector.componentInstanceSelector.idPath", &ret->instance}};
    for (size_t i = 0; r == 0 && i < COUNT_OF(parts); i++)
        r = part_read(arena, from, parts[i].path, parts[i].to, err);
    if (r == 0 && !ret->instances != !ret->instance)
        r = err_set(err, -EINVAL,
                    STRUCTURE ": component \"" STR_FMT "\" needs both instanceIdPath and "
                              "podSelector.componentInstanceSelector.idPath, or neither",
                    STR_ARG(ret->name));
    return r;
}

static int components_link(const struct json *children, struct karta *karta, struct err *err)
{
    size_t i = 1;

    JSON_FOREACH(children, child) {
        struct str owner = json_str(json_get(child, "ownerRef"));
        size_t parent = karta_find(karta, owner);

        if (parent == karta->count)
            return err_set(err, -EINVAL,
                           STRUCTURE ".childComponents: the ownerRef of \"" STR_FMT
                                     "\" has to be the name of a component, and is \"" STR_FMT "\"",
                           STR_ARG(karta->components[i].name), STR_ARG(owner));
        karta->components[i++].parent = parent;
    }
    for (i = 1; i < karta->count; i++) {
        size_t at = i;

        for (size_t steps = 0; at && steps <= karta->count; steps++)
            at = karta->components[at].parent;
        if (at)
            return err_set(err, -EINVAL,
                           STRUCTURE ".childComponents: the owners of \"" STR_FMT
                                     "\" go round in a circle",
                           STR_ARG(karta->components[i].name));
    }
    return 0;
}

static int components_read(struct arena *arena,
                           const struct json *structure,
                           struct karta *karta,
                           struct err *err)
{
    const struct json *root = json_get(structure, "rootComponent");
    const struct json *children = json_get(structure, "childComponents");
    int r = 0;

    if (json_count(children) + 1 > KARTA_COMPONENTS_MAX)
        return err_set(err, -EINVAL, STRUCTURE ": there can be %d components",
                       KARTA_COMPONENTS_MAX);
    if (json_get(root, "ownerRef"))
        return err_set(err, -EINVAL, STRUCTURE ".rootComponent.ownerRef: the root has no owner");
    r = component_read(arena, root, &karta->components[karta->count++], err);
    for (const struct json *child = json_first(children); r == 0 && child;
         child = json_next(child)) {
        struct str name = json_str(json_get(child, "name"));

        if (karta_find(karta, name) < karta->count)
            return err_set(err, -EINVAL, STRUCTURE ": two components are called \"" STR_FMT "\"",
                           STR_ARG(name));
        r = component_read(arena, child, &karta->components[karta->count++], err);
    }
    for (size_t i = 0; i < karta->count; i++)
        karta->scaled = karta->scaled || karta->components[i].scaled;
    return r < 0 ? r : components_link(children, karta, err);
}

/* ---- what starts together ---- */
#define GANG "spec.optimizationInstructions.gangScheduling"

static int topology_check(const struct json *topology, const char *field, struct err *err)
{
    if (json_is_null(topology))
        return 0;
    if (!json_str(json_get(topology, "topologyName")).len)
        return err_set(err, -EINVAL, "%s.topology.topologyName: name a Topology", field);
    if (!json_str(json_get(topology, "preferredTopologyLevel")).len &&
        !json_str(json_get(topology, "requiredTopologyLevel")).len)
        return err_set(err, -EINVAL,
                       "%s.topology: say preferredTopologyLevel or requiredTopologyLevel", field);
    return 0;
}

static int component_check(const struct karta *karta,
                           const struct json *from,
                           const char *field,
                           struct err *err)
{
    struct str name = json_str(json_get(from, "componentName"));

    if (karta_find(karta, name) < karta->count)
        return 0;
    return err_set(err, -EINVAL, "%s: there is no component \"" STR_FMT "\"", field, STR_ARG(name));
}

static int podgroup_check(const struct karta *karta, struct err *err)
{
    const struct json *group = json_get(karta->gang, "podGroup");
    int r = topology_check(json_get(group, "topology"), GANG ".podGroup", err);

    if (json_is_null(group))
        return 0;
    if (r == 0 && !json_str(json_get(group, "name")).len)
        return err_set(err, -EINVAL, GANG ".podGroup.name is missing");
    for (const struct json *sub = json_first(json_get(group, "subGroups")); r == 0 && sub;
         sub = json_next(sub)) {
        r = component_check(karta, sub, GANG ".podGroup.subGroups", err);
        if (r == 0)
            r = topology_check(json_get(sub, "topology"), GANG ".podGroup.subGroups", err);
    }
    return r;
}

static int expressions_check(struct arena *arena,
                             const struct json *list,
                             const char *field,
                             struct err *err)
{
    const struct query *query = NULL;
    int r = 0;

    for (const struct json *one = json_first(list); r == 0 && one; one = json_next(one))
        r = expression_read(arena, one, field, &query, err);
    return r;
}

static int podgroups_check(struct arena *arena, const struct karta *karta, struct err *err)
{
    int r = 0;

    JSON_FOREACH(json_get(karta->gang, "podGroups"), group)
        JSON_FOREACH(json_get(group, "members"), member) {
            r = component_check(karta, member, GANG ".podGroups", err);
            if (r == 0)
                r = expressions_check(arena, json_get(member, "groupByKeyPaths"),
                                      GANG ".podGroups: groupByKeyPaths", err);
            if (r == 0)
                r = expressions_check(arena, json_get(member, "filters"),
                                      GANG ".podGroups: filters", err);
            if (r < 0)
                return r;
        }
    return r;
}

int karta_read(struct arena *arena, const struct json *object, struct karta *ret, struct err *err)
{
    const struct json *structure = json_at(object, STRUCTURE);
    const struct json *kind = json_at(structure, "rootComponent.kind");

    *ret = (struct karta){.name = json_str_at(object, "metadata.name"),
                          .group = json_str(json_get(kind, "group")),
                          .version = json_str(json_get(kind, "version")),
                          .kind = json_str(json_get(kind, "kind")),
                          .gang = json_at(object, GANG)};
    if (!ret->kind.len || !ret->version.len || (!ret->group.len && !str_is(ret->kind, "Pod")))
        return err_set(err, -EINVAL,
                       STRUCTURE ".rootComponent.kind: group, version and kind have to be there");
    int r = components_read(arena, structure, ret, err);
    if (r == 0)
        r = podgroup_check(ret, err);
    return r < 0 ? r : podgroups_check(arena, ret, err);
}

void admit_karta(struct admit *admit)
{
    struct karta *karta = ARENA_NEW(admit->arena, struct karta);
    struct err err = {0};

    if (karta_read(admit->arena, admit->object, karta, &err) < 0)
        admit_invalid(admit, STR("spec"), json_at(admit->object, "metadata.name"),
                      str_c(admit->arena, str_dup(admit->arena, str_from(err.text))));
}
