#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/group_name.h"

#include <stddef.h>
#include <string.h>

/* What stands for this program where others look for what it replaces.
 *
 * Pods that stand for parts of this program, in the places where the systems it replaces have
 * theirs, so that scripts that wait for those to be ready go on. They are objects only: nothing
 * runs in them, no node has them. Each is there, and ready, while its controller runs here. Who
 * looks at the pods of all namespaces does not see them: they are for who asks for them.
 *
 * A ConfigMap in which Kubeflow's Python client looks for the version of the trainer. */

static const struct {
    const char *ns;
    const char *name;
    const char *label;
    const char *value;
    const char *controller; /* that it stands for; NULL: the scheduler, which is always there */
} mirrors[] = {
    {"kubeflow", "training-operator", "control-plane", "kubeflow-training-operator", "pytorchjob"},
    {"kubeflow-trainer-system", "kubeflow-trainer-controller-manager", "app.kubernetes.io/name",
     "kubeflow-trainer", "trainjob"},
    {"kubeflow-trainer-system", "jobset-controller-manager", "app.kubernetes.io/name", "jobset",
     "jobset"},
    {"kai-scheduler", "scheduler", "app", "scheduler", NULL},
    {"kai-scheduler", "binder", "app", "binder", NULL},
    {"kai-scheduler", "podgrouper", "app", "podgrouper", "podgrouper"},
    {"kai-scheduler", "queuecontroller", "app", "queuecontroller", "podgroupstatus"},
};
#define MIRRORS COUNT_OF(mirrors)

#define VERSION_SPACE "kubeflow-system"
#define VERSION_NAME  "kubeflow-trainer-public"
#define VERSION       "v2.3.0" /* whose TrainJobs and runtimes are served */

static bool is_on(const struct control_input *input, const char *controller)
{
    for (size_t i = 0; controller && input->without && input->without[i]; i++)
        if (strcmp(input->without[i], controller) == 0)
            return false;
    return true;
}

static struct json *head(struct arena *arena, const char *kind, const char *name)
{
    return json_make(arena, "{apiVersion: 'v1', kind: $, metadata: {name: $}}", kind, name);
}

static struct json *make_pod(struct arena *arena, size_t index)
{
    struct json *body = head(arena, "Pod", mirrors[index].name);
    struct json *meta = json_get(body, "metadata");
    struct json *spec = json_add_object(arena, body, "spec");
    struct json *container =
        json_push(json_add_array(arena, spec, "containers"), json_new_object(arena));
    struct json *labels = json_add_object(arena, meta, "labels");

    json_add_c(arena, meta, "namespace", mirrors[index].ns);
    json_add_c(arena, labels, mirrors[index].label, mirrors[index].value);
    json_fill(arena, labels,
              "{app.kubernetes.io/managed-by: 'muster', " GROUP_STAND_IN ": 'true'}");
    json_fill(arena, meta, "{annotations: {" GROUP_MIRROR ": 'muster'}}");
    json_fill(arena, container, "{name: 'manager', image: 'muster'}");
    /* No process has to end: it goes at once, so that kubectl, which looks for it again after a
     * delete, finds nothing or one with another uid, and never one that is about to be replaced. */
    json_add_i64(arena, spec, "terminationGracePeriodSeconds", 0);
    return body;
}

static void be_ready(const struct control_input *input,
                     const struct object *pod,
                     struct actions *actions)
{
    static const char *const types[] = {"Initialized", "Ready", "ContainersReady", "PodScheduled"};
    struct arena *arena = actions->arena;
    struct json *patch = json_new_object(arena);
    struct json *status = json_add_object(arena, patch, "status");
    struct json *conditions = json_add_array(arena, status, "conditions");
    struct str now = time_text(arena, input->now_ms);

    if (str_is(json_str_at(object_json(pod, arena), "status.phase"), "Running"))
        return;
    json_add_c(arena, status, "phase", "Running");
    json_add_str(arena, status, "startTime", now);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        json_push(conditions, json_make(arena, "{type: $, status: 'True', lastTransitionTime: $}",
                                        types[i], now));
    }
    struct json *container =
        json_push(json_add_array(arena, status, "containerStatuses"), json_new_object(arena));
    json_fill(arena, container,
              "{name: 'manager', image: 'muster', imageID: '', ready: true, "
              "started: true, restartCount: 0}");
    json_add_str(arena, json_make_path(arena, container, "state.running"), "startedAt", now);
    action_patch_status(actions, pod, patch);
}

static void tell_version(const struct control_input *input, struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *place =
        cache_get(input->cache, &kind_namespace, STR(""), STR(VERSION_SPACE));

    if (!is_on(input, "trainjob") ||
        cache_get(input->cache, &kind_configmap, STR(VERSION_SPACE), STR(VERSION_NAME)))
        return;
    if (!place) {
        action_create(actions, &kind_namespace, head(arena, "Namespace", VERSION_SPACE));
        return;
    }
    if (place->deleted_ms)
        return;
    struct json *body = head(arena, "ConfigMap", VERSION_NAME);
    json_add_c(arena, json_get(body, "metadata"), "namespace", VERSION_SPACE);
    json_fill(arena, body, "{data: {kubeflow_trainer_version: $, served_by: 'muster'}}", VERSION);
    action_create(actions, &kind_configmap, body);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    (void)key;
    tell_version(input, actions);
    for (size_t i = 0; i < MIRRORS; i++) {
        struct str ns = str_from(mirrors[i].ns);
        const struct object *place = cache_get(input->cache, &kind_namespace, STR(""), ns);
        const struct object *pod =
            cache_get(input->cache, &kind_pod, ns, str_from(mirrors[i].name));
        bool on = is_on(input, mirrors[i].controller);

        if (pod && !str_is(object_annotation(pod, GROUP_MIRROR), "muster"))
            continue; /* somebody else's */
        /* One without the label is of an older program, and on a node that there is not. */
        if (pod && (!on || pod->deleted_ms || !object_label(pod, GROUP_STAND_IN).len))
            action_delete_now(actions, pod);
        else if (pod)
            be_ready(input, pod, actions);
        else if (on && !place)
            action_create(actions, &kind_namespace,
                          head(actions->arena, "Namespace", mirrors[i].ns));
        else if (on && !place->deleted_ms)
            action_create(actions, &kind_pod, make_pod(actions->arena, i));
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    struct str ns = object->kind == &kind_namespace ? object->name : object->ns;

    bool ours = str_is(ns, VERSION_SPACE);

    (void)cache;
    for (size_t i = 0; i < MIRRORS; i++)
        ours |= str_is(ns, mirrors[i].ns);
    if (ours)
        control_keys_add(ret, STR(""), STR(""));
}

static const struct kind *const watches[] = {&kind_pod, &kind_namespace, &kind_configmap, NULL};

const struct controller mirrors_controller = {.name = "mirrors",
                                              .at_start = true,
                                              .embedded = true,
                                              .watches = watches,
                                              .keys = keys,
                                              .reconcile = reconcile};
