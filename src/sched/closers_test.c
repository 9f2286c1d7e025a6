#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define NODES 10
#define GPUS  4

struct filled {
    const char *why;
    bool fixed;   /* some are not preemptible */
    bool bare;    /* a node has a pod without a GPU, too */
    bool gang;    /* two of them are one gang */
    bool other;   /* somebody else's pod is on a node */
    bool restart; /* one goes, and another one comes in its place */
    bool waits;   /* one is about to end, and another one is promised its place */
};

static void run(struct cluster *cluster, const char *name, int node, const struct job *like)
{
    char where[8];
    struct job job = *like;

    (void)snprintf(where, sizeof(where), "n%d", node);
    job.name = name;
    job.node = where;
    job.queue = job.queue ? job.queue : "q";
    cluster_put(cluster, &job);
    cluster->now += 1000; /* who starts later goes first */
}

/* 40 pods of one GPU each on as many GPUs, in an order that leaves no two nodes together. */
static void fill(struct cluster *cluster, const struct filled *filled)
{
    static const int order[GPUS][NODES] = {{3, 1, 4, 5, 9, 2, 6, 8, 7, 0},
                                           {2, 7, 1, 8, 0, 4, 5, 9, 3, 6},
                                           {6, 0, 2, 1, 4, 7, 3, 5, 9, 8},
                                           {9, 8, 6, 7, 4, 3, 0, 5, 1, 2}};
    char name[16];

    for (int row = 0; row < GPUS; row++)
        for (int i = 0; i < NODES; i++) {
            bool fixed = filled->fixed && (i + row) % 5 == 0;

            (void)snprintf(name, sizeof(name), "r%d-%d", row, i);
            if (filled->gang && row == 2 && i == 4)
                run(cluster, name, order[row][i], &(struct job){.pods = 2, .min = 2, .gpus = 1});
            else if (filled->other && row == 1 && i == 1)
                run(cluster, name, order[row][i], &(struct job){.gpus = 1, .queue = "third"});
            else if (!filled->gang || row != 3 || order[row][i] != 4)
                run(cluster, name, order[row][i],
                    &(struct job){.gpus = 1,
                                  .kind = fixed ? SCHED_NON_PREEMPTIBLE : SCHED_PREEMPTIBLE});
        }
    if (filled->bare)
        run(cluster, "bare", 2, &(struct job){.kind = SCHED_PREEMPTIBLE});
    cluster_decide(cluster, 1000);
    if (filled->restart) {
        cluster_drop(cluster, "r0-5-0"); /* of n2: it was the last victim there */
        run(cluster, "later", 2, &(struct job){.gpus = 1, .kind = SCHED_PREEMPTIBLE});
        cluster_decide(cluster, 1000);
    }
    if (filled->waits) { /* on the first node that a gang gets */
        run(cluster, "r2-1", 0, &(struct job){.gpus = 1, .ending = true});
        cluster_put(cluster, &(struct job){.name = "waits", .queue = "q", .gpus = 1});
    }
}

static void evictions(struct cluster *cluster, struct str *ret)
{
    for (size_t i = 0; i < cluster->plan.evict_count; i++)
        *ret = str_printf(&cluster->arena, STR_FMT " " STR_FMT, STR_ARG(*ret),
                          STR_ARG(cluster->plan.evicts[i].pod.name));
}

/* Gangs that take whole nodes come, one after the other: who is evicted for them. */
static struct str evicted_for_gangs(struct cluster *cluster,
                                    const struct filled *filled,
                                    bool plain)
{
    struct sched_config config;
    struct str text = STR("");

    sched_config_default(&config);
    config.plain = plain;
    cluster_open_as(cluster, &config);
    cluster_queue(cluster, "q", 0, SCHED_UNLIMITED);
    cluster_queue(cluster, "third", 4, SCHED_UNLIMITED);
    cluster_queue(cluster, "own", 1000, SCHED_UNLIMITED);
    for (int i = 0; i < NODES; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "n%d", i);
        cluster_node(cluster, name, GPUS);
    }
    fill(cluster, filled);
    for (int i = 0; i < 2; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "big%d", i);
        cluster_put(cluster, &(struct job){.name = name, .queue = "own", .pods = 2, .gpus = GPUS});
        cluster_decide(cluster, 1000);
        evictions(cluster, &text);
    }
    return text;
}

TEST(whole_nodes_are_emptied_in_the_order_in_which_victims_would_leave_them)
{
    static const struct filled rows[] = {
        {.why = "all can go"},
        {.why = "some stay, and so their nodes are never empty", .fixed = true},
        {.why = "one without a GPU is in the way of no GPU", .bare = true},
        {.why = "two go together", .gang = true},
        {.why = "somebody else's does not go", .other = true},
        {.why = "the order changes between cycles", .restart = true},
        {.why = "one was only promised its place", .waits = true},
        {.why = "all at once", .fixed = true, .bare = true, .other = true, .restart = true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct cluster fast;
        struct cluster plain;

        test_case(rows[i].why);
        struct str ours = evicted_for_gangs(&fast, &rows[i], false);
        struct str theirs = evicted_for_gangs(&plain, &rows[i], true);
        EXPECT(ours.len > 0);
        EXPECT(str_eq(ours, theirs));
        cluster_close(&fast);
        cluster_close(&plain);
    }
}
