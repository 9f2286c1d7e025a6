#include "api/cron.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/zone.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/owner.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* CronJob: a Job at each moment of the schedule. The name of a Job says the moment, so that one is
 * made once, whenever we die. Of moments that were missed the last one counts. */

#define SCHEDULED  "batch.kubernetes.io/cronjob-scheduled-timestamp"
#define MISSED_MAX 100 /* more are said to be too many */
#define KEEP_GOOD  3
#define KEEP_BAD   1
#define MINUTE_MS  60000
#define TIME_NONE  0

struct cron_run {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *owner;
    const struct json *spec;
    const struct json *before;
    struct json *status;
    struct cron cron;
    struct zone zone;
    VEC(const struct object *) active;
    VEC(const struct object *) good;
    VEC(const struct object *) bad;
};

/* ---- looking ---- */

static void read_jobs(struct cron_run *c)
{
    const struct object *job = NULL;
    size_t cursor = 0;
    int64_t last = 0;

    (void)time_parse(json_str(json_get(c->before, "lastSuccessfulTime")), &last);
    while ((job = cache_next_owned(c->input->cache, &kind_job, c->owner->uid, &cursor))) {
        const struct json *status = json_get(object_json(job, c->arena), "status");
        int64_t ended = 0;

        if (condition_is_true(status, "Complete")) {
            VEC_PUSH(c->arena, &c->good, job);
            if (time_parse(json_str(json_get(status, "completionTime")), &ended) && ended > last)
                last = ended;
        } else if (condition_is_true(status, "Failed")) {
            VEC_PUSH(c->arena, &c->bad, job);
        } else {
            VEC_PUSH(c->arena, &c->active, job);
        }
    }
    if (last)
        json_add_str(c->arena, c->status, "lastSuccessfulTime", time_text(c->arena, last));
}

/* The last moment up to now and behind `since`; TIME_NONE: there is none. */
static int64_t last_due(const struct cron_run *c, int64_t since)
{
    int64_t now = c->input->now_ms;
    int64_t from = since;
    int64_t found = TIME_NONE;
    int64_t at = 0;

    /* Backwards in growing steps, not forwards through all that was missed. */
    for (int64_t back = MINUTE_MS; now - back > since; back *= 2) {
        at = cron_next(&c->cron, now - back, &c->zone);
        if (c->cron.every_ms)
            break; /* counted from where it began */
        if (at && at <= now) {
            from = now - back;
            break;
        }
    }
    for (at = cron_next(&c->cron, from, &c->zone); at && at <= now;
         at = cron_next(&c->cron, at, &c->zone))
        found = at;
    return found;
}

static int64_t count_missed(const struct cron_run *c, int64_t since)
{
    int64_t count = 0;

    for (int64_t at = cron_next(&c->cron, since, &c->zone);
         at && at <= c->input->now_ms && count <= MISSED_MAX;
         at = cron_next(&c->cron, at, &c->zone))
        count++;
    return count;
}

/* ---- Jobs ---- */

static struct str job_name(const struct cron_run *c, int64_t at_ms)
{
    return str_printf(c->arena, STR_FMT "-%lld", STR_ARG(c->owner->name),
                      (long long)(c->cron.every_ms ? at_ms / 1000 : at_ms / MINUTE_MS));
}

/* By the clocks of spec.timeZone: 2026-11-16T11:00:00+01:00. */
static struct str local_text(const struct cron_run *c, int64_t at_ms)
{
    int64_t minutes = zone_offset_ms(&c->zone, at_ms) / MINUTE_MS;
    struct str text = time_text(c->arena, at_ms + minutes * MINUTE_MS);

    if (!minutes)
        return text;
    return str_printf(c->arena, STR_FMT "%c%02lld:%02lld", STR_ARG(str_sub(text, 0, text.len - 1)),
                      minutes < 0 ? '-' : '+', llabs(minutes / 60), llabs(minutes % 60));
}

static void make_job(struct cron_run *c, int64_t at_ms)
{
    const struct json *template = json_get(c->spec, "jobTemplate");
    struct str name = job_name(c, at_ms);
    struct json *body = owner_make(c->arena, c->owner, &kind_job, name);
    struct json *meta = json_get(body, "metadata");
    struct json *annotations = json_add_object(c->arena, meta, "annotations");

    owner_merge_map(c->arena, annotations, json_at(template, "metadata.annotations"));
    json_add_str(c->arena, annotations, SCHEDULED, local_text(c, at_ms));
    owner_merge_map(c->arena, json_add_object(c->arena, meta, "labels"),
                    json_at(template, "metadata.labels"));
    json_set(body, STR("spec"), json_clone(c->arena, json_get(template, "spec")));
    action_create(c->actions, &kind_job, body);
    action_event(c->actions, c->owner, "SuccessfulCreate",
                 str_printf(c->arena, "Created job " STR_FMT, STR_ARG(name)));
}

/* Finished Jobs beyond how many are kept, the oldest first. */
static void forget(struct cron_run *c, const struct object **jobs, size_t count, int64_t keep)
{
    for (int64_t extra = (int64_t)count - keep; extra > 0; extra--) {
        size_t oldest = 0;

        for (size_t i = 1; i < count; i++)
            if (jobs[i]->created_ms < jobs[oldest]->created_ms)
                oldest = i;
        action_delete(c->actions, jobs[oldest]);
        for (size_t i = oldest; i + 1 < count; i++)
            jobs[i] = jobs[i + 1];
        count--;
    }
}

/* True: a Job of this moment may be made. */
static bool make_room(struct cron_run *c)
{
    struct str policy = json_str(json_get(c->spec, "concurrencyPolicy"));

    if (str_is(policy, "Forbid") && c->active.count) {
        action_event(c->actions, c->owner, "JobAlreadyActive",
                     STR("Not starting job because prior execution is running and concurrency "
                         "policy is Forbid"));
        return false;
    }
    for (size_t i = 0; str_is(policy, "Replace") && i < c->active.count; i++) {
        action_delete(c->actions, c->active.items[i]);
        action_event(
            c->actions, c->owner, "SuccessfulDelete",
            str_printf(c->arena, "Deleted job " STR_FMT, STR_ARG(c->active.items[i]->name)));
    }
    return true;
}

static void schedule(struct cron_run *c)
{
    const struct json *deadline = json_get(c->spec, "startingDeadlineSeconds");
    int64_t since = c->owner->created_ms;
    int64_t now = c->input->now_ms;

    (void)time_parse(json_str(json_get(c->before, "lastScheduleTime")), &since);
    if (deadline && now - json_i64_or(deadline, 0) * 1000 > since)
        since = now - json_i64_or(deadline, 0) * 1000;
    int64_t due = since <= now ? last_due(c, since) : TIME_NONE;
    int64_t next = cron_next(&c->cron, due && c->cron.every_ms ? due : now, &c->zone);
    if (next)
        action_look_again(c->actions, next);
    else
        action_warn(c->actions, c->owner, "InvalidSchedule",
                    str_printf(c->arena,
                               "spec.schedule: \"" STR_FMT
                               "\" names no day that comes within five years; change it",
                               STR_ARG(json_str(json_get(c->spec, "schedule")))));
    if (!due || cache_get(c->input->cache, &kind_job, c->owner->ns, job_name(c, due)))
        return;
    if (count_missed(c, since) > MISSED_MAX)
        action_warn(c->actions, c->owner, "TooManyMissedTimes",
                    STR("too many missed start times; only the last one is made up for. Set or "
                        "decrease .spec.startingDeadlineSeconds or check the clock"));
    if (!make_room(c))
        return;
    make_job(c, due);
    json_add_str(c->arena, c->status, "lastScheduleTime", time_text(c->arena, due));
}

/* ---- the controller ---- */

/* False: nobody here knows the place, which was said. */
static bool read_zone(struct cron_run *c, struct str name)
{
    const struct control_config *config = c->input->config;
    struct str bytes = STR_NONE;

    c->zone = zone_fixed(0);
    if (!name.len || str_is(name, "UTC") || str_is(name, "Etc/UTC"))
        return true;
    if (config && config->zone && config->zone(c->arena, name, &bytes) &&
        zone_read(bytes, &c->zone))
        return true;
    action_warn(c->actions, c->owner, "UnknownTimeZone",
                str_printf(c->arena,
                           "spec.timeZone: this machine has no time zone \"" STR_FMT
                           "\"; no job is started until it has (package tzdata)",
                           STR_ARG(name)));
    return false;
}

static void write_active(struct cron_run *c)
{
    json_remove(c->status, STR("active"));
    for (size_t i = 0; i < c->active.count; i++) {
        const struct object *job = c->active.items[i];
        struct json *list = json_get(c->status, "active");
        struct json *entry = json_new_object(c->arena);

        if (!list)
            list = json_add_array(c->arena, c->status, "active");
        json_fill(c->arena, entry,
                  "{kind: 'Job', apiVersion: 'batch/v1', namespace: $, name: $, uid: $}", job->ns,
                  job->name, job->uid);
        json_push(list, entry);
    }
}

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    const struct object *owner = cache_get(input->cache, &kind_cronjob, key->ns, key->name);
    struct cron_run c = {
        .input = input, .arena = actions->arena, .actions = actions, .owner = owner};

    if (!owner || owner->deleted_ms)
        return;
    const struct json *tree = object_json(owner, c.arena);
    c.spec = json_get(tree, "spec");
    c.before = json_get(tree, "status");
    c.status = c.before ? json_clone(c.arena, c.before) : json_new_object(c.arena);
    bool known = cron_parse(json_str(json_get(c.spec, "schedule")), &c.cron, NULL) == 0 &&
                 read_zone(&c, json_str(json_get(c.spec, "timeZone")));
    read_jobs(&c);
    write_active(&c);
    if (known && !json_bool_or(json_get(c.spec, "suspend"), false))
        schedule(&c);
    forget(&c, c.good.items, c.good.count,
           json_i64_or(json_get(c.spec, "successfulJobsHistoryLimit"), KEEP_GOOD));
    forget(&c, c.bad.items, c.bad.count,
           json_i64_or(json_get(c.spec, "failedJobsHistoryLimit"), KEEP_BAD));
    struct json *patch = merge_diff(c.arena, c.before, c.status);
    if (!patch)
        return;
    struct json *body = json_new_object(c.arena);
    json_set(body, STR("status"), patch);
    action_patch_status(c.actions, owner, body);
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    const struct object_owner *owner = object_controller(object);

    (void)cache;
    if (object->kind == &kind_cronjob)
        control_keys_add(ret, object->ns, object->name);
    else if (owner && str_is(owner->kind, kind_cronjob.name))
        control_keys_add(ret, object->ns, owner->name);
}

static const struct kind *const watches[] = {&kind_cronjob, &kind_job, NULL};

const struct controller cronjob_controller = {.name = "cronjob",
                                              .kind = &kind_cronjob,
                                              .embedded = true,
                                              .watches = watches,
                                              .keys = keys,
                                              .reconcile = reconcile};
