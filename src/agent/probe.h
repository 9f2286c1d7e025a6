#pragma once

#include <stddef.h>

struct pod;

/* probe: a container's startup, liveness and readiness probes and its hooks. What they find goes
 * into the pod's run (startup_passed, probed_ready, stop_ms, post_start, pre_stop). */

/* The container started: begin its probes. It ended: stop them. */
void probe_begin(struct pod *pod, size_t container);
void probe_end(struct pod *pod, size_t container);
void probe_end_all(struct pod *pod);
/* Run the hook and note when it is done. A failed postStart stops the container. */
void probe_post_start(struct pod *pod, size_t container);
void probe_pre_stop(struct pod *pod, size_t container);
