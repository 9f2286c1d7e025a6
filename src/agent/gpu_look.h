#pragma once

struct agent;

/* gpu_look: what the machine's GPUs are used for is measured in a worker thread at every heartbeat,
 * and told in annotations of their node (api/gpu.h) when it changes. Nothing where GPUs are
 * pretended, unless a test says what is measured of them. */
#define GPU_LOOK_PRETEND "MUSTER_TEST_GPU_USE" /* environment: a file, "0/0,88/4096" */
void gpu_look_begin(struct agent *agent);
