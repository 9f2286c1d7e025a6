#pragma once

#include <stdbool.h>
#include <stdint.h>

/* unused: work whose GPUs nobody uses gives way to work that waits (api/suspend.h).
 *
 * A queue, or the work itself, says after how long. It is announced before it happens, so that whoever
 * sits before a notebook can say no; it happens only while others wait for GPUs, to one gang at a
 * time, the one that has not used them for longest; and the work is back in line as soon as somebody
 * wants it: `resume`, or a command in one of its pods. */
#define UNUSED_NOTICE_MS (5 * 60 * 1000) /* that people have; less where it would be most of it */

struct unused {
    int64_t after_ms; /* 0: it may keep its GPUs */
    int64_t since_ms; /* that all of its GPUs are unused; 0: they are in use */
    int64_t at_ms;    /* when it is suspended, as was announced; 0: nothing was */
    bool others_wait; /* for GPUs */
};

enum unused_step {
    UNUSED_LEAVE,
    UNUSED_ANNOUNCE, /* that it is suspended at *ret_at_ms */
    UNUSED_SUSPEND,
    UNUSED_TAKE_BACK, /* what was announced: they are used again */
};

/* ret_at_ms, with UNUSED_LEAVE: when to ask again; 0: when something has changed. */
enum unused_step unused_judge(const struct unused *unused, int64_t now_ms, int64_t *ret_at_ms);
