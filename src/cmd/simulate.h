#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "tool/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct look_values;

/* simulate: the parts of `muster simulate`. Everything lives in one arena until the end. */
struct sim_pod {
    struct sched_pod spec;
    int64_t from;           /* cycle in which it is submitted; 0: before the first */
    int64_t lingers;        /* cycles it takes to end when evicted */
    int64_t ends;           /* cycle in which it does; 0: it is not ending */
    int64_t fails;          /* cycle in which it fails; 0: it does not */
    int64_t back;           /* cycle in which its owner makes it again after that; 0: never */
    unsigned evicted;       /* times */
    enum sched_phase began; /* as it went in */
    struct str began_node;
};

struct sim_eviction {
    int64_t cycle;
    struct str pod;
    const char *action;
    struct str message;
    bool moved;
};

struct sim_bind {
    int64_t cycle;
    struct str pod;
    struct str node;
};

struct sim_expectation {
    const char *file;
    const struct json *json;
};

/* What somebody thinks of changing in a cluster that runs. */
struct sim_change {
    struct option_list drains; /* nodes */
    struct option_list quotas; /* QUEUE=GPUS */
};

struct sim {
    struct arena *arena;
    bool live;    /* only what changes is of interest */
    bool loading; /* the cluster: what waits without a pod group is somebody else's to place */
    struct sched_config config;
    const struct json *settings; /* that the config was read from; policy.h */
    struct sched *sched;         /* made when the first object arrives: the config comes before */
    int64_t start_ms;
    int64_t cycle;
    VEC(struct sim_pod) pods;
    VEC(struct sim_bind) binds;
    VEC(struct sim_eviction) evictions;
    VEC(struct sched_waiting) waiting;
    VEC(struct sim_expectation) expectations;
};

/* simulate_live.c: everything of the cluster that decisions depend on, with the change made. */
int sim_load_live(struct sim *sim,
                  const struct look_values *values,
                  const struct sim_change *change,
                  struct err *err);
/* A List of manifests; `from` is what errors name. */
int sim_load_list(struct sim *sim, const char *from, struct json *list, struct err *err);
/* Reads a file of manifests and shorthand. Errors name file, object and field. */
int sim_load(struct sim *sim, const char *path, struct err *err);
/* Prints one line for each expectation that is not met; returns how many. */
size_t sim_expect(struct sim *sim);
const struct sched_waiting *sim_waiting(const struct sim *sim, const struct sim_pod *pod);
