#include "control/kinds/kubeflow.h"

#include "api/decode.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/training.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/control.h"
#include "control/job/job.h"
#include "control/kinds/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From an object of kubeflow.org to the engine's model. */

#define BACKOFF_FIRST_MS 10000 /* as a kubelet waits before it starts a container again */
#define RETRYABLE_EXIT   128   /* and above: the container was ended by a signal */
#define MANAGER          "kubeflow.org/training-operator"
#define MANAGER_MPI      "kubeflow.org/mpi-operator"

static const struct decode_field policy_fields[] = {KUBEFLOW_POLICY_FIELDS(struct kubeflow_policy)};
const struct decode_table kubeflow_policy_table =
    DECODE_TABLE(struct kubeflow_policy, "runPolicy", policy_fields);
static const struct decode_field replicas_fields[] = {
    KUBEFLOW_REPLICAS_FIELDS(struct kubeflow_replicas)};
const struct decode_table kubeflow_replicas_table =
    DECODE_TABLE(struct kubeflow_replicas, NULL, replicas_fields);

void kubeflow_problem(struct job_model *model, const char *reason, struct str message)
{
    if (!model->problem.condition)
        model->problem = (struct job_problem){"InvalidSpec", reason, message};
}

/* ---- environment ---- */

void kubeflow_env(struct arena *arena, struct json *env, const char *name, struct str value)
{
    json_push(env, json_make(arena, "{name: $, value: $}", name, value));
}

void kubeflow_env_i64(struct arena *arena, struct json *env, const char *name, int64_t value)
{
    kubeflow_env(arena, env, name, str_printf(arena, "%lld", (long long)value));
}

void kubeflow_env_elastic(struct arena *arena, struct json *env)
{
    JSON_FOREACH(env, entry)
        if (str_is(json_str(json_get(entry, "name")), KUBEFLOW_ENV_OWN_STORE))
            return;
    kubeflow_env(arena, env, KUBEFLOW_ENV_OWN_STORE, STR("1"));
}

/* ---- looking things up ---- */

static struct str lower(struct arena *arena, const char *word)
{
    char *text = str_c(arena, str_from(word));

    for (char *p = text; *p; p++)
        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
    return str_from(text);
}

struct job_role *kubeflow_role(const struct job_model *model, const char *type)
{
    for (size_t i = 0; i < model->roles.count; i++) {
        struct job_role *role = &model->roles.items[i];

        if (strcmp(role->type, type) == 0)
            return role;
    }
    return NULL;
}

size_t kubeflow_rank(const struct job_model *model, const struct job_pod *pod)
{
    size_t rank = pod->index;

    for (const struct job_role *role = model->roles.items; role != pod->role; role++)
        rank += role->count;
    return rank;
}

struct json *kubeflow_container(const struct kubeflow *k, const struct json *pod_spec)
{
    struct json *containers = json_get(pod_spec, "containers");

    JSON_FOREACH(containers, container)
        if (k->kind->training->container &&
            str_is(json_str(json_get(container, "name")), k->kind->training->container))
            return container;
    return json_first(containers);
}

int64_t kubeflow_port(const struct kubeflow *k, const struct job_role *role)
{
    const struct json *container = kubeflow_container(k, role->pod_spec);

    JSON_FOREACH(json_get(container, "ports"), port)
        if (str_is(json_str(json_get(port, "name")), k->kind->training->port_name))
            return json_i64_or(json_get(port, "containerPort"), k->kind->training->port);
    return k->kind->training->port;
}

/* ---- a role ---- */

/* The training's port is declared where the template does not, and every port it declares is one
 * of the pod's service. */
static struct json *ports_of(const struct kubeflow *k, struct json *pod_spec)
{
    struct arena *arena = k->arena;
    struct json *container = kubeflow_container(k, pod_spec);
    struct json *declared = list_at(arena, container, "ports");
    struct json *ports = json_new_array(arena);
    bool there = false;

    JSON_FOREACH(declared, port)
        there = there || str_is(json_str(json_get(port, "name")), k->kind->training->port_name);
    if (!there)
        json_push(declared, json_make(arena, "{name: $, containerPort: $}",
                                      k->kind->training->port_name, k->kind->training->port));
    JSON_FOREACH(declared, port) {
        int64_t number = json_i64_or(json_get(port, "containerPort"), 0);
        struct str name = json_str(json_get(port, "name"));

        if (!name.len) /* a service tells its ports apart by their names */
            name = str_printf(arena, "port-%lld", (long long)number);
        json_push(ports,
                  json_make(arena, "{name: $, port: $, targetPort: $}", name, number, number));
    }
    return ports;
}

static enum job_restart restart_of(struct str policy)
{
    if (str_is(policy, "Never"))
        return JOB_RESTART_NEVER;
    return str_is(policy, "ExitCode") ? JOB_RESTART_BY_EXIT : JOB_RESTART_ALWAYS;
}

/* A pod that is restarted with its gang, or by its exit status, ends when its container does. */
static const char *pod_restart(const struct job_model *model, struct str policy)
{
    if (model->scope == JOB_SCOPE_GANG || str_is(policy, "ExitCode") || str_is(policy, "Never"))
        return "Never";
    return str_is(policy, "Always") ? "Always" : "OnFailure";
}

static struct json *strings(struct arena *arena, const struct json *map)
{
    return json_is(map, JSON_OBJECT) ? json_clone(arena, map) : json_new_object(arena);
}

static void add_role(struct kubeflow *k, struct job_model *model, const char *type)
{
    struct arena *arena = k->arena;
    const struct json *entry = json_get(json_get(k->spec, k->kind->training->specs), type);
    struct kubeflow_replicas replicas = {0};
    struct err err = {0};

    if (!entry)
        return;
    if (decode_object(&kubeflow_replicas_table, arena, entry, &replicas, &err) < 0 ||
        !json_count(json_at(replicas.template, "spec.containers"))) {
        kubeflow_problem(model, "InvalidReplicaSpec",
                         str_printf(arena, "spec.%s.%s.%s", k->kind->training->specs, type,
                                    err.text[0] ? err.text : "template: has no containers"));
        return;
    }
    if (!replicas.restart.len)
        replicas.restart = str_from(k->kind->training->restart);
    if (replicas.replicas < 0)
        replicas.replicas = 1;
    struct json *pod_spec = json_clone(arena, json_get(replicas.template, "spec"));
    if (json_get(pod_spec, "restartPolicy"))
        model->warning = str_printf(arena,
                                    "%s: restartPolicy of the pod template is overridden by the "
                                    "one of the replica spec",
                                    type);
    if (str_is(replicas.restart, "Always") && model->scope == JOB_SCOPE_GANG)
        model->warning = str_printf(arena,
                                    "%s: restartPolicy Always is OnFailure: a pod whose container "
                                    "ends with 0 has succeeded, and is not restarted",
                                    type);
    json_add_c(arena, pod_spec, "restartPolicy", pod_restart(model, replicas.restart));
    if (k->policy.priority_class.len && !json_get(pod_spec, "priorityClassName"))
        json_add_str(arena, pod_spec, "priorityClassName", k->policy.priority_class);
    struct job_role role = {
        .name = lower(arena, type),
        .type = type,
        .count = (size_t)replicas.replicas,
        .min = (size_t)replicas.replicas,
        .max = (size_t)replicas.replicas,
        .labels = strings(arena, json_at(replicas.template, "metadata.labels")),
        .annotations = strings(arena, json_at(replicas.template, "metadata.annotations")),
        .pod_spec = pod_spec,
        .ports = k->kind->training->port_name ? ports_of(k, pod_spec) : NULL,
        .main = json_str(json_get(kubeflow_container(k, pod_spec), "name")),
        .restart = restart_of(replicas.restart),
        .done = JOB_DONE_NONE,
    };
    json_add_str(arena, role.labels, KUBEFLOW_LABEL_TYPE, role.name);
    VEC_PUSH(arena, &model->roles, role);
}

/* Whose end is the job's: the chief's, or that of all workers. */
static void choose_chief(const struct kubeflow *k, const struct job_model *model)
{
    struct job_role *chief = NULL;

    for (size_t i = 0; !chief && k->kind->training->chiefs[i]; i++)
        chief = kubeflow_role(model, k->kind->training->chiefs[i]);
    if (!chief)
        chief = kubeflow_role(model, "Worker");
    if (!chief)
        return;
    chief->done = JOB_DONE_ALL;
    chief->leads = true;
}

/* ---- a pod ---- */

static void fill(const struct job_model *model,
                 const struct job_pod *pod,
                 struct json *body,
                 struct arena *arena)
{
    const struct kubeflow *k = model->front;
    struct json *labels = json_at(body, "metadata.labels");
    struct json *spec = json_get(body, "spec");
    struct json *training = kubeflow_container(k, spec);
    struct json *env = json_new_array(arena);

    json_add_str(arena, labels, KUBEFLOW_LABEL_INDEX, str_printf(arena, "%zu", pod->index));
    if (pod->role->leads && pod->index == 0)
        json_add_c(arena, labels, KUBEFLOW_LABEL_ROLE, "master");
    k->kind->env(k, model, pod, env, arena);
    JSON_FOREACH(json_get(spec, "containers"), container) {
        if (k->kind->env_for_training_only && container != training)
            continue;
        JSON_FOREACH(env, entry)
            json_push(list_at(arena, container, "env"), json_clone(arena, entry));
    }
    if (k->kind->fill)
        k->kind->fill(k, pod, body, arena);
}

/* ---- the job ---- */

static bool is_retryable(int64_t exit_code)
{
    return exit_code >= RETRYABLE_EXIT;
}

static void read_policy(struct kubeflow *k, struct job_model *model)
{
    const struct kubeflow_policy *policy = &k->policy;
    struct str scope = object_annotation(k->job, KUBEFLOW_SCOPE);
    bool alone = scope.len ? str_is(scope, "pod") : k->kind->each_alone;

    model->ignore = policy->managed_by.len && !str_is(policy->managed_by, MANAGER) &&
                    !str_is(policy->managed_by, MANAGER_MPI);
    model->suspend = policy->suspend;
    model->suspend_field = "spec.runPolicy.suspend";
    model->scope = alone ? JOB_SCOPE_POD : JOB_SCOPE_GANG;
    model->max_restarts = policy->backoff;
    model->is_retryable = is_retryable;
    model->backoff_first_ms = BACKOFF_FIRST_MS;
    model->deadline_ms = policy->deadline_seconds * 1000;
    model->waiting_counts = true;
    model->ttl_ms = policy->ttl_seconds < 0 ? -1 : policy->ttl_seconds * 1000;
    struct str clean = policy->clean.len ? policy->clean : str_from(k->kind->training->clean);
    model->clean = str_is(clean, "All")       ? JOB_CLEAN_ALL
                   : str_is(clean, "Running") ? JOB_CLEAN_RUNNING
                   : str_is(clean, "None")    ? JOB_CLEAN_NONE
                                              : JOB_CLEAN_FAILED;
    model->tell_objects = true;
}

struct str kubeflow_operator(const struct kubeflow *k, struct arena *arena)
{
    return str_printf(arena, "%s-controller", k->kind->training->kind->singular);
}

static void make_labels(const struct kubeflow *k, struct job_model *model)
{
    struct json *labels = json_new_object(k->arena);
    struct str key = k->input->config->queue_label_key;

    json_fill(k->arena, labels,
              "{" KUBEFLOW_LABEL_OPERATOR ": $, " KUBEFLOW_LABEL_JOB ": $, " JOB_LABEL_NAME ": $}",
              kubeflow_operator(k, k->arena), k->job->name, k->job->name);
    /* The label of the job is the pod grouper's to see; this says it in the older words. */
    if (k->policy.queue.len && !object_label(k->job, str_c(k->arena, key)).len)
        json_set(labels, key, json_new_str(k->arena, k->policy.queue));
    model->labels = labels;
}

void kubeflow_translate(const struct kubeflow_kind *kind,
                        const struct control_input *input,
                        const struct object *object,
                        struct arena *arena,
                        struct job_model *ret)
{
    struct kubeflow *k = ARENA_NEW(arena, struct kubeflow);
    const struct json *root = object_json(object, arena);
    struct err err = {0};

    *k = (struct kubeflow){.kind = kind,
                           .input = input,
                           .arena = arena,
                           .job = object,
                           .spec = json_get(root, "spec")};
    ret->front = k;
    if (decode_object(&kubeflow_policy_table, arena, k->spec, &k->policy, &err) < 0) {
        k->policy = (struct kubeflow_policy){.ttl_seconds = -1, .backoff = -1};
        kubeflow_problem(ret, "InvalidRunPolicy", str_printf(arena, "spec.%s", err.text));
    }
    read_policy(k, ret);
    make_labels(k, ret);
    for (size_t i = 0; kind->training->roles[i]; i++)
        add_role(k, ret, kind->training->roles[i]);
    if (!ret->roles.count)
        kubeflow_problem(
            ret, "NoReplicas",
            str_printf(arena, "spec.%s has no replica type of this kind", kind->training->specs));
    choose_chief(k, ret);
    ret->fill = fill;
    if (kind->adjust && !ret->problem.condition)
        kind->adjust(k, ret);
}

void kubeflow_autoscale(struct kubeflow *k,
                        struct job_model *model,
                        const struct job_role *role,
                        const struct json *metrics)
{
    struct json *body = json_new_object(k->arena);
    struct json *spec = json_add_object(k->arena, body, "spec");
    struct json *target = json_add_object(k->arena, spec, "scaleTargetRef");
    char version[KIND_API_VERSION_BYTES];

    if (!json_count(metrics))
        return;
    json_fill(k->arena, target, "{apiVersion: $, kind: $, name: $}",
              str_dup(k->arena, kind_api_version(k->kind->training->kind, version)),
              k->kind->training->kind->name, k->job->name);
    json_fill(k->arena, spec, "{minReplicas: $, maxReplicas: $, metrics: $}", (int64_t)role->min,
              (int64_t)role->max, json_clone(k->arena, metrics));
    VEC_PUSH(k->arena, &model->extras,
             (struct job_extra){
                 .kind = &kind_hpa, .name = k->job->name, .body = body, .while_active = true});
}
