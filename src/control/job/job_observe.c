#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/suspend.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/job/job_engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the pods of a job look like from outside: one struct job_member a pod. */

/* A node whose agent is silent may come back: this long is it given before its pods are replaced.
 */
#define NODE_SILENT_MS 20000

static int64_t moment(const struct json *value)
{
    int64_t ms = 0;

    (void)time_parse(json_str(value), &ms);
    return ms;
}

/* 0: the node is fine; else the moment from which its pods count as lost. */
static int64_t node_lost_at(const struct control_input *input, struct str node, struct arena *arena)
{
    const struct object *object = cache_get(input->cache, &kind_node, STR(""), node);

    if (!object)
        return 1;
    const struct json *ready =
        condition_find(json_get(object_json(object, arena), "status"), "Ready");
    if (!ready || str_is(json_str(json_get(ready, "status")), "True"))
        return 0;
    return moment(json_get(ready, "lastTransitionTime")) + NODE_SILENT_MS;
}

bool job_is_our_node(const struct control_input *input, struct str node, struct arena *arena)
{
    const struct object *object = cache_get(input->cache, &kind_node, STR(""), node);

    return object && str_starts(json_str_at(object_json(object, arena),
                                            "status.nodeInfo.containerRuntimeVersion"),
                                STR("muster-shim://"));
}

static bool ended_badly(const struct json *container)
{
    return json_i64_or(json_at(container, "state.terminated.exitCode"), 0) != 0;
}

/* The container that explains the end: the main one, or else the first that failed. */
static const struct json *culprit(const struct json *status, const struct job_role *role)
{
    const struct json *first = NULL;

    JSON_FOREACH(json_get(status, "containerStatuses"), container) {
        if (!ended_badly(container))
            continue;
        if (role && role->main.len && str_eq(json_str(json_get(container, "name")), role->main))
            return container;
        first = first ? first : container;
    }
    return first;
}

/* The end of "rank 3 ended with exit code 7 at TIME; its last lines:": see launch/record.h. */
static int64_t first_error_ms(struct str message)
{
    const struct str mark = STR(" at ");
    struct str line = str_sub(message, 0, str_find(message, '\n'));
    int64_t ms = 0;

    if (!str_starts(line, STR("rank ")))
        return 0;
    while (line.len && !str_starts(line, mark))
        line = str_sub(line, 1, line.len);
    line = str_sub(line, mark.len, line.len);
    (void)time_parse(str_sub(line, 0, str_find(line, ';')), &ms);
    return ms;
}

/* The 3 of it. */
static bool first_rank(struct str message, int64_t *ret)
{
    const struct str mark = STR("rank ");
    struct str rest = str_sub(message, mark.len, message.len);

    return str_starts(message, mark) && str_to_i64(str_sub(rest, 0, str_find(rest, ' ')), ret);
}

/* The first line, which says who and when, and as much of the end as there is room for. */
static struct str shorten(struct str message, struct arena *arena)
{
    static const char cut[] = "[...]\n";
    struct str head = str_sub(message, 0, str_find(message, '\n') + 1);

    if (message.len <= JOB_FAILURE_MAX)
        return message;
    if (head.len > JOB_FAILURE_MAX / 2)
        head = STR("");
    size_t room = JOB_FAILURE_MAX - head.len - (sizeof(cut) - 1);
    return str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(head), cut,
                      STR_ARG(str_sub(message, message.len - room, room)));
}

static void observe_failure(const struct json *status,
                            struct job_member *member,
                            struct arena *arena)
{
    struct job_failure *failure = &member->failure;
    const struct json *ended = json_at(culprit(status, member->role), "state.terminated");

    *failure = (struct job_failure){.pod = member->object->name,
                                    .node = member->node,
                                    .exit_code = 1,
                                    .reason = json_str(json_get(status, "reason")),
                                    .message = json_str(json_get(status, "message")),
                                    .time_ms = member->object->created_ms};
    if (ended) {
        failure->exit_code = json_i64_or(json_get(ended, "exitCode"), 1);
        failure->reason = json_str(json_get(ended, "reason"));
        if (json_str(json_get(ended, "message")).len)
            failure->message = str_trim(json_str(json_get(ended, "message")));
        failure->time_ms = moment(json_get(ended, "finishedAt"));
        failure->first_ms = first_error_ms(failure->message);
        failure->has_rank = first_rank(failure->message, &failure->rank);
    }
    failure->evidence = job_evidence(failure);
    failure->message = shorten(failure->message, arena);
}

/* Kubelets, node shutdown and the scheduler say so when they end a pod. */
static bool was_taken(const struct json *status)
{
    static const char *const reasons[] = {
        "Evicted",  "Preempted",    "Preempting", "NodeLost",
        "Shutdown", "NodeShutdown", "Terminated", "UnexpectedAdmissionError"};
    struct str reason = json_str(json_get(status, "reason"));

    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (str_is(reason, reasons[i]))
            return true;
    return condition_is_true(status, "DisruptionTarget");
}

/* Why a pod that has a node does not run: the first container that says so. */
static struct str waiting_words(const struct json *status, struct arena *arena)
{
    const struct json *scheduled = condition_find(status, "PodScheduled");

    if (str_is(json_str(json_get(scheduled, "status")), "False"))
        return json_str(json_get(scheduled, "message"));
    JSON_FOREACH(json_get(status, "containerStatuses"), container) {
        const struct json *waiting = json_at(container, "state.waiting");
        struct str reason = json_str(json_get(waiting, "reason"));
        struct str message = json_str(json_get(waiting, "message"));

        if (!reason.len || str_is(reason, "ContainerCreating") || str_is(reason, "PodInitializing"))
            continue;
        return str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(reason), message.len ? ": " : "",
                          STR_ARG(message));
    }
    return json_str(json_get(status, "message"));
}

/* What is wrong with a pod that has not ended: a container that ended badly or cannot start, or no
 * node for it. */
static void observe_abnormal(const struct json *status,
                             struct job_member *member,
                             struct arena *arena)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    const struct json *scheduled = condition_find(status, "PodScheduled");

    if (str_is(json_str(json_get(scheduled, "status")), "False")) {
        member->abnormal = json_str(json_get(scheduled, "reason"));
        member->abnormal_words = json_str(json_get(scheduled, "message"));
        return;
    }
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_get(status, lists[i]), container) {
            const struct json *state = json_get(container, "state");
            struct str name = json_str(json_get(container, "name"));
            struct str waiting = json_str_at(state, "waiting.message");
            struct str reason = json_str_at(state, "terminated.reason");

            if (ended_badly(container)) {
                member->abnormal = reason.len ? reason : STR("Error");
                member->abnormal_words = str_printf(
                    arena, "container " STR_FMT " ended with exit status %lld", STR_ARG(name),
                    (long long)json_i64_or(json_at(state, "terminated.exitCode"), 0));
            } else if (waiting.len) {
                member->abnormal = json_str_at(state, "waiting.reason");
                member->abnormal_words = str_printf(arena, "container " STR_FMT " waits: " STR_FMT,
                                                    STR_ARG(name), STR_ARG(waiting));
            }
            if (member->abnormal.len)
                return;
        }
}

static const struct job_role *role_of(const struct job_model *model, const struct object *pod)
{
    struct str name = object_label(pod, JOB_LABEL_ROLE);

    for (size_t i = 0; i < model->roles.count; i++)
        if (str_eq(model->roles.items[i].name, name))
            return &model->roles.items[i];
    return NULL;
}

static int64_t in_place(const struct json *status)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};
    int64_t sum = 0;

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_get(status, lists[i]), container)
            sum += json_i64_or(json_get(container, "restartCount"), 0);
    return sum;
}

/* A pod that was told to go and then ended well, as programs do that save their work on SIGTERM, is
 * not done: it was taken from us. One that had ended before is. */
static bool was_stopped(const struct object *pod, const struct json *root)
{
    int64_t grace = json_i64_or(json_at(root, "metadata.deletionGracePeriodSeconds"), 0);
    int64_t asked_ms = pod->deleted_ms - grace * 1000;

    if (!pod->deleted_ms)
        return false;
    JSON_FOREACH(json_at(root, "status.containerStatuses"), container)
        if (moment(json_at(container, "state.terminated.finishedAt")) >= asked_ms)
            return true;
    return false;
}

static int64_t last_finished(const struct json *status)
{
    int64_t last_ms = 0;

    JSON_FOREACH(json_get(status, "containerStatuses"), container) {
        int64_t ms = moment(json_at(container, "state.terminated.finishedAt"));

        last_ms = ms > last_ms ? ms : last_ms;
    }
    return last_ms;
}

static void observe_suspension(const struct json *status, struct job_member *member)
{
    const struct json *condition = condition_find(status, SUSPEND_CONDITION);

    member->suspend = object_annotation(member->object, SUSPEND_ANNOTATION);
    member->away = condition_is_true(status, SUSPEND_CONDITION);
    member->away_ms = moment(json_get(condition, "lastTransitionTime"));
    if (str_is(json_str(json_get(condition, "reason")), SUSPEND_FAILED))
        member->unsuspended = json_str(json_get(condition, "message"));
}

static bool all_ended(const struct json *containers)
{
    JSON_FOREACH(containers, container)
        if (!json_at(container, "state.terminated"))
            return false;
    return true;
}

/* The work of a pod is over when its main container has ended for good: what logs or copies beside
 * it may never end by itself, and would keep the job and its GPUs. One that has a further round to
 * run in place has not ended so; and where all have, the node is about to say what became of the pod. */
static void observe_main(const struct json *root, struct job_member *member)
{
    struct str policy = json_str_at(root, "spec.restartPolicy");
    struct str main = member->role ? member->role->main : (struct str){0};
    const struct json *containers = json_at(root, "status.containerStatuses");

    if (all_ended(containers))
        return;
    JSON_FOREACH(containers, container) {
        bool badly = ended_badly(container);

        if (!main.len || !str_eq(json_str(json_get(container, "name")), main) ||
            !json_at(container, "state.terminated") ||
            (member->place.set &&
             json_i64_or(json_get(container, "restartCount"), 0) < member->place.round))
            continue;
        if (str_is(policy, "Never") || (str_is(policy, "OnFailure") && !badly)) {
            member->phase = badly ? JOB_POD_FAILED : JOB_POD_SUCCEEDED;
            member->beside = true;
        }
    }
}

/* A pod that restarts in place fails while it runs: its containers have ended, and it is kept. */
static void observe_place(const struct json *status, struct job_member *member)
{
    const struct json *list = json_get(status, "containerStatuses");
    bool badly = false;

    member->place = place_parse(object_annotation(member->object, PLACE_ANNOTATION));
    if (!member->place.set)
        return;
    member->in_place = 0; /* ordered, and counted then */
    member->instance = INT64_MAX;
    member->stopped = json_count(list) > 0;
    JSON_FOREACH(list, container) {
        int64_t restarts = json_i64_or(json_get(container, "restartCount"), 0);

        member->instance = restarts < member->instance ? restarts : member->instance;
        member->stopped = member->stopped && json_at(container, "state.terminated");
        badly = badly || ended_badly(container);
    }
    if (!json_count(list))
        member->instance = 0;
    member->held = member->phase == JOB_POD_RUNNING && member->stopped && badly &&
                   member->instance >= member->place.round;
    if (member->held)
        member->phase = JOB_POD_FAILED;
}

struct job_member job_observe_pod(const struct control_input *input,
                                  const struct job_model *model,
                                  const struct object *pod,
                                  struct arena *arena)
{
    arena_defer(arena, object_release, object_ref(pod));
    const struct json *root = object_json(pod, arena);
    const struct json *status = json_get(root, "status");
    struct str phase = json_str(json_get(status, "phase"));
    struct str node = json_str_at(root, "spec.nodeName");
    struct job_member member = {.object = pod,
                                .role = role_of(model, pod),
                                .leaving = pod->deleted_ms != 0,
                                .node = node,
                                .in_place = in_place(status)};
    int64_t index = 0;
    int64_t size = 0;

    (void)str_to_i64(object_label(pod, JOB_LABEL_INDEX), &index);
    if (str_to_i64(object_annotation(pod, JOB_ANNOTATION_SIZE), &size) && size > 0)
        member.size = (size_t)size;
    (void)str_to_i64(object_label(pod, JOB_LABEL_GENERATION), &member.generation);
    member.index = index < 0 ? 0 : (size_t)index;
    member.scheduled = node.len > 0;
    if (str_is(phase, "Running"))
        member.phase = JOB_POD_RUNNING;
    else if (str_is(phase, "Succeeded"))
        member.phase = JOB_POD_SUCCEEDED;
    else if (str_is(phase, "Failed"))
        member.phase = JOB_POD_FAILED;
    observe_place(status, &member);
    if (member.phase == JOB_POD_RUNNING)
        observe_main(root, &member);
    if (condition_is_true(status, "DisruptionTarget")) {
        const char *which =
            condition_find(status, CONDITION_EVICTED) ? CONDITION_EVICTED : "DisruptionTarget";
        member.taken_for = json_str(json_get(condition_find(status, which), "message"));
    }
    member.ready = member.phase == JOB_POD_RUNNING && condition_is_true(status, "Ready");
    if (member.phase == JOB_POD_SUCCEEDED && was_stopped(pod, root)) {
        member.phase = JOB_POD_FAILED;
        member.taken = true;
    } else if (member.phase == JOB_POD_SUCCEEDED) {
        member.ended_ms = last_finished(status);
    } else if (member.phase == JOB_POD_FAILED) {
        observe_failure(status, &member, arena);
        member.taken = was_taken(status);
    }
    if (member.phase <= JOB_POD_RUNNING || member.held)
        observe_suspension(status, &member);
    if (member.phase == JOB_POD_PENDING)
        member.waiting = waiting_words(status, arena);
    if (member.phase <= JOB_POD_RUNNING && !member.leaving)
        observe_abnormal(status, &member, arena);
    if (node.len && (member.phase <= JOB_POD_RUNNING || member.held)) {
        member.lost_at_ms = node_lost_at(input, node, arena);
        member.lost = member.lost_at_ms && member.lost_at_ms <= input->now_ms;
    }
    return member;
}

void job_observe(const struct control_input *input,
                 const struct job_model *model,
                 struct arena *arena,
                 struct job_members *ret,
                 struct job_members *spares)
{
    const struct object *pod;
    size_t cursor = 0;

    while ((pod = cache_next_owned(input->cache, &kind_pod, model->object->uid, &cursor))) {
        struct str role = object_label(pod, JOB_LABEL_ROLE);
        struct job_members *list = str_is(role, JOB_ROLE_SPARE) ? spares : ret;

        if (list && !str_is(role, JOB_ROLE_SYNC) && list->count < JOB_PODS_MAX)
            VEC_PUSH(arena, list, job_observe_pod(input, model, pod, arena));
    }
}
