#pragma once

#include "base/str.h"

#include <stdint.h>

/* A process as a machine started it. */
struct sim_process {
    struct str ns, name, uid;
    struct str node;
    uint64_t devices; /* whole GPUs that the machine gave it, a bit each */
};
