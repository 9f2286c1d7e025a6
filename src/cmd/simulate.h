#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;

/* simulate: the parts of `muster simulate`. Everything lives in one arena until the end. */
struct sim_pod {
    struct sched_pod spec;
    int64_t from;     /* cycle in which it is submitted; 0: before the first */
    int64_t lingers;  /* cycles it takes to end when evicted */
    int64_t ends;     /* cycle in which it does; 0: it is not ending */
    unsigned evicted; /* times */
};

struct sim_eviction {
    int64_t cycle;
    struct str pod;
    const char *action;
    struct str message;
    bool moved;
};

struct sim_expectation {
    const char *file;
    const struct json *json;
};

struct sim {
    struct arena *arena;
    struct sched_config config;
    const struct json *settings; /* that the config was read from; policy.h */
    struct sched *sched;         /* made when the first object arrives: the config comes before */
    int64_t start_ms;
    int64_t cycle;
    VEC(struct sim_pod) pods;
    VEC(struct sim_eviction) evictions;
    VEC(struct sched_waiting) waiting;
    VEC(struct sim_expectation) expectations;
};

/* Reads a file of manifests and shorthand. Errors name file, object and field. */
int sim_load(struct sim *sim, const char *path, struct err *err);
/* Prints one line for each expectation that is not met; returns how many. */
size_t sim_expect(struct sim *sim);
const struct sched_waiting *sim_waiting(const struct sim *sim, const struct sim_pod *pod);
