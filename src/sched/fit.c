#include "sched/fit.h"

#include "base/count.h"
#include "base/str.h"
#include "sched/claim.h"
#include "sched/fragment.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/place.h"
#include "sched/pod.h"
#include "sched/pool.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a node has room: whole resources by subtraction, shared devices one by one. */

static enum place_filter resource_filter(uint32_t res)
{
    switch (res) {
    case RES_CPU: return PLACE_CPU;
    case RES_MEMORY: return PLACE_MEMORY;
    case RES_GPU: return PLACE_GPU;
    default: return PLACE_OTHER;
    }
}

static enum fit fit_slots(const struct sched *sched, const struct pod *pod, const struct node *node)
{
    int64_t need = 1;

    if (node->pool->policy.without_filters)
        return FIT_IDLE;
    if (pod->shape->shared && QUIRK(sched, TWO_POD_SLOTS) && !fit_share_open(pod, node))
        need = 2;
    if (node->idle[RES_PODS] + node->releasing[RES_PODS] < need)
        return FIT_NO;
    return node->idle[RES_PODS] >= need ? FIT_IDLE : FIT_RELEASING;
}

enum fit fit_resources(const struct sched *sched,
                       const struct pod *pod,
                       struct node *node,
                       enum place_filter *ret_short)
{
    enum fit fit = fit_slots(sched, pod, node);

    if (fit == FIT_NO) {
        *ret_short = PLACE_SLOTS;
        return FIT_NO;
    }
    for (size_t i = 0; i < pod->want_count; i++) {
        uint32_t res = pod->wants[i].res;
        size_t own = pod->shape->want_count; /* what follows are its claims */
        int64_t amount = i < own ? pod->wants[i].amount : claim_need(sched, pod, i - own);
        int64_t idle = node->idle[res];

        if (!amount) /* a claim that somebody else pays for */
            continue;
        /* Room promised to others makes `releasing` negative: it counts even where it is idle. */
        if (idle + node->releasing[res] < amount) {
            *ret_short = idle < amount ? resource_filter(res) : PLACE_RESERVED;
            return FIT_NO;
        }
        if (idle < amount)
            fit = FIT_RELEASING;
    }
    if (pod->shape->wants_mig && node->legacy_mig) {
        *ret_short = PLACE_GPU_TYPE;
        return FIT_NO;
    }
    return fit;
}

/* Who has a device of that number whole, or was promised it, and only else who leaves it, which may be
 * for whom it was promised to; NULL: nobody is known to. Only suspended pods are promised numbers. */
static const struct pod *device_user(const struct node *node, uint32_t number)
{
    const struct pod *leaving = NULL;

    for (size_t i = 0; i < node->pods.count; i++) {
        const struct pod *pod = node->pods.items[i];

        for (uint32_t d = 0; d < pod->device_count; d++) {
            if (pod->devices[d] != number || (pod->status == ST_PIPELINED && !pod->home))
                continue;
            if (pod->status != ST_RELEASING)
                return pod;
            leaving = pod;
        }
    }
    return leaving;
}

bool fit_promised(const struct node *node, const struct share *share)
{
    int64_t number = -1;

    return share->name && str_to_i64(share->name->text, &number) && number >= 0 &&
           device_user(node, (uint32_t)number);
}

/* Whether a device that pods may share can be had as a whole: FIT_RELEASING: all of them leave it. */
static enum fit device_unshared(const struct node *node, uint32_t number)
{
    for (uint32_t i = 0; i < node->share_count; i++) {
        const struct share *share = &node->shares[i];
        int64_t named = -1;

        if (share->live && share->name && str_to_i64(share->name->text, &named) &&
            named == (int64_t)number)
            return share->allocated || share->pipelined || share->kept ? FIT_NO : FIT_RELEASING;
    }
    return FIT_IDLE;
}

/* Whether a suspended pod had that device, or a share of it. */
static bool pod_had(const struct pod *pod, uint32_t number)
{
    for (uint32_t i = 0; i < pod->device_count; i++)
        if (pod->devices[i] == number)
            return true;
    for (int64_t i = 0; pod->sharing && pod->sharing->names && i < pod->shape->devices; i++) {
        int64_t named = -1;

        if (pod->sharing->names[i] && str_to_i64(pod->sharing->names[i]->text, &named) &&
            named == (int64_t)number)
            return true;
    }
    return false;
}

/* Whether a victim that stayed where it is would keep a device that a suspended pod was promised. */
static bool device_promised(const struct pod *pod, const struct node *node)
{
    for (size_t i = 0; pod->node == node && i < node->pods.count; i++) {
        const struct pod *other = node->pods.items[i];

        for (uint32_t d = 0; other->home && other->status == ST_PIPELINED && d < pod->device_count;
             d++)
            if (pod_had(other, pod->devices[d]))
                return true;
    }
    return false;
}

enum fit fit_devices(const struct pod *pod, const struct node *node)
{
    enum fit fit = FIT_IDLE;

    if (!pod->home)
        return pod->victim && device_promised(pod, node) ? FIT_NO : FIT_IDLE;

    for (uint32_t i = 0; i < pod->device_count; i++) {
        const struct pod *user = device_user(node, pod->devices[i]);
        enum fit unshared = device_unshared(node, pod->devices[i]);

        if (unshared == FIT_NO || (user && user->status != ST_RELEASING))
            return FIT_NO;
        if (user || unshared == FIT_RELEASING)
            fit = FIT_RELEASING;
    }
    return fit;
}

enum fit fit_zones(const struct pod *pod, const struct node *node, uint32_t *ret_span)
{
    const struct numa *numa = node->numa;
    struct str ignore = str_from(node->pool->policy.numa_ignore);
    numa_row idle[NUMA_ZONES_MAX];
    struct numa_taken taken;
    enum fit fit = FIT_IDLE;

    *ret_span = 0;
    if (pod->home) /* one that is suspended has kept its CPUs and memory */
        return FIT_IDLE;
    if (pod->victim && pod->node == node)
        return numa_stays(pod, node) ? FIT_IDLE : FIT_NO;
    numa_idle(numa, idle);
    if (!numa_evaluate(numa, idle, &pod->shape->spec, ignore, &taken)) {
        if (!numa_evaluate(numa, numa->soon, &pod->shape->spec, ignore, &taken))
            return FIT_NO;
        fit = FIT_RELEASING;
    }
    *ret_span = taken.span;
    return fit;
}

/* A shared device as a candidate. */
struct choice {
    int64_t used; /* MiB; -1 for a device nobody uses */
    int64_t cost; /* where fragments count: what is left unusable */
    uint8_t slot;
    bool opens;     /* takes a device that is whole now */
    bool releasing; /* needs room that is still being given up */
};

static bool share_usable(const struct share *share, int64_t total, int64_t memory)
{
    if (!share->live || (!share->allocated && !share->pipelined && !share->kept))
        return false;
    return total - share->allocated - share->pipelined >= memory;
}

/* Nobody has been on it yet: it is one of the node's whole devices, of those that are idle or of those
 * that are still somebody else's. */
static bool share_is_promised(const struct share *share)
{
    return !share->allocated && !share->releasing && !share->kept;
}

static bool share_needs_releasing(const struct share *share, int64_t total, int64_t memory)
{
    return total - share->allocated - i64_max(share->releasing, share->pipelined) < memory;
}

bool fit_share_open(const struct pod *pod, const struct node *node)
{
    int64_t memory = share_memory(pod, node);

    for (uint32_t i = 0; i < node->share_count; i++)
        if (share_usable(&node->shares[i], node->gpu_memory, memory))
            return true;
    return false;
}

/* Existing shares come before whole devices when packing, after them when spreading. */
static bool choice_better(enum sched_strategy strategy,
                          const struct choice *a,
                          const struct choice *b)
{
    if (fragment_strategy(strategy) && a->cost != b->cost)
        return a->cost < b->cost;
    if (strategy == SCHED_SPREAD)
        return a->used < b->used;
    return a->used > b->used;
}

/* Whole devices that could be opened for sharing. */
static int64_t node_unopened(const struct sched *sched, const struct node *node)
{
    int64_t whole = node->releasing[RES_GPU] < 0
                        ? i64_max(0, node->idle[RES_GPU] + node->releasing[RES_GPU])
                        : i64_max(0, node->idle[RES_GPU]) + node->releasing[RES_GPU];

    return sched->now_ms < node->shut_ms ? 0 : i64_min(whole, shares_left(node));
}

static size_t choices_collect(const struct sched *sched,
                              const struct pod *pod,
                              const struct node *node,
                              struct choice *choices,
                              size_t choice_max)
{
    int64_t memory = share_memory(pod, node);
    int64_t whole = node_unopened(sched, node);
    size_t count = 0;

    for (uint32_t i = 0; i < node->share_count && count < choice_max; i++) {
        const struct share *share = &node->shares[i];

        if (!share_usable(share, node->gpu_memory, memory))
            continue;
        choices[count++] =
            (struct choice){.used = share->allocated + share->releasing + share->pipelined,
                            .slot = (uint8_t)i,
                            .opens = share_is_promised(share),
                            .releasing = share_needs_releasing(share, node->gpu_memory, memory)};
    }
    for (int64_t i = 0; i < whole && count < choice_max; i++)
        choices[count++] = (struct choice){.used = -1, .opens = true};
    return count;
}

/* What each choice would leave unusable, where that is what is asked for. */
static void choices_weigh(struct sched *sched,
                          const struct pod *pod,
                          const struct node *node,
                          struct choice *choices,
                          size_t count)
{
    int64_t memory = i64_max(1, node->gpu_memory);

    if (!sched->fragment || !fragment_strategy(node->pool->policy.gpu_strategy) ||
        pod->shape->devices > 1)
        return;
    for (size_t i = 0; i < count; i++)
        choices[i].cost = fragment_share_growth(
            sched, pod, node,
            choices[i].used < 0 ? GPU_MILLI
                                : (node->gpu_memory - choices[i].used) * GPU_MILLI / memory);
}

/* The shared device of that name; NULL: nobody shares it now. */
static const struct share *share_named(const struct node *node,
                                       const struct name *name,
                                       uint8_t *ret_slot)
{
    for (uint32_t i = 0; i < node->share_count; i++)
        if (node->shares[i].live && node->shares[i].name == name) {
            *ret_slot = (uint8_t)i;
            return &node->shares[i];
        }
    return NULL;
}

/* Where reservation pods hold the devices, those of a suspended pod are open as long as it is there. */
static bool fit_kept_shares(const struct pod *pod, const struct node *node, struct placement *ret)
{
    int64_t memory = share_memory(pod, node);

    if (pod->shape->devices > SHARE_DEVICES_MAX || !pod->sharing->names)
        return false;
    ret->share_count = 0;
    for (int64_t i = 0; i < pod->shape->devices; i++) {
        const struct name *name = pod->sharing->names[i];
        uint8_t slot = SHARES_MAX;
        const struct share *share = name ? share_named(node, name, &slot) : NULL;

        if (!share || !share_usable(share, node->gpu_memory, memory))
            return false;
        if (share_needs_releasing(share, node->gpu_memory, memory))
            ret->fit = FIT_RELEASING;
        ret->shares[ret->share_count++] = slot;
    }
    return true;
}

/* A pod that is suspended had its shares of these very devices: on each there is room beside those
 * who share it now, or nobody has it and it can be opened anew. */
static bool fit_home_shares(const struct sched *sched,
                            const struct pod *pod,
                            const struct node *node,
                            struct placement *ret)
{
    int64_t memory = share_memory(pod, node);
    int64_t whole = node_unopened(sched, node);
    int64_t anew = 0;
    int64_t opened = 0;

    if (pod->shape->devices > SHARE_DEVICES_MAX)
        return false;
    ret->share_count = 0;
    for (int64_t i = 0; i < pod->shape->devices; i++) {
        const struct name *name = pod->sharing->names ? pod->sharing->names[i] : NULL;
        uint8_t slot = SHARES_MAX;
        int64_t number = -1;

        if (!name || !str_to_i64(name->text, &number) || number < 0)
            return false;
        const struct share *share = share_named(node, name, &slot);
        const struct pod *user = device_user(node, (uint32_t)number);
        if (share ? node->gpu_memory - share->allocated - share->pipelined < memory
                  : (user && user->status != ST_RELEASING) || anew >= whole)
            return false;
        bool opens = !share || share_is_promised(share);
        if (opens ? user || opened >= node->idle[RES_GPU]
                  : share_needs_releasing(share, node->gpu_memory, memory))
            ret->fit = FIT_RELEASING;
        anew += !share;
        opened += opens;
        ret->shares[ret->share_count++] = slot;
    }
    return true;
}

/* Puts so many in front, the best first; those that are equally good stay as they are. */
static void choices_sort(enum sched_strategy strategy,
                         struct choice *choices,
                         size_t count,
                         size_t most)
{
    for (size_t n = 0; n < most; n++) {
        size_t best = n;

        for (size_t i = best + 1; i < count; i++)
            if (choice_better(strategy, &choices[i], &choices[best]))
                best = i;
        struct choice pick = choices[best];
        for (size_t i = best; i > n; i--) /* keep the order of the rest */
            choices[i] = choices[i - 1];
        choices[n] = pick;
    }
}

/* Goes on to the next set of so many choices that differs from those before it: others in its last
 * places first. */
static bool set_next(const struct choice *choices, size_t count, size_t *set, size_t devices)
{
    for (size_t at = devices; at-- > 0;) {
        const struct choice *now = &choices[set[at]];
        size_t next = set[at] + 1;

        while (next < count && choices[next].used == now->used &&
               choices[next].opens == now->opens && choices[next].releasing == now->releasing)
            next++;
        if (next + devices - at > count)
            continue;
        for (size_t i = at; i < devices; i++)
            set[i] = next + i - at;
        return true;
    }
    return false;
}

bool fit_shares(struct sched *sched,
                const struct pod *pod,
                struct node *node,
                struct placement *ret)
{
    struct choice choices[SHARES_MAX + SHARE_DEVICES_MAX];

    if (pod->home && sched->config.devices == SCHED_DEVICES_RESERVED)
        return fit_kept_shares(pod, node, ret);
    if (pod->home)
        return fit_home_shares(sched, pod, node, ret);
    size_t count = choices_collect(sched, pod, node, choices, COUNT_OF(choices));

    if (count > 1)
        choices_weigh(sched, pod, node, choices, count);
    if (sched->now_ms < node->shut_ms)
        sched_wake(sched, node->shut_ms);

    if (share_memory(pod, node) > node->gpu_memory || pod->shape->devices > SHARE_DEVICES_MAX ||
        (int64_t)count < pod->shape->devices)
        return false;
    int64_t opened = 0;
    size_t devices = (size_t)pod->shape->devices;
    size_t set[SHARE_DEVICES_MAX];
    choices_sort(node->pool->policy.gpu_strategy, choices, count, ret->way ? count : devices);
    for (size_t n = 0; n < devices; n++)
        set[n] = n;
    for (uint8_t way = ret->way; way; way--)
        if (!set_next(choices, count, set, devices))
            return false;
    ret->share_count = 0;
    for (size_t n = 0; n < devices; n++) {
        struct choice pick = choices[set[n]];

        opened += pick.opens;
        if (pick.releasing || (pick.opens && opened > node->idle[RES_GPU]))
            ret->fit = FIT_RELEASING;
        ret->shares[ret->share_count++] = pick.used < 0 ? SHARES_MAX : pick.slot;
    }
    return true;
}
