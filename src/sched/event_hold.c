#include "api/hold.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "sched/event.h"
#include "sched/group.h"
#include "sched/journal.h"
#include "sched/leaving.h"
#include "sched/names.h"
#include "sched/node.h"
#include "sched/pod.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/shape.h"
#include "sched/spec.h"
#include "sched/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that leave their room while their job restarts; see hold.h. */

#define STAND_IN_SUFFIX "/held" /* no pod of the API can be called so */

static int64_t until_of(const struct pod *pod, int64_t since_ms)
{
    const struct group *group = pod->group;

    if (group->hold_until_ms && pod->created_ms <= group->hold_until_ms)
        return i64_min(group->hold_until_ms, since_ms + HOLD_MAX_MS);
    int64_t hold_ms = pod_rare(pod)->hold_ms;

    return hold_ms > 0 ? since_ms + i64_min(hold_ms, HOLD_MAX_MS) : 0;
}

int64_t stand_in_until(const struct pod *pod)
{
    return until_of(pod, pod_rare(pod)->held_since_ms);
}

int64_t hold_until(const struct sched *sched, const struct pod *pod, bool gone)
{
    const struct group *group = pod->group;

    if (QUIRK(sched, NO_RESERVATION) || !group || !group->known || pod->set == SET_NONE ||
        !pod->ours || pod->evicting || pod->claim_count || pod->home || pod->lent_for ||
        (pod->shape->shared && sched->config.devices != SCHED_DEVICES_NUMBERED))
        return 0;
    if (gone && (!group->hold_until_ms || pod->created_ms > group->hold_until_ms))
        return 0;
    /* Since when it ends is known of pods that ran. */
    int64_t since_ms = gone && pod->deleted_ms ? pod->deleted_ms : sched->now_ms;
    int64_t until_ms = until_of(pod, since_ms);
    return until_ms > sched->now_ms ? until_ms : 0;
}

static void hold_note(struct sched *sched, struct pod *pod)
{
    VEC_PUSH(NULL, &sched->holds, pod);
}

void hold_forget(struct sched *sched, struct pod *pod)
{
    for (size_t i = 0; (pod->staying || pod->stand_in) && i < sched->holds.count; i++)
        if (sched->holds.items[i] == pod) {
            VEC_REMOVE_SWAP(&sched->holds, i);
            break;
        }
    pod->staying = false;
}

bool hold_leaves(struct sched *sched, struct pod *pod, bool gone)
{
    _cleanup_(arena_done) struct arena arena = {0};

    if (!ST_IN(pod->status, ST_ALLOCATED) || !pod->node || !pod->node->known ||
        !hold_until(sched, pod, gone))
        return false;
    struct sched_pod called = {
        .ns = pod_ns(pod),
        .name = str_printf(&arena, STR_FMT STAND_IN_SUFFIX, STR_ARG(pod_name(pod))),
        .uid = pod_uid(pod)};
    struct pod *before = pod_get(sched, called.ns, called.name);
    if (before) {
        pod_out(sched, before);
        pod_forget(sched, before);
    }
    hold_forget(sched, pod);
    leaving_forget(sched, pod);
    map_remove(&sched->pods_by_key, pod_key(pod));
    pod_call(sched, pod, &called);
    pod->stand_in = true;
    pod->observed = ST_FAILED;
    pod_rare_make(pod)->held_since_ms = 0;
    pod->group->stand_ins++;
    if (pod->status != ST_RUNNING)
        pod_set(sched, pod, ST_RUNNING, pod->node, pod_shares(pod), pod->share_count);
    hold_note(sched, pod);
    sched->changed = true;
    return true;
}

bool hold_stays(struct sched *sched, struct pod *pod, enum status status)
{
    if (status != ST_RELEASING || !hold_until(sched, pod, true))
        return false;
    if (!pod->staying)
        hold_note(sched, pod);
    pod->staying = true;
    return true;
}

/* ---- of the time before this core ---- */

void hold_seen(struct sched *sched, struct pod *pod, const struct sched_pod *spec)
{
    if (spec->phase != SCHED_FAILED || !spec->ended_ms || !spec->node.len)
        return;
    pod_rare_make(pod)->ended_on = name_get(sched, spec->node);
    pod->rare->ended_ms = spec->ended_ms;
    sched->revive = true;
}

/* Something of its gang that was made since then runs: the restart is over. */
static bool place_is_taken(const struct pod *pod)
{
    for (size_t i = 0; i < pod->group->pods.count; i++) {
        const struct pod *other = pod->group->pods.items[i];

        if (ST_IN(other->status, ST_ALLOCATED) && other->created_ms >= pod->rare->ended_ms)
            return true;
    }
    return false;
}

/* Whoever placed pods meanwhile did not know of the hold. */
static bool place_is_free(const struct pod *pod, const struct node *node)
{
    if (!node->known || !node->schedulable || node->idle[RES_PODS] < 1)
        return false;
    for (size_t i = 0; i < pod->want_count; i++)
        if (node->idle[pod->wants[i].res] < pod->wants[i].amount)
            return false;
    for (size_t i = 0; i < pod->device_count; i++)
        if (device_is_used(node, pod->devices[i]))
            return false;
    return true;
}

static void hold_revive(struct sched *sched, struct pod *pod)
{
    struct node *node = node_get(sched, name_text(pod->rare->ended_on), false);
    int64_t ended_ms = pod->rare->ended_ms;

    name_unref(sched, pod->rare->ended_on);
    pod->rare->ended_on = NULL;
    if (!node || pod->status != ST_FAILED || pod->shape->shared || !hold_until(sched, pod, false) ||
        until_of(pod, ended_ms) <= sched->now_ms || place_is_taken(pod) ||
        !place_is_free(pod, node))
        return;
    pod_set(sched, pod, ST_RUNNING, node, NULL, 0);
    if (hold_leaves(sched, pod, false))
        pod->rare->held_since_ms = ended_ms;
}

void holds_revived(struct sched *sched)
{
    VEC(struct pod *) found = {0};

    if (!sched->revive)
        return;
    sched->revive = false;
    MAP_FOREACH(&sched->pods_by_key, entry) {
        struct pod *pod = entry->value;

        if (pod_rare(pod)->ended_on)
            VEC_PUSH(sched->arena, &found, pod);
    }
    for (size_t i = 0; i < found.count; i++)
        hold_revive(sched, found.items[i]);
}

void holds_regroup(struct sched *sched, struct group *group)
{
    for (size_t i = 0; i < group->pods.count; i++) {
        struct pod *pod = group->pods.items[i];

        if (pod->status == ST_RELEASING && pod->observed == ST_RELEASING && pod->node &&
            !pod->stand_in && hold_stays(sched, pod, pod->status)) {
            leaving_forget(sched, pod);
            pod_set(sched, pod, ST_RUNNING, pod->node, pod_shares(pod), pod->share_count);
        }
    }
}

void holds_dropped(struct sched *sched, struct group *group)
{
    for (size_t i = group->pods.count; i > 0; i--) {
        struct pod *pod = group->pods.items[i - 1];

        if (!pod->stand_in)
            continue;
        pod_out(sched, pod);
        pod_forget(sched, pod);
    }
}

void holds_swept(struct sched *sched)
{
    for (size_t i = sched->holds.count; i > 0; i--) {
        struct pod *pod = sched->holds.items[i - 1];

        if (!pod->stand_in || pod->status == ST_RUNNING)
            continue;
        pod_out(sched, pod);
        pod_forget(sched, pod);
        sched->changed = true;
    }
}
