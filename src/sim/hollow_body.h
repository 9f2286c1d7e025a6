#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct hollow_options;
struct json;
struct object;

/* The objects a kubelet would write, as trees in the arena. */
#define HOLLOW_RUN_MS    "hollow.muster.dev/run-ms"
#define HOLLOW_START_MS  "hollow.muster.dev/start-ms"
#define HOLLOW_EXIT_CODE "hollow.muster.dev/exit-code"
#define HOLLOW_STUCK     "hollow.muster.dev/stuck"

struct hollow_moment {
    int64_t now_ms;
    int64_t code; /* exit code of every container; below 0: running */
};

struct json *hollow_node(struct arena *arena,
                         const struct hollow_options *options,
                         struct str name,
                         size_t index,
                         int64_t now_ms);
struct json *hollow_node_status(struct arena *arena,
                                const struct hollow_options *options,
                                size_t index,
                                int64_t now_ms);
struct json *hollow_lease(struct arena *arena, struct str node, int64_t now_ms);
/* Whole GPUs that the pod's containers ask for. */
int64_t hollow_gpus(const struct object *pod);
/* The GPUs that the plan gave it, a bit each (annotation). */
uint64_t hollow_devices(const struct object *pod);
/* Hands out so many of a node's GPUs as a device plugin does: the lowest that are not in *used.
 * False: there are too few, and nothing is taken. */
bool hollow_take_gpus(uint64_t *used, int64_t gpus, int64_t wanted, uint64_t *ret);
struct json *hollow_pod_status(struct arena *arena,
                               const struct object *pod,
                               const struct hollow_moment *moment);
