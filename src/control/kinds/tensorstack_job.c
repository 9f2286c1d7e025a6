#include "control/kinds/tensorstack_job.h"

#include "api/decode.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/job/job_engine.h"
#include "control/kinds/kubeflow.h"
#include "control/kinds/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From a PyTorchTrainingJob to the engine's model. */

static const struct job_kind pytorchtrainingjob; /* has translate(), which reads with it */

static const struct decode_field replica_fields[] = {
    TENSORSTACK_REPLICA_FIELDS(struct tensorstack_replica)};
static const struct decode_table tensorstack_replica_table =
    DECODE_TABLE(struct tensorstack_replica, NULL, replica_fields);
static const struct decode_field debug_fields[] = {
    TENSORSTACK_DEBUG_FIELDS(struct tensorstack_start)};
static const struct decode_table tensorstack_debug_table =
    DECODE_TABLE(struct tensorstack_start, NULL, debug_fields);
static const struct decode_field start_fields[] = {
    TENSORSTACK_START_FIELDS(struct tensorstack_start)};
static const struct decode_table tensorstack_start_table =
    DECODE_TABLE(struct tensorstack_start, NULL, start_fields);
static const struct decode_field spec_fields[] = {TENSORSTACK_SPEC_FIELDS(struct tensorstack_spec)};
const struct decode_table tensorstack_spec_table =
    DECODE_TABLE(struct tensorstack_spec, NULL, spec_fields);

void tensorstack_spec_read(const struct json *spec,
                           struct arena *arena,
                           struct tensorstack_spec *ret)
{
    /* What is not said first, so that what is wrong has it too. */
    (void)decode_object(&tensorstack_spec_table, arena, json_make(arena, "{replicaSpecs: []}"), ret,
                        NULL);
    (void)decode_over(&tensorstack_spec_table, arena, spec, ret, NULL);
}

static bool is_retryable(int64_t exit_code)
{
    /* Interrupted, killed, ended; and the code by which a program asks for it. */
    return exit_code == 130 || exit_code == 137 || exit_code == 143 || exit_code == 138;
}

/* ---- sizes ---- */

void tensorstack_share(const int64_t *weights, size_t count, int64_t total, int64_t *ret)
{
    int64_t remainders[JOB_ROLES_MAX] = {0};
    int64_t sum = 0;
    int64_t given = 0;

    for (size_t i = 0; i < count; i++)
        sum += weights[i];
    for (size_t i = 0; i < count; i++) {
        ret[i] = sum ? total * weights[i] / sum : i ? 0 : total;
        remainders[i] = sum ? total * weights[i] % sum : 0;
        given += ret[i];
    }
    for (; given < total; given++) {
        size_t best = 0;

        for (size_t i = 1; i < count; i++)
            if (remainders[i] > remainders[best])
                best = i;
        ret[best]++;
        remainders[best] = -1;
    }
    size_t largest = 0;
    for (size_t i = 1; i < count; i++)
        if (ret[i] > ret[largest])
            largest = i;
    /* The master is the first pod of the first type: there has to be one. */
    if (total > 0 && ret[0] == 0) {
        ret[largest]--;
        ret[0]++;
    }
}

static void weigh(const struct tensorstack *t, int64_t weights[static JOB_ROLES_MAX])
{
    bool said = false;

    for (size_t i = 0; i < t->spec.replica_count; i++)
        said |= t->spec.replicas[i].weight > 0;
    for (size_t i = 0; i < t->spec.replica_count && i < JOB_ROLES_MAX; i++)
        weights[i] = said ? t->spec.replicas[i].weight : t->spec.replicas[i].count;
    /* There is one master, however many pods there are: tensorstack_share() sees to the one. */
    if (t->spec.replica_count > 1 && str_is(t->spec.replicas[0].type, "master"))
        weights[0] = 0;
}

static void resize(struct tensorstack *t, struct job_model *model)
{
    const struct tensorstack_spec *spec = &t->spec;
    int64_t weights[JOB_ROLES_MAX] = {0};
    int64_t counts[3][JOB_ROLES_MAX] = {{0}};
    int64_t wanted = spec->elastic && spec->expected >= 0 ? spec->expected : 0;

    for (size_t i = 0; i < model->roles.count; i++)
        wanted += spec->elastic && spec->expected >= 0 ? 0 : (int64_t)model->roles.items[i].count;
    t->min = spec->elastic ? spec->min : spec->min_nodes;
    t->min = t->min > 0 ? t->min : 1;
    t->max = spec->elastic && spec->max ? spec->max : wanted > t->min ? wanted : t->min;
    if (t->max > JOB_PODS_MAX)
        t->max = JOB_PODS_MAX;
    wanted = wanted < t->min ? t->min : wanted > t->max ? t->max : wanted;
    weigh(t, weights);
    const int64_t totals[] = {t->min, wanted, t->max};
    for (size_t i = 0; i < 3; i++)
        tensorstack_share(weights, model->roles.count, totals[i], counts[i]);
    for (size_t i = 0; i < model->roles.count; i++) {
        struct job_role *role = &model->roles.items[i];

        role->count = (size_t)counts[1][i];
        role->min = (size_t)(counts[0][i] < counts[1][i] ? counts[0][i] : counts[1][i]);
        role->max = (size_t)(counts[2][i] > counts[1][i] ? counts[2][i] : counts[1][i]);
        if (i == 0)
            role->done = JOB_DONE_ANY;
    }
}

/* ---- what runs ---- */

static struct json *training_container(const struct json *pod_spec)
{
    JSON_FOREACH(json_get(pod_spec, "containers"), container)
        if (str_is(json_str(json_get(container, "name")), "python"))
            return container;
    return json_first(json_get(pod_spec, "containers"));
}

static struct tensorstack_start of_type(const struct tensorstack_start *list,
                                        size_t count,
                                        struct str type)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i].type, type))
            return list[i];
    return (struct tensorstack_start){.type = type};
}

static struct json *words(struct arena *arena, const char *first, const char *second)
{
    struct json *list = json_new_array(arena);

    json_push(list, json_new_str(arena, str_from(first)));
    if (second)
        json_push(list, json_new_str(arena, str_from(second)));
    return list;
}

/* Debug: the pod as it will be, but nothing of the training runs in it. */
static void debug_role(const struct tensorstack *t, struct json *pod_spec, struct str type)
{
    struct arena *arena = t->arena;
    struct tensorstack_start how = of_type(t->spec.debugs, t->spec.debug_count, type);
    struct json *container = training_container(pod_spec);

    if (how.skip_init)
        json_remove(pod_spec, STR("initContainers"));
    json_set(container, STR("command"),
             json_count(how.command) ? json_clone(arena, how.command)
                                     : words(arena, "sleep", "inf"));
    json_remove(container, STR("args"));
}

/* Resumed: what resumeSpecs says instead. */
static void resume_role(const struct tensorstack *t, struct json *pod_spec, struct str type)
{
    struct tensorstack_start how = of_type(t->spec.resumes, t->spec.resume_count, type);
    struct json *container = training_container(pod_spec);

    if (how.skip_init)
        json_remove(pod_spec, STR("initContainers"));
    if (json_count(how.command))
        json_set(container, STR("command"), json_clone(t->arena, how.command));
    if (json_count(how.args))
        json_set(container, STR("args"), json_clone(t->arena, how.args));
}

static void add_flag(struct arena *arena, struct json *list, const char *flag, struct str value)
{
    json_push(list, json_new_str(arena, str_printf(arena, "--%s=" STR_FMT, flag, STR_ARG(value))));
}

static void torchrun_command(const struct tensorstack *t,
                             const struct job_model *model,
                             const struct job_pod *pod,
                             struct json *container)
{
    struct arena *arena = t->arena;
    const struct tensorstack_spec *spec = &t->spec;
    struct json *command = words(arena, "torchrun", NULL);
    struct str master = job_pod_name(model, &model->roles.items[0], 0, arena);

    add_flag(arena, command, "nnodes",
             t->elastic ? str_printf(arena, "%lld:%lld", (long long)t->min, (long long)t->max)
                        : str_printf(arena, "%zu", pod->pods));
    add_flag(arena, command, "nproc_per_node", spec->processes);
    add_flag(arena, command, "rdzv_backend", spec->backend);
    /* A store that the user runs is named in extraOptions. */
    if (!str_starts(spec->backend, STR("etcd")))
        add_flag(arena, command, "rdzv_endpoint",
                 str_printf(arena, STR_FMT ":%d", STR_ARG(master), TENSORSTACK_PORT));
    add_flag(arena, command, "rdzv_id",
             str_printf(arena, STR_FMT "-%lld", STR_ARG(model->object->uid),
                        (long long)(t->elastic ? 0 : pod->generation)));
    add_flag(arena, command, "max_restarts",
             str_printf(arena, "%lld", (long long)spec->torchrun_restarts));
    add_flag(arena, command, "role", pod->role->name);
    JSON_FOREACH(spec->options, option)
        json_push(command, json_clone(arena, option));
    JSON_FOREACH(json_get(container, "args"), word)
        json_push(command, json_clone(arena, word));
    json_set(container, STR("command"), command);
    json_remove(container, STR("args"));
    if (t->elastic)
        kubeflow_env_elastic(arena, list_at(arena, container, "env"));
}

/* In front of the user's own, so that $(MASTER_ADDR) there means something. */
static void rank_env(const struct job_model *model,
                     const struct job_pod *pod,
                     struct json *container,
                     struct arena *arena)
{
    const struct job_role *first = &model->roles.items[0];
    const struct json *own = json_get(container, "env");
    struct json *env = json_new_array(arena);

    kubeflow_env(arena, env, "MASTER_ADDR", job_pod_name(model, first, 0, arena));
    kubeflow_env_i64(arena, env, "MASTER_PORT", TENSORSTACK_PORT);
    kubeflow_env_i64(arena, env, "WORLD_SIZE", (int64_t)pod->pods);
    kubeflow_env_i64(arena, env, "RANK", (int64_t)kubeflow_rank(model, pod));
    JSON_FOREACH(own, entry)
        json_push(env, json_clone(arena, entry));
    json_set(container, STR("env"), env);
}

static void fill(const struct job_model *model,
                 const struct job_pod *pod,
                 struct json *body,
                 struct arena *arena)
{
    const struct tensorstack *t = model->front;
    struct json *spec = json_get(body, "spec");
    struct json *container = training_container(spec);
    struct str type = str_from(pod->role->type);

    if (t->spec.debug)
        debug_role(t, spec, type);
    else if (t->resumed)
        resume_role(t, spec, type);
    if (t->spec.torchrun && !t->spec.debug)
        torchrun_command(t, model, pod, container);
    else
        rank_env(model, pod, container, arena);
}

/* ---- the job ---- */

static struct str lower(struct arena *arena, struct str text)
{
    char *copy = str_c(arena, text);

    for (size_t i = 0; i < text.len; i++)
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] - 'A' + 'a');
    return (struct str){copy, text.len};
}

static struct json *port_list(struct arena *arena)
{
    struct json *ports = json_new_array(arena);
    struct json *port = json_push(ports, json_new_object(arena));

    json_fill(arena, port, "{name: 'master', port: $, targetPort: $}", TENSORSTACK_PORT,
              TENSORSTACK_PORT);
    return ports;
}

static struct json *copy_map(struct arena *arena, const struct json *map)
{
    return json_is(map, JSON_OBJECT) ? json_clone(arena, map) : json_new_object(arena);
}

static void add_role(struct tensorstack *t,
                     struct job_model *model,
                     const struct tensorstack_replica *replica)
{
    struct arena *arena = t->arena;
    struct json *spec = json_clone(arena, replica->pod_spec);
    struct str type = replica->type;
    int64_t count = replica->count;

    if (!json_count(json_get(spec, "containers")) || count < 0 || count > JOB_PODS_MAX) {
        kubeflow_problem(model, "InvalidReplicaSpec",
                         str_printf(arena,
                                    "spec.replicaSpecs: type \"" STR_FMT
                                    "\" needs template.spec.containers and 0 to %d replicas",
                                    STR_ARG(type), JOB_PODS_MAX));
        return;
    }
    json_add_c(arena, spec, "restartPolicy", "Never");
    if (t->spec.torchrun && !t->spec.debug &&
        json_count(json_get(training_container(spec), "command")))
        model->warning = str_printf(
            arena,
            "replicaSpecs[" STR_FMT "].template: command of container " STR_FMT
            " is left out, as torchrunConfig is enabled: torchrun runs args; put the script there",
            STR_ARG(type), STR_ARG(json_str(json_get(training_container(spec), "name"))));
    if (t->spec.queue.len && !json_get(spec, "schedulerName"))
        json_add_str(arena, spec, "schedulerName", t->input->config->scheduler_name);
    struct job_role role = {.name = lower(arena, type),
                            .type = str_c(arena, type),
                            .count = (size_t)count,
                            .min = (size_t)count,
                            .max = (size_t)count,
                            .labels = copy_map(arena, replica->labels),
                            .annotations = copy_map(arena, replica->annotations),
                            .pod_spec = spec,
                            .main = json_str(json_get(training_container(spec), "name")),
                            .restart = replica->restart == TENSORSTACK_EXIT_CODE
                                           ? JOB_RESTART_BY_EXIT
                                       : replica->restart == TENSORSTACK_NEVER ? JOB_RESTART_NEVER
                                                                               : JOB_RESTART_ALWAYS,
                            .done = model->roles.count ? JOB_DONE_NONE : JOB_DONE_FIRST,
                            .leads = !model->roles.count,
                            .ports = model->roles.count ? NULL : port_list(arena)};
    /* Nothing of a job that is looked into ends by itself. */
    if (t->spec.debug)
        role.restart = JOB_RESTART_ALWAYS;
    json_add_str(arena, role.labels, TENSORSTACK_ROLE, type);
    VEC_PUSH(arena, &model->roles, role);
}

static void read_policy(struct tensorstack *t, struct job_model *model)
{
    struct str scope = object_annotation(model->object, KUBEFLOW_SCOPE);

    model->suspend = t->spec.pause || t->switching;
    model->suspend_field = json_at(t->tree, "spec.runMode.pause.enabled")
                               ? "spec.runMode.pause.enabled"
                               : "spec.runMode.pause.enable";
    model->scope = str_is(scope, "pod") ? JOB_SCOPE_POD : JOB_SCOPE_GANG;
    model->max_restarts = t->spec.restarts;
    model->is_retryable = is_retryable;
    model->deadline_ms = t->spec.deadline_s * 1000;
    model->clean = t->spec.clean == TENSORSTACK_CLEAN_ALL          ? JOB_CLEAN_ALL
                   : t->spec.clean == TENSORSTACK_CLEAN_UNFINISHED ? JOB_CLEAN_RUNNING
                                                                   : JOB_CLEAN_NONE;
}

static void make_labels(const struct tensorstack *t, struct job_model *model)
{
    struct json *labels = json_new_object(t->arena);
    struct str queue = t->spec.queue;

    json_add_str(t->arena, labels, TENSORSTACK_OWNER, model->object->name);
    json_add_str(t->arena, labels, JOB_LABEL_NAME, model->object->name);
    if (queue.len)
        json_set(labels, t->input->config->queue_label_key, json_new_str(t->arena, queue));
    model->labels = labels;
}

static void translate(const struct control_input *input,
                      const struct object *object,
                      struct arena *arena,
                      struct job_model *ret)
{
    struct tensorstack *t = ARENA_NEW(arena, struct tensorstack);

    *t = (struct tensorstack){.input = input, .arena = arena, .tree = object_json(object, arena)};
    tensorstack_spec_read(json_get(t->tree, "spec"), arena, &t->spec);
    t->status = job_recall(&pytorchtrainingjob, object, arena).known;
    t->elastic = t->spec.torchrun && (t->spec.elastic || t->spec.min_nodes > 0);
    t->resumed = !t->spec.pause && (json_bool_or(json_get(t->status, "resumed"), false) ||
                                    str_is(json_str(json_get(t->status, "phase")), "Paused"));
    struct str mode = json_str(json_get(t->status, "mode"));
    size_t cursor = 0;
    t->switching = mode.len && str_is(mode, "debug") != t->spec.debug &&
                   cache_next_owned(input->cache, &kind_pod, object->uid, &cursor);
    ret->front = t;
    ret->fill = fill;
    read_policy(t, ret);
    make_labels(t, ret);
    for (size_t i = 0; i < t->spec.replica_count && i < JOB_ROLES_MAX; i++)
        add_role(t, ret, &t->spec.replicas[i]);
    if (!ret->roles.count)
        kubeflow_problem(ret, "NoReplicas", STR("spec.replicaSpecs: name at least one type"));
    else if (t->elastic)
        resize(t, ret);
    tensorstack_tensorboard(t, ret);
}

/* What translate() reads, and what restarts are charged by. */
static const char *const remembers[] = {"resumed", "mode", "backoffCount", NULL};

static const struct job_kind pytorchtrainingjob = {.kind = &kind_pytorchtrainingjob,
                                                   .engine = "engine",
                                                   .remembers = remembers,
                                                   .translate = translate,
                                                   .read = tensorstack_read,
                                                   .write = tensorstack_write};

/* ---- the controller ---- */

/* A gang's priority is a number here and a class to the scheduler. */
static void keep_class(const struct control_input *input,
                       const struct control_key *key,
                       struct actions *actions)
{
    struct arena *arena = actions->arena;
    const struct object *job =
        cache_get(input->cache, &kind_pytorchtrainingjob, key->ns, key->name);

    if (!job || job->deleted_ms)
        return;
    struct tensorstack_spec spec;
    tensorstack_spec_read(json_get(object_json(job, arena), "spec"), arena, &spec);
    struct str name = str_printf(arena, TENSORSTACK_CLASS_PREFIX "%lld", (long long)spec.priority);
    if (!spec.queue.len || cache_get(input->cache, &kind_priorityclass, STR(""), name))
        return;
    struct json *body = json_make(
        arena,
        "{apiVersion: 'scheduling.k8s.io/v1', kind: $, metadata: {name: $}, "
        "value: $, "
        "description: 'Priority of PyTorchTrainingJobs, from 0 to 100; always preemptible'}",
        kind_priorityclass.name, name, spec.priority);
    action_create(actions, &kind_priorityclass, body);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    keep_class(input, key, actions);
    job_reconcile(input, &pytorchtrainingjob, key, actions);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind != &kind_priorityclass)
        job_keys(&kind_pytorchtrainingjob, cache, object, ret);
}

static const struct kind *const watches[] = {
    &kind_pytorchtrainingjob, &kind_pod,           &kind_service,     &kind_node,
    &kind_podgroup,           &kind_priorityclass, &kind_tensorboard, NULL};

const struct controller tensorstack_job_controller = {.name = "pytorchtrainingjob",
                                                      .kind = &kind_pytorchtrainingjob,
                                                      .watches = watches,
                                                      .keys = keys,
                                                      .reconcile = reconcile};
