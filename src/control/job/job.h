#pragma once

#include "api/place.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct control_input;
struct control_key;
struct control_keys;
struct json;
struct kind;
struct job_state;
struct object;

/* job: one engine for every kind of training job.
 *
 * A kind is a front end (struct job_kind): it translates its object to the model below, and the
 * engine's state back to its own status. The engine (job_reconcile) does the rest: claims, the
 * sync pod, services, further objects, pods; generations; restarts, back-off, deadline, time to
 * live, suspension, clean-up, lost nodes; and a message that says what the job is waiting for.
 * A new kind is one file here (translate(), write(), JOB_CONTROLLER), a row in api/training.c, a kind in
 * api/kind.h, a line in controllers.c and a CRD; training_test.c says what is missing.
 *
 * Rules the engine keeps:
 *  - JOB_SCOPE_GANG: a gang restarts together, all roles of it. One failed pod ends the generation:
 *    its pods are deleted, and when all are gone the next generation starts with a fresh rendezvous
 *    id. A change of a role's size is such a new generation too. Elastic roles (min < max) lose and
 *    gain pods without one, as long as the minimum runs.
 *  - JOB_SCOPE_POD: a failed pod is replaced alone, whatever the others do.
 *  - Failures count against max_restarts; evictions, lost nodes, suspension, resizing and deleted
 *    pods count against nothing.
 *  - The state is written before pods are touched, so a crash between the two repeats the second
 *    and never counts twice. It is written to the status and to an annotation
 * (control/core/memory.h): a schema of somebody else's may drop parts of a status.
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
#define JOB_ROLES_MAX   16
#define JOB_FAILURE_MAX 2048 /* bytes of the last lines kept in the status */

/* Labels that the engine puts on everything it makes, and reads back. */
#define JOB_LABEL_NAME       "torchrun-job-name"
#define JOB_LABEL_ROLE       "torchrun.ai/role"
#define JOB_LABEL_INDEX      "torchrun.ai/index"
#define JOB_LABEL_GENERATION "torchrun.ai/generation"
#define JOB_ROLE_SYNC        "sync"
#define JOB_ROLE_SPARE       "spare" /* until it takes the place of a pod that was lost */
/* Annotation of a pod: of how many it is one, so that a job that was resized is noticed. */
#define JOB_ANNOTATION_SIZE "torchrun.ai/size"
/* Labels of the scheduling queue of a TorchrunQueue: whose it is. */
#define JOB_QUEUE_LABEL_NAME  "torchrun.ai/jobqueue"
#define JOB_QUEUE_LABEL_SPACE "torchrun.ai/jobqueue-namespace"
/* What the TorchrunQueue that a job of another kind is in has in this field of spec.reliability; empty:
 * it is in none, or that says nothing. */
struct str job_queue_says(const struct control_input *input,
                          const struct object *job,
                          const char *field,
                          struct arena *arena);
/* Annotation of a job of any kind: InPlace or Pods. */
#define JOB_ANNOTATION_RESTART_MODE "muster.dev/restart-mode"
/* Annotation of a job of any kind whose pods are its own: Replace or Wait. */
#define JOB_ANNOTATION_NODE_LOST "muster.dev/on-node-lost"
/* Of a job: "c10d", where its image has no python-etcd to meet as its spec says. */
#define JOB_ANNOTATION_MEETS "muster.dev/rendezvous"
/* Annotations of a job of any kind: Restart, Report or Ignore. */
#define JOB_ANNOTATION_HANG      "muster.dev/on-hang"
#define JOB_ANNOTATION_SUSPICION "muster.dev/on-suspicion"
/* The reason of a failure that is a hang, and of one that is only suspected to be. */
#define JOB_REASON_HUNG      "Hung"
#define JOB_REASON_SUSPECTED "Suspected"
/* The same for a pod whose place a spare has taken. It counts against nothing. */
#define JOB_REASON_GONE "PodLost"

/* status.reason of a pod that broke a rule of its node (agent/pod_run.c): another pod would as well. */
#define JOB_REASON_REFUSED "NotPermitted"

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
    struct str queue;  /* shared by the jobs of this TorchrunQueue; empty: the job's alone */
    const char *what;  /* workspace, checkpoints, datasets: for messages */
};

/* Something else that belongs to the job: made when missing, and brought up to date where it says
 * something else (members that `body` does not name are left alone). */
struct job_extra {
    const struct kind *kind;
    struct str name;
    struct json *body; /* but for namespace, labels and owner, which the engine adds */
    bool while_active; /* goes when the job is suspended or over */
};

/* What the end of a pod means. */
enum job_restart {
    JOB_RESTART_ALWAYS,  /* whatever its exit status: again */
    JOB_RESTART_NEVER,   /* a failure is final */
    JOB_RESTART_BY_EXIT, /* what model->is_retryable says */
};

/* Which pods of a role must be done for the job to be. */
enum job_done {
    JOB_DONE_ALL,
    JOB_DONE_ANY,   /* one torchrun that is done means that all are */
    JOB_DONE_FIRST, /* index 0 */
    JOB_DONE_NONE,  /* they do not matter; at least one role must */
};

/* Pods that are alike. Fixed ones have min == count == max. */
struct job_role {
    struct str name;  /* in names and labels: "worker" */
    const char *type; /* as the kind spells it, "Worker"; the engine does not look at it */
    size_t count;     /* pods wanted */
    size_t min;
    size_t max;
    const int64_t *gpus;      /* of each pod, [max]; NULL: none, or not the engine's business */
    struct json *labels;      /* on top of the job's; may be NULL */
    struct json *annotations; /* may be NULL */
    struct json *pod_spec;    /* but for what depends on the index */
    struct json *ports;       /* a headless Service for each pod with these ports; NULL: none */
    struct str main;          /* the container whose end counts; empty: the first to fail */
    enum job_restart restart;
    enum job_done done;
    bool leads; /* the job runs when a pod of such a role does; without any: when every min does */
    bool later; /* made when the pods of all other roles are ready */
    bool last;  /* reaches into the pods of the others: in place it goes when these run */
    bool bare;  /* one pod, named without an index */
};

struct job_pod {
    const struct job_role *role;
    struct str name;
    size_t index; /* in its role */
    int64_t gpus;
    int64_t generation;
    int64_t round; /* of the restarts in place so far: it begins there */
    size_t pods;   /* of this generation, all roles together */
    bool spare;    /* index and role are told by its labels, which change */
};

struct job_model {
    const struct object *object;
    bool ignore;                /* it is somebody else's: nothing is done, nothing is written */
    struct job_problem problem; /* of the input: nothing is made while there is one */
    VEC(struct job_role) roles; /* in the order in which pods are made; JOB_ROLES_MAX */
    struct json *labels;        /* of every object of the job */
    struct json *sync_spec;     /* of the sync pod; NULL: none */
    struct str sync_secret;     /* name of the Secret that it and its workers share; empty: none */
    bool keeps_results;         /* its sync pod stays a while after the end (control_config) */
    bool headless;              /* a headless Service <job> over all pods */
    /* Writes what depends on the pod into `body`, a whole pod made of the role's pod_spec; may be
     * NULL. */
    void (*fill)(const struct job_model *model,
                 const struct job_pod *pod,
                 struct json *body,
                 struct arena *arena);
    const void *front; /* of the front end, for fill() and write() */
    /* Instead of pods: makes what the job consists of, and says how it is. While the job is
     * suspended too, and then it says nothing. NULL: pods. */
    void (*parts)(const struct job_model *model,
                  const struct control_input *input,
                  struct job_state *state,
                  struct actions *actions);
    void *own; /* of the front end, for parts() */
    VEC(struct job_claim) claims;
    VEC(struct job_extra) extras;
    /* The workspace: wait for an upload. */
    bool upload;
    struct str workspace_revision; /* empty: not uploaded yet */
    /* Policy. */
    bool suspend;
    bool keep; /* while suspended: pods stay with their memory and give up their GPUs */
    const char *suspend_field; /* its path, for messages; NULL: spec.suspend */
    enum {
        JOB_SCOPE_GANG,
        JOB_SCOPE_POD
    } scope;
    int64_t max_restarts; /* -1: no limit */
    /* Nobody asked for more: who ends by itself before its first step, twice in the same way, has a mistake
     * in the program, and no further try mends it. */
    bool tries_again_once;
    bool (*is_retryable)(int64_t exit_code); /* for JOB_RESTART_BY_EXIT */
    /* The second restart waits this long, each further one twice as long as the last, to
     * JOB_BACKOFF_LAST_MS; 0: none waits. */
    int64_t backoff_first_ms;
    int64_t deadline_ms; /* of running; 0: none */
    /* Start and deadline count from the moment the pods are made, and anew after a suspension;
     * else only the time they run counts, all generations together. */
    bool waiting_counts;
    int64_t ttl_ms; /* after the end; -1: for ever */
    enum {
        JOB_CLEAN_RUNNING,
        JOB_CLEAN_NONE,
        JOB_CLEAN_ALL,
        JOB_CLEAN_FAILED, /* what runs goes if the job failed, nothing if it succeeded */
    } clean;
    /* What a proven hang means (control/job/watch.h). Without restarts it is only reported. The
     * annotation JOB_ANNOTATION_HANG of the job has the last word. */
    enum job_hang {
        JOB_HANG_RESTART, /* it is a failure: the gang starts again within max_restarts */
        JOB_HANG_REPORT,
        JOB_HANG_IGNORE, /* nor is it told */
    } on_hang;
    enum job_hang on_suspicion; /* the same for a mere suspicion, and JOB_ANNOTATION_SUSPICION */
    /* What a restart of the gang keeps. Pods that restart their containers themselves, and roles that
     * come later, are made again in any case, and so are elastic gangs unless `meets_by_round`: muster-launch
     * runs their torchruns, so a pod that is made later meets those that have restarted. The annotation
     * JOB_ANNOTATION_RESTART_MODE has the last word. */
    bool meets_by_round;
    enum job_mode {
        JOB_MODE_PODS,     /* nothing: its pods are made again */
        JOB_MODE_IN_PLACE, /* its pods, with their GPUs and nodes, as long as all are well */
    } restart_mode;
    /* What is done about a pod whose node is lost, where it may still train and write checkpoints. The
     * annotation JOB_ANNOTATION_NODE_LOST has the last word. */
    enum job_lost {
        JOB_LOST_REPLACE, /* it is removed by force, and others take its place */
        JOB_LOST_WAIT, /* nothing starts before its node, or who answers for it, says that it is gone */
    } on_node_lost;
    /* While it trains, its pods keep the next container with torch imported (api/place.h); the annotation
     * WARM_ANNOTATION has the last word. `warmable`: muster-launch runs its ranks, and nothing before. */
    bool warm;
    bool warmable;
    /* Pods that wait to take the place of one that is lost, and whether any pod of this job could be
     * the one of another index. They need in_place. */
    size_t spares;
    bool spareable;
    bool in_place; /* by all of that, its pods are made to stay; the engine's */
    /* Told to meet by etcd in its sync pod, it may do so by c10d, and JOB_ANNOTATION_MEETS remembers. */
    bool may_meet_otherwise;
    struct str meets;  /* how it meets, in words, where that is not as it was told; else empty */
    bool peers_end;    /* when a pod fails for good, the others are about to end by themselves */
    bool tell_objects; /* an event for every pod and service made or deleted */
    /* Before its pods are made for the first time: */
    struct str hold;    /* what it waits for, in words; empty: nothing */
    struct str never;   /* why they never will be; the job fails; empty: they may */
    struct str warning; /* something that was left out, in words; empty: nothing */
};

#define JOB_BACKOFF_LAST_MS 300000

/* Of pods that failed, the one with the better evidence is to blame; of equal ones the earlier. */
enum job_evidence {
    JOB_EVIDENCE_CERTAIN, /* the kernel or the node says so: out of memory */
    JOB_EVIDENCE_OWN,     /* it ended by itself, and speaks of no other */
    JOB_EVIDENCE_TOLD,    /* it was told to end, by whomever */
    JOB_EVIDENCE_PEER,    /* it says that it lost a peer */
};

struct job_failure {
    struct str pod;
    struct str node; /* it ran there; empty: not known */
    bool has_rank;   /* muster-launch told which of its ranks began, or it is the one that hangs */
    int64_t rank;
    int64_t exit_code;
    struct str reason;  /* Error, OOMKilled, NodeLost, ... */
    struct str message; /* last lines */
    int64_t time_ms;    /* 0: no failure */
    int64_t first_ms; /* when the first rank of the pod failed, as muster-launch told; 0: unknown */
    enum job_evidence evidence;
};

/* A pod that is not as it should be; its words are in the event that told it. */
struct job_abnormal {
    struct str pod;
    struct str reason; /* Unschedulable, ImagePullBackOff, Error, ... */
};
#define JOB_ABNORMAL_MAX 8 /* of one job: what is wrong with the ninth is wrong with the first */

struct job_workers {
    int64_t pending;
    int64_t running;
    int64_t ready;
    int64_t succeeded;
    int64_t failed;
};

/* What the engine remembers between reconciles, in the object's status and its memory. */
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
    struct job_workers roles[JOB_ROLES_MAX]; /* the same for each role of the model */
    int64_t in_place; /* restarts of containers in pods that stayed; they count too */
    int64_t round;    /* of the pods that there are: ordered restarts in place (api/place.h) */
    int64_t stayed;   /* restarts in place of all pods so far; they are among `restarts` */
    bool provisioned; /* claims and sync pod are there */
    bool workspace_ready;
    bool created; /* pods were made */
    struct job_abnormal abnormal[JOB_ABNORMAL_MAX];
    size_t abnormal_count;
    struct job_problem problem;
    /* How its ranks get on, as of this reconcile: watch_word(), in words; empty: nothing to say. */
    const char *watch; /* NULL: not looked at */
    struct str watch_message;
    bool watch_alarm; /* they hang, or seem to */
    bool watch_news;  /* and that is worth an event */
};

/* A front end. */
struct job_kind {
    const struct kind *kind;
    const char *engine; /* member of status with what the engine remembers; NULL: status itself */
    /* Further members of status that the front end reads back; NULL-terminated, or NULL. */
    const char *const *remembers;
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
    /* The reason of the event that tells a change, empty for none; NULL: the word for the phase. */
    struct str (*reason)(const struct job_model *model,
                         const struct job_state *before,
                         const struct job_state *state,
                         struct arena *arena);
};

/* The part of the status that every kind of ours has: phase, message, generation, restarts,
 * preemptions, times, exitCode, failure. A kind that keeps more wraps these. */
void job_state_read(const struct json *status, struct job_state *ret);
void job_state_write(const struct job_state *state, struct json *status, struct arena *arena);

void job_reconcile(const struct control_input *input,
                   const struct job_kind *kind,
                   const struct control_key *key,
                   struct actions *actions);

/* Keys of a controller whose objects are jobs: the job itself, the job that controls what changed,
 * and every unfinished job when a node comes, goes or falls silent. */
void job_keys(const struct kind *kind,
              const struct cache *cache,
              const struct object *object,
              struct control_keys *ret);

/* The controller of a kind that is nothing but a job; include control/core/control.h. */
#define JOB_CONTROLLER(symbol, word, job_kind, ...)                                        \
    static void symbol##_reconcile(const struct control_input *input,                      \
                                   const struct control_key *key, struct actions *actions) \
    {                                                                                      \
        job_reconcile(input, &(job_kind), key, actions);                                   \
    }                                                                                      \
    static void symbol##_keys(const struct cache *cache, const struct object *object,      \
                              struct control_keys *ret)                                    \
    {                                                                                      \
        job_keys((job_kind).kind, cache, object, ret);                                     \
    }                                                                                      \
    static const struct kind *const symbol##_watches[] = {__VA_ARGS__, NULL};              \
    const struct controller symbol = {.name = (word),                                      \
                                      .kind = &kind_##job_kind,                            \
                                      .refused = "FailedCreatePod",                        \
                                      .watches = symbol##_watches,                         \
                                      .keys = symbol##_keys,                               \
                                      .reconcile = symbol##_reconcile}

/* ---- parts of the engine, each with tests of its own ---- */

/* A pod of the job as observed. */
struct job_member {
    const struct object *object;
    const struct job_role *role; /* NULL: of a role that the job no longer has */
    size_t index;
    size_t size;      /* of how many pods it was made one; 0: not known */
    int64_t in_place; /* restarts of its containers */
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
    struct str taken_for;       /* whom it gave way to, as the scheduler says; empty: unknown */
    bool lost;                  /* its node is gone or silent */
    bool scheduled;             /* has a node */
    int64_t ended_ms;           /* SUCCEEDED: when its last container ended; 0: not known */
    int64_t lost_at_ms;         /* moment it will count as lost; 0: its node is fine */
    struct job_failure failure; /* FAILED */
    struct place place;         /* it restarts in place */
    int64_t instance;           /* the round that its containers are of */
    bool stopped;               /* all of them have ended */
    bool held;                  /* FAILED, but its node keeps it for another round */
    bool beside;                /* it has ended, but for containers beside the main one */
    bool moving;                /* on its way to the round that is on */
    bool suspected;             /* something is said against its node (api/suspect.h) */
    struct str sick;            /* why it has to leave its node, in words; empty: it may stay */
    struct str waiting;         /* why it does not run, in words; empty: unknown */
    struct str suspend;         /* its annotation, see api/suspend.h; empty: it is to run */
    bool away;                  /* its node says that it has given up its GPUs */
    int64_t away_ms;            /* since when */
    struct str unsuspended;     /* why it cannot; empty: it can, or nobody has tried */
    struct str abnormal;        /* a word for what is wrong with it; empty: nothing */
    struct str abnormal_words;
    struct str node;
};
struct job_members VEC_FIELDS(struct job_member);

/* One pod, whoever made it: of a model without roles it has none. */
struct job_member job_observe_pod(const struct control_input *input,
                                  const struct job_model *model,
                                  const struct object *pod,
                                  struct arena *arena);
/* All worker pods that the job owns, whatever their generation. `spares` may be NULL. */
void job_observe(const struct control_input *input,
                 const struct job_model *model,
                 struct arena *arena,
                 struct job_members *ret,
                 struct job_members *spares);
/* Objects, ready to be created. */
struct json *job_make_pod(const struct job_model *model,
                          const struct job_pod *pod,
                          struct arena *arena);
struct json *job_make_sync_pod(const struct job_model *model, struct arena *arena);
/* The user whom the workers name, if they do, for the sync pod's environment: where all share one
 * network it serves the rendezvous to that user and its own. */
void job_add_peer_uid(const struct json *pod_spec,
                      const struct json *container,
                      struct json *env,
                      struct arena *arena);
/* Its security contexts: what the workers' say of who they are, and nothing that Pod Security `restricted`
 * forbids. */
void job_secure_sync(struct json *spec,
                     const struct json *worker,
                     const struct json *trainer,
                     bool kubelets,
                     struct arena *arena);
struct json *job_make_sync_secret(const struct job_model *model, struct arena *arena);
struct json *job_make_service(const struct job_model *model, struct arena *arena);
struct json *job_make_claim(const struct job_model *model,
                            const struct job_claim *claim,
                            struct arena *arena);
/* The Service of one pod. */
struct json *job_make_pod_service(const struct job_model *model,
                                  const struct job_role *role,
                                  size_t index,
                                  struct arena *arena);
struct json *job_make_extra(const struct job_model *model,
                            const struct job_extra *extra,
                            struct arena *arena);
struct str job_pod_name(const struct job_model *model,
                        const struct job_role *role,
                        size_t index,
                        struct arena *arena);
/* Pods of all roles together. */
size_t job_size(const struct job_model *model);
/* The fewest with which it runs. */
size_t job_min_size(const struct job_model *model);
struct str job_sync_name(const struct job_model *model, struct arena *arena);
