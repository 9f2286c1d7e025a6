#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "replay/policy.h"
#include "replay/trace.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* world: a cluster that exists only as numbers, and the core that schedules it.
 *
 * What the core decides is carried out here, device by device, and checked: a plan that gives away
 * what is not there ends the process. Jobs are called by their index in the trace. */
struct world_node {
    const struct trace_node *spec;
    int64_t cpu_milli; /* free */
    int64_t memory_mib;
    int32_t left[TRACE_GPUS_MAX]; /* thousandths of each GPU */
    int64_t released_milli;       /* all of that */
};

/* What one pod holds. */
struct world_pod {
    uint32_t node;    /* WORLD_NOWHERE: none */
    uint32_t devices; /* bits */
    struct str share; /* name of the device that it has a part of; empty: whole ones */
};
#define WORLD_NOWHERE UINT32_MAX

struct world_options {
    const struct replay_policy *policy;
    const struct trace *trace;
    const struct trace_nodes *nodes;
    const struct sched_queue *queues; /* with quotas, from manifests */
    size_t queue_count;
    bool preemptible;
    int64_t reserve_after_ms; /* muster: see struct sched_policy */
    bool lend_expected;       /* the same */
};

struct world {
    const struct world_options *options;
    struct sched *sched;
    struct arena arena; /* of the world */
    struct arena cycle; /* of the plan */
    struct sched_plan plan;
    struct world_node *nodes;
    size_t node_count;
    int64_t gpu_milli; /* of the cluster */
    int64_t free_milli;
    int64_t pod_gpus_max;    /* of one pod: what the largest node has */
    struct world_pod **pods; /* by job; NULL: not submitted */
    VEC(struct sched_queue) queues;
    uint64_t cycles;
    uint64_t placed; /* pods */
};

void world_open(struct world *world, const struct world_options *options);
void world_close(struct world *world);

void world_submit(struct world *world, size_t job, int64_t submit_ms, int64_t expected_ms);
/* It ended, or goes back into the line. */
void world_remove(struct world *world, size_t job);
/* Decides and carries the binds out; the plan stays until the next call. */
void world_cycle(struct world *world, int64_t now_ms);
bool world_running(const struct world *world, size_t job);
/* The job that a pod of the plan belongs to. */
size_t world_job_of(struct str pod_name);

/* Settings, nodes and queues, for a look into the future; and a job that waits or runs. */
struct forecast_group;
struct forecast_state;
void world_state(const struct world *world, struct arena *arena, struct forecast_state *ret);
struct world_job {
    size_t index;
    int64_t expected_ms;
    int64_t started_ms; /* 0: it waits */
};
void world_job_state(const struct world *world,
                     struct arena *arena,
                     const struct world_job *of,
                     struct forecast_group *ret);

/* Of the free GPUs, in thousandths of all: what the jobs of the trace could not use on average. */
double world_fragments(const struct world *world);
