#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;

/* account: what the time of a job was spent on. Pure: events and `now` in, sums out.
 *
 * From its creation to its end a job is in exactly one state, so the sums of a span of time are
 * that time, and in GPU milliseconds that time times the GPUs it wanted or held, spare ones included:
 * nothing is counted twice or lost. X(NAME, word, what it is). */
#define ACCOUNT_STATE_LIST(X)                                                        \
    X(QUEUED, "queued", "waits for GPUs, or for its folder")                         \
    X(STARTING, "starting", "has GPUs, and made no step; restarts are this as well") \
    X(TRAINING, "training", "its ranks make steps")                                  \
    X(SAVING, "saving", "writes a checkpoint, and waits for it")                     \
    X(HUNG, "hung", "its ranks run and make no progress")                            \
    X(RECOMPUTING, "recomputing", "repeats steps that were lost with a restart")     \
    X(IDLE, "idle", "suspended by somebody; GPUs of its spare pods")

enum account_state {
#define ACCOUNT_STATE_ENUM(name, word, help) ACCOUNT_##name,
    ACCOUNT_STATE_LIST(ACCOUNT_STATE_ENUM)
#undef ACCOUNT_STATE_ENUM
    ACCOUNT_STATES,
};

extern const char *const account_words[ACCOUNT_STATES];

/* From `at_ms` on it is in this state, with so many GPUs. Those of its spare pods are IDLE meanwhile,
 * which is GPU time and no time of the job. */
struct account_event {
    int64_t at_ms;
    int64_t gpus;
    enum account_state state;
    int64_t spare_gpus;
};

/* As the CRD allows; others have no limit, and what is said beyond it counts as this. */
#define ACCOUNT_GPUS_MAX 1000000
int64_t account_gpus(int64_t gpus); /* as it counts */

/* Further events take the place of the shortest stay: its time goes to the state before it. */
#define ACCOUNT_EVENTS_MAX 64

struct account {
    struct account_event events[ACCOUNT_EVENTS_MAX]; /* the first at its creation */
    int64_t saving_ms[ACCOUNT_EVENTS_MAX]; /* so much of that stay was SAVING, evenly spread */
    size_t count;
    int64_t end_ms; /* 0: it is not over */
};

struct account_sums {
    int64_t wall_ms[ACCOUNT_STATES];
    int64_t gpu_ms[ACCOUNT_STATES];
    int64_t
        held_ms; /* GPUs that nobody else could have: not those it waits for, but its spare ones */
};

/* What a job's status says of it. */
struct account_seen {
    struct str phase;
    bool bound;             /* some pod of it has a node */
    bool hung;              /* its condition Hung is true */
    int64_t failed_hung_ms; /* its last failure was a hang, noticed then; 0: it was none */
    int64_t spare_gpus;     /* of pods that wait to take the place of another */
};
enum account_state account_state_of(const struct account_seen *seen);
/* Says that it is so from then on. Times never go back: an earlier one is that of the last event.
 * False: that was known. */
bool account_note(struct account *account, struct account_event event);
/* Adds what was spent between the two moments. */
void account_add(const struct account *account,
                 int64_t from_ms,
                 int64_t to_ms,
                 struct account_sums *sums);
/* What a job's status alone tells, where nobody has watched: when it first ran, how long its runs that are over took
 * together, and when the one that goes on began. Every moment that it did not run after that it waited. */
struct account_told {
    int64_t created_ms;
    int64_t start_ms;     /* 0: it never ran */
    int64_t run_ms;       /* -1: not told; it ran from its start to its end */
    int64_t run_start_ms; /* 0: none goes on, or nobody says */
    int64_t end_ms;       /* 0: it is not over */
    int64_t gpus;
    enum account_state state; /* what it does now, while it is not over */
};
/* False: it has no beginning. */
bool account_from(const struct account_told *told, struct account *ret);
/* Of the sums: waiting, and holding GPUs. The rest is nobody's. */
int64_t account_waited(const int64_t ms[ACCOUNT_STATES]);
int64_t account_ran(const int64_t ms[ACCOUNT_STATES]);
/* Sums of all states. */
int64_t account_total(const int64_t ms[ACCOUNT_STATES]);
/* Effective training time ratio in tenths of a percent: training of all time since the submission.
 * By GPUs, where there are any. -1: no time has passed. */
int64_t account_ettr(const struct account_sums *sums);

/* {"events": [[at, "queued", gpus], [at, "training", gpus, saving, spare gpus], ...], "end": at} */
struct json *account_json(struct arena *arena, const struct account *account);
/* What makes no sense is left out. False: it has no event. */
bool account_read(const struct json *json, struct account *ret);
