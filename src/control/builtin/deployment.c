#include "control/builtin/deployment.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/owner.h"
#include "control/core/status.h"

#include <stdlib.h>

/* Deployment: one ReplicaSet a template, and pods moved from the old ones to the newest. */

/* ---- reading ---- */

static int compare_sets(const void *left, const void *right)
{
    const struct deployment_set *a = left;
    const struct deployment_set *b = right;

    if (a->object->created_ms != b->object->created_ms)
        return a->object->created_ms < b->object->created_ms ? -1 : 1;
    if (a->revision != b->revision)
        return a->revision < b->revision ? -1 : 1;
    return 0;
}

/* Its template without the label that tells it from the others. */
static bool is_of_template(struct deployment *d, const struct deployment_set *set)
{
    struct json *template = json_clone(d->w.arena, json_at(set->tree, "spec.template"));
    struct json *labels = json_at(template, "metadata.labels");

    json_remove(labels, STR(DEPLOYMENT_HASH));
    return json_equal(template, json_get(d->w.spec, "template"));
}

static void read_sets(struct deployment *d)
{
    struct workload_objects objects = workload_objects(&d->w, &kind_replicaset);

    for (size_t i = 0; i < objects.count; i++) {
        struct deployment_set set = {.object = objects.items[i],
                                     .tree = object_json(objects.items[i], d->w.arena)};

        if (set.object->deleted_ms)
            continue;
        set.replicas = json_i64_or(json_at(set.tree, "spec.replicas"), 1);
        set.available = json_i64_or(json_at(set.tree, "status.availableReplicas"), 0);
        (void)str_to_i64(object_annotation(set.object, DEPLOYMENT_REVISION), &set.revision);
        VEC_PUSH(d->w.arena, &d->sets, set);
    }
    if (d->sets.count)
        qsort(d->sets.items, d->sets.count, sizeof(d->sets.items[0]), compare_sets);
    for (size_t i = 0; i < d->sets.count && !d->newest; i++)
        if (is_of_template(d, &d->sets.items[i]))
            d->newest = &d->sets.items[i];
}

static void read_spec(struct deployment *d)
{
    const struct json *spec = d->w.spec;
    const struct json *rolling = json_at(spec, "strategy.rollingUpdate");
    int64_t collisions = json_i64_or(json_get(d->w.before, "collisionCount"), 0);

    d->replicas = json_i64_or(json_get(spec, "replicas"), 1);
    d->recreate = str_is(json_str_at(spec, "strategy.type"), "Recreate");
    d->paused = json_bool_or(json_get(spec, "paused"), false);
    if (!d->recreate) {
        d->surge = workload_share(json_get(rolling, "maxSurge"), 1, d->replicas, true);
        d->gone = workload_share(json_get(rolling, "maxUnavailable"), 0, d->replicas, false);
        if (!d->surge && !d->gone)
            d->gone = 1;
        if (d->gone > d->replicas)
            d->gone = d->replicas;
    }
    struct str text = json_text(d->w.arena, json_get(spec, "template"));
    if (collisions)
        text = str_printf(d->w.arena, "%lld" STR_FMT, (long long)collisions, STR_ARG(text));
    d->hash = workload_hash(d->w.arena, text);
}

/* ---- ReplicaSets ---- */

static void add_sizes(struct deployment *d, struct json *annotations)
{
    json_add_str(d->w.arena, annotations, DEPLOYMENT_DESIRED,
                 str_printf(d->w.arena, "%lld", (long long)d->replicas));
    json_add_str(d->w.arena, annotations, DEPLOYMENT_MAX,
                 str_printf(d->w.arena, "%lld", (long long)(d->replicas + d->surge)));
}

void deployment_scale(struct deployment *d, struct deployment_set *set, int64_t replicas)
{
    struct arena *arena = d->w.arena;
    struct json *patch = json_new_object(arena);

    add_sizes(d, json_make_path(arena, patch, "metadata.annotations"));
    if (replicas != set->replicas)
        json_add_i64(arena, json_add_object(arena, patch, "spec"), "replicas", replicas);
    action_patch(d->w.actions, set->object, patch);
    if (replicas != set->replicas)
        action_event(d->w.actions, d->w.owner, "ScalingReplicaSet",
                     str_printf(arena, "Scaled %s replica set " STR_FMT " from %lld to %lld",
                                replicas > set->replicas ? "up" : "down",
                                STR_ARG(set->object->name), (long long)set->replicas,
                                (long long)replicas));
    set->replicas = replicas;
}

/* What people wrote on the Deployment is shown by its ReplicaSets: `kubectl rollout history` reads
 * kubernetes.io/change-cause there. */
static bool is_carried(struct str key)
{
    static const char *const own[] = {"kubectl.kubernetes.io/last-applied-configuration",
                                      DEPLOYMENT_REVISION,
                                      DEPLOYMENT_HISTORY,
                                      DEPLOYMENT_DESIRED,
                                      DEPLOYMENT_MAX,
                                      "deprecated.deployment.rollback.to"};

    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (str_is(key, own[i]))
            return false;
    return true;
}

static int64_t revision_max(const struct deployment *d, const struct deployment_set *but)
{
    int64_t most = 0;

    for (size_t i = 0; i < d->sets.count; i++)
        if (&d->sets.items[i] != but && d->sets.items[i].revision > most)
            most = d->sets.items[i].revision;
    return most;
}

static void set_revision(struct deployment *d, int64_t revision)
{
    struct str text = str_printf(d->w.arena, "%lld", (long long)revision);

    if (str_eq(object_annotation(d->w.owner, DEPLOYMENT_REVISION), text))
        return;
    struct json *patch = json_new_object(d->w.arena);
    json_add_str(d->w.arena, json_make_path(d->w.arena, patch, "metadata.annotations"),
                 DEPLOYMENT_REVISION, text);
    action_patch(d->w.actions, d->w.owner, patch);
}

/* Its metadata but for the labels, which are those of its pods. */
static struct json *make_head(struct deployment *d, struct str name, int64_t revision)
{
    struct arena *arena = d->w.arena;
    struct json *body = owner_make(arena, d->w.owner, &kind_replicaset, name);
    struct json *annotations = json_add_object(arena, json_get(body, "metadata"), "annotations");

    JSON_FOREACH(json_at(d->w.tree, "metadata.annotations"), item)
        if (is_carried(json_key(item)))
            json_append(annotations, str_dup(arena, json_key(item)), json_clone(arena, item));
    add_sizes(d, annotations);
    json_add_str(arena, annotations, DEPLOYMENT_REVISION,
                 str_printf(arena, "%lld", (long long)revision));
    return body;
}

/* Somebody else's ReplicaSet has the name: another hash is tried. */
static void collide(struct deployment *d)
{
    struct json *patch = json_new_object(d->w.arena);
    int64_t before = json_i64_or(json_get(d->w.before, "collisionCount"), 0);

    json_add_i64(d->w.arena, json_add_object(d->w.arena, patch, "status"), "collisionCount",
                 before + 1);
    action_patch_status(d->w.actions, d->w.owner, patch);
}

/* How many pods it begins with. Recreate: none, it grows when the last old pod has ended. */
static int64_t first_size(const struct deployment *d)
{
    int64_t room = d->replicas + d->surge;

    for (size_t i = 0; i < d->sets.count; i++)
        room -= d->sets.items[i].replicas;
    if (d->recreate || room < 0)
        return 0;
    return room < d->replicas ? room : d->replicas;
}

static void make_newest(struct deployment *d)
{
    struct arena *arena = d->w.arena;
    struct str name =
        str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(d->w.owner->name), STR_ARG(d->hash));
    int64_t revision = revision_max(d, NULL) + 1;
    int64_t count = first_size(d);
    const struct json *wait = json_get(d->w.spec, "minReadySeconds");

    if (cache_get(d->w.input->cache, &kind_replicaset, d->w.owner->ns, name)) {
        collide(d);
        return;
    }
    struct json *body = make_head(d, name, revision);
    struct json *spec = json_add_object(arena, body, "spec");
    json_add_i64(arena, spec, "replicas", count);
    if (wait)
        json_set(spec, STR("minReadySeconds"), json_clone(arena, wait));
    json_set(spec, STR("selector"), json_clone(arena, json_get(d->w.spec, "selector")));
    json_set(spec, STR("template"), json_clone(arena, json_get(d->w.spec, "template")));
    json_add_str(arena, json_make_path(arena, spec, "selector.matchLabels"), DEPLOYMENT_HASH,
                 d->hash);
    struct json *labels = json_make_path(arena, spec, "template.metadata.labels");
    json_add_str(arena, labels, DEPLOYMENT_HASH, d->hash);
    json_set(json_get(body, "metadata"), STR("labels"), json_clone(arena, labels));
    action_create(d->w.actions, &kind_replicaset, body);
    if (count)
        action_event(d->w.actions, d->w.owner, "ScalingReplicaSet",
                     str_printf(arena, "Scaled up replica set " STR_FMT " from 0 to %lld",
                                STR_ARG(name), (long long)count));
    set_revision(d, revision);
    d->progress = "NewReplicaSetCreated";
    d->progress_message =
        str_printf(arena, "Created new replica set \"" STR_FMT "\"", STR_ARG(name));
}

/* The newest one has the highest revision, also when it is an old one that is wanted again. */
static void keep_newest(struct deployment *d)
{
    struct arena *arena = d->w.arena;
    struct deployment_set *set = d->newest;
    int64_t revision = revision_max(d, set) + 1;
    struct json *patch = json_new_object(arena);
    struct json *annotations = json_make_path(arena, patch, "metadata.annotations");
    const struct json *wait = json_get(d->w.spec, "minReadySeconds");

    if (set->revision < revision) {
        struct str past = object_annotation(set->object, DEPLOYMENT_HISTORY);

        if (set->revision)
            json_add_str(arena, annotations, DEPLOYMENT_HISTORY,
                         str_printf(arena, STR_FMT "%s%lld", STR_ARG(past), past.len ? "," : "",
                                    (long long)set->revision));
        json_add_str(arena, annotations, DEPLOYMENT_REVISION,
                     str_printf(arena, "%lld", (long long)revision));
        set->revision = revision;
    }
    JSON_FOREACH(json_at(d->w.tree, "metadata.annotations"), item)
        if (is_carried(json_key(item)) &&
            !str_eq(object_annotation(set->object, str_c(arena, json_key(item))), json_str(item)))
            json_set(annotations, str_dup(arena, json_key(item)), json_clone(arena, item));
    if (json_i64_or(wait, 0) != json_i64_or(json_at(set->tree, "spec.minReadySeconds"), 0))
        json_add_i64(arena, json_add_object(arena, patch, "spec"), "minReadySeconds",
                     json_i64_or(wait, 0));
    if (json_count(annotations) || json_get(patch, "spec"))
        action_patch(d->w.actions, set->object, patch);
    set_revision(d, set->revision);
    if (!condition_find(d->w.before, "Progressing"))
        d->progress = "FoundNewReplicaSet";
    d->progress_message =
        str_printf(arena, "Found new replica set \"" STR_FMT "\"", STR_ARG(set->object->name));
}

/* ---- history ---- */

static bool is_idle(const struct deployment_set *set)
{
    return !set->replicas && !json_i64_or(json_at(set->tree, "status.replicas"), 0) &&
           json_i64_or(json_at(set->tree, "status.observedGeneration"), 0) >=
               set->object->generation;
}

/* Beyond how many are kept the lowest revisions go, if they have no pods; one that has some stays,
 * and no younger one goes in its place. */
static void forget(struct deployment *d)
{
    int64_t keep = json_i64_or(json_get(d->w.spec, "revisionHistoryLimit"), 10);
    int64_t extra = (int64_t)d->sets.count - (d->newest ? 1 : 0) - keep;
    bool *seen = ARENA_ARRAY(d->w.arena, bool, d->sets.count + 1);

    for (; extra > 0; extra--) {
        size_t lowest = d->sets.count;

        for (size_t i = 0; i < d->sets.count; i++)
            if (&d->sets.items[i] != d->newest && !seen[i] &&
                (lowest == d->sets.count ||
                 d->sets.items[i].revision < d->sets.items[lowest].revision))
                lowest = i;
        if (lowest == d->sets.count)
            return;
        seen[lowest] = true;
        if (is_idle(&d->sets.items[lowest]))
            action_delete(d->w.actions, d->sets.items[lowest].object);
    }
}

/* ---- the controller ---- */

static bool is_done(const struct deployment *d)
{
    const struct json *status = d->w.status;

    return d->newest && json_i64_or(json_get(status, "updatedReplicas"), 0) == d->replicas &&
           json_i64_or(json_get(status, "replicas"), 0) == d->replicas &&
           json_i64_or(json_get(status, "availableReplicas"), 0) == d->replicas;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct deployment d = {0};

    if (!workload_open(&d.w, input, cache_get(input->cache, &kind_deployment, key->ns, key->name),
                       &later))
        return;
    read_spec(&d);
    read_sets(&d);
    if (d.newest)
        keep_newest(&d);
    if (!deployment_spread(&d) && !d.paused) {
        if (!d.newest)
            make_newest(&d);
        deployment_roll(&d);
    }
    deployment_status(&d);
    if (is_done(&d) || d.paused)
        forget(&d);
    d.w.actions = actions;
    workload_write(&d.w);
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_deployment) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    if (object->kind == &kind_replicaset) {
        workload_keys(cache, &kind_deployment, object, ret);
        return;
    }
    /* Recreate waits for the last old pod: a pod that goes is a matter of its ReplicaSet's. */
    const struct object_owner *owner = object_controller(object);
    const struct object *set = owner && str_is(owner->kind, kind_replicaset.name)
                                   ? cache_get(cache, &kind_replicaset, object->ns, owner->name)
                                   : NULL;
    if (set)
        workload_keys(cache, &kind_deployment, set, ret);
}

static const struct kind *const watches[] = {&kind_deployment, &kind_replicaset, &kind_pod, NULL};

const struct controller deployment_controller = {.name = "deployment",
                                                 .kind = &kind_deployment,
                                                 .refused = "ReplicaSetCreateError",
                                                 .embedded = true,
                                                 .watches = watches,
                                                 .keys = keys,
                                                 .reconcile = reconcile};
