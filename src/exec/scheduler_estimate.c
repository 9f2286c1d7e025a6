#include "exec/scheduler_estimate.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "estimate/band.h"
#include "estimate/forecast.h"
#include "estimate/runtimes.h"
#include "estimate/state.h"
#include "sched/sched.h"
#include "tool/clock.h"
#include "tool/log.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

static const struct kind *const looked_at[] = {&kind_queue, &kind_priorityclass, &kind_topology,
                                               &kind_node,  &kind_namespace,     &kind_podgroup,
                                               &kind_pod};

/* A group that runs, or waits and was told when it starts. */
struct tracked {
    int64_t started_ms; /* 0: it waits */
    int64_t ended_ms;   /* 0: it runs */
    struct runtimes_like like;
    struct arena arena; /* of `like` */
    struct band first;  /* what it was told first, to learn from */
    struct band told;   /* and last */
    bool judged;
    size_t key_len;
    char key[]; /* ns/name */
};

struct taught {
    struct runtimes_like like;
    int64_t run_ms;
};

struct work {
    uv_work_t request;
    struct estimator *estimator;     /* NULL: it is gone */
    const struct runtimes *runtimes; /* nobody adds to them meanwhile */
    struct runtimes *left;           /* to free: the estimator is gone */
    VEC(const struct object *) objects;
    struct arena arena; /* the worker's until it is done */
    struct state state;
    struct forecast forecast;
    uint64_t seed;
    int64_t began_ms; /* of the monotonic clock */
    int64_t took_ms;
    atomic_bool cancelled;
    bool too_large;
};

struct estimator {
    struct estimator_options options;
    struct runtimes *runtimes;
    VEC(struct taught) taught; /* since the last work began */
    struct arena taught_arena;
    struct map tracked; /* by key */
    struct band_memory memory;
    struct work *work; /* under way */
    int64_t next_ms;   /* no sooner; 0: at once */
    int64_t asked_ms;  /* when the last work began */
    size_t waiting;    /* groups that waited then */
    bool untold;       /* of one that was to have an estimate it was not known yet that it waits */
    bool looked;       /* at what ended before we came */
};

/* ---- groups ---- */
static struct str tracked_key(const struct tracked *tracked)
{
    return (struct str){tracked->key, tracked->key_len};
}

static struct tracked *tracked_of(struct estimator *estimator,
                                  struct str ns,
                                  struct str name,
                                  bool make)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str key = str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name));
    struct tracked *tracked = map_get(&estimator->tracked, key);

    if (tracked || !make)
        return tracked;
    tracked = mem_alloc(sizeof(*tracked) + key.len);
    tracked->key_len = key.len;
    memcpy(tracked->key, key.p, key.len);
    map_set(&estimator->tracked, tracked_key(tracked), tracked);
    return tracked;
}

static void tracked_drop(struct estimator *estimator, struct tracked *tracked)
{
    map_remove(&estimator->tracked, tracked_key(tracked));
    arena_done(&tracked->arena);
    mem_free(tracked);
}

static void like_dup(struct arena *arena, struct runtimes_like *ret, const struct runtimes_like *of)
{
    *ret = (struct runtimes_like){.name = str_dup(arena, of->name),
                                  .user = str_dup(arena, of->user),
                                  .queue = str_dup(arena, of->queue),
                                  .gpus = of->gpus};
}

void estimator_teach(struct estimator *estimator, const struct runtimes_like *like, int64_t run_ms)
{
    struct taught taught = {.run_ms = run_ms};

    if (estimator->taught.count >= ESTIMATOR_TAUGHT || run_ms <= 0)
        return;
    like_dup(&estimator->taught_arena, &taught.like, like);
    VEC_PUSH(&estimator->taught_arena, &estimator->taught, taught);
}

/* The group and its pods as a forecast reads them. */
static const struct forecast_group *group_read(const struct estimator *estimator,
                                               struct arena *arena,
                                               const struct object *group,
                                               int64_t now_ms)
{
    struct state state;
    const struct object *pod;
    size_t cursor = 0;

    state_open(&state, arena, estimator->options.core, now_ms);
    state_add(&state, group);
    while ((pod = cache_next_grouped(estimator->options.cache, &kind_pod, group->name, &cursor)))
        if (str_eq(pod->ns, group->ns))
            state_add(&state, pod);
    state_close(&state);
    return state.forecast.groups.count ? &state.forecast.groups.items[0] : NULL;
}

static void judge(struct estimator *estimator, struct tracked *tracked, int64_t now_ms)
{
    enum band_outcome outcome;

    if (tracked->judged || !band_judge(&tracked->first, tracked->started_ms, now_ms, &outcome))
        return;
    tracked->judged = true;
    band_learn(&estimator->memory, tracked->first.reach, outcome);
}

static void group_began(struct estimator *estimator, const struct object *object, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct tracked *tracked = tracked_of(estimator, object->ns, object->name, true);
    const struct forecast_group *group = NULL;

    tracked->ended_ms = 0;
    if (tracked->started_ms)
        return;
    group = group_read(estimator, &arena, object, now_ms);
    tracked->started_ms = group && group->started_ms ? group->started_ms : now_ms;
    if (group)
        like_dup(&tracked->arena, &tracked->like, &group->like);
    judge(estimator, tracked, now_ms);
    tracked->first = tracked->told = (struct band){0};
    tracked->judged = false;
}

static void group_ended(struct estimator *estimator, struct tracked *tracked, int64_t now_ms)
{
    int64_t end_ms = tracked->ended_ms ? tracked->ended_ms : now_ms;

    if (tracked->started_ms)
        estimator_teach(estimator, &tracked->like, end_ms - tracked->started_ms);
    tracked_drop(estimator, tracked);
}

void estimator_observe(struct estimator *estimator,
                       const struct object *group,
                       bool gone,
                       int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct tracked *tracked = NULL;

    if (!estimator->looked)
        return;
    tracked = tracked_of(estimator, group->ns, group->name, false);
    if (gone) {
        if (tracked)
            group_ended(estimator, tracked, now_ms);
        return;
    }
    const struct json *status = json_get(object_tree(group, &arena), "status");
    if (json_i64_or(json_get(status, "running"), 0) > 0)
        group_began(estimator, group, now_ms);
    else if (tracked && tracked->started_ms && json_i64_or(json_get(status, "pending"), 0) > 0)
        tracked_drop(estimator, tracked); /* evicted, or begun anew: no run time */
    else if (tracked && tracked->started_ms && !tracked->ended_ms)
        tracked->ended_ms = now_ms;
}

/* ---- what ended before we came ---- */
static int64_t pod_finished_ms(const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t finished = 0;

    JSON_FOREACH(json_at(object_json(pod, &arena), "status.containerStatuses"), container) {
        int64_t at = 0;

        if (time_parse(json_str_at(container, "state.terminated.finishedAt"), &at) && at > finished)
            finished = at;
    }
    return finished;
}

static void learn_ended(struct estimator *estimator, const struct object *object, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct forecast_group *group = group_read(estimator, &arena, object, now_ms);
    int64_t started = 0;
    int64_t finished = 0;

    for (size_t i = 0; group && i < group->pod_count; i++) {
        const struct sched_pod *pod = &group->pods[i];
        const struct object *known =
            cache_get(estimator->options.cache, &kind_pod, pod->ns, pod->name);
        int64_t at = known ? pod_finished_ms(known) : 0;

        if (!at || !pod->started_ms)
            return;
        if (!started || pod->started_ms < started)
            started = pod->started_ms;
        finished = at > finished ? at : finished;
    }
    if (started && finished > started)
        estimator_teach(estimator, &group->like, finished - started);
}

static void look_back(struct estimator *estimator, int64_t now_ms)
{
    const struct object *group;
    size_t cursor = 0;

    estimator->looked = true;
    while ((group = cache_next(estimator->options.cache, &kind_podgroup, STR(""), &cursor))) {
        estimator_observe(estimator, group, false, now_ms);
        if (!estimator->options.learned && !tracked_of(estimator, group->ns, group->name, false))
            learn_ended(estimator, group, now_ms);
    }
}

/* ---- the worker ---- */
static bool work_goes_on(void *user)
{
    const struct work *work = user;

    return !atomic_load(&work->cancelled) &&
           clock_monotonic_ms() - work->began_ms < ESTIMATOR_BUDGET_MS;
}

static void work_do(uv_work_t *request)
{
    struct work *work = request->data;

    work->began_ms = clock_monotonic_ms();
    for (size_t i = 0; i < work->objects.count && !atomic_load(&work->cancelled); i++)
        state_add(&work->state, work->objects.items[i]);
    state_close(&work->state);
    if (work->too_large)
        work->forecast.after_ms =
            ARENA_ARRAY(&work->arena, int64_t *, work->state.forecast.groups.count + 1);
    else
        forecast_make(
            &work->arena, &work->state.forecast, work->runtimes,
            &(struct forecast_options){.seed = work->seed, .go_on = work_goes_on, .user = work},
            &work->forecast);
    work->took_ms = clock_monotonic_ms() - work->began_ms;
}

/* In the loop's thread: objects are not the worker's to let go of. */
static void work_free(struct work *work)
{
    for (size_t i = 0; i < work->objects.count; i++)
        object_unref(work->objects.items[i]);
    VEC_DONE(&work->objects);
    arena_done(&work->arena);
    if (work->left)
        runtimes_done(work->left);
    mem_free(work->left);
    mem_free(work);
}

static bool band_tell(struct estimator *estimator,
                      const struct forecast_group *group,
                      const struct band *band,
                      int64_t now_ms)
{
    struct tracked *tracked = tracked_of(estimator, group->spec.ns, group->spec.name, true);

    if (tracked->started_ms || !band_differs(band, &tracked->told, now_ms))
        return false;
    if (!estimator->options.tell(estimator->options.user, group->spec.ns, group->spec.name, band)) {
        estimator->untold = true;
        return false;
    }
    tracked->told = *band;
    if (tracked->first.kind != BAND_BETWEEN)
        tracked->first = *band;
    return true;
}

static void bands_tell(struct estimator *estimator, const struct work *work)
{
    const struct forecast_state *state = &work->state.forecast;
    size_t written = 0;

    estimator->untold = false;
    for (size_t i = 0; i < state->groups.count && written < ESTIMATOR_WRITES; i++) {
        const struct forecast_group *group = &state->groups.items[i];
        struct band band = {.kind = BAND_LARGE};

        if (group->started_ms || (!work->forecast.after_ms[i] && !work->too_large) ||
            !cache_get(estimator->options.cache, &kind_podgroup, group->spec.ns, group->spec.name))
            continue;
        if (!work->too_large)
            band_make(&estimator->memory,
                      &(struct band_draws){.after_ms = work->forecast.after_ms[i],
                                           .count = work->forecast.draws,
                                           .similar = work->forecast.similar,
                                           .unknown = work->forecast.unknown > 0},
                      state->now_ms, &band);
        written += band_tell(estimator, group, &band, state->now_ms);
    }
    MAP_FOREACH(&estimator->tracked, entry)
        judge(estimator, entry->value, state->now_ms);
}

static void work_done(uv_work_t *request, int status)
{
    struct work *work = request->data;
    struct estimator *estimator = work->estimator;

    if (estimator) {
        int64_t rest = work->took_ms * ESTIMATOR_REST;

        estimator->work = NULL;
        estimator->next_ms =
            estimator->asked_ms + (rest > ESTIMATOR_LEAST_MS ? rest : ESTIMATOR_LEAST_MS);
        if (status == 0)
            bands_tell(estimator, work);
        log_debug(estimator->options.log, "scheduler.estimate",
                  LOG_I64("groups", (int64_t)work->state.forecast.groups.count),
                  LOG_I64("draws", (int64_t)work->forecast.draws),
                  LOG_I64("took_ms", work->took_ms));
        estimator->options.again(estimator->options.user);
    }
    work_free(work);
}

static void taught_take(struct estimator *estimator)
{
    for (size_t i = 0; i < estimator->taught.count; i++)
        runtimes_add(estimator->runtimes, &estimator->taught.items[i].like,
                     estimator->taught.items[i].run_ms);
    estimator->taught.count = estimator->taught.capacity = 0;
    estimator->taught.items = NULL;
    arena_reset(&estimator->taught_arena);
}

/* Pods are left out of a cluster that is too large: its groups are only told so. */
static void work_begin(struct estimator *estimator, int64_t now_ms)
{
    struct work *work = MEM_NEW(struct work);
    const struct cache *cache = estimator->options.cache;

    taught_take(estimator);
    *work = (struct work){.estimator = estimator,
                          .runtimes = estimator->runtimes,
                          .seed = estimator->options.seed,
                          .too_large = cache_count(cache, &kind_pod) > ESTIMATOR_PODS};
    work->request.data = work;
    state_open(&work->state, &work->arena, estimator->options.core, now_ms);
    for (size_t i = 0; i < COUNT_OF(looked_at); i++) {
        const struct object *object;
        size_t cursor = 0;

        if (looked_at[i] == &kind_pod && work->too_large)
            continue;
        while ((object = cache_next(cache, looked_at[i], STR(""), &cursor)))
            if (looked_at[i] != &kind_pod ||
                estimator->options.is_known(estimator->options.user, object))
                VEC_PUSH(NULL, &work->objects, object_ref(object));
    }
    estimator->asked_ms = now_ms;
    estimator->work = work;
    if (uv_queue_work(estimator->options.loop, &work->request, work_do, work_done) != 0) {
        estimator->work = NULL;
        estimator->next_ms = now_ms + ESTIMATOR_EVERY_MS;
        state_close(&work->state);
        work_free(work);
    }
}

/* ---- turns ---- */
static void ended_take(struct estimator *estimator, int64_t now_ms)
{
    MAP_FOREACH(&estimator->tracked, entry) {
        struct tracked *tracked = entry->value;

        if (tracked->ended_ms && now_ms - tracked->ended_ms >= ESTIMATOR_ENDED_MS)
            group_ended(estimator, tracked, now_ms);
    }
}

size_t estimator_waiting(const struct sched_plan *plan)
{
    size_t count = 0;

    for (size_t i = 0; i < plan->waiting_count; i++)
        count += plan->waiting[i].reason != SCHED_REASON_NO_GROUP;
    return count;
}

int64_t estimator_turn(struct estimator *estimator, size_t waiting, int64_t now_ms)
{
    int64_t due = estimator->asked_ms + ESTIMATOR_EVERY_MS;

    if (!estimator->looked)
        look_back(estimator, now_ms);
    if (waiting < estimator->waiting)
        estimator->waiting = waiting;
    if (!waiting || estimator->work)
        return INT64_MAX;
    if (waiting > estimator->waiting || estimator->untold)
        due = estimator->asked_ms + ESTIMATOR_LEAST_MS;
    if (due < estimator->next_ms)
        due = estimator->next_ms;
    if (now_ms < due)
        return due;
    estimator->waiting = waiting;
    ended_take(estimator, now_ms);
    work_begin(estimator, now_ms);
    return INT64_MAX;
}

struct estimator *estimator_new(const struct estimator_options *options)
{
    struct estimator *estimator = MEM_NEW(struct estimator);

    estimator->options = *options;
    estimator->runtimes = MEM_NEW(struct runtimes);
    estimator->tracked.seed = options->seed;
    return estimator;
}

void estimator_free(struct estimator *estimator)
{
    if (!estimator)
        return;
    if (estimator->work) {
        estimator->work->estimator = NULL;
        estimator->work->left = estimator->runtimes;
        atomic_store(&estimator->work->cancelled, true);
    } else {
        runtimes_done(estimator->runtimes);
        mem_free(estimator->runtimes);
    }
    MAP_FOREACH(&estimator->tracked, entry)
        tracked_drop(estimator, entry->value);
    map_done(&estimator->tracked);
    arena_done(&estimator->taught_arena);
    mem_free(estimator);
}
