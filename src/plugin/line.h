#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct term;

/* line: one line of a pod's log, as `logs` and `submit` show it. No I/O.
 *
 * The API server puts the time in front of every line. A log that is opened again starts at the
 * second of the last line shown, so some lines come twice: those that are not newer than it are
 * left out. */
#define LINE_STAMP_BYTES 48

struct line_stamp {
    char text[LINE_STAMP_BYTES]; /* of the last line; "": none yet */
    bool skipping;               /* set by the caller who opens a log again */
};

/* Takes the time off *line and remembers it. False: the line was shown before. A line without a
 * time is left as it is and shown. */
bool line_take_stamp(struct line_stamp *stamp, struct str *line);
/* "[rank3] text" -> 3, and *line becomes the text. -1: a line that is no rank's. */
int64_t line_take_rank(struct str *line);
/* "[rank3] text\n" or, with rank -1, "[POD] text\n", in the colours of the terminal. */
void line_format(struct buf *out,
                 const struct term *term,
                 struct str pod,
                 int64_t rank,
                 struct str text);
/* The end of a text with the last `tail` lines of rank `only`, or, when that is -1, of any; all of it when `tail` is
 * negative. */
struct str line_tail(struct str text, int64_t only, int64_t tail);
