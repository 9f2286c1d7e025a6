#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* world_test: a small cluster for unit tests of the core.
 *
 * Time starts at one moment and moves only when the test says so. Names are NUL-terminated and have
 * to outlive the call only. */

struct cluster {
    struct sched *sched;
    struct arena arena; /* of the plans and of what the test makes */
    struct sched_plan plan;
    int64_t now;
};

/* An empty cluster with the default settings and these quirks. */
void cluster_open(struct cluster *cluster, uint64_t quirks);
/* The same with settings of the test's own; see sched_config_default(). */
void cluster_open_as(struct cluster *cluster, const struct sched_config *config);
void cluster_close(struct cluster *cluster);

/* A queue without a parent. Everything but these amounts of GPUs is unlimited. */
void cluster_queue(struct cluster *cluster, const char *name, double gpu_quota, double gpu_limit);
/* 64 CPUs, 256 GiB and 110 pod slots beside the GPUs. */
void cluster_node(struct cluster *cluster, const char *name, int64_t gpus);
/* A claim of that many GPUs, for groups of queue q. */
void cluster_claim(struct cluster *cluster, const char *name, int64_t devices);

/* A group and its pods, which are called like it with -0, -1, ... added. */
struct job {
    const char *name;
    const char *queue; /* NULL: q */
    int64_t pods;      /* 0: 1 */
    int64_t min;       /* 0: all of them */
    int64_t gpus;
    const char *claim;       /* that all of them use; NULL: none */
    const char *volume;      /* a claim of a volume that they mount; NULL: none */
    const char *volume_last; /* that the last one mounts in its place */
    bool own_volume;         /* they are made for the pods */
    int64_t priority;
    enum sched_preemptibility kind; /* the first one: by priority */
    const char *node;               /* where they run; NULL: they wait */
    bool ending;
    int64_t deadline_ms;
    int64_t preempt_delay_ms;
};
void cluster_put(struct cluster *cluster, const struct job *job);
void cluster_drop(struct cluster *cluster, const char *pod);

/* One cycle, so much later. Afterwards all derived state is checked. */
void cluster_decide(struct cluster *cluster, int64_t later_ms);
/* What the plan of that cycle says of a pod. */
const struct sched_bind *cluster_bind(const struct cluster *cluster, const char *pod);
bool cluster_bound(const struct cluster *cluster, const char *pod);
bool cluster_evicted(const struct cluster *cluster, const char *pod);
bool cluster_promised(const struct cluster *cluster, const char *pod);
/* Why the group waits; NULL: it does not. */
const struct sched_waiting *cluster_waiting(const struct cluster *cluster, const char *group);
/* How many kinds of pods there are that have to be told apart. */
size_t cluster_shapes(const struct cluster *cluster);
/* GPUs in use in the queue. */
double cluster_used(const struct cluster *cluster, const char *queue);
