#pragma once

#include "base/vec.h"
#include "estimate/band.h"
#include "replay/result.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct forecast_state;
struct runtimes;

/* estimates: how often a job of a trace started when it was said that it would.
 *
 * Of the jobs that are chosen, those that wait a minute after they came are asked about then, once:
 * by what was known at that moment, as a cluster that runs would say (estimate/band.h). What came
 * of each is learned from when it is known: when the job starts, or has not by the end of its
 * band. */
#define ESTIMATES_AFTER_MS 60000
#define ESTIMATES_DRAWS    8 /* so many jobs wait in a trace that 20 would take hours */

struct estimates_asked {
    uint32_t job;
    struct band band;
    struct band raw; /* as drawn, with nothing learned */
    bool learned;
    bool started;
};

struct estimates {
    size_t step; /* every so manyth job is asked about; 0: none */
    struct band_memory memory;
    VEC(struct estimates_asked) asked;
    VEC(uint32_t) due; /* jobs to ask about, in the order in which they came */
    size_t due_next;
    const volatile sig_atomic_t *stop;
    struct replay_estimates *result;
};

/* A job came; it may be one to ask about. */
void estimates_arrive(struct estimates *estimates, struct arena *arena, uint32_t job);
/* The state has everything that waits or runs; `name` is the group asked about. */
void estimates_ask(struct estimates *estimates,
                   struct arena *arena,
                   uint32_t job,
                   const struct forecast_state *state,
                   const struct runtimes *runtimes,
                   struct str name);
void estimates_started(struct estimates *estimates, uint32_t job, int64_t now_ms);
/* The figures, at the end. */
void estimates_close(struct estimates *estimates, struct arena *arena);
