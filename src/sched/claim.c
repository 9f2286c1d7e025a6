#include "sched/claim.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim *claim_get(struct sched *sched, struct str ns, struct str name, bool make)
{
    char text[KEY_BYTES];
    struct str key = sched_key(text, sizeof(text), ns, name);
    struct claim *claim = map_get(&sched->claims, key);

    if (claim || !make)
        return claim;
    claim = MEM_NEW(struct claim);
    claim->key = heap_str(key);
    map_set(&sched->claims, claim->key, claim);
    return claim;
}

void claim_release(struct sched *sched, struct claim *claim)
{
    if (claim->known || claim->users.count)
        return;
    map_remove(&sched->claims, claim->key);
    VEC_DONE(&claim->users);
    mem_free(claim->block);
    heap_str_free(claim->key);
    mem_free(claim);
}

void claims_weigh(struct pod *pod, struct node *node, int64_t sign)
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
        node_weigh(pod, pod->left, ST_RELEASING, pod_left_shares(pod), sign);
    if (ST_IN(pod->status, ST_USED) && pod->node)
        node_weigh(pod, pod->node, pod->status, pod_shares(pod), sign);
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
