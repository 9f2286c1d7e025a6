#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/time.h"
#include "plugin/plugin.h"
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

static void add_line(struct buf *text, const char *name, struct str value)
{
    if (value.len)
        buf_addf(text, "%-12s " STR_FMT "\n", name, STR_ARG(value));
}

static struct str number(struct arena *arena, const struct json *value)
{
    int64_t n;

    return json_i64(value, &n) ? str_printf(arena, "%lld", (long long)n) : STR("");
}

static const struct object **pods_of(struct session *session,
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

/* What a pod is doing, or why it does not. */
#define LAST_LINES "; its last lines:"

static struct str pod_words(const struct json *tree)
{
    const struct json *state = json_at(tree, "status.containerStatuses.0.state");
    struct str words = json_str_at(state, "waiting.message");

    if (!words.len)
        words = json_str_at(state, "terminated.message");
    JSON_FOREACH(json_at(tree, "status.conditions"), condition) {
        if (!words.len && str_is(json_str(json_get(condition, "type")), "PodScheduled") &&
            !str_is(json_str(json_get(condition, "status")), "True"))
            words = json_str(json_get(condition, "message"));
    }
    words = str_sub(words, 0, str_find(words, '\n'));
    if (str_ends(words, STR(LAST_LINES))) /* which are not shown here */
        words.len -= strlen(LAST_LINES);
    return words;
}

static void add_pods(struct session *session, const char *job, struct buf *text)
{
    static const char *const headers[] = {"POD", "PHASE", "NODE", "GENERATION", "WORDS", NULL};
    struct arena *arena = &session->arena;
    struct table table;
    size_t count;
    const struct object **pods = pods_of(session, job, &count, NULL);

    if (count == 0)
        return;
    table_init(&table, arena, headers);
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], arena);
        struct str node = json_str_at(tree, "spec.nodeName");
        struct str phase = json_str_at(tree, "status.phase");

        table_add(&table, pods[i]->name);
        table_add(&table, pods[i]->deleted_ms ? STR("Terminating") : phase);
        table_add(&table, node.len ? node : STR("<none>"));
        table_add(&table, object_label(pods[i], "torchrun.ai/generation"));
        table_add(&table, pod_words(tree));
    }
    buf_addc(text, '\n');
    table_write(text, &table, true);
}

static void status_text(struct session *session, const struct object *job, struct buf *text)
{
    struct arena *arena = &session->arena;
    struct json *tree = object_json(job, arena);
    struct json *status = json_get(tree, "status");
    struct str queue = json_str_at(tree, "spec.jobQueue");
    struct str phase = json_str(json_get(status, "phase"));
    struct json *failure = json_get(status, "failure");

    add_line(text, "Job:", job->name);
    add_line(text, "Namespace:", job->ns);
    add_line(text, "Queue:", queue.len ? queue : json_str_at(tree, "spec.queue"));
    add_line(text, "Phase:", phase.len ? phase : STR("Pending"));
    add_line(text, "Message:", json_str(json_get(status, "message")));
    add_line(text, "Command:", json_str_at(tree, "spec.command"));
    add_line(text, "GPUs:", number(arena, json_get(status, "numGPUs")));
    add_line(text, "Pods:", number(arena, json_get(status, "numNodes")));
    add_line(text, "Workers:", json_str(json_get(status, "workersStatus")));
    add_line(text, "Restarts:", number(arena, json_get(status, "restarts")));
    add_line(text, "Workspace:", object_annotation(job, "torchrun.ai/workspace-revision"));
    add_line(text, "Started:", json_str(json_get(status, "startTime")));
    add_line(text, "Completed:", json_str(json_get(status, "completionTime")));
    if (failure) {
        add_line(text, "Failed pod:", json_str(json_get(failure, "pod")));
        add_line(text, "Exit code:", number(arena, json_get(failure, "exitCode")));
        add_line(text, "Failure:", json_str(json_get(failure, "message")));
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
        r = session_get(&session, &kind_torchrunjob, invocation->args[0], &job, &err);
    if (r < 0) {
        r = session_fail(&session, &err);
    } else if (v->output > OUTPUT_WIDE) {
        print_objects(&session, v->output, (const struct object *[]){job}, 1);
    } else {
        status_text(&session, job, &text);
        add_pods(&session, invocation->args[0], &text);
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
static void add_group(struct session *session, const struct object *job, struct buf *text)
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
        add_line(text, "Gang:", groups[i]->name);
        add_line(text, "Needs:",
                 str_printf(&session->arena, "%lld pods at once",
                            (long long)json_i64_or(json_at(tree, "spec.minMember"), 1)));
        add_line(text, "Waits for:", json_str_at(tree, "status.message"));
        JSON_FOREACH(json_at(tree, "status.schedulingConditions"), condition)
            add_line(text, "Scheduler:", json_str(json_get(condition, "message")));
    }
}

/* Later changes have larger numbers; names and times say less. */
static int by_version(const void *a, const void *b)
{
    const struct object *const *x = a;
    const struct object *const *y = b;

    return ((*x)->revision > (*y)->revision) - ((*x)->revision < (*y)->revision);
}

static void add_events(struct session *session, const struct object *job, struct buf *text)
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
        r = session_get(&session, &kind_torchrunjob, invocation->args[0], &job, &err);
    if (r == 0) {
        struct json *tree = object_json(job, &session.arena);
        struct str phase = json_str_at(tree, "status.phase");

        add_line(&text, "Job:", job->name);
        add_line(&text, "Phase:", phase.len ? phase : STR("Pending"));
        add_line(&text, "Because:", json_str_at(tree, "status.message"));
        add_group(&session, job, &text);
        add_pods(&session, invocation->args[0], &text);
        add_events(&session, job, &text);
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

/* GPUs of all jobs of a queue that run, and how many wait. */
static void count_jobs(struct session *session,
                       const struct object **jobs,
                       size_t count,
                       struct str queue,
                       int64_t ret[static 3])
{
    memset(ret, 0, 3 * sizeof(*ret));
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(jobs[i], &session->arena);
        struct str name = json_str_at(tree, "spec.jobQueue");
        struct str phase = json_str_at(tree, "status.phase");
        int64_t gpus = json_i64_or(json_at(tree, "status.numGPUs"), 0);

        if (!name.len)
            name = json_str_at(tree, "spec.queue");
        if (!str_eq(name, queue))
            continue;
        if (str_is(phase, "Running")) {
            ret[0]++;
            ret[1] += gpus;
        } else if (!str_is(phase, "Suspended") && !job_is_over(phase)) {
            ret[2]++;
        }
    }
}

static int queues_table(struct session *session,
                        const struct object **queues,
                        size_t count,
                        struct buf *text,
                        struct err *err)
{
    static const char *const headers[] = {"NAME",      "KAI QUEUE", "GPUS/NODE", "RUNNING",
                                          "GPUS USED", "WAITING",   "AGE",       NULL};
    struct arena *arena = &session->arena;
    const struct object **jobs = NULL;
    size_t job_count = 0;
    struct table table;

    int r =
        session_list(session, &kind_torchrunjob, session->config.ns, NULL, &jobs, &job_count, err);
    if (r < 0)
        return r;
    table_init(&table, arena, headers);
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(queues[i], arena);
        struct str kai = json_str_at(tree, "spec.kaiQueue");
        struct str per_node = number(arena, json_at(tree, "spec.nodeResources.gpus"));
        int64_t counts[3];

        if (!kai.len)
            kai = json_str_at(tree, "spec.queue.name");
        count_jobs(session, jobs, job_count, queues[i]->name, counts);
        table_add(&table, queues[i]->name);
        table_add(&table, kai.len ? kai : queues[i]->name);
        table_add(&table, per_node.len ? per_node : STR("-"));
        for (size_t j = 0; j < 3; j++)
            table_add(&table, str_printf(arena, "%lld", (long long)counts[j]));
        table_add(&table, time_age(arena, clock_now_ms() - queues[i]->created_ms));
    }
    table_write(text, &table, true);
    return 0;
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
        r = queues_table(&session, queues, count, &text, &err);
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
