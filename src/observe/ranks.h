#pragma once

#include "api/pace.h"
#include "api/rank_page.h"
#include "api/ranks.h"
#include "base/str.h"
#include "observe/processes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* ranks: how the ranks of one container get on (api/ranks.h), seen from outside.
 *
 * Its processes have a folder for pages (api/rank_page.h) and hook.py as their sitecustomize, at the
 * front of PYTHONPATH. Every OBSERVED_LOOK_MS the pages are read; the processes of a rank only while
 * it is silent. What changed its meaning is told at most every OBSERVED_TELL_MS, and seldom where it
 * changes all the time. The node agent looks so at the pods of its node; where there is none,
 * muster-launch at the ranks that it started. */
#define OBSERVED_LOOK_MS 1000
#define OBSERVED_TELL_MS 2000

extern const char hook_py[]; /* tools/embed_text.c made it of hook.py */

struct observed_rank {
    struct pace pace;
    uint64_t started_ns;
    int64_t inner_pid;
    int64_t pid; /* out here; 0: not found yet */
    int64_t born;
    struct rank_page page;
    bool over; /* of an earlier gang in this container: nothing is said of it */
};

struct observed {
    struct observed_rank items[RANKS_MAX];
    size_t count;
    unsigned long alone;   /* turns in which there was no page */
    const char *unwatched; /* why there is none, in words; NULL: there is, or it is too early */
    int64_t awake_ms;      /* the container was suspended until then; 0: never */
    bool changed;
    bool urgent;
    unsigned still; /* times in a row that nothing new was told */
    char *sent;     /* the last text; on the heap */
    int64_t told_ms;
    unsigned burst;
};

/* One turn: what it may cost, for all containers that are looked at in it. */
struct observed_look {
    int64_t now_ms;
    int64_t clock_ns;
    bool fifth; /* those that have made no step yet are looked at, too */
    bool scanned;
    size_t inner_opens; /* left in this turn */
    size_t wait_opens;
    struct processes all;
};

/* `turn` counts them. */
struct observed_look observed_look_begin(int64_t now_ms, unsigned long turn);
void observed_look_end(struct observed_look *look);
/* Looks at the ranks with pages in `folder`, which are below process `pid`. True: it took more than
 * its part of what the turn may cost; *ret_said: it took any of it, else that says nothing. */
bool observed_look(struct observed *ranks,
                   struct observed_look *look,
                   const char *folder,
                   int64_t pid,
                   bool *ret_said);
/* Where a process is in its program, as somebody has read it (stacks/process.h). */
struct observed_place {
    uint64_t stack;
    const char *line;
};
void observed_line(struct observed *ranks,
                   int64_t pid,
                   int64_t born,
                   const struct observed_place *place,
                   int64_t now_ms);
/* They have ended: how far they came. What they did last is not looked at. */
void observed_last(struct observed *ranks, const char *folder, int64_t now_ms);
/* Whether any of them has made a step. */
bool observed_has_steps(const char *folder);
/* There are others now, or none: those before are forgotten. */
void observed_clear(struct observed *ranks);

/* It is time to tell. */
bool observed_is_due(const struct observed *ranks, int64_t now_ms);
/* The annotation, as told now; empty: it is what was told last. `gpus` are those of the container. */
struct str observed_tell(struct observed *ranks,
                         int64_t now_ms,
                         const uint32_t *gpus,
                         size_t gpu_count,
                         struct arena *arena);
/* What was told last did not arrive. */
void observed_lost(struct observed *ranks);
void observed_done(struct observed *ranks);
