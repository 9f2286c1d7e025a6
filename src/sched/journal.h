#pragma once

#include "sched/node.h"
#include "sched/pod.h"

#include <stddef.h>
#include <stdint.h>

struct sched;

/* journal: where derived state changes.
 *
 * Everything that is derived from where pods are (free room of nodes, what queues use, how far a
 * group is from its minimum, the indexes) changes in one place only: pod_set(). Code that tries
 * something sets a mark, calls pod_set() and rolls back; nothing is ever copied. */
struct undo {
    struct pod *pod;
    struct node *node;
    enum status status;
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t share_count;
    struct node *left;
    uint8_t left_shares[SHARE_DEVICES_MAX];
    uint32_t placed_in;
    uint32_t lent_for;
};

/* Moves a pod to a status and node; `shares` are the slots of its shared devices there, taken from
 * pod_slots() or an earlier state. The one place where derived state changes. */
void pod_set(struct sched *sched,
             struct pod *pod,
             enum status status,
             struct node *node,
             const uint8_t *shares,
             uint8_t share_count);
struct mark {
    size_t count;
};
struct mark journal_mark(const struct sched *sched);
void journal_rollback(struct sched *sched, struct mark mark);
/* What was tried becomes fact; no rollback past this point. */
void journal_commit(struct sched *sched);
/* Takes a pod's room from it, in the journal. One that this cycle placed, or that was only promised
 * room, simply waits again; one that this cycle moved goes on ending where it was. */
void pod_send_away(struct sched *sched, struct pod *pod);
