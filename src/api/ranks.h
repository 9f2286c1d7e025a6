#pragma once

#include "api/rank_page.h"
#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct object;

/* ranks: what the node agent tells of the ranks in a pod, in an annotation of the pod.
 *
 * It is written when its meaning changes (a rank falls silent, stops, goes on), never with a step;
 * numbers that grow are as old as the last change, or RANKS_REFRESH_MS. The job engine judges by
 * it (control/job/watch.h). */
#define RANKS_ANNOTATION "muster.dev/ranks"
#define RANKS_MAX        64 /* of one pod; at some 400 bytes each the annotation has 25 KiB */
#define RANKS_WAIT_BYTES 32
#define RANKS_LINE_BYTES 96
#define RANKS_REFRESH_MS 60000
/* Who is locked or stopped is told to be so still: what was told once may be over where nobody can tell
 * more, as of a node that is cut off. Not once: a peer elsewhere may move for a moment, and what was told
 * before that is no proof of what comes after it. */
#define RANKS_STILL_MS    20000
#define RANKS_STILL_TIMES 6 /* then every RANKS_REFRESH_MS, as of everybody else */

/* Of a pod or a TorchrunJob: "off" leaves its processes alone, and then nothing is told of them. */
#define OBSERVE_ANNOTATION "muster.dev/observe"

/* What a rank's process does, as seen from outside. X(NAME, word) */
#define RANK_ACTS(X)        \
    X(STARTING, "starting") \
    X(STEPPING, "stepping") \
    X(BUSY, "busy")         \
    X(IDLE, "idle")         \
    X(LOCKED, "locked")     \
    X(STOPPED, "stopped")   \
    X(TRACED, "traced")     \
    X(ZOMBIE, "zombie")     \
    X(GONE, "gone")
/* starting  it has made no step yet
 * stepping  the last step is not long ago
 * busy      no step, but it uses CPU time or waits for a disk
 * idle      neither
 * locked    idle, and nothing outside of its gang can make it go on (observe/threads.h)
 * stopped   by a signal; traced: by a debugger
 * zombie    it failed, and its parent has not noticed
 * gone      it ended */
enum rank_act {
#define RANK_ACT_ENUM(name, word) RANK_##name,
    RANK_ACTS(RANK_ACT_ENUM)
#undef RANK_ACT_ENUM
    RANK_ACT_COUNT
};

#define RANKS_EARLY_MAX 12

/* Where it was when it was looked at. */
struct rank_early {
    int64_t steps;
    int64_t ms; /* end of the last of them */
};

struct rank_report {
    int64_t rank;
    int64_t pid; /* in its container */
    enum rank_act act;
    int64_t since_ms; /* of the act; of idle: when it was last seen to do something */
    enum rank_phase phase;
    struct str wait; /* what the kernel says the main thread waits in; empty: unknown */
    struct str line; /* of the program, where its main thread is; empty: unknown, or it moves on */
    int64_t line_ms; /* there since then, in every look */
    int64_t seen_ms; /* locked, stopped: the last look that saw it so; 0: it is something else */
    int64_t steps;
    int64_t last_ms;  /* end of the last step; 0: none */
    int64_t step_ms;  /* median time of a step; 0: not known yet */
    int64_t quiet_ms; /* the longest time that it was idle and then made another step */
    /* What it has done over again (api/account_run.h), as struct rank_page has it: */
    int64_t began_ms; /* of the page; tells one run of a rank from the next */
    int64_t first_ms;
    int64_t saving_ms;
    int64_t mark;
    int64_t resumed;
    int64_t loaded_ms;
    int64_t late_ms;
    struct rank_early early[RANKS_EARLY_MAX]; /* of rank 0: the first looks that saw another step */
    size_t early_count;
    /* Of a step, as struct rank_page has it; 0: not known. */
    int64_t own_us;
    int64_t own_part;
    int64_t own_spread;
    int64_t world; /* as struct rank_page has them; 0: not known */
    int64_t passes;
    int64_t gpu; /* its number on the node, and one; 0: none is known */
};

const char *rank_act_word(enum rank_act act);
const char *rank_phase_word(enum rank_phase phase);

/* The text of the annotation. */
struct str ranks_text(struct arena *arena, const struct rank_report *reports, size_t count);
/* The same where nobody can tell of its ranks: why, in words. */
struct str ranks_unwatched_text(struct arena *arena, const char *why);
/* These words; empty: there are none. */
struct str ranks_unwatched(struct arena *arena, struct str text);
/* Why a pod tells of no ranks, in words, and what to do; empty: it does, or it is too early to say. */
struct str ranks_why(struct arena *arena, const struct object *pod);
/* At most RANKS_MAX; what is no report is left out: anybody who may edit the pod can write it. */
size_t ranks_parse(struct arena *arena, struct str text, struct rank_report *ret);
