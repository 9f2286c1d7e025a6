#include "cmd/simulate.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "cmd/look.h"
#include "cmd/muster.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "tool/file.h"
#include "tool/option.h"
#include "tool/term.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

/* muster simulate FILE...: what would happen, without a cluster.
 *
 * Manifests go in (nodes, queues, pods, pod groups, priority classes), and shorthand for what does
 * not exist yet (simulate_input.c). The scheduler's own core decides, cycle after cycle, until
 * nothing changes: bound pods run, evicted ones end at once and wait again. Out comes who is where,
 * who was evicted for whom, and who waits and why. An `expect:` section is checked, so that a file
 * is a test of a policy. */

struct simulate_values {
    struct look_values look; /* of --live; its `output` is ours */
    bool live;
    bool each;
    struct option_list files;
    struct sim_change change;
    bool mimic;
    int64_t cycles;
};

static const char *const outputs[] = {"table", "json", NULL};

static const struct option simulate_options[] = {
    {"output", 'o', OPTION_CHOICE, offsetof(struct simulate_values, look.output),
     .fallback = "table", .choices = outputs, .value = "FORMAT", .help = "table or json"},
    LOOK_OPTIONS,
    {"filename", 'f', OPTION_LIST, offsetof(struct simulate_values, files), .value = "FILE",
     .help = "a file of manifests, as an argument is; can be repeated"},
    {"live", 0, OPTION_BOOL, offsetof(struct simulate_values, live),
     .help = "begin with the cluster as it is now, and say what changes"},
    {"each", 0, OPTION_BOOL, offsetof(struct simulate_values, each),
     .help = "each file is a cluster of its own; prints a line of JSON for each"},
    {"drain", 0, OPTION_LIST, offsetof(struct simulate_values, change.drains), .value = "NODE",
     .help = "with --live: the node is emptied"},
    {"quota", 0, OPTION_LIST, offsetof(struct simulate_values, change.quotas),
     .value = "QUEUE=GPUS", .help = "with --live: the queue is guaranteed so many GPUs"},
    {"mimic", 0, OPTION_BOOL, offsetof(struct simulate_values, mimic),
     .help = "decide as KAI Scheduler would, with every difference switched off"},
    {"cycles", 0, OPTION_I64, offsetof(struct simulate_values, cycles), .fallback = "20", .min = 1,
     .max = 100000, .value = "N", .help = "stop after N cycles even if something still changes"},
    {0},
};

#define START_MS INT64_C(1800000000000)
#define CYCLE_MS 1000

static struct sim_pod *pod_of(struct sim *sim, struct str ns, struct str name)
{
    for (size_t i = 0; i < sim->pods.count; i++)
        if (str_eq(sim->pods.items[i].spec.name, name) && str_eq(sim->pods.items[i].spec.ns, ns))
            return &sim->pods.items[i];
    return NULL;
}

static const char *pod_state(const struct sim_pod *pod)
{
    if (pod->spec.phase == SCHED_PENDING || pod->spec.phase == SCHED_GATED)
        return "Queued";
    if (pod->spec.phase == SCHED_FAILED)
        return "Failed";
    return pod->ends ? "Ending" : "Running";
}

static void play_binds(struct sim *sim, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->bind_count; i++) {
        const struct sched_bind *bind = &plan->binds[i];
        struct sim_pod *pod = pod_of(sim, bind->pod.ns, bind->pod.name);

        if (!pod)
            continue;
        struct str *groups = ARENA_ARRAY(sim->arena, struct str, bind->gpu_group_count + 1);
        uint32_t *devices = ARENA_ARRAY(sim->arena, uint32_t, bind->device_count + 1);

        pod->spec.phase = SCHED_RUNNING;
        pod->spec.node = str_dup(sim->arena, bind->node);
        VEC_PUSH(sim->arena, &sim->binds,
                 (struct sim_bind){sim->cycle, pod->spec.name, pod->spec.node});
        for (size_t g = 0; g < bind->gpu_group_count; g++)
            groups[g] = str_dup(sim->arena, bind->gpu_groups[g]);
        for (size_t d = 0; d < bind->device_count; d++)
            devices[d] = bind->devices[d];
        pod->spec.gpu_groups = groups;
        pod->spec.gpu_group_count = bind->gpu_group_count;
        pod->spec.devices = devices;
        pod->spec.device_count = bind->gpu_group_count ? 0 : bind->device_count;
        sched_put_pod(sim->sched, &pod->spec);
    }
}

/* The pod ends; its owner makes a new one, which waits. */
static void end_pod(struct sim *sim, struct sim_pod *pod)
{
    pod->ends = 0;
    sched_drop_pod(sim->sched, pod->spec.ns, pod->spec.name);
    pod->spec.phase = SCHED_PENDING;
    pod->spec.node = STR_NONE;
    pod->spec.uid =
        str_printf(sim->arena, STR_FMT "-again-%u", STR_ARG(pod->spec.uid), pod->evicted);
    pod->spec.gpu_group_count = pod->spec.device_count = 0;
    sched_put_pod(sim->sched, &pod->spec);
}

static void play_evicts(struct sim *sim, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        const struct sched_evict *evict = &plan->evicts[i];
        struct sim_pod *pod = pod_of(sim, evict->pod.ns, evict->pod.name);

        if (!pod)
            continue;
        VEC_PUSH(sim->arena, &sim->evictions,
                 (struct sim_eviction){.cycle = sim->cycle,
                                       .pod = pod->spec.name,
                                       .action = sched_action_word(evict->action),
                                       .message = str_dup(sim->arena, evict->message),
                                       .moved = evict->moved});
        pod->evicted++;
        if (pod->lingers) {
            pod->ends = sim->cycle + pod->lingers;
            pod->spec.phase = SCHED_RELEASING;
            sched_put_pod(sim->sched, &pod->spec);
        } else {
            end_pod(sim, pod);
        }
    }
}

/* Submits and ends what is due in this cycle; true: something is due later. */
static bool pass_time(struct sim *sim)
{
    bool later = false;

    for (size_t i = 0; i < sim->pods.count; i++) {
        struct sim_pod *pod = &sim->pods.items[i];

        if (pod->from == sim->cycle)
            sched_put_pod(sim->sched, &pod->spec);
        if (pod->ends == sim->cycle)
            end_pod(sim, pod);
        if (pod->fails == sim->cycle && pod->spec.phase == SCHED_RUNNING) {
            pod->spec.phase = SCHED_FAILED;
            sched_put_pod(sim->sched, &pod->spec);
        }
        if (pod->back == sim->cycle && pod->spec.phase == SCHED_FAILED)
            end_pod(sim, pod);
        later = later || pod->from > sim->cycle || pod->ends > sim->cycle ||
                pod->fails > sim->cycle || pod->back > sim->cycle;
    }
    return later;
}

static void keep_waiting(struct sim *sim, const struct sched_plan *plan)
{
    sim->waiting.count = 0;
    for (size_t i = 0; i < plan->waiting_count; i++)
        VEC_PUSH(sim->arena, &sim->waiting,
                 (struct sched_waiting){.ns = str_dup(sim->arena, plan->waiting[i].ns),
                                        .group = str_dup(sim->arena, plan->waiting[i].group),
                                        .reason = plan->waiting[i].reason,
                                        .message = str_dup(sim->arena, plan->waiting[i].message)});
}

static void run_cycles(struct sim *sim, int64_t most)
{
    bool changing = true;

    for (sim->cycle = 1; changing && sim->cycle <= most; sim->cycle++) {
        struct arena arena = {0};
        struct sched_plan plan;
        bool later = pass_time(sim);

        sched_cycle(sim->sched, sim->start_ms + sim->cycle * CYCLE_MS, &arena, &plan);
        changing = later || plan.bind_count || plan.evict_count || sched_needs_cycle(sim->sched);
        play_evicts(sim, &plan);
        play_binds(sim, &plan);
        keep_waiting(sim, &plan);
        arena_done(&arena);
    }
}

const struct sched_waiting *sim_waiting(const struct sim *sim, const struct sim_pod *pod)
{
    for (size_t i = 0; i < sim->waiting.count; i++)
        if (str_eq(sim->waiting.items[i].group, pod->spec.group) &&
            str_eq(sim->waiting.items[i].ns, pod->spec.ns))
            return &sim->waiting.items[i];
    return NULL;
}

/* ---- results ---- */
static void write_table(struct sim *sim, struct buf *out)
{
    static const char *const headers[] = {"POD", "GROUP", "STATE", "NODE", "WHY", NULL};
    static const char *const evicted[] = {"CYCLE", "EVICTED", "BY", "WHY", NULL};
    unsigned wraps_at = term_open(STDOUT_FILENO, NULL).wraps_at;
    struct table table;

    table_init(&table, sim->arena, headers);
    table.wraps_at = wraps_at;
    for (size_t i = 0; i < sim->pods.count; i++) {
        const struct sim_pod *pod = &sim->pods.items[i];
        const struct sched_waiting *why = sim_waiting(sim, pod);
        bool waits = pod->spec.phase == SCHED_PENDING || pod->spec.phase == SCHED_GATED;

        if (sim->live && !waits && str_eq(pod->spec.node, pod->began_node))
            continue; /* it stays where it is */
        table_add(&table, pod->spec.name);
        table_add(&table, pod->spec.group);
        table_add(&table, str_from(pod_state(pod)));
        table_add(&table, pod->spec.node.len ? pod->spec.node : STR("-"));
        table_add(&table, waits && why ? why->message : STR(""));
    }
    table_write(out, &table, true);
    if (!sim->evictions.count)
        return;
    buf_addc(out, '\n');
    table_init(&table, sim->arena, evicted);
    table.wraps_at = wraps_at;
    for (size_t i = 0; i < sim->evictions.count; i++) {
        const struct sim_eviction *eviction = &sim->evictions.items[i];

        table_add(&table, str_printf(sim->arena, "%lld", (long long)eviction->cycle));
        table_add(&table, eviction->pod);
        table_add(&table, str_from(eviction->action));
        table_add(&table, eviction->message);
    }
    table_write(out, &table, true);
}

/* Every waiting group once, with all that is known about it. */
static void write_waiting(struct sim *sim, struct json *list)
{
    for (size_t i = 0; i < sim->waiting.count; i++) {
        struct sched_explanation explanation;

        if (sched_explain(sim->sched, sim->waiting.items[i].ns, sim->waiting.items[i].group,
                          sim->arena, &explanation))
            json_push(list, sched_explanation_json(sim->arena, &explanation));
    }
}

static void write_shares(struct arena *arena, const struct sched_pod *pod, struct json *item)
{
    struct json *groups = pod->gpu_group_count ? json_add_array(arena, item, "gpuGroups") : NULL;

    for (size_t i = 0; i < pod->gpu_group_count; i++)
        json_push(groups, json_new_str(arena, pod->gpu_groups[i]));
}

static struct json *result_json(struct sim *sim)
{
    struct json *top = json_new_object(sim->arena);
    struct json *pods = json_add_array(sim->arena, top, "pods");
    struct json *evictions = json_add_array(sim->arena, top, "evictions");

    for (size_t i = 0; i < sim->pods.count; i++) {
        const struct sim_pod *pod = &sim->pods.items[i];
        const struct sched_waiting *why = sim_waiting(sim, pod);
        bool waits = pod->spec.phase == SCHED_PENDING || pod->spec.phase == SCHED_GATED;
        struct json *item = json_push(
            pods, json_make(sim->arena, "{namespace: $, name: $, group: $, state: $}", pod->spec.ns,
                            pod->spec.name, pod->spec.group, pod_state(pod)));

        if (pod->spec.node.len)
            json_add_str(sim->arena, item, "node", pod->spec.node);
        write_shares(sim->arena, &pod->spec, item);
        if (waits && why) {
            json_add_c(sim->arena, item, "reason", sched_reason_word(why->reason));
            json_add_str(sim->arena, item, "message", why->message);
        }
    }
    write_waiting(sim, json_add_array(sim->arena, top, "waiting"));
    json_add_i64(sim->arena, top, "cycles", sim->cycle - 1);
    struct json *binds = json_add_array(sim->arena, top, "binds");
    for (size_t i = 0; i < sim->binds.count; i++)
        json_push(binds,
                  json_make(sim->arena, "{cycle: $, pod: $, node: $}", sim->binds.items[i].cycle,
                            sim->binds.items[i].pod, sim->binds.items[i].node));
    for (size_t i = 0; i < sim->evictions.count; i++) {
        const struct sim_eviction *eviction = &sim->evictions.items[i];

        json_push(evictions,
                  json_make(sim->arena, "{cycle: $, pod: $, action: $, moved: $, message: $}",
                            eviction->cycle, eviction->pod, eviction->action, eviction->moved,
                            eviction->message));
    }
    return top;
}

static void sim_init(struct sim *sim, const struct simulate_values *values, struct arena *arena)
{
    *sim = (struct sim){.arena = arena, .start_ms = START_MS, .live = values->live};
    sched_config_default(&sim->config);
    sim->config.volumes = true;
    if (values->mimic)
        sim->config.quirks = SCHED_QUIRKS_ALL;
}

/* One file with nothing of the others: a line of what came of it, or of why it cannot be read. */
static bool simulate_one(const struct simulate_values *values, const char *path)
{
    struct arena arena = {0};
    struct sim sim;
    struct err err = {0};
    struct json *result;
    size_t broken = 1;
    _cleanup_(buf_done) struct buf out = {0};

    sim_init(&sim, values, &arena);
    if (sim_load(&sim, path, &err) < 0) {
        result = json_make(&arena, "{error: $}", str_from(err.text));
    } else {
        if (!sim.sched)
            sim.sched = sched_new(&sim.config);
        run_cycles(&sim, values->cycles);
        result = result_json(&sim);
    }
    json_write(&out, result);
    buf_addc(&out, '\n');
    (void)fwrite(out.p, 1, out.len, stdout);
    if (sim.sched)
        broken = sim_expect(&sim);
    sched_free(sim.sched);
    arena_done(&arena);
    return broken == 0;
}

static int simulate_each(const struct invocation *invocation)
{
    const struct simulate_values *values = invocation->values;
    bool met = true;

    for (size_t i = 0; i < values->files.count; i++)
        met = simulate_one(values, values->files.items[i]) && met;
    for (size_t i = 0; i < invocation->arg_count; i++)
        met = simulate_one(values, invocation->args[i]) && met;
    return met ? 0 : 1;
}

static int simulate_run(struct invocation *invocation)
{
    const struct simulate_values *values = invocation->values;
    _cleanup_(buf_done) struct buf out = {0};
    struct sim sim;
    struct err err = {0};
    bool has_files = invocation->arg_count || values->files.count;
    int r = 0;

    sim_init(&sim, values, invocation->arena);
    if (values->each && (values->live || !has_files))
        r = err_set(&err, -EINVAL, "%s",
                    has_files ? "--each does not go with --live" : "--each: name the files");
    else if (!values->live &&
             (values->change.drains.count || values->change.quotas.count || !has_files))
        r = err_set(&err, -EINVAL, "%s",
                    has_files ? "--drain and --quota go with --live"
                              : "name a file, or --live for the cluster as it is");
    if (r == 0 && values->each)
        return simulate_each(invocation);
    if (r == 0 && values->live)
        r = sim_load_live(&sim, &values->look, &values->change, &err);
    for (size_t i = 0; i < values->files.count && r == 0; i++)
        r = sim_load(&sim, values->files.items[i], &err);
    for (size_t i = 0; i < invocation->arg_count && r == 0; i++)
        r = sim_load(&sim, invocation->args[i], &err);
    if (r < 0) {
        (void)fprintf(stderr, "muster simulate: %s\n", err.text);
        sched_free(sim.sched);
        return 1;
    }
    if (!sim.sched)
        sim.sched = sched_new(&sim.config);
    run_cycles(&sim, values->cycles);
    if (values->look.output == 1)
        json_write_pretty(&out, result_json(&sim));
    else
        write_table(&sim, &out);
    if (values->look.output == 1)
        buf_addc(&out, '\n');
    (void)fwrite(out.p, 1, out.len, stdout);
    size_t broken = sim_expect(&sim);
    sched_free(sim.sched);
    return broken ? 1 : 0;
}

const struct command command_simulate = {
    .name = "simulate",
    .summary = "show what the scheduler would do with these manifests",
    .usage = "[FILE...]",
    .about =
        "Reads nodes, queues, pods, pod groups and priority classes, and shorthand for things "
        "that do not exist yet, and decides until nothing changes. Nothing is contacted and "
        "nothing is changed. With an expect: section a file is a test: the exit status is 1 "
        "when an expectation is not met. A snapshot of a running operator (/debug/snapshot) is "
        "decided at the moment and with the settings it was taken with; \"-\" is stdin. With "
        "--live "
        "the nodes, queues, pod groups and pods of the cluster go in first, by the default "
        "settings, and only pods that wait or move are listed: what would happen to this job, "
        "without that node, or with another quota.",
    .example = "muster simulate cluster.yaml job.yaml\nmuster simulate -o json policy-test.yaml\n"
               "muster simulate --live -f job.yaml\n"
               "muster simulate --live --drain node-3 --quota team-a=64\n"
               "curl -s localhost:8081/debug/snapshot | muster simulate - job.yaml",
    .options = simulate_options,
    .values_size = sizeof(struct simulate_values),
    .args_max = 1000,
    .run = simulate_run,
};
