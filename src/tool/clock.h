#pragma once

#include <stdint.h>

/* clock: the wall clock, for shells. A shell reads it once a turn and hands the moment down; the
 * pure layers have no other way to know the time. */
int64_t clock_now_ms(void);
/* Never goes back and has no meaning outside the process: for measuring and for limits. */
int64_t clock_monotonic_ms(void);
int64_t clock_monotonic_us(void);
