#include "replay/world.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/forecast.h"
#include "replay/policy.h"
#include "replay/trace.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MODEL_LABEL STR("gpu-model")
#define GPU_MIB     1000 /* of every GPU: a thousandth is a MiB */
#define NODE_PODS   1000
#define QUEUE_ANY   STR("all")
#define GROUP_NS    STR("trace")
#define NAME_BYTES  40

/* ---- the cluster ---- */
static struct sched_node node_spec(const struct trace_node *spec, struct sched_label *label)
{
    *label = (struct sched_label){MODEL_LABEL, spec->model};
    return (struct sched_node){.name = spec->name,
                               .labels = label,
                               .label_count = spec->model.len ? 1 : 0,
                               .cpu_milli = spec->cpu_milli,
                               .memory_bytes = spec->memory_mib << 20,
                               .gpus = spec->gpus,
                               .pods = NODE_PODS,
                               .gpu_memory_mib = GPU_MIB};
}

static void add_node(struct world *world, const struct trace_node *spec)
{
    struct world_node *node = &world->nodes[world->node_count++];
    struct sched_label label;
    struct sched_node put = node_spec(spec, &label);

    *node = (struct world_node){.spec = spec,
                                .cpu_milli = spec->cpu_milli,
                                .memory_mib = spec->memory_mib,
                                .released_milli = spec->gpus * 1000};
    for (int64_t i = 0; i < spec->gpus; i++)
        node->left[i] = 1000;
    world->gpu_milli += spec->gpus * 1000;
    if (spec->gpus > world->pod_gpus_max)
        world->pod_gpus_max = spec->gpus;
    sched_put_node(world->sched, &put);
}

static void put_queue(struct world *world, struct sched_queue queue)
{
    if (world->options->policy->order == LINE_EXPECTED)
        queue.order = SCHED_ORDER_EXPECTED;
    VEC_PUSH(&world->arena, &world->queues, queue);
    sched_put_queue(world->sched, &queue);
}

static void add_queue(struct world *world, struct str name, int64_t number)
{
    struct sched_queue queue = {.name = name,
                                .created_ms = 1 + number,
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    if (world->options->preemptible)
        queue.quota[SCHED_GPU].quota = 0;
    put_queue(world, queue);
}

/* The queue of a job as the core knows it. */
static struct str world_job_queue(const struct world *world, const struct trace_job *job)
{
    return world->options->policy->one_queue || !job->queue.len ? QUEUE_ANY : job->queue;
}

static void add_queues(struct world *world)
{
    const struct trace_jobs *jobs = &world->options->trace->jobs;
    struct map seen = {.seed = 1};
    int64_t number = 0;

    /* Those of the manifests first, so that the queues above the trace's are there. One line for
     * everybody has no queues. */
    for (size_t i = 0; i < world->options->queue_count && !world->options->policy->one_queue; i++) {
        map_set(&seen, world->options->queues[i].name, world);
        put_queue(world, world->options->queues[i]);
        number++;
    }
    for (size_t i = 0; i < jobs->count; i++) {
        struct str name = world_job_queue(world, &jobs->items[i]);

        if (map_get(&seen, name))
            continue;
        map_set(&seen, name, world);
        add_queue(world, name, number++);
    }
    map_done(&seen);
}

void world_open(struct world *world, const struct world_options *options)
{
    const struct replay_policy *policy = options->policy;
    struct sched_config config;

    *world = (struct world){.options = options};
    sched_config_default(&config);
    config.quirks = policy->mimic ? SCHED_QUIRKS_ALL : SCHED_QUIRKS_NONE;
    config.score = policy->score;
    config.silent = true;
    config.policy.gpu_strategy = config.policy.cpu_strategy = policy->strategy;
    config.policy.stale_grace_ms = -1;
    if (!options->preemptible)
        config.policy.actions = 1U << SCHED_ACTION_ALLOCATE;
    if (policy->order == LINE_EXPECTED || options->preemptible)
        config.policy.actions |= 1U << SCHED_ACTION_RESERVE;
    if (policy->order == LINE_EXPECTED)
        config.policy.reserve_after_ms = options->reserve_after_ms;
    config.policy.lend_expected = policy->order == LINE_EXPECTED && options->lend_expected;
    world->sched = sched_new(&config);
    world->nodes = ARENA_ARRAY(&world->arena, struct world_node, options->nodes->count);
    for (size_t i = 0; i < options->nodes->count; i++)
        add_node(world, &options->nodes->items[i]);
    world->free_milli = world->gpu_milli;
    world->pods = ARENA_ARRAY(&world->arena, struct world_pod *, options->trace->jobs.count + 1);
    add_queues(world);
}

void world_close(struct world *world)
{
    sched_free(world->sched);
    arena_done(&world->cycle);
    arena_done(&world->arena);
}

/* ---- jobs ---- */
/* Pods of a job, and GPUs of one of them. */
static int64_t world_job_pods(const struct world *world, const struct trace_job *job)
{
    int64_t most = world->pod_gpus_max ? world->pod_gpus_max : 1;

    return job->gpus > most ? (job->gpus + most - 1) / most : 1;
}

static int64_t world_pod_gpus(const struct world *world, const struct trace_job *job, int64_t pod)
{
    int64_t pods = world_job_pods(world, job);

    return job->gpus / pods + (pod < job->gpus % pods ? 1 : 0);
}

size_t world_job_of(struct str pod_name)
{
    size_t job = 0;

    for (size_t i = 1; i < pod_name.len && pod_name.p[i] != '-'; i++)
        job = job * 10 + (size_t)(pod_name.p[i] - '0');
    return job;
}

static size_t pod_of(struct str pod_name)
{
    size_t dash = str_find(pod_name, '-');

    return world_job_of(str_sub(pod_name, dash, pod_name.len));
}

static struct str named(char out[static NAME_BYTES], size_t job, int64_t pod)
{
    int len = pod < 0 ? snprintf(out, NAME_BYTES, "j%zu", job)
                      : snprintf(out, NAME_BYTES, "j%zu-%lld", job, (long long)pod);

    return (struct str){out, (size_t)len};
}

#define MODELS_MAX 32
static void add_models(struct sched_pod *pod,
                       struct str models,
                       struct str values[static MODELS_MAX],
                       struct sched_expression *expression,
                       struct sched_node_term *term)
{
    size_t count = 0;

    while (models.len && count < MODELS_MAX && str_cut(&models, '|', &values[count]))
        count++;
    if (!count)
        return;
    *expression = (struct sched_expression){
        .key = MODEL_LABEL, .op = SCHED_IN, .values = values, .value_count = count};
    *term = (struct sched_node_term){.labels = expression, .label_count = 1};
    pod->node_affinity = true;
    pod->node_terms = term;
    pod->node_term_count = 1;
}

static struct sched_group group_spec(const struct world *world,
                                     size_t index,
                                     int64_t submit_ms,
                                     int64_t expected_ms)
{
    const struct trace_job *job = &world->options->trace->jobs.items[index];

    return (struct sched_group){
        .ns = GROUP_NS,
        .queue = world_job_queue(world, job),
        .created_ms = submit_ms,
        .min_member = world_job_pods(world, job),
        .expected_ms = expected_ms,
        .has_priority = true,
        .priority = 50,
        .preemptibility = world->options->preemptible ? SCHED_PREEMPTIBLE : SCHED_NON_PREEMPTIBLE};
}

/* Without names and models. */
static struct sched_pod pod_spec(const struct world *world,
                                 size_t index,
                                 int64_t number,
                                 int64_t submit_ms)
{
    const struct trace_job *job = &world->options->trace->jobs.items[index];
    struct sched_pod pod = {.ns = GROUP_NS,
                            .created_ms = submit_ms,
                            .cpu_milli = job->cpu_milli,
                            .memory_bytes = job->memory_mib << 20};

    if (job->gpus && job->gpu_milli < 1000)
        pod.gpu_fraction_micro = job->gpu_milli * 1000;
    else
        pod.gpus = world_pod_gpus(world, job, number);
    return pod;
}

void world_submit(struct world *world, size_t index, int64_t submit_ms, int64_t expected_ms)
{
    const struct trace_job *job = &world->options->trace->jobs.items[index];
    int64_t pods = world_job_pods(world, job);
    struct sched_group group = group_spec(world, index, submit_ms, expected_ms);
    char group_name[NAME_BYTES];

    group.name = named(group_name, index, -1);
    sched_put_group(world->sched, &group);
    if (!world->pods[index])
        world->pods[index] = ARENA_ARRAY(&world->arena, struct world_pod, (size_t)pods);
    for (int64_t i = 0; i < pods; i++) {
        char pod_name[NAME_BYTES];
        struct str values[MODELS_MAX];
        struct sched_expression expression;
        struct sched_node_term term;
        struct sched_pod pod = pod_spec(world, index, i, submit_ms);

        pod.name = pod.uid = named(pod_name, index, i);
        pod.group = group.name;
        add_models(&pod, job->gpus ? job->models : STR_NONE, values, &expression, &term);
        world->pods[index][i] = (struct world_pod){.node = WORLD_NOWHERE};
        sched_put_pod(world->sched, &pod);
    }
}

/* ---- as others see it ---- */
void world_state(const struct world *world, struct arena *arena, struct forecast_state *ret)
{
    ret->config = *sched_config(world->sched);
    for (size_t i = 0; i < world->node_count; i++) {
        struct sched_label *label = ARENA_NEW(arena, struct sched_label);

        VEC_PUSH(arena, &ret->nodes, node_spec(world->nodes[i].spec, label));
    }
    for (size_t i = 0; i < world->queues.count; i++)
        VEC_PUSH(arena, &ret->queues, world->queues.items[i]);
}

/* Where a pod runs, and on which devices. */
static void pod_hold(const struct world *world,
                     struct arena *arena,
                     const struct world_pod *at,
                     struct sched_pod *pod)
{
    uint32_t *devices = ARENA_ARRAY(arena, uint32_t, TRACE_GPUS_MAX);
    struct str *share = ARENA_NEW(arena, struct str);

    pod->phase = SCHED_RUNNING;
    pod->node = world->nodes[at->node].spec->name;
    *share = at->share;
    pod->gpu_groups = share;
    pod->gpu_group_count = at->share.len ? 1 : 0;
    pod->devices = devices;
    for (uint32_t i = 0; i < TRACE_GPUS_MAX && !at->share.len; i++)
        if (at->devices >> i & 1)
            devices[pod->device_count++] = i;
}

void world_job_state(const struct world *world,
                     struct arena *arena,
                     const struct world_job *of,
                     struct forecast_group *ret)
{
    const struct trace_job *job = &world->options->trace->jobs.items[of->index];
    int64_t pods = world_job_pods(world, job);
    char name[NAME_BYTES];

    *ret = (struct forecast_group){
        .spec = group_spec(world, of->index, job->submit_ms, of->expected_ms),
        .pods = ARENA_ARRAY(arena, struct sched_pod, (size_t)pods),
        .pod_count = (size_t)pods,
        .started_ms = of->started_ms,
        .like = {.queue = job->queue, .gpus = job->gpus}};
    ret->spec.name = str_dup(arena, named(name, of->index, -1));
    ret->spec.last_start_ms = of->started_ms;
    for (int64_t i = 0; i < pods; i++) {
        struct sched_pod *pod = &ret->pods[i];
        struct str *values = ARENA_ARRAY(arena, struct str, job->models.len ? MODELS_MAX : 1);

        *pod = pod_spec(world, of->index, i, job->submit_ms);
        pod->name = pod->uid = str_dup(arena, named(name, of->index, i));
        pod->group = ret->spec.name;
        pod->started_ms = of->started_ms;
        if (of->started_ms)
            pod_hold(world, arena, &world->pods[of->index][i], pod);
        else
            add_models(pod, job->gpus ? job->models : STR_NONE, values,
                       ARENA_NEW(arena, struct sched_expression),
                       ARENA_NEW(arena, struct sched_node_term));
    }
}

/* Takes what a pod holds, or gives it back. */
static void hold(struct world *world, const struct trace_job *job, struct world_pod *pod, int sign)
{
    struct world_node *node = &world->nodes[pod->node];
    int32_t milli = (int32_t)job->gpu_milli;

    node->cpu_milli -= sign * job->cpu_milli;
    node->memory_mib -= sign * job->memory_mib;
    for (unsigned i = 0; i < TRACE_GPUS_MAX; i++) {
        if (!(pod->devices >> i & 1))
            continue;
        node->left[i] -= sign * milli;
        node->released_milli -= sign * milli;
        world->free_milli -= sign * milli;
        assert(node->left[i] >= 0 && node->left[i] <= 1000);
    }
    assert(node->cpu_milli >= 0 && node->memory_mib >= 0);
}

void world_remove(struct world *world, size_t index)
{
    const struct trace_job *job = &world->options->trace->jobs.items[index];
    int64_t pods = world_job_pods(world, job);
    char name[NAME_BYTES];

    for (int64_t i = 0; i < pods; i++) {
        struct world_pod *pod = &world->pods[index][i];

        if (pod->node != WORLD_NOWHERE)
            hold(world, job, pod, -1);
        pod->node = WORLD_NOWHERE;
        sched_drop_pod(world->sched, GROUP_NS, named(name, index, i));
    }
    sched_drop_group(world->sched, GROUP_NS, named(name, index, -1));
}

static uint32_t node_index(const struct world *world, struct str name)
{
    for (size_t i = 0; i < world->node_count; i++)
        if (str_eq(world->nodes[i].spec->name, name))
            return (uint32_t)i;
    return WORLD_NOWHERE;
}

void world_cycle(struct world *world, int64_t now_ms)
{
    arena_reset(&world->cycle);
    sched_cycle(world->sched, now_ms, &world->cycle, &world->plan);
    world->cycles++;
    for (size_t i = 0; i < world->plan.bind_count; i++) {
        const struct sched_bind *bind = &world->plan.binds[i];
        size_t job = world_job_of(bind->pod.name);
        struct world_pod *pod = &world->pods[job][pod_of(bind->pod.name)];

        pod->node = node_index(world, bind->node);
        pod->devices = 0;
        for (size_t d = 0; d < bind->device_count; d++)
            pod->devices |= 1U << bind->devices[d];
        pod->share = bind->gpu_group_count ? str_dup(&world->arena, bind->gpu_groups[0]) : STR_NONE;
        hold(world, &world->options->trace->jobs.items[job], pod, 1);
        world->placed++;
    }
}

bool world_running(const struct world *world, size_t index)
{
    const struct trace_job *job = &world->options->trace->jobs.items[index];
    int64_t pods = world_job_pods(world, job);

    for (int64_t i = 0; i < pods; i++)
        if (world->pods[index][i].node == WORLD_NOWHERE)
            return false;
    return true;
}

/* ---- fragments ---- */
static int64_t unusable(const struct world_node *node, const struct trace_job *job, int64_t gpus)
{
    int64_t small = 0;
    int64_t good = 0;

    if (job->cpu_milli > node->cpu_milli)
        return node->released_milli;
    for (int64_t i = 0; i < node->spec->gpus; i++) {
        bool enough = node->left[i] >= job->gpu_milli;
        good += enough;
        small += enough ? 0 : node->left[i];
    }
    return good < (job->gpu_milli < 1000 ? 1 : gpus) ? node->released_milli : small;
}

static bool may_run(const struct world_node *node, const struct trace_job *job)
{
    struct str models = job->models;
    struct str model = STR_NONE;

    if (!models.len)
        return true;
    while (models.len && str_cut(&models, '|', &model))
        if (str_eq(model, node->spec->model))
            return true;
    return false;
}

#define FRAGMENT_JOBS 128 /* of the trace, evenly chosen */
double world_fragments(const struct world *world)
{
    const struct trace_jobs *jobs = &world->options->trace->jobs;
    size_t step = jobs->count / FRAGMENT_JOBS + 1;
    double sum = 0;
    size_t count = 0;

    for (size_t j = 0; j < jobs->count; j += step) {
        const struct trace_job *job = &jobs->items[j];

        if (!job->gpus)
            continue;
        count++;
        for (size_t i = 0; i < world->node_count; i++)
            if (world->nodes[i].released_milli)
                sum += (double)(may_run(&world->nodes[i], job)
                                    ? unusable(&world->nodes[i], job, world_pod_gpus(world, job, 0))
                                    : world->nodes[i].released_milli);
    }
    return count && world->gpu_milli ? sum / (double)count / (double)world->gpu_milli : 0;
}
