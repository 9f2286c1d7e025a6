#include "control/kinds/jobset.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/place.h"
#include "api/ranks.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/memory.h"
#include "control/core/owner.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flow: read the set and its Jobs; decide about the end or a restart; then make, resume, suspend
 * and delete Jobs. The status is written first. */

/* ---- looking ---- */

static void read_parts(struct jobset *set)
{
    for (size_t n = 0; n < set->spec.part_count; n++) {
        const struct jobset_part_spec *spec = &set->spec.parts[n];
        struct jobset_part part = {.spec = spec,
                                   .name = spec->name,
                                   .replicas = spec->replicas,
                                   .global_first = set->total};

        if (part.replicas < 0 || part.replicas > JOBSET_JOBS_MAX - set->total)
            part.replicas = JOBSET_JOBS_MAX - set->total;
        set->total += part.replicas;
        for (size_t i = 0; i < set->parts.count; i++)
            if (str_eq(set->parts.items[i].spec->group, spec->group))
                part.group_first += set->parts.items[i].replicas;
        VEC_PUSH(set->arena, &set->parts, part);
    }
    for (size_t i = 0; i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.count; j++)
            if (str_eq(set->parts.items[i].spec->group, set->parts.items[j].spec->group))
                set->parts.items[i].group_replicas += set->parts.items[j].replicas;
}

/* ---- what is remembered ---- */

/* Counted, and all that a restart goes by. */
static const char *const counters[] = {"restarts", "restartsCountTowardsMax", NULL};
#define OWN_RESTARTS "individualJobRestarts"

static int64_t own_total(const struct json *books)
{
    int64_t sum = 0;

    JSON_FOREACH(json_get(books, OWN_RESTARTS), entry)
        sum += json_i64_or(json_get(entry, "restarts"), 0);
    return sum;
}

/* Restarts of the set that the memory knows of and the status does not; < 0: the other way round.
 */
static int64_t lead(const struct json *memory, const struct json *status)
{
    for (size_t i = 0; counters[i]; i++) {
        int64_t mine = json_i64_or(json_get(memory, counters[i]), 0);
        int64_t other = json_i64_or(json_get(status, counters[i]), 0);

        if (mine != other)
            return mine - other;
    }
    return 0;
}

/* Rounds that began, and those that are done: either number only grows. */
static int64_t rounds_total(const struct json *books)
{
    return json_i64_or(json_get(books, JOBSET_ROUND_PAST), -1) +
           json_i64_or(json_get(books, JOBSET_ROUND_DONE), 0) + 1;
}

static void copy_books(struct arena *arena, const struct json *from, struct json *to)
{
    static const char *const members[] = {"restarts", "restartsCountTowardsMax", OWN_RESTARTS,
                                          JOBSET_ROUND_PAST, JOBSET_ROUND_DONE};

    for (size_t i = 0; i < COUNT_OF(members); i++) {
        const struct json *value = json_get(from, members[i]);

        json_remove(to, str_from(members[i]));
        if (value)
            json_set(to, str_from(members[i]), json_clone(arena, value));
    }
}

static void recall(struct jobset *set)
{
    bool pruned = memory_lacks(set->before, counters);

    set->memory = memory_read(set->object, set->arena);
    set->suspect = json_count(set->before) && pruned;
    if (!set->memory)
        return;
    int64_t ahead = lead(set->memory, set->before);
    bool own_ahead = ahead == 0 && own_total(set->memory) > own_total(set->before);
    bool round_ahead = ahead == 0 && rounds_total(set->memory) > rounds_total(set->before);
    set->foreign = pruned || (own_ahead && !json_get(set->before, OWN_RESTARTS)) ||
                   (round_ahead && !json_get(set->before, JOBSET_ROUND_PAST));
    if (pruned || ahead > 0 || own_ahead || round_ahead)
        copy_books(set->arena, set->memory, set->status);
}

/* True: it changed. */
static bool remember(struct jobset *set, struct actions *actions)
{
    struct json *memory = json_new_object(set->arena);

    if (!set->memory && !set->suspect && !jobset_restarts(set) && !own_total(set->status) &&
        !rounds_total(set->status) &&
        !json_i64_or(json_get(set->status, "restartsCountTowardsMax"), 0))
        return false;
    copy_books(set->arena, set->status, memory);
    if (set->foreign)
        json_add_bool(set->arena, memory, MEMORY_FOREIGN, true);
    return memory_write(actions, set->object, set->memory, memory);
}

static void read_set(struct jobset *set)
{
    set->tree = object_json(set->object, set->arena);
    jobset_spec_read(json_get(set->tree, "spec"), set->arena, &set->spec);
    set->before = json_get(set->tree, "status");
    set->status = set->before ? json_clone(set->arena, set->before) : json_new_object(set->arena);
    set->suspended = set->spec.suspend;
    recall(set);
    read_parts(set);
    jobset_place_read(set);
}

static struct jobset_part *part_of(struct jobset *set, const struct object *job)
{
    struct str name = object_label(job, JOBSET_REPLICATED_NAME);

    for (size_t i = 0; i < set->parts.count; i++)
        if (str_eq(set->parts.items[i].name, name))
            return &set->parts.items[i];
    return NULL;
}

static struct jobset_job read_job(struct jobset *set, const struct object *object)
{
    const struct json *tree = object_json(object, set->arena);
    const struct json *status = json_get(tree, "status");
    const struct json *failed = condition_find(status, "Failed");
    struct jobset_job job = {.object = object,
                             .tree = tree,
                             .complete = condition_is_true(status, "Complete"),
                             .failed = condition_is_true(status, "Failed"),
                             .suspended = json_bool_or(json_at(tree, "spec.suspend"), false),
                             .reason = json_str(json_get(failed, "reason")),
                             .message = json_str(json_get(failed, "message"))};

    (void)str_to_i64(object_label(object, JOBSET_JOB_INDEX), &job.index);
    (void)time_parse(json_str(json_get(failed, "lastTransitionTime")), &job.failed_ms);
    return job;
}

static void count_job(struct jobset_part *part, const struct jobset_job *job)
{
    const struct json *status = json_get(job->tree, "status");
    int64_t parallelism = json_i64_or(json_at(job->tree, "spec.parallelism"), 1);
    int64_t needed = json_i64_or(json_at(job->tree, "spec.completions"), parallelism);

    if (needed > parallelism)
        needed = parallelism;
    part->succeeded += job->complete;
    part->failed += job->failed;
    part->suspended += job->suspended;
    part->active += json_i64_or(json_get(status, "active"), 0) > 0;
    part->ready +=
        !job->complete && !job->failed && !job->suspended &&
        json_i64_or(json_get(status, "ready"), 0) + json_i64_or(json_get(status, "succeeded"), 0) >=
            needed;
}

static void observe(struct jobset *set)
{
    const struct object *object = NULL;
    size_t cursor = 0;

    while ((object = cache_next_owned(set->input->cache, &kind_job, set->object->uid, &cursor))) {
        struct jobset_part *part = part_of(set, object);
        int64_t attempt = 0;
        int64_t own = 0;

        (void)str_to_i64(object_label(object, JOBSET_ATTEMPT), &attempt);
        (void)str_to_i64(object_annotation(object, JOBSET_OWN_ATTEMPT), &own);
        struct jobset_job job = read_job(set, object);
        if (!part || job.index >= part->replicas || object->deleted_ms ||
            attempt < jobset_restarts(set) || own < jobset_own_restarts(set, object->name)) {
            VEC_PUSH(set->arena, &set->stale, object);
            continue;
        }
        count_job(part, &job);
        VEC_PUSH(set->arena, &part->jobs, job);
    }
    jobset_place_observe(set);
}

/* After a restart was counted every Job that counted so far is of the past. */
static void observe_again(struct jobset *set)
{
    set->stale.count = 0;
    for (size_t i = 0; i < set->parts.count; i++) {
        struct jobset_part *part = &set->parts.items[i];

        part->jobs.count = 0;
        part->ready = part->succeeded = part->failed = part->active = part->suspended = 0;
    }
    observe(set);
}

/* ---- status ---- */

static void write_parts(struct jobset *set)
{
    struct arena *arena = set->arena;
    struct json *list = json_add_array(arena, set->status, "replicatedJobsStatus");

    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        json_push(list,
                  json_make(arena,
                            "{name: $, ready: $, succeeded: $, failed: $, active: $, suspended: $}",
                            part->name, part->ready, part->succeeded, part->failed, part->active,
                            part->suspended));
    }
    json_add_i64(arena, set->status, "restarts", jobset_restarts(set));
    json_add_i64(arena, set->status, "restartsCountTowardsMax",
                 json_i64_or(json_get(set->status, "restartsCountTowardsMax"), 0));
}

static void say(struct jobset *set,
                const char *type,
                bool truth,
                const char *reason,
                struct str words)
{
    condition_set(set->arena, set->status,
                  &(struct condition){type, truth ? "True" : "False", reason, words},
                  set->input->now_ms);
}

static void write_suspension(struct jobset *set)
{
    bool was = condition_is_true(set->before, "Suspended");

    if (set->suspended && !was) {
        say(set, "Suspended", true, "SuspendedJobs", STR("the jobset is suspended"));
        action_event(set->actions, set->object, "SuspendedJobs", STR("the jobset is suspended"));
    } else if (!set->suspended && was) {
        say(set, "Suspended", false, "ResumeJobs", STR("the jobset is resumed"));
        action_event(set->actions, set->object, "ResumeJobs", STR("the jobset is resumed"));
    }
}

static void write_progress(struct jobset *set)
{
    bool removing = set->stale.count > 0 && jobset_restarts(set) > 0;
    size_t started = 0;

    if (removing)
        say(set, "RestartingJobSet", true, "RemovingJobs",
            str_printf(set->arena, "%zu jobs of the last attempt are not gone yet",
                       set->stale.count));
    else if (condition_is_true(set->status, "RestartingJobSet") && !jobset_is_moving(set))
        say(set, "RestartingJobSet", false, "JobsCreated", STR("all jobs belong to this attempt"));
    if (!jobset_in_order(set) || set->suspended)
        return;
    for (size_t i = 0; i < set->parts.count; i++) {
        const struct jobset_part *part = &set->parts.items[i];

        started += part->ready + part->succeeded + part->failed >= part->replicas;
    }
    bool all = started == set->parts.count;
    say(set, "StartupPolicyInProgress", !all, "InOrderStartupPolicyInProgress",
        str_printf(set->arena, "%zu of %zu replicated jobs have started", started,
                   set->parts.count));
    if (all)
        say(set, "StartupPolicyCompleted", true, "InOrderStartupPolicyCompleted",
            STR("all replicated jobs have started"));
}

/* What is refused to the set, or to one of its Jobs. */
static void write_refusal(struct jobset *set)
{
    struct str words = set->suspended ? STR_NONE : set->input->refusal;

    for (size_t i = 0; !words.len && i < set->parts.count; i++)
        for (size_t j = 0; !words.len && j < set->parts.items[i].jobs.count; j++) {
            const struct jobset_job *job = &set->parts.items[i].jobs.items[j];
            const struct json *failure =
                condition_find(json_get(job->tree, "status"), "ReplicaFailure");

            if (failure && !job->suspended)
                words =
                    str_printf(set->arena, "job " STR_FMT ": " STR_FMT, STR_ARG(job->object->name),
                               STR_ARG(json_str(json_get(failure, "message"))));
        }
    refusal_write(set->arena, set->status, words, set->input->now_ms);
}

/* ---- Jobs ---- */

static bool is_over(const struct json *status)
{
    return condition_is_true(status, "Completed") || condition_is_true(status, "Failed");
}

static void delete_jobs(struct jobset *set)
{
    for (size_t i = 0; i < set->stale.count; i++)
        if (!set->stale.items[i]->deleted_ms)
            action_delete_foreground(set->actions, set->stale.items[i]);
}

/* The fields that may have changed while the set was suspended. */
static void refresh_template(struct jobset *set,
                             const struct jobset_part *part,
                             const struct jobset_job *job,
                             struct json *patch)
{
    static const char *const maps[] = {"labels", "annotations"};
    static const char *const fields[] = {"nodeSelector", "tolerations", "schedulingGates"};
    const struct json *wanted = json_at(jobset_make_job(set, part, job->index), "spec.template");
    const struct json *there = json_at(job->tree, "spec.template");
    struct json *to = json_make_path(set->arena, patch, "spec.template");

    for (size_t i = 0; i < 2; i++)
        owner_merge_map(
            set->arena,
            json_make_path(set->arena, json_make_path(set->arena, to, "metadata"), maps[i]),
            json_get(json_get(wanted, "metadata"), maps[i]));
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        const struct json *now = json_get(json_get(wanted, "spec"), fields[i]);

        if (json_equal(now, json_get(json_get(there, "spec"), fields[i])))
            continue;
        json_set(json_make_path(set->arena, to, "spec"), str_from(fields[i]),
                 now ? json_clone(set->arena, now) : json_new_null(set->arena));
    }
}

static void suspend_or_resume(struct jobset *set,
                              const struct jobset_part *part,
                              const struct jobset_job *job)
{
    struct json *patch = json_new_object(set->arena);

    if (job->complete || job->failed || job->suspended == set->suspended)
        return;
    json_add_bool(set->arena, json_make_path(set->arena, patch, "spec"), "suspend", set->suspended);
    if (!set->suspended)
        refresh_template(set, part, job, patch);
    action_patch(set->actions, job->object, patch);
}

static void say_taken(struct jobset *set, struct str name)
{
    const struct json *told = condition_find(set->before, "ReplicaFailure");
    struct str words = str_printf(set->arena,
                                  "a job " STR_FMT " already exists and does not belong to this "
                                  "jobset; delete or rename one of them",
                                  STR_ARG(name));

    if (!str_eq(json_str(json_get(told, "message")), words))
        action_warn(set->actions, set->object, "JobCreationFailed", words);
    refusal_write(set->arena, set->status, words, set->input->now_ms);
}

static void keep_part(struct jobset *set, const struct jobset_part *part)
{
    const struct object *set_object = set->object;
    bool *there = ARENA_ARRAY(set->arena, bool, (size_t)part->replicas + 1);

    for (size_t i = 0; i < part->jobs.count; i++) {
        const struct jobset_job *job = &part->jobs.items[i];

        if (job->index >= 0)
            there[job->index] = true;
        suspend_or_resume(set, part, job);
    }
    for (int64_t i = 0; i < part->replicas; i++) {
        struct str name = jobset_job_name(set, part, i);
        const struct object *other = NULL;

        if (there[i])
            continue;
        other = cache_get(set->input->cache, &kind_job, set_object->ns, name);
        if (!other)
            action_create(set->actions, &kind_job, jobset_make_job(set, part, i));
        else if (!object_controller(other) ||
                 !str_eq(object_controller(other)->uid, set_object->uid))
            say_taken(set, name);
    }
}

static void keep_jobs(struct jobset *set)
{
    struct json *service = jobset_make_service(set);

    delete_jobs(set);
    if (service &&
        !cache_get(set->input->cache, &kind_service, set->object->ns, jobset_subdomain(set)))
        action_create(set->actions, &kind_service, service);
    jobset_make_claims(set);
    if (set->stale.count && set->spec.strategy != JOBSET_RECREATE)
        return;
    for (size_t i = 0; i < set->parts.count; i++)
        if (jobset_may_start(set, &set->parts.items[i]))
            keep_part(set, &set->parts.items[i]);
}

/* The set is over: what still runs ends, what has ended stays until the set goes. */
static void clean_up(struct jobset *set)
{
    bool well = condition_is_true(set->status, "Completed");
    const struct json *end = condition_find(set->status, well ? "Completed" : "Failed");
    int64_t seconds = set->spec.ttl_s;
    int64_t ended_ms = 0;

    delete_jobs(set);
    for (size_t i = 0; i < set->parts.count; i++)
        for (size_t j = 0; j < set->parts.items[i].jobs.count; j++) {
            const struct jobset_job *job = &set->parts.items[i].jobs.items[j];

            if (!job->complete && !job->failed && (well || !jobset_let_go(set, job)))
                action_delete_foreground(set->actions, job->object);
        }
    if (seconds < 0 || !time_parse(json_str(json_get(end, "lastTransitionTime")), &ended_ms))
        return;
    if (set->input->now_ms >= ended_ms + seconds * 1000)
        action_delete_foreground(set->actions, set->object);
    else
        action_look_again(set->actions, ended_ms + seconds * 1000);
}

/* Memory and status, beside each other; see control/core/memory.h. */
static void write_state(struct jobset *set, struct actions *actions)
{
    bool moved = remember(set, actions);
    struct json *patch = memory_diff(set->arena, set->before, set->status, set->foreign && !moved);

    if (patch) {
        struct json *body = json_new_object(set->arena);

        json_set(body, STR("status"), patch);
        action_patch_status(actions, set->object, body);
        actions->list.items[actions->list.count - 1].beside = moved;
    }
    if (set->foreign && !json_get(set->memory, MEMORY_FOREIGN))
        memory_tell(actions, set->object);
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    struct actions later = {.arena = actions->arena};
    struct jobset set = {.input = input,
                         .arena = actions->arena,
                         .actions = &later,
                         .object = cache_get(input->cache, &kind_jobset, key->ns, key->name)};

    if (!set.object || set.object->deleted_ms)
        return;
    /* Strings of the object go into what is written later, when the cache may have a newer one. */
    arena_defer(set.arena, object_release, object_ref(set.object));
    read_set(&set);
    struct str manager = set.spec.manager;
    if (manager.len && !str_is(manager, JOBSET_MANAGER))
        return;
    observe(&set);
    if (!is_over(set.status)) {
        jobset_place_blame(&set);
        if (jobset_attempts(&set) || jobset_judge_failures(&set) || jobset_watch(&set))
            observe_again(&set);
        else if (jobset_has_succeeded(&set))
            jobset_finish(&set, true, "AllJobsCompleted", STR("jobset completed successfully"));
    }
    if (is_over(set.status)) {
        clean_up(&set);
    } else {
        write_suspension(&set);
        jobset_place_step(&set);
        write_progress(&set);
        write_refusal(&set);
        keep_jobs(&set);
        jobset_end_hung(&set);
    }
    if (set.unstayed.len && !json_count(set.before))
        action_warn(set.actions, set.object, "Ignored", set.unstayed);
    jobset_hold(&set, is_over(set.status));
    write_parts(&set);

    write_state(&set, actions);
    for (size_t i = 0; i < later.list.count; i++)
        VEC_PUSH(actions->arena, &actions->list, later.list.items[i]);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);

    (void)cache;
    if (object->kind == &kind_jobset)
        control_keys_add(ret, object->ns, object->name);
    else if (object->kind == &kind_pod && (object_annotation(object, PLACE_ANNOTATION).len ||
                                           object_annotation(object, JOBSET_POD_ATTEMPT).len ||
                                           object_annotation(object, RANKS_ANNOTATION).len))
        control_keys_add(ret, object->ns, object_label(object, JOBSET_NAME));
    else if (owner && str_is(owner->kind, kind_jobset.name) &&
             str_is(owner->api_version, "jobset.x-k8s.io/v1alpha2"))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_jobset, &kind_job,  &kind_service, &kind_pvc,
                                             &kind_pod,    &kind_node, NULL};

const struct controller jobset_controller = {.name = "jobset",
                                             .kind = &kind_jobset,
                                             .refused = "JobCreationFailed",
                                             .watches = watches,
                                             .keys = keys,
                                             .reconcile = reconcile};
