#include "control/grouping/unused.h"

#include "api/condition.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUEUES_DEEP 32 /* levels of queues; a circle ends there */
#define NEXT_MS     5000 /* after one was suspended: the scheduler finds out whether that was enough */
#define SETTLE_MS   300
/* A node needs so long at most: its helper ends itself after 240 s, and 30 s are for standing still.
 * One that needs longer is stuck, as on a node that is gone, and others need not wait for it. */
#define STUCK_MS     (5 * 60 * 1000)
#define EVENT_READY  "GpusUnused"
#define EVENT_GIVEN  "SuspendedUnused"
#define EVENT_WANTED "Wanted"

/* ---- the rule ---- */

static int64_t unused_notice(int64_t after_ms)
{
    return after_ms / 2 < UNUSED_NOTICE_MS ? after_ms / 2 : UNUSED_NOTICE_MS;
}

enum unused_step unused_judge(const struct unused *unused, int64_t now_ms, int64_t *ret_at_ms)
{
    int64_t notice_ms = unused_notice(unused->after_ms);
    int64_t told_ms = unused->at_ms - notice_ms;

    *ret_at_ms = 0;
    if (unused->at_ms && (!unused->after_ms || !unused->since_ms || told_ms < unused->since_ms))
        return UNUSED_TAKE_BACK;
    if (!unused->after_ms || !unused->since_ms || !unused->others_wait)
        return UNUSED_LEAVE;
    if (!unused->at_ms) {
        *ret_at_ms = unused->since_ms + unused->after_ms - notice_ms;
        if (now_ms < *ret_at_ms)
            return UNUSED_LEAVE;
        *ret_at_ms = now_ms + notice_ms;
        return UNUSED_ANNOUNCE;
    }
    *ret_at_ms = unused->at_ms;
    return now_ms < unused->at_ms ? UNUSED_LEAVE : UNUSED_SUSPEND;
}

/* ---- what is there ---- */

struct gang {
    const struct object *group;
    VEC(const struct object *) pods; /* that have not ended */
    struct unused unused;
    size_t gpus;
    size_t given;    /* pods that are asked to give way, for this reason */
    size_t back;     /* of them all, those that are in line again */
    int64_t away_ms; /* when the last of them was suspended; 0: none is */
    bool wanted;     /* by somebody who said so */
    bool on_its_way; /* out of its GPUs */
    bool refused;    /* by a node: it cannot be moved */
    bool unsuited;   /* pods that do not run, or are somebody else's to suspend */
};

static int64_t moment_of(struct str text)
{
    int64_t ms = 0;

    return text.len && time_parse(text, &ms) ? ms : 0;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* How long GPUs may be unused, as its queue says, the queue above it, or the work itself. */
static int64_t limit_of(const struct control_input *input,
                        const struct object *group,
                        const struct json *root)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str text = object_annotation(group, SUSPEND_UNUSED_AFTER);
    struct str name = json_str_at(root, "spec.queue");
    int64_t ms = 0;

    for (int i = 0; !text.len && name.len && i < QUEUES_DEEP; i++) {
        const struct object *queue = cache_get(input->cache, &kind_queue, STR(""), name);

        if (!queue)
            break;
        text = object_annotation(queue, SUSPEND_UNUSED_AFTER);
        name = json_str_at(object_json(queue, &arena), "spec.parentQueue");
    }
    return text.len && time_parse_duration(text, &ms) && ms > 0 ? ms : 0;
}

/* Since when all GPUs of the pod are unused; 0: one is in use, or nobody measures it. */
static int64_t pod_unused(const struct control_input *input,
                          const struct object *pod,
                          const struct json *root,
                          size_t *gpus)
{
    struct str devices = object_annotation(pod, GPU_ANNOTATION_DEVICES), number;
    const struct object *node =
        cache_get(input->cache, &kind_node, STR(""), json_str_at(root, "spec.nodeName"));
    int64_t since_ms = moment_of(json_str_at(root, "status.startTime"));

    while (devices.len && str_cut(&devices, ',', &number)) {
        struct str told = node ? object_annotation(node, GPU_ANNOTATION_UNUSED) : STR_NONE, one;
        int64_t index = 0, ms = 0;

        (*gpus)++;
        if (!str_to_i64(number, &index))
            return 0;
        for (int64_t i = 0; told.len && str_cut(&told, ',', &one); i++)
            ms = i == index ? moment_of(one) : ms;
        if (!ms || !node || !object_label(node, SUSPEND_LABEL).len)
            return 0;
        since_ms = later(since_ms, ms);
    }
    return since_ms;
}

static void gang_add_pod(const struct control_input *input,
                         struct gang *gang,
                         const struct object *pod,
                         struct arena *arena)
{
    const struct json *root = object_json(pod, arena);
    const struct json *condition = condition_find(json_get(root, "status"), SUSPEND_CONDITION);
    struct str wish = object_annotation(pod, SUSPEND_ANNOTATION);
    struct str phase = json_str_at(root, "status.phase");
    bool away = str_is(json_str(json_get(condition, "status")), "True");
    int64_t changed_ms = moment_of(json_str(json_get(condition, "lastTransitionTime")));

    if (pod->deleted_ms || str_is(phase, "Succeeded") || str_is(phase, "Failed"))
        return;
    VEC_PUSH(arena, &gang->pods, pod);
    int64_t since_ms = pod_unused(input, pod, root, &gang->gpus);
    gang->unused.since_ms = !since_ms || gang->unused.since_ms < 0
                                ? -1
                                : later(gang->unused.since_ms, later(since_ms, changed_ms));
    gang->refused =
        gang->refused || str_is(json_str(json_get(condition, "reason")), SUSPEND_FAILED);
    if (str_is(wish, SUSPEND_UNUSED)) {
        gang->given++;
        gang->on_its_way = gang->on_its_way || !away;
        if (away)
            gang->away_ms = later(gang->away_ms, changed_ms);
        if (moment_of(object_annotation(pod, SUSPEND_RESUMED_AT)) >= changed_ms && away)
            gang->wanted = true;
    } else if (str_is(wish, SUSPEND_YIELD)) {
        gang->back++;
    }
    if (!str_is(phase, "Running") || (wish.len && !str_is(wish, SUSPEND_UNUSED)))
        gang->unsuited = true;
}

static struct gang gang_read(const struct control_input *input,
                             const struct object *group,
                             const struct json *root,
                             struct arena *arena)
{
    struct gang gang = {.group = group};
    const struct object *pod;
    size_t cursor = 0;

    gang.unused.after_ms = limit_of(input, group, root);
    gang.unused.at_ms = moment_of(object_annotation(group, SUSPEND_UNUSED_AT));
    if (!gang.unused.after_ms && !gang.unused.at_ms)
        return gang;
    while ((pod = cache_next_grouped(input->cache, &kind_pod, group->name, &cursor)))
        if (str_eq(pod->ns, group->ns))
            gang_add_pod(input, &gang, pod, arena);
    if (gang.unused.since_ms < 0 || gang.unsuited || !gang.gpus)
        gang.unused.since_ms = 0;
    return gang;
}

/* Whether the group waits for GPUs that others could give it. */
static bool group_waits(const struct json *root)
{
    static const char *const words[] = {"NotEnoughResources", "Fragmented", "BehindReservation"};
    const struct json *requested = json_at(root, "status.resourcesStatus.requested");
    struct str reason = STR_NONE;

    if (!json_str_at(root, "status.message").len ||
        (json_is_null(json_get(requested, GPU_RESOURCE)) &&
         json_is_null(json_get(requested, "run.ai/gpu.memory"))))
        return false;
    JSON_FOREACH(json_at(root, "status.schedulingConditions"), condition)
        JSON_FOREACH(json_get(condition, "reasons"), each)
            reason = json_str(json_get(each, "reason"));
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(reason, words[i]))
            return true;
    return false;
}

/* ---- what is done ---- */

/* NULL: the annotation goes. */
static void annotate(struct actions *actions,
                     const struct object *object,
                     const char *key,
                     const char *value)
{
    struct json *patch = json_new_object(actions->arena);
    struct json *annotations = json_make_path(actions->arena, patch, "metadata.annotations");

    json_set(annotations, str_from(key),
             value ? json_new_str(actions->arena, str_from(value)) : json_new_null(actions->arena));
    action_patch(actions, object, patch);
}

static void gang_tell(struct actions *actions,
                      const struct gang *gang,
                      const char *reason,
                      struct str words)
{
    for (size_t i = 0; i < gang->pods.count; i++)
        action_event(actions, gang->pods.items[i], reason, words);
}

static void gang_announce(struct actions *actions, const struct gang *gang, int64_t at_ms)
{
    struct arena *arena = actions->arena;
    struct str at = time_text(arena, at_ms);

    annotate(actions, gang->group, SUSPEND_UNUSED_AT, str_c(arena, at));
    gang_tell(actions, gang, EVENT_READY,
              str_printf(arena,
                         "Nobody has used the GPUs of this pod since " STR_FMT
                         ", and others wait for GPUs. At " STR_FMT
                         " it is suspended with its memory, unless the GPUs are used before",
                         STR_ARG(time_text(arena, gang->unused.since_ms)), STR_ARG(at)));
}

static void gang_ask(struct actions *actions, const struct gang *gang, const char *wish)
{
    for (size_t i = 0; i < gang->pods.count; i++) {
        struct str now = object_annotation(gang->pods.items[i], SUSPEND_ANNOTATION);

        if (wish ? !str_is(now, wish) : now.len > 0)
            annotate(actions, gang->pods.items[i], SUSPEND_ANNOTATION, wish);
    }
}

/* Since when it is on its way is kept as well: it may be long after what was announced. */
static void gang_suspend(struct actions *actions, const struct gang *gang, int64_t now_ms)
{
    annotate(actions, gang->group, SUSPEND_UNUSED_AT,
             str_c(actions->arena, time_text(actions->arena, now_ms)));
    gang_ask(actions, gang, SUSPEND_UNUSED);
    gang_tell(actions, gang, EVENT_GIVEN,
              STR("The GPUs of this pod are unused, and others wait for GPUs: it gives them up and "
                  "keeps its memory. It is back in line when somebody wants it: a command in the "
                  "pod, or resume of its job"));
}

/* Of one that gave way: whether it is wanted back, or could not be moved. True: it was looked after. */
static bool gang_return(struct actions *actions, const struct gang *gang)
{
    if (!gang->given)
        return false;
    if (gang->refused) { /* it runs on; those that stand already go on as well */
        gang_ask(actions, gang, gang->away_ms || gang->back ? SUSPEND_YIELD : NULL);
        if (gang->unused.at_ms)
            annotate(actions, gang->group, SUSPEND_UNUSED_AT, NULL);
        return true;
    }
    if (gang->on_its_way || !(gang->wanted || gang->back || !gang->unused.after_ms))
        return true;
    gang_ask(actions, gang, SUSPEND_YIELD);
    gang_tell(actions, gang, EVENT_WANTED,
              STR("Somebody wants the pod: it goes on as soon as it has its GPUs again"));
    if (gang->unused.at_ms)
        annotate(actions, gang->group, SUSPEND_UNUSED_AT, NULL);
    return true;
}

static void again_at(int64_t *again_ms, int64_t at_ms)
{
    if (at_ms && (!*again_ms || at_ms < *again_ms))
        *again_ms = at_ms;
}

struct round {
    const struct gang *first; /* to be suspended: the one that is unused for longest */
    bool busy;                /* one is on its way, and not for too long */
    int64_t last_ms;          /* when one was suspended last */
    int64_t again_ms;
};

static void round_look(struct round *round,
                       struct actions *actions,
                       const struct gang *gang,
                       int64_t now_ms)
{
    int64_t at_ms = 0;

    if (gang->on_its_way && now_ms < gang->unused.at_ms + STUCK_MS) {
        round->busy = true;
        again_at(&round->again_ms, gang->unused.at_ms + STUCK_MS);
    }
    round->last_ms = later(round->last_ms, gang->away_ms);
    if (gang_return(actions, gang))
        return;
    switch (unused_judge(&gang->unused, now_ms, &at_ms)) {
    case UNUSED_ANNOUNCE: gang_announce(actions, gang, at_ms); break;
    case UNUSED_TAKE_BACK: annotate(actions, gang->group, SUSPEND_UNUSED_AT, NULL); break;
    case UNUSED_SUSPEND:
        if (!round->first || gang->unused.since_ms < round->first->unused.since_ms)
            round->first = gang;
        return;
    case UNUSED_LEAVE: break;
    }
    again_at(&round->again_ms, at_ms);
}

/* Somebody says how long GPUs may be unused, or did: else there is nothing to read. */
static bool is_asked(const struct control_input *input)
{
    const struct kind *const kinds[] = {&kind_queue, &kind_podgroup};

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const struct object *object;
        size_t cursor = 0;

        while ((object = cache_next(input->cache, kinds[i], STR(""), &cursor)))
            if (object_annotation(object, SUSPEND_UNUSED_AFTER).len ||
                object_annotation(object, SUSPEND_UNUSED_AT).len)
                return true;
    }
    return false;
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct arena *arena = actions->arena;
    VEC(struct gang) gangs = {0};
    const struct object *group;
    struct round round = {0};
    size_t cursor = 0;
    bool waits = false;

    (void)key;
    if (!is_asked(input))
        return;
    while ((group = cache_next(input->cache, &kind_podgroup, STR(""), &cursor))) {
        const struct json *root = object_json(group, arena);

        if (group->deleted_ms)
            continue;
        waits = waits || group_waits(root);
        struct gang gang = gang_read(input, group, root, arena);
        if (gang.pods.count)
            VEC_PUSH(arena, &gangs, gang);
    }
    for (size_t i = 0; i < gangs.count; i++) {
        gangs.items[i].unused.others_wait = waits;
        round_look(&round, actions, &gangs.items[i], input->now_ms);
    }
    if (round.first && !round.busy && input->now_ms >= round.last_ms + NEXT_MS)
        gang_suspend(actions, round.first, input->now_ms);
    else if (round.first && !round.busy)
        again_at(&round.again_ms, round.last_ms + NEXT_MS);
    if (round.again_ms)
        action_look_again(actions, round.again_ms);
}

/* Pods change often: those that give way for this reason matter, of others their nodes tell. */
static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    (void)cache;
    if (object->kind != &kind_pod || object_annotation(object, SUSPEND_ANNOTATION).len ||
        object_annotation(object, SUSPEND_RESUMED_AT).len)
        control_keys_add(ret, STR(""), STR(""));
}

static int64_t settle(const struct cache *cache, const struct control_key *key)
{
    (void)cache;
    (void)key;
    return SETTLE_MS;
}

static const struct kind *const watches[] = {&kind_podgroup, &kind_pod, &kind_node, &kind_queue,
                                             NULL};

const struct controller unused_controller = {.name = "unused",
                                             .at_start = true,
                                             .embedded = true,
                                             .settle = settle,
                                             .watches = watches,
                                             .keys = keys,
                                             .reconcile = reconcile};
