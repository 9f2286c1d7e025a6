#pragma once

#include "base/map.h"
#include "estimate/forecast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;

/* future: one draw of a forecast: the core and everything that ends, on virtual time. */
struct future_run {
    int64_t total_ms; /* that the group runs from its start on; FORECAST_NEVER */
};

struct future_options {
    const struct forecast_state *state;
    const struct map *groups;      /* ns/name to struct forecast_group */
    const struct future_run *runs; /* by group */
    size_t only;                   /* the group that is asked about, SIZE_MAX: all that wait */
    bool (*go_on)(void *user);
    void *user;
};

/* By group: after how many ms it starts, FORECAST_NEVER. False: it was cut short. */
bool future_play(struct arena *arena, const struct future_options *options, int64_t *ret_after_ms);
