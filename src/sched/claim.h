#pragma once

#include "base/str.h"
#include "base/vec.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched;

/* claim: devices that pods ask for by a claim, and may share. */
#define CLAIM_CONSUMERS_MAX 256 /* pods that may use one resource claim */

struct claim {
    struct str ns;
    struct str name;
    struct str key;
    void *block;
    struct sched_claim spec;
    struct node *node; /* where allocated, or being allocated by the plan */
    uint32_t holders;  /* pods that hold room with it */
    bool known;
    bool promised;           /* nobody holds its devices yet, they are only promised */
    const struct pod *asker; /* of the pods that wait, the one that asks for them */
    const struct pod *guard; /* through whom they count as not preemptible; NULL: they do not */
    bool gpu;
    bool from_template;
    VEC(struct pod *) users;
};

/* NULL: there is none, and none is made. */
struct claim *claim_get(struct sched *sched, struct str ns, struct str name, bool make);
/* Gone for good once nothing names it. */
void claim_release(struct sched *sched, struct claim *claim);
/* The pod comes to hold room with its claims on the node (1), or does no longer (-1). */
void claims_weigh(struct pod *pod, struct node *node, int64_t sign);
/* Who pays for the claims of this pod, who asks for them, and how much: worked out again. */
void claims_settled(struct sched *sched, const struct pod *pod);
/* Devices of its claim that a pod which waits, or was evicted by the search under way, has to find
 * to be placed: none while somebody else pays for them. */
int64_t claim_need(const struct sched *sched, const struct pod *pod, size_t index);
/* What follows from them for the pod itself. */
void pod_claims_counted(const struct sched *sched, struct pod *pod);
