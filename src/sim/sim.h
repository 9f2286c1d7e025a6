#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* sim: the whole control plane on virtual time, from one seed.
 *
 * The store's in-memory twin, every controller (exec/runner.h), the scheduler (exec/scheduler.h)
 * and a few machines in one process and one thread. People come and go with their work; links are
 * slow, refuse and break; the control plane dies and starts again with nothing but the store;
 * machines lose power. After every step, check.h looks whether everything that must hold does. At
 * the end all is repaired, the work must come to its end or say what it waits for, and when people
 * have deleted it nothing may be left.
 *
 * The same options give the same run, step for step.
 *
 * What comes from outside (people, crashes, power, links) is drawn from numbers of its own, so a run
 * without some of it is still much like the run with all of it: shrink.h leaves out what a failure
 * does not need. */

/* Each class is counted from 1, in the order in which its events come up. */
#define SIM_EVENTS(X)       \
    X(PEOPLE, "people")     \
    X(CRASH, "crash")       \
    X(POWER, "power")       \
    X(REFUSE, "refusal")    \
    X(LOSE, "loss")         \
    X(BREAK, "break")       \
    X(PRESSURE, "pressure") \
    X(FULL, "full")         \
    X(OPERATOR, "operator")

enum sim_event_class {
#define SIM_EVENT_NAME(name, word) SIM_EVENT_##name,
    SIM_EVENTS(SIM_EVENT_NAME)
#undef SIM_EVENT_NAME
    SIM_EVENT_CLASSES,
};

struct sim_event {
    enum sim_event_class class;
    uint64_t number;
};

enum sim_story {
    SIM_RANDOM, /* a random cluster and random work */
    /* One gang, two halves of a GPU and an eviction, and nothing else: short enough to be crashed
     * at each of its writes. */
    SIM_GANG,
};

enum sim_crash {
    SIM_CRASH_NEVER,
    SIM_CRASH_BEFORE,
    SIM_CRASH_AFTER,
};

struct sim_options {
    uint64_t seed;
    uint64_t steps; /* with faults, before all is repaired; 0: SIM_STEPS */
    enum sim_story story;
    /* The control plane dies once, at this write of its own. */
    uint64_t crash_at;
    enum sim_crash crash_when;
    bool one_by_one; /* gangs are bound pod by pod and shared GPUs reserved, as on a cluster */
    bool
        suspend; /* work that gives way is suspended, and people suspend jobs; not with operators */
    /* Users share a queue, jobs restart in place and have spare pods, machines evict, the disk fills up. */
    bool wide;
    /* Two operators of different versions compete for the lease, as in an upgrade; only one_by_one. */
    bool operators;
    /* Of what comes from outside, only these, in no order; NULL: all. */
    const struct sim_event *only;
    size_t only_count;
    uint64_t order; /* another order of everything else, with the same events from outside */
    /* Every step in words; may be NULL, as may the others. */
    void (*trace)(void *user, const char *line);
    /* What a person wants to know of it, as sentences. */
    void (*tell)(void *user, const char *sentence);
    void (*happened)(void *user, struct sim_event event);
    void *user;
};

#define SIM_STEPS      3000
#define SIM_TEXT_BYTES 800
/* Steps that a run may take in all; one that needs more does not come to rest. */
#define SIM_STEPS_MAX 400000

struct sim_result {
    bool failed;
    char text[SIM_TEXT_BYTES]; /* what did not hold */
    uint64_t steps;
    uint64_t writes;  /* of the control plane */
    uint64_t crashes; /* of it */
    uint64_t hash;    /* of everything that happened */
    int64_t virtual_ms;
    size_t pods;      /* that ran */
    size_t suspended; /* that gave up their GPUs and stayed, each time */
};

void sim_run(const struct sim_options *options, struct sim_result *ret);
