#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* settings: what the container's environment says (src/api/limit.h is the other side of it), read
 * once, when the library is loaded. Without a limit that makes sense the library does nothing. */
struct settings {
    int64_t limit_bytes;   /* of each device; 0: none */
    char region[PATH_MAX]; /* empty: each process counts for itself */
    bool move;             /* MUSTER_GPU_SUSPEND=1: memory is ours to move, see mover.h */
    bool debug;            /* MUSTER_GPU_DEBUG=1: say on standard error what is refused */
};

extern struct settings settings;

/* Memory is counted. */
static inline bool settings_active(void)
{
    return settings.limit_bytes > 0;
}

/* Functions of the driver are replaced. */
static inline bool settings_replace(void)
{
    return settings.limit_bytes > 0 || settings.move;
}
