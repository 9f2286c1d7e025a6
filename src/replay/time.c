#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "estimate/forecast.h"
#include "estimate/runtimes.h"
#include "replay/estimates.h"
#include "replay/policy.h"
#include "replay/replay.h"
#include "replay/result.h"
#include "replay/trace.h"
#include "replay/world.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* A trace over time: see replay.h. */
#define SAMPLES     400
#define HOUR_MS     3600000.0
#define EXPECTED_MS 3600000 /* of the first jobs, of which nothing is known */

enum state {
    STATE_COMING,
    STATE_IN_LINE, /* the core does not see it yet */
    STATE_SHOWN,
    STATE_RUNS,
    STATE_ENDED,
};

/* Waiting jobs of a queue that the core does not see yet, and what it does. */
struct line {
    struct str queue;
    VEC(uint32_t) heap; /* of jobs, by due */
    int64_t shown;
    int64_t waiting; /* in all */
    int64_t asked_milli;
    int64_t held_milli;
    double attained;    /* GPU seconds */
    int64_t counted_ms; /* until when */
};

struct run {
    struct line *line;
    int64_t due;
    int64_t start_ms;
    uint32_t tries; /* an end that was planned for an earlier one does not count */
    enum state state;
};

struct ending {
    int64_t at_ms;
    uint32_t job;
    uint32_t tries;
};

struct replay {
    const struct replay_options *options;
    const struct trace_jobs *jobs;
    struct arena *arena;
    struct world world;
    struct runtimes runtimes;
    struct map lines_by_queue;
    VEC(struct line *) lines;
    struct run *runs;
    VEC(struct ending) endings; /* heap by time */
    size_t next;                /* job that comes next */
    size_t ended;
    int64_t now_ms;
    int64_t sample_ms; /* when the next one is taken */
    int64_t every_ms;
    double jain_sum;
    double least_sum;
    size_t jain_count;
    struct estimates estimates;
    struct replay_result *result;
};

static double cpu_seconds(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- ends ---- */
static bool ends_before(const struct ending *a, const struct ending *b)
{
    return a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->job < b->job);
}

static void endings_push(struct replay *replay, struct ending ending)
{
    size_t i = replay->endings.count;

    VEC_PUSH(replay->arena, &replay->endings, ending);
    struct ending *items = replay->endings.items;
    for (; i && ends_before(&ending, &items[(i - 1) / 2]); i = (i - 1) / 2)
        items[i] = items[(i - 1) / 2];
    items[i] = ending;
}

static void endings_pop(struct replay *replay)
{
    struct ending *items = replay->endings.items;
    struct ending last = items[--replay->endings.count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= replay->endings.count)
            break;
        if (child + 1 < replay->endings.count && ends_before(&items[child + 1], &items[child]))
            child++;
        if (!ends_before(&items[child], &last))
            break;
        items[i] = items[child];
        i = child;
    }
    if (replay->endings.count)
        items[i] = last;
}

/* ---- lines ---- */
static bool due_before(const struct replay *replay, uint32_t a, uint32_t b)
{
    return replay->runs[a].due < replay->runs[b].due ||
           (replay->runs[a].due == replay->runs[b].due && a < b);
}

static void line_push(struct replay *replay, struct line *line, uint32_t job)
{
    size_t i = line->heap.count;

    VEC_PUSH(replay->arena, &line->heap, job);
    uint32_t *items = line->heap.items;
    for (; i && due_before(replay, job, items[(i - 1) / 2]); i = (i - 1) / 2)
        items[i] = items[(i - 1) / 2];
    items[i] = job;
}

static uint32_t line_pop(const struct replay *replay, struct line *line)
{
    uint32_t *items = line->heap.items;
    uint32_t first = items[0];
    uint32_t last = items[--line->heap.count];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= line->heap.count)
            break;
        if (child + 1 < line->heap.count && due_before(replay, items[child + 1], items[child]))
            child++;
        if (!due_before(replay, items[child], last))
            break;
        items[i] = items[child];
        i = child;
    }
    if (line->heap.count)
        items[i] = last;
    return first;
}

static struct line *line_of(struct replay *replay, const struct trace_job *job)
{
    struct line *line = map_get(&replay->lines_by_queue, job->queue);

    if (line)
        return line;
    line = ARENA_NEW(replay->arena, struct line);
    line->queue = job->queue;
    map_set(&replay->lines_by_queue, job->queue, line);
    VEC_PUSH(replay->arena, &replay->lines, line);
    return line;
}

static void attain(const struct replay *replay, struct line *line)
{
    line->attained += (double)line->held_milli * (double)(replay->now_ms - line->counted_ms) / 1e6;
    line->counted_ms = replay->now_ms;
}

static void show(struct replay *replay, struct line *line)
{
    uint32_t job = line_pop(replay, line);
    const struct trace_job *spec = &replay->jobs->items[job];
    struct run *run = &replay->runs[job];

    run->state = STATE_SHOWN;
    line->shown++;
    world_submit(&replay->world, job, spec->submit_ms,
                 (run->due - spec->submit_ms) / SCHED_EXPECTED_TIMES);
}

/* One line for everybody: whose turn it is. */
static struct line *turn_of(const struct replay *replay)
{
    bool attained = replay->options->world.policy->order == LINE_ATTAINED;
    struct line *best = NULL;

    for (size_t i = 0; i < replay->lines.count; i++) {
        struct line *line = replay->lines.items[i];

        if (!line->heap.count)
            continue;
        if (attained)
            attain(replay, line);
        if (!best || (attained ? line->attained < best->attained
                               : due_before(replay, line->heap.items[0], best->heap.items[0])))
            best = line;
    }
    return best;
}

static void show_more(struct replay *replay)
{
    const struct replay_policy *policy = replay->options->world.policy;
    int64_t window = replay->options->window ? (int64_t)replay->options->window : REPLAY_WINDOW;
    int64_t shown = 0;

    for (size_t i = 0; i < replay->lines.count && !policy->one_queue; i++)
        while (replay->lines.items[i]->shown < window && replay->lines.items[i]->heap.count)
            show(replay, replay->lines.items[i]);
    if (!policy->one_queue)
        return;
    for (size_t i = 0; i < replay->lines.count; i++)
        shown += replay->lines.items[i]->shown;
    for (struct line *line; shown < (policy->strict ? 1 : window) && (line = turn_of(replay));
         shown++)
        show(replay, line);
}

/* ---- jobs ---- */
static int64_t milli_of(const struct trace_job *job)
{
    return job->gpus * job->gpu_milli;
}

static void arrive(struct replay *replay)
{
    uint32_t job = (uint32_t)replay->next++;
    const struct trace_job *spec = &replay->jobs->items[job];
    struct run *run = &replay->runs[job];
    struct line *line = line_of(replay, spec);
    struct runtimes_like like = {.queue = spec->queue, .gpus = spec->gpus};
    int64_t expected = 0;

    if (replay->options->world.policy->order == LINE_EXPECTED) {
        expected = runtimes_percentile(&replay->runtimes, &like, 50);
        expected = expected ? expected : EXPECTED_MS;
    }
    run->line = line;
    run->state = STATE_IN_LINE;
    run->due = spec->submit_ms + SCHED_EXPECTED_TIMES * expected;
    line->waiting++;
    line->asked_milli += milli_of(spec);
    line_push(replay, line, job);
    estimates_arrive(&replay->estimates, replay->arena, job);
}

static void start(struct replay *replay, uint32_t job)
{
    const struct trace_job *spec = &replay->jobs->items[job];
    struct run *run = &replay->runs[job];

    attain(replay, run->line);
    run->state = STATE_RUNS;
    run->start_ms = replay->now_ms;
    run->line->shown--;
    run->line->waiting--;
    run->line->held_milli += milli_of(spec);
    replay->result->jobs[job].start_ms = replay->now_ms;
    estimates_started(&replay->estimates, job, replay->now_ms);
    endings_push(replay, (struct ending){replay->now_ms + spec->run_ms, job, run->tries});
}

static void leave(struct replay *replay, uint32_t job)
{
    struct run *run = &replay->runs[job];

    attain(replay, run->line);
    run->line->held_milli -= milli_of(&replay->jobs->items[job]);
    world_remove(&replay->world, job);
}

static void end(struct replay *replay, uint32_t job)
{
    const struct trace_job *spec = &replay->jobs->items[job];
    struct run *run = &replay->runs[job];

    leave(replay, job);
    run->state = STATE_ENDED;
    run->line->asked_milli -= milli_of(spec);
    replay->ended++;
    replay->result->jobs[job].end_ms = replay->now_ms;
    runtimes_add(&replay->runtimes,
                 &(struct runtimes_like){.queue = spec->queue, .gpus = spec->gpus}, spec->run_ms);
}

/* A whole job goes with any of its pods. */
static void evict(struct replay *replay, uint32_t job)
{
    struct run *run = &replay->runs[job];

    if (run->state != STATE_RUNS)
        return;
    leave(replay, job);
    replay->result->preemptions++;
    replay->result->jobs[job].preempted++;
    int64_t milli = milli_of(&replay->jobs->items[job]);
    replay->result->lost_gpu_hours +=
        (double)milli / 1000.0 * (double)(replay->now_ms - run->start_ms) / HOUR_MS;
    run->tries++;
    run->state = STATE_IN_LINE;
    run->line->waiting++;
    line_push(replay, run->line, job);
}

static void decide(struct replay *replay)
{
    const struct sched_plan *plan = &replay->world.plan;

    world_cycle(&replay->world, replay->now_ms);
    for (size_t i = 0; i < plan->bind_count; i++) {
        uint32_t job = (uint32_t)world_job_of(plan->binds[i].pod.name);

        if (replay->runs[job].state == STATE_SHOWN && world_running(&replay->world, job))
            start(replay, job);
    }
    for (size_t i = 0; i < plan->evict_count; i++)
        evict(replay, (uint32_t)world_job_of(plan->evicts[i].pod.name));
}

/* ---- estimates ---- */
static int64_t ask_moment(const struct replay *replay)
{
    const struct estimates *estimates = &replay->estimates;

    return estimates->due_next < estimates->due.count
               ? replay->jobs->items[estimates->due.items[estimates->due_next]].submit_ms +
                     ESTIMATES_AFTER_MS
               : INT64_MAX;
}

static bool is_waiting(const struct replay *replay, size_t job)
{
    return replay->runs[job].state == STATE_IN_LINE || replay->runs[job].state == STATE_SHOWN;
}

/* All that waits is shown to the core of the forecast, and it looks at as much of it as ours. */
static void ask(struct replay *replay, uint32_t asked)
{
    const struct replay_policy *policy = replay->options->world.policy;
    struct arena arena = {0};
    struct forecast_state state = {.now_ms = replay->now_ms};
    struct str name = STR_NONE;
    double began_s = cpu_seconds();

    world_state(&replay->world, &arena, &state);
    for (size_t i = 0; i < SCHED_ACTION_COUNT; i++)
        state.config.policy.depth[i] =
            policy->strict
                ? 1
                : (uint32_t)(replay->options->window ? replay->options->window : REPLAY_WINDOW);
    for (size_t i = 0; i < replay->next; i++) {
        const struct run *run = &replay->runs[i];
        const struct trace_job *spec = &replay->jobs->items[i];
        struct forecast_group group;

        if (run->state != STATE_RUNS && !is_waiting(replay, i))
            continue;
        world_job_state(
            &replay->world, &arena,
            &(struct world_job){.index = i,
                                .expected_ms = (run->due - spec->submit_ms) / SCHED_EXPECTED_TIMES,
                                .started_ms = run->state == STATE_RUNS ? run->start_ms : 0},
            &group);
        if (i == asked)
            name = str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(group.spec.ns),
                              STR_ARG(group.spec.name));
        VEC_PUSH(&arena, &state.groups, group);
    }
    estimates_ask(&replay->estimates, replay->arena, asked, &state, &replay->runtimes, name);
    arena_done(&arena);
    replay->result->estimates.cpu_s += cpu_seconds() - began_s;
}

static void ask_due(struct replay *replay)
{
    while (ask_moment(replay) <= replay->now_ms) {
        uint32_t job = replay->estimates.due.items[replay->estimates.due_next++];

        if (is_waiting(replay, job))
            ask(replay, job);
    }
}

/* ---- samples ---- */
/* Equal parts for all queues, and what one does not need for the others. */
struct fairness {
    double jain;
    double least; /* share of what it is entitled to that the worst served queue has */
};

static struct fairness fairness_now(const struct replay *replay)
{
    double rest = (double)replay->world.gpu_milli;
    double part = 0;
    double sum = 0;
    double squares = 0;
    double least = 1;
    size_t count = 0;

    for (int round = 0; round < 16; round++) {
        size_t wanting = 0;
        double used = 0;

        for (size_t i = 0; i < replay->lines.count; i++) {
            double asked = (double)replay->lines.items[i]->asked_milli;
            wanting += asked > part;
            used += asked < part ? asked : part;
        }
        if (!wanting || rest - used < 1)
            break;
        part += (rest - used) / (double)wanting;
    }
    for (size_t i = 0; i < replay->lines.count; i++) {
        const struct line *line = replay->lines.items[i];
        double asked = (double)line->asked_milli;
        double entitled = asked < part ? asked : part;

        if (!(entitled > 0))
            continue;
        double share = (double)line->held_milli / entitled;
        share = share > 1 ? 1 : share;
        sum += share;
        squares += share * share;
        least = share < least ? share : least;
        count++;
    }
    return (struct fairness){count && squares > 0 ? sum * sum / ((double)count * squares) : 1,
                             least};
}

static void sample(struct replay *replay)
{
    int64_t waiting = 0;
    int64_t first_ms = replay->jobs->items[0].submit_ms;
    const struct world *world = &replay->world;
    struct fairness fairness = fairness_now(replay);

    for (size_t i = 0; i < replay->lines.count; i++)
        waiting += replay->lines.items[i]->waiting;
    replay->jain_sum += fairness.jain;
    replay->least_sum += fairness.least;
    replay->jain_count++;
    VEC_PUSH(replay->arena, &replay->result->samples,
             (struct replay_sample){.at = (double)(replay->sample_ms - first_ms) / HOUR_MS,
                                    .allocated =
                                        1 - (double)world->free_milli / (double)world->gpu_milli,
                                    .fragmented = world_fragments(world),
                                    .fair = fairness.jain,
                                    .least = fairness.least,
                                    .waiting = waiting});
    replay->sample_ms += replay->every_ms;
    if (replay->options->progress)
        replay->options->progress(replay->options->user,
                                  (double)replay->ended / (double)replay->jobs->count);
}

/* ---- the loop ---- */
static int64_t next_moment(const struct replay *replay)
{
    int64_t at = INT64_MAX;

    if (replay->next < replay->jobs->count)
        at = replay->jobs->items[replay->next].submit_ms;
    if (replay->endings.count && replay->endings.items[0].at_ms < at)
        at = replay->endings.items[0].at_ms;
    if (ask_moment(replay) < at)
        at = ask_moment(replay);
    int64_t wake = replay->world.plan.next_wake_ms;
    if (wake > replay->now_ms && wake < at)
        at = wake;
    return at;
}

static void play(struct replay *replay)
{
    while (!*replay->options->stop) {
        int64_t at = next_moment(replay);

        if (at == INT64_MAX)
            break;
        while (replay->sample_ms <= at)
            sample(replay);
        bool woken = replay->world.plan.next_wake_ms && at >= replay->world.plan.next_wake_ms;
        replay->now_ms = at;
        while (replay->endings.count && replay->endings.items[0].at_ms <= at) {
            struct ending ending = replay->endings.items[0];

            endings_pop(replay);
            if (replay->runs[ending.job].tries == ending.tries)
                end(replay, ending.job);
        }
        while (replay->next < replay->jobs->count &&
               replay->jobs->items[replay->next].submit_ms <= at)
            arrive(replay);
        show_more(replay);
        if (woken)
            replay->world.plan.next_wake_ms = 0;
        for (bool due = woken; due || sched_needs_cycle(replay->world.sched); due = false) {
            decide(replay);
            show_more(replay);
        }
        ask_due(replay);
    }
}

void replay_time(struct arena *arena,
                 const struct replay_options *options,
                 struct replay_result *ret)
{
    const struct trace_jobs *jobs = &options->world.trace->jobs;
    struct replay replay = {.options = options, .jobs = jobs, .arena = arena, .result = ret};
    double start_s = cpu_seconds();
    int64_t first_ms = jobs->items[0].submit_ms;

    *ret = (struct replay_result){.policy = options->world.policy, .seed = options->seed};
    ret->jobs = ARENA_ARRAY(arena, struct replay_outcome, jobs->count);
    for (size_t i = 0; i < jobs->count; i++)
        ret->jobs[i] = (struct replay_outcome){.start_ms = -1, .end_ms = -1};
    replay.runs = ARENA_ARRAY(arena, struct run, jobs->count);
    replay.estimates.result = &ret->estimates;
    replay.estimates.stop = options->stop;
    if (options->estimates)
        replay.estimates.step = (jobs->count + options->estimates - 1) / options->estimates;
    replay.now_ms = first_ms;
    replay.every_ms = (jobs->items[jobs->count - 1].submit_ms - first_ms) / SAMPLES + 1;
    replay.sample_ms = first_ms + replay.every_ms;
    world_open(&replay.world, &options->world);
    play(&replay);
    ret->cut = *options->stop != 0;
    ret->makespan_ms = replay.now_ms - first_ms;
    ret->jain = replay.jain_count ? replay.jain_sum / (double)replay.jain_count : 1;
    ret->least = replay.jain_count ? replay.least_sum / (double)replay.jain_count : 1;
    ret->decisions = replay.world.placed;
    estimates_close(&replay.estimates, arena);
    ret->cpu_s = cpu_seconds() - start_s - ret->estimates.cpu_s;
    world_close(&replay.world);
    runtimes_done(&replay.runtimes);
    map_done(&replay.lines_by_queue);
}
