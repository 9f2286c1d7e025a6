#include "agent/pod_run.h"

#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/device.h"
#include "agent/host_port.h"
#include "agent/kept.h"
#include "agent/lifecycle.h"
#include "agent/link.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/oci.h"
#include "agent/pod.h"
#include "agent/pod_end.h"
#include "agent/prepare.h"
#include "agent/probe.h"
#include "agent/protect.h"
#include "agent/ranks.h"
#include "agent/recover.h"
#include "agent/standby.h"
#include "agent/status.h"
#include "agent/stream.h"
#include "agent/suspend.h"
#include "agent/volume.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/image.h"
#include "shim/message.h"
#include "shim/shim.h"
#include "tool/files.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* pod_run: the shell around one pod's lifecycle: what the API and the shim say goes into its struct
 * run, what lifecycle_step() orders goes to the shim, the result goes back as status.
 *
 * A pod is looked at (pod_step) in the agent's turn after something about it changed, never from
 * inside a callback, so that all pods of a gang are known before the first one starts. */
#define RETRY_MS        1000 /* for something a pod refers to that is not there yet */
#define GRACE_DEFAULT_S 30
#define FIRST_WORD_MS   100 /* a pod that starts sooner is not told as one that is starting */

static void shim_message(void *user, const char *text, int fd);
static void shim_lost(void *user);
static void link_closed(void *user);

/* ---- making and freeing ---- */

static void on_timer(void *user)
{
    pod_mark(user);
}

static enum run_policy policy_of(struct str text)
{
    return str_is(text, "Never")       ? RUN_NEVER
           : str_is(text, "OnFailure") ? RUN_ON_FAILURE
                                       : RUN_ALWAYS;
}

/* Those that are new: all of them at first, later the ephemeral ones that were added. */
static void pod_decode_containers(struct pod *pod)
{
    size_t inits = json_count(json_at(pod->root, "spec.initContainers"));
    size_t own = inits + json_count(json_at(pod->root, "spec.containers"));
    size_t count = own + json_count(json_at(pod->root, "spec.ephemeralContainers"));
    count = count < SHIM_CONTAINERS_MAX ? count : SHIM_CONTAINERS_MAX;
    const struct run_container *before = pod->run.containers;
    size_t known = pod->run.count;
    pod->run.containers = ARENA_ARRAY(&pod->arena, struct run_container, count);
    pod->run.count = count;
    if (known)
        memcpy(pod->run.containers, before, known * sizeof(*before));
    for (size_t i = known; i < count; i++) {
        const struct json *spec = pod_container_spec(pod, i);
        struct run_container *c = &pod->run.containers[i];
        c->name = json_str(json_get(spec, "name"));
        c->init = i < inits;
        c->ephemeral = i >= own;
        c->sidecar = c->init && str_is(json_str(json_get(spec, "restartPolicy")), "Always");
        c->has_startup_probe = json_get(spec, "startupProbe") != NULL;
        c->has_readiness_probe = json_get(spec, "readinessProbe") != NULL;
        c->has_post_start = json_at(spec, "lifecycle.postStart") != NULL;
        c->has_pre_stop = json_at(spec, "lifecycle.preStop") != NULL;
        c->startup_passed = !c->has_startup_probe;
    }
}

/* Ephemeral containers that were added since the pod began; nothing else of a pod is added. */
static void pod_take_ephemerals(struct pod *pod, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *known = json_at(pod->root, "spec.ephemeralContainers");
    size_t count = json_count(known), index = 0;
    if (!str_contains(object->raw, STR("\"ephemeralContainers\"")))
        return;
    const struct json *list = json_at(object_json(object, &arena), "spec.ephemeralContainers");
    if (json_count(list) <= count)
        return;
    if (!known)
        known = json_add_array(&pod->arena, json_get(pod->root, "spec"), "ephemeralContainers");
    JSON_FOREACH(list, container)
        if (index++ >= count)
            (void)json_push(known, json_clone(&pod->arena, container));
    pod_decode_containers(pod);
}

static struct pod *pod_new(struct agent *agent, const struct object *object, int node)
{
    struct pod *pod = MEM_NEW(struct pod);
    pod->agent = agent;
    pod->object = object_ref(object);
    struct object *first = object_ref(object);
    arena_defer(&pod->arena, object_release, first);
    pod->root = object_json(first, &pod->arena);
    pod->ns = first->ns;
    pod->name = first->name;
    pod->uid = first->uid;
    pod->key =
        str_printf(&pod->arena, STR_FMT "/" STR_FMT, STR_ARG(first->ns), STR_ARG(first->name));
    pod->node = (uint32_t)node;
    (void)snprintf(pod->folder, sizeof(pod->folder), "%s/pods/" STR_FMT, agent->options.data_dir,
                   STR_ARG(pod->uid));
    pod->link = (struct link){
        .fd = -1, .message = shim_message, .lost = shim_lost, .closed = link_closed, .user = pod};
    pod->run.policy = policy_of(json_str_at(pod->root, "spec.restartPolicy"));
    pod->run.grace_ms = 1000 * json_i64_or(json_at(pod->root, "spec.terminationGracePeriodSeconds"),
                                           GRACE_DEFAULT_S);
    pod_decode_containers(pod);
    pod->timer = timer_new(agent->loop, pod);
    pod->handles_open = 1;
    map_set(&agent->pods, pod->uid, pod);
    map_set(&agent->by_key, pod->key, pod);
    return pod;
}

static void pod_maybe_free(struct pod *pod)
{
    if (pod->stage != POD_GONE || pod->handles_open || pod->status_under_way || pod->dirty)
        return;
    ranks_free(pod);
    object_unref(pod->object);
    mem_free(pod->status_sent);
    arena_done(&pod->arena);
    struct agent *agent = pod->agent;
    agent->pods_open--;
    mem_free(pod);
    agent_maybe_free(agent);
}

static void timer_closed(void *user)
{
    struct pod *pod = user;
    pod->handles_open--;
    pod_maybe_free(pod);
}

static void link_closed(void *user)
{
    struct pod *pod = user;
    pod->handles_open--;
    if (pod->stage == POD_GONE)
        pod_maybe_free(pod);
    else
        pod_mark(pod);
}

/* Out of the tables; the memory goes when its handles have closed. The pod's processes are not
 * touched. */
void pod_free(struct pod *pod)
{
    struct agent *agent = pod->agent;
    if (pod->stage == POD_GONE)
        return;
    pod->stage = POD_GONE;
    probe_end_all(pod);
    suspend_forget(pod);
    streams_end_pod(pod);
    if (map_get(&agent->pods, pod->uid) == pod)
        map_remove(&agent->pods, pod->uid);
    if (map_get(&agent->by_key, pod->key) == pod)
        map_remove(&agent->by_key, pod->key);
    link_close(&pod->link);
    timer_close(pod->timer, timer_closed);
}

/* ---- what the shim and its files say ---- */

static void shim_lost(void *user)
{
    struct pod *pod = user;
    link_close(&pod->link);
    pod->standby = (struct pod_standby){0}; /* it tells of it again, if it is there */
    pod->asked = false;
    pod->awaited = true; /* gone, or only out of reach: its lock says */
    pod_mark(pod);
}

static void container_runs(struct pod *pod, struct run_container *c, const struct shim_event *event)
{
    if (c->state == RUN_ENDED)
        return;
    _cleanup_(arena_done) struct arena arena = {0};
    if (c->state != RUN_RUNNING)
        pod_event(pod, false, "Started",
                  str_printf(&arena, "Started container " STR_FMT, STR_ARG(c->name)));
    c->state = RUN_RUNNING;
    c->seen = true;
    c->started_ms = event->started_ms;
    c->pid = event->pid;
    ranks_begin(pod);
    if (!c->init || c->sidecar)
        probe_begin(pod, (size_t)(c - pod->run.containers));
    pod_mark(pod);
}

static void shim_message(void *user, const char *text, int fd)
{
    struct pod *pod = user;
    struct shim_event event;
    if (shim_event_parse(text, &event)) {
        size_t index = pod_container_index(pod, str_from(event.name));
        struct run_container *c = index < pod->run.count ? &pod->run.containers[index] : NULL;
        struct shim_exit said;
        struct run_end end;
        if (c && c->instance < event.instance && standby_take(pod, index, &event))
            return;
        if (!c || c->instance != event.instance || c->state == RUN_ENDED)
            return; /* of an instance that is history */
        if (event.end && shim_exit_parse(event.end, &said)) {
            pod_take_end(pod, c, &said, &end);
            pod_container_ended(pod, c, &end);
        } else if (event.exited && pod_read_exit(pod, c, &end)) {
            pod_container_ended(pod, c, &end);
        } else if (!event.exited && !event.end) {
            container_runs(pod, c, &event);
        }
        return;
    }
    if (strcmp(text, "synced") == 0)
        recover_synced(pod);
    else
        streams_message(pod, text, fd);
}

/* ---- steps ---- */

static void pod_set_waiting(struct pod *pod, const char *reason, const struct err *err)
{
    struct str message = str_from(err->text);
    if (!str_eq(message, pod->waiting_message)) {
        pod->waiting_reason = str_from(reason);
        pod->waiting_message = str_dup(&pod->arena, message);
        pod_event(pod, true, reason, message);
    }
}

/* A container that cannot even be described ends as one that could not be started. */
static void container_refuse(struct pod *pod, struct run_container *c, const struct err *err)
{
    int64_t now = agent_now_ms();
    struct run_end end = {.set = true,
                          .code = 128,
                          .never_started = true,
                          .started_ms = now,
                          .ended_ms = now,
                          .message = str_dup(&pod->arena, str_from(err->text))};
    pod_container_ended(pod, c, &end);
}

/* Why the container's image keeps it from starting; NULL: it does not. */
static const char *image_trouble(const struct pod *pod, size_t index, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct image image;
    const char *reason = NULL;
    if (!pod->agent->options.images_oci || oci_image(pod, index, &arena, &image, &reason, err) == 0)
        return NULL;
    return reason;
}

static void container_start(struct pod *pod, size_t index)
{
    struct run_container *c = &pod->run.containers[index];
    struct err err = {0};
    int pid = 0;
    if (standby_go(pod, index, &pid)) {
        if (pid)
            container_runs(pod, c, &(struct shim_event){.pid = pid, .started_ms = agent_now_ms()});
        return;
    }
    const char *reason = image_trouble(pod, index, &err);
    if (!reason && !pod->prepared && prepare_files(pod, &err) < 0)
        reason = "FailedMount";
    int r = reason ? -EAGAIN : c->ephemeral ? prepare_ephemeral(pod, index, &err) : 0;
    if (r == 0)
        r = prepare_container(pod, index, &err);
    if (r == -ENOEXEC) { /* nothing to run: another try is no restart, and would not help */
        reason = "CreateContainerError";
        r = -EAGAIN;
    }
    if (r == -EAGAIN) {
        pod_set_waiting(pod, reason ? reason : "CreateContainerConfigError", &err);
        c->state = RUN_WAITING;
        c->start_after_ms = agent_now_ms() + RETRY_MS;
        pod_mark(pod);
        return;
    }
    if (r) {
        container_refuse(pod, c, &err);
        return;
    }
    pod->waiting_reason = pod->waiting_message = STR_NONE;
    link_send(&pod->link, NULL, 0, "start " STR_FMT " %u", STR_ARG(c->name), c->instance);
}

static void plan_apply(struct pod *pod, const struct run_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct run_action *action = &plan->actions[i];
        struct run_container *c = &pod->run.containers[action->container];
        switch (action->verb) {
        case RUN_START: container_start(pod, action->container); break;
        case RUN_SIGNAL:
            link_send(&pod->link, NULL, 0, "signal " STR_FMT " %u %d", STR_ARG(c->name),
                      c->instance, action->signal);
            break;
        case RUN_POST_START: probe_post_start(pod, action->container); break;
        case RUN_PRE_STOP: probe_pre_stop(pod, action->container); break;
        }
    }
}

/* The lock first: a shim that an earlier muster asked for may still be on its way. */
static int pod_make_shim(struct pod *pod, struct err *err)
{
    struct agent *agent = pod->agent;
    int r = files_make_folder(pod->folder, 0711, err);
    int lock_fd = r ? r : link_lock(pod->folder, err);
    if (lock_fd < 0)
        return lock_fd;
    r = prepare_pod(pod, err);
    if (r == 0)
        r = link_spawn(&pod->link, agent->loop,
                       &(struct link_order){agent->spawner, pod->folder, lock_fd}, err);
    close(lock_fd);
    return r;
}

static int pod_start_shim(struct pod *pod, struct err *err)
{
    struct agent *agent = pod->agent;
    if (!pod->ip[0])
        network_take_address(pod);
    if (!pod->started_ms) {
        pod->started_ms = agent_now_ms();
        device_take(pod);
    }
    int r = pod_make_shim(pod, err);
    if (r == -EBUSY) {
        pod->awaited = true;
        pod->stage = POD_RUNNING;
        network_ports_changed(pod);
        return 0;
    }
    if (r < 0)
        return r;
    lifecycle_shim_started(&pod->shim, agent_now_ms());
    pod->handles_open++;
    if (!agent->images_told && !agent->options.images_oci) {
        agent->images_told = true;
        pod_event(pod, false, "ImageIgnored",
                  STR("Images are not used on this node: commands run on the machine's own file "
                      "system (reported once)"));
    }
    pod->stage = POD_RUNNING;
    network_ports_changed(pod);
    pod->waiting_reason = pod->waiting_message = STR_NONE;
    return 0;
}

static void pod_set_wake(struct pod *pod, int64_t wake_ms)
{
    if (wake_ms == INT64_MAX)
        timer_cancel(pod->timer);
    else
        timer_in(pod->timer, wake_ms - agent_now_ms(), on_timer);
}

static void pod_check_deadline(struct pod *pod, int64_t now_ms, int64_t *wake_ms)
{
    int64_t seconds;
    /* What has ended is not limited, whenever that is heard of. */
    if (pod->run.stop_ms || !pod->started_ms || lifecycle_is_over(&pod->run) ||
        !json_i64(json_at(pod->root, "spec.activeDeadlineSeconds"), &seconds))
        return;
    int64_t end_ms = pod->started_ms + 1000 * seconds + pod->suspend.total_ms;
    if (now_ms < end_ms) {
        *wake_ms = end_ms < *wake_ms ? end_ms : *wake_ms;
        return;
    }
    pod->run.stop_ms = now_ms;
    pod->run.failed = true;
    pod->stop_reason = STR("DeadlineExceeded");
    pod->stop_message = STR("Pod was active on the node longer than the specified deadline");
    pod_event(pod, true, "DeadlineExceeded", pod->stop_message);
}

static void pod_finish(struct pod *pod)
{
    standby_drop(pod);
    link_send(&pod->link, NULL, 0, "stop");
    device_give(pod);
    network_pod_changed(pod);
    pod->stage = POD_OVER;
    network_ports_changed(pod);
    kept_strip(pod);
}

static void done_delete(void *user, const struct api_result *result)
{
    struct pod *pod = user;
    pod->status_under_way = false;
    if (result->code && result->err && result->err->http_status != 404)
        pod->delete_sent = false;
    if (pod->stage == POD_GONE)
        pod_maybe_free(pod);
    else
        pod_mark(pod);
}

/* The last word on a pod that was being deleted. */
static void pod_send_delete(struct pod *pod)
{
    pod->delete_sent = true;
    pod->status_under_way = true;
    struct api_request request = {.verb = API_DELETE,
                                  .kind = &kind_pod,
                                  .ns = pod->ns,
                                  .name = pod->name,
                                  .uid = pod->uid,
                                  .body = STR("{\"gracePeriodSeconds\":0}")};
    agent_call(pod->agent, &request, done_delete, pod);
}

static void done_status(void *user, const struct api_result *result)
{
    struct pod *pod = user;
    pod->status_under_way = false;
    if (result->code && result->err && result->err->http_status != 404) {
        mem_free(pod->status_sent);
        pod->status_sent = NULL;
        pod->retry_ms = agent_now_ms() + RETRY_MS;
    }
    if (pod->stage == POD_GONE)
        pod_maybe_free(pod);
    else
        pod_mark(pod);
}

/* On its way, nothing amiss, and not for long. */
static bool pod_is_starting(const struct pod *pod, int64_t now_ms)
{
    if (pod->stage != POD_RUNNING || pod->status_sent || pod->waiting_reason.len ||
        pod->run.stop_ms || now_ms >= pod->started_ms + FIRST_WORD_MS)
        return false;
    for (size_t i = 0; i < pod->run.count; i++)
        if (pod->run.containers[i].state == RUN_RUNNING ||
            pod->run.containers[i].state == RUN_ENDED)
            return false;
    return true;
}

/* True when the API knows all there is to say. */
static bool pod_send_status(struct pod *pod, int64_t now_ms)
{
    if (pod->silent)
        return true;
    bool unknown = pod->stage == POD_RUNNING && (pod->awaited || pod->asked);
    if (pod->status_under_way || unknown || pod_is_starting(pod, now_ms))
        return false;
    _cleanup_(arena_done) struct arena arena = {0};
    struct str body = status_patch(&arena, pod, now_ms);
    if (pod->status_sent && str_is(body, pod->status_sent))
        return true;
    mem_free(pod->status_sent);
    pod->status_sent = mem_alloc(body.len + 1);
    memcpy(pod->status_sent, body.p, body.len);
    pod->status_under_way = true;
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_pod,
                                  .ns = pod->ns,
                                  .name = pod->name,
                                  .uid = pod->uid,
                                  .subresource = STR("status"),
                                  /* conditions of others, DisruptionTarget for one, stay */
                                  .patch = API_PATCH_STRATEGIC,
                                  .body = body};
    agent_call(pod->agent, &request, done_status, pod);
    return false;
}

static void pod_step_running(struct pod *pod, int64_t now_ms)
{
    int64_t wake_ms = INT64_MAX;
    struct err err = {0};
    if (pod->awaited && !recover_shim(pod)) {
        pod_set_wake(pod, now_ms + RECOVER_LOOK_MS);
        return;
    }
    if (pod->asked)
        return; /* what is ordered now could be begun behind the answer, and be taken for lost */
    if (suspend_step(pod, now_ms, &wake_ms)) {
        pod_set_wake(pod, wake_ms);
        return;
    }
    /* The shim died and the pod's containers with it, but its policy may start them again. */
    if (!pod->link.open && !lifecycle_is_over(&pod->run)) {
        if (pod->handles_open > 1)
            return; /* the old link is still closing */
        int64_t after_ms = lifecycle_shim_gone(&pod->shim, now_ms);
        if (now_ms < after_ms) {
            (void)err_set(&err, -EAGAIN,
                          "The pod's shim ended soon after it started; the next one starts after a "
                          "back-off of up to %d s (the log of muster says why it ended)",
                          RUN_BACKOFF_MAX_MS / 1000);
            pod_set_waiting(pod, "FailedCreatePodSandBox", &err);
            pod_set_wake(pod, after_ms);
            return;
        }
        if (pod_start_shim(pod, &err) < 0) {
            pod_set_waiting(pod, "FailedCreatePodSandBox", &err);
            pod_set_wake(pod, now_ms + RETRY_MS);
            return;
        }
        if (pod->awaited) {
            pod_set_wake(pod, now_ms + RECOVER_LOOK_MS);
            return;
        }
    }
    pod_check_deadline(pod, now_ms, &wake_ms);
    struct run_plan plan;
    lifecycle_step(&pod->run, now_ms, &plan);
    plan_apply(pod, &plan);
    standby_step(pod);
    if (pod_is_starting(pod, now_ms) && pod->started_ms + FIRST_WORD_MS < wake_ms)
        wake_ms = pod->started_ms + FIRST_WORD_MS;
    pod_set_wake(pod, plan.wake_ms < wake_ms ? plan.wake_ms : wake_ms);
    if (lifecycle_is_over(&pod->run))
        pod_finish(pod);
}

/* Its folder goes, its name is free again; but first its shim, which still writes there. */
static void pod_bury(struct pod *pod)
{
    suspend_drop(pod);
    if (pod->stage == POD_RUNNING)
        pod_finish(pod);
    if (pod->awaited && !recover_shim(pod)) {
        pod_set_wake(pod, agent_now_ms() + RECOVER_LOOK_MS);
        return;
    }
    if (pod->link.open) {
        link_send(&pod->link, NULL, 0, "stop forget");
        return; /* its end brings us here again */
    }
    cgroup_remove(&pod->agent->machine.cgroups, pod->uid);
    kept_bury(pod);
    pod_free(pod);
}

/* Not on this machine, however long it waits. */
static void pod_refuse(struct pod *pod, int64_t now_ms, const char *reason, const struct err *err)
{
    pod->run.failed = true;
    pod->run.stop_ms = now_ms;
    pod->stop_reason = str_from(reason);
    pod->stop_message = str_dup(&pod->arena, str_from(err->text));
    pod_event(pod, true, reason, pod->stop_message);
    device_give(pod);
    network_pod_changed(pod);
    pod->stage = POD_OVER;
}

/* The scheduler looks for free ports; who names the node in the pod does not. */
static bool ports_are_taken(const struct pod *pod, struct err *err)
{
    const struct json *spec = json_get(pod->root, "spec");
    if (pod->awaited || !host_port_any(spec)) /* it has them already, or needs none */
        return false;
    MAP_FOREACH(&pod->agent->pods, entry) {
        const struct pod *other = entry->value;
        const struct json *theirs = json_get(other->root, "spec");
        if (other == pod || other->stage != POD_RUNNING ||
            !str_eq(json_str(json_get(spec, "nodeName")), json_str(json_get(theirs, "nodeName"))))
            continue;
        int port = host_port_common(spec, theirs);
        if (!port)
            continue;
        (void)err_set(err, -EADDRINUSE,
                      "Pod was rejected: Predicate NodePorts failed: pod " STR_FMT "/" STR_FMT
                      " has host port %d of this node",
                      STR_ARG(other->ns), STR_ARG(other->name), port);
        return true;
    }
    return false;
}

static void pod_start_or_wait(struct pod *pod, int64_t now_ms)
{
    struct err err = {0};
    const char *lacks = protect_wait(pod->agent);
    if (lacks) {
        (void)err_set(&err, -EAGAIN,
                      "The machine is short of %s: no pod is started until it has "
                      "more",
                      lacks);
        pod_set_waiting(pod, "NodeUnderPressure", &err);
        pod->retry_ms = now_ms + RETRY_MS;
        return;
    }
    if (ports_are_taken(pod, &err)) {
        pod_refuse(pod, now_ms, "NodePorts", &err);
        return;
    }
    int r = pod_start_shim(pod, &err);
    if (r == -ENOTSUP) {
        pod_refuse(pod, now_ms, "NotPermitted", &err);
    } else if (r) {
        if (!pod->token_under_way) /* that is no failure, and tells when it is over */
            pod_set_waiting(pod, r == -ENETDOWN ? "NetworkNotReady" : "FailedMount", &err);
        pod->retry_ms = now_ms + RETRY_MS;
    }
}

void pod_step(struct pod *pod)
{
    int64_t now_ms = agent_now_ms();
    if (pod->stage == POD_GONE) {
        pod_maybe_free(pod);
        return;
    }
    if (pod->deleted) {
        pod_bury(pod);
        return;
    }
    if (pod->stage == POD_NEW) {
        if (pod->run.stop_ms) { /* deleted before it began */
            pod->stage = POD_OVER;
        } else if (now_ms >= pod->retry_ms) {
            pod_start_or_wait(pod, now_ms);
        }
        if (pod->stage == POD_NEW)
            pod_set_wake(pod, pod->retry_ms);
    }
    if (pod->stage == POD_RUNNING)
        pod_step_running(pod, now_ms);
    bool told = pod_send_status(pod, now_ms);
    if (pod->stage == POD_OVER && told && pod->object->deleted_ms && !pod->delete_sent)
        pod_send_delete(pod);
}

/* ---- what the API says ---- */

static bool phase_is_over(const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str phase = json_str_at(object_tree(object, &arena), "status.phase");
    return str_is(phase, "Succeeded") || str_is(phase, "Failed");
}

static void pod_begin_stop(struct pod *pod, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t seconds = pod->run.grace_ms / 1000;
    (void)json_i64(json_at(object_json(object, &arena), "metadata.deletionGracePeriodSeconds"),
                   &seconds);
    pod->run.grace_ms = 1000 * seconds;
    if (!pod->run.stop_ms) {
        pod->run.stop_ms = agent_now_ms();
        if (!lifecycle_is_quiet(&pod->run))
            pod_event(pod, false, "Killing", STR("Stopping the pod's containers"));
    }
}

/* Whether it restarts in place, and which round is on. */
static void pod_take_place(struct pod *pod)
{
    struct place place = place_parse(object_annotation(pod->object, PLACE_ANNOTATION));
    pod->run.stays = place.set && pod->run.policy != RUN_ALWAYS;
    pod->run.go = place.go;
    pod->run.round = (unsigned)place.round;
}

/* It may be set, and made shorter, while the pod runs. */
static void pod_take_deadline(struct pod *pod, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    int64_t seconds;
    if (json_i64(json_at(object_tree(object, &arena), "spec.activeDeadlineSeconds"), &seconds) &&
        seconds != json_i64_or(json_at(pod->root, "spec.activeDeadlineSeconds"), -1))
        json_add_i64(&pod->arena, json_get(pod->root, "spec"), "activeDeadlineSeconds", seconds);
}

/* Nobody else could: it ends as any other, with what it wrote, and its job goes on elsewhere. */
static void pod_leave_node(struct pod *pod, struct str node)
{
    pod->run.stop_ms = agent_now_ms();
    pod->run.failed = true;
    pod->stop_reason = STR("NodeLost");
    pod->stop_message =
        str_printf(&pod->arena, "muster was started without node " STR_FMT " (--nodes %u)",
                   STR_ARG(node), pod->agent->options.node_count);
    pod_event(pod, true, "NodeLost", pod->stop_message);
}

void pod_observe(struct agent *agent, const struct object *object)
{
    struct pod *pod = map_get(&agent->pods, object->uid);
    if (!pod) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str node_name = json_str_at(object_tree(object, &arena), "spec.nodeName");
        int node = agent_node(agent, node_name);
        bool departed = node < 0 && recover_departed(agent, object, node_name);
        if (departed)
            node = (int)agent->options.node_count;
        if (node < 0)
            return;
        bool over = phase_is_over(object);
        pod = pod_new(agent, object, node);
        pod_take_place(pod);
        agent->pods_open++;
        if (over)
            recover_finished(pod);
        else
            recover_running(pod);
        if (departed && !over)
            pod_leave_node(pod, node_name);
        if (!over) {
            network_pod_changed(pod);
            network_ports_changed(pod);
        }
    } else {
        struct object *before = pod->object;
        pod->object = object_ref(object);
        network_pod_updated(pod, before);
        object_unref(before);
        pod_take_place(pod);
        pod_take_ephemerals(pod, object);
        pod_take_deadline(pod, object);
        volume_refresh_fields(pod);
    }
    if (object->deleted_ms || object_annotation(object, END_ANNOTATION).len)
        pod_begin_stop(pod, object);
    pod_mark(pod);
}

void pod_vanish(struct agent *agent, const struct object *object)
{
    struct pod *pod = map_get(&agent->pods, object->uid);
    if (!pod)
        return;
    pod->deleted = true;
    network_pod_changed(pod);
    network_ports_changed(pod);
    pod_mark(pod);
}
