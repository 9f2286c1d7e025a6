#pragma once

#include "base/map.h"
#include "estimate/forecast.h"

#include <stdint.h>

struct arena;
struct object;
struct sched;

/* state: a cluster for a forecast, from a core that runs and the objects it was fed with. */
struct state {
    struct arena *arena;
    struct map groups; /* ns/name to struct state_group */
    struct forecast_state forecast;
};

/* What of the core is not in objects: settings, policies of pools, past usage. They are copied. */
void state_open(struct state *state, struct arena *arena, const struct sched *core, int64_t now_ms);
/* In any order. The object must live as long as the state; other kinds are passed over. */
void state_add(struct state *state, const struct object *object);
/* When all are there; `forecast` is whole then, and the state is closed. */
void state_close(struct state *state);
