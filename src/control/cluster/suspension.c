#include "control/cluster/suspension.h"

#include "api/condition.h"
#include "api/gpu.h"
#include "api/limit.h"
#include "api/object.h"
#include "api/share.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "control/cluster/sharing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- which pods ---- */

static bool has_library(const struct json *tree)
{
    JSON_FOREACH(json_at(tree, "spec.initContainers"), container)
        if (str_is(json_str(json_get(container, "name")), LIMIT_CONTAINER))
            return true;
    return false;
}

bool suspension_prepares(const struct object *pod, bool may)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str copy = object_annotation(pod, SUSPEND_COPY);
    struct str devices = object_annotation(pod, GPU_ANNOTATION_FRACTION_DEVICES);

    if (!sharing_has_share(pod) || str_is(copy, SUSPEND_COPY_DRIVER) ||
        (devices.len && !str_is(devices, "1")) ||
        str_is(object_annotation(pod, GPU_ANNOTATION_MPS), "true"))
        return false;
    return (may || str_is(copy, SUSPEND_COPY_LIBRARY)) && has_library(object_json(pod, &arena));
}

bool suspension_prepared(const struct object *pod)
{
    return sharing_has_share(pod) && str_is(object_annotation(pod, SUSPEND_MAY), "true");
}

/* ---- where it stands ---- */

struct standing {
    struct str wish;
    bool away; /* the condition is True */
    struct str reason;
    struct str message;
};

static struct standing standing_of(const struct object *pod, const struct json *tree)
{
    const struct json *condition = condition_find(json_get(tree, "status"), SUSPEND_CONDITION);

    return (struct standing){.wish = object_annotation(pod, SUSPEND_ANNOTATION),
                             .away = str_is(json_str(json_get(condition, "status")), "True"),
                             .reason = json_str(json_get(condition, "reason")),
                             .message = json_str(json_get(condition, "message"))};
}

static void find_container(const struct json *tree, struct suspension *ret)
{
    struct share_target target;

    if (!share_find_target(tree, &target) || target.init)
        return;
    ret->container =
        json_str(json_get(json_index(json_at(tree, "spec.containers"), target.index), "name"));
    JSON_FOREACH(json_at(tree, "status.containerStatuses"), status)
        if (str_eq(json_str(json_get(status, "name")), ret->container))
            ret->started = json_str_at(status, "state.running.startedAt");
}

static enum suspension_step step_wanted(const struct standing *at, struct suspension *ret)
{
    if (!at->away && str_is(at->reason, SUSPEND_FAILED)) {
        ret->why = at->message;
        return str_is(at->wish, SUSPEND_YIELD) ? SUSPENSION_EVICT : SUSPENSION_NONE;
    }
    if (!at->away || str_is(at->reason, SUSPEND_RESUMING))
        return ret->started.len ? SUSPENSION_OUT : SUSPENSION_NONE;
    if (ret->started.len && str_contains(at->message, ret->started))
        return SUSPENSION_NONE;
    ret->why = STR("its container ended or was started anew while the pod was suspended");
    return SUSPENSION_EVICT;
}

static enum suspension_step step_unwanted(const struct standing *at, const struct suspension *of)
{
    bool under_way = at->away || str_is(at->reason, SUSPEND_SUSPENDING);

    if (str_is(at->reason, SUSPEND_FAILED))
        return SUSPENSION_SETTLE;
    if (!under_way || !of->started.len)
        return SUSPENSION_NONE;
    /* A container that is a new one has nothing to be put back. */
    return at->away && !str_contains(at->message, of->started) ? SUSPENSION_SETTLE : SUSPENSION_IN;
}

struct suspension suspension_decide(const struct object *pod, struct arena *arena)
{
    const struct json *tree = object_json(pod, arena);
    struct standing at = standing_of(pod, tree);
    struct suspension ret = {0};

    if (pod->deleted_ms || !str_is(json_str_at(tree, "status.phase"), "Running") ||
        !json_str_at(tree, "spec.nodeName").len)
        return ret;
    find_container(tree, &ret);
    if (at.wish.len && !at.away && !str_is(at.reason, SUSPEND_FAILED) &&
        (!suspension_prepared(pod) || !ret.container.len)) {
        ret.why =
            STR("it was not prepared for that: on a cluster only pods with a share of one GPU "
                "can be, with global.gpuSuspend, and muster.dev/on-preemption or "
                "muster.dev/gpu-copy said before they start");
        ret.step = SUSPENSION_REFUSE;
    } else {
        ret.step = at.wish.len ? step_wanted(&at, &ret) : step_unwanted(&at, &ret);
    }
    return ret;
}

/* ---- what came of it ---- */

enum suspension_after suspension_after(const struct suspension_end *end, struct str wish)
{
    if (end->reached && end->status == 0)
        return SUSPENSION_SAY;
    bool waited_for = str_is(wish, SUSPEND_YIELD);
    int tries = end->out ? SUSPENSION_TRIES_OUT : SUSPENSION_TRIES_IN;
    /* By hand nobody waits for it, and what became of it is known only when it is reached. */
    if (!end->reached && (end->tries < tries || (end->out && !waited_for)))
        return SUSPENSION_AGAIN;
    return !end->out || waited_for ? SUSPENSION_LOSE : SUSPENSION_SAY; /* it has undone it itself */
}

struct json *suspension_status(struct arena *arena,
                               const char *status,
                               const char *reason,
                               struct str message,
                               int64_t now_ms)
{
    struct json *ret = json_new_object(arena);

    condition_set(arena, ret, &(struct condition){SUSPEND_CONDITION, status, reason, message},
                  now_ms);
    return ret;
}

struct str suspension_words(struct arena *arena, const struct suspension *of, int64_t mib)
{
    return str_printf(
        arena,
        "%lld MiB of GPU memory are in host memory, and calls to the driver are held, "
        "in container " STR_FMT " that was started at " STR_FMT,
        (long long)mib, STR_ARG(of->container), STR_ARG(of->started));
}
