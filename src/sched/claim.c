#include "sched/claim.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/charge.h"
#include "sched/decode.h"
#include "sched/device.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/nodeindex.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/shape.h"
#include "sched/spec.h"
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

struct str claim_name(const struct claim *claim)
{
    size_t slash = str_find(claim->key, '/');

    return str_sub(claim->key, slash + 1, claim->key.len);
}

void claim_release(struct sched *sched, struct claim *claim)
{
    if (claim->known || claim->users.count)
        return;
    map_remove(&sched->claims, claim->key);
    claim_forget_picks(sched, claim);
    device_ask_free(sched->devices, claim->ask);
    arena_done(&claim->allocation);
    heap_str_free(claim->trouble);
    VEC_DONE(&claim->picks);
    VEC_DONE(&claim->users);
    mem_free(claim->block);
    heap_str_free(claim->key);
    mem_free(claim);
}

/* ---- devices ---- */
static void hold_set(struct claim *claim, enum hold hold)
{
    for (size_t i = 0; claim->hold != hold && i < claim->picks.count; i++) {
        struct device *device = claim->picks.items[i].device;

        device->firm += (uint32_t)(hold == HOLD_FIRM) - (uint32_t)(claim->hold == HOLD_FIRM);
        device->ending += (uint32_t)(hold == HOLD_ENDING) - (uint32_t)(claim->hold == HOLD_ENDING);
        device->promised +=
            (uint32_t)(hold == HOLD_PROMISED) - (uint32_t)(claim->hold == HOLD_PROMISED);
    }
    claim->hold = hold;
}

/* What its users make of its devices. */
static void claim_hold(struct claim *claim)
{
    unsigned seen = 0;

    for (size_t i = 0; i < claim->users.count; i++)
        if (claim->users.items[i]->node)
            seen |= ST_BIT(claim->users.items[i]->status);
    if (seen & (ST_ALLOCATED | ST_BIT(ST_STUCK)))
        hold_set(claim, HOLD_FIRM);
    else if (seen & ST_BIT(ST_PIPELINED))
        hold_set(claim, claim->allocated ? HOLD_FIRM : HOLD_PROMISED);
    else if (claim->allocated && !claim->users.count && claim->spec.consumers)
        hold_set(claim, HOLD_FIRM); /* of a pod that has it without naming it */
    else if (claim->allocated || (seen & ST_BIT(ST_RELEASING)))
        hold_set(claim, HOLD_ENDING);
    else
        hold_set(claim, HOLD_NONE);
}

void claim_forget_picks(struct sched *sched, struct claim *claim)
{
    hold_set(claim, HOLD_NONE);
    for (size_t i = 0; i < claim->picks.count; i++)
        device_unref(sched->devices, claim->picks.items[i].device);
    claim->picks.count = 0;
    claim->picked_on = NULL;
}

static void claim_take_allocation(struct sched *sched,
                                  struct claim *claim,
                                  const struct json *allocation)
{
    const struct json *terms = json_at(allocation, "nodeSelector.nodeSelectorTerms");

    arena_done(&claim->allocation);
    claim->allocation = (struct arena){0};
    claim->terms = NULL;
    claim->term_count = 0;
    claim->allocated = allocation != NULL;
    if (!allocation)
        return;
    claim_forget_picks(sched, claim);
    struct json *copy = json_clone(&claim->allocation, terms);
    struct sched_node_term *list =
        ARENA_ARRAY(&claim->allocation, struct sched_node_term, json_count(copy) + 1);
    JSON_FOREACH(copy, item) {
        struct sched_node_term *to = &list[claim->term_count++];

        *to = (struct sched_node_term){0};
        to->labels = decode_expressions(&claim->allocation, json_get(item, "matchExpressions"),
                                        &to->label_count);
        to->fields =
            decode_expressions(&claim->allocation, json_get(item, "matchFields"), &to->field_count);
    }
    claim->terms = list;
    JSON_FOREACH(json_at(allocation, "devices.results"), item)
        VEC_PUSH(
            NULL, &claim->picks,
            (struct pick){.device = device_get(sched->devices, json_str(json_get(item, "driver")),
                                               json_str(json_get(item, "pool")),
                                               json_str(json_get(item, "device")))});
}

void claim_describe(struct sched *sched, struct claim *claim, const struct sched_claim *spec)
{
    if (!spec->devices)
        return;
    if (!claim->ask) /* it never changes */
        claim->ask = device_ask_new(sched->devices, spec->devices);
    claim->spec.device_count =
        device_ask_gpus(claim->ask, json_at(spec->allocation, "devices.results"));
    if (spec->allocation || claim->allocated)
        claim_take_allocation(sched, claim, spec->allocation);
    claim_hold(claim);
}

bool claim_reaches(const struct claim *claim, const struct node *node)
{
    if (claim->allocated) {
        for (size_t i = 0; i < claim->term_count; i++)
            if (node_term_matches(node, &claim->terms[i]))
                return true;
        return !claim->term_count;
    }
    if (claim->hold == HOLD_NONE || claim->picked_on == node)
        return true;
    for (size_t i = 0; i < claim->picks.count; i++)
        if (!device_is_everywhere(claim->picks.items[i].device))
            return false;
    return true;
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
        if (!claim->holders && !claim->allocated)
            hold_set(claim, HOLD_NONE);
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
    for (size_t i = 0; i < pod->claim_count; i++) {
        if (!QUIRK(sched, CLAIM_PER_POD))
            claim_settled(sched, pod->claims[i]);
        claim_hold(pod->claims[i]);
    }
}
