#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "conformance/conformance.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A scenario is a cluster, actions, and what should become of every pod. Each round builds the core
 * anew from events and runs one cycle; what the plan says is written back the way the recorded
 * harness does it: bound pods run, evicted ones wait again. */

#define NOW_MS INT64_C(1800000000000)

struct task {
    struct str name;
    const struct json *json;
    const struct json *job;
    struct str state;
    struct str node;
    struct str groups[16];
    size_t group_count;
    struct str cycle_state; /* after the actions of a round */
    struct str cycle_node;
};

struct run {
    struct arena *arena;
    const struct json *scenario;
    uint64_t quirks;
    struct task *tasks;
    size_t task_count;
    struct map by_name;
    size_t binds, evicts, pipelined;
};

static double number(const struct json *value)
{
    struct str text = json_number_text(value);
    char copy[64];

    if (!text.len || text.len >= sizeof(copy))
        return 0;
    memcpy(copy, text.p, text.len);
    copy[text.len] = 0;
    return strtod(copy, NULL);
}

static int64_t whole(const struct json *value)
{
    double amount = number(value);

    return (int64_t)amount;
}

/* ---- configuration ---- */
static bool has_plugin(const struct json *plugins, const char *name)
{
    if (!json_is(plugins, JSON_ARRAY))
        return true;
    JSON_FOREACH(plugins, plugin)
        if (str_is(json_str(json_get(plugin, "name")), name))
            return true;
    return false;
}

static void make_config(const struct run *run, struct sched_config *config)
{
    const struct json *from = json_get(run->scenario, "config");
    const struct json *plugins = json_get(from, "plugins");

    sched_config_default(config);
    config->quirks = run->quirks;
    config->policy.consolidate_max =
        json_i64_or(json_get(from, "max_consolidation_preemptees"), -1);
    config->policy.consolidating_reclaim =
        json_bool_or(json_get(from, "allow_consolidating_reclaim"), true);
    config->policy.stale_grace_ms = whole(json_get(from, "staleness_grace_period_seconds")) * 1000;
    config->policy.without_filters = !json_bool_or(json_get(from, "predicates_enabled"), true);
    config->policy.without_proportion = !has_plugin(plugins, "proportion");
    config->policy.without_placement = !has_plugin(plugins, "nodeplacement");
    JSON_FOREACH(json_is(plugins, JSON_ARRAY) ? plugins : NULL, plugin) {
        if (str_is(json_str(json_get(plugin, "name")), "gpuspread") ||
            str_is(json_str_at(plugin, "arguments.gpu"), "spread"))
            config->policy.gpu_strategy = SCHED_SPREAD;
        if (str_is(json_str_at(plugin, "arguments.cpu"), "spread"))
            config->policy.cpu_strategy = SCHED_SPREAD;
    }
    JSON_FOREACH(json_get(run->scenario, "nodes"), node)
        config->policy.numa = config->policy.numa || !json_is_null(json_get(node, "numa_topology"));
    config->policy.actions = 0;
    JSON_FOREACH(json_get(run->scenario, "actions"), action)
        for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++)
            if (str_is(json_str(action), sched_action_word((enum sched_action)i)))
                config->policy.actions |= 1U << i;
}

/* ---- events ---- */
static struct sched_label *labels(struct arena *arena, const struct json *from, size_t *ret_count)
{
    struct sched_label *all = ARENA_ARRAY(arena, struct sched_label, json_count(from) + 1);

    *ret_count = 0;
    JSON_FOREACH(from, label)
        all[(*ret_count)++] = (struct sched_label){json_key(label), json_str(label)};
    return all;
}

static void put_node(struct run *run, struct sched *sched, const struct json *from)
{
    struct sched_node node = {
        .name = json_str(json_get(from, "name")),
        .cpu_milli = whole(json_get(from, "cpu_milli")),
        .memory_bytes = whole(json_get(from, "memory_bytes")),
        .gpus = whole(json_get(from, "allocatable_gpus")),
        .pods = whole(json_get(from, "max_pods")),
        .gpu_memory_mib = whole(json_get(from, "gpu_memory_mib")),
        .gpu_count = whole(json_get(from, "gpus")),
    };
    const struct json *mig = json_get(from, "mig");
    struct str strategy = json_str(json_get(mig, "strategy"));
    const struct json *slices = json_at(run->scenario, "dra.resource_slices");
    struct sched_amount *amounts =
        ARENA_ARRAY(run->arena, struct sched_amount,
                    json_count(json_get(mig, "instances")) + json_count(slices) + 1);

    node.labels = labels(run->arena, json_get(from, "labels"), &node.label_count);
    node.mig = str_is(strategy, "single")  ? SCHED_MIG_SINGLE
               : str_is(strategy, "mixed") ? SCHED_MIG_MIXED
                                           : SCHED_MIG_NONE;
    for (size_t i = 0; i < node.label_count; i++)
        if (str_is(node.labels[i].key, "node-role.kubernetes.io/mig-enabled"))
            node.mig_enabled = str_is(node.labels[i].value, "true");
    JSON_FOREACH(json_get(mig, "instances"), instance)
        amounts[node.amount_count++] = (struct sched_amount){json_key(instance), whole(instance)};
    JSON_FOREACH(slices, slice) {
        struct str class = json_str(json_get(slice, "device_class_given"));
        if (str_eq(json_str(json_get(slice, "node")), node.name) &&
            !str_contains(class, STR("gpu")))
            amounts[node.amount_count++] =
                (struct sched_amount){class, whole(json_get(slice, "count"))};
    }
    node.amounts = amounts;
    sched_put_node(sched, &node);
    numa_put_node(run->arena, sched, from);
}

static void put_queue(struct sched *sched, const struct json *from)
{
    static const char *const names[SCHED_RESOURCES] = {"cpu", "memory", "gpu"};
    struct sched_queue queue = {
        .name = json_str(json_get(from, "name")),
        .parent = json_str(json_get(from, "parent")),
        .priority = json_i64_or(json_get(from, "priority"), 100),
        .created_ms = NOW_MS + json_i64_or(json_get(from, "creation_order"), 0) * 60000,
        .preempt_min_runtime_ms = -1,
        .reclaim_min_runtime_ms = -1,
    };

    if (json_get(from, "reclaim_min_runtime_seconds"))
        queue.reclaim_min_runtime_ms = whole(json_get(from, "reclaim_min_runtime_seconds")) * 1000;

    for (int r = 0; r < SCHED_RESOURCES; r++) {
        const struct json *quota = json_get(from, names[r]);
        queue.quota[r] =
            (struct sched_quota){number(json_get(quota, "quota")), number(json_get(quota, "limit")),
                                 number(json_get(quota, "over_quota_weight"))};
    }
    sched_put_queue(sched, &queue);
}

static struct sched_topology_want topology_of(const struct json *from)
{
    return (struct sched_topology_want){json_str(json_get(from, "topology")),
                                        json_str(json_get(from, "required_level")),
                                        json_str(json_get(from, "preferred_level"))};
}

struct subgroups VEC_FIELDS(struct sched_subgroup);

/* Absent: all of them. */
static int64_t min_subgroup(const struct json *set)
{
    const struct json *least = json_get(set, "min_sub_group");

    if (json_is_null(least))
        return 0;
    return json_i64_or(least, 0) > 0 ? json_i64_or(least, 0) : -1;
}

static void flatten(struct run *run,
                    const struct json *set,
                    struct str parent,
                    struct subgroups *ret)
{
    JSON_FOREACH(json_get(set, "groups"), group) {
        struct str name = json_str(json_get(group, "name"));
        VEC_PUSH(run->arena, ret,
                 (struct sched_subgroup){.name = name,
                                         .parent = parent,
                                         .min_subgroup = min_subgroup(group),
                                         .topology =
                                             topology_of(json_get(group, "topology_constraint"))});
        flatten(run, group, name, ret);
    }
    JSON_FOREACH(json_get(set, "pod_sets"), leaf)
        VEC_PUSH(run->arena, ret,
                 (struct sched_subgroup){.name = json_str(json_get(leaf, "name")),
                                         .parent = parent,
                                         .min_member = whole(json_get(leaf, "min_available")),
                                         .topology =
                                             topology_of(json_get(leaf, "topology_constraint"))});
}

static bool state_allocated(struct str state)
{
    return str_is(state, "Running") || str_is(state, "Binding") || str_is(state, "Bound") ||
           str_is(state, "Allocated");
}

static void put_job(struct run *run, struct sched *sched, const struct json *job)
{
    struct subgroups subgroups = {0};
    const struct json *root = json_get(job, "root_subgroup");
    const struct json *stale = json_get(job, "stale_seconds");
    struct sched_group group = {
        .ns = json_str(json_get(job, "namespace")),
        .name = json_str(json_get(job, "name")),
        .queue = json_str(json_get(job, "queue")),
        .created_ms = NOW_MS - whole(json_get(job, "age_minutes")) * 60000,
        .min_member = whole(json_get(job, "min_member")),
        .has_priority = true,
        .priority = whole(json_get(job, "priority")),
        .preemptibility = json_bool_or(json_get(job, "preemptible"), true) ? SCHED_PREEMPTIBLE
                                                                           : SCHED_NON_PREEMPTIBLE,
        .topology = topology_of(json_get(root, "topology_constraint")),
        .min_subgroup = min_subgroup(root),
        .preempt_delay_ms = whole(json_get(job, "preemption_delay_seconds")) * 1000,
        .has_stale_grace = !json_is_null(json_get(job, "staleness_grace_period_seconds")),
        .stale_grace_ms = whole(json_get(job, "staleness_grace_period_seconds")) * 1000,
    };

    flatten(run, root, STR_NONE, &subgroups);
    group.subgroups = subgroups.items;
    group.subgroup_count = subgroups.count;
    if (!json_is_null(stale))
        group.stale_since_ms = NOW_MS - whole(stale) * 1000;
    for (size_t i = 0; i < run->task_count; i++)
        if (run->tasks[i].job == job && state_allocated(run->tasks[i].state))
            group.last_start_ms = NOW_MS - 60000;
    sched_put_group(sched, &group);
}

static const struct sched_pod_term *term_of(struct run *run,
                                            const struct json *from,
                                            size_t *ret_count)
{
    struct sched_pod_term *term = ARENA_NEW(run->arena, struct sched_pod_term);
    const struct json *match = json_get(from, "match_labels");
    struct sched_expression *expressions =
        ARENA_ARRAY(run->arena, struct sched_expression, json_count(match) + 1);

    if (json_is_null(from))
        return NULL;
    JSON_FOREACH(match, label) {
        struct str *value = ARENA_NEW(run->arena, struct str);
        *value = json_str(label);
        expressions[term->selector.expression_count++] = (struct sched_expression){
            .key = json_key(label), .op = SCHED_IN, .values = value, .value_count = 1};
    }
    term->selector.set = true;
    term->selector.expressions = expressions;
    term->topology_key = json_str(json_get(from, "topology_key"));
    *ret_count = 1;
    return term;
}

static void pod_request(struct run *run, const struct json *request, struct sched_pod *pod)
{
    struct str type = json_str(json_get(request, "type"));
    const struct json *mig = json_get(request, "mig");
    struct sched_amount *amounts =
        ARENA_ARRAY(run->arena, struct sched_amount, json_count(mig) + 1);

    pod->cpu_milli = whole(json_get(request, "cpu_milli"));
    pod->memory_bytes = whole(json_get(request, "memory_bytes"));
    if (str_is(type, "Regular"))
        pod->gpus = whole(json_get(request, "gpus"));
    pod->gpu_devices = whole(json_get(request, "gpu_devices"));
    if (str_is(type, "Fraction"))
        pod->gpu_fraction_micro =
            (int64_t)(number(json_get(request, "gpu_fraction")) * 1000000 + 0.5);
    if (str_is(type, "GpuMemory"))
        pod->gpu_memory_mib = whole(json_get(request, "gpu_memory_mib"));
    JSON_FOREACH(mig, profile)
        amounts[pod->amount_count++] = (struct sched_amount){json_key(profile), whole(profile)};
    pod->amounts = amounts;
}

static void pod_constraints(struct run *run, const struct json *from, struct sched_pod *pod)
{
    const struct json *nodes = json_get(from, "node_affinity_in");

    pod->affinity = term_of(run, json_get(from, "pod_affinity"), &pod->affinity_count);
    pod->anti_affinity =
        term_of(run, json_get(from, "pod_anti_affinity"), &pod->anti_affinity_count);
    if (!json_count(nodes))
        return;
    struct sched_node_term *term = ARENA_NEW(run->arena, struct sched_node_term);
    struct sched_expression *expression = ARENA_NEW(run->arena, struct sched_expression);
    struct str *values = ARENA_ARRAY(run->arena, struct str, json_count(nodes));
    JSON_FOREACH(nodes, node)
        values[expression->value_count++] = json_str(node);
    expression->key = STR("kai.scheduler/type");
    expression->op = SCHED_IN;
    expression->values = values;
    term->labels = expression;
    term->label_count = 1;
    pod->node_affinity = true;
    pod->node_terms = term;
    pod->node_term_count = 1;
}

static void pod_claims(struct run *run, const struct json *from, struct sched_pod *pod)
{
    const struct json *names = json_get(from, "resource_claims");
    const struct json *templates = json_get(from, "resource_claim_templates");
    struct sched_claim_use *claims = ARENA_ARRAY(run->arena, struct sched_claim_use,
                                                 json_count(names) + json_count(templates) + 1);

    JSON_FOREACH(names, name)
        claims[pod->claim_count++] = (struct sched_claim_use){.name = json_str(name)};
    JSON_FOREACH(templates, name)
        claims[pod->claim_count++] =
            (struct sched_claim_use){.name = json_str(name), .from_template = true};
    pod->claims = claims;
}

static void put_pod(struct run *run, struct sched *sched, const struct task *task)
{
    const struct json *priority = json_get(task->json, "task_priority");
    struct str subgroup = json_str(json_get(task->json, "subgroup"));
    bool stuck = str_is(task->state, "StuckInReleasing");
    bool holds = state_allocated(task->state) || str_is(task->state, "Releasing") || stuck;
    struct sched_pod pod = {
        .ns = json_str(json_get(task->job, "namespace")),
        .name = task->name,
        .uid = task->name,
        .group = json_str(json_get(task->job, "name")),
        .subgroup = subgroup.len ? subgroup : STR("default"),
        .phase = state_allocated(task->state)       ? SCHED_RUNNING
                 : str_is(task->state, "Releasing") ? SCHED_RELEASING
                 : stuck                            ? SCHED_RELEASING
                 : str_is(task->state, "Failed")    ? SCHED_FAILED
                                                    : SCHED_PENDING,
        .node = holds ? task->node : STR_NONE,
        .deleted_ms = stuck ? NOW_MS - 3600000 : 0,
        .role_rank = 2,
        .has_task_priority = !json_is_null(priority),
        .task_priority = json_i64_or(priority, 0),
        .legacy_mig = json_bool_or(json_get(task->json, "is_legacy_mig"), false),
        .gpu_groups = task->groups,
        .gpu_group_count = holds ? task->group_count : 0,
    };

    pod.labels = labels(run->arena, json_get(task->json, "labels"), &pod.label_count);
    pod_request(run, json_get(task->json, "request"), &pod);
    pod_constraints(run, task->json, &pod);
    pod_claims(run, task->json, &pod);
    numa_fill_pod(run->arena, task->json, &pod);
    if (!holds)
        pod.zone_part_count = 0;
    sched_put_pod(sched, &pod);
}

static void put_claims(struct run *run, struct sched *sched)
{
    JSON_FOREACH(json_at(run->scenario, "dra.resource_claims"), claim)
        sched_put_claim(
            sched,
            &(struct sched_claim){
                .ns = json_str(json_get(claim, "namespace")),
                .name = json_str(json_get(claim, "name")),
                .queue = json_str(json_get(json_get(claim, "labels"), "kai.scheduler/queue")),
                .device_class = json_str(json_get(claim, "device_class")),
                .device_count = whole(json_get(claim, "count")),
                .consumers =
                    json_i64_or(json_at(claim, "status.reserved_for_generated.count"), 0)});
}

static int by_task_name(const void *a, const void *b)
{
    return str_cmp((*(struct task *const *)a)->name, (*(struct task *const *)b)->name);
}

static struct sched *build(struct run *run)
{
    struct sched_config config;
    struct task **sorted = ARENA_ARRAY(run->arena, struct task *, run->task_count + 1);

    make_config(run, &config);
    struct sched *sched = sched_new(&config);
    JSON_FOREACH(json_get(run->scenario, "nodes"), node)
        put_node(run, sched, node);
    JSON_FOREACH(json_get(run->scenario, "queues"), queue)
        put_queue(sched, queue);
    JSON_FOREACH(json_get(run->scenario, "topologies"), topology) {
        const struct json *levels = json_get(topology, "levels");
        struct str *names = ARENA_ARRAY(run->arena, struct str, json_count(levels) + 1);
        size_t count = 0;

        JSON_FOREACH(levels, level)
            names[count++] = json_str(level);
        sched_put_topology(sched,
                           &(struct sched_topology){.name = json_str(json_get(topology, "name")),
                                                    .levels = names,
                                                    .level_count = count});
    }
    put_claims(run, sched);
    JSON_FOREACH(json_get(run->scenario, "jobs"), job)
        put_job(run, sched, job);
    for (size_t i = 0; i < run->task_count; i++)
        sorted[i] = &run->tasks[i];
    if (run->task_count)
        qsort(sorted, run->task_count, sizeof(struct task *), by_task_name);
    for (size_t i = 0; i < run->task_count; i++)
        put_pod(run, sched, sorted[i]);
    return sched;
}

/* ---- rounds ---- */
static struct task *task_of(struct run *run, struct str name)
{
    return map_get(&run->by_name, name);
}

static void apply_plan(struct run *run, const struct sched_plan *plan)
{
    run->binds = plan->bind_count;
    run->evicts = plan->evict_count;
    run->pipelined = plan->nominate_count;
    for (size_t i = 0; i < plan->evict_count; i++)
        task_of(run, plan->evicts[i].pod.name)->cycle_state = STR("Releasing");
    for (size_t i = 0; i < plan->bind_count; i++) {
        struct task *task = task_of(run, plan->binds[i].pod.name);

        task->cycle_state = STR("Binding");
        task->cycle_node = str_dup(run->arena, plan->binds[i].node);
        task->group_count = plan->binds[i].gpu_group_count;
        for (size_t g = 0; g < task->group_count; g++)
            task->groups[g] = str_dup(run->arena, plan->binds[i].gpu_groups[g]);
    }
    for (size_t i = 0; i < plan->nominate_count; i++) {
        struct task *task = task_of(run, plan->nominates[i].pod.name);

        task->cycle_state = STR("Pipelined");
        task->cycle_node = str_dup(run->arena, plan->nominates[i].node);
    }
}

static void cycle(struct run *run, struct sched *sched)
{
    struct sched_plan plan;

    for (size_t i = 0; i < run->task_count; i++) {
        run->tasks[i].cycle_state = run->tasks[i].state;
        run->tasks[i].cycle_node = run->tasks[i].node;
    }
    sched_cycle(sched, NOW_MS, run->arena, &plan);
    apply_plan(run, &plan);
}

static void write_back(struct run *run)
{
    for (size_t i = 0; i < run->task_count; i++) {
        struct task *task = &run->tasks[i];
        bool stays = json_bool_or(json_get(task->job, "delete_job_in_test"), false);

        if (str_is(task->cycle_state, "Releasing") && stays) {
            task->state = task->cycle_state;
        } else if (str_is(task->cycle_state, "Releasing") ||
                   str_is(task->cycle_state, "Pipelined")) {
            task->state = STR("Pending");
            task->node = STR_NONE;
        } else {
            task->state = str_is(task->cycle_state, "Binding") ? STR("Running") : task->cycle_state;
            task->node = task->cycle_node;
        }
    }
}

/* ---- matching ---- */
static bool match_task(const struct run *run,
                       const struct task *task,
                       const struct json *expected,
                       int round)
{
    struct str status = json_str(json_get(expected, "status"));
    struct str node = json_str(json_get(expected, "node"));

    if (!str_eq(task->cycle_state, status))
        return differs(run->scenario, "round %d: pod " STR_FMT " is " STR_FMT ", expected " STR_FMT,
                       round, STR_ARG(task->name), STR_ARG(task->cycle_state), STR_ARG(status));
    if (node.len && !str_eq(task->cycle_node, node))
        return differs(run->scenario,
                       "round %d: pod " STR_FMT " is on " STR_FMT ", expected " STR_FMT, round,
                       STR_ARG(task->name), STR_ARG(task->cycle_node), STR_ARG(node));
    return true;
}

static bool match_zones(const struct run *run,
                        struct sched *sched,
                        const struct task *task,
                        const struct json *expected)
{
    return numa_match_pod(run->scenario, sched, json_str(json_get(task->job, "namespace")),
                          task->name, json_get(expected, "numa_zones"));
}

static bool match_counts(const struct run *run, int round)
{
    const struct json *counts = json_at(run->scenario, "expected.counts");
    const struct {
        const char *name;
        size_t got;
    } all[] = {{"bindings", run->binds}, {"evictions", run->evicts}, {"pipelined", run->pipelined}};

    for (size_t i = 0; i < 3; i++) {
        int64_t most = json_i64_or(json_get(counts, all[i].name), 0);
        if ((int64_t)all[i].got > most)
            return differs(run->scenario, "round %d: %zu %s, expected at most %lld", round,
                           all[i].got, all[i].name, (long long)most);
    }
    return true;
}

/* The pods of a subgroup are on nodes that have the same value, or a certain one, of a label. */
static bool match_together(const struct run *run, const struct json *place, int round)
{
    struct str set = json_key(place).len ? json_key(place) : json_str(json_get(place, "subgroup"));
    const struct json *nodes = json_get(place, "nodes");

    for (size_t i = 0; i < run->task_count; i++) {
        const struct task *task = &run->tasks[i];
        bool there = !json_count(nodes);

        if (!str_eq(json_str(json_get(task->json, "subgroup")), set))
            continue;
        JSON_FOREACH(nodes, node)
            there = there || str_eq(json_str(node), task->cycle_node);
        if (!there || !task->cycle_node.len)
            return differs(run->scenario, "round %d: pod " STR_FMT " is on " STR_FMT, round,
                           STR_ARG(task->name), STR_ARG(task->cycle_node));
    }
    return true;
}

static bool match(struct run *run, struct sched *sched, int round)
{
    const struct json *expected = json_get(run->scenario, "expected");

    JSON_FOREACH(json_get(expected, "jobs"), job)
        for (size_t i = 0; i < run->task_count; i++)
            if (str_eq(json_str(json_get(run->tasks[i].job, "name")), json_key(job)) &&
                (!match_task(run, &run->tasks[i], job, round) ||
                 !match_zones(run, sched, &run->tasks[i], job)))
                return false;
    JSON_FOREACH(json_get(expected, "tasks"), pod) {
        const struct task *task = task_of(run, json_key(pod));
        if (task && (!match_task(run, task, pod, round) || !match_zones(run, sched, task, pod)))
            return false;
    }
    JSON_FOREACH(json_get(expected, "subgroup_placement"), place)
        if (!match_together(run, place, round))
            return false;
    JSON_FOREACH(json_get(expected, "nodes"), node) {
        struct sched_node_view view = {0};

        if (!numa_match_node(run->scenario, sched, json_key(node),
                             json_get(node, "numa_zones_available")))
            return false;
        (void)sched_node_view(sched, json_key(node), &view);
        if (view.releasing_gpus != whole(json_get(node, "releasing_gpus")) ||
            view.idle_gpus != whole(json_get(node, "idle_gpus")))
            return differs(run->scenario,
                           "round %d: node " STR_FMT " has %lld idle and %lld releasing GPUs",
                           round, STR_ARG(json_key(node)), (long long)view.idle_gpus,
                           (long long)view.releasing_gpus);
    }
    return true;
}

static void load(struct run *run)
{
    size_t count = 0;

    JSON_FOREACH(json_get(run->scenario, "jobs"), job)
        count += json_count(json_get(job, "tasks"));
    run->tasks = ARENA_ARRAY(run->arena, struct task, count + 1);
    JSON_FOREACH(json_get(run->scenario, "jobs"), job)
        JSON_FOREACH(json_get(job, "tasks"), from) {
            struct task *task = &run->tasks[run->task_count++];
            int64_t fresh = json_i64_or(json_get(from, "random_gpu_groups"), 0);

            task->name = json_str(json_get(from, "name"));
            task->json = from;
            task->job = job;
            task->state = json_str(json_get(from, "state"));
            task->node = json_str(json_get(from, "node"));
            JSON_FOREACH(json_get(from, "gpu_groups"), group)
                if (task->group_count < 16)
                    task->groups[task->group_count++] = json_str(group);
            for (int64_t i = 0; i < fresh && task->group_count < 16; i++)
                task->groups[task->group_count++] = str_printf(run->arena, "own-" STR_FMT "-%lld",
                                                               STR_ARG(task->name), (long long)i);
            map_set(&run->by_name, task->name, task);
        }
}

static bool run_integration(struct run *run)
{
    const struct json *config = json_get(run->scenario, "config");
    int64_t before = json_i64_or(json_get(config, "rounds_until_match"), 2);
    int64_t after = json_i64_or(json_get(config, "rounds_after_match"), 5);
    bool good = true;
    int round = 0;

    for (; round < before && good; round++) {
        struct sched *sched = build(run);
        cycle(run, sched);
        good = match_counts(run, round);
        write_back(run);
        sched_free(sched);
    }
    for (size_t i = 0; i < run->task_count; i++) {
        run->tasks[i].cycle_state = run->tasks[i].state;
        run->tasks[i].cycle_node = run->tasks[i].node;
    }
    struct sched *fresh = build(run);
    good = good && match(run, fresh, round);
    sched_free(fresh);
    for (; round < before + after && good; round++) {
        struct sched *sched = build(run);
        cycle(run, sched);
        good = match_counts(run, round) && match(run, sched, round);
        write_back(run);
        sched_free(sched);
    }
    return good;
}

bool run_scenario(struct arena *arena, const struct json *scenario, uint64_t quirks)
{
    struct run run = {.arena = arena, .scenario = scenario, .quirks = quirks};

    if (case_is_017(scenario))
        run.quirks &= ~SCHED_QUIRKS_PAST;
    bool good = false;

    load(&run);
    if (str_is(json_str(json_get(scenario, "mode")), "integration")) {
        good = run_integration(&run);
    } else {
        struct sched *sched = build(&run);
        cycle(&run, sched);
        good = match_counts(&run, 0) && match(&run, sched, 0);
        if (json_bool_or(json_at(scenario, "config.bind_always_fails"), false))
            good = true; /* ending at all is what it asks for */
        sched_free(sched);
    }
    map_done(&run.by_name);
    return good;
}

/* Whether a pod's claims let it be placed at all. The nodes are those the slices name. */
bool run_claim_unit(struct arena *arena, const struct json *unit)
{
    struct run run = {.arena = arena, .scenario = unit, .quirks = SCHED_QUIRKS_ALL};
    struct sched_config config;
    struct sched_plan plan;

    load(&run);
    sched_config_default(&config);
    config.quirks = SCHED_QUIRKS_ALL;
    struct sched *sched = sched_new(&config);
    JSON_FOREACH(json_at(unit, "dra.resource_slices"), slice) {
        struct sched_amount amount = {json_str(json_get(slice, "device_class_given")), 8};
        sched_put_node(sched, &(struct sched_node){.name = json_str(json_get(slice, "node")),
                                                   .cpu_milli = 1000000,
                                                   .memory_bytes = INT64_C(1) << 40,
                                                   .gpus = 8,
                                                   .amounts = &amount,
                                                   .amount_count = 1,
                                                   .pods = 110});
    }
    JSON_FOREACH(json_get(unit, "jobs"), job) {
        struct sched_queue queue = {.name = json_str(json_get(job, "queue")), .priority = 100};
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        sched_put_queue(sched, &queue);
        put_job(&run, sched, job);
    }
    put_claims(&run, sched);
    for (size_t i = 0; i < run.task_count; i++)
        put_pod(&run, sched, &run.tasks[i]);
    sched_cycle(sched, NOW_MS, arena, &plan);
    bool want = json_is_null(json_at(unit, "expected.pre_predicate_error"));
    bool nodes = json_count(json_at(unit, "dra.resource_slices")) > 0;
    bool got = plan.bind_count == run.task_count;
    sched_free(sched);
    map_done(&run.by_name);
    return got == want || (want && !nodes) || differs(unit, "%s", got ? "placed" : "refused");
}
