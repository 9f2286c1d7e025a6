#pragma once

#include "sched/group.h"
#include "sched/reclaim.h"
#include "sched/sched.h"
#include "sched/tasks.h"

#include <stdbool.h>

/* search: whom to evict so that a group can start.
 *
 * The group's pods are added one at a time. For each, victims are proposed unit by unit in the
 * order of the rules; what could help is evicted in the journal and everybody concerned is placed
 * again in fair order. The first set of victims that lets the pods in and that the action finds
 * valid is kept, and the next pod builds on it. */
struct search {
    struct sched *sched;
    struct group *group;
    enum sched_action action;
    struct pod_vec tasks;
    /* Whether a group may lose pods to this one. */
    bool (*may_lose)(const struct search *search, const struct group *victim);
    struct reclaim reclaim;   /* SCHED_ACTION_RECLAIM */
    enum sched_reason reason; /* why the last attempt failed; NONE: its result was not allowed */
    bool crowded;             /* in the last attempt a victim found its room before the group did */
    bool contested;           /* some attempt let the group in, at a price that was not allowed */
    uint64_t began;           /* sched->steps then */
    const struct group *tried; /* all pods of the last try were of that one; NULL: not so */
    size_t tried_count;
    struct pod_vec recorded; /* victims kept from the pods before */
    bool spared;             /* somebody was passed by whose eviction was refused lately */
    bool forced;             /* nobody is */
    bool scattered; /* who is in its way may be on several nodes: of a limit, an affinity */
    bool careful;   /* no victim is placed where the group then could not be */
};

/* A large gang that gives up pod after pod is tried with each of them gone, and all that went before are placed
 * again: quadratic. So a search that took that many steps, some 5 ms, tries such a gang again only with an eighth more
 * of it gone, and with all: whoever went in vain finds its place again, and stays. */
#define SEARCH_STEPS_MAX 1000000
#define SEARCH_STEPS_EVICT \
    64 /* looks at a pod that an eviction and another place for it take as long as */

/* True: the journal holds the whole solution. False: everything is as it was. */
bool search_run(struct search *search);
