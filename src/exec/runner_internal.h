#pragma once

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "exec/executor.h"
#include "exec/job_counts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* What the files of the runner share. */

/* By name, because a key that is idle is forgotten. */
struct wanting {
    struct unit *unit;
    struct str ns; /* heap */
    struct str name;
};

struct watch {
    struct runner *runner;
    const struct kind *kind;
    struct api_watch *watch;
    VEC(struct wanting) wanting; /* keys to look at once the kind is known */
    uint64_t seen;               /* everything up to this revision was told */
    bool synced;
};

/* A controller in use. */
struct unit {
    struct runner *runner;
    const struct controller *controller;
    VEC(const struct kind *) more; /* kinds it asked for on the way */
    struct map works;              /* work->text -> work */
};

struct await {
    const struct watch *watch;
    uint64_t revision;
};

struct work {
    struct unit *unit;
    struct execution *execution; /* under way; NULL: idle */
    struct arena arena;          /* of the actions under way */
    struct actions actions;
    VEC(struct await) awaits; /* own writes the cache has not seen yet */
    int64_t await_until_ms;   /* and how long we wait for them */
    int64_t due_ms;           /* look again, or end of back-off; 0: none */
    int64_t not_before_ms;    /* back-off: dirty or not, not before this */
    uint32_t failures;
    struct str refusal; /* for control_input.refusal; on the heap */
    struct str told;    /* the refusal that an event tells of; on the heap */
    bool dirty;
    bool queued;  /* in the dirty queue */
    bool lingers; /* nothing to do, but its own writes have not been seen */
    size_t ns_len;
    size_t text_len;
    char text[]; /* "namespace/name" */
};

struct runner {
    uv_loop_t *loop;
    struct timer *timer;
    struct api *api;
    bool held;
    struct control_config config;
    struct control_config started_config; /* what it was to begin with */
    struct arena names;
    struct arena trainer; /* strings of runner_set_trainer() */
    struct cache *cache;
    const struct log *log;
    int64_t (*now)(void *user);
    executor_draw_fn *draw;
    const struct executor_post *post;
    void *now_user;
    const char *const *without;
    VEC(struct watch *) watches;
    VEC(struct unit *) units;
    VEC(struct work *) queue;
    VEC(struct work *) lingering;
    VEC(const struct kind *) foreign; /* whose CRD is known to be somebody else's */
    struct job_counts job_counts;
    struct learner *learner;
    size_t watches_synced;
    size_t under_way;
    int64_t next_due_ms; /* no work is due before this */
    bool started;        /* everything known: reconciling */
    bool groups;         /* the pod grouper is one of the controllers */
};

int64_t runner_clock(const struct runner *runner);
/* What a list of actions that has ended says of refusals: for the next look, and in an event. */
void runner_hear_refusal(struct work *work, const struct executor_result *result);
/* NULL: nobody has asked for that kind. */
struct watch *runner_watch(const struct runner *runner, const struct kind *kind);
