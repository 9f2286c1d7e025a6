#include "api/object.h"
#include "api/regex.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/action.h"
#include "control/control.h"
#include "control/jobset.h"
#include "control/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When a JobSet has succeeded or failed, what a failed Job leads to, and who starts when. */

static bool is_listed(const struct json *list, struct str text)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(item), text))
            return true;
    return false;
}

/* An empty list of targets means every part. */
static bool is_target(const struct json *policy, struct str part)
{
    const struct json *targets = json_get(policy, "targetReplicatedJobs");

    return !json_count(targets) || is_listed(targets, part);
}

/* ---- success ---- */

bool jobset_has_succeeded(const struct jobset *set)
{
    const struct json *policy = json_get(set->spec, "successPolicy");
    bool any = str_is(json_str(json_get(policy, "operator")), "Any");
    int64_t wanted = 0;
    int64_t done = 0;

    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        if (!is_target(policy, part->name))
            continue;
        wanted += part->replicas;
        done += part->succeeded;
    }
    return any ? done > 0 : wanted > 0 && done >= wanted;
}

void jobset_finish(struct jobset *set, bool well, const char *reason, struct str message)
{
    condition_set(set->arena, set->status,
                  &(struct condition){well ? "Completed" : "Failed", "True", reason, message},
                  set->input->now_ms);
    json_add_c(set->arena, set->status, "terminalState", well ? "Completed" : "Failed");
    if (well)
        action_event(set->actions, set->object, reason, message);
    else
        action_warn(set->actions, set->object, reason, message);
}

/* ---- failure ---- */

struct failed {
    const struct jobset_part *part;
    const struct jobset_job *job;
};

static bool pattern_matches(struct jobset *set, const struct json *patterns, struct str message)
{
    JSON_FOREACH(patterns, pattern) {
        struct regex *regex = NULL;

        if (regex_compile(set->arena, json_str(pattern), &regex, NULL) == 0 &&
            regex_matches(regex, message))
            return true;
    }
    return false;
}

static bool rule_matches(struct jobset *set, const struct json *rule, const struct failed *failed)
{
    const struct json *reasons = json_get(rule, "onJobFailureReasons");
    const struct json *patterns = json_get(rule, "onJobFailureMessagePatterns");

    return is_target(rule, failed->part->name) &&
           (!json_count(reasons) || is_listed(reasons, failed->job->reason)) &&
           (!json_count(patterns) || pattern_matches(set, patterns, failed->job->message));
}

/* The earliest failure that matches the rule (every one does when there is none). */
static bool first_failed(struct jobset *set, const struct json *rule, struct failed *ret)
{
    bool found = false;

    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        for (size_t j = 0; j < part->jobs.count; j++) {
            struct failed each = {part, &part->jobs.items[j]};

            if (!each.job->failed || (found && each.job->failed_ms >= ret->job->failed_ms))
                continue;
            if (rule && !rule_matches(set, rule, &each))
                continue;
            *ret = each;
            found = true;
        }
    }
    return found;
}

static int64_t counted(const struct jobset *set)
{
    return json_i64_or(json_get(set->status, "restartsCountTowardsMax"), 0);
}

int64_t jobset_restarts(const struct jobset *set)
{
    return json_i64_or(json_get(set->status, "restarts"), 0);
}

static struct json *own_entry(const struct jobset *set, struct str job)
{
    JSON_FOREACH(json_get(set->status, "individualJobRestarts"), entry)
        if (str_eq(json_str(json_get(entry, "name")), job))
            return entry;
    return NULL;
}

int64_t jobset_own_restarts(const struct jobset *set, struct str job)
{
    return json_i64_or(json_get(own_entry(set, job), "restarts"), 0);
}

static void restart_one(struct jobset *set, struct str job)
{
    struct json *entry = own_entry(set, job);
    struct json *list = json_get(set->status, "individualJobRestarts");

    if (!list)
        list = json_add_array(set->arena, set->status, "individualJobRestarts");
    if (!entry)
        entry = json_push(list, json_new_object(set->arena));
    json_add_i64(set->arena, entry, "restarts", jobset_own_restarts(set, job) + 1);
    json_add_str(set->arena, entry, "name", str_dup(set->arena, job));
}

static void act(struct jobset *set, struct str action, const struct failed *failed)
{
    int64_t most = json_i64_or(json_at(set->spec, "failurePolicy.maxRestarts"), 0);
    bool free = str_ends(action, STR("AndIgnoreMaxRestarts"));
    bool alone = str_starts(action, STR("RestartJob")) && !str_starts(action, STR("RestartJobSet"));
    struct str what = str_printf(set->arena, "job " STR_FMT " failed: " STR_FMT ": " STR_FMT,
                                 STR_ARG(failed->job->object->name), STR_ARG(failed->job->reason),
                                 STR_ARG(failed->job->message));

    if (str_is(action, "FailJobSet")) {
        jobset_finish(set, false, "FailJobSetFailurePolicyAction", what);
        return;
    }
    if (!free && counted(set) >= most) {
        jobset_finish(set, false, "ReachedMaxRestarts",
                      str_printf(set->arena,
                                 "restarted %lld times, as often as maxRestarts allows; " STR_FMT,
                                 (long long)counted(set), STR_ARG(what)));
        return;
    }
    if (!free)
        json_add_i64(set->arena, set->status, "restartsCountTowardsMax", counted(set) + 1);
    if (alone)
        restart_one(set, failed->job->object->name);
    else
        json_add_i64(set->arena, set->status, "restarts", jobset_restarts(set) + 1);
    if (!alone)
        json_remove(set->status, STR("individualJobRestarts"));
    action_warn(set->actions, set->object,
                alone ? "RestartJobFailurePolicyAction" : "RestartJobSetFailurePolicyAction", what);
}

bool jobset_judge_failures(struct jobset *set)
{
    const struct json *policy = json_get(set->spec, "failurePolicy");
    struct failed failed = {0};

    if (!first_failed(set, NULL, &failed))
        return false;
    if (json_is_null(policy)) {
        jobset_finish(set, false, "FailedJobs",
                      str_printf(set->arena, "job " STR_FMT " failed: " STR_FMT ": " STR_FMT,
                                 STR_ARG(failed.job->object->name), STR_ARG(failed.job->reason),
                                 STR_ARG(failed.job->message)));
        return true;
    }
    JSON_FOREACH(json_get(policy, "rules"), rule) {
        struct failed match = {0};

        if (!first_failed(set, rule, &match))
            continue;
        act(set, json_str(json_get(rule, "action")), &match);
        return true;
    }
    act(set, STR("RestartJobSet"), &failed);
    return true;
}

/* ---- order ---- */

bool jobset_in_order(const struct jobset *set)
{
    return str_is(json_str_at(set->spec, "startupPolicy.startupPolicyOrder"), "InOrder");
}

static bool has_started(const struct jobset_part *part)
{
    return part->ready + part->failed + part->succeeded >= part->replicas;
}

static const struct jobset_part *part_named(const struct jobset *set, struct str name)
{
    for (size_t i = 0; i < set->parts.count; i++)
        if (str_eq(set->parts.items[i].name, name))
            return &set->parts.items[i];
    return NULL;
}

bool jobset_may_start(const struct jobset *set, const struct jobset_part *part)
{
    if (set->suspended)
        return true; /* made, but suspended like the set */
    if (jobset_in_order(set))
        for (const struct jobset_part *each = set->parts.items; each < part; each++)
            if (!has_started(each))
                return false;
    JSON_FOREACH(json_get(part->tree, "dependsOn"), entry) {
        const struct jobset_part *other = part_named(set, json_str(json_get(entry, "name")));
        bool complete = str_is(json_str(json_get(entry, "status")), "Complete");

        if (!other || (complete ? other->succeeded < other->replicas : !has_started(other)))
            return false;
    }
    return true;
}
