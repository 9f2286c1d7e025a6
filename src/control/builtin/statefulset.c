#include "control/builtin/statefulset.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
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

/* StatefulSet: pods with numbers, names and claims of their own. Ordered: one after another, each
 * when all before it serve; removed and replaced from the highest number down. */

#define BURST_MAX 500 /* pods made at a time */

/* ---- reading ---- */

static int64_t ordinal_of(const struct stateful *s, struct str name)
{
    return workload_ordinal(s->w.owner->name, name);
}

static void read_spec(struct stateful *s)
{
    const struct json *spec = s->w.spec;
    struct str current = json_str(json_get(s->w.before, "currentRevision"));

    s->start = json_i64_or(json_at(spec, "ordinals.start"), 0);
    s->replicas = json_i64_or(json_get(spec, "replicas"), 1);
    s->ordered = !str_is(json_str(json_get(spec, "podManagementPolicy")), "Parallel");
    s->on_delete = str_is(json_str_at(spec, "updateStrategy.type"), "OnDelete");
    s->partition = json_i64_or(json_at(spec, "updateStrategy.rollingUpdate.partition"), 0);
    s->update = s->revisions.name;
    s->current = current.len ? current : s->update;
}

/* Pods by their number; those that are too many, highest first. */
static void read_pods(struct stateful *s)
{
    s->pods = workload_pods(&s->w);
    s->slot_count = (size_t)s->replicas < s->pods.count + BURST_MAX ? (size_t)s->replicas
                                                                    : s->pods.count + BURST_MAX;
    s->slots = ARENA_ARRAY(s->w.arena, const struct workload_pod *, s->slot_count + 1);
    for (size_t i = 0; i < s->pods.count; i++) {
        int64_t ordinal = ordinal_of(s, s->pods.items[i].object->name);

        if (ordinal < 0)
            continue;
        if (ordinal >= s->start && ordinal < s->start + s->replicas) {
            if ((size_t)(ordinal - s->start) < s->slot_count)
                s->slots[ordinal - s->start] = &s->pods.items[i];
            continue;
        }
        VEC_PUSH(s->w.arena, &s->extra, &s->pods.items[i]);
        for (size_t j = s->extra.count - 1; j > 0; j--) {
            const struct workload_pod *before = s->extra.items[j - 1];

            if (ordinal_of(s, before->object->name) >= ordinal)
                break;
            s->extra.items[j] = before;
            s->extra.items[j - 1] = &s->pods.items[i];
        }
    }
}

static struct str revision_of(const struct workload_pod *pod)
{
    return object_label(pod->object, REVISION_LABEL);
}

/* ---- doing ---- */

static void make_pod(struct stateful *s, size_t slot)
{
    int64_t ordinal = s->start + (int64_t)slot;
    struct str revision = !s->on_delete && (int64_t)slot < s->partition ? s->current : s->update;

    stateful_claims(s, ordinal);
    struct json *pod = stateful_pod(s, ordinal, revision);
    action_create(s->w.actions, &kind_pod, pod);
    action_event(s->w.actions, s->w.owner, "SuccessfulCreate",
                 str_printf(s->w.arena,
                            "create Pod " STR_FMT " in StatefulSet " STR_FMT " successful",
                            STR_ARG(json_str_at(pod, "metadata.name")), STR_ARG(s->w.owner->name)));
}

static void remove_pod(struct stateful *s, const struct workload_pod *pod)
{
    action_delete(s->w.actions, pod->object);
    action_event(s->w.actions, s->w.owner, "SuccessfulDelete",
                 str_printf(s->w.arena,
                            "delete Pod " STR_FMT " in StatefulSet " STR_FMT " successful",
                            STR_ARG(pod->object->name), STR_ARG(s->w.owner->name)));
}

/* True: all that should be there is, and serves where order matters. */
static bool fill(struct stateful *s)
{
    size_t made = 0;
    int64_t room = workload_room(&s->pods);

    for (size_t i = 0; i < s->slot_count && made < BURST_MAX; i++) {
        const struct workload_pod *pod = s->slots[i];

        if (pod && pod->active) {
            stateful_keep_claims(s, s->start + (int64_t)i);
            if (s->ordered && !pod->available)
                return false;
            continue;
        }
        if (!pod && room-- <= 0)
            return false;
        if (!pod)
            make_pod(s, i);
        else if (!pod->object->deleted_ms)
            remove_pod(s, pod); /* it has ended: one of its name can follow */
        if (s->ordered)
            return false;
        made += !pod || !pod->object->deleted_ms; /* who is on its way out holds up nobody */
    }
    return made == 0;
}

/* Where order matters one that does not serve goes only when those below it do: else a set whose
 * pods are all in trouble would lose them all. */
static bool waits_for_lower(const struct stateful *s, size_t at)
{
    if (!s->ordered || s->extra.items[at]->available)
        return false;
    for (size_t i = at + 1; i < s->extra.count; i++)
        if (!s->extra.items[i]->ready)
            return true;
    return false;
}

/* True: none is too many. */
static bool shrink(struct stateful *s)
{
    for (size_t i = 0; i < s->extra.count; i++) {
        const struct workload_pod *pod = s->extra.items[i];

        if (!pod->object->deleted_ms && waits_for_lower(s, i))
            return false;
        if (!pod->object->deleted_ms) {
            stateful_give_claims(s, pod, ordinal_of(s, pod->object->name));
            remove_pod(s, pod);
        }
        if (s->ordered)
            return false;
    }
    return s->extra.count == 0;
}

/* Replace pods of older revisions, highest number first, each when those above it serve. */
static void roll(struct stateful *s)
{
    for (size_t i = s->slot_count; !s->on_delete && i-- > 0 && (int64_t)i >= s->partition;) {
        const struct workload_pod *pod = s->slots[i];

        if (pod && pod->active && !str_eq(revision_of(pod), s->update)) {
            remove_pod(s, pod);
            return;
        }
        if (!pod || !pod->available)
            return;
    }
}

/* ---- telling ---- */

static void write_status(struct stateful *s)
{
    struct workload *w = &s->w;
    int64_t ready = 0;
    int64_t available = 0;
    int64_t current = 0;
    int64_t updated = 0;

    for (size_t i = 0; i < s->pods.count; i++) {
        const struct workload_pod *pod = &s->pods.items[i];

        ready += pod->ready;
        available += pod->available;
        current += pod->active && str_eq(revision_of(pod), s->current);
        updated += pod->active && str_eq(revision_of(pod), s->update);
    }
    if (!s->on_delete && updated == s->replicas && ready == s->replicas &&
        (int64_t)s->pods.count == s->replicas) {
        s->current = s->update;
        current = updated;
    }
    workload_status(w, NULL);
    workload_count(w, "replicas", (int64_t)s->pods.count, true);
    workload_count(w, "readyReplicas", ready, false);
    workload_count(w, "availableReplicas", available, true);
    workload_count(w, "currentReplicas", current, false);
    workload_count(w, "updatedReplicas", updated, false);
    workload_count(w, "collisionCount", 0, true);
    json_add_str(w->arena, w->status, "currentRevision", s->current);
    json_add_str(w->arena, w->status, "updateRevision", s->update);
    refusal_write(w->arena, w->status, w->input->refusal, w->input->now_ms);
}

static bool revision_used(const void *user, const struct object *revision)
{
    const struct stateful *s = user;

    if (str_eq(revision->name, s->current))
        return true;
    for (size_t i = 0; i < s->pods.count; i++)
        if (str_eq(revision_of(&s->pods.items[i]), revision->name))
            return true;
    return false;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct stateful s = {0};

    if (!workload_open(&s.w, input, cache_get(input->cache, &kind_statefulset, key->ns, key->name),
                       &later))
        return;
    revisions_open(&s.w, &s.revisions);
    read_spec(&s);
    read_pods(&s);
    write_status(&s);
    if (fill(&s) && shrink(&s))
        roll(&s);
    revisions_trim(&s.w, &s.revisions, revision_used, &s);
    s.w.actions = actions;
    workload_write(&s.w);
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (object->kind == &kind_statefulset)
        control_keys_add(ret, object->ns, object->name);
    else
        workload_keys(cache, &kind_statefulset, object, ret);
}

static const struct kind *const watches[] = {&kind_statefulset, &kind_pod, &kind_pvc,
                                             &kind_controllerrevision, NULL};

const struct controller statefulset_controller = {.name = "statefulset",
                                                  .kind = &kind_statefulset,
                                                  .embedded = true,
                                                  .watches = watches,
                                                  .keys = keys,
                                                  .reconcile = reconcile};
