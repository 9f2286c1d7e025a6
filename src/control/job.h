#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct control_input;
struct control_key;
struct json;
struct kind;
struct object;

/* job: one engine for every kind of training job.
 *
 * A kind is a front end (struct job_kind): it translates its object to the model below, and the
 * engine's state back to its own status. The engine (job_reconcile) does the rest: claims, the
 * sync pod, the headless service, pods; generations; restarts, deadline, time to live, suspension,
 * clean-up, lost nodes; and a message that says what the job is waiting for.
 *
 * Rules the engine keeps:
 *  - A gang restarts together. One failed pod ends the generation: its pods are deleted, and when
 *    all are gone the next generation starts with a fresh rendezvous id. Failures count against
 *    max_restarts; evictions, lost nodes, suspension and deleted pods count against nothing.
 *  - The state is written before pods are touched, so a crash between the two repeats the second
 *    and never counts twice.
 *  - A finished job stays finished: whatever happens to its pods, it never runs again.
 *  - Names are deterministic: pod <job>-<role>-<index>, service <job>, sync pod <job>-sync-0. */

/* X(NAME, word): the phases of a job. The last three are final. */
#define JOB_PHASES(X)               \
    X(PENDING, "Pending")           \
    X(PROVISIONING, "Provisioning") \
    X(SYNCING, "Syncing")           \
    X(QUEUED, "Queued")             \
    X(RUNNING, "Running")           \
    X(RESTARTING, "Restarting")     \
    X(SUSPENDED, "Suspended")       \
    X(PREEMPTED, "Preempted")       \
    X(SUCCEEDED, "Succeeded")       \
    X(FAILED, "Failed")             \
    X(TIMED_OUT, "TimedOut")

enum job_phase {
#define JOB_PHASE_ENUM(name, word) JOB_##name,
    JOB_PHASES(JOB_PHASE_ENUM)
#undef JOB_PHASE_ENUM
};
const char *job_phase_word(enum job_phase phase);
/* JOB_PENDING for anything that is not a phase. */
enum job_phase job_phase_parse(struct str word);
static inline bool job_phase_is_final(enum job_phase phase)
{
    return phase >= JOB_SUCCEEDED;
}

#define JOB_PODS_MAX    4096 /* of one job */
#define JOB_CLAIMS_MAX  8
#define JOB_FAILURE_MAX 2048 /* bytes of the last lines kept in the status */

/* Labels that the engine puts on everything it makes, and reads back. */
#define JOB_LABEL_NAME       "torchrun-job-name"
#define JOB_LABEL_ROLE       "torchrun.ai/role"
#define JOB_LABEL_INDEX      "torchrun.ai/index"
#define JOB_LABEL_GENERATION "torchrun.ai/generation"
#define JOB_ROLE_SYNC        "sync"

/* Why something cannot go on, as a condition and in words. */
struct job_problem {
    const char *condition; /* type of the condition that is made true; NULL: no problem */
    const char *reason;
    struct str message;
};

struct job_claim {
    struct str name;
    struct json *spec; /* NULL: it exists already, somebody else's */
    bool keep;         /* survives the job: no owner reference */
    const char *what;  /* workspace, checkpoints, datasets: for messages */
};

struct job_pod {
    struct str name;
    size_t index;
    int64_t gpus;
    int64_t generation;
    size_t pods; /* of this generation, all in all */
};

struct job_model {
    const struct object *object;
    struct job_problem problem; /* of the input: nothing is made while there is one */
    /* The gang. Fixed gangs have min == count == max. */
    struct str role; /* "worker" */
    size_t count;    /* pods wanted */
    size_t min;
    size_t max;
    const int64_t *gpus;      /* of each pod, [max] */
    int64_t gpus_total;       /* of `count` pods */
    struct json *labels;      /* of every object of the job */
    struct json *annotations; /* of worker pods */
    struct json *pod_spec;    /* of a worker, but for what depends on its index */
    struct json *sync_spec;   /* of the sync pod; NULL: none */
    /* Writes what depends on the pod into `spec`, a fresh copy of pod_spec. */
    void (*fill)(const struct job_model *model,
                 const struct job_pod *pod,
                 struct json *spec,
                 struct arena *arena);
    const void *front; /* of the front end, for fill() and write() */
    VEC(struct job_claim) claims;
    /* The workspace: wait for an upload. */
    bool upload;
    struct str workspace_revision; /* empty: not uploaded yet */
    /* Policy. */
    bool suspend;
    bool restart; /* false: the first failure is final */
    int64_t max_restarts;
    int64_t deadline_ms; /* of running; 0: none */
    int64_t ttl_ms;      /* after the end; -1: for ever */
    enum {
        JOB_CLEAN_RUNNING,
        JOB_CLEAN_NONE,
        JOB_CLEAN_ALL
    } clean;
    struct str warning; /* something that was left out, in words; empty: nothing */
};

struct job_failure {
    struct str pod;
    int64_t exit_code;
    struct str reason;  /* Error, OOMKilled, NodeLost, ... */
    struct str message; /* last lines */
    int64_t time_ms;    /* 0: no failure */
};

struct job_workers {
    int64_t pending;
    int64_t running;
    int64_t ready;
    int64_t succeeded;
    int64_t failed;
};

/* What the engine remembers between reconciles, in the object's status. */
struct job_state {
    enum job_phase phase;
    struct str message;
    int64_t generation;
    int64_t restarts;    /* counted against max_restarts */
    int64_t disruptions; /* not counted */
    int64_t start_ms;    /* first time it ran */
    int64_t completion_ms;
    int64_t run_start_ms; /* of the current generation; 0: it has not run yet */
    int64_t run_ms;       /* spent running before that */
    int64_t exit_code;    /* -1: not known */
    struct job_failure failure;
    struct job_workers workers;
    bool provisioned; /* claims and sync pod are there */
    bool workspace_ready;
    bool created; /* pods were made */
    struct job_problem problem;
};

/* A front end. */
struct job_kind {
    const struct kind *kind;
    void (*translate)(const struct control_input *input,
                      const struct object *object,
                      struct arena *arena,
                      struct job_model *ret);
    void (*read)(const struct json *status, struct job_state *ret);
    /* The whole status as it should be; `status` starts as a copy of what is there. */
    void (*write)(const struct job_model *model,
                  const struct job_state *state,
                  struct json *status,
                  int64_t now_ms,
                  struct arena *arena);
};

void job_reconcile(const struct control_input *input,
                   const struct job_kind *kind,
                   const struct control_key *key,
                   struct actions *actions);

/* ---- parts of the engine, each with tests of its own ---- */

/* A pod of the job as observed. */
struct job_member {
    const struct object *object;
    size_t index;
    int64_t generation;
    enum {
        JOB_POD_PENDING,
        JOB_POD_RUNNING,
        JOB_POD_SUCCEEDED,
        JOB_POD_FAILED
    } phase;
    bool ready;
    bool leaving;               /* being deleted */
    bool taken;                 /* FAILED, but by an eviction or its node: no failure of its own */
    bool lost;                  /* its node is gone or silent */
    bool scheduled;             /* has a node */
    int64_t lost_at_ms;         /* moment it will count as lost; 0: its node is fine */
    struct job_failure failure; /* FAILED */
    struct str waiting;         /* why it does not run, in words; empty: unknown */
};
struct job_members VEC_FIELDS(struct job_member);

/* All worker pods that the job owns, whatever their generation. */
void job_observe(const struct control_input *input,
                 const struct job_model *model,
                 struct arena *arena,
                 struct job_members *ret);
/* Objects, ready to be created. */
struct json *job_make_pod(const struct job_model *model,
                          const struct job_pod *pod,
                          struct arena *arena);
struct json *job_make_sync_pod(const struct job_model *model, struct arena *arena);
struct json *job_make_service(const struct job_model *model, struct arena *arena);
struct json *job_make_claim(const struct job_model *model,
                            const struct job_claim *claim,
                            struct arena *arena);
struct str job_pod_name(const struct job_model *model, size_t index, struct arena *arena);
struct str job_sync_name(const struct job_model *model, struct arena *arena);
