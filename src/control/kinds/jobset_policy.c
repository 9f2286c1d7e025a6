#include "api/object.h"
#include "api/regex.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/memory.h"
#include "control/core/status.h"
#include "control/job/job.h"
#include "control/kinds/jobset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When a JobSet has succeeded or failed, what a failed Job leads to, and who starts when. */

static bool is_listed(const struct str *list, size_t count, struct str text)
{
    for (size_t i = 0; i < count; i++)
        if (str_eq(list[i], text))
            return true;
    return false;
}

static bool is_target(const struct jobset_targets *targets, struct str part)
{
    return !targets->name_count || is_listed(targets->names, targets->name_count, part);
}

/* ---- success ---- */

bool jobset_has_succeeded(const struct jobset *set)
{
    int64_t wanted = 0;
    int64_t done = 0;

    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        if (!is_target(&set->spec.success_targets, part->name))
            continue;
        wanted += part->replicas;
        done += part->succeeded;
    }
    return set->spec.success == JOBSET_ANY ? done > 0 : wanted > 0 && done >= wanted;
}

void jobset_finish(struct jobset *set, bool well, const char *reason, struct str message)
{
    if (set->foreign)
        message = memory_note(set->arena, set->object, message);
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

static bool pattern_matches(struct jobset *set, const struct jobset_rule *rule, struct str message)
{
    for (size_t i = 0; i < rule->pattern_count; i++) {
        struct regex *regex = NULL;

        if (regex_compile(set->arena, rule->patterns[i], &regex, NULL) == 0 &&
            regex_matches(regex, message))
            return true;
    }
    return false;
}

static bool rule_matches(struct jobset *set,
                         const struct jobset_rule *rule,
                         const struct failed *failed)
{
    return is_target(&rule->targets, failed->part->name) &&
           (!rule->reason_count ||
            is_listed(rule->reasons, rule->reason_count, failed->job->reason)) &&
           (!rule->pattern_count || pattern_matches(set, rule, failed->job->message));
}

/* The earliest failure that matches the rule (every one does when there is none). */
static bool first_failed(struct jobset *set, const struct jobset_rule *rule, struct failed *ret)
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

bool jobset_may_restart(const struct jobset *set)
{
    bool free = false;

    for (size_t i = 0; i < set->spec.rule_count; i++)
        free = free ||
               set->spec.rules[i].action == JOBSET_RESTART_JOB_SET_AND_IGNORE_MAX_RESTARTS ||
               set->spec.rules[i].action == JOBSET_RESTART_JOB_AND_IGNORE_MAX_RESTARTS;
    return set->spec.may_fail && (free || counted(set) < set->spec.max_restarts);
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

/* All Jobs of the set are of the past from now on. */
static void remake(struct jobset *set)
{
    json_add_i64(set->arena, set->status, "restarts", jobset_restarts(set) + 1);
    json_remove(set->status, STR("individualJobRestarts"));
}

static void act(struct jobset *set, const struct jobset_rule *rule, const struct failed *failed)
{
    int action = rule->action;
    bool free = action == JOBSET_RESTART_JOB_SET_AND_IGNORE_MAX_RESTARTS ||
                action == JOBSET_RESTART_JOB_AND_IGNORE_MAX_RESTARTS;
    bool alone =
        action == JOBSET_RESTART_JOB || action == JOBSET_RESTART_JOB_AND_IGNORE_MAX_RESTARTS;
    struct str what = str_printf(set->arena, "job " STR_FMT " failed: " STR_FMT ": " STR_FMT,
                                 STR_ARG(failed->job->object->name), STR_ARG(failed->job->reason),
                                 STR_ARG(failed->job->message));

    if (rule->name.len)
        what = str_printf(set->arena, STR_FMT " (rule " STR_FMT ")", STR_ARG(what),
                          STR_ARG(rule->name));
    if (action == JOBSET_FAIL_JOB_SET) {
        jobset_finish(set, false, "FailJobSetFailurePolicyAction", what);
        return;
    }
    if (!free && counted(set) >= set->spec.max_restarts) {
        jobset_finish(set, false, "ReachedMaxRestarts",
                      str_printf(set->arena,
                                 "restarted %lld times, as often as maxRestarts allows; " STR_FMT,
                                 (long long)counted(set), STR_ARG(what)));
        return;
    }
    if (!free)
        json_add_i64(set->arena, set->status, "restartsCountTowardsMax", counted(set) + 1);
    if (alone) {
        restart_one(set, failed->job->object->name);
    } else if (failed->job->kept && jobset_can_stay(set)) {
        what =
            free ? str_printf(set->arena, STR_FMT "; restart, in place", STR_ARG(what))
                 : str_printf(set->arena, STR_FMT "; restart %lld of %lld, in place", STR_ARG(what),
                              (long long)counted(set), (long long)set->spec.max_restarts);
        jobset_stay(set);
    } else {
        remake(set);
    }
    action_warn(set->actions, set->object,
                alone ? "RestartJobFailurePolicyAction" : "RestartJobSetFailurePolicyAction", what);
}

bool jobset_restart_hung(struct jobset *set, struct jobset_job *job, struct str message)
{
    if (!set->spec.may_fail || counted(set) >= set->spec.max_restarts)
        return false;
    job->failed = job->kept = true; /* it has not: its pods still run */
    job->failed_ms = set->input->now_ms;
    job->reason = STR(JOB_REASON_HUNG);
    job->message = message;
    act(set, &(struct jobset_rule){.action = JOBSET_RESTART_JOB_SET}, &(struct failed){.job = job});
    return true;
}

bool jobset_judge_failures(struct jobset *set)
{
    struct failed failed = {0};

    if (jobset_is_stuck(set)) {
        jobset_give_up(set);
        remake(set);
        action_warn(set->actions, set->object, "RestartJobSetFailurePolicyAction",
                    STR("the pods did not restart in place within a minute; the jobs are made "
                        "again"));
        return true;
    }
    if (!first_failed(set, NULL, &failed))
        return false;
    if (!set->spec.may_fail) {
        jobset_finish(set, false, "FailedJobs",
                      str_printf(set->arena, "job " STR_FMT " failed: " STR_FMT ": " STR_FMT,
                                 STR_ARG(failed.job->object->name), STR_ARG(failed.job->reason),
                                 STR_ARG(failed.job->message)));
        return true;
    }
    for (size_t i = 0; i < set->spec.rule_count; i++) {
        const struct jobset_rule *rule = &set->spec.rules[i];
        struct failed match = {0};

        if (!first_failed(set, rule, &match))
            continue;
        act(set, rule, &match);
        return true;
    }
    act(set, &(struct jobset_rule){.action = JOBSET_RESTART_JOB_SET}, &failed);
    return true;
}

/* ---- order ---- */

bool jobset_in_order(const struct jobset *set)
{
    return set->spec.order == JOBSET_IN_ORDER;
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
    for (size_t i = 0; i < part->spec->depend_count; i++) {
        const struct jobset_depend *depend = &part->spec->depends[i];
        const struct jobset_part *other = part_named(set, depend->name);
        bool complete = depend->status == JOBSET_COMPLETE;

        if (!other || (complete ? other->succeeded < other->replicas : !has_started(other)))
            return false;
    }
    return true;
}
