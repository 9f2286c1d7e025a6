#pragma once

#include <stdbool.h>
#include <stdint.h>

/* gate: every call of the program to the driver passes here, where memory is moved (settings.move),
 * so that all of them can be held while the memory is away. What dlsym() and cuGetProcAddress() find
 * is replaced by a small piece of code for each function, which counts who is inside and calls the
 * function with whatever arguments it has; functions that submit work are exported as well, for
 * programs that are linked to the driver. The library's own calls do not pass. */

/* What the program gets for `target`, a function of the driver, or ours in its stead. Without room
 * for it the function itself; gate_is_tight() is false from then on. */
void *gate_wrap(const char *name, void *target);
bool gate_is_tight(void);

/* No call begins any more, and none is under way. False: it is open again, and `why` has words. */
bool gate_close(int64_t until_ms, char *why, unsigned why_bytes);
void gate_open(void);
/* In a child that was forked: nobody is inside. */
void gate_forget(void);

/* CLOCK_MONOTONIC */
int64_t gate_now_ms(void);
void gate_pause_ms(int64_t ms);
