#pragma once

#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct cache;
struct object;

/* scheduler_apply: carries a plan of the scheduler out through struct api. */
struct applier;

/* A bind (of a whole gang) or an eviction came back. */
struct applier_outcome {
    int code; /* 0, or negative: take the decision back */
    bool evict;
    const struct sched_pod_ref *pods;
    size_t pod_count;
};

struct applier_options {
    struct api *api;
    const struct cache *cache; /* pods and pod groups */
    uint64_t seed;
    void (*done)(void *user, const struct applier_outcome *outcome);
    void *user;
};

struct applier *applier_new(const struct applier_options *options);
/* No outcome is told after this. NULL is fine. */
void applier_free(struct applier *applier);

/* Pods come and go: keeps track of which pods make a group. */
void applier_observe(struct applier *applier,
                     enum sched_change change,
                     const struct object *object);
void applier_apply(struct applier *applier, const struct sched_plan *plan, int64_t now_ms);
