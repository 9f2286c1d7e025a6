#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_items.h"
#include "base/str.h"
#include "base/time.h"
#include "control/builtin/deployment.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/status.h"

/* What a Deployment says about itself: counts, and the conditions that `kubectl rollout status`
 * and `kubectl wait --for=condition=Available` look at. */

#define REASON_AVAILABLE "NewReplicaSetAvailable"
#define REASON_DEADLINE  "ProgressDeadlineExceeded"
#define REASON_UPDATED   "ReplicaSetUpdated"
#define REASON_PAUSED    "DeploymentPaused"

static int64_t sum_status(const struct deployment *d, const char *member)
{
    int64_t sum = 0;

    for (size_t i = 0; i < d->sets.count; i++)
        sum += json_i64_or(json_get(json_get(d->sets.items[i].tree, "status"), member), 0);
    return sum;
}

static int64_t number(const struct json *status, const char *member)
{
    return json_i64_or(json_get(status, member), 0);
}

/* As condition_set(), and with the time of the last look that had something to say. */
static void set_condition(struct deployment *d, const struct condition *condition)
{
    struct workload *w = &d->w;
    const struct json *before = condition_find(w->before, condition->type);
    bool same = before && str_is(json_str(json_get(before, "status")), condition->status) &&
                str_is(json_str(json_get(before, "reason")), condition->reason);
    bool progress = str_is(str_from(condition->reason), REASON_UPDATED);

    if (same && !progress)
        return;
    condition_set(w->arena, w->status, condition, w->input->now_ms);
    JSON_FOREACH(json_get(w->status, "conditions"), entry)
        if (str_is(json_str(json_get(entry, "type")), condition->type))
            json_add_str(w->arena, entry, "lastUpdateTime", time_text(w->arena, w->input->now_ms));
}

static bool is_complete(const struct deployment *d)
{
    const struct json *status = d->w.status;

    return d->newest && number(status, "updatedReplicas") == d->replicas &&
           number(status, "replicas") == d->replicas &&
           number(status, "availableReplicas") == d->replicas;
}

/* More new pods, fewer old ones, or more that serve. */
static bool has_progressed(const struct deployment *d)
{
    const struct json *now = d->w.status;
    const struct json *then = d->w.before;
    int64_t old_now = number(now, "replicas") - number(now, "updatedReplicas");
    int64_t old_then = number(then, "replicas") - number(then, "updatedReplicas");

    return number(now, "updatedReplicas") > number(then, "updatedReplicas") || old_now < old_then ||
           number(now, "readyReplicas") > number(then, "readyReplicas") ||
           number(now, "availableReplicas") > number(then, "availableReplicas");
}

/* A rollout that is late. Looks again when it will be. */
static bool is_late(struct deployment *d, const struct json *condition)
{
    struct str reason = json_str(json_get(condition, "reason"));
    int64_t seconds = number(d->w.spec, "progressDeadlineSeconds");
    int64_t since = 0;

    if (!condition || str_is(reason, REASON_AVAILABLE) || str_is(reason, REASON_PAUSED) ||
        !time_parse(json_str(json_get(condition, "lastUpdateTime")), &since))
        return false;
    if (str_is(reason, REASON_DEADLINE) || since + seconds * 1000 <= d->w.input->now_ms)
        return true;
    action_look_again(d->w.actions, since + seconds * 1000);
    return false;
}

static void tell_progress(struct deployment *d)
{
    struct workload *w = &d->w;
    const struct json *condition = condition_find(w->status, "Progressing");
    struct str reason = json_str(json_get(condition, "reason"));
    struct str set = d->newest ? d->newest->object->name : STR("?");

    if (d->paused) {
        set_condition(d, &(struct condition){"Progressing", "Unknown", REASON_PAUSED,
                                             STR("Deployment is paused")});
        return;
    }
    if (str_is(reason, REASON_PAUSED))
        set_condition(d, &(struct condition){"Progressing", "Unknown", "DeploymentResumed",
                                             STR("Deployment is resumed")});
    if (!d->newest && w->input->refusal.len) {
        set_condition(d, &(struct condition){"Progressing", "False", "ReplicaSetCreateError",
                                             w->input->refusal});
        return;
    }
    if (d->progress)
        set_condition(d,
                      &(struct condition){"Progressing", "True", d->progress, d->progress_message});
    condition = condition_find(w->status, "Progressing");
    reason = json_str(json_get(condition, "reason"));
    if (str_is(reason, REASON_AVAILABLE) &&
        number(w->status, "replicas") == number(w->status, "updatedReplicas") && !d->progress)
        return;
    if (is_complete(d))
        set_condition(d, &(struct condition){"Progressing", "True", REASON_AVAILABLE,
                                             str_printf(w->arena,
                                                        "ReplicaSet \"" STR_FMT
                                                        "\" has successfully progressed.",
                                                        STR_ARG(set))});
    else if (has_progressed(d))
        set_condition(d, &(struct condition){
                             "Progressing", "True", REASON_UPDATED,
                             str_printf(w->arena, "ReplicaSet \"" STR_FMT "\" is progressing.",
                                        STR_ARG(set))});
    else if (is_late(d, condition))
        set_condition(d, &(struct condition){"Progressing", "False", REASON_DEADLINE,
                                             str_printf(w->arena,
                                                        "ReplicaSet \"" STR_FMT
                                                        "\" has timed out progressing.",
                                                        STR_ARG(set))});
}

/* What the newest ReplicaSet could not make is the Deployment's trouble. */
static void tell_failure(struct deployment *d)
{
    const struct json *failure =
        d->newest ? condition_find(json_get(d->newest->tree, "status"), "ReplicaFailure") : NULL;

    refusal_write(d->w.arena, d->w.status, json_str(json_get(failure, "message")),
                  d->w.input->now_ms);
}

void deployment_status(struct deployment *d)
{
    struct workload *w = &d->w;
    static const char *const keep[] = {"collisionCount", NULL};
    int64_t available = sum_status(d, "availableReplicas");
    int64_t wanted = 0;
    const struct json *newest = d->newest ? json_get(d->newest->tree, "status") : NULL;

    for (size_t i = 0; i < d->sets.count; i++)
        wanted += d->sets.items[i].replicas;
    workload_status(w, keep);
    workload_count(w, "replicas", sum_status(d, "replicas"), false);
    workload_count(w, "updatedReplicas", number(newest, "replicas"), false);
    workload_count(w, "readyReplicas", sum_status(d, "readyReplicas"), false);
    workload_count(w, "availableReplicas", available, false);
    workload_count(w, "unavailableReplicas", wanted > available ? wanted - available : 0, false);
    bool enough = available >= d->replicas - d->gone;
    set_condition(
        d, &(struct condition){"Available", enough ? "True" : "False",
                               enough ? "MinimumReplicasAvailable" : "MinimumReplicasUnavailable",
                               enough ? STR("Deployment has minimum availability.")
                                      : STR("Deployment does not have minimum "
                                            "availability.")});
    tell_failure(d);
    if (json_get(w->spec, "progressDeadlineSeconds"))
        tell_progress(d);
}
