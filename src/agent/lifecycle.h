#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* lifecycle: what to do next with a pod's containers, as a pure function of what has happened.
 *
 * The shell (agent/pod_run.c) records what it learns in a struct run (a container started, ended, a
 * probe or hook came back, the pod is to stop) and calls lifecycle_step(), which answers with what
 * to start and what to signal, and when to look again. The rules are the kubelet's: init containers
 * in turn, sidecars (init containers that always restart) beside everything after them, restarts by
 * policy with a back-off, preStop then SIGTERM then SIGKILL when the grace is over, sidecars last.
 * Ephemeral containers are started as they come, once, and stopped with the rest.
 */
#define RUN_BACKOFF_MIN_MS   10000 /* before the second restart; doubles */
#define RUN_BACKOFF_MAX_MS   300000
#define RUN_BACKOFF_RESET_MS (2 * RUN_BACKOFF_MAX_MS) /* ran that long: forgiven */

/* A pod that restarts in place (api/place.h). The job engine waits for at most 35 s to hear of all
 * failures of a gang before it decides; whoever is told nothing for longer than this has failed. */
#define RUN_HOLD_MS        120000
#define RUN_ROUND_GRACE_MS 1000 /* what hangs does not use the time it is given */

enum run_policy {
    RUN_ALWAYS,
    RUN_ON_FAILURE,
    RUN_NEVER,
};

enum run_state {
    RUN_WAITING,  /* to be started when its time comes */
    RUN_STARTING, /* the shim was told */
    RUN_RUNNING,
    RUN_ENDED,
};

enum run_hook {
    HOOK_NONE, /* the container has none, or it has not been asked for */
    HOOK_UNDER_WAY,
    HOOK_DONE,
};

struct run_end {
    bool set;
    int code;
    int signal; /* 0: it exited */
    bool oom;
    bool never_started;
    bool lost; /* nobody saw it end */
    int64_t started_ms;
    int64_t ended_ms;
    struct str message; /* termination message, or why it never started */
};

struct run_container {
    struct str name;
    bool init;
    bool sidecar;
    bool ephemeral; /* added for debugging: started once, and the pod's fate is not its own */
    bool has_pre_stop;
    bool has_post_start;
    bool has_startup_probe;
    bool has_readiness_probe;

    enum run_state state;
    unsigned instance; /* the current one; while waiting, the one to start next */
    int pid;           /* the shell's: of its first process, as its shim told */
    bool seen;         /* the shell's: its shim has told of it since it was asked */
    int64_t started_ms;
    struct run_end end;      /* how the current instance ended (RUN_ENDED) */
    struct run_end previous; /* how the one before it did */
    int64_t start_after_ms;  /* waiting for the back-off */
    int64_t backoff_ms;

    bool startup_passed; /* or no startup probe */
    bool probed_ready;
    enum run_hook post_start;
    enum run_hook pre_stop;
    int64_t stop_ms; /* when this instance was first asked to stop (liveness); 0: not */
    int64_t stop_grace_ms;
    bool term_sent;
    bool kill_sent;
};

struct run {
    enum run_policy policy;
    struct run_container *containers; /* init containers, the main ones, ephemeral ones */
    size_t count;
    int64_t stop_ms; /* the whole pod is to stop since then; 0: not */
    int64_t grace_ms;
    bool failed; /* stopped for a fault of its own (deadline, eviction): ends as Failed */
    /* In place: main containers that end stay to be started again, as instance `round`. */
    bool stays;
    bool go;
    bool let_go; /* nobody has asked for it for RUN_HOLD_MS */
    unsigned round;
};

/* The pod's shim, which may be gone before it has started anything: then no container counts a
 * restart, and nothing but this makes the next one wait. */
struct run_shim {
    int64_t started_ms;
    int64_t after_ms; /* it is gone, and the next one starts then; 0: it is there */
    int64_t backoff_ms;
};
void lifecycle_shim_started(struct run_shim *shim, int64_t now_ms);
/* It is gone: when the next one may start. The first is free, as with containers. May be told again
 * and again. */
int64_t lifecycle_shim_gone(struct run_shim *shim, int64_t now_ms);

enum run_verb {
    RUN_START,
    RUN_SIGNAL,
    RUN_POST_START,
    RUN_PRE_STOP,
};

struct run_action {
    enum run_verb verb;
    size_t container;
    int signal;
};

#define RUN_ACTIONS_MAX 256 /* two for each of the 64 containers, twice over */

struct run_plan {
    struct run_action actions[RUN_ACTIONS_MAX];
    size_t count;
    int64_t wake_ms; /* look again then; INT64_MAX: when something happens */
};

/* Marks what it orders as under way (RUN_STARTING, term_sent, ...), so it orders nothing twice. */
void lifecycle_step(struct run *run, int64_t now_ms, struct run_plan *plan);

/* All containers have ended for good: nothing runs and nothing will be started. */
bool lifecycle_is_over(const struct run *run);
/* Nothing runs right now. */
bool lifecycle_is_quiet(const struct run *run);
/* All init containers have succeeded and all sidecars have started once. */
bool lifecycle_is_initialized(const struct run *run);
bool lifecycle_is_ready(const struct run_container *container);
/* "Pending", "Running", "Succeeded" or "Failed". */
const char *lifecycle_phase(const struct run *run);
/* How often it was started again, as the kubelet counts: what waits to be is not yet. In place it is
 * the round, which the job engine asks for. */
unsigned lifecycle_restarts(const struct run *run, const struct run_container *c);
