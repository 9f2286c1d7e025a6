#include "control/tensorstack_job.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/action.h"
#include "control/control.h"
#include "control/controllers.h"
#include "control/kubeflow.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From a PyTorchTrainingJob to the engine's model. */

bool tensorstack_is_on(const struct json *object)
{
    return json_bool_or(json_get(object, "enabled"), false) ||
           json_bool_or(json_get(object, "enable"), false);
}

struct str tensorstack_queue(const struct json *spec)
{
    const struct json *scheduler = json_at(spec, "scheduler.t9kScheduler");
    struct str queue = json_str(json_get(scheduler, "queue"));

    return queue.len ? queue : json_str(json_get(scheduler, "Queue"));
}

int64_t tensorstack_priority(const struct json *spec)
{
    int64_t value =
        json_i64_or(json_at(spec, "scheduler.t9kScheduler.priority"), TENSORSTACK_PRIORITY);

    return value < 0 ? 0 : value > 100 ? 100 : value;
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
    size_t index = 0;
    bool said = false;

    JSON_FOREACH(json_get(t->spec, "replicaSpecs"), entry)
        said |= json_i64_or(json_get(entry, "scalingWeight"), 0) > 0;
    JSON_FOREACH(json_get(t->spec, "replicaSpecs"), entry) {
        if (index == JOB_ROLES_MAX)
            return;
        weights[index++] = said ? json_i64_or(json_get(entry, "scalingWeight"), 0)
                                : json_i64_or(json_get(entry, "replicas"), 1);
    }
}

static void resize(struct tensorstack *t, struct job_model *model)
{
    const struct json *elastic = json_get(t->spec, "elastic");
    int64_t weights[JOB_ROLES_MAX] = {0};
    int64_t counts[3][JOB_ROLES_MAX] = {{0}};
    int64_t wanted = json_i64_or(json_get(elastic, "expectedReplicas"), 0);

    for (size_t i = 0; i < model->roles.count; i++)
        wanted += json_get(elastic, "expectedReplicas") ? 0 : (int64_t)model->roles.items[i].count;
    t->min = json_i64_or(json_get(elastic, "minReplicas"), 1);
    t->max = json_i64_or(json_get(elastic, "maxReplicas"), wanted > t->min ? wanted : t->min);
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

static const struct json *of_type(const struct json *list, struct str type)
{
    JSON_FOREACH(list, entry)
        if (str_eq(json_str(json_get(entry, "type")), type))
            return entry;
    return NULL;
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
    const struct json *how = of_type(json_at(t->spec, "runMode.debug.replicaSpecs"), type);
    struct json *container = training_container(pod_spec);
    const struct json *command = json_get(how, "command");

    if (json_bool_or(json_get(how, "skipInitContainer"), false))
        json_remove(pod_spec, STR("initContainers"));
    json_set(container, STR("command"),
             json_count(command) ? json_clone(arena, command) : words(arena, "sleep", "inf"));
    json_remove(container, STR("args"));
}

/* Resumed: what resumeSpecs says instead. */
static void resume_role(const struct tensorstack *t, struct json *pod_spec, struct str type)
{
    static const char *const fields[] = {"command", "args"};
    const struct json *how = of_type(json_at(t->spec, "runMode.pause.resumeSpecs"), type);
    struct json *container = training_container(pod_spec);

    if (json_bool_or(json_get(how, "skipInitContainer"), false))
        json_remove(pod_spec, STR("initContainers"));
    for (size_t i = 0; i < 2; i++)
        if (json_count(json_get(how, fields[i])))
            json_set(container, str_from(fields[i]),
                     json_clone(t->arena, json_get(how, fields[i])));
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
    const struct json *config = json_get(t->spec, "torchrunConfig");
    struct json *command = words(arena, "torchrun", NULL);
    struct str backend = json_str(json_get(config, "rdzvBackend"));
    struct str processes = json_str(json_get(config, "procPerNode"));
    struct str master = job_pod_name(model, &model->roles.items[0], 0, arena);

    if (!backend.len)
        backend = STR("c10d");
    add_flag(arena, command, "nnodes",
             t->elastic ? str_printf(arena, "%lld:%lld", (long long)t->min, (long long)t->max)
                        : str_printf(arena, "%zu", pod->pods));
    add_flag(arena, command, "nproc_per_node", processes.len ? processes : STR("1"));
    add_flag(arena, command, "rdzv_backend", backend);
    /* A store that the user runs is named in extraOptions. */
    if (!str_starts(backend, STR("etcd")))
        add_flag(arena, command, "rdzv_endpoint",
                 str_printf(arena, STR_FMT ":%d", STR_ARG(master), TENSORSTACK_PORT));
    add_flag(arena, command, "rdzv_id",
             str_printf(arena, STR_FMT "-%lld", STR_ARG(model->object->uid),
                        (long long)(t->elastic ? 0 : pod->generation)));
    add_flag(arena, command, "max_restarts",
             str_printf(arena, "%lld", (long long)json_i64_or(json_get(config, "maxRestarts"), 0)));
    add_flag(arena, command, "role", pod->role->name);
    JSON_FOREACH(json_get(config, "extraOptions"), option)
        json_push(command, json_clone(arena, option));
    JSON_FOREACH(json_get(container, "args"), word)
        json_push(command, json_clone(arena, word));
    json_set(container, STR("command"), command);
    json_remove(container, STR("args"));
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

    if (t->debug)
        debug_role(t, spec, type);
    else if (t->resumed)
        resume_role(t, spec, type);
    if (t->torchrun && !t->debug)
        torchrun_command(t, model, pod, container);
    if (!t->torchrun || t->debug)
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

    json_add_c(arena, port, "name", "master");
    json_add_i64(arena, port, "port", TENSORSTACK_PORT);
    json_add_i64(arena, port, "targetPort", TENSORSTACK_PORT);
    return ports;
}

static struct json *copy_map(struct arena *arena, const struct json *map)
{
    return json_is(map, JSON_OBJECT) ? json_clone(arena, map) : json_new_object(arena);
}

static void add_role(struct tensorstack *t, struct job_model *model, const struct json *entry)
{
    struct arena *arena = t->arena;
    const struct json *template = json_get(entry, "template");
    struct json *spec = json_clone(arena, json_get(template, "spec"));
    struct str type = json_str(json_get(entry, "type"));
    struct str restart = json_str(json_get(entry, "restartPolicy"));
    int64_t count = json_i64_or(json_get(entry, "replicas"), 1);

    if (!json_count(json_get(spec, "containers")) || !type.len || count < 0 ||
        count > JOB_PODS_MAX) {
        kubeflow_problem(model, "InvalidReplicaSpec",
                         str_printf(arena,
                                    "spec.replicaSpecs: type \"" STR_FMT
                                    "\" needs template.spec.containers and 0 to %d replicas",
                                    STR_ARG(type), JOB_PODS_MAX));
        return;
    }
    json_add_c(arena, spec, "restartPolicy", "Never");
    if (tensorstack_queue(t->spec).len && !json_get(spec, "schedulerName"))
        json_add_str(arena, spec, "schedulerName", t->input->config->scheduler_name);
    struct job_role role = {
        .name = lower(arena, type),
        .type = str_c(arena, type),
        .count = (size_t)count,
        .min = (size_t)count,
        .max = (size_t)count,
        .labels = copy_map(arena, json_at(template, "metadata.labels")),
        .annotations = copy_map(arena, json_at(template, "metadata.annotations")),
        .pod_spec = spec,
        .main = json_str(json_get(training_container(spec), "name")),
        .restart = str_is(restart, "ExitCode")                                 ? JOB_RESTART_BY_EXIT
                   : str_is(restart, "Always") || str_is(restart, "OnFailure") ? JOB_RESTART_ALWAYS
                                                                               : JOB_RESTART_NEVER,
        .done = model->roles.count ? JOB_DONE_NONE : JOB_DONE_FIRST,
        .leads = !model->roles.count,
        .ports = model->roles.count ? NULL : port_list(arena)};
    /* Nothing of a job that is looked into ends by itself. */
    if (t->debug)
        role.restart = JOB_RESTART_ALWAYS;
    json_add_str(arena, role.labels, TENSORSTACK_ROLE, type);
    VEC_PUSH(arena, &model->roles, role);
}

static void read_policy(struct tensorstack *t, struct job_model *model)
{
    const struct json *policy = json_get(t->spec, "runPolicy");
    struct str clean = json_str(json_get(policy, "cleanUpPolicy"));
    struct str scope = object_annotation(model->object, KUBEFLOW_SCOPE);

    model->suspend = t->paused || t->switching;
    model->scope = str_is(scope, "pod") ? JOB_SCOPE_POD : JOB_SCOPE_GANG;
    model->max_restarts = json_i64_or(json_get(policy, "backoffLimit"), TENSORSTACK_RESTARTS);
    model->is_retryable = is_retryable;
    model->deadline_ms = json_i64_or(json_get(policy, "activeDeadlineSeconds"), 0) * 1000;
    model->clean = str_is(clean, "All")          ? JOB_CLEAN_ALL
                   : str_is(clean, "Unfinished") ? JOB_CLEAN_RUNNING
                                                 : JOB_CLEAN_NONE;
}

static void make_labels(const struct tensorstack *t, struct job_model *model)
{
    struct json *labels = json_new_object(t->arena);
    struct str queue = tensorstack_queue(t->spec);

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
    t->spec = json_get(t->tree, "spec");
    t->status = json_get(t->tree, "status");
    t->paused = tensorstack_is_on(json_at(t->spec, "runMode.pause"));
    t->debug = tensorstack_is_on(json_at(t->spec, "runMode.debug"));
    t->torchrun = tensorstack_is_on(json_get(t->spec, "torchrunConfig"));
    t->elastic = t->torchrun && tensorstack_is_on(json_get(t->spec, "elastic"));
    t->resumed = !t->paused && (json_bool_or(json_get(t->status, "resumed"), false) ||
                                str_is(json_str(json_get(t->status, "phase")), "Paused"));
    struct str mode = json_str(json_get(t->status, "mode"));
    size_t cursor = 0;
    t->switching = mode.len && str_is(mode, "debug") != t->debug &&
                   cache_next_owned(input->cache, &kind_pod, object->uid, &cursor);
    ret->front = t;
    ret->fill = fill;
    read_policy(t, ret);
    make_labels(t, ret);
    JSON_FOREACH(json_get(t->spec, "replicaSpecs"), entry)
        if (ret->roles.count < JOB_ROLES_MAX)
            add_role(t, ret, entry);
    if (!ret->roles.count)
        kubeflow_problem(ret, "NoReplicas", STR("spec.replicaSpecs: name at least one type"));
    else if (t->elastic)
        resize(t, ret);
    tensorstack_tensorboard(t, ret);
}

const struct job_kind pytorchtrainingjob = {.kind = &kind_pytorchtrainingjob,
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
    const struct json *spec = json_get(object_json(job, arena), "spec");
    int64_t value = tensorstack_priority(spec);
    struct str name = str_printf(arena, TENSORSTACK_CLASS_PREFIX "%lld", (long long)value);
    if (!tensorstack_queue(spec).len || cache_get(input->cache, &kind_priorityclass, STR(""), name))
        return;
    struct json *body = json_new_object(arena);
    json_add_c(arena, body, "apiVersion", "scheduling.k8s.io/v1");
    json_add_c(arena, body, "kind", kind_priorityclass.name);
    json_add_str(arena, json_add_object(arena, body, "metadata"), "name", name);
    json_add_i64(arena, body, "value", value);
    json_add_str(arena, body, "description",
                 STR("Priority of PyTorchTrainingJobs, from 0 to 100; always preemptible"));
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
                                                      .watches = watches,
                                                      .keys = keys,
                                                      .reconcile = reconcile};
