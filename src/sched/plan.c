#include "sched/plan.h"

#include "api/suspend.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/action.h"
#include "sched/alike.h"
#include "sched/claim.h"
#include "sched/device.h"
#include "sched/explain.h"
#include "sched/filter.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/numa.h"
#include "sched/pending.h"
#include "sched/pick.h"
#include "sched/pod.h"
#include "sched/queue.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/state.h"
#include "sched/volume.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(struct sched_bind) <= 144, "a plan may have one for every pod");

/* From what the cycle did to the list of what has to be done. A pod that the cycle touched is
 * compared with where it was at the start; attempts that were rolled back leave no trace. */
struct plan {
    VEC(struct sched_bind) binds;
    VEC(struct sched_evict) evicts;
    VEC(struct sched_nominate) nominates;
    VEC(struct sched_waiting) waiting;
    VEC(struct sched_note) notes;
    uint32_t batches;
    /* The pods of a gang come one after the other, and many to one node: names are copied once. */
    const struct group *named_group;
    struct str group_name;
    const struct node *named_node;
    struct str node_name;
};

static struct sched_pod_ref ref_of(struct sched *sched, const struct pod *pod)
{
    size_t key_len = pod->ns_len + 1 + pod->name_len;
    const char *text = str_dup(sched->arena, (struct str){pod->text, key_len + pod->uid_len}).p;

    return (struct sched_pod_ref){{text, pod->ns_len},
                                  {text + pod->ns_len + 1, pod->name_len},
                                  {text + key_len, pod->uid_len}};
}

static struct str group_named(struct sched *sched, struct plan *plan, const struct group *group)
{
    if (plan->named_group != group) {
        plan->named_group = group;
        plan->group_name = str_dup(sched->arena, group->name);
    }
    return plan->group_name;
}

static struct str node_named(struct sched *sched, struct plan *plan, const struct node *node)
{
    if (plan->named_node != node) {
        plan->named_node = node;
        plan->node_name = str_dup(sched->arena, node->name);
    }
    return plan->node_name;
}

/* ---- device numbers ---- */
/* Whether a suspended pod can go on on this device only. */
static bool number_awaited(const struct sched *sched, const struct node *node, uint32_t number)
{
    for (size_t i = 0; i < sched->homed.count; i++) {
        const struct pod *pod = sched->homed.items[i];

        if (!str_eq(pod->home->text, node->name))
            continue;
        for (uint32_t d = 0; d < pod->device_count; d++)
            if (pod->devices[d] == number)
                return true;
        for (int64_t d = 0; pod->sharing && pod->sharing->names && d < pod->shape->devices; d++) {
            int64_t named = -1;

            if (pod->sharing->names[d] && str_to_i64(pod->sharing->names[d]->text, &named) &&
                named == (int64_t)number)
                return true;
        }
    }
    return false;
}

/* The lowest number from `from` on that nobody is known to use; of those one that nobody waits for,
 * if there is any, from 0 on. */
static uint32_t free_number(const struct sched *sched, const struct node *node, uint32_t from)
{
    for (uint32_t i = 0;
         sched->homed.count && i < (uint32_t)node->total[RES_GPU] && i < DEVICES_MAX; i++)
        if (!device_is_used(node, i) && !number_awaited(sched, node, i))
            return i;
    if (sched->homed.count)
        from = 0;
    while (from < DEVICES_MAX && device_is_used(node, from))
        from++;
    return from;
}

static void number_whole(const struct sched *sched, struct pod *pod)
{
    struct node *node = pod->node;
    uint32_t numbers[DEVICES_MAX];
    uint32_t next = 0;
    int64_t count = 0;

    if (sched->config.devices != SCHED_DEVICES_NUMBERED || pod->gpus <= 0 || pod->claim_count ||
        pod->gpus > DEVICES_MAX || pod->home)
        return;
    for (int64_t i = 0; i < pod->gpus; i++) {
        numbers[i] = free_number(sched, node, next);
        if (numbers[i] >= DEVICES_MAX)
            break;
        next = numbers[i] + 1;
        node->devices_used[numbers[i] / 64] |= UINT64_C(1) << (numbers[i] % 64);
        count++;
    }
    for (int64_t i = 0; count < pod->gpus && i < count; i++)
        node->devices_used[numbers[i] / 64] &= ~(UINT64_C(1) << (numbers[i] % 64));
    if (count < pod->gpus)
        return;
    pod_number(pod, numbers, (size_t)pod->gpus);
    pod->devices_planned = true;
}

static bool share_has_name(const struct node *node, struct str name)
{
    for (uint32_t i = 0; i < node->share_count; i++)
        if (node->shares[i].live && node->shares[i].name &&
            str_eq(node->shares[i].name->text, name))
            return true;
    return false;
}

/* A shared device gets the lowest free number; where somebody else numbers devices it is named
 * after the pod that is its first user, which no other device of any time is. */
static struct str new_share_name(struct sched *sched, const struct pod *pod)
{
    struct str name = pod_uid(pod);

    if (sched->config.devices == SCHED_DEVICES_NUMBERED)
        return str_printf(sched->arena, "%u", free_number(sched, pod->node, 0));
    for (unsigned i = 1; share_has_name(pod->node, name); i++)
        name = str_printf(sched->arena, STR_FMT "-%u", STR_ARG(pod_uid(pod)), i);
    return name;
}

static void name_shares(struct sched *sched, struct pod *pod)
{
    struct node *node = pod->node;
    struct sharing *sharing = pod->sharing;

    if (!sharing->names)
        sharing->names = mem_alloc((size_t)pod->shape->devices * sizeof(*sharing->names));
    for (uint8_t i = 0; i < pod->share_count; i++) {
        struct share *share = &node->shares[sharing->shares[i]];
        struct name *old = sharing->names[i];

        sharing->named_shares[i] = sharing->shares[i];
        if (share->name) {
            sharing->names[i] = name_get(sched, share->name->text);
        } else if (pod->home && old && !share_has_name(node, old->text)) {
            sharing->names[i] = name_get(sched, old->text);
            share_name(share, old);
        } else {
            sharing->names[i] = name_get(sched, new_share_name(sched, pod));
            share_name(share, sharing->names[i]);
        }
        name_unref(sched, old);
    }
    sharing->named_node = node;
}

/* ---- binds, evictions, nominations ---- */

/* KAI has nothing like suspension. That a share takes two pod slots is so with our reservation pods
 * too, whoever is mimicked. */
static bool plan_mimics(const struct sched *sched)
{
    return (sched->config.quirks & ~SCHED_QUIRK(TWO_POD_SLOTS)) != 0;
}

static void bind_devices(struct sched *sched, struct pod *pod, struct sched_bind *bind)
{
    size_t count = pod->share_count ? pod->share_count : pod->device_count;
    uint32_t *devices = count ? ARENA_ARRAY(sched->arena, uint32_t, count) : NULL;
    struct str *names = pod->share_count ? ARENA_ARRAY(sched->arena, struct str, count) : NULL;

    bind->devices = devices;
    for (size_t i = 0; i < count; i++) {
        int64_t number = -1;

        if (!pod->share_count) {
            devices[bind->device_count++] = pod->devices[i];
            continue;
        }
        names[i] = str_dup(sched->arena, pod->sharing->names[i]->text);
        if (sched->config.devices == SCHED_DEVICES_NUMBERED && str_to_i64(names[i], &number) &&
            number >= 0 && number < DEVICES_MAX)
            devices[bind->device_count++] = (uint32_t)number;
    }
    if (pod->share_count) {
        bind->gpu_groups = names;
        bind->gpu_group_count = (uint32_t)count;
        bind->gpu_fraction_micro = pod->shape->spec.gpu_fraction_micro;
        bind->gpu_memory_mib = share_memory(pod, pod->node);
        if (!bind->gpu_fraction_micro && pod->node->gpu_memory > 0)
            bind->gpu_fraction_micro = bind->gpu_memory_mib * 1000000 / pod->node->gpu_memory;
    }
}

/* What its claims are given, and that it has them. */
static void bind_claims(struct sched *sched, const struct pod *pod, struct sched_bind_more *more)
{
    struct sched_bind_claim *claims =
        ARENA_ARRAY(sched->arena, struct sched_bind_claim, pod->claim_count + 1);

    more->claims = claims;
    for (size_t i = 0; i < pod->claim_count; i++) {
        const struct claim *claim = pod->claims[i];
        struct sched_bind_device *devices =
            ARENA_ARRAY(sched->arena, struct sched_bind_device, claim->picks.count + 1);
        struct str name = claim_name(claim);

        if (!claim->ask)
            continue;
        claims[more->claim_count++] =
            (struct sched_bind_claim){.name = str_dup(sched->arena, name),
                                      .devices = devices,
                                      .device_count = claim->allocated ? 0 : claim->picks.count,
                                      .everywhere = true};
        for (size_t p = 0; !claim->allocated && p < claim->picks.count; p++) {
            const struct pick *pick = &claim->picks.items[p];

            devices[p] = (struct sched_bind_device){
                .request = str_dup(sched->arena, pick->choice ? pick->choice->name : STR("")),
                .class = str_dup(sched->arena, pick->choice ? pick->choice->class : STR("")),
                .driver = str_dup(sched->arena, pick->device->driver),
                .pool = str_dup(sched->arena, pick->device->pool),
                .device = str_dup(sched->arena, pick->device->name)};
            if (!device_is_everywhere(pick->device))
                claims[more->claim_count - 1].everywhere = false;
        }
    }
}

/* GPUs that the pod has not claimed, on a node where they are: a claim is made for it. */
static void bind_whole(struct sched *sched, struct pod *pod, struct sched_bind_more *more)
{
    const struct device_class *class = device_class_of_gpus(sched->devices);

    if (!pod->whole_count)
        pick_whole(sched, pod, pod->node);
    struct sched_bind_device *devices =
        ARENA_ARRAY(sched->arena, struct sched_bind_device, pod->whole_count + 1);
    for (uint32_t i = 0; i < pod->whole_count; i++)
        devices[i] = (struct sched_bind_device){
            .class = str_dup(sched->arena, class ? class->name : STR("")),
            .driver = str_dup(sched->arena, pod->whole[i]->driver),
            .pool = str_dup(sched->arena, pod->whole[i]->pool),
            .device = str_dup(sched->arena, pod->whole[i]->name)};
    more->whole = devices;
    more->whole_count = pod->whole_count;
    more->whole_gpus = pod->shape->spec.gpus;
}

static bool pod_waits_for_volumes(const struct pod *pod)
{
    for (size_t i = 0; pod->shape->mounts && i < pod->shape->volume_count; i++)
        if (volume_is_unbound(pod->shape->volumes[i]))
            return true;
    return false;
}

static void bind_volumes(struct sched *sched, const struct pod *pod, struct sched_bind_more *more)
{
    const struct shape *shape = pod->shape;
    struct sched_bind_volume *volumes =
        ARENA_ARRAY(sched->arena, struct sched_bind_volume, shape->volume_count + 1);

    more->volumes = volumes;
    for (size_t i = 0; i < shape->volume_count; i++) {
        const struct volume *volume = shape->volumes[i];

        if (volume_is_unbound(volume))
            volumes[more->volume_count++] = (struct sched_bind_volume){
                .claim = str_dup(sched->arena, volume_name(volume)),
                .volume = volume->pick ? str_dup(sched->arena, volume->pick->spec.name) : STR(""),
                .node = str_dup(sched->arena, volume->node ? volume->node->name : STR(""))};
    }
}

static void bind_zones(struct sched *sched, struct pod *pod, struct sched_bind_more *more)
{
    const struct sched_zone_part *parts = numa_bound(pod, &more->zone_part_count);
    struct sched_zone_part *copy =
        ARENA_ARRAY(sched->arena, struct sched_zone_part, more->zone_part_count + 1);

    for (size_t i = 0; i < more->zone_part_count; i++)
        copy[i] = (struct sched_zone_part){str_dup(sched->arena, parts[i].zone),
                                           str_dup(sched->arena, parts[i].name), parts[i].amount};
    more->zone_parts = copy;
}

static enum sched_loss group_loss(const struct group *group)
{
    enum sched_loss loss = group->loss;

    for (const struct queue *queue = group->queue; queue && !loss; queue = queue->parent)
        loss = queue->spec.loss;
    return loss;
}

static void emit_bind(struct sched *sched, struct plan *plan, struct pod *pod)
{
    struct group *group = pod->group;
    struct sched_bind bind = {.pod = ref_of(sched, pod),
                              .group = group_named(sched, plan, group),
                              .node = node_named(sched, plan, pod->node),
                              .resume = pod->home != NULL,
                              .created_ms = pod->created_ms};
    bool whole = !pod->share_count && pod->shape->spec.gpus && !pod->node->spec.gpus &&
                 pod->node->device_gpus;
    bool mounts = pod_waits_for_volumes(pod);
    struct sched_bind_more *more = whole || mounts || pod->zones || pod->claim_count
                                       ? ARENA_NEW(sched->arena, struct sched_bind_more)
                                       : NULL;

    if (group->batch_cycle != sched->cycle) {
        group->batch_cycle = sched->cycle;
        group->batch = plan->batches++;
        group->first_start = true;
        for (size_t i = 0; i < group->pods.count; i++)
            if (ST_IN(group->pods.items[i]->status, ST_ALLOCATED) && !group->pods.items[i]->logged)
                group->first_start = false;
        if (group->first_start)
            group->last_start_ms = sched->now_ms;
    }
    bind.batch = group->batch;
    bind.first_start = group->first_start;
    bind.may_suspend = group_loss(group) == SCHED_LOSS_SUSPEND && !plan_mimics(sched);
    bind.more = more;
    if (pod->share_count)
        name_shares(sched, pod);
    else if (whole)
        bind_whole(sched, pod, more);
    else
        number_whole(sched, pod);
    bind_devices(sched, pod, &bind);
    assert(more || (!pod->zones && !pod->claim_count && !mounts));
    if (mounts)
        bind_volumes(sched, pod, more);
    if (pod->zones)
        bind_zones(sched, pod, more);
    if (pod->claim_count)
        bind_claims(sched, pod, more);
    VEC_PUSH(sched->arena, &plan->binds, bind);
}

static void emit_nominate(struct sched *sched, struct plan *plan, struct pod *pod)
{
    VEC_PUSH(sched->arena, &plan->nominates,
             (struct sched_nominate){ref_of(sched, pod), group_named(sched, plan, pod->group),
                                     node_named(sched, plan, pod->node)});
}

static struct str evict_message(struct sched *sched, const struct pod *pod)
{
    const struct group *by = pod->evicted_for;

    if (!by && group_timed_out(sched, pod->group))
        return str_printf(
            sched->arena, "gang " STR_FMT " has run for its maxRunTime of " STR_FMT "%s",
            STR_ARG(pod->group->name), STR_ARG(time_age(sched->arena, pod->group->max_run_ms)),
            pod->group->requeue ? ", and is queued again" : "");
    if (!by)
        return str_printf(sched->arena, "gang " STR_FMT " has fewer pods than its minimum",
                          STR_ARG(pod->group->name));
    const char *what = pod->action == SCHED_ACTION_RECLAIM   ? "reclaimed for "
                       : pod->action == SCHED_ACTION_PREEMPT ? "preempted by "
                       : pod->action == SCHED_ACTION_RESERVE ? "gives back room that was kept for "
                                                             : "moved to make room for ";
    return str_printf(sched->arena, "%s" STR_FMT "/" STR_FMT " of queue " STR_FMT, what,
                      STR_ARG(by->ns), STR_ARG(by->name), STR_ARG(name_text(by->queue_name)));
}

/* A group that keeps off others for a while does so anew when it loses pods to them. */
static void note_eviction(struct sched *sched, struct plan *plan, struct group *group)
{
    if (group->preempt_delay_ms <= 0 || group->last_eviction_ms == sched->now_ms)
        return;
    group->last_eviction_ms = sched->now_ms;
    VEC_PUSH(sched->arena, &plan->notes,
             (struct sched_note){str_dup(sched->arena, group->ns),
                                 str_dup(sched->arena, group->name), SCHED_NOTE_EVICTED});
}

/* ---- suspension instead of eviction ---- */

/* Whether it is known which devices it has: it goes on on the same. */
static bool pod_is_numbered(const struct pod *pod)
{
    if (!pod->shape->shared)
        return pod->device_count == pod->gpus;
    for (uint8_t i = 0; i < pod->share_count; i++)
        if (!pod->sharing->names || !pod->sharing->names[i])
            return false;
    return pod->share_count > 0;
}

/* Where reservation pods hold devices, one that is shared is never free as a whole while anybody of
 * it is there: it must not be wanted so. */
static bool devices_stay_shared(const struct pod *pod)
{
    const struct node *node = pod->node;
    const struct group *by = pod->evicted_for;

    for (size_t i = 0; i < by->pods.count; i++)
        if (!by->pods.items[i]->shape->shared && by->pods.items[i]->gpus)
            return false;
    for (size_t i = 0; i < node->pods.count; i++)
        if (node->pods.items[i]->status == ST_PIPELINED && node->pods.items[i]->gpus)
            return false;
    return true;
}

/* Whether the pod can give up its GPUs, or shares of them, and have them back: on a node whose agent
 * does it, or with our library in it. */
static bool pod_may_stay(const struct sched *sched, const struct pod *pod)
{
    bool reserved = sched->config.devices == SCHED_DEVICES_RESERVED;

    return pod->status == ST_RELEASING && pod->logged && pod->evicted_for && !pod->evicting &&
           pod->observed == ST_RUNNING && pod->observed_node == pod->node && !pod->claim_count &&
           !pod->shape->wants_mig && pod_is_numbered(pod) &&
           (reserved ? pod->movable && devices_stay_shared(pod)
                     : node_label(pod->node, STR(SUSPEND_LABEL)).len > 0);
}

/* A gang stands still as a whole: every pod of it that has not ended gives way now. Without a GPU it
 * would make no room. Never where KAI is mimicked, which has no such thing. */
static bool group_may_stay(const struct sched *sched, const struct group *group)
{
    int64_t gpus = 0;

    if (group_loss(group) != SCHED_LOSS_SUSPEND || plan_mimics(sched) ||
        sched->config.devices == SCHED_DEVICES_WHOLE || group_timed_out(sched, group))
        return false;
    for (size_t i = 0; i < group->pods.count; i++) {
        const struct pod *pod = group->pods.items[i];

        if (pod->stand_in || pod->status == ST_SUCCEEDED || pod->status == ST_FAILED)
            continue;
        if (!pod_may_stay(sched, pod))
            return false;
        gpus += (int64_t)pod->device_count + pod->share_count;
    }
    return gpus > 0;
}

static void mark_suspended(struct sched *sched)
{
    for (size_t i = 0; i < sched->touched.count; i++) {
        const struct undo *start = &sched->touched.items[i];
        struct group *group = start->pod->group;

        if (ST_IN(start->status, ST_ALLOCATED) && start->pod->status == ST_RELEASING &&
            group->suspended_in != sched->cycle && group_may_stay(sched, group))
            group->suspended_in = sched->cycle;
    }
}

static void emit_evict(struct sched *sched, struct plan *plan, struct pod *pod, bool moved)
{
    const struct group *by = pod->evicted_for;

    if (by)
        note_eviction(sched, plan, pod->group);

    VEC_PUSH(sched->arena, &plan->evicts,
             (struct sched_evict){.pod = ref_of(sched, pod),
                                  .group = group_named(sched, plan, pod->group),
                                  .action = pod->action,
                                  .for_ns = by ? str_dup(sched->arena, by->ns) : STR_NONE,
                                  .for_group = by ? str_dup(sched->arena, by->name) : STR_NONE,
                                  .moved = moved,
                                  .suspend = pod->group->suspended_in == sched->cycle,
                                  .delete = pod_is_spared(sched, pod) && pod->group->queue &&
                                            group_policy(pod->group)->delete_refused,
                                  .message = evict_message(sched, pod)});
}

static void emit_pod(struct sched *sched, struct plan *plan, const struct undo *start)
{
    struct pod *pod = start->pod;
    bool was_active = ST_IN(start->status, ST_ALLOCATED);

    if (pod->stand_in) /* nobody has to be told: it is forgotten when the cycle ends */
        return;

    if (!was_active) {
        if (pod->status == ST_BINDING)
            emit_bind(sched, plan, pod);
        else if (pod->status == ST_PIPELINED &&
                 (start->status != ST_PIPELINED || start->node != pod->node))
            emit_nominate(sched, plan, pod);
        else if (pod->status == ST_RELEASING) /* placed and evicted again: it never was there */
            pod_set(sched, pod, ST_PENDING, NULL, NULL, 0);
        if (pod->status == ST_PIPELINED && !pod->promised) {
            pod->promised = true;
            VEC_PUSH(NULL, &sched->promised, pod);
        }
        return;
    }
    if (pod->staying && ST_IN(pod->status, ST_BIT(ST_PIPELINED) | ST_BIT(ST_RELEASING))) {
        /* It is being deleted already: it only counts as such again (hold.h). */
        pod_set(sched, pod, ST_RELEASING, start->node, undo_shares(sched, start),
                start->share_count);
        pod->evicting = true;
        return;
    }
    if (pod->status == ST_PIPELINED) {
        emit_evict(sched, plan, pod, true);
        emit_nominate(sched, plan, pod);
        /* The pod itself ends where it is; its successor will find the room. */
        pod_set(sched, pod, ST_RELEASING, start->node, undo_shares(sched, start),
                start->share_count);
        pod->evicting = true;
    } else if (pod->status == ST_RELEASING && start->status != ST_RELEASING) {
        emit_evict(sched, plan, pod, false);
        pod->evicting = true;
    }
}

static void emit_group(struct sched *sched, struct plan *plan, struct group *group)
{
    struct sched_waiting waiting = {0};

    int64_t waits = group->count[ST_PENDING] + group->count[ST_PIPELINED] + group->count[ST_GATED];

    if ((!waits && !(group->pods.count && !group->queue)) || group->told_in == sched->cycle)
        return;
    group->told_in = sched->cycle;
    waiting.changed = explain_group(sched, group);
    waiting.message = str_dup(sched->arena, group->told->message);
    waiting.why = group->told->why;
    waiting.reason = group->told->why.reason;
    waiting.ns = str_dup(sched->arena, group->ns);
    waiting.group = str_dup(sched->arena, group->name);
    waiting.queue = str_dup(sched->arena, name_text(group->queue_name));
    waiting.pending_pods = (uint32_t)waits;
    waiting.since_ms = group_waits_since(group);
    VEC_PUSH(sched->arena, &plan->waiting, waiting);
}

static void emit_waiting(struct sched *sched, struct plan *plan)
{
    size_t most = sched->promised.count + sched->strays.count;

    for (size_t q = 0; q < sched->queues.count; q++)
        most += sched->queues.items[q]->pending.count;
    VEC_RESERVE(sched->arena, &plan->waiting, most);
    for (size_t q = 0; q < sched->queues.count; q++) {
        const struct queue *queue = sched->queues.items[q];
        for (size_t i = 0; i < queue->pending.count; i++)
            emit_group(sched, plan, queue->pending.items[i]);
    }
    for (size_t i = 0; i < sched->promised.count; i++)
        if (sched->promised.items[i]->group)
            emit_group(sched, plan, sched->promised.items[i]->group);
    for (size_t i = 0; i < sched->strays.count; i++)
        emit_group(sched, plan, sched->strays.items[i]);
}

/* Later actions may have moved pods of a gang that an earlier one would have bound. */
static void hold_back_gangs(struct sched *sched)
{
    for (size_t i = 0; i < sched->touched.count; i++) {
        const struct pod *pod = sched->touched.items[i].pod;

        if (pod->status == ST_BINDING && pod->placed_in == sched->cycle &&
            group_must_wait(pod->group))
            group_hold_back(sched, pod->group);
    }
}

/* In a large cycle the lists are most of its memory. */
static void plan_reserve(struct sched *sched, struct plan *plan)
{
    size_t binds = 0;
    size_t evicts = sched->given_up.count;
    size_t nominates = 0;

    for (size_t i = 0; i < sched->touched.count; i++) {
        const struct undo *start = &sched->touched.items[i];
        enum status status = start->pod->status;
        bool was_active = ST_IN(start->status, ST_ALLOCATED);

        binds += !was_active && status == ST_BINDING;
        evicts += was_active && ST_IN(status, ST_BIT(ST_PIPELINED) | ST_BIT(ST_RELEASING));
        nominates += status == ST_PIPELINED;
    }
    VEC_RESERVE(sched->arena, &plan->binds, binds);
    VEC_RESERVE(sched->arena, &plan->evicts, evicts);
    VEC_RESERVE(sched->arena, &plan->nominates, nominates);
}

void plan_emit(struct sched *sched, struct sched_plan *ret)
{
    struct plan plan = {0};

    hold_back_gangs(sched);
    mark_suspended(sched);
    plan_reserve(sched, &plan);
    /* What goes on comes behind what is new of its gang, which so is bound in one piece. */
    for (size_t i = 0; i < sched->touched.count; i++)
        if (!sched->touched.items[i].pod->home)
            emit_pod(sched, &plan, &sched->touched.items[i]);
    for (size_t i = 0; sched->homed.count && i < sched->touched.count; i++)
        if (sched->touched.items[i].pod->home)
            emit_pod(sched, &plan, &sched->touched.items[i]);
    for (size_t i = 0; i < sched->given_up.count; i++) {
        emit_evict(sched, &plan, sched->given_up.items[i], false);
        sched->given_up.items[i]->evicting = true;
    }
    sched->given_up.count = 0;
    journal_forget(sched);
    for (size_t i = 0; i < sched->notes.count; i++)
        VEC_PUSH(sched->arena, &plan.notes,
                 (struct sched_note){str_dup(sched->arena, sched->notes.items[i].group->ns),
                                     str_dup(sched->arena, sched->notes.items[i].group->name),
                                     sched->notes.items[i].over    ? SCHED_NOTE_OVER
                                     : sched->notes.items[i].stale ? SCHED_NOTE_STALE
                                                                   : SCHED_NOTE_NOT_STALE});
    sched->notes.count = 0;
    if (!sched->config.silent) {
        emit_waiting(sched, &plan);
        alike_settle(sched);
    }
    *ret = (struct sched_plan){
        .binds = plan.binds.items,
        .bind_count = plan.binds.count,
        .evicts = plan.evicts.items,
        .evict_count = plan.evicts.count,
        .nominates = plan.nominates.items,
        .nominate_count = plan.nominates.count,
        .waiting = plan.waiting.items,
        .waiting_count = plan.waiting.count,
        .notes = plan.notes.items,
        .note_count = plan.notes.count,
        .next_wake_ms = sched->wake_ms,
    };
}
