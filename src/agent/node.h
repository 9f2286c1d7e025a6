#pragma once

#include "agent/agent.h"
#include "agent/gpu.h"

#include <stdbool.h>
#include <stdint.h>

struct agent;

/* node: this machine, as one or several nodes of the API. */
struct node {
    struct agent *agent;
    char name[256];
    uint32_t gpu_users[AGENT_GPUS_MAX]; /* pods that have GPU i */
    char gpu_use[GPU_USE_TEXT];         /* as it was told last */
    bool gpu_use_told;
    int64_t gpu_unused_ms[AGENT_GPUS_MAX]; /* nobody uses GPU i since then; 0: it is in use */
    int64_t gpu_mib[AGENT_GPUS_MAX];       /* of its memory in use, when it was looked at last */
    char gpu_unused[GPU_UNUSED_TEXT];      /* as it was told last */
    bool registered;
};

/* Register them; a heartbeat for each. Those that an earlier start of this muster had and this one has
 * not are said to be away (agent->departed), and then `then` is called. */
void nodes_start(struct agent *agent, void (*then)(struct agent *agent));
void nodes_beat(struct agent *agent);
/* The machine's pressure or what is known of its GPUs changed: conditions and taints of all. */
void nodes_tell_pressure(struct agent *agent);
