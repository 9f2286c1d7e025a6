#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "control/job/job.h"
#include "control/trainer_fields.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct cache;
struct control_input;
struct decode_table;
struct json;
struct object;

/* jobset: JobSet (jobset.x-k8s.io/v1alpha2): several batch/v1 Jobs that succeed, fail, restart,
 * stop and go together. What the files of the controller share.
 *
 * The Jobs of a set carry the attempt they belong to. A restart only raises status.restarts; Jobs
 * of an earlier attempt are then deleted in the foreground, and made anew once they, and so their
 * pods, are gone. Counting comes first and is written before anything is deleted, so a crash in
 * between counts nothing twice. */
#define JOBSET_DOMAIN          "jobset.sigs.k8s.io/"
#define JOBSET_NAME            JOBSET_DOMAIN "jobset-name"
#define JOBSET_REPLICATED_NAME JOBSET_DOMAIN "replicatedjob-name"
#define JOBSET_ATTEMPT         JOBSET_DOMAIN "restart-attempt"
#define JOBSET_JOB_INDEX       JOBSET_DOMAIN "job-index"
/* Ours: how often this Job alone was restarted (action RestartJob). */
#define JOBSET_OWN_ATTEMPT JOBSET_DOMAIN "job-restart-attempt"
/* Of a pod, by JobSet's agent in it: the attempt that it is at. */
#define JOBSET_POD_ATTEMPT JOBSET_DOMAIN "in-place-restart-attempt"
/* Members of the status. A round that is on has the number after the previous one. */
#define JOBSET_ROUND_DONE "currentInPlaceRestartAttempt"
#define JOBSET_ROUND_PAST "previousInPlaceRestartAttempt"
#define JOBSET_EXCLUSIVE  "alpha.jobset.sigs.k8s.io/exclusive-topology"
#define JOBSET_MANAGER    "jobset.sigs.k8s.io/jobset-controller"
#define JOBSET_JOBS_MAX   10000 /* Jobs of one set */

struct jobset_job {
    const struct object *object;
    const struct json *tree;
    int64_t index;
    bool complete;
    bool failed;
    bool suspended;
    int64_t failed_ms;
    struct str reason; /* of the failure */
    struct str message;
    bool kept; /* it has not failed yet: a pod of it has, and its node keeps that (api/place.h) */
};

/* A pod that restarts in place. */
struct jobset_pod {
    struct job_member member;
    struct jobset_job *job;
};

/* Members come from deploy/kinds/trainer.txt, each with its field. Names of parts; none means every
 * part. */
struct jobset_targets {
    const struct str *names;
    size_t name_count;
};

enum {
    JOBSET_READY,
    JOBSET_COMPLETE
};
struct jobset_depend {
    JOBSET_DEPEND_MEMBERS
};

struct jobset_part_spec {
    JOBSET_PART_MEMBERS /* template: of its Jobs, as it is */
};

enum {
    JOBSET_FAIL_JOB_SET,
    JOBSET_RESTART_JOB_SET,
    JOBSET_RESTART_JOB_SET_AND_IGNORE_MAX_RESTARTS,
    JOBSET_RESTART_JOB,
    JOBSET_RESTART_JOB_AND_IGNORE_MAX_RESTARTS,
};
struct jobset_rule {
    JOBSET_RULE_MEMBERS
    struct jobset_targets targets;
};

enum {
    JOBSET_ALL,
    JOBSET_ANY
};
enum {
    JOBSET_RECREATE,
    JOBSET_BLOCKING_RECREATE,
    JOBSET_IN_PLACE_RESTART
};
enum {
    JOBSET_ANY_ORDER,
    JOBSET_IN_ORDER
};
struct jobset_spec {
    JOBSET_SPEC_MEMBERS /* coordinator: empty is none; ttl_s: -1 is for ever */
        struct jobset_targets success_targets;
    bool may_fail; /* there is a failurePolicy */
};
extern const struct decode_table jobset_spec_table;
/* What is wrong leaves its field alone: admission has refused it before. */
void jobset_spec_read(const struct json *spec, struct arena *arena, struct jobset_spec *ret);

/* One entry of spec.replicatedJobs. */
struct jobset_part {
    const struct jobset_part_spec *spec;
    struct str name;
    int64_t replicas;
    int64_t global_first; /* number of its first Job among all of the set */
    int64_t group_first;  /* and among those of its group */
    int64_t group_replicas;
    VEC(struct jobset_job) jobs; /* of this attempt, as far as they exist */
    int64_t ready;
    int64_t succeeded;
    int64_t failed;
    int64_t active;
    int64_t suspended;
};

struct jobset {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions; /* to follow the status */
    const struct object *object;
    const struct json *tree;
    struct jobset_spec spec;
    const struct json *before; /* status as it is */
    struct json *status;       /* as it should be */
    const struct json
        *memory;  /* what is remembered beside it (control/core/memory.h); NULL: nothing */
    bool foreign; /* the status loses what is counted */
    bool suspect; /* it may: nothing was remembered so far */
    VEC(struct jobset_part) parts;
    VEC(const struct object *) stale; /* Jobs of earlier attempts */
    int64_t total;                    /* Jobs wanted */
    bool suspended;
    bool stays;                      /* its pods are made so that they can restart in place */
    bool agents;                     /* agents in its pods see to it: jobset_attempts.c */
    struct str unstayed;             /* why not, although it is asked for; empty: nobody asks */
    VEC(struct jobset_pod) pods;     /* of the Jobs of this attempt, where they are made so */
    VEC(const struct object *) hung; /* pods of Jobs that go because a rank hangs */
};

/* jobset_policy.c: what the set's Jobs mean for the set. */
bool jobset_has_succeeded(const struct jobset *set);
/* Looks at failed Jobs: ends the set, or counts a restart. Returns whether there was one. */
bool jobset_judge_failures(struct jobset *set);
/* A rank in this Job hangs, by proof: a restart, counted like one for a Job that failed. Its rules are about
 * Jobs that failed, and are not asked. False: none is left, or it is never restarted. */
bool jobset_restart_hung(struct jobset *set, struct jobset_job *job, struct str message);
/* Whether the Jobs of a part may run now: what comes before it is far enough. */
bool jobset_may_start(const struct jobset *set, const struct jobset_part *part);
bool jobset_in_order(const struct jobset *set);
int64_t jobset_restarts(const struct jobset *set);
/* How often the Job of that name was restarted alone. */
int64_t jobset_own_restarts(const struct jobset *set, struct str job);
void jobset_finish(struct jobset *set, bool well, const char *reason, struct str message);

/* Whether another restart is left to it. */
bool jobset_may_restart(const struct jobset *set);

/* jobset_hold.c: its room while it restarts (api/hold.h). */
/* Pods made of this template hold theirs when they fail. */
void jobset_hold_mark(const struct jobset *set, struct json *template);
/* What its pod groups are to be told now. Goes by its Jobs, not by what was just decided: whoever
 * died between the two has it told. */
void jobset_hold(struct jobset *set, bool over);

/* jobset_place.c: restarts in the pods that exist (api/place.h). */
/* Whether pods of this set are made for it. */
void jobset_place_read(struct jobset *set);
void jobset_place_mark(const struct jobset *set, struct json *template);
void jobset_place_observe(struct jobset *set);
/* A pod that failed, and that its node keeps, is a failure of its Job from now on. */
void jobset_place_blame(struct jobset *set);
/* Whether all pods are there, and well enough to stay. */
bool jobset_can_stay(const struct jobset *set);
/* Begin a round; its restart is counted. */
void jobset_stay(struct jobset *set);
bool jobset_is_moving(const struct jobset *set);
/* A round is on, and has been for too long. */
bool jobset_is_stuck(const struct jobset *set);
void jobset_give_up(struct jobset *set);
/* Bring a round about. */
void jobset_place_step(struct jobset *set);
/* The set is over: whether the Job is about to fail by itself, because what its nodes keep of it is
 * let go; its pods, and with them their logs, stay then. */
bool jobset_let_go(struct jobset *set, const struct jobset_job *job);

/* The TrainJob that a JobSet was made for; NULL: none. */
const struct object *jobset_above(const struct cache *cache, const struct object *set);

/* jobset_watch.c: ranks that hang (control/job/watch.h). */
/* Says it in the set's status and in events, and restarts the set where that is meant. True: it did. */
bool jobset_watch(struct jobset *set);
/* What hangs hears no request to end: its pods are given one second. */
void jobset_end_hung(struct jobset *set);

/* jobset_attempts.c: the same with JobSet's agents in the pods, where kubelets run them. */
/* True: it was the end of the set. */
bool jobset_attempts(struct jobset *set);

/* jobset_make.c: objects of the set, ready to be created. */
struct str jobset_job_name(const struct jobset *set, const struct jobset_part *part, int64_t index);
struct json *jobset_make_job(const struct jobset *set,
                             const struct jobset_part *part,
                             int64_t index);
/* NULL: pods need no names. */
struct json *jobset_make_service(const struct jobset *set);
struct str jobset_subdomain(const struct jobset *set);
/* Claims of volumeClaimPolicies that do not exist yet are added to the actions. */
void jobset_make_claims(struct jobset *set);
