#pragma once

struct uv_loop_s;

/* ending: a signal ends the program within ENDING_S, whatever holds its loop or one of its threads.
 *
 * The loop ends a program in order, when it comes to it. A request that keeps the loop, or a worker that
 * is waited for, would keep the whole program: so the signal itself sets an alarm, which ends it. What
 * was acknowledged is on the disk by then, and pods go on. */
#define ENDING_S 8 /* of the ten that deploy/ gives the operator; systemd waits for ninety */

/* Behind uv_signal_start() for the same signal: its handler is called first. `loop` lives as long as the
 * program. */
void ending_watch(const struct uv_loop_s *loop, int number, unsigned after_s);
