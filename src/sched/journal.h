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
    struct node *left;
    uint32_t placed_in;
    uint32_t lent_for;
    uint32_t slots; /* of its shared devices: index in sched->slots, SLOTS_NONE: it shares none */
    enum status status : 8;
    uint8_t share_count;
};
#define SLOTS_NONE UINT32_MAX

/* There is an undo for each pod that a cycle touches, and few pods share devices. */
struct undo_slots {
    uint8_t shares[SHARE_DEVICES_MAX];
    uint8_t left_shares[SHARE_DEVICES_MAX];
};
/* share_count of them; NULL where there can be none. Good until the next pod_set(). */
const uint8_t *undo_shares(const struct sched *sched, const struct undo *undo);

/* Moves a pod to a status and node; `shares` are the slots of its shared devices there, taken from
 * pod_slots() or an earlier state. The one place where derived state changes. */
void pod_set(struct sched *sched,
             struct pod *pod,
             enum status status,
             struct node *node,
             const uint8_t *shares,
             uint8_t share_count);
/* For who takes a pod off for a moment, outside of any try, and puts it back. */
struct whereabouts {
    struct node *node;
    enum status status : 8;
    uint8_t share_count;
    uint8_t shares[SHARE_DEVICES_MAX];
};
struct whereabouts pod_whereabouts(const struct pod *pod);
void pod_put_back(struct sched *sched, struct pod *pod, const struct whereabouts *at);

struct mark {
    size_t count;
};
struct mark journal_mark(const struct sched *sched);
void journal_rollback(struct sched *sched, struct mark mark);
/* What was tried becomes fact; no rollback past this point. */
void journal_commit(struct sched *sched);
/* The plan has what was touched: the next cycle starts with nothing. */
void journal_forget(struct sched *sched);
/* Takes a pod's room from it, in the journal. One that this cycle placed, or that was only promised
 * room, simply waits again; one that this cycle moved goes on ending where it was. */
void pod_send_away(struct sched *sched, struct pod *pod);
