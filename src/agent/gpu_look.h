#pragma once

struct agent;

/* gpu_look: what the machine's GPUs are used for is measured in a worker thread at every heartbeat,
 * and told in an annotation of their node (api/gpu.h) when it changes. Nothing where GPUs are
 * pretended. */
void gpu_look_begin(struct agent *agent);
