#include "base/rng.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Who is next in a queue by users, against a model of its own: a table of jobs with a GPU each. One
 * thing happens between two cycles, so that each cycle has one choice at most: the job that is
 * bound must be of a user who holds no more than any other user who waits. */

#define USERS    4
#define GPUS     6
#define JOBS_MAX 40
#define STEPS    400

enum state {
    NONE,
    WAITS,
    RUNS,
};

struct model {
    struct cluster cluster;
    struct rng rng;
    enum state state[JOBS_MAX];
    size_t user[JOBS_MAX];
    int held[USERS];
    int running;
};

static const char *const names[USERS] = {"", "ann", "bob", "eve"};

static void put(struct model *m, size_t job)
{
    char name[16];

    (void)snprintf(name, sizeof(name), "job%zu", job);
    cluster_put(&m->cluster, &(struct job){.name = name,
                                           .gpus = 1,
                                           .priority = 10,
                                           .node = m->state[job] == RUNS ? "n" : NULL});
    sched_put_group(m->cluster.sched, &(struct sched_group){.ns = STR("ns"),
                                                            .name = str_from(name),
                                                            .queue = STR("q"),
                                                            .user = str_from(names[m->user[job]]),
                                                            .min_member = 1,
                                                            .created_ms = m->cluster.now,
                                                            .has_priority = true,
                                                            .priority = 10});
}

static void submit(struct model *m, size_t job)
{
    /* One of them brings half of all work. */
    size_t user = rng_below(&m->rng, 2) ? 1 : rng_below(&m->rng, USERS);

    m->state[job] = WAITS;
    m->user[job] = user;
    put(m, job);
}

static void end(struct model *m, size_t job)
{
    char pod[24];

    (void)snprintf(pod, sizeof(pod), "job%zu-0", job);
    cluster_drop(&m->cluster, pod);
    if (m->state[job] == RUNS) {
        m->held[m->user[job]]--;
        m->running--;
    }
    m->state[job] = NONE;
}

/* What the least of those who wait holds; -1: nobody waits. */
static int least_held(const struct model *m)
{
    int least = -1;

    for (size_t i = 0; i < JOBS_MAX; i++)
        if (m->state[i] == WAITS && (least < 0 || m->held[m->user[i]] < least))
            least = m->held[m->user[i]];
    return least;
}

static bool one_cycle(struct model *m)
{
    int least = least_held(m);
    bool room = m->running < GPUS;

    cluster_decide(&m->cluster, 1000);
    if (m->cluster.plan.evict_count || m->cluster.plan.bind_count != (room && least >= 0 ? 1u : 0u))
        return false;
    for (size_t i = 0; i < JOBS_MAX; i++) {
        char pod[24];

        (void)snprintf(pod, sizeof(pod), "job%zu-0", i);
        if (!cluster_bound(&m->cluster, pod))
            continue;
        if (m->state[i] != WAITS || m->held[m->user[i]] != least)
            return false;
        m->state[i] = RUNS;
        m->held[m->user[i]]++;
        m->running++;
        put(m, i);
    }
    return true;
}

TEST(of_users_who_wait_the_next_is_always_one_who_holds_least)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct model m = {.rng = {seed}};
        struct sched_queue queue = {.name = STR("q"),
                                    .priority = 100,
                                    .preempt_min_runtime_ms = -1,
                                    .reclaim_min_runtime_ms = -1,
                                    .order = SCHED_ORDER_USERS};
        bool right = true;
        char text[48];

        cluster_open(&m.cluster, 0);
        cluster_node(&m.cluster, "n", GPUS);
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        sched_put_queue(m.cluster.sched, &queue);
        for (int step = 0; step < STEPS && right; step++) {
            size_t job = rng_below(&m.rng, JOBS_MAX);

            if (m.state[job] == NONE)
                submit(&m, job);
            else if (m.state[job] == RUNS || rng_below(&m.rng, 8) == 0)
                end(&m, job);
            right = one_cycle(&m);
            (void)snprintf(text, sizeof(text), "seed %d, step %d", (int)seed, step);
        }
        test_case(text);
        EXPECT(right);
        EXPECT(m.running == GPUS || least_held(&m) < 0);
        cluster_close(&m.cluster);
    }
}
