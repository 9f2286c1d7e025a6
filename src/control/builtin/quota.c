#include "api/quota.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>

/* status.used of ResourceQuotas. Who holds writes to them is the store (store/quota.c), which
 * counts for itself: this is for people. */

/* Those whose number or amounts have names of their own; further ones, count/widgets.acme.io, are
 * watched when a quota names them. */
static const struct kind *const counted[] = {&kind_pod,
                                             &kind_service,
                                             &kind_pvc,
                                             &kind_configmap,
                                             &kind_secret,
                                             &kind_resourcequota,
                                             &kind_replicationcontroller};

static const struct kind *kind_counted(const struct control_input *input, struct str resource)
{
    struct str plural = STR_NONE;
    struct str group = STR_NONE;

    if (!quota_counted(resource, &plural, &group) || !input->kinds)
        return NULL;
    for (size_t i = 0; i < kinds_count(input->kinds); i++) {
        const struct kind *kind = kinds_at(input->kinds, i);

        if (kind->namespaced && str_is(plural, kind->plural) && str_is(group, kind->group))
            return kind;
    }
    return NULL;
}

/* A resource that the quota limits, and what is taken of it. */
struct used {
    struct str resource;
    struct quantity sum;
};

struct all_used VEC_FIELDS(struct used);

/* Every object is read once, however many resources are limited. */
static void add_up(const struct control_input *input,
                   const struct object *quota,
                   const struct json *spec,
                   const struct kind *kind,
                   struct all_used *all)
{
    const struct object *object = NULL;
    bool concerned = false;
    size_t cursor = 0;

    for (size_t i = 0; i < all->count; i++)
        concerned |= quota_concerns(all->items[i].resource, kind);
    while (concerned && (object = cache_next(input->cache, kind, quota->ns, &cursor))) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *tree = object_tree(object, &arena);

        if (!quota_covers(spec, kind, tree))
            continue;
        for (size_t i = 0; i < all->count; i++)
            all->items[i].sum.nano += quota_taken(all->items[i].resource, kind, tree);
    }
}

static void add_up_all(const struct control_input *input,
                       struct actions *actions,
                       const struct object *quota,
                       const struct json *spec,
                       struct all_used *all)
{
    for (size_t i = 0; i < COUNT_OF(counted); i++)
        add_up(input, quota, spec, counted[i], all);
    for (size_t i = 0; i < all->count; i++) {
        const struct kind *further = kind_counted(input, all->items[i].resource);

        for (size_t k = 0; further && k < COUNT_OF(counted); k++)
            further = counted[k] == further ? NULL : further;
        if (further && input->is_watched && !input->is_watched(input->user, further))
            action_watch(actions, further);
        else if (further)
            add_up(input, quota, spec, further, all);
    }
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *quota = cache_get(input->cache, &kind_resourcequota, key->ns, key->name);
    struct arena *arena = actions->arena;
    struct all_used all = {0};

    if (!quota || quota->deleted_ms)
        return;
    const struct json *tree = object_json(quota, arena);
    const struct json *spec = json_get(tree, "spec");
    struct json *status = json_new_object(arena);
    if (json_get(spec, "hard"))
        json_set(status, STR("hard"), json_clone(arena, json_get(spec, "hard")));
    struct json *used = json_add_object(arena, status, "used");
    JSON_FOREACH(json_get(spec, "hard"), hard) {
        struct quantity limit = {0};

        if (quantity_parse_json(hard, &limit, NULL) == 0)
            VEC_PUSH(arena, &all, (struct used){json_key(hard), {0, limit.format}});
    }
    add_up_all(input, actions, quota, spec, &all);
    for (size_t i = 0; i < all.count; i++)
        json_set(used, all.items[i].resource,
                 json_new_str(arena, quantity_text(arena, all.items[i].sum)));
    struct json *patch = merge_diff(arena, json_get(tree, "status"), status);
    if (!patch)
        return;
    struct json *body = json_new_object(arena);
    json_set(body, STR("status"), patch);
    action_patch_status(actions, quota, body);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *quota = NULL;
    size_t cursor = 0;

    while ((quota = cache_next(cache, &kind_resourcequota, object->ns, &cursor)))
        control_keys_add(ret, quota->ns, quota->name);
}

/* A pod takes what its spec asks for until it has ended: its statuses before that are none to a quota, which
 * may be large. */
static bool passes_by(const struct object *before, const struct object *after)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return after->kind == &kind_pod && object_same_but_status(before, after) &&
           pod_is_over(object_tree(before, &arena)) == pod_is_over(object_tree(after, &arena));
}

static const struct kind *const watches[] = {
    &kind_resourcequota,         &kind_pod, &kind_service, &kind_pvc, &kind_configmap, &kind_secret,
    &kind_replicationcontroller, NULL};

const struct controller quota_controller = {.name = "resourcequota",
                                            .embedded = true,
                                            .passes_by = passes_by,
                                            .watches = watches,
                                            .keys = keys,
                                            .reconcile = reconcile};
