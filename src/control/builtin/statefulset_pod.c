#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/statefulset.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"

/* A pod of a StatefulSet and the claims that are its own. */

static struct str pod_name(struct stateful *s, int64_t ordinal)
{
    return str_printf(s->w.arena, STR_FMT "-%lld", STR_ARG(s->w.owner->name), (long long)ordinal);
}

static struct str claim_name(struct stateful *s, const struct json *template, int64_t ordinal)
{
    return str_printf(s->w.arena, STR_FMT "-" STR_FMT "-%lld",
                      STR_ARG(json_str_at(template, "metadata.name")), STR_ARG(s->w.owner->name),
                      (long long)ordinal);
}

/* The claim takes the place of a volume of the same name. */
static void add_volume(struct stateful *s, struct json *spec, struct str name, struct str claim)
{
    struct arena *arena = s->w.arena;
    struct json *volumes = json_get(spec, "volumes");
    struct json *volume = json_new_object(arena);

    if (!json_is(volumes, JSON_ARRAY))
        volumes = json_add_array(arena, spec, "volumes");
    json_drop_items(volumes, "name", name);
    json_add_str(arena, volume, "name", name);
    json_add_str(arena, json_add_object(arena, volume, "persistentVolumeClaim"), "claimName",
                 claim);
    json_push(volumes, volume);
}

struct json *stateful_pod(struct stateful *s, int64_t ordinal, struct str revision)
{
    struct arena *arena = s->w.arena;
    struct str name = pod_name(s, ordinal);
    struct json *pod = workload_pod(&s->w, revision_template(&s->w, &s->revisions, revision));
    struct json *meta = json_get(pod, "metadata");
    struct json *labels = json_make_path(arena, meta, "labels");
    struct json *spec = json_get(pod, "spec");
    struct str service = json_str(json_get(s->w.spec, "serviceName"));

    json_add_str(arena, meta, "name", name);
    json_fill(
        arena, labels,
        "{statefulset.kubernetes.io/pod-name: $, apps.kubernetes.io/pod-index: $, " REVISION_LABEL
        ": $}",
        name, str_printf(arena, "%lld", (long long)ordinal), str_dup(arena, revision));
    json_add_str(arena, spec, "hostname", name);
    if (service.len)
        json_add_str(arena, spec, "subdomain", str_dup(arena, service));
    JSON_FOREACH(json_get(s->w.spec, "volumeClaimTemplates"), template)
        add_volume(s, spec, str_dup(arena, json_str_at(template, "metadata.name")),
                   claim_name(s, template, ordinal));
    return pod;
}

static bool policy_is_delete(const struct stateful *s, const char *when)
{
    const struct json *policy = json_get(s->w.spec, "persistentVolumeClaimRetentionPolicy");

    return str_is(json_str(json_get(policy, when)), "Delete");
}

void stateful_claims(struct stateful *s, int64_t ordinal)
{
    struct arena *arena = s->w.arena;

    JSON_FOREACH(json_get(s->w.spec, "volumeClaimTemplates"), template) {
        struct str name = claim_name(s, template, ordinal);

        if (cache_get(s->w.input->cache, &kind_pvc, s->w.owner->ns, name))
            continue;
        struct json *body = json_make(arena, "{apiVersion: 'v1', kind: 'PersistentVolumeClaim'}");
        struct json *meta = json_add_object(arena, body, "metadata");
        struct json *labels = json_add_object(arena, meta, "labels");
        owner_merge_map(arena, labels, json_at(template, "metadata.labels"));
        owner_merge_map(arena, labels, json_at(s->w.spec, "selector.matchLabels"));
        if (json_at(template, "metadata.annotations"))
            json_set(meta, STR("annotations"),
                     json_clone(arena, json_at(template, "metadata.annotations")));
        json_add_str(arena, meta, "name", name);
        json_add_str(arena, meta, "namespace", str_dup(arena, s->w.owner->ns));
        if (policy_is_delete(s, "whenDeleted"))
            owner_set(arena, meta, s->w.owner);
        json_set(body, STR("spec"), json_clone(arena, json_get(template, "spec")));
        action_create(s->w.actions, &kind_pvc, body);
    }
}

static bool is_owned_by(const struct object *object, struct str uid)
{
    for (size_t i = 0; i < object->owner_count; i++)
        if (str_eq(object->owners[i].uid, uid))
            return true;
    return false;
}

/* Owned by `owner` alone, or by nobody. */
static void set_owner(struct stateful *s, const struct object *claim, const struct object *owner)
{
    struct json *patch = json_new_object(s->w.arena);
    struct json *meta = json_add_object(s->w.arena, patch, "metadata");

    if (owner)
        owner_set(s->w.arena, meta, owner);
    else
        json_add_array(s->w.arena, meta, "ownerReferences");
    action_patch(s->w.actions, claim, patch);
}

void stateful_keep_claims(struct stateful *s, int64_t ordinal)
{
    bool goes = policy_is_delete(s, "whenDeleted");

    JSON_FOREACH(json_get(s->w.spec, "volumeClaimTemplates"), template) {
        const struct object *claim = cache_get(s->w.input->cache, &kind_pvc, s->w.owner->ns,
                                               claim_name(s, template, ordinal));

        if (claim && goes != is_owned_by(claim, s->w.owner->uid))
            set_owner(s, claim, goes ? s->w.owner : NULL);
    }
}

void stateful_give_claims(struct stateful *s, const struct workload_pod *pod, int64_t ordinal)
{
    JSON_FOREACH(json_get(s->w.spec, "volumeClaimTemplates"), template) {
        const struct object *claim = cache_get(s->w.input->cache, &kind_pvc, s->w.owner->ns,
                                               claim_name(s, template, ordinal));

        if (claim && policy_is_delete(s, "whenScaled") && !is_owned_by(claim, pod->object->uid))
            set_owner(s, claim, pod->object);
    }
}
