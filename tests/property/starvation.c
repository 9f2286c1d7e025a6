#include "base/arena.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* starvation [HOURS]: a gang of 512 GPUs beside a stream of small jobs that never ends.
 *
 * Virtual time, the real core. 1024 GPUs; small jobs of 1 to 8 GPUs run 10 to 60 minutes, and there
 * are always some waiting. Two hours in, a gang of 64 pods with 8 GPUs each arrives in the same
 * queue. Printed is how long it waits, and how much of the cluster was in use meanwhile, by KAI's
 * rules and by ours, for three kinds of small jobs. By our rules the wait must be within the bound:
 * the age at which room is kept, and the longest job that may be in the way. */

#define NODES         128
#define GPUS          8
#define JOBS          4096 /* at a time: running and waiting ones */
#define WAITING       64   /* that wait at any moment */
#define BIG_PODS      64
#define MINUTE        INT64_C(60000)
#define HOUR          (60 * MINUTE)
#define START         INT64_C(1800000000000)
#define BIG_AT        (2 * HOUR)
#define STEP          (MINUTE / 6)
#define RUNTIME_MAX   (60 * MINUTE)
#define RESERVE_AFTER (5 * MINUTE)
#define SEED          UINT64_C(20261115)

enum kind {
    FIXED,       /* not preemptible, ends when it ends */
    DEADLINE,    /* not preemptible, with a deadline */
    PREEMPTIBLE, /* can be evicted */
    KINDS,
};
static const char *const kind_words[KINDS] = {"fixed", "with deadlines", "preemptible"};

struct job {
    uint64_t number; /* 0: free slot */
    bool runs;
    int64_t gpus;
    int64_t runtime_ms;
    int64_t ends_ms;
    char node[16];
};

struct world {
    struct sched *sched;
    enum kind kind;
    struct job jobs[JOBS];
    size_t waiting;
    uint64_t next;
    uint64_t rng;
    int64_t now;
    int64_t busy_ms; /* GPU milliseconds in use since the gang arrived */
    int64_t used;    /* GPUs in use */
    size_t evictions;
    bool big_started;
};

static int64_t draw(struct world *world, int64_t from, int64_t to)
{
    world->rng = world->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return from + (int64_t)((world->rng >> 33) % (uint64_t)(to - from + 1));
}

/* ---- what the core is told ---- */
static void put_cluster(struct world *world)
{
    struct arena arena = {0};
    struct sched_queue queue = {.name = STR("q"),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    sched_put_queue(world->sched, &queue);
    for (int n = 0; n < NODES; n++)
        sched_put_node(world->sched,
                       &(struct sched_node){.name = str_printf(&arena, "node-%03d", n),
                                            .cpu_milli = 256000,
                                            .memory_bytes = INT64_C(1) << 41,
                                            .gpus = GPUS,
                                            .pods = 110});
    arena_done(&arena);
}

static void put_job(struct world *world, const struct job *job)
{
    struct arena arena = {0};
    struct str name = str_printf(&arena, "job-%08llu", (unsigned long long)job->number);
    struct sched_pod pod = {.ns = STR("ns"),
                            .name = name,
                            .uid = name,
                            .group = name,
                            .created_ms = world->now,
                            .cpu_milli = 1000,
                            .memory_bytes = 1 << 30,
                            .gpus = job->gpus,
                            .deadline_ms = world->kind == DEADLINE ? job->runtime_ms : 0,
                            .role_rank = 2};

    if (job->runs) {
        pod.phase = SCHED_RUNNING;
        pod.node = str_from(job->node);
        pod.started_ms = world->now;
    }
    sched_put_group(world->sched,
                    &(struct sched_group){.ns = STR("ns"),
                                          .name = name,
                                          .queue = STR("q"),
                                          .created_ms = world->now,
                                          .min_member = 1,
                                          .has_priority = true,
                                          .priority = 50,
                                          .preemptibility = world->kind == PREEMPTIBLE
                                                                ? SCHED_PREEMPTIBLE
                                                                : SCHED_NON_PREEMPTIBLE});
    sched_put_pod(world->sched, &pod);
    arena_done(&arena);
}

static void drop_job(struct world *world, struct job *job)
{
    struct arena arena = {0};
    struct str name = str_printf(&arena, "job-%08llu", (unsigned long long)job->number);

    sched_drop_pod(world->sched, STR("ns"), name);
    sched_drop_group(world->sched, STR("ns"), name);
    arena_done(&arena);
    world->used -= job->runs ? job->gpus : 0;
    job->number = 0;
}

static void submit(struct world *world)
{
    static const int64_t sizes[] = {1, 1, 2, 4, 8};

    for (size_t i = 0; i < JOBS && world->waiting < WAITING; i++) {
        struct job *job = &world->jobs[i];

        if (job->number)
            continue;
        *job = (struct job){.number = ++world->next,
                            .gpus = sizes[draw(world, 0, 4)],
                            .runtime_ms = draw(world, 10 * MINUTE, RUNTIME_MAX)};
        world->waiting++;
        put_job(world, job);
    }
}

static void submit_big(struct world *world)
{
    struct arena arena = {0};

    sched_put_group(world->sched, &(struct sched_group){.ns = STR("ns"),
                                                        .name = STR("big"),
                                                        .queue = STR("q"),
                                                        .created_ms = world->now,
                                                        .min_member = BIG_PODS,
                                                        .has_priority = true,
                                                        .priority = 50});
    for (int i = 0; i < BIG_PODS; i++) {
        struct str name = str_printf(&arena, "big-%02d", i);

        sched_put_pod(world->sched, &(struct sched_pod){.ns = STR("ns"),
                                                        .name = name,
                                                        .uid = name,
                                                        .group = STR("big"),
                                                        .created_ms = world->now,
                                                        .cpu_milli = 1000,
                                                        .memory_bytes = 1 << 30,
                                                        .gpus = GPUS,
                                                        .role_rank = 2});
    }
    arena_done(&arena);
}

/* ---- time passes ---- */
static struct job *job_of(struct world *world, struct str pod)
{
    uint64_t number = 0;

    if (!str_to_u64(str_sub(pod, 4, pod.len), &number))
        return NULL;
    for (size_t i = 0; i < JOBS; i++)
        if (world->jobs[i].number == number)
            return &world->jobs[i];
    return NULL;
}

static void decide(struct world *world)
{
    struct arena arena = {0};
    struct sched_plan plan;

    sched_cycle(world->sched, world->now, &arena, &plan);
    for (size_t i = 0; i < plan.evict_count; i++) { /* ended at once, and not submitted again */
        struct job *job = job_of(world, plan.evicts[i].pod.name);

        if (job)
            drop_job(world, job);
        world->evictions++;
    }
    for (size_t i = 0; i < plan.bind_count; i++) {
        struct job *job = job_of(world, plan.binds[i].pod.name);

        if (!job) {
            world->big_started = true;
            continue;
        }
        job->runs = true;
        job->ends_ms = world->now + job->runtime_ms;
        (void)snprintf(job->node, sizeof(job->node), STR_FMT, STR_ARG(plan.binds[i].node));
        world->used += job->gpus;
        world->waiting--;
        put_job(world, job);
    }
    arena_done(&arena);
}

static void end_jobs(struct world *world)
{
    for (size_t i = 0; i < JOBS; i++)
        if (world->jobs[i].number && world->jobs[i].runs && world->jobs[i].ends_ms <= world->now)
            drop_job(world, &world->jobs[i]);
}

/* How long the gang waited in ms; -1: it did not start within the time. */
static int64_t play(enum kind kind, uint64_t quirks, int64_t horizon_ms, struct world *world)
{
    struct sched_config config;
    int64_t big_at = 0;

    *world = (struct world){.kind = kind, .rng = SEED, .now = START};
    sched_config_default(&config);
    config.quirks = quirks;
    config.policy.reserve_after_ms = RESERVE_AFTER;
    world->sched = sched_new(&config);
    put_cluster(world);
    for (; world->now < START + BIG_AT + horizon_ms && !world->big_started; world->now += STEP) {
        end_jobs(world);
        submit(world);
        if (!big_at && world->now >= START + BIG_AT) {
            big_at = world->now;
            submit_big(world);
        }
        while (sched_needs_cycle(world->sched) && !world->big_started)
            decide(world);
        world->busy_ms += big_at ? world->used * STEP : 0;
    }
    sched_free(world->sched);
    return world->big_started ? world->now - STEP - big_at : -1;
}

static void print_wait(const char *rules,
                       int64_t waited_ms,
                       int64_t horizon_ms,
                       const struct world *world)
{
    int64_t passed = waited_ms < 0 ? horizon_ms : waited_ms + STEP;
    double busy = 100.0 * (double)world->busy_ms / ((double)passed * NODES * GPUS);

    if (waited_ms < 0)
        printf("  %-12s not started after %lld h", rules, (long long)(horizon_ms / HOUR));
    else
        printf("  %-12s started after %lld min", rules, (long long)(waited_ms / MINUTE));
    printf("; meanwhile %.0f %% of GPUs in use, %zu evictions\n", busy, world->evictions);
}

int main(int argc, char *argv[])
{
    static struct world world;
    int64_t hours = 6;
    int64_t bound = RESERVE_AFTER + RUNTIME_MAX + MINUTE;
    bool good = true;

    if (argc > 1 && (!str_to_i64(str_from(argv[1]), &hours) || hours < 2)) {
        (void)fprintf(stderr, "usage: sched-starvation [HOURS]\n");
        return 2;
    }
    printf("a gang of 64 x 8 GPUs on 1024 GPUs, beside small jobs without end (seed %llu)\n",
           (unsigned long long)SEED);
    for (int kind = 0; kind < KINDS; kind++) {
        printf("small jobs %s:\n", kind_words[kind]);
        int64_t waited = play((enum kind)kind, SCHED_QUIRKS_ALL, hours * HOUR, &world);
        print_wait("KAI's rules", waited, hours * HOUR, &world);
        good = good && waited < 0;
        waited = play((enum kind)kind, SCHED_QUIRKS_NONE, hours * HOUR, &world);
        print_wait("ours", waited, hours * HOUR, &world);
        good = good && waited >= 0 && waited <= bound;
    }
    printf("%s: by our rules the wait is at most %lld min\n", good ? "as it should be" : "broken",
           (long long)(bound / MINUTE));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
