#pragma once

#include "api/ranks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* pace: what a rank does, from samples of its page and its process. Pure.
 *
 * A rank is silent when it has made no step for three of its own, or PACE_SILENT_MS. Only then is
 * its process looked at: whoever makes steps is well. */
#define PACE_SILENT_MS 3000
#define PACE_STEPS     3
#define PACE_IDLE_MS   3000        /* so long without CPU time is idle */
#define PACE_IDLE_PART 50          /* a fiftieth of a CPU counts as none */
#define PACE_IO_BYTES  (256 << 10) /* read or written from one look to the next: it is at work */
/* Who is locked was so in every look in which no thread of it ran: those of gloo wake a hundred times a
 * second, and on a busy machine they are often found so. A single look says nothing of how long. */
#define PACE_UNSURE 8
#define PACE_GAP_MS \
    15000 /* without a look, or the clock was set: it may have done anything in it */
#define PACE_LINE_MS   60000 /* who works and is in the same line for so long may be in it for good */
#define PACE_TIMES     15    /* of steps are remembered, for their median */
#define PACE_SAME_PART 32    /* an own time that differs by less is the same */
#define PACE_TELL_PART 10    /* by more than that it is told at once */

struct pace_sample {
    int64_t now_ms;
    uint64_t steps;
    int64_t last_ms;    /* end of the last step; 0: none */
    int64_t started_ms; /* of the page */
    enum rank_phase phase;
    int64_t own_us; /* this and the next two: see struct rank_page */
    int64_t own_part;
    int64_t own_spread;
    /* Of the process, if it was looked at: */
    bool looked;
    bool there;
    char state;       /* of its main thread: R, S, D, T, t, Z */
    bool working;     /* it or a child of it runs or waits for a disk, just now */
    int64_t cpu_ms;   /* of it and its children */
    int64_t io_bytes; /* that it has read and written; 0: not known */
    bool failed;      /* it has ended, with another exit status than 0 */
    bool locked;      /* see RANK_LOCKED */
    bool unsure;      /* one of its threads runs just now, else it is locked */
    bool meets;       /* locked, and it is in a collective */
    char wait[RANKS_WAIT_BYTES];
};

struct pace {
    struct rank_report report;
    char wait[RANKS_WAIT_BYTES];
    uint64_t steps;
    int64_t last_ms;
    int64_t seen_ms; /* the last sample */
    bool working;    /* at the last look */
    bool ran;        /* it has used CPU time since the look before */
    int64_t cpu_ms;
    int64_t io_bytes;
    int64_t cpu_at_ms; /* 0: not looked at lately */
    int64_t active_ms; /* last seen to do something */
    int64_t locked_ms; /* seen to be locked since then, but for single looks; 0: it is not */
    size_t unsure;     /* looks in a row */
    char line[RANKS_LINE_BYTES];  /* where it was seen last; empty: nobody has looked */
    char shown[RANKS_LINE_BYTES]; /* of the report */
    uint64_t stack;               /* the same while all of its stack is */
    int64_t line_ms;              /* since when */
    bool meets;
    int64_t times[PACE_TIMES];
    size_t time_count;
    int64_t told_own_us; /* what was told at once last */
    int64_t told_own_part;
};

/* Whether the process has to be looked at for this sample. */
bool pace_is_silent(const struct pace *pace, const struct pace_sample *sample);
/* Where it is in its program, as its memory says; to be told with the next sample. `stack` differs when
 * any of its frames is elsewhere. */
void pace_line(struct pace *pace, uint64_t stack, const char *line, int64_t now_ms);
/* Whether that is worth asking: it is there, and makes no steps. */
bool pace_wants_line(const struct pace *pace);
/* Brings the report up to date. True: it means something else now. */
bool pace_take(struct pace *pace, const struct pace_sample *sample);
