#pragma once

#include "base/str.h"
#include "replay/result.h"
#include "replay/world.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* replay: a trace through the core on virtual time.
 *
 * Over time: jobs come when the trace says, run as long as it says and end. Each queue has a line;
 * the core is shown the first `window` jobs of each, as it would look at no more with that
 * queueDepthPerAction. A job that is evicted loses what it did and goes back into its line.
 *
 * Filled up, where jobs never end: the published protocol of the fragmentation paper. The jobs are
 * shuffled, and jobs drawn again, until they ask for 130 % of the GPUs; each is placed at once or
 * dropped. */
#define REPLAY_WINDOW 32

struct replay_options {
    struct world_options world;
    uint64_t seed;
    size_t window;                     /* 0: REPLAY_WINDOW */
    size_t estimates;                  /* jobs to ask when they start, evenly chosen; 0: none */
    const volatile sig_atomic_t *stop; /* not 0: end with what is known */
    void (*progress)(void *user, double share);
    void *user;
};

void replay_fill(struct arena *arena,
                 const struct replay_options *options,
                 struct replay_result *ret);
void replay_time(struct arena *arena,
                 const struct replay_options *options,
                 struct replay_result *ret);
