#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Where derived state changes: pod_set() takes a pod's effects off and puts its new ones on. While
 * `trying`, each call leaves the old place of the pod in the journal, and a rollback calls the same
 * function with it, latest first. Share slots are reused lowest first, so going back finds every
 * slot as it was. */

int64_t share_memory(const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;

    if (spec->gpu_memory_mib > 0)
        return spec->gpu_memory_mib;
    return (int64_t)((__int128)spec->gpu_fraction_micro * node->gpu_memory / GPU_FRACTION);
}

/* GPUs of shared devices in thousandths, in steps of a hundredth as KAI counts them. */
static int64_t share_charge(const struct pod *pod, const struct node *node)
{
    const struct sched_pod *spec = &pod->shape->spec;
    int64_t hundredths = 0;

    if (spec->gpu_memory_mib > 0) {
        int64_t memory = i64_max(1, node->gpu_memory);
        hundredths = (spec->gpu_memory_mib * 100 + memory - 1) / memory;
    } else {
        hundredths = (spec->gpu_fraction_micro + GPU_FRACTION / 200) / (GPU_FRACTION / 100);
    }
    return hundredths * (GPU_MILLI / 100) * pod->shape->devices;
}

void pod_charge(const struct sched *sched,
                const struct pod *pod,
                const struct node *node,
                int64_t ret[static SCHED_RESOURCES])
{
    (void)sched;
    ret[SCHED_CPU] = pod->shape->spec.cpu_milli;
    ret[SCHED_MEMORY] = pod->shape->spec.memory_bytes;
    ret[SCHED_GPU] = (pod->gpus + pod->shape->mig_slices) * GPU_MILLI;
    if (pod->shape->shared)
        ret[SCHED_GPU] += share_charge(pod, node);
}

/* What a shared device takes from the node's whole ones. */
static void share_effect(struct node *node, const struct share *share, int64_t sign)
{
    if (share->allocated + share->releasing > 0) {
        node->idle[RES_GPU] -= sign;
        if (!share->allocated && !share->pipelined)
            node->releasing[RES_GPU] += sign;
    } else if (share->pipelined > 0) {
        node->releasing[RES_GPU] -= sign;
    }
}

/* The slot of the shared device of that name; share_count: there is none. */
static uint32_t share_find(const struct node *node, const struct name *name)
{
    uint32_t slot = 0;

    while (slot < node->share_count &&
           !(node->shares[slot].live && node->shares[slot].name == name))
        slot++;
    return slot;
}

uint8_t share_open(struct node *node, struct name *name)
{
    uint32_t slot = name ? share_find(node, name) : node->share_count;

    if (slot < node->share_count)
        return (uint8_t)slot;
    slot = 0;
    while (slot < node->share_count && node->shares[slot].live)
        slot++;
    assert(slot < SHARES_MAX);
    if (slot == node->share_count) {
        struct share *shares = mem_alloc((slot + 4) * sizeof(*shares));

        if (slot)
            memcpy(shares, node->shares, slot * sizeof(*shares));
        mem_free(node->shares);
        node->shares = shares;
        node->share_count = slot + 4;
    }
    node->shares[slot] = (struct share){.live = true};
    share_name(&node->shares[slot], name);
    return (uint8_t)slot;
}

static void shares_change(struct pod *pod,
                          struct node *node,
                          enum status status,
                          const uint8_t *slots,
                          int64_t sign)
{
    int64_t memory = share_memory(pod, node);

    for (uint8_t i = 0; i < pod->share_count; i++) {
        struct share *share = &node->shares[slots[i]];

        share->live = true;
        /* Unless those who stayed on the device it remembers have given that another slot since. */
        if (!share->name && pod->sharing->names && pod->sharing->named_node == node &&
            pod->sharing->named_shares[i] == slots[i] &&
            share_find(node, pod->sharing->names[i]) == node->share_count)
            share_name(share, pod->sharing->names[i]);
        share_effect(node, share, -1);
        if (status == ST_RELEASING)
            share->releasing += sign * memory;
        else if (status == ST_PIPELINED)
            share->pipelined += sign * memory;
        else
            share->allocated += sign * memory;
        share->pod_count += (uint32_t)sign;
        share_effect(node, share, 1);
        if (!share->pod_count) {
            share_name(share, NULL);
            *share = (struct share){0};
        }
    }
}

static void node_change(struct pod *pod,
                        struct node *node,
                        enum status status,
                        const uint8_t *slots,
                        int64_t sign)
{
    bool idle = status != ST_PIPELINED;
    int64_t releasing = status == ST_RELEASING ? 1 : idle ? 0 : -1;

    for (size_t i = 0; i < pod->want_count; i++) {
        const struct want *want = &pod->wants[i];

        if (idle)
            node->idle[want->res] -= sign * want->amount;
        node->releasing[want->res] += sign * releasing * want->amount;
    }
    if (idle)
        node->idle[RES_PODS] -= sign;
    node->releasing[RES_PODS] += sign * releasing;
    shares_change(pod, node, status, slots, sign);
    node->legacy_mig += (uint32_t)(pod->shape->spec.legacy_mig ? sign : 0);
    for (size_t i = 0; idle && i < pod->device_count; i++) {
        uint64_t bit = UINT64_C(1) << (pod->devices[i] % 64);

        if (pod->devices[i] >= DEVICES_MAX)
            continue;
        uint64_t *word = &node->devices_used[pod->devices[i] / 64];
        *word = sign > 0 ? *word | bit : *word & ~bit;
    }
}

static void claims_change(struct pod *pod, struct node *node, int64_t sign)
{
    for (size_t i = 0; i < pod->claim_count; i++) {
        struct claim *claim = pod->claims[i];

        claim->holders += (uint32_t)sign;
        if (sign > 0)
            claim->node = node;
        else if (!claim->holders)
            claim->node = NULL;
    }
}

static void node_attach(struct sched *sched, struct pod *pod, struct node *node)
{
    sched->anti_pods += pod->shape->spec.anti_affinity_count ? 1 : 0;
    pod->node_index = (uint32_t)node->pods.count;
    VEC_PUSH(NULL, &node->pods, pod);
    node_change(pod, node, pod->status, pod_shares(pod), 1);
    claims_change(pod, node, 1);
}

static void node_detach(struct sched *sched, struct pod *pod, struct node *node)
{
    sched->anti_pods -= pod->shape->spec.anti_affinity_count ? 1 : 0;
    node_change(pod, node, pod->status, pod_shares(pod), -1);
    claims_change(pod, node, -1);
    VEC_REMOVE_SWAP(&node->pods, pod->node_index);
    if (pod->node_index < node->pods.count)
        node->pods.items[pod->node_index]->node_index = pod->node_index;
}

/* Of what it is charged, what counts as not preemptible in a group that is not. */
static int64_t fixed_part(const struct pod *pod, int r)
{
    int64_t claims = r == SCHED_GPU ? (int64_t)pod->claims_fixed - pod->claims_paid : 0;

    return pod->charge[r] + claims * GPU_MILLI;
}

void pod_weigh(const struct pod *pod, int64_t sign)
{
    const struct group *group = pod->group;

    if (!group || pod->set == SET_NONE || !pod->ours)
        return;
    bool active = ST_IN(pod->status, ST_ACTIVE);
    if (!active && pod->status != ST_PENDING)
        return;
    for (struct queue *queue = group->queue; queue; queue = queue->parent)
        for (int r = 0; r < SCHED_RESOURCES; r++) {
            if (!active) {
                queue->asked[r] += sign * pod->ask[r];
                continue;
            }
            queue->allocated[r] += sign * pod->charge[r];
            if (!group->preemptible)
                queue->fixed[r] += sign * fixed_part(pod, r);
        }
}

static void group_change(struct pod *pod, int32_t sign)
{
    if (!pod->group || pod->set == SET_NONE)
        return;
    pod->group->sets[pod->set].count[pod->status] += sign;
    pod->group->count[pod->status] += sign;
}

static struct undo place_of(struct pod *pod)
{
    struct undo place = {.pod = pod,
                         .node = pod->node,
                         .status = pod->status,
                         .share_count = pod->share_count,
                         .left = pod->left,
                         .placed_in = pod->placed_in,
                         .lent_for = pod->lent_for};

    if (pod->sharing) {
        memcpy(place.shares, pod->sharing->shares, sizeof(place.shares));
        memcpy(place.left_shares, pod->sharing->left_shares, sizeof(place.left_shares));
    }
    return place;
}

static void take_off(struct sched *sched, struct pod *pod)
{
    pod_weigh(pod, -1);
    group_change(pod, -1);
    if (pod->left)
        node_change(pod, pod->left, ST_RELEASING, pod_left_shares(pod), -1);
    if (ST_IN(pod->status, ST_USED) && pod->node) {
        node_detach(sched, pod, pod->node);
        sched->changed = true;
    }
}

static void put_on(struct sched *sched, struct pod *pod)
{
    if (pod->left)
        node_change(pod, pod->left, ST_RELEASING, pod_left_shares(pod), 1);
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

/* ---- claims that pods share ---- */
/* The devices of a claim are there once, and are counted once. Of the pods that hold room the first
 * pays for them; without such, the first that is promised room does, and while a pod that ends
 * still has them, that pod holds them on its node. Of the pods that wait the first asks for them,
 * as long as nobody pays.
 *
 * Who pays changes as pods come and go. Whether the devices can be had back does not: as long as a
 * pod uses them whose group is not wholly preemptible, its guard, they count as not preemptible,
 * whoever pays. */
struct payers {
    const struct pod *active;
    const struct pod *ending;
};

static const struct pod *first_user(const struct claim *claim, unsigned statuses)
{
    const struct pod *first = NULL;

    for (size_t i = 0; i < claim->users.count; i++) {
        const struct pod *user = claim->users.items[i];

        if (ST_IN(user->status, statuses) && (user->node || !ST_IN(user->status, ST_USED)) &&
            (!first || str_cmp(pod_key(user), pod_key(first)) < 0))
            first = user;
    }
    return first;
}

static struct payers claim_payers(const struct claim *claim)
{
    struct payers payers = {.active = first_user(claim, ST_ALLOCATED)};

    if (payers.active)
        return payers;
    payers.active = first_user(claim, ST_BIT(ST_PIPELINED));
    payers.ending = first_user(claim, ST_BIT(ST_RELEASING));
    return payers;
}

static bool claim_shared(const struct claim *claim)
{
    return claim->known && claim->gpu && !claim->from_template;
}

static const struct pod *claim_guard(const struct claim *claim)
{
    const struct pod *guard = NULL;

    for (size_t i = 0; claim_shared(claim) && i < claim->users.count; i++) {
        const struct pod *user = claim->users.items[i];

        if (ST_IN(user->status, ST_ACTIVE) && user->node && user->ours && user->group &&
            user->set != SET_NONE && (user->group->semi || !user->group->preemptible) &&
            (!guard || str_cmp(pod_key(user), pod_key(guard)) < 0))
            guard = user;
    }
    return guard;
}

void pod_claims_counted(const struct sched *sched, struct pod *pod)
{
    int64_t paid = 0;
    int64_t guarded = 0;

    for (size_t i = 0; i < pod->claim_count && !QUIRK(sched, CLAIM_PER_POD); i++) {
        const struct claim *claim = pod->claims[i];

        if (!claim_shared(claim))
            continue;
        paid += pod->wants[pod->shape->want_count + i].amount;
        guarded += claim->guard == pod ? claim->spec.device_count : 0;
    }
    pod->claims_paid = (uint16_t)i64_min(paid, UINT16_MAX);
    pod->claims_fixed = (uint16_t)i64_min(guarded, UINT16_MAX);
}

static int64_t claim_part(const struct claim *claim, struct payers payers, const struct pod *user)
{
    bool pays = ST_IN(user->status, ST_ACTIVE) ? user == payers.active
                : user->status == ST_RELEASING ? user == payers.ending
                                               : !payers.active;

    return pays ? claim->spec.device_count : 0;
}

int64_t claim_need(const struct sched *sched, const struct pod *pod, size_t index)
{
    const struct claim *claim = pod->claims[index];

    if (QUIRK(sched, CLAIM_PER_POD) || !claim->known)
        return pod->wants[pod->shape->want_count + index].amount;
    for (size_t i = 0; i < claim->users.count; i++) {
        const struct pod *user = claim->users.items[i];

        if (user != pod && ST_IN(user->status, ST_ACTIVE) && user->node)
            return 0;
    }
    return claim->spec.device_count;
}

/* The effects of a pod's wants, off or on. */
static void wants_change(struct pod *pod, int64_t sign)
{
    pod_weigh(pod, sign);
    if (pod->left)
        node_change(pod, pod->left, ST_RELEASING, pod_left_shares(pod), sign);
    if (ST_IN(pod->status, ST_USED) && pod->node)
        node_change(pod, pod->node, pod->status, pod_shares(pod), sign);
}

static void claim_charge(struct sched *sched, struct pod *pod, size_t index, int64_t amount)
{
    struct want *want = &pod->wants[pod->shape->want_count + index];

    wants_change(pod, -1);
    if (pod->claims[index]->gpu)
        pod->gpus += amount - want->amount;
    want->amount = amount;
    pod_claims_counted(sched, pod);
    pod_ask(sched, pod);
    if (ST_IN(pod->status, ST_USED) && pod->node)
        pod_charge(sched, pod, pod->node, pod->charge);
    wants_change(pod, 1);
    if (pod->group && pod->group->semi)
        group_charge_core(pod->group);
    if (pod->left)
        index_update(sched, pod->left);
    if (pod->node)
        index_update(sched, pod->node);
}

static void claim_settled(struct sched *sched, struct claim *claim)
{
    struct payers payers = claim_payers(claim);
    const struct pod *holder = payers.ending ? payers.ending : payers.active;
    const struct pod *asked = claim->asker;
    const struct pod *guarded = claim->guard;

    claim->promised = holder && holder->status == ST_PIPELINED;
    if (holder) /* where its devices are, not where it was last promised to go */
        claim->node = holder->node;
    claim->asker = payers.active ? NULL : first_user(claim, ST_BIT(ST_PENDING));
    claim->guard = claim_guard(claim);
    for (size_t u = 0; claim->known && u < claim->users.count; u++) {
        struct pod *user = claim->users.items[u];
        int64_t part = claim_part(claim, payers, user);
        bool turns = (user == asked) != (user == claim->asker) ||
                     (user == guarded) != (user == claim->guard);

        for (size_t i = 0; i < user->claim_count; i++)
            if (user->claims[i] == claim &&
                (turns || user->wants[user->shape->want_count + i].amount != part))
                claim_charge(sched, user, i, part);
    }
}

void claims_settled(struct sched *sched, const struct pod *pod)
{
    for (size_t i = 0; i < pod->claim_count && !QUIRK(sched, CLAIM_PER_POD); i++)
        claim_settled(sched, pod->claims[i]);
}

static void place_set(struct sched *sched, const struct undo *to)
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
        memcpy(pod->sharing->shares, to->shares, sizeof(to->shares));
        memcpy(pod->sharing->left_shares, to->left_shares, sizeof(to->left_shares));
    }
    put_on(sched, pod);
    for (size_t i = 0; i < 4; i++)
        if (touched[i])
            index_update(sched, touched[i]);
    if (pod->claim_count)
        claims_settled(sched, pod);
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
                      .lent_for = pod->lent_for};

    if (share_count)
        memcpy(to.shares, shares, share_count);
    if (sched->trying) {
        VEC_PUSH(NULL, &sched->journal, place_of(pod));
        if (status == ST_PIPELINED && pod->status == ST_RELEASING && pod->victim) {
            to.left = pod->node;
            if (pod->sharing)
                memcpy(to.left_shares, pod->sharing->shares, sizeof(to.left_shares));
        }
    }
    place_set(sched, &to);
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
        place_set(sched, &undo);
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
