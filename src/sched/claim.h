#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct device_ask;
struct device_choice;
struct sched;

/* claim: devices that pods ask for by a claim, and may share. */
#define CLAIM_CONSUMERS_MAX 256 /* pods that may use one resource claim */

/* What a claim's devices are to others. */
enum hold {
    HOLD_NONE,
    HOLD_PROMISED, /* pods that wait for room are to have them */
    HOLD_ENDING,   /* nobody will have them before long */
    HOLD_FIRM,
};

struct pick {
    struct device *device;
    const struct device_choice *choice; /* NULL: as the claim's status says */
};

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
    struct device_ask *ask; /* heap; NULL: devices are counted, not told apart */
    bool allocated;         /* as its status says, `picks` are its devices */
    /* Where these can be used: as the status says, or on the node that they were picked for. */
    const struct sched_node_term *terms;
    size_t term_count;
    struct arena allocation;
    VEC(struct pick) picks; /* kept when nobody holds them: the same ones are taken again */
    struct node *picked_on;
    enum hold hold;     /* of the picks, as the devices count it */
    struct str trouble; /* heap: why the last search for devices ended early */
};

/* NULL: there is none, and none is made. */
struct claim *claim_get(struct sched *sched, struct str ns, struct str name, bool make);
/* Its name in its namespace. */
struct str claim_name(const struct claim *claim);
/* Gone for good once nothing names it. */
void claim_release(struct sched *sched, struct claim *claim);
/* What is asked for and what was given, anew. */
void claim_describe(struct sched *sched, struct claim *claim, const struct sched_claim *spec);
/* Its devices are of no concern to it any more. */
void claim_forget_picks(struct sched *sched, struct claim *claim);
/* Whether what it has, or is promised, can be used from the node; true where it has nothing. */
bool claim_reaches(const struct claim *claim, const struct node *node);
/* The pod comes to hold room with its claims on the node (1), or does no longer (-1). */
void claims_weigh(struct pod *pod, struct node *node, int64_t sign);
/* Who pays for the claims of this pod, who asks for them, and how much: worked out again. */
void claims_settled(struct sched *sched, const struct pod *pod);
/* Devices of its claim that a pod which waits, or was evicted by the search under way, has to find
 * to be placed: none while somebody else pays for them. */
int64_t claim_need(const struct sched *sched, const struct pod *pod, size_t index);
/* What follows from them for the pod itself. */
void pod_claims_counted(const struct sched *sched, struct pod *pod);
