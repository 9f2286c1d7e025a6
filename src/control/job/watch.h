#pragma once

#include "api/ranks.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct json;
struct object;

/* watch: how a gang gets on, from what is told of its ranks. Pure, and the same for every kind.
 *
 * Proof is told apart from suspicion. Proof is a rank that cannot go on while its peers wait: one
 * that is stopped by a signal for half a minute, one that failed unnoticed, one of DDP that has not begun
 * the backward pass in which its gang waits, while nothing outside of the gang can make any of them
 * go on (observe/threads.h). Suspicion is silence: nobody
 * does anything, but somebody may be waiting for something that comes. Whoever uses CPU time or
 * waits for a disk is at work: evaluation, compilation and checkpoints are no hang, however long.
 *
 * Who waits for a thread that waits for a socket, a timer or a child is no proof, whatever the others do;
 * nor is a gang whose ranks do not all meet in the backward pass, as stages of a pipeline do not.
 *
 * Limits count from when anybody was last seen to do something, which is when its process was first
 * looked at: three steps, or PACE_SILENT_MS, after the last one.
 *
 * Limits are learned: from the median step of the gang, and from the longest time that a rank of it
 * was idle before and then went on. */
#define WATCH_STOPPED_MS 2000   /* by then its peers are silent, too */
#define WATCH_HELD_MS    30000  /* for whoever stopped it, and is looking at it; then it is proof */
#define WATCH_ZOMBIE_MS  35000  /* torchruns look for ranks that ended every 0.1, 5 or 30 s */
#define WATCH_LOCK_MS    6000   /* or a step, when one holds up the others by a lock */
#define WATCH_LOCKED_MS  30000  /* or six: then that is proof */
#define WATCH_SEEN_MS    15000  /* proof is told again so late, of all ranks that it is about */
#define WATCH_LOADER_MS  6000   /* or twelve steps, when it waits for data and the others for it */
#define WATCH_NAMED_MS   15000  /* or twelve, when it waits for something else */
#define WATCH_MEET_MS    6000   /* or twelve, when all wait in the backward pass: for each other */
#define WATCH_ALL_MS     60000  /* or twenty, when all wait */
#define WATCH_END_MS     60000  /* or twenty, when one waits for itself and others ended */
#define WATCH_LINE_MS    180000 /* or twenty, when all who work have been in the same line */
#define WATCH_LINES_MAX  8      /* ranks of which it is said where they are, where none is named */
#define WATCH_SLOW_MS    10000  /* or three, when some work and the others wait for them */
#define WATCH_SLOWER     115 /* percent of what its peers take outside of collectives: it is slow */
#define WATCH_SLOW_PART  20  /* but not where that costs less than this part of a step */
#define WATCH_CHANCE     180 /* nor where it is less than this percent of how steps differ anyway */
#define WATCH_WILD       400 /* and this percent of what they differ by more than */
#define WATCH_WILD_FROM  150000 /* so much, in millionths */
#define WATCH_ALSO       105    /* percent of their time: the part of a step alone may mislead */
#define WATCH_SILENT_MS  (30LL * 60 * 1000) /* or twenty, when they work and no step comes */

struct watch_rank {
    struct rank_report report;
    struct str pod;
    struct str node;
};

struct watch_ranks VEC_FIELDS(struct watch_rank);

/* What the node tells of the ranks of a pod. False: nothing. */
bool watch_gather(struct watch_ranks *ranks,
                  const struct object *pod,
                  struct str node,
                  struct arena *arena);

/* X(NAME, word) */
#define WATCH_WORDS(X)            \
    X(UNKNOWN, "Unknown")         \
    X(STARTING, "Starting")       \
    X(PROGRESSING, "Progressing") \
    X(WAITING, "Waiting")         \
    X(SLOW, "Slow")               \
    X(SUSPECTED, "Suspected")     \
    X(HUNG, "Hung")
/* Unknown      nobody tells of its ranks
 * Starting     some rank has made no step yet
 * Progressing  some rank makes steps
 * Waiting      none does, and there is nothing to say against it so far
 * Slow         some wait for others, who work; or all make steps, and one holds up the others in each
 * Suspected    silence
 * Hung         proof */
enum watch_word {
#define WATCH_ENUM(name, word) WATCH_##name,
    WATCH_WORDS(WATCH_ENUM)
#undef WATCH_ENUM
};
const char *watch_word(enum watch_word word);

struct watch_verdict {
    enum watch_word word;
    const struct watch_rank *culprit; /* Slow, Suspected, Hung; NULL: none can be named */
    int64_t since_ms;                 /* when it began */
    int64_t again_ms;                 /* it may be another one then, if nothing changes; 0: no */
    int64_t firm_ms;                  /* Suspected: who restarts for it does so from then on */
    struct str message;               /* the same for as long as nothing changes; may be empty */
};

/* The condition Hung of a status. It is there once there was something to say, and what it said stays,
 * so that a restart can be understood. `alarm`: the word of the verdict, NULL where it is no alarm. */
void watch_write(struct arena *arena,
                 struct json *status,
                 const char *alarm,
                 struct str message,
                 int64_t now_ms);

/* `complete`: of every pod that runs there is a report; else only what is seen counts. */
struct watch_verdict watch_judge(const struct watch_rank *ranks,
                                 size_t count,
                                 bool complete,
                                 int64_t now_ms,
                                 struct arena *arena);
