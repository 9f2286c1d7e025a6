#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "server/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The words under STATUS. Order of precedence, as kubectl's users know it: why the pod failed as a
 * whole; the first init container that is not through (Init:...); the last container that waits or
 * ended with a reason; Terminating, when deletion has begun. */

static struct str state_reason(const struct json *container, const char *state)
{
    return json_str(json_get(json_get(json_get(container, "state"), state), "reason"));
}

/* "ExitCode:3", "Signal:9" for a container that ended without a reason. */
static const char *ended_text(struct arena *arena, const char *prefix, const struct json *ended)
{
    int64_t signal = json_i64_or(json_get(ended, "signal"), 0);
    int64_t code = json_i64_or(json_get(ended, "exitCode"), 0);
    struct str reason = json_str(json_get(ended, "reason"));

    if (reason.len)
        return str_printf(arena, "%s" STR_FMT, prefix, STR_ARG(reason)).p;
    if (signal)
        return str_printf(arena, "%sSignal:%lld", prefix, (long long)signal).p;
    return str_printf(arena, "%sExitCode:%lld", prefix, (long long)code).p;
}

static void note_restart(const struct json *container, struct pod_summary *summary)
{
    int64_t ended = 0;
    struct str when = json_str(json_get(json_at(container, "lastState.terminated"), "finishedAt"));

    if (time_parse(when, &ended) && ended > summary->restarted_ms)
        summary->restarted_ms = ended;
}

static bool is_sidecar(const struct json *root, struct str name)
{
    JSON_FOREACH(json_at(root, "spec.initContainers"), container)
        if (str_eq(json_str(json_get(container, "name")), name))
            return str_is(json_str(json_get(container, "restartPolicy")), "Always");
    return false;
}

/* True when an init container still holds the pod back; then summary->status says which. */
static bool init_pending(struct arena *arena, const struct json *root, struct pod_summary *summary)
{
    size_t total = json_count(json_at(root, "spec.initContainers"));
    size_t index = 0;

    JSON_FOREACH(json_at(root, "status.initContainerStatuses"), container) {
        const struct json *ended = json_at(container, "state.terminated");
        struct str waiting = state_reason(container, "waiting");

        index++;
        note_restart(container, summary);
        if (ended && json_i64_or(json_get(ended, "exitCode"), 0) == 0)
            continue;
        if (is_sidecar(root, json_str(json_get(container, "name"))) &&
            json_bool_or(json_get(container, "started"), false)) {
            if (json_bool_or(json_get(container, "ready"), false))
                summary->ready++;
            summary->restarts += json_i64_or(json_get(container, "restartCount"), 0);
            continue;
        }
        summary->restarts += json_i64_or(json_get(container, "restartCount"), 0);
        if (ended)
            summary->status = ended_text(arena, "Init:", ended);
        else if (waiting.len && !str_is(waiting, "PodInitializing"))
            summary->status = str_printf(arena, "Init:" STR_FMT, STR_ARG(waiting)).p;
        else
            summary->status = str_printf(arena, "Init:%zu/%zu", index - 1, total).p;
        return true;
    }
    return false;
}

static bool pod_ready(const struct json *root)
{
    JSON_FOREACH(json_at(root, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), "Ready"))
            return str_is(json_str(json_get(condition, "status")), "True");
    return false;
}

static void containers(struct arena *arena, const struct json *root, struct pod_summary *summary)
{
    const struct json *statuses = json_at(root, "status.containerStatuses");
    size_t count = json_count(statuses);
    const struct json **last = ARENA_ARRAY(arena, const struct json *, count); /* the last first */
    bool running = false;

    summary->restarts = 0;
    JSON_FOREACH(statuses, status)
        last[--count] = status;
    for (size_t i = 0; i < json_count(statuses); i++) {
        const struct json *container = last[i];
        const struct json *ended = json_at(container, "state.terminated");
        struct str waiting = state_reason(container, "waiting");

        summary->restarts += json_i64_or(json_get(container, "restartCount"), 0);
        note_restart(container, summary);
        if (waiting.len)
            summary->status = str_c(arena, waiting);
        else if (ended)
            summary->status = ended_text(arena, "", ended);
        else if (json_bool_or(json_get(container, "ready"), false) &&
                 json_at(container, "state.running")) {
            running = true;
            summary->ready++;
        }
    }
    /* One container has completed, another still runs. */
    if (running && str_is(str_from(summary->status), "Completed"))
        summary->status = pod_ready(root) ? "Running" : "NotReady";
}

void pod_summarize(struct arena *arena, const struct json *root, struct pod_summary *ret)
{
    struct str phase = json_str(json_at(root, "status.phase"));
    struct str reason = json_str(json_at(root, "status.reason"));
    struct pod_summary summary = {
        .status = str_c(arena, reason.len  ? reason
                               : phase.len ? phase
                                           : STR("Pending")),
        .total = (int64_t)json_count(json_at(root, "spec.containers")),
    };

    JSON_FOREACH(json_at(root, "spec.initContainers"), container)
        summary.total += str_is(json_str(json_get(container, "restartPolicy")), "Always");
    if (json_count(json_at(root, "spec.schedulingGates")))
        summary.status = "SchedulingGated";
    if (!init_pending(arena, root, &summary) || str_is(phase, "Running"))
        containers(arena, root, &summary);
    if (json_str(json_at(root, "metadata.deletionTimestamp")).len)
        summary.status = str_is(reason, "NodeLost") ? "Unknown" : "Terminating";
    *ret = summary;
}
