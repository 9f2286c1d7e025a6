#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "estimate/runtimes.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* forecast: when everything that waits would start, if nothing new came.
 *
 * A copy of the cluster goes into a core of its own, which is then run into the future: groups end
 * when their run times say so, and the core decides who is next, as it will. Run times are drawn
 * from those of jobs alike (runtimes.h), no longer than a group's maxRunTime; a group of which
 * neither is known never ends. This is done for several draws. Every group draws the same numbers
 * each time it is asked about, so that an answer changes only when something happened.
 *
 * Ends that are near each other, as seen from now, count as one: FORECAST_GRAIN. So a draw takes
 * at most some hundred cycles however far it looks.
 *
 * Pure: the same state, run times and seed give the same answer, unless `go_on` cuts it short. */
#define FORECAST_DRAWS    20
#define FORECAST_GRAIN    64   /* moments within 1/64 of their distance are one */
#define FORECAST_CYCLES   3000 /* of one draw: 64 * ln(1 year / 1 s) is 1100, and wakes */
#define FORECAST_LEAST_MS 1000 /* moments within this are one, too */
#define FORECAST_NEVER    INT64_MAX

struct forecast_group {
    struct sched_group spec;
    struct sched_pod *pods;
    size_t pod_count;
    int64_t started_ms; /* 0: none of its pods has a node */
    struct runtimes_like like;
};

struct forecast_policy {
    struct str pool;
    struct sched_policy policy;
};

struct forecast_usage {
    struct str queue;
    double usage[SCHED_RESOURCES];
};

/* The cluster; all of it is borrowed. */
struct forecast_state {
    int64_t now_ms;
    struct sched_config config;
    VEC(struct forecast_policy) policies;
    VEC(struct forecast_usage) usages;
    VEC(struct sched_node) nodes;
    VEC(struct sched_queue) queues;
    VEC(struct sched_priority_class) classes;
    VEC(struct sched_namespace) namespaces;
    VEC(struct sched_topology) topologies;
    VEC(struct sched_pod) others; /* pods of no group: they stay */
    VEC(struct forecast_group) groups;
};

struct forecast_options {
    uint64_t seed;
    size_t draws;    /* 0: FORECAST_DRAWS */
    struct str only; /* ns/name of the one group that is asked about; empty: all that wait */
    bool (*go_on)(void *user); /* false: end with the draws that are complete; NULL: always true */
    void *user;
};

struct forecast {
    size_t draws; /* complete ones */
    /* By group: after how many ms it starts, shortest first, FORECAST_NEVER; NULL: it runs, or was
     * not asked about. */
    int64_t **after_ms;
    size_t similar; /* past runs that the draws were made from */
    size_t unknown; /* groups of which no run time is known */
};

void forecast_make(struct arena *arena,
                   const struct forecast_state *state,
                   const struct runtimes *runtimes,
                   const struct forecast_options *options,
                   struct forecast *ret);
