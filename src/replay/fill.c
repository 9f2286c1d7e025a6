#include "base/arena.h"
#include "base/rng.h"
#include "base/vec.h"
#include "replay/replay.h"
#include "replay/result.h"
#include "replay/trace.h"
#include "replay/world.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* The protocol of "Beware of Fragmentation": see replay.h. */
#define FILL_PERCENT 130
#define SAMPLES      65 /* one for every 2 % */

struct order VEC_FIELDS(uint32_t);

static int64_t asks(const struct trace_job *job)
{
    return job->gpus * job->gpu_milli;
}

static void drawn(struct arena *arena,
                  const struct trace_jobs *jobs,
                  uint64_t seed,
                  int64_t gpu_milli,
                  struct order *ret)
{
    struct rng rng = {.state = seed};
    int64_t sum = 0;
    int64_t bound = gpu_milli / 100 * FILL_PERCENT;

    for (size_t i = 0; i < jobs->count; i++) {
        VEC_PUSH(arena, ret, (uint32_t)i);
        sum += asks(&jobs->items[i]);
    }
    for (size_t i = ret->count; i > 1; i--) {
        size_t other = rng_below(&rng, i);
        uint32_t swap = ret->items[i - 1];

        ret->items[i - 1] = ret->items[other];
        ret->items[other] = swap;
    }
    while (sum > bound && ret->count)
        sum -= asks(&jobs->items[ret->items[--ret->count]]);
    while (sum && sum < bound) {
        size_t job = rng_below(&rng, jobs->count);

        VEC_PUSH(arena, ret, (uint32_t)job);
        sum += asks(&jobs->items[job]);
    }
}

static double cpu_seconds(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void sample(struct arena *arena,
                   const struct world *world,
                   int64_t asked,
                   int64_t dropped,
                   struct replay_result *ret)
{
    double all = (double)world->gpu_milli;

    VEC_PUSH(arena, &ret->samples,
             (struct replay_sample){.at = (double)asked / all,
                                    .allocated = 1 - (double)world->free_milli / all,
                                    .fragmented = world_fragments(world),
                                    .waiting = dropped});
}

/* A job that was drawn again is another one: it goes in under a number of its own. */
static struct trace_jobs numbered(struct arena *arena,
                                  const struct trace_jobs *jobs,
                                  const struct order *order)
{
    struct trace_jobs all = {0};

    for (size_t i = 0; i < order->count; i++)
        VEC_PUSH(arena, &all, jobs->items[order->items[i]]);
    return all;
}

/* Every job comes and goes, twice: what was counted in the first round counts in the second. */
static void teach(struct world *world, size_t count)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < count; i++) {
            world_submit(world, i, 1, 0);
            world_remove(world, i);
        }
}

void replay_fill(struct arena *arena,
                 const struct replay_options *options,
                 struct replay_result *ret)
{
    struct world_options world_options = options->world;
    struct order order = {0};
    struct trace trace = {0};
    struct world world;
    int64_t gpu_milli = 0;
    int64_t asked = 0;
    int64_t dropped = 0;

    for (size_t i = 0; i < options->world.nodes->count; i++)
        gpu_milli += options->world.nodes->items[i].gpus * 1000;
    drawn(arena, &options->world.trace->jobs, options->seed, gpu_milli, &order);
    trace.jobs = numbered(arena, &options->world.trace->jobs, &order);
    world_options.trace = &trace;
    world_open(&world, &world_options);
    *ret = (struct replay_result){.policy = options->world.policy, .seed = options->seed};
    if (options->world.policy->taught)
        teach(&world, trace.jobs.count);
    for (size_t i = 0; i < trace.jobs.count && !*options->stop; i++) {
        double start_s = cpu_seconds();
        int64_t before = asked;

        asked += asks(&trace.jobs.items[i]);
        if (before <= gpu_milli && asked > gpu_milli)
            ret->at_100 = 1 - (double)world.free_milli / (double)gpu_milli;
        world_submit(&world, i, (int64_t)i + 1, 0);
        world_cycle(&world, (int64_t)i + 1);
        if (!world_running(&world, i)) {
            world_remove(&world, i);
            dropped++;
        }
        ret->cpu_s += cpu_seconds() - start_s;
        if (before * SAMPLES / (gpu_milli * FILL_PERCENT / 100 + 1) !=
            asked * SAMPLES / (gpu_milli * FILL_PERCENT / 100 + 1)) {
            sample(arena, &world, asked, dropped, ret);
            if (options->progress)
                options->progress(options->user, (double)i / (double)trace.jobs.count);
        }
    }
    ret->cut = *options->stop != 0;
    ret->at_130 = 1 - (double)world.free_milli / (double)gpu_milli;
    ret->decisions = world.placed;
    world_close(&world);
}
