#include "estimate/state.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/forecast.h"
#include "sched/decode.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct state_group {
    struct sched_group spec;
    bool known; /* false: only named by pods so far */
    struct str owner;
    VEC(struct sched_pod) pods;
};

void state_open(struct state *state, struct arena *arena, const struct sched *core, int64_t now_ms)
{
    const struct sched_config *config = sched_config(core);
    struct forecast_policy policy;
    struct forecast_usage usage;
    size_t cursor = 0;

    *state = (struct state){.arena = arena, .groups = {.seed = 1}};
    state->forecast.now_ms = now_ms;
    state->forecast.config = *config;
    state->forecast.config.volumes = false; /* where they will be nobody knows */
    state->forecast.config.scheduler_name = str_dup(arena, config->scheduler_name);
    state->forecast.config.queue_label = str_dup(arena, config->queue_label);
    state->forecast.config.pool_label = str_dup(arena, config->pool_label);
    while (sched_next_policy(core, &cursor, &policy.pool, &policy.policy)) {
        policy.pool = str_dup(arena, policy.pool);
        VEC_PUSH(arena, &state->forecast.policies, policy);
    }
    cursor = 0;
    while (sched_next_usage(core, &cursor, &usage.queue, usage.usage)) {
        usage.queue = str_dup(arena, usage.queue);
        VEC_PUSH(arena, &state->forecast.usages, usage);
    }
}

static struct state_group *group_of(struct state *state, struct str ns, struct str name)
{
    struct str key = str_printf(state->arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
    struct state_group *group = map_get(&state->groups, key);

    if (group)
        return group;
    group = ARENA_NEW(state->arena, struct state_group);
    map_set(&state->groups, key, group);
    return group;
}

static void add_group(struct state *state, struct decode *decode)
{
    const struct object *object = decode->object;
    struct state_group *group = group_of(state, object->ns, object->name);

    decode_group(decode, &group->spec);
    group->known = true;
    group->owner = object->owner_count ? object->owners[0].name : object->name;
}

static void add_pod(struct state *state, struct decode *decode)
{
    struct sched_pod pod;

    decode_pod(decode, &pod);
    if (pod.group.len)
        VEC_PUSH(state->arena, &group_of(state, pod.ns, pod.group)->pods, pod);
    else
        VEC_PUSH(state->arena, &state->forecast.others, pod);
}

void state_add(struct state *state, const struct object *object)
{
    struct forecast_state *to = &state->forecast;
    struct decode decode = {.config = &to->config,
                            .arena = state->arena,
                            .object = object,
                            .tree = object_json(object, state->arena)};

    if (object->kind == &kind_pod) {
        add_pod(state, &decode);
    } else if (object->kind == &kind_podgroup) {
        add_group(state, &decode);
    } else if (object->kind == &kind_node) {
        struct sched_node node;
        decode_node(&decode, &node);
        VEC_PUSH(state->arena, &to->nodes, node);
    } else if (object->kind == &kind_queue) {
        struct sched_queue queue;
        decode_queue(&decode, &queue);
        VEC_PUSH(state->arena, &to->queues, queue);
    } else if (object->kind == &kind_topology) {
        struct sched_topology topology;
        decode_topology(&decode, &topology);
        VEC_PUSH(state->arena, &to->topologies, topology);
    } else if (object->kind == &kind_namespace) {
        struct sched_namespace space;
        decode_namespace(&decode, &space);
        VEC_PUSH(state->arena, &to->namespaces, space);
    } else if (object->kind == &kind_priorityclass) {
        VEC_PUSH(
            state->arena, &to->classes,
            (struct sched_priority_class){
                .name = object->name,
                .value = json_i64_or(json_get(decode.tree, "value"), 0),
                .global_default = json_bool_or(json_get(decode.tree, "globalDefault"), false)});
    }
}

static int64_t pod_milli(const struct sched_pod *pod)
{
    int64_t devices = pod->gpu_devices ? pod->gpu_devices : 1;

    return pod->gpus * 1000 + devices * pod->gpu_fraction_micro / 1000;
}

/* Since when it holds a node, and what jobs are like it. */
static void group_close(const struct state *state, struct forecast_group *group, struct str owner)
{
    int64_t milli = 0;

    for (size_t i = 0; i < group->pod_count; i++) {
        const struct sched_pod *pod = &group->pods[i];
        int64_t started = pod->started_ms ? pod->started_ms : state->forecast.now_ms;

        milli += pod_milli(pod);
        if (pod->phase != SCHED_BOUND && pod->phase != SCHED_RUNNING &&
            pod->phase != SCHED_RELEASING)
            continue;
        if (!group->started_ms || started < group->started_ms)
            group->started_ms = started;
    }
    group->like = (struct runtimes_like){
        .name =
            str_printf(state->arena, STR_FMT "/" STR_FMT, STR_ARG(group->spec.ns), STR_ARG(owner)),
        .user = group->spec.user,
        .queue = group->spec.queue,
        .gpus = (milli + 999) / 1000,
    };
}

void state_close(struct state *state)
{
    MAP_FOREACH(&state->groups, entry) {
        struct state_group *from = entry->value;
        struct forecast_group group = {
            .spec = from->spec, .pods = from->pods.items, .pod_count = from->pods.count};

        for (size_t i = 0; i < from->pods.count && !from->known; i++)
            VEC_PUSH(state->arena, &state->forecast.others, from->pods.items[i]);
        if (!from->known)
            continue;
        group_close(state, &group, from->owner);
        VEC_PUSH(state->arena, &state->forecast.groups, group);
    }
    map_done(&state->groups);
}
