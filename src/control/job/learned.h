#pragma once

#include "api/ranks.h"
#include "control/job/watch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct object;

/* learned: what a job's ranks were seen to do, and what was made of it, beyond the pods that tell it. In an
 * annotation of the job, as a small JSON object: a restart makes other pods, or other processes in them,
 * which know nothing of the pauses before.
 *
 * A hang that restarted the gang is kept with the step at which it was. When the same is seen of the same
 * rank at the same step again, a restart does not help, and it is not made: what is a pause
 * of the program ends by itself, and what is a hang of it would come again. */
#define LEARNED_ANNOTATION "muster.dev/learned"
#define LEARNED_HANGS_MAX  8 /* at 120 bytes each: 1 KiB */
/* A verdict that comes and goes is an event once in so long. */
#define LEARNED_TELL_MS (10LL * 60 * 1000)

struct learned_hang {
    int64_t rank; /* -1: none was named */
    int64_t act;
    int64_t phase;
    int64_t steps; /* of its process */
    int64_t at;    /* the same with those that it resumed from, and one; 0: not known */
    int64_t began; /* when its process did: tells a hang from the same one, seen again */
};

struct learned {
    int64_t quiet_ms; /* the longest time that a rank was idle and then went on */
    struct learned_hang hangs[LEARNED_HANGS_MAX]; /* the latest */
    size_t count;
    int64_t told_word; /* the last event: enum watch_word, of which rank (and 1), when */
    int64_t told_rank;
    int64_t told_ms;
    bool changed;
};

struct learned learned_read(const struct object *job, struct arena *arena);
/* What was learned of pauses counts for these ranks, and what they know for later ones. */
void learned_pauses(struct learned *learned, struct watch_ranks *ranks);
/* Whether the gang was restarted for the same before; else that is noted. */
bool learned_again(struct learned *learned,
                   const struct watch_verdict *verdict,
                   const struct watch_ranks *ranks);
/* Whether the verdict is worth an event; `again`: that it leads to no restart this time is. */
bool learned_tell(struct learned *learned,
                  const struct watch_verdict *verdict,
                  bool again,
                  int64_t now_ms);
/* The annotation, if it changed. */
void learned_write(const struct learned *learned,
                   const struct object *job,
                   struct actions *actions);
