#include "exec/scheduler_apply.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/group.h"
#include "control/status.h"
#include "exec/event.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define COMPONENT "muster-scheduler"

/* A pod group as the applier knows it: its pods, and what it was last told about waiting. */
struct gang {
    struct map pods;        /* pod name -> pod_link */
    enum sched_reason told; /* what the status says; NONE: nothing */
    bool waiting;           /* in the plan that is being applied */
    size_t ns_len;
    size_t text_len;
    char text[]; /* "namespace/group" */
};

struct applier {
    struct applier_options options;
    struct map gangs;           /* gang->text -> gang */
    struct map pods;            /* "namespace/pod" -> struct pod_link */
    struct call *calls;         /* under way, newest first */
    struct event_budget events; /* about single pods: a crowd is told by its groups */
};

/* A write under way. Owns copies of what it names. */
struct call {
    struct applier *applier; /* NULL once the applier is gone */
    struct call *next;
    struct call *previous;
    struct arena arena;
    bool evict;
    struct sched_pod_ref *pods;
    struct str *nodes;
    size_t pod_count;
    int64_t now_ms;
};

/* Which gang a pod was last seen in. */
struct pod_link {
    struct gang *gang;
    size_t ns_len;
    size_t text_len;
    char text[];
};

/* ---- which pods make a group ---- */

static struct str gang_ns(const struct gang *gang)
{
    return (struct str){gang->text, gang->ns_len};
}

static struct str gang_name(const struct gang *gang)
{
    return (struct str){gang->text + gang->ns_len + 1, gang->text_len - gang->ns_len - 1};
}

static size_t key_write(char *out, struct str ns, struct str name)
{
    if (ns.len)
        memcpy(out, ns.p, ns.len);
    out[ns.len] = '/';
    if (name.len)
        memcpy(out + ns.len + 1, name.p, name.len);
    return ns.len + 1 + name.len;
}

static struct gang *gang_find(const struct applier *applier, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return map_get(&applier->gangs,
                   str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(ns), STR_ARG(name)));
}

static struct gang *gang_make(struct applier *applier, struct str ns, struct str name)
{
    struct gang *gang = gang_find(applier, ns, name);

    if (gang)
        return gang;
    gang = mem_alloc(sizeof(*gang) + ns.len + 1 + name.len);
    gang->pods.seed = applier->options.seed;
    gang->ns_len = ns.len;
    gang->text_len = key_write(gang->text, ns, name);
    map_set(&applier->gangs, (struct str){gang->text, gang->text_len}, gang);
    return gang;
}

static void gang_drop_if_empty(struct applier *applier, struct gang *gang)
{
    if (gang->pods.count || gang->told != SCHED_REASON_NONE)
        return;
    map_remove(&applier->gangs, (struct str){gang->text, gang->text_len});
    map_done(&gang->pods);
    mem_free(gang);
}

static struct str link_key(const struct pod_link *link)
{
    return (struct str){link->text, link->text_len};
}

static struct str link_pod(const struct pod_link *link)
{
    return (struct str){link->text + link->ns_len + 1, link->text_len - link->ns_len - 1};
}

static void link_drop(struct applier *applier, struct pod_link *link)
{
    struct gang *gang = link->gang;

    map_remove(&applier->pods, link_key(link));
    map_remove(&gang->pods, link_pod(link));
    mem_free(link);
    gang_drop_if_empty(applier, gang);
}

static void observe_pod(struct applier *applier,
                        enum sched_change change,
                        const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str group = object_annotation(object, GROUP_ANNOTATION);
    struct pod_link *link =
        map_get(&applier->pods, str_printf(&arena, STR_FMT "/" STR_FMT, STR_ARG(object->ns),
                                           STR_ARG(object->name)));

    if (link && change == SCHED_PUT && str_eq(gang_name(link->gang), group))
        return;
    if (link)
        link_drop(applier, link);
    if (change == SCHED_DROP || !group.len)
        return;
    link = mem_alloc(sizeof(*link) + object->ns.len + 1 + object->name.len);
    link->ns_len = object->ns.len;
    link->text_len = key_write(link->text, object->ns, object->name);
    link->gang = gang_make(applier, object->ns, group);
    map_set(&applier->pods, link_key(link), link);
    map_set(&link->gang->pods, link_pod(link), link);
}

/* A group that says it waits was told so, by us or by our predecessor. */
static void observe_group(struct applier *applier,
                          enum sched_change change,
                          const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct gang *gang = gang_find(applier, object->ns, object->name);

    if (change == SCHED_DROP) {
        if (gang) {
            gang->told = SCHED_REASON_NONE;
            gang_drop_if_empty(applier, gang);
        }
        return;
    }
    if (!json_str_at(object_json(object, &arena), "status.message").len)
        return;
    gang = gang ? gang : gang_make(applier, object->ns, object->name);
    if (gang->told == SCHED_REASON_NONE)
        gang->told = SCHED_REASON_COUNT; /* something, we do not know what */
}

void applier_observe(struct applier *applier, enum sched_change change, const struct object *object)
{
    if (object->kind == &kind_pod)
        observe_pod(applier, change, object);
    else if (object->kind == &kind_podgroup)
        observe_group(applier, change, object);
}

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
    if (call->applier) {
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

static void tell_pod(struct api *api,
                     const struct sched_pod_ref *pod,
                     const char *reason,
                     struct str message,
                     bool warning,
                     int64_t now_ms)
{
    event_send(api, &(struct event){.kind = &kind_pod,
                                    .ns = pod->ns,
                                    .name = pod->name,
                                    .uid = pod->uid,
                                    .reason = str_from(reason),
                                    .message = message,
                                    .warning = warning,
                                    .component = COMPONENT,
                                    .now_ms = now_ms});
}

static void tell_bound(struct call *call, const struct api_result *result)
{
    struct api *api = call->applier->options.api;

    for (size_t i = 0; i < call->pod_count; i++) {
        const struct sched_pod_ref *pod = &call->pods[i];

        if (!event_budget_take(&call->applier->events, call->now_ms))
            return;
        if (result->code)
            tell_pod(api, pod, "FailedBinding",
                     str_printf(&call->arena, "could not be bound to node " STR_FMT ": %s",
                                STR_ARG(call->nodes[i]), result->err ? result->err->text : ""),
                     true, call->now_ms);
        else
            tell_pod(api, pod, "Scheduled",
                     str_printf(&call->arena, "bound to node " STR_FMT, STR_ARG(call->nodes[i])),
                     false, call->now_ms);
    }
}

static void on_written(void *user, const struct api_result *result)
{
    struct call *call = user;
    /* What is to be evicted and is gone has made its room. */
    bool gone = call->evict && result->err && result->err->http_status == 404;

    if (call->applier) {
        const struct applier_options *options = &call->applier->options;

        if (!call->evict)
            tell_bound(call, result);
        options->done(options->user, &(struct applier_outcome){.code = gone ? 0 : result->code,
                                                               .evict = call->evict,
                                                               .pods = call->pods,
                                                               .pod_count = call->pod_count});
    }
    call_free(call);
}

/* ---- binds ---- */

static struct str bind_annotations(const struct sched_bind *bind, struct arena *arena)
{
    struct json *annotations = json_new_object(arena);
    struct str devices = STR_NONE;

    if (!bind->device_count && !bind->gpu_fraction_micro)
        return STR_NONE;
    for (size_t i = 0; i < bind->device_count; i++)
        devices =
            str_printf(arena, STR_FMT "%s%u", STR_ARG(devices), i ? "," : "", bind->devices[i]);
    json_add_c(arena, annotations, GPU_ANNOTATION_TYPE,
               bind->gpu_fraction_micro ? "Fraction" : "Regular");
    if (devices.len)
        json_add_str(arena, annotations, GPU_ANNOTATION_DEVICES, devices);
    if (bind->gpu_fraction_micro)
        json_add_str(arena, annotations, GPU_ANNOTATION_PORTION,
                     str_printf(arena, "%lld.%06lld", (long long)bind->gpu_fraction_micro / 1000000,
                                (long long)bind->gpu_fraction_micro % 1000000));
    if (bind->gpu_memory_mib)
        json_add_str(arena, annotations, GPU_ANNOTATION_MEMORY,
                     str_printf(arena, "%lld", (long long)bind->gpu_memory_mib));
    return json_text(arena, annotations);
}

static void apply_binds(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t start = 0, end; start < plan->bind_count; start = end) {
        _cleanup_(arena_done) struct arena arena = {0};

        end = start + 1;
        while (end < plan->bind_count && plan->binds[end].batch == plan->binds[start].batch)
            end++;
        struct api_binding *bindings = ARENA_ARRAY(&arena, struct api_binding, end - start);
        struct call *call = call_new(applier, end - start, now_ms);
        for (size_t i = start; i < end; i++) {
            const struct sched_bind *bind = &plan->binds[i];

            bindings[i - start] =
                (struct api_binding){.ns = bind->pod.ns,
                                     .pod = bind->pod.name,
                                     .uid = bind->pod.uid,
                                     .node = bind->node,
                                     .annotations = bind_annotations(bind, &arena)};
            call_add(call, &bind->pod, bind->node);
        }
        api_bind(applier->options.api, bindings, end - start, on_written, call);
    }
}

/* ---- evictions and nominations ---- */

static void ignore(void *user, const struct api_result *result)
{
    (void)user;
    (void)result;
}

static void patch_status(struct applier *applier,
                         const struct kind *kind,
                         struct str ns,
                         struct str name,
                         struct arena *arena,
                         struct json *status)
{
    struct json *body = json_new_object(arena);

    json_set(body, STR("status"), status);
    api_call(applier->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = kind,
                                   .ns = ns,
                                   .name = name,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_MERGE,
                                   .body = json_text(arena, body)},
             ignore, NULL);
}

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

/* The condition that Kubernetes' own scheduler sets, so that whoever owns the pod can say why. */
static void mark_evicted(struct applier *applier,
                         const struct sched_evict *evict,
                         struct str words,
                         int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *pod =
        cache_get(applier->options.cache, &kind_pod, evict->pod.ns, evict->pod.name);

    if (!pod || !str_eq(pod->uid, evict->pod.uid))
        return;
    const struct json *before = json_at(object_json(pod, &arena), "status.conditions");
    struct json *status = json_new_object(&arena);
    if (before)
        json_set(status, STR("conditions"), json_clone(&arena, before));
    condition_set(&arena, status,
                  &(struct condition){"DisruptionTarget", "True", "PreemptionByScheduler", words},
                  now_ms);
    patch_status(applier, &kind_pod, pod->ns, pod->name, &arena, status);
}

static void apply_evicts(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t i = 0; i < plan->evict_count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct sched_evict *evict = &plan->evicts[i];
        struct call *call = call_new(applier, 1, now_ms);
        struct json *body = json_new_object(&arena);

        call->evict = true;
        call_add(call, &evict->pod, STR_NONE);
        json_add_c(&arena, body, "apiVersion", "policy/v1");
        json_add_c(&arena, body, "kind", "Eviction");
        struct json *meta = json_add_object(&arena, body, "metadata");
        json_add_str(&arena, meta, "namespace", evict->pod.ns);
        json_add_str(&arena, meta, "name", evict->pod.name);
        struct str words = evict_words(applier, evict, &arena);
        tell_pod(applier->options.api, &evict->pod, "Evict", words, true, now_ms);
        mark_evicted(applier, evict, words, now_ms);
        api_call(applier->options.api,
                 &(struct api_request){.verb = API_CREATE,
                                       .kind = &kind_pod,
                                       .ns = evict->pod.ns,
                                       .name = evict->pod.name,
                                       .subresource = STR("eviction"),
                                       .uid = evict->pod.uid,
                                       .body = json_text(&arena, body)},
                 on_written, call);
    }
}

static void apply_nominations(struct applier *applier, const struct sched_plan *plan)
{
    for (size_t i = 0; i < plan->nominate_count; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct sched_nominate *nominate = &plan->nominates[i];
        const struct object *pod =
            cache_get(applier->options.cache, &kind_pod, nominate->pod.ns, nominate->pod.name);

        if (!pod || str_eq(json_str_at(object_json(pod, &arena), "status.nominatedNodeName"),
                           nominate->node))
            continue;
        struct json *status = json_new_object(&arena);
        json_add_str(&arena, status, "nominatedNodeName", nominate->node);
        patch_status(applier, &kind_pod, nominate->pod.ns, nominate->pod.name, &arena, status);
    }
}

/* ---- who waits, and why ---- */

static void mark_pods(struct applier *applier,
                      const struct gang *gang,
                      const struct sched_waiting *waiting,
                      int64_t now_ms)
{
    MAP_FOREACH(&gang->pods, entry) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *pod =
            cache_get(applier->options.cache, &kind_pod, waiting->ns, link_pod(entry->value));
        const struct json *root = pod ? object_json(pod, &arena) : NULL;
        const struct json *before = json_get(root, "status");

        if (!pod || pod->deleted_ms || json_str_at(root, "spec.nodeName").len)
            continue;
        struct json *status = json_new_object(&arena);
        if (json_get(before, "conditions"))
            json_set(status, STR("conditions"), json_clone(&arena, json_get(before, "conditions")));
        condition_set(
            &arena, status,
            &(struct condition){"PodScheduled", "False", "Unschedulable", waiting->message},
            now_ms);
        if (!json_equal(json_get(before, "conditions"), json_get(status, "conditions")))
            patch_status(applier, &kind_pod, pod->ns, pod->name, &arena, status);
    }
}

static void mark_group(struct applier *applier,
                       const struct gang *gang,
                       const struct sched_waiting *waiting,
                       int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *status = json_new_object(&arena);
    struct json *condition =
        json_push(json_add_array(&arena, status, "schedulingConditions"), json_new_object(&arena));
    const struct object *group =
        cache_get(applier->options.cache, &kind_podgroup, waiting->ns, waiting->group);

    if (!group)
        return;
    json_add_str(&arena, status, "message", waiting->message);
    json_add_c(&arena, condition, "type", "UnschedulableOnNodePool");
    json_add_c(&arena, condition, "status", "True");
    json_add_c(&arena, condition, "nodePool", "default");
    json_add_c(&arena, condition, "reason", "Unschedulable");
    json_add_str(&arena, condition, "message", waiting->message);
    json_add_str(&arena, condition, "lastTransitionTime", time_text(&arena, now_ms));
    struct json *reason =
        json_push(json_add_array(&arena, condition, "reasons"), json_new_object(&arena));
    json_add_c(&arena, reason, "reason", sched_reason_word(waiting->reason));
    json_add_str(&arena, reason, "message", waiting->message);
    patch_status(applier, &kind_podgroup, waiting->ns, waiting->group, &arena, status);
    if (gang->told != waiting->reason)
        event_send(applier->options.api, &(struct event){.kind = &kind_podgroup,
                                                         .ns = waiting->ns,
                                                         .name = waiting->group,
                                                         .uid = group->uid,
                                                         .reason = STR("Unschedulable"),
                                                         .message = waiting->message,
                                                         .component = COMPONENT,
                                                         .now_ms = now_ms});
}

static void clear_group(struct applier *applier, const struct gang *gang)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *status = json_new_object(&arena);

    json_set(status, STR("message"), json_new_null(&arena));
    json_set(status, STR("schedulingConditions"), json_new_null(&arena));
    patch_status(applier, &kind_podgroup, gang_ns(gang), gang_name(gang), &arena, status);
}

static void apply_waiting(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    for (size_t i = 0; i < plan->waiting_count; i++) {
        const struct sched_waiting *waiting = &plan->waiting[i];
        struct gang *gang = gang_find(applier, waiting->ns, waiting->group);

        if (!gang)
            continue;
        gang->waiting = true;
        if (!waiting->changed && gang->told == waiting->reason)
            continue;
        mark_group(applier, gang, waiting, now_ms);
        if (gang->told != waiting->reason)
            mark_pods(applier, gang, waiting, now_ms);
        gang->told = waiting->reason;
    }
    MAP_FOREACH(&applier->gangs, entry) {
        struct gang *gang = entry->value;
        bool waiting = gang->waiting;

        gang->waiting = false;
        if (waiting || gang->told == SCHED_REASON_NONE)
            continue;
        clear_group(applier, gang);
        gang->told = SCHED_REASON_NONE;
        gang_drop_if_empty(applier, gang);
    }
}

void applier_apply(struct applier *applier, const struct sched_plan *plan, int64_t now_ms)
{
    apply_binds(applier, plan, now_ms);
    apply_evicts(applier, plan, now_ms);
    apply_nominations(applier, plan);
    apply_waiting(applier, plan, now_ms);
}

struct applier *applier_new(const struct applier_options *options)
{
    struct applier *applier = MEM_NEW(struct applier);

    applier->options = *options;
    applier->gangs.seed = options->seed;
    applier->pods.seed = options->seed;
    return applier;
}

void applier_free(struct applier *applier)
{
    if (!applier)
        return;
    for (struct call *call = applier->calls; call; call = call->next)
        call->applier = NULL;
    MAP_FOREACH(&applier->pods, entry)
        mem_free(entry->value);
    MAP_FOREACH(&applier->gangs, entry) {
        struct gang *gang = entry->value;

        map_done(&gang->pods);
        mem_free(gang);
    }
    map_done(&applier->pods);
    map_done(&applier->gangs);
    mem_free(applier);
}
