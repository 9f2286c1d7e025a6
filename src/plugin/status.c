#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/array.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/report.h"
#include "plugin/spent.h"
#include "plugin/view.h"
#include "plugin/watch.h"
#include "tool/clock.h"
#include "tool/term.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* status: how a job stands, in words. */

struct status_values {
    struct common_values common;
    int output;
    bool watch;
    const char *job;
};

static const struct option status_options[] = {
    COMMON_OPTIONS,
    {"output", 'o', OPTION_CHOICE, offsetof(struct status_values, output), .fallback = "table",
     .choices = output_names, .help = "table, wide, json, yaml or name", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct status_values, watch),
     .help = "go on, and print it again when it changes", .flag_only = true},
    {0},
};

static struct str number(struct arena *arena, const struct json *value)
{
    int64_t n;

    return json_i64(value, &n) ? str_printf(arena, "%lld", (long long)n) : STR("");
}

static struct str restarts(struct arena *arena, const struct json *status)
{
    struct str all = number(arena, json_get(status, "restarts"));
    int64_t stayed = json_i64_or(json_get(status, "restartsInPlace"), 0);

    return stayed ? str_printf(arena, STR_FMT " (%lld in place)", STR_ARG(all), (long long)stayed)
                  : all;
}

static uint64_t status_seen(struct view_objects objects)
{
    uint64_t seen = 0;

    assert(objects.items || !objects.count);
    for (size_t i = 0; i < objects.count; i++)
        seen += objects.items[i]->revision + 1;
    return seen;
}

static uint64_t status_add_pods(struct session *session, struct view_objects pods, struct buf *text)
{
    view_pods(text, &session->arena, pods, session->out.wraps_at);
    return status_seen(pods);
}

static uint64_t status_add_jobs(struct session *session, const char *array, struct buf *text)
{
    struct view_objects jobs = {0};

    if (array_jobs(session, array, &jobs.items, &jobs.count, NULL) < 0 || !jobs.count)
        return 0;
    buf_addc(text, '\n');
    view_jobs(
        text, &session->arena, jobs,
        &(struct view_jobs_options){.wraps_at = session->out.wraps_at, .now_ms = clock_now_ms()});
    return status_seen(jobs);
}

/* "prepare (Running)": how a job that this one waits for stands. */
static struct str status_after(struct session *session, const struct json *tree)
{
    struct str text = STR_NONE;

    JSON_FOREACH(json_at(tree, "spec.after"), entry) {
        _cleanup_(object_unrefp) struct object *job = NULL;
        const char *name = str_c(&session->arena, json_str(json_get(entry, "job")));
        bool there = session_get(session, &kind_torchrunjob, name, &job, NULL) == 0;
        struct str phase =
            there ? json_str_at(object_json(job, &session->arena), "status.phase") : STR("gone");

        text = str_printf(&session->arena, STR_FMT "%s%s (" STR_FMT ")", STR_ARG(text),
                          text.len ? ", " : "", name,
                          STR_ARG(str_dup(&session->arena, view_phase(phase))));
    }
    return text;
}

/* What cannot be listed is left out: the job's own words are there. */
void session_list_if(struct session *session,
                     const struct kind *kind,
                     const char *ns,
                     const char *selector,
                     struct view_objects *ret)
{
    if (session_list(session, kind, ns, selector, &ret->items, &ret->count, NULL) < 0)
        *ret = (struct view_objects){0};
}

/* "bert-worker-1 (rank 3, node-1)" */
static struct str failed_pod(struct arena *arena, struct json *failure)
{
    struct str pod = json_str(json_get(failure, "pod"));
    struct str node = json_str(json_get(failure, "node"));
    struct str rank = number(arena, json_get(failure, "rank"));

    if (!rank.len && !node.len)
        return pod;
    return str_printf(arena, STR_FMT " (%s" STR_FMT "%s" STR_FMT ")", STR_ARG(pod),
                      rank.len ? "rank " : "", STR_ARG(rank), rank.len && node.len ? ", " : "",
                      STR_ARG(node));
}

/* The account knows it of pods that are gone, where there is one. */
static struct str status_observed(struct session *session,
                                  struct view_objects pods,
                                  struct str phase,
                                  struct spent *spent)
{
    for (size_t i = 0; i < pods.count; i++)
        (void)spent_hear(spent, pods.items[i]);
    struct str words = spent_observed(&session->arena, spent);
    return words.len || !str_is(phase, "Running") ? words
                                                  : STR("not yet: no rank has told of itself");
}

static void status_text(struct session *session,
                        const struct object *job,
                        struct view_objects pods,
                        struct buf *text)
{
    struct arena *arena = &session->arena;
    struct json *tree = object_json(job, arena);
    struct json *status = json_get(tree, "status");
    struct str phase = json_str(json_get(status, "phase"));
    struct json *failure = json_get(status, "failure");
    struct view_objects groups = {0};
    struct spent spent;

    bool counted = report_of_job(session, job, &spent);
    if (!job_is_over(phase))
        session_list_if(session, &kind_podgroup, session->config.ns, NULL, &groups);
    view_line(text, "Job:", job->name);
    view_line(text, "Namespace:", job->ns);
    view_line(text, "Queue:", job_queue(tree));
    view_line(text, "Phase:", view_phase(phase));
    view_line(text, "Message:", term_moments(arena, json_str(json_get(status, "message"))));
    view_line(text, "After:", status_after(session, tree));
    view_line(text, "Estimate:", view_starts(arena, job, groups, clock_now_ms()));
    view_line(text, "Command:", json_str_at(tree, "spec.command"));
    view_line(text, "GPUs:", number(arena, json_get(status, "numGPUs")));
    view_line(text, "Pods:", number(arena, json_get(status, "numNodes")));
    view_line(text, "Workers:", json_str(json_get(status, "workersStatus")));
    view_line(text, "Restarts:", restarts(arena, status));
    view_line(text, "Workspace:", object_annotation(job, JOB_REVISION));
    view_line(text, "Started:", term_moment(arena, json_str(json_get(status, "startTime"))));
    view_line(text, "Completed:", term_moment(arena, json_str(json_get(status, "completionTime"))));
    view_line(text, "Observed:", status_observed(session, pods, phase, &spent));
    if (counted)
        view_line(text, "Time:", spent_words(arena, &spent, clock_now_ms()));
    if (failure) {
        view_line(text, "Failed pod:", failed_pod(arena, failure));
        view_line(text, "Exit code:", number(arena, json_get(failure, "exitCode")));
        view_line(text, "Failure:", term_moments(arena, json_str(json_get(failure, "message"))));
    }
}

static int status_draw(struct session *session,
                       void *user,
                       struct buf *out,
                       uint64_t *ret_seen,
                       struct err *err)
{
    const struct status_values *v = user;
    _cleanup_(object_unrefp) struct object *job = NULL;
    int r = session_get(session, &kind_torchrunjob, v->job, &job, err);

    if (r < 0)
        return r;
    struct view_objects pods = {0};
    (void)session_list_pods(session, v->job, &pods.items, &pods.count, NULL);
    status_text(session, job, pods, out);
    *ret_seen = job->revision + (array_is(object_json(job, &session->arena))
                                     ? status_add_jobs(session, v->job, out)
                                     : status_add_pods(session, pods, out));
    return 0;
}

static int status_print(struct session *session, const struct status_values *v, struct err *err)
{
    _cleanup_(object_unrefp) struct object *job = NULL;
    int r = session_get(session, &kind_torchrunjob, v->job, &job, err);

    if (r == 0)
        print_objects(session, v->output, (const struct object *[]){job}, 1);
    return r;
}

static int status_run(struct invocation *invocation)
{
    struct status_values *v = invocation->values;
    bool table = v->output <= OUTPUT_WIDE;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    v->job = r == 0 ? session_job(&session, invocation, &err) : NULL;
    if (r == 0 && !v->job)
        r = err.code;
    if (r == 0)
        r = table || v->watch
                ? watch_or_once(&session,
                                &(struct watch_options){.watch = v->watch, .table = table},
                                status_draw, v, &err)
                : status_print(&session, v, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_status = {
    .name = "status",
    .summary = "show one job in detail",
    .usage = "[JOB]",
    .about = "Without a job: the newest.",
    .options = status_options,
    .values_size = sizeof(struct status_values),
    .args_max = 1,
    .run = status_run,
};
