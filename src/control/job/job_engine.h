#pragma once

#include "control/core/action.h"
#include "control/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct control_input;
struct json;
struct object;
struct watch_verdict;

/* job_engine: what the files of the engine share: one reconcile of one job. */
struct job_run {
    const struct control_input *input;
    struct arena *arena;
    struct actions actions; /* to follow the status */
    struct job_model model;
    struct job_state state;
    struct job_members members;
    struct job_members spares; /* pods that wait to become one */
};

void job_say(struct job_run *run, enum job_phase phase, struct str message);
/* The end, for good. */
void job_finish(struct job_run *run, enum job_phase phase, struct str message);
/* The same for what ended earlier, and is heard of only now: its time counts no further than that. 0: now. */
void job_finish_at(struct job_run *run, enum job_phase phase, struct str message, int64_t at_ms);
/* All pods that have to have succeeded. */
bool job_is_done(const struct job_run *run);
/* From here on pods belong to a new generation; those there are belong to an old one. */
void job_next_generation(struct job_run *run);
/* The run is over for now: its time counts no further. */
void job_stop_clock(struct job_run *run);
/* Delete a pod, by force where nobody is left to do it gracefully. */
void job_remove(struct job_run *run, const struct job_member *member);
/* An event for an object that was deleted, where the kind wants these. */
void job_tell_deleted(struct job_run *run, const struct object *object);
const struct object *job_sync_pod(const struct job_run *run);
bool object_owned_by(const struct object *object, struct str uid);

/* What is remembered of a job, in its status and beside it (control/core/memory.h). */
struct job_memory {
    const struct json *status; /* as it is; may be NULL */
    const struct json *before; /* the memory; NULL: none */
    const struct json *known;  /* the status with what the memory knows better; may be NULL */
    bool foreign;              /* the status loses what is remembered */
    bool suspect;              /* it may: nothing was remembered so far */
};
/* Write the memory where it changed; true: it did. `status` is the one to be written. */
bool job_remember(const struct job_kind *kind,
                  const struct job_memory *memory,
                  const struct job_state *state,
                  const struct json *status,
                  const struct object *object,
                  struct actions *actions);
struct job_memory job_recall(const struct job_kind *kind,
                             const struct object *object,
                             struct arena *arena);

/* How sure it is that a pod failed by itself, from its exit status and its last words. */
enum job_evidence job_evidence(const struct job_failure *failure);
/* Both ended by themselves before their first step, with the same exit code and the same kind of last
 * word: a mistake in the program. */
bool job_ends_alike(const struct job_failure *one, const struct job_failure *other);
/* Why the next try would end the same way, as muster-launch told (LAUNCH_FINAL of api/launch.h): Python
 * could not find or read the program. Empty: it does not say so. */
struct str job_broken_program(const struct job_failure *failure);

/* A word for a failure that may be the fault of its node; NULL: it is not counted against it. */
const char *job_blame_word(const struct job_failure *failure);
/* Say so on the node, where nodes are looked after (control/cluster/health.h). */
void job_blame(struct job_run *run, const struct job_failure *failure);
/* The same for whoever is no job of the engine. Saying the same again does nothing. */
struct job_blamer {
    struct str ns;
    struct str name;
    struct str uid;
};
void job_blame_node(const struct control_input *input,
                    const struct job_blamer *who,
                    const struct job_failure *failure,
                    int64_t at_ms,
                    struct arena *arena,
                    struct actions *actions);
/* The self-test before the start has failed. */
bool job_is_preflight(const struct job_failure *failure);
/* Which members are on a node that something is said against, and which have to leave it. */
void job_suspect_observe(struct job_run *run);

/* One look at the pods of the current generation. */
struct job_look {
    size_t old;     /* pods of earlier generations, still there */
    size_t present; /* pods of this generation */
    size_t started; /* running or ended */
    size_t running;
    size_t succeeded;
    size_t staying; /* running and not going away */
    size_t leading; /* started, of roles that lead */
    size_t surplus; /* of no role, or beyond its count */
    size_t size;    /* of how many pods they were made part; 0: not known */
    int64_t in_place;
    const struct job_member *failed;    /* the one to blame so far, of those that failed */
    const struct job_member *disrupted; /* one that was taken from us */
    const struct job_member *waiting;   /* one that does not run, with words if any has */
    /* Of the model: */
    bool leaders;  /* a role leads */
    bool elastic;  /* a role can do with fewer pods */
    size_t wanted; /* pods that should be there by now */
    size_t min;    /* the fewest of those */
};
struct job_look job_look(const struct job_run *run);
/* Whether a is to blame rather than b, which may be NULL. */
bool job_is_worse(const struct job_member *a, const struct job_member *b);
/* Until when it is open which pod of the gang is to blame, while others of it run; 0: it is not. */
int64_t job_peers_until(const struct job_failure *failure);
/* How the pod ended. */
struct str job_exit_words(const struct job_failure *failure, struct arena *arena);
/* What a hang of the job means: what its annotation says, or its queue; what is given here where they say
 * nothing. A word that means nothing stops no training, and is named in `note`. */
struct job_on_hang {
    enum job_hang proven;
    enum job_hang
        suspected; /* ignored as well where a proven one is, unless the job says otherwise */
    struct str note;
};
void job_read_on_hang(const struct control_input *input,
                      const struct object *job,
                      struct arena *arena,
                      struct job_on_hang *on_hang);
/* Whether such a verdict restarts the gang, as far as that is asked for; if it will later, `ret_again_ms`
 * says when. */
bool job_hang_restarts(const struct job_on_hang *on_hang,
                       const struct watch_verdict *verdict,
                       int64_t now_ms,
                       int64_t *ret_again_ms);
/* Whether our own agent runs the pods of that node: only there they restart in place. */
bool job_is_our_node(const struct control_input *input, struct str node, struct arena *arena);
/* Whether a pod that failed like this is never made again. */
bool job_failure_is_final(const struct job_model *model, const struct job_member *member);
/* A pod failed: count it and return true, or end the job. A failure is counted once, however often
 * it is seen before its pod is gone. */
bool job_may_restart(struct job_run *run, const struct job_member *member);
struct str job_restart_words(const struct job_run *run);
/* The moment before which nothing that failed is made again; 0: none. */
int64_t job_backoff_until(const struct job_run *run);
/* All pods that are not there, but for the one named `except`. */
void job_create_missing(struct job_run *run, struct str except);
/* Every pod that does not end already, without a wait. */
void job_delete_all(struct job_run *run);
/* Pods of roles or indexes that the job no longer has. */
void job_remove_surplus(struct job_run *run);
/* It runs: its clocks start, and the message counts its pods. */
void job_say_started(struct job_run *run, const struct job_look *look);
/* The same once enough of its pods have started; before that, what it waits for. */
void job_say_running(struct job_run *run, const struct job_look *look);

/* What the pod group is told about waiting; empty: nothing. */
struct str job_group_words(const struct job_run *run);

/* The gang starts again in pods of the next generation; its room is held for it meanwhile
 * (api/hold.h). `words` say so, empty ones: which restart it is. The pods are the caller's to remove. */
void job_restart_held(struct job_run *run, struct str words);
/* The same for a gang that was counted as restarting when its pod group was not told of it: whoever
 * died between the two writes left it so. */
void job_hold_again(struct job_run *run);
/* It does not, or not with these pods: what is held is given up. */
void job_hold_end(struct job_run *run);
/* It has all of its pods again. */
void job_hold_done(struct job_run *run);
/* Its room is held when it fails, if another start is left. */
void job_hold_mark(const struct job_run *run, const struct job_role *role, struct json *pod);

/* The job is suspended and its pods stay. False: there is nothing to be kept. */
bool job_keep(struct job_run *run);
/* A pod of this generation has succeeded and none has failed: a gang that comes to its end is not
 * suspended any more, because what has ended could only be done again from the start. */
bool job_ends_well(const struct job_run *run);
/* Some of its pods have given up their GPUs, by hand or for others, or are about to: true, and the
 * state says so. Those that were held go on when the scheduler has their GPUs. */
bool job_awaits_gpus(struct job_run *run);
/* Whether a pod of this generation has. */
bool job_is_kept(const struct job_run *run);
/* What a lost node means to this job. */
void job_lost_read(struct job_run *run);
/* A pod on a lost node that is waited for, as it may still train; NULL: none. */
const struct job_member *job_lost_awaited(const struct job_run *run);
/* In place: whether the pods of this job are made so that they can stay. */
void job_place_read(struct job_run *run);
/* What pods that are on their way to another round look like must not be taken for failures. */
void job_place_observe(struct job_run *run);
/* Whether the gang can restart in the pods that it has: all are there, and well. */
bool job_can_stay(const struct job_run *run, const struct job_look *look);
/* Start the next round. */
void job_stay(struct job_run *run);
/* Bring a round about that was started. False: none is under way. */
bool job_place_step(struct job_run *run);
/* Nobody waits for another round of a pod that failed. */
void job_let_go(struct job_run *run, const struct job_member *member);
/* Tell all of them to stop for the round that is on. */
void job_place_stop(struct job_run *run);
/* Spares: whether this job can have them; what cannot be done is said. */
void job_spare_read(struct job_run *run);
/* A pod of a gang is lost: spares take the places that are free, and all restart in place. False: there
 * are not enough of them, or another pod is not well, either. */
bool job_spare_take(struct job_run *run);
/* Make those that are missing, and remove those that nobody needs any more. */
void job_spares(struct job_run *run);
/* How many wait, behind other words; empty: the job has none. */
struct str job_spare_words(const struct job_run *run);
/* How the ranks of a gang that runs get on: says so, and brings a proven hang to its end. */
void job_watch(struct job_run *run);
/* Behind what is said of a hang that a restart did not help against. */
#define JOB_HANG_AGAIN                                                                          \
    "; it is not restarted for this again: the same was seen at the same step before the last " \
    "restart"

/* Claims, services, further objects, sync pod, upload. False: not ready, and the state says why. */
bool job_provision(struct job_run *run);
/* The job is over and its sync pod, which keeps what it wrote in a claim, was evicted: it is made again. */
void job_sync_again(struct job_run *run);
/* The pods; job_each() where each lives alone. */
void job_gang(struct job_run *run);
void job_each(struct job_run *run, const struct job_look *look);
