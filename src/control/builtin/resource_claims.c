#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/owner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ResourceClaims where there is no controller manager: a pod that names a template gets a claim of
 * its own, which goes with it, or, where its PodGroup names the same one, the claim of the group,
 * which goes with that; a claim that nobody has any more gives its devices back.
 *
 * Keys are "pod/NAME" and "claim/NAME": what is done about a pod says nothing about the claims that
 * others made. */

#define POD_KEY    "pod/"
#define CLAIM_KEY  "claim/"
#define FROM_POD   "resource.kubernetes.io/pod-claim-name"
#define PROTECTION "resource.kubernetes.io/delete-protection"

/* ---- claims of templates ---- */

/* The same each time: what is made twice is made once. */
static struct str claim_name(struct arena *arena, const struct object *holder, struct str use)
{
    return str_printf(arena, STR_FMT "-" STR_FMT "-%05llx", STR_ARG(holder->name), STR_ARG(use),
                      (unsigned long long)(str_hash(holder->uid, 1) & 0xfffff));
}

static const struct json *status_named(const struct json *list, struct str name)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(json_get(item, "name")), name))
            return item;
    return NULL;
}

static struct json *claim_make(struct arena *arena,
                               const struct object *holder,
                               const struct object *template,
                               struct str use)
{
    const struct json *spec = json_get(object_json(template, arena), "spec");
    struct json *body =
        owner_make(arena, holder, &kind_resourceclaim, claim_name(arena, holder, use));
    struct json *meta = json_get(body, "metadata");
    const struct json *labels = json_at(spec, "metadata.labels");

    if (json_count(labels))
        json_set(meta, STR("labels"), json_clone(arena, labels));
    struct json *annotations = json_add_object(arena, meta, "annotations");
    owner_merge_map(arena, annotations, json_at(spec, "metadata.annotations"));
    if (holder->kind == &kind_pod)
        json_add_str(arena, annotations, FROM_POD, use);
    json_set(body, STR("spec"), json_clone(arena, json_get(spec, "spec")));
    return body;
}

/* Whose claim it is that the pod uses: its own, or that of its group, where that has the same use.
 * NULL: the group is not there yet. */
static const struct object *use_holder(const struct control_input *input,
                                       const struct object *pod,
                                       const struct json *use,
                                       struct arena *arena)
{
    struct str named = json_str_at(object_json(pod, arena), "spec.schedulingGroup.podGroupName");
    struct str template = json_str(json_get(use, "resourceClaimTemplateName"));

    if (!named.len)
        return pod;
    const struct object *group = cache_get(input->cache, &kind_podgroup_k8s, pod->ns, named);
    if (!group)
        return NULL;
    const struct json *shared = status_named(
        json_at(object_json(group, arena), "spec.resourceClaims"), json_str(json_get(use, "name")));
    return str_eq(json_str(json_get(shared, "resourceClaimTemplateName")), template) ? group : pod;
}

/* The group's status names the claim that its pods share. */
static void holder_told(const struct object *group,
                        struct str use,
                        struct str made,
                        struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *statuses =
        json_at(object_json(group, arena), "status.resourceClaimStatuses");
    struct json *list = json_new_array(arena);

    if (str_eq(json_str(json_get(status_named(statuses, use), "resourceClaimName")), made))
        return;
    JSON_FOREACH(statuses, status)
        if (!str_eq(json_str(json_get(status, "name")), use))
            json_push(list, json_clone(arena, status));
    json_push(list, json_make(arena, "{name: $, resourceClaimName: $}", use, made));
    action_patch_status(actions, group,
                        json_make(arena, "{status: {resourceClaimStatuses: $}}", list));
}

/* Whether the pod's status is to say something new of this claim. */
static bool use_settled(const struct control_input *input,
                        const struct object *pod,
                        const struct object *holder,
                        const struct json *use,
                        const struct json *statuses,
                        struct actions *actions)
{
    struct str name = json_str(json_get(use, "name"));
    struct str named = json_str(json_get(use, "resourceClaimTemplateName"));
    const struct json *status = status_named(statuses, name);
    struct str said = json_str(json_get(status, "resourceClaimName"));
    struct str made = claim_name(actions->arena, holder, name);

    if (holder != pod)
        holder_told(holder, name, made, actions);

    if (cache_get(input->cache, &kind_resourceclaim, pod->ns, made))
        return !str_eq(said, made);
    const struct object *template = cache_get(input->cache, &kind_claimtemplate, pod->ns, named);
    if (!template) {
        action_warn(actions, pod, "FailedResourceClaimCreation",
                    str_printf(actions->arena,
                               "ResourceClaimTemplate " STR_FMT
                               " does not exist; make it, and the pod gets its claim " STR_FMT,
                               STR_ARG(named), STR_ARG(name)));
        return false;
    }
    action_create(actions, &kind_resourceclaim, claim_make(actions->arena, holder, template, name));
    return !str_eq(said, made);
}

static void pod_reconcile(const struct control_input *input,
                          const struct object *pod,
                          struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *root = object_json(pod, arena);
    const struct json *statuses = json_at(root, "status.resourceClaimStatuses");
    struct json *list = json_new_array(arena);
    bool changed = false;

    if (pod->deleted_ms || pod_is_over(root))
        return;
    JSON_FOREACH(json_at(root, "spec.resourceClaims"), use) {
        struct str name = json_str(json_get(use, "name"));
        const struct json *said = status_named(statuses, name);

        if (!json_str(json_get(use, "resourceClaimTemplateName")).len)
            continue;
        const struct object *holder = use_holder(input, pod, use, arena);
        if (holder && use_settled(input, pod, holder, use, statuses, actions)) {
            changed = true;
            json_push(list, json_make(arena, "{name: $, resourceClaimName: $}", name,
                                      claim_name(arena, holder, name)));
        } else if (said) {
            json_push(list, json_clone(arena, said));
        }
    }
    if (changed)
        action_patch_status(actions, pod,
                            json_make(arena, "{status: {resourceClaimStatuses: $}}", list));
}

/* ---- claims that nobody has ---- */

/* The pod is there, is the one that was meant, and has not ended. */
static bool is_used(const struct control_input *input,
                    const struct object *claim,
                    const struct json *user,
                    struct arena *arena)
{
    if (!str_is(json_str(json_get(user, "resource")), "pods") ||
        json_str(json_get(user, "apiGroup")).len)
        return true; /* somebody else's to say */
    const struct object *pod =
        cache_get(input->cache, &kind_pod, claim->ns, json_str(json_get(user, "name")));
    return pod && str_eq(pod->uid, json_str(json_get(user, "uid"))) &&
           !pod_is_over(object_json(pod, arena));
}

static void protection_dropped(const struct object *claim,
                               const struct json *root,
                               struct actions *actions)
{
    const struct json *finalizers = json_at(root, "metadata.finalizers");
    struct json *left = json_new_array(actions->arena);

    JSON_FOREACH(finalizers, item)
        if (!str_is(json_str(item), PROTECTION))
            json_push(left, json_clone(actions->arena, item));
    if (json_count(left) < json_count(finalizers))
        action_patch(actions, claim,
                     json_make(actions->arena, "{metadata: {finalizers: $}}", left));
}

/* The pod that a claim was made for has ended: nobody else can use it. */
static bool is_left_over(const struct control_input *input,
                         const struct object *claim,
                         struct arena *arena)
{
    if (!object_annotation(claim, FROM_POD).len || !claim->owner_count ||
        !str_is(claim->owners[0].kind, "Pod"))
        return false;
    const struct object *pod = cache_get(input->cache, &kind_pod, claim->ns, claim->owners[0].name);
    return pod && str_eq(pod->uid, claim->owners[0].uid) && pod_is_over(object_json(pod, arena));
}

static void claim_reconcile(const struct control_input *input,
                            const struct object *claim,
                            struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *root = object_json(claim, arena);
    const struct json *users = json_at(root, "status.reservedFor");
    bool allocated = !json_is_null(json_at(root, "status.allocation"));
    bool freed = false;
    struct json *left = json_new_array(arena);

    JSON_FOREACH(users, user)
        if (is_used(input, claim, user, arena))
            json_push(left, json_clone(arena, user));
    if (json_count(left) < json_count(users)) {
        struct json *patch = json_make(arena, "{status: {reservedFor: $}}", left);

        if (!json_count(left))
            json_set(json_get(patch, "status"), STR("allocation"), json_new_null(arena));
        action_patch_status(actions, claim, patch);
        /* A pod that was given it meanwhile keeps it. */
        actions->list.items[actions->list.count - 1].revision = claim->revision;
        freed = !json_count(left);
    } else if (claim->deleted_ms && allocated && !json_count(users)) {
        action_patch_status(actions, claim, json_make(arena, "{status: {allocation: null}}"));
        actions->list.items[actions->list.count - 1].revision = claim->revision;
        freed = true;
    }
    /* The scheduler protects a claim before it gives it anything: that is left alone. */
    if (freed || (claim->deleted_ms && !allocated))
        protection_dropped(claim, root, actions);
    if (!claim->deleted_ms && is_left_over(input, claim, arena))
        action_delete(actions, claim);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    bool pod = str_starts(key->name, STR(POD_KEY));
    size_t head = pod ? sizeof(POD_KEY) - 1 : sizeof(CLAIM_KEY) - 1;
    const struct object *object = cache_get(input->cache, pod ? &kind_pod : &kind_resourceclaim,
                                            key->ns, str_sub(key->name, head, key->name.len));

    if (object && pod)
        pod_reconcile(input, object, actions);
    else if (object)
        claim_reconcile(input, object, actions);
}

/* ---- what a change touches ---- */

static void key_add(struct control_keys *ret, const char *head, struct str ns, struct str name)
{
    control_keys_add(ret, ns, str_printf(ret->arena, "%s" STR_FMT, head, STR_ARG(name)));
}

static void pod_keys(const struct object *pod, struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};

    /* Few pods have any: parsing them all would cost more than looking for the word. */
    if (!str_contains(pod->raw, STR("\"resourceClaims\"")) &&
        !str_contains(pod->raw, STR("\"extendedResourceClaimStatus\"")))
        return;
    const struct json *root = object_json(pod, &arena);
    struct str whole = json_str_at(root, "status.extendedResourceClaimStatus.resourceClaimName");
    if (whole.len)
        key_add(ret, CLAIM_KEY, pod->ns, whole);
    JSON_FOREACH(json_at(root, "spec.resourceClaims"), use)
        if (json_str(json_get(use, "resourceClaimName")).len)
            key_add(ret, CLAIM_KEY, pod->ns, json_str(json_get(use, "resourceClaimName")));
    JSON_FOREACH(json_at(root, "status.resourceClaimStatuses"), status)
        if (json_str(json_get(status, "resourceClaimName")).len)
            key_add(ret, CLAIM_KEY, pod->ns, json_str(json_get(status, "resourceClaimName")));
    key_add(ret, POD_KEY, pod->ns, pod->name);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    if (object->kind == &kind_pod) {
        pod_keys(object, ret);
    } else if (object->kind == &kind_resourceclaim) {
        key_add(ret, CLAIM_KEY, object->ns, object->name);
        if (object->owner_count && str_is(object->owners[0].kind, "Pod"))
            key_add(ret, POD_KEY, object->ns, object->owners[0].name);
    } else {
        while ((pod = cache_next(cache, &kind_pod, object->ns, &cursor)))
            if (str_contains(pod->raw, STR("\"resourceClaimTemplateName\"")))
                key_add(ret, POD_KEY, pod->ns, pod->name);
    }
}

static const struct kind *const watches[] = {&kind_pod, &kind_resourceclaim, &kind_claimtemplate,
                                             &kind_podgroup_k8s, NULL};

const struct controller resource_claims_controller = {.name = "resourceclaim",
                                                      .kind = &kind_pod,
                                                      .refused = "FailedResourceClaimCreation",
                                                      .embedded = true,
                                                      .watches = watches,
                                                      .keys = keys,
                                                      .reconcile = reconcile};
