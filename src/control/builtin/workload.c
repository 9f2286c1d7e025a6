#include "control/builtin/workload.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/owner.h"
#include "control/core/status.h"

#include <stdlib.h>

/* ---- the owner ---- */

bool workload_open(struct workload *w,
                   const struct control_input *input,
                   const struct object *owner,
                   struct actions *actions)
{
    *w = (struct workload){
        .input = input, .arena = actions->arena, .actions = actions, .owner = owner};
    if (!owner || owner->deleted_ms)
        return false;
    w->tree = object_json(owner, w->arena);
    w->spec = json_get(w->tree, "spec");
    w->before = json_get(w->tree, "status");
    return true;
}

void workload_status(struct workload *w, const char *const *keep)
{
    const struct json *conditions = json_get(w->before, "conditions");

    w->status = json_new_object(w->arena);
    for (size_t i = 0; keep && keep[i]; i++)
        if (json_get(w->before, keep[i]))
            json_set(w->status, str_from(keep[i]),
                     json_clone(w->arena, json_get(w->before, keep[i])));
    if (conditions)
        json_set(w->status, STR("conditions"), json_clone(w->arena, conditions));
    json_add_i64(w->arena, w->status, "observedGeneration", w->owner->generation);
}

void workload_count(struct workload *w, const char *name, int64_t number, bool always)
{
    if (number || always)
        json_add_i64(w->arena, w->status, name, number);
    else
        json_remove(w->status, str_from(name));
}

void workload_write(struct workload *w)
{
    struct json *patch = merge_diff(w->arena, w->before, w->status);

    if (!patch)
        return;
    struct json *body = json_new_object(w->arena);
    json_set(body, STR("status"), patch);
    action_patch_status(w->actions, w->owner, body);
}

/* ---- what belongs to it ---- */

static void patch_owners(struct workload *w, const struct object *object, bool adopt)
{
    struct json *patch = json_new_object(w->arena);
    struct json *meta = json_add_object(w->arena, patch, "metadata");
    struct json *list = NULL;

    if (adopt)
        owner_set(w->arena, meta, w->owner);
    list = adopt ? json_get(meta, "ownerReferences")
                 : json_add_array(w->arena, meta, "ownerReferences");
    JSON_FOREACH(json_at(object_json(object, w->arena), "metadata.ownerReferences"), entry)
        if (!str_eq(json_str(json_get(entry, "uid")), w->owner->uid))
            json_push(list, json_clone(w->arena, entry));
    action_patch(w->actions, object, patch);
}

static bool is_owned(const struct workload *w, const struct object *object)
{
    const struct object_owner *owner = object_controller(object);

    return owner && str_eq(owner->uid, w->owner->uid);
}

int64_t workload_ordinal(struct str set, struct str name)
{
    int64_t number = -1;

    if (name.len < set.len + 2 || !str_starts(name, set) || name.p[set.len] != '-' ||
        !str_to_i64(str_sub(name, set.len + 1, name.len), &number))
        return -1;
    return number;
}

/* A StatefulSet takes no pod that has not one of its names. */
static bool may_adopt(const struct workload *w, const struct object *object)
{
    return w->owner->kind != &kind_statefulset || object->kind != &kind_pod ||
           workload_ordinal(w->owner->name, object->name) >= 0;
}

/* NULL: it chooses nothing. */
static const struct selector *selector_of(const struct object *owner)
{
    const struct selector *selector = object_selector(owner);

    return selector && selector->term_count ? selector : NULL;
}

struct workload_objects workload_objects(struct workload *w, const struct kind *kind)
{
    struct workload_objects list = {0};
    const struct selector *selector = selector_of(w->owner);
    const struct object *object = NULL;
    size_t cursor = 0;

    while ((object = cache_next_owned(w->input->cache, kind, w->owner->uid, &cursor))) {
        if (!is_owned(w, object))
            continue;
        if (!selector || selector_matches(selector, object->labels, object->label_count))
            VEC_PUSH(w->arena, &list, object);
        else if (!object->deleted_ms)
            patch_owners(w, object, false);
    }
    cursor = 0;
    while (selector && (object = cache_next(w->input->cache, kind, w->owner->ns, &cursor))) {
        if (object_controller(object) || object->deleted_ms || !may_adopt(w, object) ||
            !selector_matches(selector, object->labels, object->label_count))
            continue;
        patch_owners(w, object, true);
        VEC_PUSH(w->arena, &list, object);
    }
    return list;
}

struct workload_pods workload_pods(struct workload *w)
{
    struct workload_objects objects = workload_objects(w, &kind_pod);
    int64_t wait_ms = json_i64_or(json_get(w->spec, "minReadySeconds"), 0) * 1000;
    struct workload_pods pods = {0};

    for (size_t i = 0; i < objects.count; i++) {
        struct json *tree = object_json(objects.items[i], w->arena);
        struct workload_pod pod = {.object = objects.items[i], .tree = tree};
        const struct json *ready = condition_find(json_get(tree, "status"), "Ready");

        pod.active = !pod.object->deleted_ms && !pod_is_over(tree);
        pod.ready = pod.active && str_is(json_str(json_get(ready, "status")), "True");
        (void)time_parse(json_str(json_get(ready, "lastTransitionTime")), &pod.ready_ms);
        /* Without a time to wait no clock is asked: it may have been set back since. */
        pod.available = pod.ready && (!wait_ms || pod.ready_ms + wait_ms <= w->input->now_ms);
        if (pod.ready && !pod.available)
            action_look_again(w->actions, pod.ready_ms + wait_ms);
        VEC_PUSH(w->arena, &pods, pod);
    }
    return pods;
}

int64_t workload_room(const struct workload_pods *pods)
{
    int64_t room = WORKLOAD_WAITING_MAX;

    for (size_t i = 0; i < pods->count && room > 0; i++)
        room -= pods->items[i].active && !json_str_at(pods->items[i].tree, "spec.nodeName").len;
    return room;
}

void workload_keys(const struct cache *cache,
                   const struct kind *kind,
                   const struct object *object,
                   struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);
    const struct object *candidate = NULL;
    size_t cursor = 0;

    for (size_t i = 0; i < object->owner_count; i++)
        if (str_is(object->owners[i].kind, kind->name))
            control_keys_add(ret, object->ns, object->owners[i].name);
    if (owner || object->deleted_ms || !cache_count(cache, kind))
        return;
    while ((candidate = cache_next(cache, kind, object->ns, &cursor))) {
        const struct selector *selector = selector_of(candidate);

        if (selector && selector_matches(selector, object->labels, object->label_count))
            control_keys_add(ret, candidate->ns, candidate->name);
    }
}

/* ---- order ---- */

static int phase_rank(const struct json *tree)
{
    struct str phase = json_str_at(tree, "status.phase");

    return str_is(phase, "Running") ? 2 : str_is(phase, "Unknown") ? 1 : 0;
}

static int64_t restarts_of(const struct json *tree)
{
    int64_t most = 0;

    JSON_FOREACH(json_at(tree, "status.containerStatuses"), container) {
        int64_t count = json_i64_or(json_get(container, "restartCount"), 0);

        most = count > most ? count : most;
    }
    return most;
}

static int64_t cost_of(const struct object *pod)
{
    int64_t cost = 0;

    (void)str_to_i64(object_annotation(pod, "controller.kubernetes.io/pod-deletion-cost"), &cost);
    return cost;
}

#define ORDER(less, more)                    \
    do {                                     \
        if ((less) != (more))                \
            return (less) < (more) ? -1 : 1; \
    } while (0)

/* Who goes first: without a node, not running, not ready, cheap, on a node with many of its like,
 * ready for a short time, often restarted, young. */
static int compare_pods(const void *left, const void *right)
{
    const struct workload_pod *a = left;
    const struct workload_pod *b = right;

    ORDER(json_str_at(a->tree, "spec.nodeName").len > 0,
          json_str_at(b->tree, "spec.nodeName").len > 0);
    ORDER(phase_rank(a->tree), phase_rank(b->tree));
    ORDER(a->ready, b->ready);
    ORDER(cost_of(a->object), cost_of(b->object));
    ORDER(b->crowd, a->crowd);
    if (a->ready && b->ready)
        ORDER(b->ready_ms, a->ready_ms);
    ORDER(restarts_of(b->tree), restarts_of(a->tree));
    ORDER(b->object->created_ms, a->object->created_ms);
    ORDER(b->object->revision, a->object->revision);
    return 0;
}

void workload_order(struct workload_pods *pods)
{
    if (pods->count)
        qsort(pods->items, pods->count, sizeof(pods->items[0]), compare_pods);
}

/* ---- names ---- */

static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";

static void spell(uint64_t hash, char *out, size_t count)
{
    for (size_t i = 0; i < count; i++, hash /= sizeof(letters) - 1)
        out[i] = letters[hash % (sizeof(letters) - 1)];
}

struct str workload_hash(struct arena *arena, struct str text)
{
    char out[WORKLOAD_HASH_LETTERS];

    spell(str_hash(text, 0), out, sizeof(out));
    return str_dup(arena, (struct str){out, sizeof(out)});
}

/* Different from look to look: a pod that was deleted is not followed by one of its name. */
struct str workload_name(struct workload *w,
                         const struct kind *kind,
                         struct str prefix,
                         int64_t *serial)
{
    for (;;) {
        struct str seed = str_printf(w->arena, STR_FMT "/%lld/%lld", STR_ARG(w->owner->uid),
                                     (long long)w->input->now_ms, (long long)(*serial)++);
        char tail[5];

        spell(str_hash(seed, 0), tail, sizeof(tail));
        struct str name =
            str_printf(w->arena, STR_FMT "-%.5s", STR_ARG(str_sub(prefix, 0, 57)), tail);
        if (!cache_get(w->input->cache, kind, w->owner->ns, name))
            return name;
    }
}

/* ---- pods ---- */

struct json *workload_pod(struct workload *w, const struct json *template)
{
    struct json *pod = json_new_object(w->arena);
    static const char *const kept[] = {"labels", "annotations", "finalizers"};

    json_add_c(w->arena, pod, "apiVersion", "v1");
    json_add_c(w->arena, pod, "kind", "Pod");
    struct json *meta = json_add_object(w->arena, pod, "metadata");
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        const struct json *value = json_get(json_get(template, "metadata"), kept[i]);

        if (!json_is_null(value))
            json_set(meta, str_from(kept[i]), json_clone(w->arena, value));
    }
    json_add_str(w->arena, meta, "namespace", str_dup(w->arena, w->owner->ns));
    owner_set(w->arena, meta, w->owner);
    json_set(pod, STR("spec"), json_clone(w->arena, json_get(template, "spec")));
    return pod;
}

int64_t workload_share(const struct json *value, int64_t otherwise, int64_t total, bool up)
{
    struct str text = json_str(value);
    int64_t percent = 0;

    if (text.len > 1 && str_ends(text, STR("%")) &&
        str_to_i64(str_sub(text, 0, text.len - 1), &percent))
        return (total * percent + (up ? 99 : 0)) / 100;
    return json_i64_or(value, otherwise);
}
