#include "api/array.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/ranks.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/watch.h"
#include "control/kinds/torchrun.h"
#include "control/kinds/torchrun_model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* TorchrunJob, a front end of the job engine: object to model, state to status. */

#define LABEL_BYTES_MAX 63
#define QUEUES_NAMED    4

static void problem(struct job_model *model,
                    const char *condition,
                    const char *reason,
                    struct str message)
{
    if (!model->problem.condition)
        model->problem = (struct job_problem){condition, reason, message};
}

/* ---- size ---- */

/* GPUs of the largest node: what "a node" means where the queue does not say. */
static int64_t largest_node(const struct torchrun *t)
{
    const struct object *node;
    size_t cursor = 0;
    int64_t most = 0;

    while ((node = cache_next(t->input->cache, &kind_node, STR(""), &cursor))) {
        int64_t gpus = 0;
        const struct json *allocatable = json_at(object_json(node, t->arena), "status.allocatable");

        if (quantity_whole_json(json_get(allocatable, TORCHRUN_GPU), &gpus, NULL) == 0 &&
            gpus > most)
            most = gpus;
    }
    return most;
}

static int64_t template_gpus(const struct torchrun *t)
{
    const struct json *trainer = torchrun_trainer(json_get(t->spec.pod_template, "spec"));
    const struct json *resources = json_get(trainer, "resources");
    int64_t gpus = 0;

    (void)quantity_whole_json(json_get(json_get(resources, "limits"), TORCHRUN_GPU), &gpus, NULL);
    if (!gpus)
        (void)quantity_whole_json(json_get(json_get(resources, "requests"), TORCHRUN_GPU), &gpus,
                                  NULL);
    return gpus;
}

static void read_shape(struct torchrun *t)
{
    t->shape_from_template = !t->spec.node_resources && template_gpus(t) > 0;
    if (t->spec.node_gpus >= 0)
        t->gpus_per_node = t->spec.node_gpus;
    else if (t->shape_from_template)
        t->gpus_per_node = template_gpus(t);
    else
        t->gpus_per_node = largest_node(t);
}

static void read_elastic(struct torchrun *t, struct job_model *model)
{
    int64_t min = t->spec.min_nodes;
    int64_t max = t->spec.max_nodes;

    if (!min && !max)
        return;
    min = min ? min : 1;
    max = max ? max : (int64_t)t->worker->count > min ? (int64_t)t->worker->count : min;
    if (max < min || max > JOB_PODS_MAX) {
        problem(model, "InvalidSpec", "InvalidElastic",
                str_printf(t->arena,
                           "elastic: maxNodes (%lld) must be at least minNodes (%lld) "
                           "and at most %d",
                           (long long)max, (long long)min, JOB_PODS_MAX));
        return;
    }
    /* Every pod gets what the first one would: torchrun wants equal ones when they come and go. */
    int64_t each = t->worker->gpus[0];
    int64_t *gpus = ARENA_ARRAY(t->arena, int64_t, (size_t)max);
    for (int64_t i = 0; i < max; i++)
        gpus[i] = each;
    t->worker->gpus = gpus;
    t->worker->min = (size_t)min;
    t->worker->max = (size_t)max;
    t->worker->count = (size_t)max;
    t->gpus_total = each * max;
    t->worker->done = min < max ? JOB_DONE_ANY : JOB_DONE_ALL;
    t->elastic = max > 1;
}

static void read_size(struct torchrun *t, struct job_model *model)
{
    int64_t gpus = t->spec.num_gpus;
    int64_t nodes = t->spec.num_nodes;
    bool elastic = t->spec.min_nodes || t->spec.max_nodes;
    int64_t *each = ARENA_ARRAY(t->arena, int64_t, JOB_PODS_MAX);

    t->worker->gpus = each;
    t->worker->count = 1;
    if (gpus >= 0 && !nodes) {
        t->worker->count = torchrun_split(gpus, t->gpus_per_node, each, JOB_PODS_MAX);
    } else {
        /* Whole nodes; with both given, numGPUs spread over numNodes pods. */
        t->worker->count = nodes ? (size_t)nodes : 1;
        for (size_t i = 0; i < t->worker->count && i < JOB_PODS_MAX; i++)
            each[i] = gpus < 0 ? (nodes || elastic ? t->gpus_per_node : 0)
                               : gpus / nodes + ((int64_t)i < gpus % nodes ? 1 : 0);
    }
    if (t->worker->count > JOB_PODS_MAX) {
        problem(model, "InvalidSpec", "TooManyPods",
                str_printf(t->arena, "the job would have %zu pods; the limit is %d",
                           t->worker->count, JOB_PODS_MAX));
        t->worker->count = 1;
    }
    for (size_t i = 0; i < t->worker->count; i++)
        t->gpus_total += each[i];
    t->worker->min = t->worker->max = t->worker->count;
    read_elastic(t, model);
}

/* ---- rendezvous, policy, labels ---- */

static void read_rendezvous(struct torchrun *t, struct job_model *model)
{
    struct str backend = t->spec.rdzv_backend;
    struct str endpoint = t->spec.rdzv_endpoint;

    t->rdzv_backend = backend.len ? backend : STR("c10d");
    /* An etcd is no place for c10d or static: queues carry such an endpoint as a default. */
    if (str_starts(t->rdzv_backend, STR("etcd")) || !str_ends(endpoint, STR(":2379")))
        t->rdzv_endpoint = endpoint;
    if (t->worker->max == 1)
        t->rdzv_backend = STR("standalone");
    model->may_meet_otherwise =
        str_starts(t->rdzv_backend, STR("etcd")) && !t->rdzv_endpoint.len && !t->is_array;
    if (!model->may_meet_otherwise || !object_annotation(t->job, JOB_ANNOTATION_MEETS).len)
        return;
    model->may_meet_otherwise = false;
    model->meets = STR("; they meet by c10d, as the image has no python-etcd for etcd-v2");
    t->rdzv_backend = STR("c10d");
    t->meets_in_sync = true;
}

static void read_policy(const struct torchrun *t, struct job_model *model)
{
    model->suspend = t->spec.suspend;
    model->keep = t->spec.keep;
    t->worker->restart =
        t->spec.restart == TORCHRUN_RESTART_NEVER ? JOB_RESTART_NEVER : JOB_RESTART_ALWAYS;
    model->max_restarts = t->spec.max_restarts;
    model->tries_again_once = !t->spec.restarts_named;
    model->on_hang = (enum job_hang)t->spec.on_hang;
    model->on_suspicion = (enum job_hang)t->spec.on_suspicion;
    model->restart_mode = (enum job_mode)t->spec.restart_mode;
    model->on_node_lost = (enum job_lost)t->spec.on_node_lost;
    model->meets_by_round = true;
    model->warm = t->spec.warm;
    model->spares = (size_t)t->spec.spares;
    model->warmable = !t->spec.setup_command.len;
    model->deadline_ms = t->spec.deadline_s * 1000;
    model->ttl_ms = t->spec.ttl_s < 0 ? -1 : t->spec.ttl_s * 1000;
    model->clean = (__typeof__(model->clean))t->spec.clean;
    model->peers_end = true;
}

static void merge_strings(struct arena *arena, struct json *to, const struct json *from)
{
    _cleanup_(json_names_done) struct json_names names = {.object = to};

    JSON_FOREACH(from, member)
        if (json_is(member, JSON_STRING))
            (void)json_names_put(&names, str_dup(arena, json_key(member)),
                                 json_clone(arena, member));
}

static void label(struct arena *arena, struct json *labels, const char *key, struct str value)
{
    if (value.len <= LABEL_BYTES_MAX)
        json_add_str(arena, labels, key, value);
}

static void make_labels(struct torchrun *t, struct job_model *model)
{
    static const char *const passed_on[] = {OBSERVE_ANNOTATION, SUSPEND_COPY};
    struct json *labels = json_new_object(t->arena);
    struct json *annotations = json_new_object(t->arena);
    struct str job_name = t->spec.job_name;

    merge_strings(t->arena, labels, json_at(t->spec.pod_template, "metadata.labels"));
    merge_strings(t->arena, labels, t->spec.labels);
    merge_strings(t->arena, annotations, json_at(t->spec.pod_template, "metadata.annotations"));
    merge_strings(t->arena, annotations, t->spec.annotations);
    for (size_t i = 0; i < COUNT_OF(passed_on); i++)
        if (object_annotation(t->job, passed_on[i]).len)
            json_add_str(t->arena, annotations, passed_on[i],
                         object_annotation(t->job, passed_on[i]));
    json_add_c(t->arena, labels, "app", "torchrun");
    label(t->arena, labels, JOB_LABEL_NAME, t->job->name);
    label(t->arena, labels, "torchrun.ai/job-name", job_name.len ? job_name : t->job->name);
    label(t->arena, labels, "torchrun.ai/job-id", t->job_id);
    label(t->arena, labels, "torchrun.ai/job-queue", t->queue_name);
    json_set(labels, t->input->config->queue_label_key, json_new_str(t->arena, t->kai_queue));
    model->labels = labels;
    t->worker->annotations = annotations;
}

/* ---- translate ---- */

/* "there are a, b, ...": one of them was meant. */
static struct str queues_there(const struct torchrun *t)
{
    struct str text = STR_NONE;
    const struct object *queue;
    size_t cursor = 0, count = 0;

    while ((queue = cache_next(t->input->cache, &kind_torchrunqueue, t->job->ns, &cursor)) &&
           count++ < QUEUES_NAMED)
        text = str_printf(t->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? ", " : "",
                          STR_ARG(queue->name));
    return text.len ? str_printf(t->arena, "there %s " STR_FMT "%s", count == 1 ? "is" : "are",
                                 STR_ARG(text), queue ? ", ..." : "")
                    : STR("it has none: create one");
}

static bool find_queue(struct torchrun *t, struct job_model *model)
{
    const struct json *job = object_json(t->job, t->arena);
    struct err err = {0};
    int r = 0;

    t->queue_name = torchrun_job_queue(t->arena, job);
    (void)torchrun_spec_read(t->arena, NULL, job, &t->spec, NULL);
    if (!t->queue_name.len) {
        problem(model, "QueueNotFound", "NoQueue",
                STR("spec.jobQueue is missing: set the name of a TorchrunQueue"));
        return false;
    }
    t->queue = cache_get(t->input->cache, &kind_torchrunqueue, t->job->ns, t->queue_name);
    if (!t->queue) {
        problem(model, "QueueNotFound", "QueueNotFound",
                str_printf(t->arena,
                           "TorchrunQueue \"" STR_FMT "\" does not exist in namespace \"" STR_FMT
                           "\"; " STR_FMT,
                           STR_ARG(t->queue_name), STR_ARG(t->job->ns), STR_ARG(queues_there(t))));
        return false;
    }
    arena_defer(t->arena, object_release, object_ref(t->queue));
    const struct json *queue = object_json(t->queue, t->arena);
    struct torchrun_names names = torchrun_queue_map(t->arena, t->queue, queue);
    t->kai_queue = names.queue;
    r = torchrun_spec_read(t->arena, queue, job, &t->spec, &err);
    if (r)
        problem(model, "InvalidSpec", "InvalidField", str_printf(t->arena, "%s", err.text));
    struct str bad = torchrun_template_problem(t->spec.pod_template, t->arena);
    if (bad.len)
        problem(model, "QueueInvalid", "InvalidTemplate",
                str_printf(t->arena, "TorchrunQueue " STR_FMT ": " STR_FMT, STR_ARG(t->queue_name),
                           STR_ARG(bad)));
    struct str taken = torchrun_queue_conflict(t->input->cache, t->queue, &names, t->arena);
    if (taken.len)
        problem(model, "QueueInvalid", "QueueTaken",
                str_printf(t->arena, "TorchrunQueue " STR_FMT ": " STR_FMT, STR_ARG(t->queue_name),
                           STR_ARG(taken)));
    return !bad.len && !taken.len;
}

static void translate(const struct control_input *input,
                      const struct object *object,
                      struct arena *arena,
                      struct job_model *model)
{
    struct torchrun *t = ARENA_NEW(arena, struct torchrun);

    *t = (struct torchrun){.input = input, .arena = arena, .job = object};
    model->front = t;
    VEC_PUSH(arena, &model->roles,
             (struct job_role){.name = STR("worker"), .main = STR(TORCHRUN_TRAINER)});
    t->worker = &model->roles.items[0];
    model->headless = true;
    bool found = find_queue(t, model);
    t->job_id = t->spec.job_id.len ? t->spec.job_id : object->uid;
    read_policy(t, model);
    if (!found)
        return;
    if (!t->spec.command.len)
        problem(model, "InvalidSpec", "NoCommand",
                STR("spec.command is missing: set the command that every rank runs"));
    t->mount_path = t->spec.workspace.mount_path;
    if (!t->mount_path.len)
        t->mount_path = STR(TORCHRUN_MOUNT);
    model->upload = str_is(object_annotation(object, TORCHRUN_WORKSPACE), "upload");
    model->workspace_revision = object_annotation(object, TORCHRUN_REVISION);
    t->host_workspace =
        model->upload || t->spec.source_url.len || str_is(t->spec.source, "existing");
    torchrun_read_array(t, model);
    t->array_above = torchrun_array_of(input->cache, object);
    if (t->array_above) {
        arena_defer(arena, object_release, object_ref(t->array_above));
        t->host_workspace = false; /* the array has it for all its jobs */
        model->upload = false;
    }
    read_shape(t);
    read_size(t, model);
    read_rendezvous(t, model);
    make_labels(t, model);
    torchrun_make_pods(t, model);
    torchrun_make_storage(t, model);
    torchrun_read_after(t, model);
    if (t->is_array) {
        model->own = t;
        model->parts = torchrun_array_step;
        model->headless = t->host_workspace; /* for the name of the sync pod */
    }
}

/* ---- status ---- */

static void read_status(const struct json *status, struct job_state *ret)
{
    job_state_read(status, ret);
    ret->provisioned = condition_is_true(status, "Provisioned");
    ret->workspace_ready = condition_is_true(status, "WorkspaceReady");
    ret->created = condition_is_true(status, "JobCreated");
}

static struct str distribution(const struct torchrun *t, struct arena *arena)
{
    struct str text = STR_NONE;

    for (size_t i = 0; i < t->worker->count; i++) {
        size_t same = 1;

        while (i + 1 < t->worker->count && t->worker->gpus[i + 1] == t->worker->gpus[i]) {
            same++;
            i++;
        }
        text = same > 1 ? str_printf(arena, STR_FMT "%s%zux%lld", STR_ARG(text),
                                     text.len ? "+" : "", same, (long long)t->worker->gpus[i])
                        : str_printf(arena, STR_FMT "%s%lld", STR_ARG(text), text.len ? "+" : "",
                                     (long long)t->worker->gpus[i]);
    }
    return text;
}

static void write_workers(const struct torchrun *t,
                          const struct job_state *state,
                          struct json *status,
                          struct arena *arena)
{
    const struct job_workers *count = &state->workers;
    struct json *workers = json_add_object(arena, status, "workers");
    bool done = job_phase_is_final(state->phase);

    json_fill(arena, workers, "{pending: $, ready: $, running: $, failed: $, succeeded: $}",
              count->pending, count->ready, count->running, count->failed, count->succeeded);
    json_add_str(
        arena, status, "workersStatus",
        done ? str_printf(arena, "%lld/%zu done", (long long)count->succeeded, t->worker->count)
             : str_printf(arena, "%lld/%zu ready", (long long)(count->ready + count->succeeded),
                          t->worker->count));
}

static void write_conditions(const struct torchrun *t,
                             const struct job_state *state,
                             struct json *status,
                             int64_t now_ms,
                             struct arena *arena)
{
    bool ok = state->phase == JOB_SUCCEEDED;
    bool failed = state->phase == JOB_FAILED || state->phase == JOB_TIMED_OUT;
    bool ready = t->worker->count &&
                 (size_t)(state->workers.ready + state->workers.succeeded) >= t->worker->count;
    static const char *const problems[] = {"QueueNotFound", "QueueInvalid", "InvalidSpec",
                                           "NoMatchingNode", "StorageProblem"};
    struct condition list[] = {
        {"Provisioned", state->provisioned ? "True" : "False",
         state->provisioned ? "Provisioned" : "Provisioning", STR("")},
        {"WorkspaceReady", state->workspace_ready ? "True" : "False",
         state->workspace_ready ? "Synced" : "NotSynced", STR("")},
        {"JobCreated", state->created ? "True" : "False",
         state->created ? "PodsCreated" : "NotCreated", STR("")},
        {"AllWorkersReady", ready ? "True" : "False", ready ? "AllReady" : "NotReady", STR("")},
        {"Completed", ok || failed ? "True" : "False",
         ok || failed ? job_phase_word(state->phase) : "InProgress", state->message},
        {"Failed", failed ? "True" : "False", failed ? job_phase_word(state->phase) : "NotFailed",
         failed ? state->message : STR("")},
    };

    for (size_t i = 0; i < COUNT_OF(list); i++)
        condition_set(arena, status, &list[i], now_ms);
    watch_write(arena, status, state->watch_alarm ? state->watch : NULL, state->watch_message,
                now_ms);
    for (size_t i = 0; i < COUNT_OF(problems); i++) {
        bool now =
            state->problem.condition && str_is(str_from(state->problem.condition), problems[i]);

        if (now || condition_find(status, problems[i]))
            condition_set(arena, status,
                          &(struct condition){problems[i], now ? "True" : "False",
                                              now ? state->problem.reason : "Resolved",
                                              now ? state->problem.message : STR("")},
                          now_ms);
    }
}

static void array_words(const struct torchrun *t, struct json *status, struct arena *arena)
{
    const struct json *array = json_get(status, "array");
    struct array_indexes done = {0};
    size_t count = 0;

    if (array_parse(arena, json_str(json_get(array, "succeeded")), &done, NULL) == 0)
        count = done.count;
    json_add_str(arena, status, "workersStatus",
                 str_printf(arena, "%zu/%zu done", count, t->array.count));
}

static void write_status(const struct job_model *model,
                         const struct job_state *state,
                         struct json *status,
                         int64_t now_ms,
                         struct arena *arena)
{
    const struct torchrun *t = model->front;

    job_state_write(state, status, arena);
    json_add_str(arena, status, "queue", t->queue_name);
    json_add_str(arena, status, "jobID", t->job_id);
    if (t->is_array) { /* its jobs hold GPUs and have pods, it does not */
        if (t->array_status)
            json_set(status, STR("array"), t->array_status);
        json_fill(arena, status, "{numGPUs: 0, numNodes: 0}");
        array_words(t, status, arena);
    } else if (t->worker->pod_spec) {
        json_fill(arena, status, "{numGPUs: $, numNodes: $, distribution: $}", t->gpus_total,
                  (int64_t)t->worker->count, distribution(t, arena));
        write_workers(t, state, status, arena);
    }
    json_add_i64(arena, status, "observedGeneration", model->object->generation);
    if (model->workspace_revision.len)
        json_add_str(arena, status, "workspaceRevision", model->workspace_revision);
    torchrun_write_after(t, status, arena);
    write_conditions(t, state, status, now_ms, arena);
}

const struct job_kind torchrun_job_kind = {
    .kind = &kind_torchrunjob,
    .translate = translate,
    .read = read_status,
    .write = write_status,
};

/* ---- the controller ---- */

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    job_reconcile(input, &torchrun_job_kind, key, actions);
}

/* Every unfinished job of a namespace (all: empty) and queue (any: empty). */
static void jobs_of(const struct cache *cache,
                    struct str ns,
                    struct str queue,
                    bool held_up, /* only those that something is wrong with */
                    struct control_keys *ret)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *job;
    size_t cursor = 0;

    while ((job = cache_next(cache, &kind_torchrunjob, ns, &cursor))) {
        const struct json *root = object_json(job, &arena);

        enum job_phase phase = job_phase_parse(json_str_at(root, "status.phase"));

        if (job_phase_is_final(phase) || (held_up && phase != JOB_PENDING))
            continue;
        if (!queue.len || str_eq(torchrun_job_queue(&arena, root), queue))
            control_keys_add(ret, job->ns, job->name);
    }
}

static bool node_is_ready(const struct object *node)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return condition_is_true(json_get(object_json(node, &arena), "status"), "Ready");
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_torchrunjob) {
        control_keys_add(ret, object->ns, object->name);
        torchrun_after_keys(cache, object, ret);
        if (object_label(object, ARRAY_LABEL).len && object_controller(object))
            control_keys_add(ret, object->ns, object_controller(object)->name);
        return;
    }
    if (object->kind == &kind_torchrunqueue) {
        jobs_of(cache, object->ns, object->name, false, ret);
        return;
    }
    if (object->kind == &kind_node) {
        /* Heartbeats are many; what matters is a node that comes, goes or falls silent. */
        bool fine = cache_get(cache, &kind_node, STR(""), object->name) && node_is_ready(object);

        jobs_of(cache, STR(""), STR(""), fine, ret);
        return;
    }
    if (object->kind == &kind_storageclass || object->kind == &kind_priorityclass) {
        jobs_of(cache, STR(""), STR(""), false, ret);
        return;
    }
    const struct object_owner *owner = object_controller(object);
    if (owner && str_is(owner->kind, kind_torchrunjob.name)) {
        control_keys_add(ret, object->ns, owner->name);
        return;
    }
    if (object->kind == &kind_pvc)
        jobs_of(cache, object->ns, STR(""), false, ret);
}

static const struct kind *const watches[] = {
    &kind_torchrunjob,  &kind_torchrunqueue, &kind_pod,           &kind_pvc,      &kind_service,
    &kind_storageclass, &kind_node,          &kind_priorityclass, &kind_podgroup, NULL};

const struct controller torchrun_job_controller = {.name = "torchrunjob",
                                                   .kind = &kind_torchrunjob,
                                                   .watches = watches,
                                                   .keys = keys,
                                                   .reconcile = reconcile};
