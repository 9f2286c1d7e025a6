#include "sched/journal.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/claim.h"
#include "sched/closers.h"
#include "sched/group.h"
#include "sched/lists.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/numa.h"
#include "sched/pick.h"
#include "sched/pod.h"
#include "sched/shape.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(sizeof(struct undo) <= 40, "a cycle has one for each pod that it touches");

/* Where derived state changes: pod_set() takes a pod's effects off and puts its new ones on. While
 * `trying`, each call leaves the old place of the pod in the journal, and a rollback calls the same
 * function with it, latest first. Share slots are reused lowest first, so going back finds every
 * slot as it was. */

static void node_attach(struct sched *sched, struct pod *pod, struct node *node)
{
    if (pod->shape->spec.anti_affinity_count) {
        pod_rare_make(pod)->anti_index = (uint32_t)sched->anti_pods.count;
        VEC_PUSH(NULL, &sched->anti_pods, pod);
    }
    pod->node_index = (uint32_t)node->pods.count;
    VEC_PUSH(NULL, &node->pods, pod);
    node_weigh(pod, node, pod->status, pod_shares(pod), 1);
    if (pod->claim_count && ST_IN(pod->status, ST_BIT(ST_BINDING) | ST_BIT(ST_PIPELINED)))
        pick_devices(sched, pod, node);
    claims_weigh(pod, node, 1);
    if (pod->rare)
        volumes_weigh(sched, pod, node, 1);
    if (sched->numa_nodes || pod->zones)
        numa_attach(sched, pod, node);
}

static void node_detach(struct sched *sched, struct pod *pod, struct node *node)
{
    if (pod->shape->spec.anti_affinity_count) {
        uint32_t at = pod->rare->anti_index;
        VEC_REMOVE_SWAP(&sched->anti_pods, at);
        if (at < sched->anti_pods.count)
            sched->anti_pods.items[at]->rare->anti_index = at;
    }
    node_weigh(pod, node, pod->status, pod_shares(pod), -1);
    claims_weigh(pod, node, -1);
    if (pod->rare)
        volumes_weigh(sched, pod, node, -1);
    numa_detach(pod, node);
    VEC_REMOVE_SWAP(&node->pods, pod->node_index);
    if (pod->node_index < node->pods.count)
        node->pods.items[pod->node_index]->node_index = pod->node_index;
}

/* What a moved pod holds until it is gone from there. */
static void left_weigh(struct pod *pod, int64_t sign)
{
    node_weigh(pod, pod->left, ST_RELEASING, pod_left_shares(pod), sign);
    numa_weigh_left(pod, pod->left, sign);
}

static void group_change(struct pod *pod, int32_t sign)
{
    if (!pod->group || pod->set == SET_NONE)
        return;
    pod->group->sets[pod->set].count[pod->status] += sign;
    pod->group->count[pod->status] += sign;
}

static struct undo place_of(struct sched *sched, struct pod *pod)
{
    struct undo place = {.pod = pod,
                         .node = pod->node,
                         .status = pod->status,
                         .share_count = pod->share_count,
                         .left = pod->left,
                         .placed_in = pod->placed_in,
                         .lent_for = pod->lent_for,
                         .slots = SLOTS_NONE};

    if (pod->sharing) {
        struct undo_slots slots;

        memcpy(slots.shares, pod->sharing->shares, sizeof(slots.shares));
        memcpy(slots.left_shares, pod->sharing->left_shares, sizeof(slots.left_shares));
        place.slots = (uint32_t)sched->slots.count;
        VEC_PUSH(NULL, &sched->slots, slots);
    }
    return place;
}

const uint8_t *undo_shares(const struct sched *sched, const struct undo *undo)
{
    return undo->slots == SLOTS_NONE ? NULL : sched->slots.items[undo->slots].shares;
}

static void take_off(struct sched *sched, struct pod *pod)
{
    pod_weigh(pod, -1);
    group_change(pod, -1);
    if (pod->left)
        left_weigh(pod, -1);
    if (ST_IN(pod->status, ST_USED) && pod->node) {
        node_detach(sched, pod, pod->node);
        sched->changed = true;
    }
}

static void put_on(struct sched *sched, struct pod *pod)
{
    if (pod->left)
        left_weigh(pod, 1);
    if (ST_IN(pod->status, ST_USED) && pod->node) {
        pod_charge(sched, pod, pod->node, pod->charge);
        node_attach(sched, pod, pod->node);
    }
    pod_weigh(pod, 1);
    group_change(pod, 1);
    if (!pod->group)
        return;
    group_lists(pod->group);
    if (pod->group->semi)
        group_charge_core(pod->group);
}

/* `slots` are those of `to`, whose index does not count here; NULL where it shares nothing. */
static void place_set(struct sched *sched, const struct undo *to, const struct undo_slots *slots)
{
    struct pod *pod = to->pod;
    struct node *touched[4] = {pod->node, pod->left, to->node, to->left};

    take_off(sched, pod);
    pod->status = to->status;
    /* One that holds nothing keeps no node: a node that only such pods name is freed. */
    pod->node = ST_IN(to->status, ST_USED) ? to->node : NULL;
    pod->share_count = to->share_count;
    pod->left = to->left;
    pod->placed_in = to->placed_in;
    pod->lent_for = to->lent_for;
    if (pod->sharing) {
        memcpy(pod->sharing->shares, slots->shares, sizeof(slots->shares));
        memcpy(pod->sharing->left_shares, slots->left_shares, sizeof(slots->left_shares));
    }
    put_on(sched, pod);
    group_line_note(pod);
    for (size_t i = 0; i < 4; i++)
        if (touched[i]) {
            index_update(sched, touched[i]);
            closers_note(sched, touched[i]);
        }
    if (pod->claim_count)
        claims_settled(sched, pod);
    if (pod->whole_count && !ST_IN(pod->status, ST_USED))
        pick_whole_done(sched, pod);
}

void pod_set(struct sched *sched,
             struct pod *pod,
             enum status status,
             struct node *node,
             const uint8_t *shares,
             uint8_t share_count)
{
    struct undo to = {.pod = pod,
                      .node = node,
                      .status = status,
                      .share_count = share_count,
                      .placed_in = pod->placed_in,
                      .lent_for = pod->lent_for,
                      .slots = SLOTS_NONE};
    struct undo_slots slots = {0};

    if (share_count)
        memcpy(slots.shares, shares, share_count);
    if (sched->trying) {
        VEC_PUSH(NULL, &sched->journal, place_of(sched, pod));
        if (status == ST_PIPELINED && pod->status == ST_RELEASING && pod->victim) {
            to.left = pod->node;
            if (pod->sharing)
                memcpy(slots.left_shares, pod->sharing->shares, sizeof(slots.left_shares));
        }
    }
    place_set(sched, &to, &slots);
}

struct whereabouts pod_whereabouts(const struct pod *pod)
{
    struct whereabouts at = {
        .node = pod->node, .status = pod->status, .share_count = pod->share_count};

    if (pod->share_count)
        memcpy(at.shares, pod_shares(pod), pod->share_count);
    return at;
}

void pod_put_back(struct sched *sched, struct pod *pod, const struct whereabouts *at)
{
    pod_set(sched, pod, at->status, at->node, at->shares, at->share_count);
}

struct mark journal_mark(const struct sched *sched)
{
    return (struct mark){sched->journal.count};
}

void journal_rollback(struct sched *sched, struct mark mark)
{
    bool trying = sched->trying;

    sched->trying = false;
    while (sched->journal.count > mark.count) {
        struct undo undo = sched->journal.items[--sched->journal.count];
        struct undo_slots slots = {0};

        if (undo.slots != SLOTS_NONE) {
            slots = sched->slots.items[undo.slots];
            sched->slots.count = undo.slots; /* those behind it were taken back before */
        }
        place_set(sched, &undo, &slots);
    }
    sched->trying = trying;
}

/* What was tried becomes part of the plan: the first place of each pod in this cycle is kept. */
void journal_commit(struct sched *sched)
{
    for (size_t i = 0; i < sched->journal.count; i++) {
        struct pod *pod = sched->journal.items[i].pod;
        if (pod->logged)
            continue;
        pod->logged = true;
        VEC_PUSH(NULL, &sched->touched, sched->journal.items[i]);
    }
    sched->journal.count = 0;
}

void journal_forget(struct sched *sched)
{
    for (size_t i = 0; i < sched->touched.count; i++)
        sched->touched.items[i].pod->logged = false;
    sched->touched.count = 0;
    if (!sched->journal.count)
        sched->slots.count = 0;
}

void pod_send_away(struct sched *sched, struct pod *pod)
{
    if (pod->left)
        pod_set(sched, pod, ST_RELEASING, pod->left, pod_left_shares(pod), pod->share_count);
    else if (pod->status == ST_PIPELINED ||
             (pod->status == ST_BINDING && pod->placed_in == sched->cycle))
        pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
    else
        pod_set(sched, pod, ST_RELEASING, pod->node, pod_shares(pod), pod->share_count);
}
