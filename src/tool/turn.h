#pragma once

#include "base/str.h"

struct buf;
struct log;
struct turns;
struct uv_loop_s;

/* turn: how long the turns of a loop are, and whose work makes them long.
 *
 * Everybody is served by one loop: while one callback works, all others wait. A turn is what the loop
 * does between two times of waiting for something to happen. One of more than TURN_SLOW_MS is logged,
 * with the longest piece of it that somebody told us about: a request and who asked, a controller and its
 * object. The loop's `data` is ours: whoever has the loop can tell of a piece. */
#define TURN_SLOW_MS 100

struct turns *turns_start(struct uv_loop_s *loop, const struct log *log);
/* NULL is fine. */
void turns_stop(struct turns *turns);
/* muster_loop_*. NULL: nothing. */
void turns_write_metrics(const struct turns *turns, struct buf *text);

/* A piece of a turn. The texts may be filled in until turn_leave() and must live as long. */
struct turn_piece {
    struct str who;  /* a user, a controller, a part of the program */
    struct str verb; /* "POST", "reconcile" */
    struct str what; /* a path, an object */
};

/* A piece inside of another one is part of that. A loop that is not watched, or NULL, is fine. */
void turn_enter(struct uv_loop_s *loop, const struct turn_piece *piece);
void turn_leave(struct uv_loop_s *loop, const struct turn_piece *piece);
/* The one that is under way, for who ends the program in the middle of it; NULL: none. */
const struct turn_piece *turn_now(const struct uv_loop_s *loop);
