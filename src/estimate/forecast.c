#include "estimate/forecast.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "estimate/future.h"
#include "estimate/runtimes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct maker {
    struct arena *arena;
    const struct forecast_state *state;
    const struct forecast_options *options;
    struct map groups;            /* ns/name to struct forecast_group */
    struct runtimes_known *known; /* by group */
    struct future_run *runs;      /* by group, of this draw */
    size_t only;
};

static int by_time(const void *a, const void *b)
{
    const int64_t *l = a;
    const int64_t *r = b;

    return (*l > *r) - (*l < *r);
}

/* The longest that pods of the group may run by their own words; 0: for ever. */
static int64_t group_limit(const struct forecast_group *group)
{
    int64_t limit = group->spec.max_run_ms;
    int64_t longest = 0;

    for (size_t i = 0; i < group->pod_count; i++) {
        if (group->pods[i].deadline_ms <= 0)
            return limit;
        longest = group->pods[i].deadline_ms > longest ? group->pods[i].deadline_ms : longest;
    }
    return longest && (!limit || longest < limit) ? longest : limit;
}

static int64_t run_drawn(const struct maker *maker, size_t index, size_t draw)
{
    const struct forecast_group *group = &maker->state->groups.items[index];
    int64_t age = group->started_ms ? maker->state->now_ms - group->started_ms : 0;
    uint64_t seed = maker->options->seed + draw * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t drawn = (uint32_t)(str_hash(group->spec.name, str_hash(group->spec.ns, seed)) >> 16);
    int64_t limit = group_limit(group);
    int64_t run = runtimes_draw(maker->known[index], age, drawn);

    if (!run)
        run = group->spec.expected_ms;
    if (!run || (limit && run > limit))
        run = limit;
    return run ? run : FORECAST_NEVER;
}

/* Once for each kind of job: what a draw is made from. */
static void know_runs(struct maker *maker, const struct runtimes *runtimes, struct forecast *ret)
{
    const struct forecast_state *state = maker->state;
    struct map seen = {.seed = 1};

    for (size_t i = 0; i < state->groups.count; i++) {
        const struct forecast_group *group = &state->groups.items[i];
        struct runtimes_known known = runtimes_of(runtimes, &group->like);
        struct str kind = {(const char *)&maker->known[i].sorted_ms, sizeof(known.sorted_ms)};

        maker->known[i] = known;
        ret->unknown += !known.count && !group->spec.expected_ms && !group_limit(group);
        if (!known.count || map_get(&seen, kind))
            continue;
        map_set(&seen, kind, maker);
        ret->similar += known.count;
    }
    map_done(&seen);
}

static void maker_index(struct maker *maker)
{
    const struct forecast_state *state = maker->state;

    maker->only = SIZE_MAX;
    for (size_t i = 0; i < state->groups.count; i++) {
        struct forecast_group *group = &state->groups.items[i];
        struct str key = str_printf(maker->arena, STR_FMT "/" STR_FMT, STR_ARG(group->spec.ns),
                                    STR_ARG(group->spec.name));

        map_set(&maker->groups, key, group);
        if (maker->options->only.len && str_eq(key, maker->options->only))
            maker->only = i;
    }
}

void forecast_make(struct arena *arena,
                   const struct forecast_state *state,
                   const struct runtimes *runtimes,
                   const struct forecast_options *options,
                   struct forecast *ret)
{
    size_t count = state->groups.count;
    size_t draws = options->draws ? options->draws : FORECAST_DRAWS;
    struct maker maker = {.arena = arena, .state = state, .options = options};
    int64_t *after = ARENA_ARRAY(arena, int64_t, count + 1);

    *ret = (struct forecast){.after_ms = ARENA_ARRAY(arena, int64_t *, count + 1)};
    maker.known = ARENA_ARRAY(arena, struct runtimes_known, count + 1);
    maker.runs = ARENA_ARRAY(arena, struct future_run, count + 1);
    maker_index(&maker);
    know_runs(&maker, runtimes, ret);
    for (size_t i = 0; i < count; i++)
        if (!state->groups.items[i].started_ms && (maker.only == SIZE_MAX || maker.only == i))
            ret->after_ms[i] = ARENA_ARRAY(arena, int64_t, draws);
    for (size_t draw = 0; draw < draws; draw++) {
        for (size_t i = 0; i < count; i++)
            maker.runs[i].total_ms = run_drawn(&maker, i, draw);
        if (!future_play(arena,
                         &(struct future_options){.state = state,
                                                  .groups = &maker.groups,
                                                  .runs = maker.runs,
                                                  .only = maker.only,
                                                  .go_on = options->go_on,
                                                  .user = options->user},
                         after))
            break;
        for (size_t i = 0; i < count; i++)
            if (ret->after_ms[i])
                ret->after_ms[i][draw] = after[i];
        ret->draws++;
    }
    for (size_t i = 0; i < count; i++)
        if (ret->after_ms[i])
            qsort(ret->after_ms[i], ret->draws, sizeof(int64_t), by_time);
    map_done(&maker.groups);
}
