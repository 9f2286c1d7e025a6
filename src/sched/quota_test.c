#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Queue q below queue top; one gang holds two GPUs. */
static void put_queue(struct cluster *c, const char *name, const char *parent, double gpu_limit)
{
    struct sched_queue queue = {.name = str_from(name),
                                .parent = str_from(parent),
                                .priority = 100,
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};

    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU].limit = gpu_limit;
    sched_put_queue(c->sched, &queue);
}

static bool may_bind_after(struct cluster *c, double top_limit, double own_limit)
{
    put_queue(c, "top", "", top_limit);
    put_queue(c, "q", "top", own_limit);
    cluster_decide(c, 1000);
    return sched_may_bind(c->sched, STR("ns"), STR("g"));
}

TEST(a_gang_may_be_bound_unless_its_queue_or_one_above_is_beyond_its_limit)
{
    struct cluster c;

    cluster_open(&c, 0);
    cluster_node(&c, "a", 4);
    cluster_put(&c, &(struct job){.name = "g", .pods = 1, .gpus = 2, .node = "a"});
    EXPECT(may_bind_after(&c, SCHED_UNLIMITED, SCHED_UNLIMITED));
    EXPECT(may_bind_after(&c, 2, 2));
    EXPECT(!may_bind_after(&c, 2, 1));
    EXPECT(!may_bind_after(&c, 1, 2));
    EXPECT(sched_may_bind(c.sched, STR("ns"), STR("nobody")));
    cluster_close(&c);
}

/* Single pods, a GPU each, of which the node would have room for all. */
TEST(a_queue_takes_as_much_as_its_limit_or_the_one_above_it_says_and_no_more)
{
    static const struct {
        const char *why;
        double top;
        double own;
        size_t binds;
    } rows[] = {
        {"no limit", SCHED_UNLIMITED, SCHED_UNLIMITED, 4},
        {"its own", SCHED_UNLIMITED, 2, 2},
        {"of the one above", 3, SCHED_UNLIMITED, 3},
        {"the lower of both", 3, 1, 1},
        {"nothing", SCHED_UNLIMITED, 0, 0},
    };
    static const char *const names[] = {"a", "b", "c", "d"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster c;

        test_case(rows[i].why);
        cluster_open(&c, 0);
        cluster_node(&c, "n", 8);
        put_queue(&c, "top", "", rows[i].top);
        put_queue(&c, "q", "top", rows[i].own);
        for (size_t j = 0; j < COUNT_OF(names); j++)
            cluster_put(&c, &(struct job){.name = names[j], .pods = 1, .gpus = 1});
        cluster_decide(&c, 1000);
        EXPECT(c.plan.bind_count == rows[i].binds);
        cluster_close(&c);
    }
}

static void put_job(struct cluster *c, const struct job *job, const char *user)
{
    cluster_put(c, job);
    sched_put_group(c->sched, &(struct sched_group){.ns = STR("ns"),
                                                    .name = str_from(job->name),
                                                    .queue = STR("q"),
                                                    .user = str_from(user),
                                                    .min_member = 1,
                                                    .created_ms = c->now,
                                                    .has_priority = true,
                                                    .priority = job->priority});
}

/* One user holds a GPU, the other none; three are left, and each asks for them. */
TEST(a_queue_by_users_goes_by_priority_first_and_then_by_what_they_hold)
{
    static const struct {
        const char *why;
        int64_t first;  /* priority of the job of who holds one, which was there before */
        int64_t second; /* of who holds none */
        const char *bound;
    } rows[] = {
        {"who holds less", 10, 10, "second-0"},
        {"what is more important, whoever holds what", 20, 10, "first-0"},
        {"the same the other way round", 10, 20, "second-0"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct sched_queue queue = {.name = STR("q"),
                                    .priority = 100,
                                    .preempt_min_runtime_ms = -1,
                                    .reclaim_min_runtime_ms = -1,
                                    .order = SCHED_ORDER_USERS};
        struct cluster c;

        test_case(rows[i].why);
        cluster_open(&c, 0);
        cluster_node(&c, "n", 4);
        for (int r = 0; r < SCHED_RESOURCES; r++)
            queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
        sched_put_queue(c.sched, &queue);
        put_job(&c, &(struct job){.name = "runs", .gpus = 1, .priority = 50, .node = "n"}, "ann");
        put_job(&c, &(struct job){.name = "first", .gpus = 3, .priority = rows[i].first}, "ann");
        put_job(&c, &(struct job){.name = "second", .gpus = 3, .priority = rows[i].second}, "bob");
        cluster_decide(&c, 1000);
        EXPECT(c.plan.bind_count == 1 && cluster_bound(&c, rows[i].bound));
        cluster_close(&c);
    }
}

/* ---- what a queue lends (api/beyond.h) ---- */
static void lending_queue(struct cluster *c, const char *name, const char *parent, const char *word)
{
    struct object *object = NULL;
    struct err err = {0};
    struct str text =
        str_printf(&c->arena,
                   "{\"apiVersion\":\"scheduling.run.ai/v2\",\"kind\":\"Queue\",\"metadata\":"
                   "{\"name\":\"%s\",\"annotations\":{%s%s%s}},\"spec\":{\"parentQueue\":\"%s\","
                   "\"resources\":{\"gpu\":{\"quota\":0,\"limit\":-1,\"overQuotaWeight\":1}}}}",
                   name, word ? "\"muster.dev/beyond-quota\":\"" : "", word ? word : "",
                   word ? "\"" : "", parent);

    EXPECT(object_new(&kind_queue, text, &object, NULL) == 0);
    EXPECT(sched_observe(c->sched, SCHED_PUT, object, &err) ==
           (word && strcmp(word, "non-preemptible") != 0 ? -EINVAL : 0));
    object_unref(object);
}

TEST(a_queue_without_quota_that_lends_runs_work_that_is_not_preemptible)
{
    static const struct {
        const char *word;
        uint64_t quirks;
        bool runs;
        const char *why;
    } cases[] = {
        {NULL, SCHED_QUIRKS_NONE, false, "a queue that says nothing holds such work to its quota"},
        {"non-preemptible", SCHED_QUIRKS_NONE, true, "one that lends has room for it"},
        {"non-preemptible", SCHED_QUIRKS_ALL, false, "KAI does not know the annotation"},
        {"everything", SCHED_QUIRKS_NONE, false, "a word that is none is told and lends nothing"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct cluster c;

        cluster_open(&c, cases[i].quirks);
        cluster_node(&c, "a", 2);
        lending_queue(&c, "top", "", cases[i].word);
        lending_queue(&c, "q", "top", cases[i].word);
        cluster_put(&c, &(struct job){.name = "serves", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
        cluster_decide(&c, 1000);
        test_case(cases[i].why);
        EXPECT(cluster_bound(&c, "serves-0") == cases[i].runs);
        cluster_close(&c);
    }
}

TEST(a_queue_may_begin_to_lend)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_node(&c, "a", 2);
    lending_queue(&c, "q", "", NULL);
    cluster_put(&c, &(struct job){.name = "serves", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "serves")->reason == SCHED_REASON_OVER_QUOTA);
    lending_queue(&c, "q", "", "non-preemptible");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "serves-0"));
    cluster_close(&c);
}

TEST(nobody_is_evicted_for_what_a_queue_lends)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_node(&c, "a", 2);
    lending_queue(&c, "top", "", "non-preemptible");
    lending_queue(&c, "q", "top", "non-preemptible");
    lending_queue(&c, "beside", "top", NULL);
    cluster_put(&c, &(struct job){.name = "same", .gpus = 1, .priority = 50, .node = "a"});
    cluster_put(
        &c,
        &(struct job){.name = "other", .queue = "beside", .gpus = 1, .priority = 50, .node = "a"});
    cluster_put(
        &c,
        &(struct job){.name = "serves", .gpus = 1, .priority = 125, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 1000);
    EXPECT(c.plan.evict_count == 0 && c.plan.bind_count == 0);
    cluster_drop(&c, "other-0");
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "serves-0"));
    cluster_close(&c);
}

TEST(a_queue_lends_to_its_own_work_only)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_node(&c, "a", 2);
    lending_queue(&c, "top", "", "non-preemptible");
    put_queue(&c, "q", "top", SCHED_UNLIMITED); /* has quota, and what is above it has none */
    cluster_put(&c, &(struct job){.name = "serves", .gpus = 1, .kind = SCHED_NON_PREEMPTIBLE});
    cluster_decide(&c, 1000);
    EXPECT(cluster_waiting(&c, "serves")->reason == SCHED_REASON_OVER_QUOTA);
    cluster_close(&c);
}

TEST(what_a_group_cannot_lose_counts_as_such_from_when_it_says_so)
{
    struct cluster c;
    struct sched_queue_view view = {0};
    struct sched_group group = {.ns = STR("ns"),
                                .name = STR("g"),
                                .queue = STR("q"),
                                .min_member = 1,
                                .has_priority = true,
                                .priority = 50,
                                .preemptibility = SCHED_SEMI_PREEMPTIBLE};

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    cluster_node(&c, "a", 4);
    cluster_put(&c, &(struct job){
                        .name = "g", .pods = 2, .min = 1, .gpus = 1, .priority = 50, .node = "a"});
    cluster_decide(&c, 1000);
    EXPECT(sched_queue_view(c.sched, STR("q"), &view) &&
           view.allocated_non_preemptible[SCHED_GPU] < 0.001);
    sched_put_group(c.sched, &group);
    EXPECT(sched_queue_view(c.sched, STR("q"), &view) &&
           view.allocated_non_preemptible[SCHED_GPU] > 0.999);
    cluster_decide(&c, 1000);
    group.preemptibility = SCHED_PREEMPTIBLE;
    sched_put_group(c.sched, &group);
    EXPECT(sched_queue_view(c.sched, STR("q"), &view) &&
           view.allocated_non_preemptible[SCHED_GPU] < 0.001);
    cluster_decide(&c, 1000);
    cluster_close(&c);
}

/* ---- gpu-memory where devices differ ---- */
static void sized_node(struct cluster *c, const char *name, int64_t gpus, int64_t mib)
{
    sched_put_node(c->sched, &(struct sched_node){.name = str_from(name),
                                                  .cpu_milli = 64000,
                                                  .memory_bytes = INT64_C(1) << 38,
                                                  .gpus = gpus,
                                                  .gpu_memory_mib = mib,
                                                  .pods = 110});
}

static void memory_job(struct cluster *c, const char *name, int64_t mib)
{
    cluster_put(c, &(struct job){.name = name, .kind = SCHED_NON_PREEMPTIBLE});
    sched_put_pod(c->sched, &(struct sched_pod){.ns = STR("ns"),
                                                .name = str_printf(&c->arena, "%s-0", name),
                                                .uid = str_printf(&c->arena, "%s-0", name),
                                                .group = str_from(name),
                                                .gpu_memory_mib = mib,
                                                .gpu_devices = 1});
}

TEST(a_quota_that_holds_on_the_largest_device_lets_gpu_memory_start_there_and_nowhere_else)
{
    struct cluster c;

    cluster_open(&c, SCHED_QUIRKS_NONE);
    cluster_queue(&c, "q", 0.5, SCHED_UNLIMITED);
    sized_node(&c, "small", 1, 400);
    sized_node(&c, "large", 1, 2000);
    memory_job(&c, "fits", 350); /* 0.88 of the small one, 0.18 of the large one */
    cluster_decide(&c, 1000);
    EXPECT(cluster_bound(&c, "fits-0") && str_is(cluster_bind(&c, "fits-0")->node, "large"));
    sched_drop_node(c.sched, STR("large"));
    memory_job(&c, "next", 350);
    cluster_decide(&c, 1000);
    EXPECT(!cluster_bound(&c, "next-0"));
    EXPECT(cluster_waiting(&c, "next") &&
           cluster_waiting(&c, "next")->reason == SCHED_REASON_OVER_QUOTA);
    cluster_close(&c);
}
