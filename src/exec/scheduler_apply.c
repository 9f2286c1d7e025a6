#include "exec/scheduler_apply.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/cluster/suspension.h"
#include "control/core/group_name.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "exec/bind_annotations.h"
#include "exec/claims_write.h"
#include "exec/event.h"
#include "exec/nominator.h"
#include "exec/pod_write.h"
#include "exec/reservations.h"
#include "exec/resumer.h"
#include "exec/volumes_write.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct applier {
    struct applier_options options;
    struct resumer *resumer;
    struct call *calls;         /* under way, newest first */
    VEC(struct call *) held;    /* binds that wait for evictions */
    struct map forming;         /* "namespace/group": the bind that makes a gang of it */
    size_t evictions;           /* under way */
    size_t parked;              /* binds that wait for volumes */
    struct event_budget events; /* about single pods: a crowd is told by its groups */
    struct nominator *nominator;
};

/* A write under way. Owns copies of what it names. */
struct call {
    struct applier *applier; /* NULL once the applier is gone */
    struct call *next;
    struct call *previous;
    struct arena arena;
    bool evict;
    bool refused; /* by a PodDisruptionBudget */
    struct sched_pod_ref *pods;
    struct str *nodes;
    size_t pod_count;
    int64_t now_ms;
    struct str ns; /* of the group that it is for */
    struct str group;
    struct api_binding *bindings;    /* of a bind */
    struct reservations_pod *shares; /* of a bind; NULL: no pod of it has any */
    struct claims_write *claims;     /* of a bind; NULL: no pod of it has any */
    struct volumes_write *volumes;   /* of a bind; NULL: none has to be bound first */
    bool parked;                     /* it waits for them */
    bool first_start;                /* of its gang */
    struct str words;                /* of an eviction: why */
    bool suspend;                    /* of an eviction: the pod stays */
    struct str forms;                /* its key in applier.forming; empty: none */
    VEC(struct call *) followers; /* further binds of the group: what they add to must be there */
};

/* ---- writes under way ---- */

static struct call *call_new(struct applier *applier, size_t pods, int64_t now_ms)
{
    struct call *call = MEM_NEW(struct call);

    call->applier = applier;
    call->now_ms = now_ms;
    call->pods = ARENA_ARRAY(&call->arena, struct sched_pod_ref, pods);
    call->nodes = ARENA_ARRAY(&call->arena, struct str, pods);
    call->next = applier->calls;
    if (call->next)
        call->next->previous = call;
    applier->calls = call;
    return call;
}

static void call_add(struct call *call, const struct sched_pod_ref *pod, struct str node)
{
    call->nodes[call->pod_count] = str_dup(&call->arena, node);
    call->pods[call->pod_count++] = (struct sched_pod_ref){.ns = str_dup(&call->arena, pod->ns),
                                                           .name = str_dup(&call->arena, pod->name),
                                                           .uid = str_dup(&call->arena, pod->uid)};
}

static void call_free(struct call *call)
{
    for (size_t i = 0; i < call->followers.count; i++)
        call_free(call->followers.items[i]);
    VEC_DONE(&call->followers);
    if (call->applier) {
        if (call->forms.len)
            (void)map_remove(&call->applier->forming, call->forms);
        if (call->previous)
            call->previous->next = call->next;
        else
            call->applier->calls = call->next;
        if (call->next)
            call->next->previous = call->previous;
    }
    arena_done(&call->arena);
    mem_free(call);
}

static void tell_bound(struct call *call, const struct api_result *result)
{
    struct api *api = call->applier->options.api;

    for (size_t i = 0; i < call->pod_count; i++) {
        const struct sched_pod_ref *pod = &call->pods[i];

        if (!event_budget_take(&call->applier->events, call->now_ms))
            return;
        if (result->code)
            pod_tell(api, pod, "FailedBinding",
                     str_printf(&call->arena, "could not be bound to node " STR_FMT ": %s",
                                STR_ARG(call->nodes[i]), result->err ? result->err->text : ""),
                     true, call->now_ms);
        else
            pod_tell(api, pod, "Scheduled",
                     str_printf(&call->arena, "bound to node " STR_FMT, STR_ARG(call->nodes[i])),
                     false, call->now_ms);
    }
}

static void release_held(struct applier *applier);
static void annotate_group(struct applier *applier,
                           struct str ns,
                           struct str group,
                           const char *key,
                           int64_t moment);

static void launch_bind(struct call *call);

static void call_done_as(struct call *call, int code, const bool *undone)
{
    const struct applier_options *options = &call->applier->options;

    options->done(options->user, &(struct applier_outcome){.code = code,
                                                           .evict = call->evict,
                                                           .refused = call->refused,
                                                           .pods = call->pods,
                                                           .pod_count = call->pod_count,
                                                           .ns = call->ns,
                                                           .group = call->group,
                                                           .planned_ms = call->now_ms,
                                                           .undone = undone});
}

static void call_done(struct call *call, int code)
{
    call_done_as(call, code, NULL);
}

/* The group's gang is there now, or it is not: then nothing can be added to it. */
static void call_followers(struct call *call, int code)
{
    struct applier *applier = call->applier;

    if (call->forms.len)
        (void)map_remove(&applier->forming, call->forms);
    call->forms = STR_NONE;
    for (size_t i = 0; i < call->followers.count; i++) {
        struct call *follower = call->followers.items[i];

        if (!code) {
            launch_bind(follower);
            continue;
        }
        call_done(follower, -EAGAIN);
        call_free(follower);
    }
    call->followers.count = 0;
}

/* Run times are counted from here: also of a gang that stood still for long and goes on. */
static void note_start(struct call *call, int code)
{
    const struct applier_options *options = &call->applier->options;

    if (!code && call->first_start && options->keeps_starts(options->user))
        annotate_group(call->applier, call->ns, call->group, GROUP_START_ANNOTATION, call->now_ms);
}

static void on_bound(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (call->applier) {
        if (call->claims && result->code)
            claims_write_undo(call->claims);
        tell_bound(call, result);
        note_start(call, result->code);
        call_done_as(call, result->code, result->undone);
        if (call->shares)
            reservations_bound(call->applier->options.reservations, call->pods, call->pod_count,
                               result->code, result->undone);
        call_followers(call, result->code);
    }
    call_free(call);
}

/* ---- binds ---- */

/* Where reservation pods hold devices, only a pod that can do it itself may be suspended. */
static bool may_suspend(const struct applier *applier, const struct sched_bind *bind)
{
    const struct object *pod;

    if (!applier->options.reservations)
        return bind->may_suspend && bind->device_count;
    pod = cache_get(applier->options.cache, &kind_pod, bind->pod.ns, bind->pod.name);
    return applier->options.suspends && bind->gpu_group_count && pod &&
           suspension_prepares(pod, bind->may_suspend);
}

/* What has to be prepared before the bind, where shared devices are reserved. */
static void call_share(struct call *call, const struct sched_bind *binds, size_t count)
{
    bool any = false;

    for (size_t i = 0; i < count; i++)
        any = any || binds[i].gpu_group_count;
    if (!any || !call->applier->options.reservations)
        return;
    call->shares = ARENA_ARRAY(&call->arena, struct reservations_pod, count);
    for (size_t i = 0; i < count; i++) {
        struct str *groups = ARENA_ARRAY(&call->arena, struct str, binds[i].gpu_group_count + 1);

        const struct object *node =
            cache_get(call->applier->options.cache, &kind_node, STR(""), binds[i].node);
        bool sized = node && object_label(node, "nvidia.com/gpu.memory").len;

        for (size_t j = 0; j < binds[i].gpu_group_count; j++)
            groups[j] = str_dup(&call->arena, binds[i].gpu_groups[j]);
        call->shares[i] =
            (struct reservations_pod){.pod = call->pods[i],
                                      .node = call->nodes[i],
                                      .groups = groups,
                                      .group_count = binds[i].gpu_group_count,
                                      .fraction_micro = binds[i].gpu_fraction_micro,
                                      .memory_mib = sized ? binds[i].gpu_memory_mib : 0,
                                      .movable = may_suspend(call->applier, &binds[i])};
    }
}

/* Whether the group is a gang of several pods: if one of them is moved, all of them begin anew. */
static bool is_gang(const struct applier *applier, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *group = cache_get(applier->options.cache, &kind_podgroup, ns, name);
    const struct json *spec = group ? json_get(object_json(group, &arena), "spec") : NULL;

    return json_i64_or(json_get(spec, "minMember"), 0) > 1 ||
           json_count(json_get(spec, "subGroups"));
}

static struct call *bind_call(struct applier *applier,
                              const struct sched_bind *binds,
                              size_t count,
                              int64_t now_ms)
{
    struct call *call = call_new(applier, count, now_ms);

    call->ns = str_dup(&call->arena, binds[0].pod.ns);
    call->group = str_dup(&call->arena, binds[0].group);
    call->first_start = binds[0].first_start;
    bool gang = applier->options.autoscalers && is_gang(applier, call->ns, call->group);
    call->bindings = ARENA_ARRAY(&call->arena, struct api_binding, count);
    for (size_t i = 0; i < count; i++) {
        const struct object *pod =
            cache_get(applier->options.cache, &kind_pod, binds[i].pod.ns, binds[i].pod.name);
        bool job = applier->options.autoscalers && pod && object_label(pod, JOB_LABEL_ROLE).len;
        struct sched_bind bind = binds[i];

        bind.may_suspend = may_suspend(applier, &binds[i]);
        call_add(call, &binds[i].pod, binds[i].node);
        call->bindings[i] = (struct api_binding){
            .ns = call->pods[i].ns,
            .pod = call->pods[i].name,
            .uid = call->pods[i].uid,
            .node = call->nodes[i],
            .annotations = bind_annotations(&bind, pod, gang || job, &call->arena)};
    }
    call_share(call, binds, count);
    call->claims = claims_write_new(&call->arena, binds, count, now_ms);
    call->volumes = volumes_write_new(&call->arena, binds, count, now_ms);
    return call;
}

static void on_resumed(void *user, const struct api_result *result)
{
    struct call *call = user;

    if (call->applier) {
        note_start(call, result->code);
        call_done(call, result->code);
    }
    call_free(call);
}

/* `first`: of its group in this plan; it tells of the start for all of them. */
static void resume_pod(struct applier *applier,
                       const struct sched_bind *bind,
                       bool first,
                       int64_t now_ms)
{
    struct call *call = call_new(applier, 1, now_ms);

    call->ns = str_dup(&call->arena, bind->pod.ns);
    call->group = str_dup(&call->arena, bind->group);
    call->first_start = first && bind->first_start;
    call_add(call, &bind->pod, bind->node);
    if (event_budget_take(&applier->events, now_ms))
        pod_tell(
            applier->options.api, &bind->pod, "Resume",
            str_printf(&call->arena, "has its GPUs on node " STR_FMT " again", STR_ARG(bind->node)),
            false, now_ms);
    resumer_send(applier->resumer, &call->pods[0], on_resumed, call);
}

static void on_prepared(void *user, int code, const struct err *err)
{
    struct call *call = user;

    if (!code && call->applier)
        api_bind(call->applier->options.api, call->bindings, call->pod_count, on_bound, call);
    else
        on_bound(call, &(struct api_result){.code = code ? code : -ECANCELED, .err = err});
}

/* -ENOENT: a pod is gone, or going, since the bind was decided, so its room is somebody else's. */
static int check_pods(const struct call *call, struct err *err)
{
    for (size_t i = 0; i < call->pod_count; i++) {
        const struct object *pod = cache_get(call->applier->options.cache, &kind_pod,
                                             call->pods[i].ns, call->pods[i].name);

        if (!pod || pod->deleted_ms || !str_eq(pod->uid, call->pods[i].uid))
            return err_set(err, -ENOENT, "pod " STR_FMT " is gone", STR_ARG(call->pods[i].name));
    }
    return 0;
}

static void on_claimed(void *user, int code, const struct err *err)
{
    struct call *call = user;

    if (!code && call->applier && call->shares)
        reservations_prepare(call->applier->options.reservations, call->shares, call->pod_count,
                             on_prepared, call);
    else
        on_prepared(call, code, err);
}

static void send_bind(struct call *call);

static void on_volumes(void *user, int code, const struct err *err)
{
    struct call *call = user;

    if (call->parked && call->applier)
        call->applier->parked--;
    call->parked = false;
    call->volumes = NULL;
    if (code || !call->applier)
        on_bound(call, &(struct api_result){.code = code ? code : -ECANCELED, .err = err});
    else
        send_bind(call);
}

static void on_volumes_parked(void *user)
{
    struct call *call = user;

    if (!call->applier)
        return;
    call->parked = true;
    call->applier->parked++;
    call->applier->options.again(call->applier->options.user);
}

/* What the pod waits for now; nobody else says so, as it has its place. */
static void on_volumes_wait(void *user,
                            const struct sched_pod_ref *pod,
                            struct str node,
                            struct str claim,
                            int64_t now_ms)
{
    const struct call *call = user;
    struct applier *applier = call->applier;

    if (applier && event_budget_take(&applier->events, now_ms))
        pod_tell_volume(applier->options.api, applier->options.cache, pod, node, claim, now_ms);
}

static void send_volumes(struct call *call)
{
    const struct applier_options *options = &call->applier->options;

    volumes_write_send(call->volumes, &(struct volumes_options){.api = options->api,
                                                                .cache = options->cache,
                                                                .state = options->volumes,
                                                                .state_user = options->user,
                                                                .done = on_volumes,
                                                                .parked = on_volumes_parked,
                                                                .waits = on_volumes_wait,
                                                                .user = call});
}

static void send_bind(struct call *call)
{
    struct err err = {0};
    int gone = call->shares || call->claims || call->volumes ? check_pods(call, &err) : 0;

    if (gone) { /* nothing may be reserved in its room */
        on_bound(call, &(struct api_result){.code = gone, .err = &err});
    } else if (call->volumes) {
        send_volumes(call);
    } else if (call->claims) {
        claims_write_send(call->claims, call->applier->options.api, call->applier->options.cache,
                          on_claimed, call);
    } else {
        on_claimed(call, 0, NULL);
    }
}

/* Sends it, or puts it behind what it has to wait for: evictions, and the bind of several pods at
 * once that makes a gang of its group. */
static void launch_bind(struct call *call)
{
    struct applier *applier = call->applier;
    struct str key = STR_NONE;
    struct call *forming = NULL;

    if (call->pod_count > 1 || applier->forming.count)
        key =
            str_printf(&call->arena, STR_FMT "/" STR_FMT, STR_ARG(call->ns), STR_ARG(call->group));
    if (key.len)
        forming = map_get(&applier->forming, key);
    if (forming) {
        VEC_PUSH(NULL, &forming->followers, call);
        return;
    }
    if (call->pod_count > 1) {
        call->forms = key;
        map_set(&applier->forming, key, call);
    }
    if (applier->evictions)
        VEC_PUSH(NULL, &applier->held, call);
    else
        send_bind(call);
}

static void apply_binds(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t start = 0, end; start < plan->bind_count; start = end) {
        end = start + 1;
        if (plan->binds[start].resume) {
            bool first = !start || plan->binds[start - 1].batch != plan->binds[start].batch;

            resume_pod(applier, &plan->binds[start], first, now_ms);
            continue;
        }
        while (end < plan->bind_count && plan->binds[end].batch == plan->binds[start].batch &&
               !plan->binds[end].resume)
            end++;
        launch_bind(bind_call(applier, &plan->binds[start], end - start, now_ms));
    }
}

/* The evictions have been answered, and the core knows which of them did not happen. */
static void release_held(struct applier *applier)
{
    const struct applier_options *options = &applier->options;

    for (size_t i = 0; i < applier->held.count; i++) {
        struct call *call = applier->held.items[i];

        if (options->may_bind(options->user, call->ns, call->group)) {
            send_bind(call);
            continue;
        }
        call_done(call, -EAGAIN);
        call_followers(call, -EAGAIN);
        call_free(call);
    }
    applier->held.count = 0;
    options->ready(options->user);
}

/* The binds that wait for volumes: one whose pods are gone gives up its place. */
static int64_t poll_volumes(struct applier *applier, int64_t now_ms)
{
    int64_t due_ms = INT64_MAX;

    for (struct call *call = applier->calls, *next; applier->parked && call; call = next) {
        struct err err = {0};
        int gone = call->parked ? check_pods(call, &err) : 0;

        next = call->next;
        if (gone) {
            on_volumes(call, gone, &err);
        } else if (call->parked) {
            int64_t at_ms = volumes_write_poll(call->volumes, now_ms);

            due_ms = at_ms < due_ms ? at_ms : due_ms;
        }
    }
    return due_ms;
}

int64_t applier_turn(struct applier *applier, int64_t now_ms)
{
    int64_t volumes_ms = poll_volumes(applier, now_ms);
    int64_t due_ms = resumer_turn(applier->resumer, now_ms);

    return volumes_ms < due_ms ? volumes_ms : due_ms;
}

bool applier_awaits_volumes(const struct applier *applier)
{
    return applier->parked > 0;
}

bool applier_is_waiting(const struct applier *applier)
{
    return applier->evictions > 0;
}

/* ---- evictions ---- */

/* Why, with the name people know where the core names the pod group: "TorchrunJob default/urgent"
 * instead of "default/pg-urgent-...". */
static struct str evict_words(const struct applier *applier,
                              const struct sched_evict *evict,
                              struct arena *arena)
{
    const struct object *group =
        cache_get(applier->options.cache, &kind_podgroup, evict->for_ns, evict->for_group);
    const struct json *owner =
        group ? json_at(object_json(group, arena), "metadata.ownerReferences.0") : NULL;
    struct str name =
        str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(evict->for_ns), STR_ARG(evict->for_group));
    size_t at = 0;

    while (at < evict->message.len && !str_starts(str_sub(evict->message, at, name.len), name))
        at++;
    if (!owner || at == evict->message.len)
        return evict->message;
    return str_printf(arena, STR_FMT STR_FMT " " STR_FMT "/" STR_FMT STR_FMT,
                      STR_ARG(str_sub(evict->message, 0, at)),
                      STR_ARG(json_str(json_get(owner, "kind"))), STR_ARG(evict->for_ns),
                      STR_ARG(json_str(json_get(owner, "name"))),
                      STR_ARG(str_sub(evict->message, at + name.len, evict->message.len)));
}

/* The conditions that Kubernetes' own scheduler sets, so that whoever owns the pod can say why; not
 * `on`: they are taken off a pod that was not evicted after all. */
static void mark_evicted(struct applier *applier, const struct call *call, bool on)
{
    static const char *const types[] = {"DisruptionTarget",
                                        /* Kubernetes' eviction puts its own words into that one. */
                                        CONDITION_EVICTED};
    _cleanup_(arena_done) struct arena arena = {0};
    const struct sched_pod_ref *evicted = &call->pods[0];
    const struct object *pod =
        cache_get(applier->options.cache, &kind_pod, evicted->ns, evicted->name);
    struct json *status = json_new_object(&arena);

    if (!pod || !str_eq(pod->uid, evicted->uid))
        return;
    struct json *list = on ? NULL : json_add_array(&arena, status, "conditions");
    for (size_t i = 0; on && i < COUNT_OF(types); i++)
        condition_set(&arena, status,
                      &(struct condition){types[i], "True", "PreemptionByScheduler", call->words},
                      call->now_ms);
    for (size_t i = 0; !on && i < COUNT_OF(types); i++) {
        struct json *gone = json_make(&arena, "{type: $}", types[i]);

        json_set(gone, STR("$patch"), json_new_str(&arena, STR("delete")));
        json_push(list, gone);
    }
    pod_patch_status(applier->options.api, pod, &arena, status);
}

/* A budget is no trouble of the server, which may answer with the same codes. */
static bool is_refused(const struct api_result *result)
{
    int status = result->code && result->err ? result->err->http_status : 0;

    return (status == 429 || status == 500) &&
           str_contains(str_from(result->err->text), STR("isruption"));
}

/* What people read of it, once it is known. */
static void tell_evicted(struct applier *applier,
                         struct call *call,
                         const struct api_result *result)
{
    struct api *api = applier->options.api;

    if (!result->code)
        pod_tell(api, &call->pods[0], call->suspend ? "Suspend" : "Evict", call->words, true,
                 call->now_ms);
    else if (call->refused && event_budget_take(&applier->events, call->now_ms))
        pod_tell(api, &call->pods[0], "EvictionRefused",
                 str_printf(&call->arena, "stays where it is (" STR_FMT "): %s",
                            STR_ARG(call->words), result->err->text),
                 false, call->now_ms);
    if (call->suspend)
        return;
    /* Kubernetes' eviction has put its own words over ours. */
    if (!result->code || call->refused)
        mark_evicted(applier, call, !result->code);
}

static void on_evicted(void *user, const struct api_result *result)
{
    struct call *call = user;
    struct applier *applier = call->applier;
    /* What is to be evicted and is gone has made its room. */
    bool gone = result->err && result->err->http_status == 404;

    if (applier) {
        call->refused = !call->suspend && is_refused(result);
        tell_evicted(applier, call, result);
        call_done(call, gone ? 0 : result->code);
        applier->evictions--;
    }
    call_free(call);
    if (applier && !applier->evictions)
        release_held(applier);
}

/* The pod gives up its GPUs and stays: its node reads that off the annotation. */
static void suspend_pod(struct applier *applier, const struct sched_evict *evict, struct call *call)
{
    api_call(
        applier->options.api,
        &(struct api_request){.verb = API_PATCH,
                              .kind = &kind_pod,
                              .ns = evict->pod.ns,
                              .name = evict->pod.name,
                              .uid = evict->pod.uid,
                              .patch = API_PATCH_MERGE,
                              .body = STR("{\"metadata\":{\"annotations\":{\"" SUSPEND_ANNOTATION
                                          "\":\"" SUSPEND_YIELD "\"}}}")},
        on_evicted, call);
}

static void apply_evicts(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct sched_evict *evict = &plan->evicts[i];
        struct call *call = call_new(applier, 1, now_ms);
        struct json *body = json_new_object(&arena);

        call->evict = true;
        call->ns = str_dup(&call->arena, evict->for_group.len ? evict->for_ns : evict->pod.ns);
        call->group = str_dup(&call->arena, evict->for_group.len ? evict->for_group : evict->group);
        applier->evictions++;
        call_add(call, &evict->pod, STR_NONE);
        json_fill(&arena, body,
                  "{apiVersion: 'policy/v1', kind: 'Eviction', metadata: {namespace: $, "
                  "name: $}}",
                  evict->pod.ns, evict->pod.name);
        call->words = str_dup(&call->arena, evict_words(applier, evict, &arena));
        call->suspend = evict->suspend;
        if (evict->suspend) {
            suspend_pod(applier, evict, call);
            continue;
        }
        mark_evicted(applier, call, true);
        api_call(applier->options.api,
                 &(struct api_request){.verb = evict->delete ? API_DELETE : API_CREATE,
                                       .kind = &kind_pod,
                                       .ns = evict->pod.ns,
                                       .name = evict->pod.name,
                                       .subresource = evict->delete ? STR("") : STR("eviction"),
                                       .uid = evict->pod.uid,
                                       .body = evict->delete ? STR_NONE : json_text(&arena, body)},
                 on_evicted, call);
    }
}

/* ---- what groups remember ---- */

/* `moment` 0 takes the annotation off. */
static void annotate_group(struct applier *applier,
                           struct str ns,
                           struct str group,
                           const char *key,
                           int64_t moment)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *body = json_new_object(&arena);
    struct json *annotations = json_make_path(&arena, body, "metadata.annotations");
    const struct object *object = cache_get(applier->options.cache, &kind_podgroup, ns, group);

    if (!object)
        return;
    json_set(annotations, str_from(key),
             moment ? json_new_str(&arena, time_text(&arena, moment)) : json_new_null(&arena));
    api_call(applier->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_podgroup,
                                   .ns = ns,
                                   .name = group,
                                   .uid = object->uid,
                                   .patch = API_PATCH_MERGE,
                                   .body = json_text(&arena, body)},
             api_ignore, NULL);
}

static void apply_notes(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t i = 0; i < plan->note_count; i++) {
        const struct sched_note *note = &plan->notes[i];

        if (note->note == SCHED_NOTE_EVICTED)
            annotate_group(applier, note->ns, note->group, GROUP_EVICTION_ANNOTATION, now_ms);
        else if (note->note == SCHED_NOTE_OVER)
            annotate_group(applier, note->ns, note->group, GROUP_OVER_ANNOTATION, now_ms);
        else
            annotate_group(applier, note->ns, note->group, GROUP_STALE_ANNOTATION,
                           note->note == SCHED_NOTE_STALE ? now_ms : 0);
    }
}

void applier_apply(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    apply_evicts(applier, plan, now_ms);
    apply_binds(applier, plan, now_ms);
    nominator_apply(applier->nominator, plan);
    apply_notes(applier, plan, now_ms);
}

struct applier *applier_new(const struct applier_options *options)
{
    struct applier *applier = MEM_NEW(struct applier);

    applier->options = *options;
    applier->resumer = resumer_new(&(struct resumer_options){.api = options->api,
                                                             .cache = options->cache,
                                                             .again = options->again,
                                                             .user = options->user});
    applier->nominator =
        nominator_new(&(struct nominator_options){.api = options->api,
                                                  .cache = options->cache,
                                                  .is_promised = options->is_promised,
                                                  .user = options->user});
    return applier;
}

/* Calls that wait for volumes end here, those with a write under way with its answer. */
static void stop_volumes(struct applier *applier)
{
    for (struct call *call = applier->calls, *next; call; call = next) {
        next = call->next;
        if (call->volumes)
            volumes_write_stop(call->volumes);
    }
}

void applier_free(struct applier *applier)
{
    if (!applier)
        return;
    for (struct call *call = applier->calls; call; call = call->next) {
        call->applier = NULL;
        if (call->claims)
            claims_write_stop(call->claims);
    }
    stop_volumes(applier);
    resumer_free(applier->resumer);
    for (size_t i = 0; i < applier->held.count; i++)
        call_free(applier->held.items[i]);
    VEC_DONE(&applier->held);
    nominator_free(applier->nominator);
    map_done(&applier->forming);
    mem_free(applier);
}
