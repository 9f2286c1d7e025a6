#pragma once

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct server;
struct store;

/* gauges: what `muster up` tells of itself, beside jobs and scheduling: its process, its build, the store and its
 * disk, the requests it answered. */
struct gauges {
    const char *data_dir;
    const struct store *store;
    const struct server *server;
    int64_t started_ms;
};

void gauges_write(const struct gauges *gauges, struct buf *out);
