#pragma once

#include <stdbool.h>
#include <stdint.h>

/* mover: a thread of our own that moves the blocks out of the card and back, when the agent says so
 * in a page (src/api/gpu_page.h). It waits there, and costs nothing until then.
 *
 * Out: calls of the program are held, work on the card is waited for, the bytes are copied to fresh
 * memory of the process by several threads, each through a pinned piece of its own, and only when all
 * are there the card's memory is given up. In: the same memory behind the same addresses. What fails
 * on the way out leaves everything as it was; on the way in, everything in host memory and the
 * program held, so that it can be tried again. */

/* False: it cannot be had here, and nothing may be owned. */
bool mover_start(void);
/* Bytes more, or fewer, that can be moved. */
void mover_count(int64_t bytes);
