#pragma once

#include "base/str.h"
#include "estimate/band.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct cache;
struct log;
struct object;
struct runtimes_like;
struct sched;
struct sched_plan;

/* scheduler_estimate: says of every group that waits when it will start (src/estimate).
 *
 * Never for a change, and never in the loop's thread: when something waits that has no estimate,
 * and else every ESTIMATOR_EVERY_MS, a worker gets references to the objects of that moment and
 * looks ahead for at most ESTIMATOR_BUDGET_MS. Then it rests: no sooner than ESTIMATOR_LEAST_MS
 * later, and ESTIMATOR_REST times as long as it took. So it has 2 % of a core at most, and a
 * cluster with more than ESTIMATOR_PODS pods, which are a second's work to read, is told that it
 * is too large.
 *
 * Run times come from groups that end while we look, from those whose pods are still there when we
 * begin, and from whoever calls estimator_teach(). */
#define ESTIMATOR_BUDGET_MS 500
#define ESTIMATOR_EVERY_MS  60000
#define ESTIMATOR_LEAST_MS  5000
#define ESTIMATOR_REST      50
#define ESTIMATOR_PODS      20000
#define ESTIMATOR_WRITES    200   /* at a time; the others next time */
#define ESTIMATOR_ENDED_MS  10000 /* that a group has to be without pods that run or wait */
#define ESTIMATOR_TAUGHT    10000 /* run times that wait to be taken over */

struct estimator;

struct estimator_options {
    uv_loop_t *loop;
    const struct cache *cache;
    const struct sched *core;
    uint64_t seed;
    bool learned; /* run times of the past are taught: do not look at pods that ended before */
    bool (*is_known)(void *user, const struct object *pod); /* to the core */
    /* Writes an estimate to a group that waits; false: it was not told yet that it does. */
    bool (*tell)(void *user, struct str ns, struct str group, const struct band *band);
    void (*again)(void *user); /* estimator_turn() has another answer */
    void *user;
    const struct log *log; /* may be NULL */
};

struct estimator *estimator_new(const struct estimator_options *options);
/* NULL is fine. What a worker does is not waited for. */
void estimator_free(struct estimator *estimator);

/* A job ran so long. */
void estimator_teach(struct estimator *estimator, const struct runtimes_like *like, int64_t run_ms);
/* A pod group came, changed or went; from the first estimator_turn() on. */
void estimator_observe(struct estimator *estimator,
                       const struct object *group,
                       bool gone,
                       int64_t now_ms);
/* Groups of a plan that wait and can be told when they start: those that have been made. */
size_t estimator_waiting(const struct sched_plan *plan);
/* So many of them wait. Returns when the next turn is due, INT64_MAX: never. */
int64_t estimator_turn(struct estimator *estimator, size_t waiting, int64_t now_ms);
