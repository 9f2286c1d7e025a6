#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "control/core/control.h"
#include "exec/executor.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct arena;
struct buf;
struct err;
struct json;
struct log;
struct object;

/* runner: runs every controller of src/control on one struct api.
 *
 * It watches what the controllers watch, feeds one cache, and collects the keys that changes touch.
 * Once everything that existed at the start is known, each turn of the loop takes one moment and
 * reconciles the dirty keys; the actions go through exec/executor.h. A key is looked at again only
 * when its last actions have come back and the cache has seen what they wrote. Failures back off
 * per key from RUNNER_BACKOFF_MIN_MS to RUNNER_BACKOFF_MAX_MS; a conflict is looked at again as
 * soon as the cache moves. "Look again at T" is a timer. */
#define RUNNER_BACKOFF_MIN_MS 50
#define RUNNER_BACKOFF_MAX_MS 30000
#define RUNNER_BUSY_MAX_MS \
    2000 /* after a 429: the server says when, and the client keeps to that */
#define RUNNER_UNDER_WAY_MAX  512  /* keys whose actions are under way; the rest waits its turn */
#define RUNNER_TURN_KEYS_MAX  1024 /* reconciles of one turn, so that others get the loop */
#define RUNNER_TURN_MS        20   /* of them as well, where the clock goes on meanwhile */
#define RUNNER_OWN_WRITE_MS   5000 /* longest wait for the cache to see a write of ours */
#define RUNNER_LEARN_AGAIN_MS 5000 /* a kind that the server does not have is asked for again */
#define RUNNER_SETTLE_STEP_MS 50   /* what waits to settle is looked at in such steps */
#define RUNNER_LOOK_AGAIN_MAX ((int64_t)24 * 3600 * 1000) /* a timer further away is set again */

struct runner;

struct runner_options {
    struct control_config config; /* empty fields get their defaults; strings must outlive it */
    const struct log *log;        /* may be NULL */
    const char *const *without;   /* names of controllers that stay off; NULL-terminated, or NULL */
    bool embedded;                /* also run what a cluster's controller-manager would */
    uint64_t seed;                /* of hash tables */
    /* The clock; NULL: the wall clock. The simulator hands in its own. */
    int64_t (*now)(void *user);
    void *now_user;
    const struct executor_post *post; /* outlives it; NULL: nothing leaves */
    executor_draw_fn *draw; /* of secrets; NULL: the real thing. The simulator has its own. */
};

/* "-pytorchjob,-tfjob": all but these; "torchrunjob,group": these only, unless "*" is among them.
 * Adds the names of those that stay off, for runner_options.without. -EINVAL: an unknown name. */
struct runner_names VEC_FIELDS(const char *);
int runner_choose(struct arena *arena,
                  struct str list,
                  struct runner_names *ret_without,
                  struct err *err);

/* `loop` NULL: no timers; the caller turns the runner by hand (the simulator does). */
int runner_start(uv_loop_t *loop,
                 struct api *api,
                 const struct runner_options *options,
                 struct runner **ret,
                 struct err *err);
/* One turn. Returns the moment at which the next one is due without any event: INT64_MAX for
 * never, the past for "there is more to do now". */
int64_t runner_turn(struct runner *runner);
/* Nothing is reconciled while it is held: what it would decide by is not whole. */
void runner_hold(struct runner *runner, bool held);
/* Other names from now on, for what is made from now on; empty: those it was started with. Copied.
 */
void runner_rename(struct runner *runner, struct str scheduler_name, struct str queue_label_key);
/* Where trainings tell their progress from now on, and by whose certificates they know it
 * (control_config.trainer_url); what trainings of before were told of these follows. Copied. */
void runner_set_trainer(struct runner *runner, struct str url, struct str ca);
/* What the controllers know of a pod that is about to be created: its group
 * (control/grouping/group.h). In the shape store_set_admit_pod() wants; `runner` is a struct
 * runner. */
void runner_admit_pod(void *runner, struct json *pod, struct arena *arena);
/* Writes the group of a pod alone in the commit that has the pod: who waits for the pod to start
 * waits for one commit less. In the shape store_set_made_pod() wants. */
void runner_made_pod(void *runner, const struct object *pod);
/* What became of jobs so far, as Prometheus text (exec/job_counts.h). */
void runner_write_metrics(const struct runner *runner, struct buf *buf);
/* Stops watching and frees it; calls under way are not waited for. NULL is fine. */
void runner_stop(struct runner *runner);
