#include "agent/probe.h"

#include "agent/check.h"
#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/pod.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HOOK_TIMEOUT_MS 600000 /* a hook that never ends; the pod's grace ends a preStop sooner */

enum probe_role {
    PROBE_STARTUP,
    PROBE_LIVENESS,
    PROBE_READINESS,
    PROBE_ROLES,
};

static const char *const role_members[PROBE_ROLES] = {"startupProbe", "livenessProbe",
                                                      "readinessProbe"};
static const char *const role_words[PROBE_ROLES] = {"Startup", "Liveness", "Readiness"};

struct probe {
    struct probe *next;
    struct pod *pod; /* NULL once it was ended */
    size_t container;
    enum probe_role role;
    const struct json *spec;
    int64_t period_ms;
    int64_t successes_needed;
    int64_t failures_needed;
    int64_t successes;
    int64_t failures;
    struct check *check;
    struct timer *timer;
    struct agent *agent;
};

static void on_closed(void *user)
{
    struct probe *probe = user;
    struct agent *agent = probe->agent;
    mem_free(probe);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void probe_free(struct probe *probe)
{
    for (struct probe **at = &probe->pod->probes; *at; at = &(*at)->next)
        if (*at == probe) {
            *at = probe->next;
            break;
        }
    check_cancel(probe->check);
    probe->check = NULL;
    probe->pod = NULL;
    timer_close(probe->timer, on_closed);
}

void probe_end(struct pod *pod, size_t container)
{
    for (struct probe *probe = pod->probes, *next; probe; probe = next) {
        next = probe->next;
        if (probe->container == container)
            probe_free(probe);
    }
}

void probe_end_all(struct pod *pod)
{
    while (pod->probes)
        probe_free(pod->probes);
}

/* ---- what a result means ---- */

static void container_ask_to_stop(struct pod *pod,
                                  struct run_container *c,
                                  const struct probe *probe)
{
    if (c->stop_ms)
        return;
    c->stop_ms = agent_now_ms();
    c->stop_grace_ms = pod->run.grace_ms;
    int64_t seconds;
    if (probe && json_i64(json_get(probe->spec, "terminationGracePeriodSeconds"), &seconds))
        c->stop_grace_ms = 1000 * seconds;
}

static void probe_passed(struct probe *probe)
{
    struct run_container *c = &probe->pod->run.containers[probe->container];
    probe->failures = 0;
    if (++probe->successes < probe->successes_needed)
        return;
    if (probe->role == PROBE_STARTUP)
        c->startup_passed = true;
    else if (probe->role == PROBE_READINESS)
        c->probed_ready = true;
    pod_mark(probe->pod);
}

static void probe_failed(struct probe *probe, struct str words)
{
    struct pod *pod = probe->pod;
    struct run_container *c = &pod->run.containers[probe->container];
    _cleanup_(arena_done) struct arena arena = {0};
    probe->successes = 0;
    pod_event(pod, true, "Unhealthy",
              str_printf(&arena, "%s probe failed: " STR_FMT, role_words[probe->role],
                         STR_ARG(str_trim(words))));
    if (++probe->failures < probe->failures_needed)
        return;
    if (probe->role == PROBE_READINESS) {
        c->probed_ready = false;
    } else {
        pod_event(pod, false, "Killing",
                  str_printf(&arena, "Container " STR_FMT " failed its %s probe, will be restarted",
                             STR_ARG(c->name),
                             probe->role == PROBE_STARTUP ? "startup" : "liveness"));
        container_ask_to_stop(pod, c, probe);
    }
    pod_mark(pod);
}

static void on_result(void *user, bool ok, struct str words)
{
    struct probe *probe = user;
    probe->check = NULL;
    if (probe->pod->suspend.stage != SUSPEND_STAGE_NONE)
        return; /* asked of one that stands still by now */
    if (ok)
        probe_passed(probe);
    else
        probe_failed(probe, words);
    bool finished =
        probe->role == PROBE_STARTUP && probe->pod->run.containers[probe->container].startup_passed;
    if (finished)
        probe_free(probe);
}

static void on_due(void *user)
{
    struct probe *probe = user;
    const struct run_container *c = &probe->pod->run.containers[probe->container];
    /* Until the container has started up only the startup probe counts. */
    if (probe->check || c->stop_ms || probe->pod->suspend.stage != SUSPEND_STAGE_NONE ||
        (probe->role != PROBE_STARTUP && !c->startup_passed))
        return;
    probe->check = check_start(&(struct check_request){
        .pod = probe->pod,
        .container = probe->container,
        .action = probe->spec,
        .timeout_ms = 1000 * json_i64_or(json_get(probe->spec, "timeoutSeconds"), 1),
        .done = on_result,
        .user = probe});
}

static void probe_start(struct pod *pod, size_t container, enum probe_role role)
{
    const struct json *spec = json_get(pod_container_spec(pod, container), role_members[role]);
    if (!spec)
        return;
    struct probe *probe = MEM_NEW(struct probe);
    *probe = (struct probe){.next = pod->probes,
                            .pod = pod,
                            .agent = pod->agent,
                            .container = container,
                            .role = role,
                            .spec = spec};
    probe->period_ms = 1000 * json_i64_or(json_get(spec, "periodSeconds"), 10);
    probe->successes_needed = json_i64_or(json_get(spec, "successThreshold"), 1);
    probe->failures_needed = json_i64_or(json_get(spec, "failureThreshold"), 3);
    int64_t delay_ms = 1000 * json_i64_or(json_get(spec, "initialDelaySeconds"), 0);
    if (probe->period_ms < 1000)
        probe->period_ms = 1000;
    pod->probes = probe;
    pod->agent->streams_open++;
    probe->timer = timer_new(pod->agent->loop, probe);
    timer_every(probe->timer, delay_ms, probe->period_ms, on_due);
}

void probe_begin(struct pod *pod, size_t container)
{
    probe_end(pod, container);
    for (enum probe_role role = 0; role < PROBE_ROLES; role++)
        probe_start(pod, container, role);
}

/* ---- hooks ---- */

struct hook {
    struct agent *agent;
    char uid[64];
    size_t container;
    unsigned instance;
    bool pre_stop;
};

/* The pod may be gone, or the container another one, by the time the hook is done. */
static void on_hook(void *user, bool ok, struct str words)
{
    struct hook *hook = user;
    struct pod *pod = map_get(&hook->agent->pods, str_from(hook->uid));
    struct run_container *c = pod ? &pod->run.containers[hook->container] : NULL;
    if (c && c->instance == hook->instance) {
        if (hook->pre_stop)
            c->pre_stop = HOOK_DONE;
        else
            c->post_start = HOOK_DONE;
        if (!ok)
            pod_event(pod, true, hook->pre_stop ? "FailedPreStopHook" : "FailedPostStartHook",
                      str_trim(words));
        if (!ok && !hook->pre_stop)
            container_ask_to_stop(pod, c, NULL);
        pod_mark(pod);
    }
    mem_free(hook);
}

static void hook_run(struct pod *pod, size_t container, const char *path, bool pre_stop)
{
    struct hook *hook = MEM_NEW(struct hook);
    *hook = (struct hook){.agent = pod->agent,
                          .container = container,
                          .instance = pod->run.containers[container].instance,
                          .pre_stop = pre_stop};
    (void)snprintf(hook->uid, sizeof(hook->uid), STR_FMT, STR_ARG(pod->uid));
    (void)check_start(
        &(struct check_request){.pod = pod,
                                .container = container,
                                .action = json_at(pod_container_spec(pod, container), path),
                                .timeout_ms = HOOK_TIMEOUT_MS,
                                .done = on_hook,
                                .user = hook});
}

void probe_post_start(struct pod *pod, size_t container)
{
    hook_run(pod, container, "lifecycle.postStart", false);
}

void probe_pre_stop(struct pod *pod, size_t container)
{
    hook_run(pod, container, "lifecycle.preStop", true);
}
