#include "agent/status.h"

#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/network.h"
#include "agent/pod.h"
#include "agent/suspend.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "net/service.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* status: a pod's run as the status that `kubectl describe` expects. */

static const char *end_reason(const struct run_end *end)
{
    if (end->lost)
        return "ContainerStatusUnknown";
    if (end->never_started)
        return "StartError";
    if (end->oom)
        return "OOMKilled";
    return end->code == 0 ? "Completed" : "Error";
}

static void add_end(struct arena *arena,
                    struct json *parent,
                    const struct run_end *end,
                    struct str container_id)
{
    struct json *state = json_add_object(arena, parent, "terminated");
    json_add_i64(arena, state, "exitCode", end->code);
    if (end->signal)
        json_add_i64(arena, state, "signal", end->signal);
    json_add_c(arena, state, "reason", end_reason(end));
    if (end->message.len)
        json_add_str(arena, state, "message", end->message);
    json_add_str(arena, state, "startedAt", time_text(arena, end->started_ms));
    /* With its fraction, by the shim's clock when it was reaped: of a gang that fails, the job's
     * controller names the pod that was first. */
    char finished[TIME_TEXT_BYTES];
    json_add_str(arena, state, "finishedAt",
                 str_dup(arena, time_format_micro(end->ended_ms, finished)));
    json_add_str(arena, state, "containerID", container_id);
}

/* A port that a server of the pod listens on, as a Service of the pod has it, is taken where pods
 * share the machine's network while another pod is behind the Service: this program listens there for
 * it. Who listens everywhere ends at once, and knows not why. */
static struct str taken_port(struct arena *arena, const struct pod *pod)
{
    const struct object *service = NULL;
    size_t cursor = 0;

    while (!pod->agent->bridge &&
           (service = cache_next(pod->agent->cache, &kind_service, pod->ns, &cursor))) {
        const struct json *root = object_json(service, arena);

        JSON_FOREACH(json_at(root, "spec.ports"), port) {
            int64_t number = json_i64_or(json_get(port, "port"), 0);

            if (service_selects(root, pod->object) &&
                json_i64_or(json_get(port, "targetPort"), number) == number &&
                services_listen(pod->agent->services, service, number))
                return str_printf(
                    arena,
                    "; pods share this machine's network, where port %lld of Service " STR_FMT
                    " is taken for a server that listens on 0.0.0.0: let it "
                    "listen on the pod's address (status.podIP), give the Service "
                    "another port, or start muster with --pod-network=bridge",
                    (long long)number, STR_ARG(service->name));
        }
    }
    return STR_NONE;
}

static void add_waiting(struct arena *arena,
                        struct json *parent,
                        const struct pod *pod,
                        const struct run_container *c)
{
    struct json *state = json_add_object(arena, parent, "waiting");
    if (c->previous.set && pod->run.stays) {
        json_add_c(arena, state, "reason", "RestartInPlace");
    } else if (c->previous.set) {
        json_add_c(arena, state, "reason", "CrashLoopBackOff");
        json_add_str(arena, state, "message",
                     str_printf(arena,
                                "back-off %llds restarting failed container=" STR_FMT
                                " pod=" STR_FMT "_" STR_FMT "(" STR_FMT ")" STR_FMT,
                                (long long)((c->start_after_ms - c->previous.ended_ms) / 1000),
                                STR_ARG(c->name), STR_ARG(pod->name), STR_ARG(pod->ns),
                                STR_ARG(pod->uid),
                                STR_ARG(c->previous.code ? taken_port(arena, pod) : STR_NONE)));
    } else if (pod->waiting_reason.len) {
        json_add_str(arena, state, "reason", pod->waiting_reason);
        json_add_str(arena, state, "message", pod->waiting_message);
    } else {
        bool initializing = !c->init && !lifecycle_is_initialized(&pod->run);
        json_add_c(arena, state, "reason",
                   initializing || c->init ? "PodInitializing" : "ContainerCreating");
    }
}

static struct json *container_status(struct arena *arena, const struct pod *pod, size_t index)
{
    const struct run_container *c = &pod->run.containers[index];
    struct json *status = json_new_object(arena);
    struct str id = str_printf(arena, "muster://" STR_FMT "/" STR_FMT "/%u", STR_ARG(pod->uid),
                               STR_ARG(c->name), c->instance);
    struct str image = json_str(json_get(pod_container_spec(pod, index), "image"));
    json_add_str(arena, status, "name", c->name);
    struct json *state = json_add_object(arena, status, "state");
    struct json *last = json_add_object(arena, status, "lastState");
    bool started = c->state == RUN_RUNNING && c->startup_passed;
    switch (c->state) {
    case RUN_RUNNING:
        json_add_str(arena, json_add_object(arena, state, "running"), "startedAt",
                     time_text(arena, c->started_ms));
        break;
    case RUN_ENDED: add_end(arena, state, &c->end, id); break;
    case RUN_WAITING:
    case RUN_STARTING: add_waiting(arena, state, pod, c); break;
    }
    if (c->previous.set)
        add_end(arena, last, &c->previous,
                str_printf(arena, "muster://" STR_FMT "/" STR_FMT "/%u", STR_ARG(pod->uid),
                           STR_ARG(c->name), c->instance ? c->instance - 1 : 0));
    bool completed = c->init && !c->sidecar && c->state == RUN_ENDED && c->end.code == 0;
    json_fill(arena, status, "{ready: $, restartCount: $, image: $, imageID: ''}",
              (bool)(!c->ephemeral && (completed || lifecycle_is_ready(c))),
              lifecycle_restarts(&pod->run, c), image);
    if (c->state == RUN_RUNNING || c->state == RUN_ENDED)
        json_add_str(arena, status, "containerID", id);
    json_add_bool(arena, status, "started", started);
    return status;
}

static bool pod_is_ready(const struct pod *pod)
{
    if (pod->stage != POD_RUNNING || !lifecycle_is_initialized(&pod->run) ||
        pod->suspend.stage != SUSPEND_STAGE_NONE)
        return false;
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct run_container *c = &pod->run.containers[i];
        if ((!c->init || c->sidecar) && !c->ephemeral && !lifecycle_is_ready(c))
            return false;
    }
    return true;
}

/* "containers with unready status: [a b]"; empty: it is so of none. Init containers count for the
 * first of the two, those that run beside the others for both. */
static struct str names_text(struct arena *arena, const struct pod *pod, bool init)
{
    struct str names = STR("");
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct run_container *c = &pod->run.containers[i];
        bool done = c->state == RUN_ENDED && c->end.code == 0;
        bool good = init ? done || (c->sidecar && c->state == RUN_RUNNING) : lifecycle_is_ready(c);
        bool meant = init ? c->init : !c->init || c->sidecar;
        if (meant && !c->ephemeral && !good)
            names = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(names), names.len ? " " : "",
                               STR_ARG(c->name));
    }
    return names.len ? str_printf(arena, "containers with %s status: [" STR_FMT "]",
                                  init ? "incomplete" : "unready", STR_ARG(names))
                     : STR_NONE;
}

static void add_condition(struct arena *arena,
                          struct json *conditions,
                          const char *type,
                          bool status,
                          int64_t since_ms,
                          const char *reason)
{
    struct json *condition = json_push(
        conditions, json_make(arena, "{type: $, status: $}", type, status ? "True" : "False"));
    /* The patch is merged into the condition of that type: what is over must be said. */
    (void)json_set(condition, STR("reason"),
                   reason ? json_new_str(arena, str_from(reason)) : json_new_null(arena));
    (void)json_set(condition, STR("lastProbeTime"), json_new_null(arena));
    json_add_str(arena, condition, "lastTransitionTime", time_text(arena, since_ms));
}

/* What is wrong, or that nothing is any more. */
static void condition_tell(struct arena *arena, struct json *conditions, struct str message)
{
    struct json *last = json_index(conditions, json_count(conditions) - 1);
    (void)json_set(last, STR("message"),
                   message.len ? json_new_str(arena, message) : json_new_null(arena));
}

static void add_conditions(struct arena *arena,
                           struct json *status,
                           struct pod *pod,
                           int64_t now_ms)
{
    const char *phase = lifecycle_phase(&pod->run);
    bool succeeded = strcmp(phase, "Succeeded") == 0, failed = strcmp(phase, "Failed") == 0;
    bool initialized = lifecycle_is_initialized(&pod->run), ready = pod_is_ready(pod);
    if (initialized && !pod->initialized_ms)
        pod->initialized_ms = now_ms;
    if (ready != pod->was_ready || !pod->ready_changed_ms) {
        pod->was_ready = ready;
        pod->ready_changed_ms = now_ms;
        network_ready_changed(pod);
    }
    const char *reason = ready                                      ? NULL
                         : succeeded                                ? "PodCompleted"
                         : failed                                   ? "PodFailed"
                         : pod->suspend.stage != SUSPEND_STAGE_NONE ? "PodSuspended"
                                                                    : "ContainersNotReady";
    struct json *conditions = json_add_array(arena, status, "conditions");
    int64_t initialized_ms = pod->initialized_ms ? pod->initialized_ms : pod->started_ms;
    add_condition(arena, conditions, "PodReadyToStartContainers", pod->stage == POD_RUNNING,
                  pod->started_ms, NULL);
    add_condition(arena, conditions, "Initialized", initialized, initialized_ms,
                  succeeded     ? "PodCompleted"
                  : initialized ? NULL
                                : "ContainersNotInitialized");
    condition_tell(arena, conditions, initialized ? STR_NONE : names_text(arena, pod, true));
    bool unready = reason && strcmp(reason, "ContainersNotReady") == 0;
    struct str message = unready ? names_text(arena, pod, false) : STR_NONE;
    add_condition(arena, conditions, "Ready", ready, pod->ready_changed_ms, reason);
    condition_tell(arena, conditions, message);
    add_condition(arena, conditions, "ContainersReady", ready, pod->ready_changed_ms, reason);
    condition_tell(arena, conditions, message);
    add_condition(arena, conditions, "PodScheduled", true, pod->started_ms, NULL);
    suspend_add_condition(pod, arena, conditions);
}

struct str status_patch(struct arena *arena, struct pod *pod, int64_t now_ms)
{
    struct json *patch = json_new_object(arena);
    struct json *status = json_add_object(arena, patch, "status");
    json_add_c(arena, status, "phase", lifecycle_phase(&pod->run));
    if (pod->stop_reason.len) {
        json_add_str(arena, status, "reason", pod->stop_reason);
        json_add_str(arena, status, "message", pod->stop_message);
    }
    add_conditions(arena, status, pod, now_ms);
    json_add_c(arena, status, "hostIP", pod->agent->node_address);
    if (pod->ip[0]) {
        json_add_c(arena, status, "podIP", pod->ip);
        struct json *ips = json_add_array(arena, status, "podIPs");
        json_add_c(arena, json_push(ips, json_new_object(arena)), "$patch", "replace");
        json_add_c(arena, json_push(ips, json_new_object(arena)), "ip", pod->ip);
    }
    if (pod->started_ms)
        json_add_str(arena, status, "startTime", time_text(arena, pod->started_ms));
    json_add_c(arena, status, "qosClass", pod_qos(json_get(pod->root, "spec")));
    struct json *inits = json_new_array(arena), *mains = json_new_array(arena);
    struct json *ephemerals = json_new_array(arena);
    for (size_t i = 0; i < pod->run.count; i++) {
        const struct run_container *c = &pod->run.containers[i];
        (void)json_push(c->init        ? inits
                        : c->ephemeral ? ephemerals
                                       : mains,
                        container_status(arena, pod, i));
    }
    if (json_count(inits))
        (void)json_set(status, STR("initContainerStatuses"), inits);
    (void)json_set(status, STR("containerStatuses"), mains);
    if (json_count(ephemerals))
        (void)json_set(status, STR("ephemeralContainerStatuses"), ephemerals);
    return json_text(arena, patch);
}
