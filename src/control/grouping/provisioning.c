#include "api/autoscale.h"
#include "api/condition.h"
#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
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
#include "control/core/owner.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ProvisioningRequests: a gang that waits for nodes asks Cluster Autoscaler for all of them at once, or none.
 * Were each pod to ask for itself, nodes would come one by one, and where there are not enough for the gang
 * those that came would stand idle.
 *
 * The request has the name of the pod group, which owns it, and a PodTemplate for each form that its pods
 * have. It is there as long as every pod of the gang lacks nodes, by the condition that autoscalers go by
 * (api/autoscale.h), and goes when that ends: whoever has its nodes, or may not have any for now, keeps none
 * from others. The pods name it, so that nobody adds nodes for them a second time. The kind is Cluster
 * Autoscaler's: it is found by its name, and where there is none nothing is asked.
 *
 * A key is a pod group. */

#define VERSION   "autoscaling.x-k8s.io/v1"
#define KIND      "ProvisioningRequest"
#define CONSUMES  "autoscaling.x-k8s.io/consume-provisioning-request"
#define CLASS     "autoscaling.x-k8s.io/provisioning-class-name"
#define SETTLE_MS 500    /* why they wait is told pod by pod */
#define AGAIN_MS  600000 /* what could not be had is asked for anew; a reservation lasts as long */
#define FORMS_MAX 32     /* podSets of a request, by its schema */

struct form {
    struct json *template;
    struct str name; /* of the PodTemplate */
    int64_t count;
};

struct gang {
    const struct control_input *input;
    struct actions *actions;
    const struct object *group;
    VEC(const struct object *) pods; /* that have not ended */
    struct form forms[FORMS_MAX];
    size_t form_count;
};

static bool lacks_nodes(const struct json *pod)
{
    const struct json *told = condition_find(json_get(pod, "status"), "PodScheduled");

    return !json_str_at(pod, "spec.nodeName").len &&
           !json_str_at(pod, "status.nominatedNodeName").len &&
           str_is(json_str(json_get(told, "status")), "False") &&
           str_is(json_str(json_get(told, "reason")), AUTOSCALE_WANTS_NODES);
}

/* All of a gang of several pods lack nodes. */
static bool waits(struct gang *gang)
{
    struct arena *arena = gang->actions->arena;
    const struct json *group = object_json(gang->group, arena);
    int64_t least = group_minimum(json_get(group, "spec"));
    const struct object *pod;
    size_t cursor = 0;
    bool all = true;

    while ((pod = cache_next_grouped(gang->input->cache, &kind_pod, gang->group->name, &cursor))) {
        const struct json *root = object_tree(pod, arena);
        struct str phase = json_str_at(root, "status.phase");

        if (!str_eq(pod->ns, gang->group->ns) || pod->deleted_ms || str_is(phase, "Succeeded") ||
            str_is(phase, "Failed"))
            continue;
        all = all && lacks_nodes(root);
        VEC_PUSH(arena, &gang->pods, pod);
    }
    return all && least > 1 && (int64_t)gang->pods.count >= least;
}

/* ---- what is asked for ---- */

static void copy_members(struct arena *arena,
                         struct json *to,
                         const struct json *from,
                         const char *const *names,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (json_get(from, names[i]))
            json_set(to, str_from(names[i]), json_clone(arena, json_get(from, names[i])));
}

static void copy_containers(struct arena *arena,
                            struct json *to,
                            const struct json *from,
                            const char *which)
{
    static const char *const names[] = {"name", "image", "resources", "ports", "restartPolicy"};

    if (!json_count(json_get(from, which)))
        return;
    struct json *list = json_add_array(arena, to, which);
    JSON_FOREACH(json_get(from, which), container)
        copy_members(arena, json_push(list, json_new_object(arena)), container, names,
                     COUNT_OF(names));
}

/* Of a pod what decides where it may be. */
static struct json *spec_of(const struct json *from, struct arena *arena)
{
    static const char *const names[] = {"nodeSelector",      "affinity",
                                        "tolerations",       "topologySpreadConstraints",
                                        "priorityClassName", "overhead"};
    struct json *spec = json_new_object(arena);

    copy_containers(arena, spec, from, "initContainers");
    copy_containers(arena, spec, from, "containers");
    copy_members(arena, spec, from, names, COUNT_OF(names));
    return spec;
}

/* Pods of one form are counted; what others' affinity may ask of their labels is the first one's. False: they
 * have more forms than a request has room for. */
static bool find_forms(struct gang *gang)
{
    struct arena *arena = gang->actions->arena;

    for (size_t i = 0; i < gang->pods.count; i++) {
        const struct object *pod = gang->pods.items[i];
        struct json *spec = spec_of(json_get(object_json(pod, arena), "spec"), arena);
        size_t k = 0;

        while (k < gang->form_count && !json_equal(json_get(gang->forms[k].template, "spec"), spec))
            k++;
        if (k == FORMS_MAX)
            return false;
        if (k == gang->form_count) {
            struct json *template = json_make(arena, "{metadata: {labels: {}}, spec: $}", spec);

            arena_defer(arena, object_release, object_ref(pod));
            for (size_t label = 0; label < pod->label_count; label++)
                json_set(json_at(template, "metadata.labels"), pod->labels[label].key,
                         json_new_str(arena, pod->labels[label].value));
            gang->forms[gang->form_count++] =
                (struct form){.template = template,
                              .name = str_printf(arena, STR_FMT "-%08x", STR_ARG(gang->group->name),
                                                 (uint32_t)str_hash(json_text(arena, spec), 0))};
        }
        gang->forms[k].count++;
    }
    return true;
}

static void ask(struct gang *gang, const struct kind *kind)
{
    struct arena *arena = gang->actions->arena;
    struct json *request = owner_make(arena, gang->group, kind, gang->group->name);
    struct json *sets;

    if (!find_forms(gang))
        return; /* its pods ask for themselves */
    json_fill(arena, request, "{spec: {provisioningClassName: $, podSets: []}}",
              gang->input->config->provisioning_class);
    sets = json_at(request, "spec.podSets");
    for (size_t i = 0; i < gang->form_count; i++) {
        const struct form *form = &gang->forms[i];
        struct json *template = owner_make(arena, gang->group, &kind_podtemplate, form->name);

        json_set(template, STR("template"), form->template);
        action_create(gang->actions, &kind_podtemplate, template);
        json_push(sets, json_make(arena, "{podTemplateRef: {name: $}, count: $}", form->name,
                                  form->count));
    }
    action_create(gang->actions, kind, request);
}

/* They name the request, and nothing any more once nobody asks for them: each asks for itself again then. */
static void tell_pods(struct gang *gang, bool asked)
{
    struct arena *arena = gang->actions->arena;
    struct str name = str_dup(arena, gang->group->name);

    for (size_t i = 0; i < gang->pods.count; i++) {
        const struct object *pod = gang->pods.items[i];
        bool told = str_eq(object_annotation(pod, CONSUMES), name);

        if (told == asked || json_str_at(object_tree(pod, arena), "spec.nodeName").len)
            continue;
        action_patch(gang->actions, pod,
                     asked ? json_make(arena,
                                       "{metadata: {annotations: {" CONSUMES ": $, " CLASS ": $}}}",
                                       name, gang->input->config->provisioning_class)
                           : json_make(arena, "{metadata: {annotations: {" CONSUMES ": null, " CLASS
                                              ": null}}}"));
    }
}

/* When the request came to nothing; 0: it has not. */
static int64_t over_since(const struct json *request)
{
    static const char *const ends[] = {"Failed", "BookingExpired", "CapacityRevoked"};
    int64_t since_ms = 0;

    for (size_t i = 0; !since_ms && i < COUNT_OF(ends); i++)
        if (condition_is_true(json_get(request, "status"), ends[i]))
            (void)time_parse(json_str(json_get(condition_find(json_get(request, "status"), ends[i]),
                                               "lastTransitionTime")),
                             &since_ms);
    return since_ms;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct gang gang = {.input = input,
                        .actions = actions,
                        .group = cache_get(input->cache, &kind_podgroup, key->ns, key->name)};

    if (!gang.group || gang.group->deleted_ms)
        return; /* what it owns goes with it */
    arena_defer(actions->arena, object_release, object_ref(gang.group));
    const struct kind *kind =
        input->kinds ? kinds_by_name(input->kinds, STR(VERSION), STR(KIND)) : NULL;
    bool wanted = waits(&gang);
    if (!kind) {
        if (wanted && input->learns)
            action_learn(actions, STR(VERSION), STR(KIND));
        return;
    }
    if (input->is_watched && !input->is_watched(input->user, kind)) {
        action_watch(actions, kind);
        return;
    }
    const struct object *request = cache_get(input->cache, kind, key->ns, key->name);
    if (request && !(request->owner_count && str_eq(request->owners[0].uid, gang.group->uid)))
        return; /* somebody else's */
    int64_t over_ms = request ? over_since(object_json(request, actions->arena)) : 0;
    if (request && !request->deleted_ms &&
        (!wanted || (over_ms && input->now_ms >= over_ms + AGAIN_MS)))
        action_delete(actions, request);
    else if (over_ms)
        action_look_again(actions, over_ms + AGAIN_MS);
    else if (wanted && !request)
        ask(&gang, kind);
    else
        tell_pods(&gang, wanted);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind != &kind_pod) /* a request has the name of its group */
        control_keys_add(ret, object->ns, object->name);
    else if (object->group.len)
        control_keys_add(ret, object->ns, object->group);
}

static int64_t settle(const struct cache *cache, const struct control_key *key)
{
    (void)cache;
    (void)key;
    return SETTLE_MS;
}

static bool is_wanted(const struct control_config *config)
{
    return config->provisioning_class.len > 0;
}

static const struct kind *const watches[] = {&kind_podgroup, &kind_pod, NULL};

const struct controller provisioning_controller = {.name = "provisioning",
                                                   .is_wanted = is_wanted,
                                                   .kind = &kind_podgroup,
                                                   .settle = settle,
                                                   .watches = watches,
                                                   .keys = keys,
                                                   .reconcile = reconcile};
