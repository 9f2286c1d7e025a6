#include "estimate/future.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/forecast.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define KEY_BYTES  640
#define IDLE_WAKES 32 /* in a row without a decision, when nothing is left to end */
#define ROUNDS_MAX 8  /* cycles at one moment: evictions, then what they made room for */
#define LOOK_EVERY 16 /* cycles between two questions whether to go on */

struct member {
    int64_t end_ms; /* planned; 0: none */
    int64_t held;   /* pods that have a node */
    uint32_t tries; /* an end that was planned for an earlier one does not count */
    bool ended;
};

struct ending {
    int64_t at_ms;
    uint32_t group;
    uint32_t tries;
};

struct future {
    const struct future_options *options;
    const struct forecast_state *state;
    struct arena cycle;
    struct sched *sched;
    struct sched_plan plan;
    struct member *members;
    VEC(struct ending) endings; /* heap by time; not on the arena */
    int64_t *after_ms;
    int64_t now_ms;
    size_t waiting; /* of those asked about */
    uint32_t evicted;
};

/* ---- ends ---- */
static bool ends_before(const struct ending *a, const struct ending *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->group < b->group);
}

static void endings_push(struct future *future, struct ending ending)
{
    size_t i = future->endings.count;

    VEC_PUSH(NULL, &future->endings, ending);
    struct ending *items = future->endings.items;
    for (; i && ends_before(&ending, &items[(i - 1) / 2]); i = (i - 1) / 2)
        items[i] = items[(i - 1) / 2];
    items[i] = ending;
}

static void endings_pop(struct future *future)
{
    struct ending *items = future->endings.items;
    struct ending last = items[--future->endings.count];
    size_t i = 0;

    for (size_t child; (child = 2 * i + 1) < future->endings.count; i = child) {
        if (child + 1 < future->endings.count && ends_before(&items[child + 1], &items[child]))
            child++;
        if (!ends_before(&items[child], &last))
            break;
        items[i] = items[child];
    }
    if (future->endings.count)
        items[i] = last;
}

/* ---- the cluster ---- */
static bool pod_holds(const struct sched_pod *pod)
{
    return pod->phase == SCHED_BOUND || pod->phase == SCHED_RUNNING ||
           pod->phase == SCHED_RELEASING;
}

static void plan_end(struct future *future, size_t group, int64_t started_ms)
{
    struct member *member = &future->members[group];
    int64_t total = future->options->runs[group].total_ms;

    if (total == FORECAST_NEVER)
        return;
    member->end_ms = started_ms + total;
    if (member->end_ms <= future->now_ms)
        member->end_ms = future->now_ms + FORECAST_LEAST_MS;
    endings_push(future, (struct ending){member->end_ms, (uint32_t)group, member->tries});
}

static void put_groups(struct future *future)
{
    const struct forecast_state *state = future->state;

    for (size_t i = 0; i < state->groups.count; i++) {
        const struct forecast_group *group = &state->groups.items[i];

        sched_put_group(future->sched, &group->spec);
        for (size_t p = 0; p < group->pod_count; p++) {
            sched_put_pod(future->sched, &group->pods[p]);
            future->members[i].held += pod_holds(&group->pods[p]);
        }
        if (group->started_ms)
            plan_end(future, i, group->started_ms);
        else if (future->options->only == SIZE_MAX || future->options->only == i)
            future->waiting++;
        future->after_ms[i] = FORECAST_NEVER;
    }
}

static void put_all(struct future *future)
{
    const struct forecast_state *state = future->state;

    for (size_t i = 0; i < state->policies.count; i++)
        sched_set_policy(future->sched, state->policies.items[i].pool,
                         &state->policies.items[i].policy);
    for (size_t i = 0; i < state->classes.count; i++)
        sched_put_priority_class(future->sched, &state->classes.items[i]);
    for (size_t i = 0; i < state->namespaces.count; i++)
        sched_put_namespace(future->sched, &state->namespaces.items[i]);
    for (size_t i = 0; i < state->topologies.count; i++)
        sched_put_topology(future->sched, &state->topologies.items[i]);
    for (size_t i = 0; i < state->queues.count; i++)
        sched_put_queue(future->sched, &state->queues.items[i]);
    for (size_t i = 0; i < state->usages.count; i++)
        sched_set_usage(future->sched, state->usages.items[i].queue, state->usages.items[i].usage);
    for (size_t i = 0; i < state->nodes.count; i++)
        sched_put_node(future->sched, &state->nodes.items[i]);
    for (size_t i = 0; i < state->others.count; i++)
        sched_put_pod(future->sched, &state->others.items[i]);
    put_groups(future);
}

/* ---- what happens ---- */
static void group_end(struct future *future, size_t index)
{
    const struct forecast_group *group = &future->state->groups.items[index];

    future->members[index].ended = true;
    for (size_t i = 0; i < group->pod_count; i++)
        sched_drop_pod(future->sched, group->pods[i].ns, group->pods[i].name);
    sched_drop_group(future->sched, group->spec.ns, group->spec.name);
}

static const struct forecast_group *group_named(const struct future *future,
                                                struct str ns,
                                                struct str name)
{
    char key[KEY_BYTES];
    int len = snprintf(key, sizeof(key), STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));

    return len > 0 && len < KEY_BYTES
               ? map_get(future->options->groups, (struct str){key, (size_t)len})
               : NULL;
}

static void on_bind(struct future *future, const struct sched_bind *bind)
{
    const struct forecast_group *group = group_named(future, bind->pod.ns, bind->group);

    if (!group)
        return;
    size_t index = (size_t)(group - future->state->groups.items);
    struct member *member = &future->members[index];
    bool asked = future->options->only == SIZE_MAX || future->options->only == index;
    if (!member->held++)
        plan_end(future, index, future->now_ms);
    if (asked && !group->started_ms && future->after_ms[index] == FORECAST_NEVER) {
        future->after_ms[index] = future->now_ms - future->state->now_ms;
        future->waiting--;
    }
}

/* The pod ends, and its owner makes another, which waits. A group that has lost all of them begins
 * anew. */
static void on_evict(struct future *future, const struct sched_evict *evict)
{
    const struct forecast_group *group = group_named(future, evict->pod.ns, evict->group);

    sched_drop_pod(future->sched, evict->pod.ns, evict->pod.name);
    if (!group)
        return;
    size_t index = (size_t)(group - future->state->groups.items);
    struct member *member = &future->members[index];
    if (member->held > 0 && !--member->held) {
        member->tries++;
        member->end_ms = 0;
    }
    for (size_t i = 0; i < group->pod_count; i++) {
        struct sched_pod again = group->pods[i];

        if (!str_eq(again.name, evict->pod.name))
            continue;
        again.phase = SCHED_PENDING;
        again.node = again.nominated_node = STR_NONE;
        again.gpu_group_count = again.device_count = 0;
        again.started_ms = again.deleted_ms = 0;
        again.uid =
            str_printf(&future->cycle, STR_FMT "-%u", STR_ARG(again.uid), ++future->evicted);
        sched_put_pod(future->sched, &again);
        return;
    }
}

static void decide_once(struct future *future)
{
    arena_reset(&future->cycle);
    sched_cycle(future->sched, future->now_ms, &future->cycle, &future->plan);
    for (size_t i = 0; i < future->plan.bind_count; i++)
        on_bind(future, &future->plan.binds[i]);
    for (size_t i = 0; i < future->plan.evict_count; i++)
        on_evict(future, &future->plan.evicts[i]);
}

/* Until all that is possible at this moment has happened. Whether anything was decided. */
static bool decide(struct future *future)
{
    bool decided = false;

    for (int round = 0; round < ROUNDS_MAX; round++) {
        if (round && !sched_needs_cycle(future->sched))
            break;
        decide_once(future);
        decided = decided || future->plan.bind_count || future->plan.evict_count;
    }
    return decided;
}

/* The next moment at which something happens, and all that is as near to it as to count as one;
 * false: nothing does. */
static bool pass_time(struct future *future)
{
    int64_t passed = future->now_ms - future->state->now_ms;
    int64_t wake = future->plan.next_wake_ms;
    int64_t next = INT64_MAX;

    if (future->endings.count)
        next = future->endings.items[0].at_ms;
    if (wake && wake < next)
        next = wake;
    if (next == INT64_MAX)
        return false;
    int64_t least = future->now_ms + FORECAST_LEAST_MS + passed / FORECAST_GRAIN;
    future->now_ms = next > least ? next : least;
    while (future->endings.count && future->endings.items[0].at_ms <= future->now_ms) {
        struct ending ending = future->endings.items[0];
        struct member *member = &future->members[ending.group];

        endings_pop(future);
        if (!member->ended && member->tries == ending.tries)
            group_end(future, ending.group);
    }
    return true;
}

bool future_play(struct arena *arena, const struct future_options *options, int64_t *ret_after_ms)
{
    struct future future = {.options = options,
                            .state = options->state,
                            .after_ms = ret_after_ms,
                            .now_ms = options->state->now_ms};
    struct sched_config config = options->state->config;
    size_t idle = 0;
    bool whole = true;

    config.silent = true;
    future.sched = sched_new(&config);
    future.members = ARENA_ARRAY(arena, struct member, options->state->groups.count + 1);
    put_all(&future);
    for (size_t cycle = 0; future.waiting && cycle < FORECAST_CYCLES && whole; cycle++) {
        idle = decide(&future) || future.endings.count ? 0 : idle + 1;
        if (idle > IDLE_WAKES || !future.waiting || !pass_time(&future))
            break;
        if (options->go_on && cycle % LOOK_EVERY == LOOK_EVERY - 1)
            whole = options->go_on(options->user);
    }
    sched_free(future.sched);
    arena_done(&future.cycle);
    VEC_DONE(&future.endings);
    return whole;
}
