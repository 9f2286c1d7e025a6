#pragma once

#include "base/str.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct api;
struct arena;
struct cache;
struct json;
struct object;

/* scheduler_report: reports to waiting groups and pods why they wait, and clears it when they
 * do not any more.
 *
 * The reason is in the group's status (message and schedulingConditions, in KAI's form; the whole
 * record in explanation), in the condition PodScheduled of every pod that waits, also of one that
 * joins later, and as an event when it is a new one. A new reason is written at once; other words
 * for the same reason at most every REPORTER_AGAIN_MS a group, so that a long line does not rewrite
 * itself with every pod that starts. A write that fails is tried again, with all of its group, once
 * nothing of the group is under way, and after REPORTER_AGAIN_MS. A pod whose group has not
 * been made yet is given REPORTER_PATIENCE_MS before that is worth a word; a gang whose pods are
 * still arriving, a group whose turn has not come or which is held back, REPORTER_SHORT_MS since
 * the last pod, in all no more than REPORTER_ARRIVING_MS. At most REPORTER_UNDER_WAY_MAX writes are
 * under way: the loop has others to serve, and thousands may begin to wait at once. */
#define REPORTER_AGAIN_MS      1000
#define REPORTER_PATIENCE_MS   3000
#define REPORTER_SHORT_MS      500
#define REPORTER_ARRIVING_MS   10000
#define REPORTER_UNDER_WAY_MAX 512 /* some 30 ms of the loop's time */

struct reporter;

struct reporter_options {
    struct api *api;
    const struct cache *cache; /* pods and pod groups */
    const struct sched *core;  /* to ask for the whole record of what waits */
    const char *component;     /* source of events */
    uint64_t seed;
    /* Something has to be told again: hand in a plan no later than reporter_due_ms(). */
    void (*again)(void *user);
    void *user;
};

struct reporter *reporter_new(const struct reporter_options *options);
/* NULL is fine. */
void reporter_free(struct reporter *reporter);

/* Pods and groups come and go. */
void reporter_observe(struct reporter *reporter,
                      enum sched_change change,
                      const struct object *object);
/* When a group that waits will start: the member `estimate` of its explanation. False: there is no
 * such group, or it was not told that it waits. */
bool reporter_estimate(struct reporter *reporter,
                       struct str ns,
                       struct str group,
                       struct arena *arena,
                       struct json *estimate,
                       int64_t now_ms);
void reporter_apply(struct reporter *reporter, const struct sched_plan *plan, int64_t now_ms);
/* When something is due that was put off; INT64_MAX: nothing. */
int64_t reporter_due_ms(const struct reporter *reporter);
