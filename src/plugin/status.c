#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "tool/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* status, explain, queues: how things stand, in words. */
#define EVENTS_SHOWN 10

struct status_values {
    struct common_values common;
    int output;
};

static const struct option status_options[] = {
    COMMON_OPTIONS,
    {"output", 'o', OPTION_CHOICE, offsetof(struct status_values, output), .fallback = "table",
     .choices = output_names, .help = "table, wide, json, yaml or name", .flag_only = true},
    {0},
};

static void status_add_line(struct buf *text, const char *name, struct str value)
{
    if (value.len)
        buf_addf(text, "%-12s " STR_FMT "\n", name, STR_ARG(value));
}

static struct str number(struct arena *arena, const struct json *value)
{
    int64_t n;

    return json_i64(value, &n) ? str_printf(arena, "%lld", (long long)n) : STR("");
}

static const struct object **job_pods(struct session *session,
                                      const char *job,
                                      size_t *ret_count,
                                      struct err *err)
{
    const struct object **pods = NULL;

    *ret_count = 0;
    if (session_list(session, &kind_pod, session->config.ns,
                     str_printf(&session->arena, "torchrun-job-name=%s", job).p, &pods, ret_count,
                     err) < 0)
        return NULL;
    return pods;
}

static void status_add_pods(struct session *session, const char *job, struct buf *text)
{
    struct view_objects pods = {0};

    pods.items = job_pods(session, job, &pods.count, NULL);
    view_pods(text, &session->arena, pods);
}

static void status_text(struct session *session, const struct object *job, struct buf *text)
{
    struct arena *arena = &session->arena;
    struct json *tree = object_json(job, arena);
    struct json *status = json_get(tree, "status");
    struct str phase = json_str(json_get(status, "phase"));
    struct json *failure = json_get(status, "failure");

    status_add_line(text, "Job:", job->name);
    status_add_line(text, "Namespace:", job->ns);
    status_add_line(text, "Queue:", job_queue(tree));
    status_add_line(text, "Phase:", phase.len ? phase : STR("Pending"));
    status_add_line(text, "Message:", json_str(json_get(status, "message")));
    status_add_line(text, "Command:", json_str_at(tree, "spec.command"));
    status_add_line(text, "GPUs:", number(arena, json_get(status, "numGPUs")));
    status_add_line(text, "Pods:", number(arena, json_get(status, "numNodes")));
    status_add_line(text, "Workers:", json_str(json_get(status, "workersStatus")));
    status_add_line(text, "Restarts:", number(arena, json_get(status, "restarts")));
    status_add_line(text, "Workspace:", object_annotation(job, JOB_REVISION));
    status_add_line(text, "Started:", json_str(json_get(status, "startTime")));
    status_add_line(text, "Completed:", json_str(json_get(status, "completionTime")));
    if (failure) {
        status_add_line(text, "Failed pod:", json_str(json_get(failure, "pod")));
        status_add_line(text, "Exit code:", number(arena, json_get(failure, "exitCode")));
        status_add_line(text, "Failure:", json_str(json_get(failure, "message")));
    }
}

static int status_run(struct invocation *invocation)
{
    const struct status_values *v = invocation->values;
    _cleanup_(object_unrefp) struct object *job = NULL;
    _cleanup_(buf_done) struct buf text = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = session_get(&session, &kind_torchrunjob, job_arg(invocation->args[0]), &job, &err);
    if (r < 0) {
        r = session_fail(&session, &err);
    } else if (v->output > OUTPUT_WIDE) {
        print_objects(&session, v->output, (const struct object *[]){job}, 1);
    } else {
        status_text(&session, job, &text);
        status_add_pods(&session, job_arg(invocation->args[0]), &text);
        term_write(&session.out, buf_str(&text));
    }
    session_close(&session);
    return r;
}

const struct command command_status = {
    .name = "status",
    .summary = "show one job in detail",
    .usage = "JOB",
    .options = status_options,
    .values_size = sizeof(struct status_values),
    .args_min = 1,
    .args_max = 1,
    .run = status_run,
};

/* ---- explain ---- */

/* The gang's own words: its pod group says what it waits for. */
static void explain_add_group(struct session *session, const struct object *job, struct buf *text)
{
    const struct object **groups;
    size_t count;

    if (session_list(session, &kind_podgroup, session->config.ns, NULL, &groups, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        const struct object_owner *owner = object_controller(groups[i]);
        struct json *tree = object_json(groups[i], &session->arena);

        if (!(owner && str_eq(owner->uid, job->uid)) && !str_contains(groups[i]->name, job->uid))
            continue;
        status_add_line(text, "Gang:", groups[i]->name);
        status_add_line(text, "Needs:",
                        str_printf(&session->arena, "%lld pods at once",
                                   (long long)json_i64_or(json_at(tree, "spec.minMember"), 1)));
        status_add_line(text, "Waits for:", json_str_at(tree, "status.message"));
        JSON_FOREACH(json_at(tree, "status.schedulingConditions"), condition)
            status_add_line(text, "Scheduler:", json_str(json_get(condition, "message")));
    }
}

/* Later changes have larger numbers; names and times say less. */
static int by_version(const void *a, const void *b)
{
    const struct object *const *x = a;
    const struct object *const *y = b;

    return ((*x)->revision > (*y)->revision) - ((*x)->revision < (*y)->revision);
}

static void explain_add_events(struct session *session, const struct object *job, struct buf *text)
{
    const struct object **events;
    size_t count;
    size_t shown = 0;

    if (session_list(session, &kind_event, session->config.ns, NULL, &events, &count, NULL) < 0)
        return;
    if (count)
        qsort(events, count, sizeof(events[0]), by_version);
    for (size_t i = count; i-- > 0 && shown < EVENTS_SHOWN;) {
        struct json *tree = object_json(events[i], &session->arena);
        struct str about = json_str_at(tree, "involvedObject.name");

        if (!str_starts(about, job->name))
            continue;
        if (shown++ == 0)
            buf_add(text, STR("\nEvents, newest first:\n"));
        buf_addf(text, "  " STR_FMT "  " STR_FMT ": " STR_FMT "\n", STR_ARG(about),
                 STR_ARG(json_str(json_get(tree, "reason"))),
                 STR_ARG(json_str(json_get(tree, "message"))));
    }
}

static int explain_run(struct invocation *invocation)
{
    _cleanup_(object_unrefp) struct object *job = NULL;
    _cleanup_(buf_done) struct buf text = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = session_get(&session, &kind_torchrunjob, job_arg(invocation->args[0]), &job, &err);
    if (r == 0) {
        struct json *tree = object_json(job, &session.arena);
        struct str phase = json_str_at(tree, "status.phase");

        status_add_line(&text, "Job:", job->name);
        status_add_line(&text, "Phase:", phase.len ? phase : STR("Pending"));
        status_add_line(&text, "Because:", json_str_at(tree, "status.message"));
        explain_add_group(&session, job, &text);
        status_add_pods(&session, job_arg(invocation->args[0]), &text);
        explain_add_events(&session, job, &text);
        term_write(&session.out, buf_str(&text));
    } else {
        r = session_fail(&session, &err);
    }
    session_close(&session);
    return r;
}

static const struct option explain_options[] = {
    COMMON_OPTIONS,
    {0},
};

const struct command command_explain = {
    .name = "explain",
    .summary = "explain what a job waits for, and why",
    .usage = "JOB",
    .options = explain_options,
    .values_size = sizeof(struct common_values),
    .args_min = 1,
    .args_max = 1,
    .run = explain_run,
};

/* ---- queues ---- */

static int queues_table(struct session *session,
                        struct view_objects queues,
                        struct buf *text,
                        struct err *err)
{
    struct view_objects jobs = {0};
    int r = session_list(session, &kind_torchrunjob, session->config.ns, NULL, &jobs.items,
                         &jobs.count, err);

    if (r == 0)
        view_queues(text, &session->arena, queues, jobs, clock_now_ms());
    return r;
}

static int queues_run(struct invocation *invocation)
{
    const struct status_values *v = invocation->values;
    _cleanup_(buf_done) struct buf text = {0};
    const struct object **queues = NULL;
    struct session session;
    struct err err = {0};
    size_t count = 0;
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = session_list(&session, &kind_torchrunqueue, session.config.ns, NULL, &queues, &count,
                         &err);
    if (r == 0 && count && v->output <= OUTPUT_WIDE)
        r = queues_table(&session, (struct view_objects){queues, count}, &text, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    else if (v->output > OUTPUT_WIDE)
        print_objects(&session, v->output, queues, count);
    else if (count == 0)
        session_say(&session, "no queues in namespace %s", session.config.ns);
    else
        term_write(&session.out, buf_str(&text));
    session_close(&session);
    return r;
}

const struct command command_queues = {
    .name = "queues",
    .summary = "show the queues and what runs in them",
    .options = status_options,
    .values_size = sizeof(struct status_values),
    .run = queues_run,
};
