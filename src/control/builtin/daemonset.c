#include "control/builtin/daemonset.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/builtin/revision.h"
#include "control/builtin/workload.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* DaemonSet: one pod on every node that it belongs on. A pod is made for its node: it names it in
 * its affinity, and the scheduler finds the room. */

#define BURST_MAX 250 /* pods made at a time */

struct daemon_slot {
    const struct object *node;
    enum daemon_place place;
    const struct workload_pod *fresh; /* of the present template */
    const struct workload_pod *old;
    bool ending; /* a pod is on its way out: the next one waits for the room */
};

struct daemon {
    struct workload w;
    struct revisions revisions;
    const struct json *pod_spec; /* of the template */
    struct workload_pods pods;
    VEC(struct daemon_slot) slots;
    int64_t misplaced;
    int64_t serial;
    int64_t made;
};

/* The node that a pod is on, or is made for. */
static struct str node_of(const struct json *pod)
{
    struct str name = json_str_at(pod, "spec.nodeName");

    if (name.len)
        return name;
    return json_str_at(pod, "spec.affinity.nodeAffinity."
                            "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms.0."
                            "matchFields.0.values.0");
}

static void remove_pod(struct daemon *d, const struct workload_pod *pod)
{
    action_delete(d->w.actions, pod->object);
    action_event(d->w.actions, d->w.owner, "SuccessfulDelete",
                 str_printf(d->w.arena, "Deleted pod: " STR_FMT, STR_ARG(pod->object->name)));
}

static void make_pod(struct daemon *d, const struct object *node)
{
    struct arena *arena = d->w.arena;

    if (d->made++ >= BURST_MAX)
        return;
    struct json *pod = workload_pod(&d->w, json_get(d->w.spec, "template"));
    struct json *meta = json_get(pod, "metadata");
    struct json *spec = json_get(pod, "spec");
    struct str name = workload_name(&d->w, &kind_pod, d->w.owner->name, &d->serial);
    json_add_str(arena, meta, "name", name);
    json_add_str(arena, json_make_path(arena, meta, "labels"), REVISION_LABEL, d->revisions.hash);
    daemon_tolerate(arena, spec);
    /* What the template demands of a node was looked at: this is the node. */
    struct json *needed = json_make_path(
        arena, spec, "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    json_fill(arena, needed,
              "{nodeSelectorTerms: [{matchFields: [{key: 'metadata.name', "
              "operator: 'In', values: [$]}]}]}",
              str_dup(arena, node->name));
    action_create(d->w.actions, &kind_pod, pod);
    action_event(d->w.actions, d->w.owner, "SuccessfulCreate",
                 str_printf(arena, "Created pod: " STR_FMT, STR_ARG(name)));
}

/* ---- looking ---- */

static void read_nodes(struct daemon *d)
{
    const struct object *node = NULL;
    size_t cursor = 0;

    while ((node = cache_next(d->w.input->cache, &kind_node, STR(""), &cursor)))
        VEC_PUSH(d->w.arena, &d->slots,
                 (struct daemon_slot){.node = node,
                                      .place = daemon_place(d->w.arena, d->pod_spec, node)});
}

static struct daemon_slot *slot_of(struct daemon *d, struct str node)
{
    for (size_t i = 0; i < d->slots.count; i++)
        if (str_eq(d->slots.items[i].node->name, node))
            return &d->slots.items[i];
    return NULL;
}

/* Each pod to its node; those that have no business there go. */
static void read_pods(struct daemon *d)
{
    d->pods = workload_pods(&d->w);
    for (size_t i = 0; i < d->pods.count; i++) {
        const struct workload_pod *pod = &d->pods.items[i];
        struct daemon_slot *slot = slot_of(d, node_of(pod->tree));
        bool fresh = str_eq(object_label(pod->object, REVISION_LABEL), d->revisions.hash);
        const struct workload_pod **place = NULL;

        if (pod->object->deleted_ms) {
            if (slot)
                slot->ending = true;
            continue;
        }
        if (!pod->active || !slot || slot->place == DAEMON_AWAY) {
            d->misplaced += pod->active && slot != NULL;
            remove_pod(d, pod);
            continue;
        }
        place = fresh ? &slot->fresh : &slot->old;
        if (*place)
            remove_pod(d, pod); /* one is enough; the first one stays */
        else
            *place = pod;
    }
}

/* ---- doing ---- */

static bool is_served(const struct daemon_slot *slot)
{
    return (slot->fresh && slot->fresh->available) || (slot->old && slot->old->available);
}

/* A new pod beside the old one, which goes when the new one serves. */
static void surge(struct daemon *d, int64_t room)
{
    for (size_t i = 0; i < d->slots.count; i++)
        room -= d->slots.items[i].fresh && d->slots.items[i].old;
    for (size_t i = 0; i < d->slots.count; i++) {
        struct daemon_slot *slot = &d->slots.items[i];

        if (!slot->old)
            continue;
        if (slot->fresh && slot->fresh->available)
            remove_pod(d, slot->old);
        else if (!slot->fresh && slot->place == DAEMON_RUN && (room > 0 || !slot->old->available)) {
            make_pod(d, slot->node);
            room--;
        }
    }
}

/* Old pods go, as many at a time as may be away; those that do not serve first. */
static void roll(struct daemon *d, int64_t room)
{
    for (size_t i = 0; i < d->slots.count; i++) {
        const struct daemon_slot *slot = &d->slots.items[i];

        if (slot->place == DAEMON_RUN && !is_served(slot))
            room--;
        if (slot->old && (!slot->old->available || slot->fresh))
            remove_pod(d, slot->old);
    }
    for (size_t i = 0; i < d->slots.count && room > 0; i++) {
        const struct daemon_slot *slot = &d->slots.items[i];

        if (!slot->old || !slot->old->available || slot->fresh)
            continue;
        remove_pod(d, slot->old);
        room--;
    }
}

static void update(struct daemon *d, int64_t wanted)
{
    const struct json *strategy = json_get(d->w.spec, "updateStrategy");
    const struct json *rolling = json_get(strategy, "rollingUpdate");
    int64_t more = workload_share(json_get(rolling, "maxSurge"), 0, wanted, true);
    int64_t gone = workload_share(json_get(rolling, "maxUnavailable"), 1, wanted, true);

    if (str_is(json_str(json_get(strategy, "type")), "OnDelete"))
        return;
    if (more > 0)
        surge(d, more);
    else
        roll(d, gone > 0 ? gone : 1);
}

/* ---- telling ---- */

static int64_t write_status(struct daemon *d)
{
    struct workload *w = &d->w;
    int64_t wanted = 0;
    int64_t there = 0;
    int64_t ready = 0;
    int64_t available = 0;
    int64_t updated = 0;

    for (size_t i = 0; i < d->slots.count; i++) {
        const struct daemon_slot *slot = &d->slots.items[i];

        if (slot->place == DAEMON_AWAY ||
            (slot->place == DAEMON_STAY && !slot->old && !slot->fresh))
            continue;
        wanted++;
        there += slot->fresh || slot->old;
        ready += (slot->fresh && slot->fresh->ready) || (slot->old && slot->old->ready);
        available += is_served(slot);
        updated += slot->fresh != NULL;
    }
    workload_status(w, NULL);
    workload_count(w, "currentNumberScheduled", there, true);
    workload_count(w, "numberMisscheduled", d->misplaced, true);
    workload_count(w, "desiredNumberScheduled", wanted, true);
    workload_count(w, "numberReady", ready, true);
    workload_count(w, "updatedNumberScheduled", updated, false);
    workload_count(w, "numberAvailable", available, false);
    workload_count(w, "numberUnavailable", wanted - available, false);
    refusal_write(w->arena, w->status, w->input->refusal, w->input->now_ms);
    return wanted;
}

static bool revision_used(const void *user, const struct object *revision)
{
    const struct daemon *d = user;
    struct str hash = object_label(revision, REVISION_LABEL);

    for (size_t i = 0; i < d->pods.count; i++)
        if (str_eq(object_label(d->pods.items[i].object, REVISION_LABEL), hash))
            return true;
    return false;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct daemon d = {0};

    if (!workload_open(&d.w, input, cache_get(input->cache, &kind_daemonset, key->ns, key->name),
                       &later))
        return;
    d.pod_spec = json_at(d.w.spec, "template.spec");
    revisions_open(&d.w, &d.revisions);
    read_nodes(&d);
    read_pods(&d);
    int64_t wanted = write_status(&d);
    for (size_t i = 0; i < d.slots.count; i++) {
        const struct daemon_slot *slot = &d.slots.items[i];

        if (slot->place == DAEMON_RUN && !slot->fresh && !slot->old && !slot->ending)
            make_pod(&d, slot->node);
    }
    update(&d, wanted);
    revisions_trim(&d.w, &d.revisions, revision_used, &d);
    d.w.actions = actions;
    workload_write(&d.w);
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object *set = NULL;
    size_t cursor = 0;

    if (object->kind == &kind_daemonset) {
        control_keys_add(ret, object->ns, object->name);
    } else if (object->kind == &kind_node) {
        while ((set = cache_next(cache, &kind_daemonset, STR(""), &cursor)))
            control_keys_add(ret, set->ns, set->name);
    } else {
        workload_keys(cache, &kind_daemonset, object, ret);
    }
}

static const struct kind *const watches[] = {&kind_daemonset, &kind_pod, &kind_node,
                                             &kind_controllerrevision, NULL};

const struct controller daemonset_controller = {.name = "daemonset",
                                                .kind = &kind_daemonset,
                                                .embedded = true,
                                                .watches = watches,
                                                .keys = keys,
                                                .reconcile = reconcile};
