#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The status of PodDisruptionBudgets: how many of their pods may be evicted now. Evictions read it
 * and count it down. */

#define DISRUPTED_MS 120000 /* as long as Kubernetes waits for an evicted pod to go */

/* A number, or a percentage of `whole` rounded up. */
static int64_t amount(const struct json *value, int64_t whole)
{
    struct str text = json_str(value);
    int64_t percent = 0;

    if (str_ends(text, STR("%")) && str_to_i64(str_sub(text, 0, text.len - 1), &percent))
        return (percent * whole + 99) / 100;
    return json_i64_or(value, 0);
}

static bool is_share(const struct json *value)
{
    return json_is(value, JSON_STRING);
}

/* ---- how many pods there should be ---- */

/* The pods of a budget, and who says how many of them there should be. */
struct covered {
    struct actions *actions;
    const struct cache *cache;
    VEC(const struct object *) scaled; /* Deployments and the like, each once */
    bool alone;                        /* there are pods without a controller, which do not count */
    const struct object *stray;        /* a pod whose controller has no number; NULL: none */
    int64_t pods;
    int64_t healthy;
};

static const struct object *owner_among(const struct cache *cache,
                                        const struct object *object,
                                        const struct kind *kind)
{
    const struct object_owner *owner = object_controller(object);
    const struct object *found = owner && str_is(owner->kind, kind->name)
                                     ? cache_get(cache, kind, object->ns, owner->name)
                                     : NULL;

    return found && str_eq(found->uid, owner->uid) ? found : NULL;
}

static const struct kind *const scaled_kinds[] = {&kind_replicaset, &kind_statefulset,
                                                  &kind_replicationcontroller};

/* What has the number of the pod's replicas: of a ReplicaSet that is a Deployment's, that one. */
static const struct object *scaled_of(const struct cache *cache, const struct object *pod)
{
    for (size_t i = 0; i < COUNT_OF(scaled_kinds); i++) {
        const struct object *found = owner_among(cache, pod, scaled_kinds[i]);
        const struct object_owner *owner = found ? object_controller(found) : NULL;

        if (found)
            return owner && str_is(owner->kind, kind_deployment.name)
                       ? owner_among(cache, found, &kind_deployment)
                       : found;
    }
    return NULL;
}

static void cover(struct covered *covered, const struct object *pod)
{
    const struct object *owner = scaled_of(covered->cache, pod);

    covered->pods++;
    if (!owner) {
        covered->alone |= !object_controller(pod);
        if (object_controller(pod) && !covered->stray)
            covered->stray = pod;
        return;
    }
    for (size_t i = 0; i < covered->scaled.count; i++)
        if (covered->scaled.items[i] == owner)
            return;
    VEC_PUSH(covered->actions->arena, &covered->scaled, owner);
}

/* A plain number of minAvailable is about the pods that are there; neither is about none. */
static bool is_about_scale(const struct json *spec)
{
    return !json_is_null(json_get(spec, "maxUnavailable")) ||
           is_share(json_get(spec, "minAvailable"));
}

/* Pods that are missing count: of a Deployment of ten that has three, none may go because two may
 * be away. */
static int64_t expected_of(const struct covered *covered, const struct json *spec)
{
    int64_t sum = 0;

    if (!is_about_scale(spec))
        return json_is_null(json_get(spec, "minAvailable")) ? 0 : covered->pods;
    for (size_t i = 0; i < covered->scaled.count; i++)
        sum += json_i64_or(json_at(object_json(covered->scaled.items[i], covered->actions->arena),
                                   "spec.replicas"),
                           1);
    return sum;
}

/* ---- pods ---- */

static bool is_ready(const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return !pod->deleted_ms &&
           condition_is_true(json_get(object_json(pod, &arena), "status"), "Ready");
}

/* Evicted, says the budget, and the pod does not show it yet: it is as good as gone. One that stays
 * for longer has been kept by somebody and counts again. Those that still count are kept in `ret`.
 */
static bool is_disrupted(struct actions *actions,
                         const struct json *disrupted,
                         const struct object *pod,
                         int64_t now_ms,
                         struct json *ret)
{
    struct str at = json_str(json_get_str(disrupted, pod->name));
    int64_t since_ms = 0;

    if (pod->deleted_ms || !time_parse(at, &since_ms) || now_ms >= since_ms + DISRUPTED_MS)
        return false;
    json_set(ret, pod->name, json_new_str(actions->arena, at));
    action_look_again(actions, since_ms + DISRUPTED_MS);
    return true;
}

/* Counts what the selector chooses, and how many of them are healthy. */
static void look(const struct control_input *input,
                 const struct object *budget,
                 const struct json *disrupted,
                 struct covered *covered,
                 struct json *still)
{
    const struct selector *selector = object_selector(budget);
    const struct object *pod = NULL;
    size_t cursor = 0;

    while (selector && (pod = cache_next(input->cache, &kind_pod, budget->ns, &cursor))) {
        if (!selector_matches(selector, pod->labels, pod->label_count))
            continue;
        cover(covered, pod);
        covered->healthy +=
            !is_disrupted(covered->actions, disrupted, pod, input->now_ms, still) && is_ready(pod);
    }
}

/* Why nobody says how many there should be of this pod: its controller is gone, or has no number. */
static struct str no_number(struct arena *arena, const struct object *pod)
{
    const struct object_owner *owner = object_controller(pod);
    struct str group = str_sub(owner->api_version, 0, str_find(owner->api_version, '/'));
    char *plural = str_c(arena, owner->kind);

    for (size_t i = 0; i < COUNT_OF(scaled_kinds); i++)
        if (str_is(owner->kind, scaled_kinds[i]->name))
            return str_printf(arena, "found no controllers for pod \"" STR_FMT "\"",
                              STR_ARG(pod->name));
    for (char *p = plural; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    return str_printf(arena, "%ss." STR_FMT " does not implement the scale subresource", plural,
                      STR_ARG(group));
}

/* Nobody can say how many pods there should be: until somebody can, none may go. */
static void fail_safe(const struct covered *covered, struct json *status, int64_t now_ms)
{
    struct arena *arena = covered->actions->arena;

    json_set(status, STR("disruptionsAllowed"), json_new_i64(arena, 0));
    condition_set(arena, status,
                  &(struct condition){"DisruptionAllowed", "False", "SyncFailed",
                                      no_number(arena, covered->stray)},
                  now_ms);
}

/* Once the status says it, somebody hears why it is not what he expected. */
static void warn(const struct covered *covered, const struct object *budget)
{
    struct actions *actions = covered->actions;

    if (covered->stray)
        action_warn(actions, budget, "CalculateExpectedPodCountFailed",
                    str_printf(actions->arena,
                               "Failed to calculate the number of expected pods: nobody says how "
                               "many there should be of the controller of pod \"" STR_FMT
                               "\". A number as minAvailable needs none.",
                               STR_ARG(covered->stray->name)));
    else if (covered->alone)
        action_warn(actions, budget, "UnmanagedPods",
                    STR("Pods that this PodDisruptionBudget selects have no controller that says "
                        "how many there should be, so they do not count. A number as minAvailable "
                        "counts them."));
}

static void tell_counts(const struct object *budget,
                        const struct covered *covered,
                        const struct json *spec,
                        struct json *still,
                        struct json *status,
                        int64_t now_ms)
{
    struct arena *arena = covered->actions->arena;
    int64_t expected = expected_of(covered, spec);
    int64_t desired = json_is_null(json_get(spec, "maxUnavailable"))
                          ? amount(json_get(spec, "minAvailable"), expected)
                          : expected - amount(json_get(spec, "maxUnavailable"), expected);
    if (desired < 0)
        desired = 0;
    int64_t allowed = covered->healthy > desired && expected ? covered->healthy - desired : 0;

    if (json_count(still))
        json_set(status, STR("disruptedPods"), still);
    else
        json_remove(status, STR("disruptedPods"));
    json_fill(arena, status,
              "{expectedPods: $, currentHealthy: $, desiredHealthy: $, "
              "disruptionsAllowed: $, observedGeneration: $}",
              expected, covered->healthy, desired, allowed, budget->generation);
    condition_set(arena, status,
                  &(struct condition){
                      .type = "DisruptionAllowed",
                      .status = allowed ? "True" : "False",
                      .reason = allowed ? "SufficientPods" : "InsufficientPods",
                      .message = STR(""),
                  },
                  now_ms);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *budget = cache_get(input->cache, &kind_pdb, key->ns, key->name);
    struct covered covered = {.actions = actions, .cache = input->cache};

    if (!budget || budget->deleted_ms)
        return;
    const struct json *root = object_json(budget, arena);
    const struct json *spec = json_get(root, "spec");
    struct json *still = json_new_object(arena);
    struct json *status = json_get(root, "status") ? json_clone(arena, json_get(root, "status"))
                                                   : json_new_object(arena);

    look(input, budget, json_at(root, "status.disruptedPods"), &covered, still);
    if (covered.stray && is_about_scale(spec))
        fail_safe(&covered, status, input->now_ms);
    else
        tell_counts(budget, &covered, spec, still, status, input->now_ms);
    struct json *patch = merge_diff(arena, json_get(root, "status"), status);
    if (!patch)
        return;
    struct json *body = json_new_object(arena);
    json_set(body, STR("status"), patch);
    action_patch_status(actions, budget, body);
    /* An eviction meanwhile has counted it down: that must not be undone. */
    actions->list.items[actions->list.count - 1].revision = budget->revision;
    if (is_about_scale(spec))
        warn(&covered, budget);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *budget = NULL;
    size_t cursor = 0;

    if (object->kind == &kind_pdb) {
        control_keys_add(ret, object->ns, object->name);
        return;
    }
    /* Another number of replicas shows in pods that come and go. */
    if (object->kind != &kind_pod)
        return;
    while ((budget = cache_next(cache, &kind_pdb, object->ns, &cursor))) {
        const struct selector *selector = object_selector(budget);

        if (selector && selector_matches(selector, object->labels, object->label_count))
            control_keys_add(ret, budget->ns, budget->name);
    }
}

static const struct kind *const watches[] = {&kind_pdb,
                                             &kind_pod,
                                             &kind_deployment,
                                             &kind_replicaset,
                                             &kind_statefulset,
                                             &kind_replicationcontroller,
                                             NULL};

const struct controller disruption_controller = {.name = "disruption",
                                                 .embedded = true,
                                                 .watches = watches,
                                                 .keys = keys,
                                                 .reconcile = reconcile};
