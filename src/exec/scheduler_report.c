#include "exec/scheduler_report.h"

#include "api/api.h"
#include "api/autoscale.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/group_name.h"
#include "control/core/status.h"
#include "exec/event.h"
#include "exec/scheduler_queues.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define UNKNOWN   SCHED_REASON_COUNT /* the group says something; not known what */
#define HASH_SEED 17

/* A pod group: its pods, and what it was last told about waiting. */
struct gang {
    struct reporter *reporter;
    struct map pods;              /* pod name -> link */
    struct gang *next, *previous; /* in the list of those that wait or were told something */
    enum sched_reason told;       /* NONE: nothing */
    uint64_t told_words;          /* hash of the message */
    int64_t told_ms;              /* when */
    int64_t began_ms;  /* since when it waits for a reason that may pass; 0: it does not */
    int64_t joined_ms; /* when a pod of it was last seen for the first time */
    bool grew;         /* since then */
    bool listed;       /* in the list */
    bool waiting;      /* in the plan that is being applied */
    bool pods_due;     /* some of its pods have not been told */
    bool failed;       /* it is told again, when nothing of it is under way */
    size_t under_way;  /* writes */
    size_t ns_len;
    size_t text_len;
    char text[]; /* "namespace/group" */
};

/* Which gang a pod was last seen in, and what it was told. */
struct link {
    struct gang *gang;
    enum sched_reason told;
    size_t ns_len;
    size_t text_len;
    char text[]; /* "namespace/pod" */
};

/* A write under way: which gang to look at again if it fails. */
struct telling {
    struct reporter *reporter; /* NULL once it is gone */
    struct telling *next, *previous;
    int64_t now_ms;
    size_t len;
    char text[]; /* the gang's */
};

struct reporter {
    struct reporter_options options;
    struct map gangs; /* gang->text -> gang */
    struct map links; /* link->text -> link */
    struct gang *told;
    struct telling *tellings;
    size_t under_way; /* of them */
    bool full;        /* something is left to be told when some of them have come back */
    int64_t due_ms;
    struct event_budget events; /* about single pods */
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

static struct str gang_key(const struct gang *gang)
{
    return (struct str){gang->text, gang->text_len};
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

/* Asked for with every event about a pod: not worth a format. */
static struct str key_in(struct arena *arena, struct str ns, struct str name)
{
    char *text = ARENA_ARRAY(arena, char, ns.len + 1 + name.len);

    return (struct str){text, key_write(text, ns, name)};
}

static struct gang *gang_find(const struct reporter *reporter, struct str ns, struct str name)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return map_get(&reporter->gangs, key_in(&arena, ns, name));
}

static struct gang *gang_make(struct reporter *reporter, struct str ns, struct str name)
{
    struct gang *gang = gang_find(reporter, ns, name);

    if (gang)
        return gang;
    gang = mem_alloc(sizeof(*gang) + ns.len + 1 + name.len);
    gang->reporter = reporter;
    gang->pods.seed = reporter->options.seed;
    gang->ns_len = ns.len;
    gang->text_len = key_write(gang->text, ns, name);
    map_set(&reporter->gangs, gang_key(gang), gang);
    return gang;
}

static void gang_list(struct gang *gang)
{
    struct reporter *reporter = gang->reporter;

    if (gang->listed)
        return;
    gang->listed = true;
    gang->previous = NULL;
    gang->next = reporter->told;
    if (gang->next)
        gang->next->previous = gang;
    reporter->told = gang;
}

static void gang_unlist(struct gang *gang)
{
    if (!gang->listed)
        return;
    gang->listed = false;
    if (gang->previous)
        gang->previous->next = gang->next;
    else
        gang->reporter->told = gang->next;
    if (gang->next)
        gang->next->previous = gang->previous;
}

static void gang_drop_if_empty(struct gang *gang)
{
    if (gang->pods.count || gang->told != SCHED_REASON_NONE)
        return;
    gang_unlist(gang);
    map_remove(&gang->reporter->gangs, gang_key(gang));
    map_done(&gang->pods);
    mem_free(gang);
}

static struct str link_key(const struct link *link)
{
    return (struct str){link->text, link->text_len};
}

static struct str link_pod(const struct link *link)
{
    return (struct str){link->text + link->ns_len + 1, link->text_len - link->ns_len - 1};
}

static void link_drop(struct reporter *reporter, struct link *link)
{
    struct gang *gang = link->gang;

    map_remove(&reporter->links, link_key(link));
    map_remove(&gang->pods, link_pod(link));
    mem_free(link);
    gang_drop_if_empty(gang);
}

/* Not of a pod that names its group and is another scheduler's. */
static struct str group_of(const struct reporter *reporter,
                           const struct object *pod,
                           struct arena *arena)
{
    if (!pod->group.len || object_annotation(pod, GROUP_ANNOTATION).len)
        return pod->group;
    return sched_pod_group(sched_config(reporter->options.core), pod,
                           json_get(object_json(pod, arena), "spec"));
}

static void observe_pod(struct reporter *reporter,
                        enum sched_change change,
                        const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str group = group_of(reporter, object, &arena);
    struct link *link = map_get(&reporter->links, key_in(&arena, object->ns, object->name));

    if (link && change == SCHED_PUT && str_eq(gang_name(link->gang), group))
        return;
    if (link)
        link_drop(reporter, link);
    if (change == SCHED_DROP || !group.len)
        return;
    link = mem_alloc(sizeof(*link) + object->ns.len + 1 + object->name.len);
    link->ns_len = object->ns.len;
    link->text_len = key_write(link->text, object->ns, object->name);
    link->gang = gang_make(reporter, object->ns, group);
    link->gang->pods_due = link->gang->grew = true;
    map_set(&reporter->links, link_key(link), link);
    map_set(&link->gang->pods, link_pod(link), link);
}

/* A group that says it waits was told so, by us or by our predecessor. */
static void observe_group(struct reporter *reporter,
                          enum sched_change change,
                          const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct gang *gang = gang_find(reporter, object->ns, object->name);

    if (change == SCHED_DROP) {
        if (gang) {
            gang->told = SCHED_REASON_NONE;
            gang_unlist(gang);
            gang_drop_if_empty(gang);
        }
        return;
    }
    if (!json_str_at(object_tree(object, &arena), "status.message").len)
        return;
    gang = gang ? gang : gang_make(reporter, object->ns, object->name);
    if (gang->told != SCHED_REASON_NONE)
        return;
    gang->told = UNKNOWN;
    gang_list(gang);
}

void reporter_observe(struct reporter *reporter,
                      enum sched_change change,
                      const struct object *object)
{
    if (object->kind == &kind_pod)
        observe_pod(reporter, change, object);
    else if (object->kind == &kind_podgroup)
        observe_group(reporter, change, object);
}

/* ---- writes ---- */

static void due_at(struct reporter *reporter, int64_t at_ms)
{
    if (at_ms < reporter->due_ms)
        reporter->due_ms = at_ms;
}

static bool is_full(struct reporter *reporter)
{
    reporter->full = reporter->full || reporter->under_way >= REPORTER_UNDER_WAY_MAX;
    return reporter->full;
}

static void on_told(void *user, const struct api_result *result)
{
    struct telling *telling = user;
    struct reporter *reporter = telling->reporter;
    bool failed = result->code && !(result->err && result->err->http_status == 404);

    if (reporter) {
        struct gang *gang = map_get(&reporter->gangs, (struct str){telling->text, telling->len});

        if (telling->previous)
            telling->previous->next = telling->next;
        else
            reporter->tellings = telling->next;
        if (telling->next)
            telling->next->previous = telling->previous;
        if (--reporter->under_way <= REPORTER_UNDER_WAY_MAX / 2 && reporter->full) {
            reporter->full = false;
            due_at(reporter, telling->now_ms);
            reporter->options.again(reporter->options.user);
        }
        if (gang && gang->under_way)
            gang->under_way--;
        if (failed && gang) {
            gang->failed = true;
            MAP_FOREACH(&gang->pods, entry)
                ((struct link *)entry->value)->told = SCHED_REASON_NONE;
            gang->told = UNKNOWN;
            gang->pods_due = true;
            gang_list(gang);
        }
        if (gang && gang->failed && !gang->under_way) {
            due_at(reporter, gang->told_ms + REPORTER_AGAIN_MS);
            reporter->options.again(reporter->options.user);
        }
    }
    mem_free(telling);
}

/* `body` becomes part of `object`, a pod or a group of the gang. */
static void patch_status(struct gang *gang,
                         const struct object *object,
                         struct arena *arena,
                         struct json *body,
                         int64_t now_ms)
{
    struct reporter *reporter = gang->reporter;
    struct telling *telling = mem_alloc(sizeof(*telling) + gang->text_len);

    telling->reporter = reporter;
    telling->now_ms = now_ms;
    telling->len = gang->text_len;
    memcpy(telling->text, gang->text, gang->text_len);
    telling->next = reporter->tellings;
    if (telling->next)
        telling->next->previous = telling;
    reporter->tellings = telling;
    reporter->under_way++;
    gang->under_way++;
    api_call(reporter->options.api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = object->kind,
                                   .ns = object->ns,
                                   .name = object->name,
                                   .uid = object->uid,
                                   .subresource = STR("status"),
                                   .patch = object->kind->strategic ? API_PATCH_STRATEGIC
                                                                    : API_PATCH_MERGE,
                                   .body = json_text(arena, body)},
             on_told, telling);
}

/* ---- who waits, and why ---- */

/* Whoever describes a pod finds why it waits among its events, as kube-scheduler puts it there. Of a
 * large gang all say the same, so only the group has it. */
#define PODS_TOLD_MAX 8

static void tell_pod_event(const struct gang *gang,
                           const struct object *pod,
                           const struct sched_waiting *waiting,
                           int64_t now_ms)
{
    if (gang->pods.count > PODS_TOLD_MAX || waiting->reason == SCHED_REASON_NOT_READY ||
        !event_budget_take(&gang->reporter->events, now_ms))
        return;
    event_send(gang->reporter->options.api,
               &(struct event){.kind = &kind_pod,
                               .ns = pod->ns,
                               .name = pod->name,
                               .uid = pod->uid,
                               .reason = STR("FailedScheduling"),
                               .message = waiting->message,
                               .warning = true,
                               .component = gang->reporter->options.component,
                               .now_ms = now_ms});
}

/* An autoscaler adds nodes for what says that it wants some, and for nothing else. */
static const char *condition_reason(enum sched_reason reason)
{
    return sched_reason_wants_nodes(reason) ? AUTOSCALE_WANTS_NODES : sched_reason_word(reason);
}

static void mark_pod(struct gang *gang,
                     const struct object *pod,
                     const struct sched_waiting *waiting,
                     int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(pod, &arena);
    struct condition condition = {"PodScheduled", "False", condition_reason(waiting->reason),
                                  waiting->message};
    struct json *body = json_new_object(&arena);

    if (pod->deleted_ms || json_str_at(root, "spec.nodeName").len)
        return;
    struct json *status = condition_patch(&arena, json_get(root, "status"), &condition, now_ms);
    if (!status)
        return;
    /* Not on a pod that has been bound meanwhile, by whomever. */
    json_add_str(&arena, json_add_object(&arena, body, "metadata"), "resourceVersion",
                 str_printf(&arena, "%llu", (unsigned long long)pod->revision));
    json_set(body, STR("status"), status);
    patch_status(gang, pod, &arena, body, now_ms);
    tell_pod_event(gang, pod, waiting, now_ms);
}

static void mark_pods(struct gang *gang, const struct sched_waiting *waiting, int64_t now_ms)
{
    MAP_FOREACH(&gang->pods, entry) {
        struct link *link = entry->value;
        if (link->told == waiting->reason)
            continue;
        if (is_full(gang->reporter))
            return;
        const struct object *pod =
            cache_get(gang->reporter->options.cache, &kind_pod, waiting->ns, link_pod(link));
        if (!pod)
            continue;
        /* The PodGroup that it names does not exist: the grouper says so, in better words. */
        if (waiting->reason == SCHED_REASON_NO_GROUP &&
            !object_annotation(pod, GROUP_ANNOTATION).len)
            continue;
        link->told = waiting->reason;
        mark_pod(gang, pod, waiting, now_ms);
    }
    gang->pods_due = false;
}

/* KAI keeps a number that grows with every condition it writes. */
static int64_t next_transition(const struct json *status)
{
    int64_t most = -1;

    JSON_FOREACH(json_get(status, "schedulingConditions"), condition) {
        int64_t number = -1;

        if (str_to_i64(json_str_at(condition, "transitionID"), &number) && number > most)
            most = number;
    }
    return most + 1;
}

/* Where a queue stands in the way KAI tells its numbers, and those of the group. */
static void add_queue_details(struct arena *arena,
                              struct json *reason,
                              const struct sched_explanation *from)
{
    const struct sched_why *why = &from->why;
    const double asked[SCHED_RESOURCES] = {[SCHED_CPU] = (double)why->request[SCHED_CPU],
                                           [SCHED_MEMORY] = (double)why->request[SCHED_MEMORY],
                                           [SCHED_GPU] = (double)why->request[SCHED_GPU] / 1000};
    const double nothing[SCHED_RESOURCES] = {0};

    if (why->reason != SCHED_REASON_OVER_LIMIT && why->reason != SCHED_REASON_OVER_QUOTA)
        return;
    struct json *details = json_make_path(arena, reason, "details.queueDetails");
    json_add_str(arena, details, "name", from->numbers.name);
    scheduler_amounts(arena, details, "queueRequestedResources", from->numbers.requested);
    scheduler_amounts(arena, details, "queueDeservedResources", from->numbers.quota);
    scheduler_amounts(arena, details, "queueAllocatedResources", from->numbers.allocated);
    scheduler_amounts(arena, details, "queueAllocatedNonPreemptibleResources",
                      from->numbers.allocated_non_preemptible);
    scheduler_amounts(arena, details, "queueResourceLimits", from->numbers.limit);
    scheduler_amounts(arena, details, "podGroupRequestedResources", asked);
    scheduler_amounts(arena, details, "podGroupRequestedNonPreemptibleResources",
                      from->preemptible ? nothing : asked);
}

static void mark_group(struct gang *gang,
                       const struct object *group,
                       const struct sched_waiting *waiting,
                       int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(group, &arena);
    const struct json *before = json_get(root, "status");
    struct str pool = object_label(group, "kai.scheduler/node-pool");
    struct json *body = json_new_object(&arena);
    struct json *status = json_add_object(&arena, body, "status");
    struct json *condition =
        json_push(json_add_array(&arena, status, "schedulingConditions"), json_new_object(&arena));

    json_add_str(&arena, status, "message", waiting->message);
    json_fill(&arena, condition,
              "{type: 'UnschedulableOnNodePool', status: 'True', nodePool: $, "
              "reason: 'Unschedulable', message: $, lastTransitionTime: $, "
              "transitionID: $}",
              pool.len ? pool : STR("default"), waiting->message, time_text(&arena, now_ms),
              str_printf(&arena, "%lld", (long long)next_transition(before)));
    struct json *reason =
        json_push(json_add_array(&arena, condition, "reasons"), json_new_object(&arena));
    json_add_c(&arena, reason, "reason", sched_reason_word(waiting->reason));
    json_add_str(&arena, reason, "message", waiting->message);
    struct sched_explanation explanation;
    if (sched_explain(gang->reporter->options.core, waiting->ns, waiting->group, &arena,
                      &explanation)) {
        json_set(status, STR("explanation"), sched_explanation_json(&arena, &explanation));
        add_queue_details(&arena, reason, &explanation);
    }
    patch_status(gang, group, &arena, body, now_ms);
}

static void tell_event(const struct gang *gang,
                       const struct object *group,
                       const struct sched_waiting *waiting,
                       int64_t now_ms)
{
    event_send(gang->reporter->options.api,
               &(struct event){.kind = &kind_podgroup,
                               .ns = waiting->ns,
                               .name = waiting->group,
                               .uid = group->uid,
                               .reason = waiting->reason == SCHED_REASON_NOT_READY
                                             ? STR("NotReady")
                                             : STR("Unschedulable"),
                               .message = waiting->message,
                               .component = gang->reporter->options.component,
                               .now_ms = now_ms});
}

bool reporter_estimate(struct reporter *reporter,
                       struct str ns,
                       struct str group,
                       struct arena *arena,
                       struct json *estimate,
                       int64_t now_ms)
{
    struct gang *gang = gang_find(reporter, ns, group);
    const struct object *object = cache_get(reporter->options.cache, &kind_podgroup, ns, group);
    struct json *body = json_new_object(arena);

    if (!gang || !object || gang->told == SCHED_REASON_NONE || gang->told == UNKNOWN)
        return false;
    json_set(json_make_path(arena, body, "status.explanation"), STR("estimate"), estimate);
    patch_status(gang, object, arena, body, now_ms);
    return true;
}

static void clear_group(struct gang *gang, int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *group =
        cache_get(gang->reporter->options.cache, &kind_podgroup, gang_ns(gang), gang_name(gang));
    struct json *body = json_new_object(&arena);
    struct json *status = json_add_object(&arena, body, "status");

    if (!group)
        return;
    json_set(status, STR("message"), json_new_null(&arena));
    json_set(status, STR("schedulingConditions"), json_new_null(&arena));
    json_set(status, STR("explanation"), json_new_null(&arena));
    patch_status(gang, group, &arena, body, now_ms);
}

static void tell(struct gang *gang, const struct sched_waiting *waiting, int64_t now_ms)
{
    struct reporter *reporter = gang->reporter;
    const struct object *group =
        cache_get(reporter->options.cache, &kind_podgroup, waiting->ns, waiting->group);
    uint64_t words = str_hash(waiting->message, HASH_SEED);
    bool new_reason = gang->told != waiting->reason;

    /* Each write that fails would have all of the gang written again, and those fail, too. */
    if (gang->failed && (gang->under_way || now_ms < gang->told_ms + REPORTER_AGAIN_MS)) {
        if (!gang->under_way)
            due_at(reporter, gang->told_ms + REPORTER_AGAIN_MS);
        return;
    }
    gang->failed = false;
    if (!new_reason && gang->told_words != words && now_ms < gang->told_ms + REPORTER_AGAIN_MS)
        due_at(reporter, gang->told_ms + REPORTER_AGAIN_MS);
    else if ((new_reason || gang->told_words != words) && is_full(reporter))
        gang_list(gang);
    else if (new_reason || gang->told_words != words) {
        if (group)
            mark_group(gang, group, waiting, now_ms);
        if (group && new_reason && gang->told != UNKNOWN)
            tell_event(gang, group, waiting, now_ms);
        gang->told = waiting->reason;
        gang->told_words = words;
        gang->told_ms = now_ms;
        gang->pods_due = true;
        gang_list(gang);
    }
    if (gang->pods_due)
        mark_pods(gang, waiting, now_ms);
}

/* The grouper makes the group a moment after the pod, pods of a gang arrive one by one, and a burst
 * has its turn a moment later, as has what failed for once: what will most likely be over at once
 * is not worth a write a pod. */
static int64_t patience_of(enum sched_reason reason)
{
    if (reason == SCHED_REASON_NO_GROUP)
        return REPORTER_PATIENCE_MS;
    return reason == SCHED_REASON_NOT_READY || reason == SCHED_REASON_IN_LINE ||
                   reason == SCHED_REASON_HELD
               ? REPORTER_SHORT_MS
               : 0;
}

/* Patience begins anew with every pod that arrives, but not for ever. The times are those at which
 * we saw it: what the objects say is in whole seconds. */
static bool is_too_early(struct gang *gang, const struct sched_waiting *waiting, int64_t now_ms)
{
    int64_t patience_ms = patience_of(waiting->reason);

    if (gang->grew)
        gang->joined_ms = now_ms;
    gang->grew = false;
    if (!patience_ms || !gang->began_ms)
        gang->began_ms = patience_ms ? now_ms : 0;
    int64_t at_ms = gang->joined_ms + patience_ms;
    if (at_ms > gang->began_ms + REPORTER_ARRIVING_MS)
        at_ms = gang->began_ms + REPORTER_ARRIVING_MS;
    if (now_ms >= at_ms || !patience_ms)
        return false;
    due_at(gang->reporter, at_ms);
    return true;
}

static void clear_told(struct reporter *reporter, int64_t now_ms)
{
    struct gang *next = NULL;

    for (struct gang *gang = reporter->told; gang; gang = next) {
        bool waiting = gang->waiting;

        next = gang->next;
        gang->waiting = false;
        if (waiting || (gang->told != SCHED_REASON_NONE && is_full(reporter)))
            continue;
        if (gang->told != SCHED_REASON_NONE) {
            clear_group(gang, now_ms);
            MAP_FOREACH(&gang->pods, entry)
                ((struct link *)entry->value)->told = SCHED_REASON_NONE;
        }
        gang->told = SCHED_REASON_NONE;
        gang->began_ms = 0;
        gang_unlist(gang);
        gang_drop_if_empty(gang);
    }
}

void reporter_apply(struct reporter *reporter, const struct sched_plan *plan, int64_t now_ms)
{
    reporter->due_ms = INT64_MAX;
    for (size_t i = 0; i < plan->waiting_count; i++) {
        const struct sched_waiting *waiting = &plan->waiting[i];
        struct gang *gang = gang_find(reporter, waiting->ns, waiting->group);

        if (!gang)
            continue;
        if (!is_too_early(gang, waiting, now_ms))
            tell(gang, waiting, now_ms);
        else
            gang_list(gang);
        gang->waiting = true;
    }
    clear_told(reporter, now_ms);
}

int64_t reporter_due_ms(const struct reporter *reporter)
{
    return reporter->due_ms;
}

struct reporter *reporter_new(const struct reporter_options *options)
{
    struct reporter *reporter = MEM_NEW(struct reporter);

    reporter->options = *options;
    reporter->gangs.seed = reporter->links.seed = options->seed;
    reporter->due_ms = INT64_MAX;
    return reporter;
}

void reporter_free(struct reporter *reporter)
{
    if (!reporter)
        return;
    for (struct telling *telling = reporter->tellings; telling; telling = telling->next)
        telling->reporter = NULL;
    MAP_FOREACH(&reporter->links, entry)
        mem_free(entry->value);
    MAP_FOREACH(&reporter->gangs, entry) {
        struct gang *gang = entry->value;

        map_done(&gang->pods);
        mem_free(gang);
    }
    map_done(&reporter->links);
    map_done(&reporter->gangs);
    mem_free(reporter);
}
