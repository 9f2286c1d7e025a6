#pragma once

#include "base/str.h"

#include <stdbool.h>

struct api;
struct cache;
struct sched_plan;

/* nominator: says on pods that wait for room on a node which one it is (status.nominatedNodeName),
 * and takes it off those that are no longer promised it. */
struct nominator;

/* Pods that may still carry a status.nominatedNodeName of ours: after each plan those that are no
 * longer promised that node lose it. More of them at once than this are not kept up with. */
#define NOMINATED_MAX 100000

struct nominator_options {
    struct api *api;
    const struct cache *cache; /* pods */
    /* Whether a pod is promised room on a node, and which. */
    bool (*is_promised)(void *user, struct str ns, struct str pod, struct str *ret_node);
    void *user;
};

struct nominator *nominator_new(const struct nominator_options *options);
void nominator_free(struct nominator *nominator); /* NULL is fine */
void nominator_apply(struct nominator *nominator, const struct sched_plan *plan);
