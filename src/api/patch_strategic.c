#include "api/kind.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Strategic merge. The table says how the lists of built-in kinds are merged; the walk carries the
 * path of member names along to look them up. Recursion follows the documents, whose depth
 * json_parse() bounds. */

struct rule {
    const char *kind; /* NULL: every kind */
    const char *path;
    const char *key; /* NULL: a set of plain values */
};

/* A pod template follows the rules of Pod. */
static const struct rule rules[] = {
    {NULL, "metadata.ownerReferences", "uid"},
    {NULL, "metadata.finalizers", NULL},
    {NULL, "status.conditions", "type"},
    {"Pod", "spec.containers", "name"},
    {"Pod", "spec.containers.ports", "containerPort"},
    {"Pod", "spec.containers.env", "name"},
    {"Pod", "spec.containers.volumeMounts", "mountPath"},
    {"Pod", "spec.containers.volumeDevices", "devicePath"},
    {"Pod", "spec.initContainers", "name"},
    {"Pod", "spec.initContainers.ports", "containerPort"},
    {"Pod", "spec.initContainers.env", "name"},
    {"Pod", "spec.initContainers.volumeMounts", "mountPath"},
    {"Pod", "spec.initContainers.volumeDevices", "devicePath"},
    {"Pod", "spec.ephemeralContainers", "name"},
    {"Pod", "spec.volumes", "name"},
    {"Pod", "spec.imagePullSecrets", "name"},
    {"Pod", "spec.hostAliases", "ip"},
    {"Pod", "spec.topologySpreadConstraints", "topologyKey"},
    {"Pod", "spec.resourceClaims", "name"},
    {"Pod", "spec.schedulingGates", "name"},
    {"Pod", "status.podIPs", "ip"},
    {"Service", "spec.ports", "port"},
    {"ServiceAccount", "secrets", "name"},
    {"Node", "status.addresses", "type"},
    {"Node", "spec.podCIDRs", NULL},
    {"Namespace", "spec.finalizers", NULL},
};

/* Where kinds have one. */
static const struct {
    const struct kind *kind;
    const char *path;
} templates[] = {
    {&kind_job, "spec.template."},        {&kind_deployment, "spec.template."},
    {&kind_replicaset, "spec.template."}, {&kind_statefulset, "spec.template."},
    {&kind_daemonset, "spec.template."},  {&kind_replicationcontroller, "spec.template."},
    {&kind_podtemplate, "template."},     {&kind_cronjob, "spec.jobTemplate.spec.template."},
};

enum strategic strategic_list(const struct kind *kind, struct str path, struct str *ret_key)
{
    struct str owner = str_from(kind->name);

    for (size_t i = 0; i < COUNT_OF(templates); i++)
        if (kind == templates[i].kind && str_starts(path, str_from(templates[i].path))) {
            path = str_sub(path, strlen(templates[i].path), path.len);
            owner = STR("Pod");
            break;
        }
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        if ((rules[i].kind && !str_is(owner, rules[i].kind)) || !str_is(path, rules[i].path))
            continue;
        if (!rules[i].key)
            return STRATEGIC_SET;
        *ret_key = str_from(rules[i].key);
        return STRATEGIC_KEYED;
    }
    return STRATEGIC_REPLACE;
}

struct strategic_path strategic_below(const struct strategic_path *path, struct str name)
{
    struct strategic_path below = *path;
    struct str up = strategic_path_str(path);
    bool meta = str_is(up, "metadata") || str_starts(up, STR("metadata."));
    struct str rest = meta ? STR("metadata..") : STR("..");

    if (path->len + 1 + name.len <= sizeof(below.text)) {
        if (path->len)
            below.text[below.len++] = '.';
        rest = name;
    } else {
        below.len = 0;
    }
    if (rest.len)
        memcpy(below.text + below.len, rest.p, rest.len);
    below.len += rest.len;
    return below;
}

struct walk {
    struct arena *arena;
    const struct kind *kind;
    size_t pairs; /* of items that were, or may be, compared */
    struct err *err;
};

static int merge_map(struct walk *walk,
                     struct json *target,
                     const struct json *patch,
                     const struct strategic_path *path);

/* Before each item of `a` is compared with those of `b`. */
static int check_pairs(struct walk *walk, const struct strategic_path *path, size_t a, size_t b)
{
    if (b && a > (PATCH_PAIRS_MAX - walk->pairs) / b)
        return err_set(walk->err, -E2BIG,
                       "strategic merge patch: " STR_FMT
                       ": too many items to compare, %zu with %zu; use a JSON patch",
                       STR_ARG(strategic_path_str(path)), a, b);
    walk->pairs += a * b;
    return 0;
}

static struct str directive(const struct json *patch)
{
    return json_str(json_get(patch, "$patch"));
}

/* The patch's value where the target has nothing: directives and nulls do not survive. */
// NOLINTNEXTLINE(misc-no-recursion)
static int settle(struct walk *walk,
                  const struct json *patch,
                  const struct strategic_path *path,
                  struct json **ret)
{
    if (json_is(patch, JSON_OBJECT)) {
        *ret = json_new_object(walk->arena);
        return merge_map(walk, *ret, patch, path);
    }
    if (!json_is(patch, JSON_ARRAY)) {
        *ret = json_clone(walk->arena, patch);
        return 0;
    }
    *ret = json_new_array(walk->arena);
    JSON_FOREACH(patch, item) {
        struct json *copy = NULL;

        if (directive(item).p)
            continue;
        int r = settle(walk, item, path, &copy);
        if (r < 0)
            return r;
        json_push(*ret, copy);
    }
    return 0;
}

/* Index of the item whose `key` equals that of `like`, or the count. */
static size_t find_item(const struct json *list, struct str key, const struct json *like)
{
    size_t index = 0;
    const struct json *wanted = json_get_str(like, key);

    JSON_FOREACH(list, item) {
        if (json_is(item, JSON_OBJECT) && json_equal(json_get_str(item, key), wanted))
            break;
        index++;
    }
    return index;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_item(struct walk *walk,
                      struct json *list,
                      const struct json *item,
                      struct str key,
                      const struct strategic_path *path)
{
    struct json *added = NULL;

    if (!json_is(item, JSON_OBJECT) || json_is_null(json_get_str(item, key)))
        return err_set(walk->err, -EINVAL,
                       "strategic merge patch: an item of " STR_FMT
                       " does not have its key \"" STR_FMT "\"",
                       STR_ARG(strategic_path_str(path)), STR_ARG(key));
    size_t at = find_item(list, key, item);
    bool found = at < json_count(list);
    if (str_is(directive(item), "delete")) {
        if (found)
            json_remove_index(list, at);
        return 0;
    }
    if (found)
        return merge_map(walk, json_index(list, at), item, path);
    int r = settle(walk, item, path, &added);
    if (r == 0)
        json_push(list, added);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_keyed(struct walk *walk,
                       struct json *list,
                       const struct json *patch,
                       struct str key,
                       const struct strategic_path *path)
{
    JSON_FOREACH(patch, item) {
        if (json_count(item) == 1 && str_is(directive(item), "replace")) {
            while (json_count(list))
                json_remove_index(list, 0);
            continue;
        }
        int r = merge_item(walk, list, item, key, path);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool contains(const struct json *list, const struct json *value)
{
    JSON_FOREACH(list, item)
        if (json_equal(item, value))
            return true;
    return false;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_list(struct walk *walk,
                      struct json *target,
                      const struct json *patch,
                      const struct strategic_path *path)
{
    struct str name = json_key(patch);
    struct json *list = json_get_str(target, name);
    struct str key = STR_NONE;
    enum strategic how = strategic_list(walk->kind, strategic_path_str(path), &key);
    struct json *fresh = NULL;

    if (how == STRATEGIC_REPLACE) {
        fresh = json_clone(walk->arena, patch);
        json_set(target, str_dup(walk->arena, name), fresh);
        return 0;
    }
    if (!json_is(list, JSON_ARRAY))
        list = json_set(target, str_dup(walk->arena, name), json_new_array(walk->arena));
    size_t count = json_count(patch);
    int r = check_pairs(walk, path, count, json_count(list) + count);
    if (r < 0)
        return r;
    if (how == STRATEGIC_KEYED)
        return merge_keyed(walk, list, patch, key, path);
    JSON_FOREACH(patch, item)
        if (!contains(list, item))
            json_push(list, json_clone(walk->arena, item));
    return 0;
}

/* Items named by `order` take its order among themselves; the others keep their places. */
static void reorder(struct arena *arena,
                    struct json *list,
                    const struct json *order,
                    struct str key)
{
    size_t count = json_count(list);
    struct json **items = ARENA_ARRAY(arena, struct json *, count);
    bool *named = ARENA_ARRAY(arena, bool, count);
    size_t i = 0;

    JSON_FOREACH(list, item)
        items[i++] = item;
    const struct json *next = json_first(order);
    struct json **sorted = ARENA_ARRAY(arena, struct json *, count);
    size_t sorted_count = 0;
    for (; next; next = json_next(next)) {
        for (i = 0; i < count; i++) {
            bool same = key.p ? json_equal(json_get_str(items[i], key), json_get_str(next, key))
                              : json_equal(items[i], next);

            if (!same || named[i])
                continue;
            named[i] = true;
            sorted[sorted_count++] = items[i];
            break;
        }
    }
    while (json_count(list))
        json_remove_index(list, 0);
    size_t taken = 0;
    for (i = 0; i < count; i++)
        json_push(list, named[i] ? sorted[taken++] : items[i]);
}

#define DELETE_FROM "$deleteFromPrimitiveList/"
#define SET_ORDER   "$setElementOrder/"

/* Directives that name a list beside them. `order` ones act after the list itself was merged. */
static int apply_list_directive(struct walk *walk,
                                struct json *target,
                                const struct json *member,
                                const struct strategic_path *path,
                                bool order)
{
    struct str name = json_key(member);
    bool is_order = str_starts(name, STR(SET_ORDER));

    if (is_order != order || (!is_order && !str_starts(name, STR(DELETE_FROM))))
        return 0;
    name = str_sub(name, is_order ? sizeof(SET_ORDER) - 1 : sizeof(DELETE_FROM) - 1, name.len);
    struct json *list = json_get_str(target, name);
    if (!json_is(list, JSON_ARRAY))
        return 0;
    struct strategic_path below = strategic_below(path, name);
    int r = check_pairs(walk, &below, json_count(list), json_count(member));
    if (r < 0)
        return r;
    if (is_order) {
        struct str key = STR_NONE;

        (void)strategic_list(walk->kind, strategic_path_str(&below), &key);
        reorder(walk->arena, list, member, key);
        return 0;
    }
    for (size_t i = json_count(list); i-- > 0;)
        if (contains(member, json_index(list, i)))
            json_remove_index(list, i);
    return 0;
}

static void retain_keys(struct json *target, const struct json *keys)
{
    struct json *member = json_first(target);

    while (member) {
        struct json *next = json_next(member);
        bool keep = false;

        JSON_FOREACH(keys, key)
            keep |= str_eq(json_str(key), json_key(member));
        if (!keep)
            json_remove(target, json_key(member));
        member = next;
    }
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_member(struct walk *walk,
                        struct json *target,
                        const struct json *member,
                        const struct strategic_path *path)
{
    struct str name = json_key(member);
    struct json *old = json_get_str(target, name);
    struct strategic_path below = strategic_below(path, name);

    if (json_is_null(member) || str_is(directive(member), "delete")) {
        json_remove(target, name);
        return 0;
    }
    if (json_is(member, JSON_ARRAY))
        return merge_list(walk, target, member, &below);
    if (json_is(member, JSON_OBJECT) && json_is(old, JSON_OBJECT))
        return merge_map(walk, old, member, &below);
    struct json *fresh = NULL;
    int r = settle(walk, member, &below, &fresh);
    if (r == 0)
        json_set(target, str_dup(walk->arena, name), fresh);
    return r;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int merge_map(struct walk *walk,
                     struct json *target,
                     const struct json *patch,
                     const struct strategic_path *path)
{
    struct str what = directive(patch);
    int r = 0;

    if (what.p && !str_is(what, "replace") && !str_is(what, "merge") && !str_is(what, "delete"))
        return err_set(walk->err, -EINVAL,
                       "strategic merge patch: $patch must be replace, merge or delete");
    if (str_is(what, "replace") || str_is(what, "delete"))
        while (json_first(target))
            json_remove(target, json_key(json_first(target)));
    if (str_is(what, "delete"))
        return 0;
    const struct json *kept = json_get(patch, "$retainKeys");
    if (json_is(kept, JSON_ARRAY)) {
        r = check_pairs(walk, path, json_count(target), json_count(kept));
        if (r < 0)
            return r;
        retain_keys(target, kept);
    }
    JSON_FOREACH(patch, member)
        if (r == 0)
            r = apply_list_directive(walk, target, member, path, false);
    JSON_FOREACH(patch, member)
        if (r == 0 && !str_starts(json_key(member), STR("$")))
            r = merge_member(walk, target, member, path);
    JSON_FOREACH(patch, member)
        if (r == 0)
            r = apply_list_directive(walk, target, member, path, true);
    return r;
}

int patch_strategic(struct arena *arena,
                    const struct kind *kind,
                    struct json *target,
                    const struct json *patch,
                    struct err *err)
{
    struct walk walk = {.arena = arena, .kind = kind, .err = err};

    if (!json_is(patch, JSON_OBJECT) || !json_is(target, JSON_OBJECT))
        return err_set(err, -EINVAL, "strategic merge patch: must be an object");
    return merge_map(&walk, target, patch, &(struct strategic_path){0});
}
