#include "api/folder.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "api/quantity.h"
#include "api/selector.h"
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

/* PersistentVolumeClaims on one machine: a claim is bound to a volume that fits, or, when its class
 * is ours, to one that is made for it; where its class waits for the first consumer, both only when
 * the scheduler has chosen. What is behind such a volume is a folder of the node agent.
 * A claim that pods still use stays until they have ended. */

#define DEFAULT_CLASS  "standard"
#define IS_DEFAULT     "storageclass.kubernetes.io/is-default-class"
#define PROVISIONED_BY "pv.kubernetes.io/provisioned-by"
#define BIND_COMPLETED "pv.kubernetes.io/bind-completed"
#define PROTECTION     "kubernetes.io/pvc-protection"
#define SELECTED_NODE  "volume.kubernetes.io/selected-node"

static struct json *head(struct arena *arena, const struct kind *kind, struct str name)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, body, "{apiVersion: $, kind: $, metadata: {name: $}}",
              str_dup(arena, kind_api_version(kind, version)), kind->name, name);
    return body;
}

static void make_default_class(const struct control_input *input, struct actions *actions)
{
    struct arena *arena = actions->arena;

    if (cache_count(input->cache, &kind_storageclass))
        return;
    struct json *body = head(arena, &kind_storageclass, STR(DEFAULT_CLASS));
    json_add_c(arena, json_make_path(arena, body, "metadata.annotations"), IS_DEFAULT, "true");
    json_fill(arena, body,
              "{provisioner: $, reclaimPolicy: 'Delete', "
              "volumeBindingMode: 'Immediate', allowVolumeExpansion: true}",
              FOLDER_PROVISIONER);
    action_create(actions, &kind_storageclass, body);
}

/* One claim being looked at. */
struct run {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *claim;
    const struct json *root;
    bool waits; /* the scheduler chooses its volume, or the node for which one is made */
};

static bool is_for(const struct json *volume, const struct object *claim)
{
    struct str uid = json_str_at(volume, "spec.claimRef.uid");

    return str_eq(json_str_at(volume, "spec.claimRef.namespace"), claim->ns) &&
           str_eq(json_str_at(volume, "spec.claimRef.name"), claim->name) &&
           (!uid.len || str_eq(uid, claim->uid));
}

static bool has_modes(const struct json *volume, const struct json *claim)
{
    JSON_FOREACH(json_at(claim, "spec.accessModes"), wanted) {
        bool there = false;

        JSON_FOREACH(json_at(volume, "spec.accessModes"), mode)
            there |= json_equal(mode, wanted);
        if (!there)
            return false;
    }
    return true;
}

static int64_t bytes_at(const struct json *root, const char *path)
{
    int64_t bytes = 0;

    (void)quantity_whole_json(json_at(root, path), &bytes, NULL);
    return bytes;
}

static struct str mode_of(const struct json *root)
{
    struct str mode = json_str_at(root, "spec.volumeMode");

    return mode.len ? mode : STR("Filesystem");
}

/* Whether the labels of a volume are those that the claim asks for. */
static bool is_selected(const struct run *run, const struct object *volume)
{
    const struct json *wanted = json_at(run->root, "spec.selector");
    struct selector selector = {0};

    return !json_count(wanted) ||
           (selector_from_json(run->arena, wanted, &selector, NULL) == 0 &&
            selector_matches(&selector, volume->labels, volume->label_count));
}

static bool satisfies(const struct run *run, const struct json *volume)
{
    return str_eq(json_str_at(volume, "spec.storageClassName"),
                  json_str_at(run->root, "spec.storageClassName")) &&
           str_eq(mode_of(volume), mode_of(run->root)) && has_modes(volume, run->root) &&
           bytes_at(volume, "spec.capacity.storage") >=
               bytes_at(run->root, "spec.resources.requests.storage");
}

/* A volume that was kept for the claim is its own if it is large enough, whatever its class; one
 * that the claim names has to satisfy it. */
static bool fits(const struct run *run, const struct json *volume, const struct object *object)
{
    struct str wanted = json_str_at(run->root, "spec.volumeName");

    if (wanted.len && !str_eq(wanted, object->name))
        return false;
    if (is_for(volume, run->claim))
        return wanted.len || bytes_at(volume, "spec.capacity.storage") >=
                                 bytes_at(run->root, "spec.resources.requests.storage");
    return !run->waits && !json_at(volume, "spec.claimRef") && !object->deleted_ms &&
           satisfies(run, volume) && (wanted.len || is_selected(run, object));
}

/* The volume made for the claim, or the smallest that fits. */
static const struct object *find_volume(const struct run *run, const struct json **ret_root)
{
    const struct object *best = NULL;
    const struct object *volume = NULL;
    int64_t best_bytes = 0;
    size_t cursor = 0;

    while ((volume = cache_next(run->input->cache, &kind_pv, STR(""), &cursor))) {
        const struct json *root = object_json(volume, run->arena);
        int64_t bytes = bytes_at(root, "spec.capacity.storage");

        if (!fits(run, root, volume))
            continue;
        if (!best || is_for(root, run->claim) || bytes < best_bytes) {
            best = volume;
            best_bytes = bytes;
            *ret_root = root;
        }
        if (is_for(root, run->claim))
            break;
    }
    return best;
}

static struct json *claim_ref(const struct run *run)
{
    return json_make(run->arena,
                     "{apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace: $, "
                     "name: $, uid: $}",
                     run->claim->ns, run->claim->name, run->claim->uid);
}

static struct json *status_patch(const struct run *run, const char *phase)
{
    struct json *patch = json_new_object(run->arena);

    json_add_c(run->arena, json_add_object(run->arena, patch, "status"), "phase", phase);
    return patch;
}

static void bind(const struct run *run, const struct object *volume, const struct json *root)
{
    struct arena *arena = run->arena;

    if (!json_str_at(root, "spec.claimRef.uid").len) {
        struct json *patch = json_new_object(arena);

        json_set(json_add_object(arena, patch, "spec"), STR("claimRef"), claim_ref(run));
        action_patch(run->actions, volume, patch);
    }
    if (!str_is(json_str_at(root, "status.phase"), "Bound"))
        action_patch_status(run->actions, volume, status_patch(run, "Bound"));
    if (!json_str_at(run->root, "spec.volumeName").len) {
        struct json *patch = json_new_object(arena);

        json_add_c(arena, json_make_path(arena, patch, "metadata.annotations"), BIND_COMPLETED,
                   "yes");
        json_add_str(arena, json_add_object(arena, patch, "spec"), "volumeName", volume->name);
        action_patch(run->actions, run->claim, patch);
    }
    struct json *patch = status_patch(run, "Bound");
    struct json *status = json_get(patch, "status");
    json_set(status, STR("accessModes"), json_clone(arena, json_at(root, "spec.accessModes")));
    json_set(status, STR("capacity"), json_clone(arena, json_at(root, "spec.capacity")));
    action_patch_status(run->actions, run->claim, patch);
}

static void provision(const struct run *run, const struct object *class)
{
    struct arena *arena = run->arena;
    const struct json *class_root = object_json(class, arena);
    struct str policy = json_str(json_get(class_root, "reclaimPolicy"));
    struct json *body =
        head(arena, &kind_pv, str_printf(arena, "pvc-" STR_FMT, STR_ARG(run->claim->uid)));
    struct json *spec = json_add_object(arena, body, "spec");

    if (!str_is(json_str(json_get(class_root, "provisioner")), FOLDER_PROVISIONER))
        return;
    if (json_count(json_at(run->root, "spec.selector")) ||
        !str_is(mode_of(run->root), "Filesystem")) {
        action_warn(
            run->actions, run->claim, "ProvisioningFailed",
            STR("a folder can be made for a claim without spec.selector and with volumeMode "
                "Filesystem; take these out, or make a PersistentVolume"));
        return;
    }
    json_add_c(arena, json_make_path(arena, body, "metadata.annotations"), PROVISIONED_BY,
               FOLDER_PROVISIONER);
    json_set(json_add_object(arena, spec, "capacity"), STR("storage"),
             json_clone(arena, json_at(run->root, "spec.resources.requests.storage")));
    json_fill(arena, spec,
              "{accessModes: $, claimRef: $, persistentVolumeReclaimPolicy: $, "
              "storageClassName: $, volumeMode: 'Filesystem', csi: {driver: $, "
              "volumeHandle: $}}",
              json_clone(arena, json_at(run->root, "spec.accessModes")), claim_ref(run),
              policy.len ? policy : STR("Delete"), class->name, FOLDER_DRIVER,
              str_printf(arena, STR_FMT "_" STR_FMT "_" STR_FMT, STR_ARG(run->claim->ns),
                         STR_ARG(run->claim->name), STR_ARG(run->claim->uid)));
    action_create(run->actions, &kind_pv, body);
}

/* A claim that asks for more than it has: a folder of ours has no size of its own. */
static void grow(const struct run *run)
{
    const struct object *volume =
        cache_get(run->input->cache, &kind_pv, STR(""), json_str_at(run->root, "spec.volumeName"));
    const struct json *wanted = json_at(run->root, "spec.resources.requests.storage");
    int64_t most = 0;
    int64_t has = 0;

    if (!volume || !str_is(object_annotation(volume, PROVISIONED_BY), FOLDER_PROVISIONER) ||
        quantity_whole_json(wanted, &most, NULL) < 0 ||
        quantity_whole_json(json_at(run->root, "status.capacity.storage"), &has, NULL) < 0 ||
        most <= has)
        return;
    action_patch(run->actions, volume,
                 json_make(run->arena, "{spec: {capacity: {storage: $}}}", json_str(wanted)));
    action_patch_status(
        run->actions, run->claim,
        json_make(run->arena, "{status: {capacity: {storage: $}}}", json_str(wanted)));
}

/* Of a volume: the claim that it names, or that is made for it. */
static struct str claim_of(struct arena *arena, const struct object *pod, const struct json *volume)
{
    if (!json_get(volume, "ephemeral"))
        return json_str_at(volume, "persistentVolumeClaim.claimName");
    return str_printf(arena, STR_FMT "-" STR_FMT, STR_ARG(pod->name),
                      STR_ARG(json_str(json_get(volume, "name"))));
}

/* Few pods have one: looking for the words costs less than parsing them all. */
static bool may_have_claims(const struct object *pod)
{
    return str_contains(pod->raw, STR("\"persistentVolumeClaim\"")) ||
           str_contains(pod->raw, STR("\"ephemeral\""));
}

static bool uses(const struct object *pod, struct str claim)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(pod, &arena);

    if (pod_is_over(root))
        return false;
    JSON_FOREACH(json_at(root, "spec.volumes"), volume)
        if (str_eq(claim_of(&arena, pod, volume), claim))
            return true;
    return false;
}

/* The claim that a pod's ephemeral volume needs, which goes with the pod. */
static void make_own(const struct object *pod, const struct json *volume, struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct json *template = json_at(volume, "ephemeral.volumeClaimTemplate");
    struct json *body = owner_make(arena, pod, &kind_pvc, claim_of(arena, pod, volume));
    struct json *meta = json_get(body, "metadata");

    if (json_at(template, "metadata.labels"))
        json_set(meta, STR("labels"), json_clone(arena, json_at(template, "metadata.labels")));
    if (json_at(template, "metadata.annotations"))
        json_set(meta, STR("annotations"),
                 json_clone(arena, json_at(template, "metadata.annotations")));
    json_set(body, STR("spec"), json_clone(arena, json_get(template, "spec")));
    action_create(actions, &kind_pvc, body);
}

/* There is no such claim: maybe one is to be made for a pod. */
static void make_missing(const struct control_input *input,
                         const struct control_key *key,
                         struct actions *actions)
{
    const struct object *pod = NULL;
    size_t cursor = 0;

    while ((pod = cache_next(input->cache, &kind_pod, key->ns, &cursor))) {
        if (pod->deleted_ms || !str_starts(key->name, pod->name) ||
            !str_contains(pod->raw, STR("\"ephemeral\"")))
            continue;
        const struct json *root = object_json(pod, actions->arena);
        JSON_FOREACH(json_at(root, "spec.volumes"), volume)
            if (json_get(volume, "ephemeral") && !pod_is_over(root) &&
                str_eq(claim_of(actions->arena, pod, volume), key->name)) {
                make_own(pod, volume, actions);
                return;
            }
    }
}

/* A claim that is being deleted goes when no pod uses it. */
static void release(const struct run *run)
{
    const struct object *pod = NULL;
    size_t cursor = 0;
    struct json *patch = json_new_object(run->arena);
    struct json *left =
        json_add_array(run->arena, json_add_object(run->arena, patch, "metadata"), "finalizers");
    const struct json *finalizers = json_at(run->root, "metadata.finalizers");

    while ((pod = cache_next(run->input->cache, &kind_pod, run->claim->ns, &cursor)))
        if (uses(pod, run->claim->name))
            return;
    JSON_FOREACH(finalizers, item)
        if (!str_is(json_str(item), PROTECTION))
            json_push(left, json_clone(run->arena, item));
    if (json_count(left) < json_count(finalizers))
        action_patch(run->actions, run->claim, patch);
}

/* Volumes whose claim is gone. */
static void reclaim(const struct control_input *input,
                    const struct control_key *key,
                    struct actions *actions)
{
    const struct object *volume = NULL;
    size_t cursor = 0;
    const struct object *claim = cache_get(input->cache, &kind_pvc, key->ns, key->name);

    while ((volume = cache_next(input->cache, &kind_pv, STR(""), &cursor))) {
        const struct json *root = object_json(volume, actions->arena);
        struct str uid = json_str_at(root, "spec.claimRef.uid");
        struct run run = {.arena = actions->arena};

        if (!uid.len || !str_eq(json_str_at(root, "spec.claimRef.namespace"), key->ns) ||
            !str_eq(json_str_at(root, "spec.claimRef.name"), key->name) ||
            (claim && str_eq(claim->uid, uid)) || volume->deleted_ms)
            continue;
        if (str_is(json_str_at(root, "spec.persistentVolumeReclaimPolicy"), "Delete"))
            action_delete(actions, volume);
        else if (!str_is(json_str_at(root, "status.phase"), "Released"))
            action_patch_status(actions, volume, status_patch(&run, "Released"));
    }
}

/* A volume that nobody has claimed can be had, and says so. */
static void settle_volume(const struct control_input *input,
                          const struct control_key *key,
                          struct actions *actions)
{
    const struct object *volume = cache_get(input->cache, &kind_pv, STR(""), key->name);
    const struct json *root = volume ? object_json(volume, actions->arena) : NULL;
    const struct json *to = json_at(root, "spec.claimRef");
    const struct object *claim =
        cache_get(input->cache, &kind_pvc, json_str(json_get(to, "namespace")),
                  json_str(json_get(to, "name")));
    struct str uid = json_str(json_get(to, "uid"));
    bool bound =
        claim && str_eq(claim->uid, uid) &&
        str_eq(json_str_at(object_json(claim, actions->arena), "spec.volumeName"), key->name);
    const char *phase = bound ? "Bound" : "Available";
    struct run run = {.arena = actions->arena};

    if (volume && !volume->deleted_ms && (bound || !uid.len) &&
        !str_is(json_str_at(root, "status.phase"), phase))
        action_patch_status(actions, volume, status_patch(&run, phase));
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct run run = {.input = input,
                      .arena = actions->arena,
                      .actions = actions,
                      .claim = cache_get(input->cache, &kind_pvc, key->ns, key->name)};
    const struct json *volume_root = NULL;

    if (!key->name.len) {
        make_default_class(input, actions);
        return;
    }
    if (!key->ns.len) {
        settle_volume(input, key, actions);
        return;
    }
    reclaim(input, key, actions);
    if (!run.claim) {
        make_missing(input, key, actions);
        return;
    }
    run.root = object_json(run.claim, run.arena);
    if (run.claim->deleted_ms) {
        release(&run);
        return;
    }
    if (str_is(json_str_at(run.root, "status.phase"), "Bound")) {
        grow(&run);
        return;
    }
    struct str class_name = json_str_at(run.root, "spec.storageClassName");
    const struct object *class = cache_get(input->cache, &kind_storageclass, STR(""), class_name);
    bool named = json_str_at(run.root, "spec.volumeName").len > 0;
    run.waits = class && !named &&
                str_is(json_str(json_get(object_json(class, run.arena), "volumeBindingMode")),
                       "WaitForFirstConsumer");
    const struct object *volume = find_volume(&run, &volume_root);
    if (volume)
        bind(&run, volume, volume_root);
    else if (class && !named && (!run.waits || object_annotation(run.claim, SELECTED_NODE).len))
        provision(&run, class);
}

static void keys_of_pod(const struct object *pod, struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (!may_have_claims(pod))
        return;
    JSON_FOREACH(json_at(object_tree(pod, &arena), "spec.volumes"), volume) {
        struct str claim = claim_of(&arena, pod, volume);

        if (claim.len)
            control_keys_add(ret, pod->ns, claim);
    }
}

static void keys_of_all(const struct cache *cache, struct control_keys *ret)
{
    const struct object *claim = NULL;
    size_t cursor = 0;

    while ((claim = cache_next(cache, &kind_pvc, STR(""), &cursor)))
        control_keys_add(ret, claim->ns, claim->name);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_pvc) {
        control_keys_add(ret, object->ns, object->name);
    } else if (object->kind == &kind_pod) {
        keys_of_pod(object, ret);
    } else if (object->kind == &kind_storageclass) {
        keys_of_all(cache, ret);
    } else {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *root = object_json(object, &arena);

        control_keys_add(ret, STR(""), object->name);
        if (json_str_at(root, "spec.claimRef.name").len)
            control_keys_add(ret, json_str_at(root, "spec.claimRef.namespace"),
                             json_str_at(root, "spec.claimRef.name"));
        else
            keys_of_all(cache, ret);
    }
}

static const struct kind *const watches[] = {&kind_pvc, &kind_pv, &kind_storageclass, &kind_pod,
                                             NULL};

const struct controller claims_controller = {.name = "claims",
                                             .kind = &kind_pvc,
                                             .refused = "ProvisioningFailed",
                                             .embedded = true,
                                             .at_start = true,
                                             .watches = watches,
                                             .keys = keys,
                                             .reconcile = reconcile};
