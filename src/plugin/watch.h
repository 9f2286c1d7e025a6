#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct err;
struct session;

/* watch: a table that is printed again when what it shows has changed, until it is interrupted or
 * the server is gone.
 *
 * `draw` adds the table to `out` and tells in *ret_seen a number that differs when something came,
 * went or changed; ages are no news. The session's arena is emptied after each. */
typedef int watch_draw(struct session *session,
                       void *user,
                       struct buf *out,
                       uint64_t *ret_seen,
                       struct err *err);
int watch_table(struct session *session, watch_draw *draw, void *user, struct err *err);

struct watch_options {
    bool watch;
    bool table;          /* false: for programs, which --watch is not for */
    const char *nothing; /* what is said when `draw` added nothing; NULL: nothing */
};
/* For a command that has --watch: that, or once. */
int watch_or_once(struct session *session,
                  const struct watch_options *options,
                  watch_draw *draw,
                  void *user,
                  struct err *err);
