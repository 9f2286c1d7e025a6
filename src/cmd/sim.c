#include "sim/sim.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "base/vec.h"
#include "sim/shrink.h"
#include "tool/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* sim: runs the simulator for a seed, for many, or at every write of the gang story. What fails is
 * shrunk, and told as a story if that is asked for. */

#define RING_LINES 250 /* of the trace, printed when a run fails */
#define LINE_BYTES 640

struct sim_values {
    int64_t seed;
    int64_t seeds;
    int64_t steps;
    int64_t crash_at;
    int64_t order;
    const char *only;
    bool one_by_one;
    bool suspend;
    bool wide;
    bool operators;
    bool every_write;
    bool trace;
    bool after;
    bool story;
    bool shrink;
};

static const struct option sim_option_table[] = {
    {"seed", 0, OPTION_I64, offsetof(struct sim_values, seed), .fallback = "1", .min = 0,
     .max = INT64_MAX, .value = "N", .help = "seed of the random numbers"},
    {"seeds", 0, OPTION_I64, offsetof(struct sim_values, seeds), .fallback = "1", .min = 1,
     .max = 100000000, .value = "N", .help = "run this many seeds, from --seed on"},
    {"steps", 0, OPTION_I64, offsetof(struct sim_values, steps), .fallback = "0", .min = 0,
     .max = SIM_STEPS_MAX, .value = "N", .help = "steps with faults (0: the usual number)"},
    {"one-by-one", 0, OPTION_BOOL, offsetof(struct sim_values, one_by_one),
     .help = "bind gangs pod by pod, lose answers and let requests overtake, as on a cluster"},
    {"suspend", 0, OPTION_BOOL, offsetof(struct sim_values, suspend),
     .help =
         "suspend work that gives way instead of evicting it; with --one-by-one, shares of GPUs"},
    {"wide", 0, OPTION_BOOL, offsetof(struct sim_values, wide),
     .help = "users share queues, jobs restart in place and have spare pods, machines evict"},
    {"operators", 0, OPTION_BOOL, offsetof(struct sim_values, operators),
     .help = "two operators of different versions compete for the lease; with --one-by-one"},
    {"every-write", 0, OPTION_BOOL, offsetof(struct sim_values, every_write),
     .help = "run the gang scenario repeatedly, with a crash before and after each write"},
    {"crash-at", 0, OPTION_I64, offsetof(struct sim_values, crash_at), .fallback = "0", .min = 0,
     .max = INT64_MAX, .value = "N",
     .help = "run the gang scenario once, with a crash at this write (0: a random run)"},
    {"after", 0, OPTION_BOOL, offsetof(struct sim_values, after),
     .help = "with --crash-at: crash after the write instead of before it"},
    {"trace", 0, OPTION_BOOL, offsetof(struct sim_values, trace), .help = "print every step"},
    {"story", 0, OPTION_BOOL, offsetof(struct sim_values, story),
     .help = "tell what happens in sentences; of a run that fails, what is left when it is shrunk"},
    {"shrink", 0, OPTION_BOOL, offsetof(struct sim_values, shrink), .fallback = "true",
     .help = "leave out of a failing run what the failure does not need"},
    {"only", 0, OPTION_STR, offsetof(struct sim_values, only), .value = "EVENTS",
     .help = "of what comes from outside, only these, as a shrunk run names them"},
    {"order", 0, OPTION_I64, offsetof(struct sim_values, order), .fallback = "0", .min = 0,
     .max = INT64_MAX, .value = "N",
     .help = "another order of everything else, with the same events from outside"},
    {0},
};

struct ring {
    char lines[RING_LINES][LINE_BYTES];
    size_t count;
    bool print;
    bool story;
    bool shrink;
};

static void on_line(void *user, const char *line)
{
    struct ring *ring = user;

    (void)snprintf(ring->lines[ring->count++ % RING_LINES], LINE_BYTES, "%s", line);
    if (ring->print)
        (void)puts(line);
}

static void print_ring(const struct ring *ring)
{
    size_t first = ring->count > RING_LINES ? ring->count - RING_LINES : 0;

    for (size_t i = first; !ring->print && i < ring->count; i++)
        (void)puts(ring->lines[i % RING_LINES]);
}

static void on_sentence(void *user, const char *sentence)
{
    (void)user;
    (void)puts(sentence);
}

/* ---- events by name ---- */

static const char *const event_words[] = {
#define EVENT_WORD(name, word) [SIM_EVENT_##name] = word,
    SIM_EVENTS(EVENT_WORD)
#undef EVENT_WORD
};

/* "people:3,crash:1"; false: one of them is no event. */
static bool events_parse(struct arena *arena, const char *text, struct sim_options *ret)
{
    VEC(struct sim_event) events = {0};
    struct str rest = str_from(text), item, word;

    VEC_PUSH(arena, &events, (struct sim_event){0}); /* none has the number 0: never empty */
    while (rest.len && str_cut(&rest, ',', &item)) {
        struct sim_event event = {SIM_EVENT_CLASSES, 0};
        int64_t value = 0;

        if (!str_cut(&item, ':', &word))
            return false;
        for (size_t i = 0; i < COUNT_OF(event_words); i++)
            if (str_is(word, event_words[i]))
                event.class = (enum sim_event_class)i;
        if (event.class == SIM_EVENT_CLASSES || !str_to_i64(item, &value) || value < 1)
            return false;
        event.number = (uint64_t)value;
        VEC_PUSH(arena, &events, event);
    }
    ret->only = events.items;
    ret->only_count = events.count;
    return true;
}

static void print_again(const struct sim_options *options, const char *how)
{
    const char *comma = " --only ";

    (void)printf("again: build/sim --seed %" PRIu64 " %s%s%s%s%s", options->seed, how,
                 options->one_by_one ? " --one-by-one" : "", options->suspend ? " --suspend" : "",
                 options->wide ? " --wide" : "", options->operators ? " --operators" : "");
    if (options->steps)
        (void)printf(" --steps %" PRIu64, options->steps);
    if (options->story == SIM_GANG)
        (void)printf(" --crash-at %" PRIu64 "%s", options->crash_at,
                     options->crash_when == SIM_CRASH_AFTER ? " --after" : "");
    if (options->order)
        (void)printf(" --order %" PRIu64, options->order);
    if (options->only && !options->only_count)
        (void)printf(" --only ''");
    for (size_t i = 0; i < options->only_count; i++) {
        if (!options->only[i].number)
            continue;
        (void)printf("%s%s:%" PRIu64, comma, event_words[options->only[i].class],
                     options->only[i].number);
        comma = ",";
    }
    (void)printf("\n");
}

/* ---- runs ---- */

/* A failing run with nothing in it that the failure does not need; its story, if it is wanted. */
static void shrink_one(const struct sim_options *failing, bool story)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct shrunk shrunk = {.options = *failing};

    if (failing->story == SIM_RANDOM) {
        (void)printf("shrinking ...\n");
        (void)fflush(stdout);
        if (!sim_shrink(failing, &arena, &shrunk)) {
            (void)printf("FAILED: it does not fail the second time\n");
            return;
        }
        (void)printf("shrunk: %zu events from outside to %zu, in %zu runs: %s\n", shrunk.before,
                     shrunk.options.only_count, shrunk.runs, shrunk.result.text);
    }
    if (story) {
        struct sim_options told = shrunk.options;
        struct sim_result result;

        told.trace = NULL;
        told.tell = on_sentence;
        sim_run(&told, &result);
    }
    print_again(&shrunk.options, story ? "--trace" : "--story");
}

static bool run_one(struct sim_options *options, struct ring *ring, struct sim_result *ret)
{
    ring->count = 0;
    options->trace = on_line;
    options->user = ring;
    sim_run(options, ret);
    if (!ret->failed)
        return true;
    if (!ring->story)
        print_ring(ring);
    (void)printf("FAILED: %s\n", ret->text);
    print_again(options, "--trace");
    if (ring->shrink)
        shrink_one(options, ring->story);
    return false;
}

struct totals {
    uint64_t runs;
    uint64_t steps;
    uint64_t crashes;
    uint64_t pods;
    uint64_t suspended;
    int64_t virtual_ms;
};

static void add_up(struct totals *totals, const struct sim_result *result)
{
    totals->runs++;
    totals->steps += result->steps;
    totals->crashes += result->crashes;
    totals->pods += result->pods;
    totals->suspended += result->suspended;
    totals->virtual_ms += result->virtual_ms;
}

static void options_fill(const struct sim_values *values, struct sim_options *ret)
{
    ret->seed = (uint64_t)values->seed;
    ret->one_by_one = values->one_by_one;
    ret->suspend = values->suspend;
    ret->wide = values->wide;
    ret->operators = values->operators;
    ret->order = (uint64_t)values->order;
}

/* The same seed twice must be the same run. */
static bool run_seeds(const struct sim_values *values,
                      const struct sim_options *given,
                      struct ring *ring,
                      struct totals *totals)
{
    struct sim_options options = *given;
    struct sim_result result = {0};
    uint64_t hash = 0;

    options.steps = (uint64_t)values->steps;
    for (int64_t i = 0; i < values->seeds; i++) {
        options.seed = (uint64_t)(values->seed + i);
        if (!run_one(&options, ring, &result))
            return false;
        add_up(totals, &result);
        hash = i == 0 ? result.hash : hash;
    }
    if (ring->story) /* of one that is fine */
        options.tell = on_sentence;
    options.seed = (uint64_t)values->seed;
    if (!run_one(&options, ring, &result))
        return false;
    if (result.hash != hash) {
        (void)printf("FAILED: seed %" PRIu64 " gave another run the second time\n", options.seed);
        return false;
    }
    return true;
}

/* Until a run ends before the write that it was to die at. */
static bool run_every_write(const struct sim_options *given,
                            struct ring *ring,
                            struct totals *totals)
{
    struct sim_options options = *given;
    struct sim_result result = {.crashes = 1};

    options.story = SIM_GANG;
    for (uint64_t at = 1; result.crashes; at++)
        for (int when = SIM_CRASH_BEFORE; when <= SIM_CRASH_AFTER; when++) {
            options.crash_at = at;
            options.crash_when = (enum sim_crash)when;
            if (!run_one(&options, ring, &result))
                return false;
            add_up(totals, &result);
        }
    return true;
}

static int sim_main(struct invocation *invocation)
{
    const struct sim_values *values = invocation->values;
    struct ring *ring = ARENA_NEW(invocation->arena, struct ring);
    struct sim_options options = {0};
    struct totals totals = {0};
    struct timespec from, to;
    bool fine;

    options_fill(values, &options);
    if (values->suspend && values->operators) {
        (void)fprintf(stderr, "sim: --suspend: the older one of --operators knows nothing of "
                              "suspended work; leave one of them out\n");
        return EXIT_FAILURE;
    }
    if (values->operators && !values->one_by_one) {
        (void)fprintf(stderr, "sim: --operators: only operators of a cluster are several; give "
                              "--one-by-one, too\n");
        return EXIT_FAILURE;
    }
    if (values->only && !events_parse(invocation->arena, values->only, &options)) {
        (void)fprintf(stderr, "sim: --only: %s is not a list such as people:3,crash:1\n",
                      values->only);
        return EXIT_FAILURE;
    }
    ring->print = values->trace;
    ring->story = values->story;
    ring->shrink = values->shrink;
    (void)clock_gettime(CLOCK_MONOTONIC, &from);
    if (values->every_write) {
        fine = run_every_write(&options, ring, &totals);
    } else if (values->crash_at) {
        struct sim_result result;

        options.story = SIM_GANG;
        options.crash_at = (uint64_t)values->crash_at;
        options.crash_when = values->after ? SIM_CRASH_AFTER : SIM_CRASH_BEFORE;
        fine = run_one(&options, ring, &result);
        add_up(&totals, &result);
    } else {
        fine = run_seeds(values, &options, ring, &totals);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    (void)printf("%s: %" PRIu64 " runs from seed %" PRId64 ", %" PRIu64 " steps, %" PRIu64
                 " crashes, %" PRIu64 " pods, %" PRIu64
                 " suspended, %.1f h of virtual time in %.1f s (%.0fx)\n",
                 fine ? "ok" : "FAILED", totals.runs, values->seed, totals.steps, totals.crashes,
                 totals.pods, totals.suspended, (double)totals.virtual_ms / 3600000, seconds,
                 (double)totals.virtual_ms / 1000 / seconds);
    return fine ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct command command_sim = {
    .name = "sim",
    .summary = "simulate the control plane with faults",
    .about = "Runs the store, the controllers, the scheduler and machines on virtual time, injects "
             "faults, and checks the invariants after every step. A failure prints its "
             "seed.",
    .example = "build/sim --seed 17 --trace",
    .options = sim_option_table,
    .values_size = sizeof(struct sim_values),
    .run = sim_main,
};

int main(int argc, char *argv[], char *envp[])
{
    static const struct program program = {
        .name = "sim", .summary = "simulate the control plane with faults", .only = &command_sim};

    return program_main(&program, argc, argv, envp);
}
