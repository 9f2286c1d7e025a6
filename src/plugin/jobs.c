#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/yaml.h"
#include "plugin/array.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/view.h"
#include "plugin/watch.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* list, logs: what there is, and what it printed. */

static const char *start_word(const struct session *session)
{
    return strcmp(session->program, "muster") == 0 ? "run train.py" : "submit \"python train.py\"";
}

const char *session_job(struct session *session,
                        const struct invocation *invocation,
                        struct err *err)
{
    const struct object **jobs = NULL;
    const struct object *newest = NULL;
    size_t count = 0;

    if (invocation->arg_count)
        return job_arg(invocation->args[0]);
    if (session_list(session, &kind_torchrunjob, session->config.ns, NULL, &jobs, &count, err) < 0)
        return NULL;
    for (size_t i = 0; i < count; i++) /* jobs of an array are named by it */
        if (!jobs[i]->owner_count && (!newest || jobs[i]->created_ms >= newest->created_ms))
            newest = jobs[i];
    if (!newest) {
        (void)err_set(err, -ENOENT, "there is no job in namespace %s yet; `%s %s` starts one",
                      session->config.ns, session->program, start_word(session));
        return NULL;
    }
    session_say(session, "job " STR_FMT ", the newest", STR_ARG(newest->name));
    return str_c(&session->arena, newest->name);
}

/* ---- list ---- */

struct list_values {
    struct common_values common;
    int output;
    bool all;
    const char *selector;
    bool watch;
};

static const struct option list_options[] = {
    COMMON_OPTIONS,
    {"output", 'o', OPTION_CHOICE, offsetof(struct list_values, output), .fallback = "table",
     .choices = output_names, .help = "table, wide, json, yaml or name", .flag_only = true},
    {"all-namespaces", 'A', OPTION_BOOL, offsetof(struct list_values, all),
     .help = "jobs of every namespace", .flag_only = true},
    {"selector", 'l', OPTION_STR, offsetof(struct list_values, selector), .value = "LABELS",
     .help = "jobs with these labels, such as team=vision", .flag_only = true},
    {"watch", 'w', OPTION_BOOL, offsetof(struct list_values, watch),
     .help = "go on, and print the table again when it changes", .flag_only = true},
    {0},
};

void print_tree(struct buf *out, bool yaml, const struct json *tree)
{
    if (yaml) {
        yaml_write(out, tree);
    } else {
        json_write_pretty(out, tree);
        buf_addc(out, '\n');
    }
}

void print_objects(struct session *session, int output, const struct object **objects, size_t count)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct arena *arena = &session->arena;
    struct json *items;
    struct json *list = json_make(arena, "{apiVersion: 'v1', kind: 'List'}");

    items = json_add_array(arena, list, "items");
    for (size_t i = 0; i < count; i++) {
        if (count > 1)
            json_push(items, object_json(objects[i], arena));
        if (output == OUTPUT_NAME)
            buf_addf(&text, "%s.%s/" STR_FMT "\n", objects[i]->kind->singular,
                     objects[i]->kind->group, STR_ARG(objects[i]->name));
    }
    if (count == 1)
        list = object_json(objects[0], arena);
    if (output != OUTPUT_NAME)
        print_tree(&text, output == OUTPUT_YAML, list);
    term_write(&session->out, buf_str(&text));
}

static void list_write(struct session *session,
                       const struct list_values *v,
                       struct view_objects jobs,
                       struct buf *text)
{
    struct view_jobs_options options = {.wide = v->output == OUTPUT_WIDE,
                                        .with_namespace = v->all,
                                        .wraps_at = session->out.wraps_at,
                                        .now_ms = clock_now_ms()};

    if (jobs.count && options.wide)
        session_list_if(session, &kind_podgroup, v->all ? "*" : session->config.ns, NULL,
                        &options.groups);
    if (jobs.count)
        view_jobs(text, &session->arena, jobs, &options);
}

static int list_order(const void *a, const void *b)
{
    const struct object *one = *(const struct object *const *)a;
    const struct object *other = *(const struct object *const *)b;

    if (one->created_ms != other->created_ms)
        return one->created_ms > other->created_ms ? -1 : 1;
    return str_cmp(one->name, other->name);
}

/* The newest first. */
static int list_ask(struct session *session,
                    const struct list_values *v,
                    struct view_objects *ret,
                    struct err *err)
{
    int r = session_list(session, &kind_torchrunjob, v->all ? "*" : session->config.ns, v->selector,
                         &ret->items, &ret->count, err);

    if (r == 0 && ret->count)
        qsort(ret->items, ret->count, sizeof(ret->items[0]), list_order);
    return r;
}

static int list_draw(struct session *session,
                     void *user,
                     struct buf *out,
                     uint64_t *ret_seen,
                     struct err *err)
{
    struct view_objects jobs = {0};
    int r = list_ask(session, user, &jobs, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < jobs.count; i++)
        *ret_seen += jobs.items[i]->revision + 1;
    list_write(session, user, jobs, out);
    return 0;
}

static int list_run(struct invocation *invocation)
{
    struct list_values *v = invocation->values;
    bool table = v->output == OUTPUT_TABLE || v->output == OUTPUT_WIDE;
    _cleanup_(buf_done) struct buf text = {0};
    struct view_objects jobs = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0 && v->watch && !table)
        r = err_set(&err, -EINVAL, "--watch prints tables; leave --output out");
    if (r == 0)
        r = v->watch ? watch_table(&session, list_draw, v, &err)
                     : list_ask(&session, v, &jobs, &err);
    if (r < 0) {
        r = session_fail(&session, &err);
    } else if (!table) {
        print_objects(&session, v->output, jobs.items, jobs.count);
    } else if (jobs.count) {
        list_write(&session, v, jobs, &text);
        term_write(&session.out, buf_str(&text));
    } else {
        session_say(&session, "no jobs in namespace %s; `%s %s` starts one", session.config.ns,
                    session.program, start_word(&session));
    }
    session_close(&session);
    return r;
}

const struct command command_list = {
    .name = "list",
    .summary = "show the jobs, the newest first",
    .also = "ls ps jobs",
    .options = list_options,
    .values_size = sizeof(struct list_values),
    .run = list_run,
};

/* ---- logs ---- */

struct logs_values {
    struct common_values common;
    bool follow;
    bool previous;
    int64_t rank;
    int64_t tail;
    int64_t generation;
};

static const struct option logs_options[] = {
    COMMON_OPTIONS,
    {"follow", 'f', OPTION_BOOL, offsetof(struct logs_values, follow),
     .help = "follow until the job ends, and exit with its exit status", .flag_only = true},
    {"previous", 'p', OPTION_BOOL, offsetof(struct logs_values, previous),
     .help = "show the previous generation, or the containers before their last restart",
     .flag_only = true},
    {"rank", 'r', OPTION_I64, offsetof(struct logs_values, rank), .fallback = "-1", .min = -1,
     .max = 1000000, .value = "N", .help = "show only this rank", .flag_only = true},
    {"tail", 0, OPTION_I64, offsetof(struct logs_values, tail), .fallback = "-1", .min = -1,
     .max = 1000000000, .value = "LINES", .help = "show only the last lines of each pod",
     .flag_only = true},
    {"generation", 0, OPTION_I64, offsetof(struct logs_values, generation), .fallback = "-1",
     .min = -1, .max = 1000000, .value = "N",
     .help = "show this generation, even if its pods were deleted (0 is the first; each restart of "
             "the gang adds one)",
     .flag_only = true},
    {0},
};

/* One job's. */
static int logs_show(struct session *session,
                     const struct logs_values *v,
                     const char *job,
                     struct err *err)
{
    struct follow_options options = {.job = job,
                                     .watch = v->follow,
                                     .previous = v->previous,
                                     .rank = v->rank,
                                     .tail = v->tail,
                                     .generation = v->generation,
                                     .quiet = !v->follow,
                                     .view = true};
    int64_t current = 0;
    int status = 0;

    if (v->previous || v->generation >= 0)
        status = kept_generation(session, job, &current, err);
    if (status == 0 && v->previous && v->generation < 0 && current > 0)
        options.generation = current - 1;
    if (status == 0 && options.generation > current)
        status =
            err_set(err, -ENOENT, "job %s is only in generation %lld", job, (long long)current);
    else if (status == 0 && options.generation >= 0 && options.generation < current)
        status = kept_logs(session, &options, err);
    else if (status == 0)
        status = follow_job(session, &options, err);
    if (status == 0 && !v->follow && !v->previous && v->generation < 0)
        status = kept_of_gone(session, &options, err);
    return status;
}

/* Of each job of an array that there is, one after another; the status is the worst. */
static int logs_array(struct session *session,
                      const struct logs_values *v,
                      const char *array,
                      struct err *err)
{
    const struct object **jobs = NULL;
    size_t count = 0;
    int worst = 0;
    int r = array_jobs(session, array, &jobs, &count, err);

    for (size_t i = 0; r >= 0 && i < count; i++) {
        const char *job = str_c(&session->arena, jobs[i]->name);

        (void)fflush(stdout);
        session_say(session, "==> %s <==", job);
        r = logs_show(session, v, job, err);
        worst = r > worst ? r : worst;
    }
    return r < 0 ? r : worst;
}

static int logs_run(struct invocation *invocation)
{
    struct logs_values *v = invocation->values;
    _cleanup_(object_unrefp) struct object *job = NULL;
    struct session session;
    struct err err = {0};
    int64_t lines;

    /* As tail has it: -n5 is five lines, and no namespace has that name. */
    if (v->tail < 0 && v->common.ns && str_to_i64(str_from(v->common.ns), &lines) && lines >= 0) {
        v->tail = lines;
        v->common.ns = NULL;
    }
    int status = session_open(&session, invocation, &err);
    const char *name = status == 0 ? session_job(&session, invocation, &err) : NULL;

    if (status == 0 && !name)
        status = err.code;
    if (status == 0) {
        bool found = session_get(&session, &kind_torchrunjob, name, &job, NULL) == 0;
        bool array = found && array_is(object_json(job, &session.arena));

        status = array ? logs_array(&session, v, name, &err) : logs_show(&session, v, name, &err);
    }
    if (status < 0)
        status = session_fail(&session, &err);
    session_close(&session);
    return status;
}

const struct command command_logs = {
    .name = "logs",
    .summary = "show what the ranks of a job printed",
    .usage = "[JOB]",
    .about =
        "Without a job: the newest. -n5 is --tail 5, as for tail; -n NAMESPACE is the namespace.",
    .options = logs_options,
    .values_size = sizeof(struct logs_values),
    .also = "log",
    .args_max = 1,
    .run = logs_run,
};
