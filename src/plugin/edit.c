#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "tool/clock.h"

#include <errno.h>
#include <stdio.h>

/* suspend, resume, scale, restart: small changes to jobs that exist. */

static const struct option plain_options[] = {
    COMMON_OPTIONS,
    {0},
};

/* Run `change` for every job named; the first failure ends it. */
typedef int change_fn(struct session *session, const char *job, const void *user, struct err *err);

static int for_each_job(struct invocation *invocation, change_fn *change, const void *user)
{
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    for (size_t i = 0; r == 0 && i < invocation->arg_count; i++) {
        r = change(&session, job_arg(invocation->args[i]), user, &err);
        if (r < 0 && err.http_status == 404)
            err_set(&err, r, "job %s does not exist in namespace %s", job_arg(invocation->args[i]),
                    session.config.ns);
    }
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

/* A job that is over never runs again: changing it would look like success and do nothing. */
static int check_active(struct session *session, const char *job, struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    struct str phase;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return r;
    phase = json_str_at(object_json(object, &session->arena), "status.phase");
    if (job_is_over(phase))
        return err_set(err, -EINVAL,
                       "job %s is over (" STR_FMT ") and never runs again; submit another one", job,
                       STR_ARG(phase));
    return 0;
}

/* ---- suspend, resume ---- */

struct suspend_values {
    struct common_values common;
    bool keep;
};

static const struct option suspend_options[] = {
    COMMON_OPTIONS,
    {"keep", 0, OPTION_BOOL, offsetof(struct suspend_values, keep),
     .help =
         "the pods stay, with their memory and place, and give up their GPUs only: the job goes "
         "on where it was",
     .flag_only = true},
    {0},
};

/* What is to become of a job, and how that is told. */
struct suspend_change {
    const char *spec;
    const char *words;
    bool wanted; /* it says when it was asked for */
};

/* Of a job that gave way because its GPUs were unused nothing in the spec says so. */
static const char *wanted_now(struct session *session)
{
    return str_printf(&session->arena,
                      "{\"annotations\":{\"" SUSPEND_RESUMED_AT "\":\"" STR_FMT "\"}}",
                      STR_ARG(time_text(&session->arena, clock_now_ms())))
        .p;
}

static int set_suspend(struct session *session, const char *job, const void *user, struct err *err)
{
    const struct suspend_change *change = user;
    int r = check_active(session, job, err);

    if (r == 0)
        r = session_patch(session, &kind_torchrunjob, job,
                          str_printf(&session->arena, "{\"metadata\":%s,\"spec\":%s}",
                                     change->wanted ? wanted_now(session) : "{}", change->spec),
                          err);
    if (r == 0)
        printf("job %s %s\n", job, change->words);
    return r;
}

static int suspend_run(struct invocation *invocation)
{
    static const struct suspend_change stop = {"{\"suspend\":true,\"keepWhileSuspended\":null}",
                                               "suspended", false};
    static const struct suspend_change keep = {"{\"suspend\":true,\"keepWhileSuspended\":true}",
                                               "suspended; its pods stay", false};
    const struct suspend_values *v = invocation->values;

    return for_each_job(invocation, set_suspend, v->keep ? &keep : &stop);
}

static int resume_run(struct invocation *invocation)
{
    static const struct suspend_change resume = {"{\"suspend\":false,\"keepWhileSuspended\":null}",
                                                 "resumed", .wanted = true};

    return for_each_job(invocation, set_suspend, &resume);
}

const struct command command_suspend = {
    .name = "suspend",
    .summary = "stop jobs and free their GPUs; volumes and history are kept, the pods' folders are "
               "deleted unless --keep is given",
    .usage = "JOB...",
    .options = suspend_options,
    .values_size = sizeof(struct suspend_values),
    .args_min = 1,
    .args_max = 100,
    .run = suspend_run,
};

const struct command command_resume = {
    .name = "resume",
    .summary = "start suspended jobs again",
    .usage = "JOB...",
    .options = plain_options,
    .values_size = sizeof(struct common_values),
    .args_min = 1,
    .args_max = 100,
    .run = resume_run,
};

/* ---- scale ---- */

struct scale_values {
    struct common_values common;
    int64_t gpus;
    int64_t nodes;
    int64_t min_nodes;
    int64_t max_nodes;
};

static const struct option scale_options[] = {
    COMMON_OPTIONS,
    {"gpus", 'g', OPTION_I64, offsetof(struct scale_values, gpus), .min = 0, .max = 1000000,
     .value = "N", .help = "total number of GPUs", .flag_only = true},
    {"nodes", 'N', OPTION_I64, offsetof(struct scale_values, nodes), .min = 0, .max = 100000,
     .value = "N", .help = "pods", .flag_only = true},
    {"min-nodes", 0, OPTION_I64, offsetof(struct scale_values, min_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: minimum number of pods", .flag_only = true},
    {"max-nodes", 0, OPTION_I64, offsetof(struct scale_values, max_nodes), .min = 0, .max = 100000,
     .value = "N", .help = "elastic: maximum number of pods", .flag_only = true},
    {0},
};

static void scale_add(struct arena *arena, const struct scale_values *v, struct json *spec)
{
    if (v->gpus > 0) {
        json_add_i64(arena, spec, "numGPUs", v->gpus);
        json_set(spec, STR("numNodes"), json_new_null(arena));
    }
    if (v->nodes > 0) {
        json_add_i64(arena, spec, "numNodes", v->nodes);
        json_set(spec, STR("numGPUs"), json_new_null(arena));
    }
    if (v->min_nodes > 0 || v->max_nodes > 0) {
        struct json *elastic = json_make_path(arena, spec, "elastic");

        if (v->min_nodes > 0)
            json_add_i64(arena, elastic, "minNodes", v->min_nodes);
        if (v->max_nodes > 0)
            json_add_i64(arena, elastic, "maxNodes", v->max_nodes);
    }
}

/* The job as it would be must be one that can ever run, as with submit. */
static int scale_check(struct session *session,
                       const char *job,
                       const struct scale_values *v,
                       struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    struct json *tree;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r < 0)
        return r;
    tree = json_clone(&session->arena, object_json(object, &session->arena));
    scale_add(&session->arena, v, json_make_path(&session->arena, tree, "spec"));
    r = precheck_job(session, tree, err);
    return r < 0 ? err_wrap(err, r, "job %s was not scaled", job) : 0;
}

static int scale_job(struct session *session, const char *job, const void *user, struct err *err)
{
    const struct scale_values *v = user;
    struct json *patch = json_new_object(&session->arena);
    int r = check_active(session, job, err);

    if (r == 0)
        r = scale_check(session, job, v, err);
    if (r < 0)
        return r;
    scale_add(&session->arena, v, json_add_object(&session->arena, patch, "spec"));
    r = session_patch(session, &kind_torchrunjob, job, json_text(&session->arena, patch), err);
    if (r == 0)
        printf("job %s scaled\n", job);
    return r;
}

static int scale_run(struct invocation *invocation)
{
    const struct scale_values *v = invocation->values;

    if ((v->gpus > 0) + (v->nodes > 0) != 1 && v->min_nodes == 0 && v->max_nodes == 0) {
        (void)fprintf(stderr,
                      "kubectl torchrun scale: give --gpus N or --nodes N, or the bounds of "
                      "an elastic job\n");
        return EXIT_USAGE;
    }
    return for_each_job(invocation, scale_job, v);
}

const struct command command_scale = {
    .name = "scale",
    .summary = "change the number of GPUs or pods of a job",
    .usage = "JOB",
    .options = scale_options,
    .values_size = sizeof(struct scale_values),
    .args_min = 1,
    .args_max = 1,
    .run = scale_run,
};

/* ---- restart ---- */

struct restart_values {
    struct common_values common;
    bool pods;
};

static const struct option restart_options[] = {
    COMMON_OPTIONS,
    {"pods", 0, OPTION_BOOL, offsetof(struct restart_values, pods),
     .help = "create new pods with new folders and schedule them again, instead of new processes "
             "in the old pods",
     .flag_only = true},
    {0},
};

static int restart_job(struct session *session, const char *job, const void *user, struct err *err)
{
    const struct restart_values *v = user;
    struct str body = STR("");
    int status;
    int r = check_active(session, job, err);

    if (r < 0)
        return r;
    if (v->pods) {
        const struct object **pods;
        size_t count;

        r = session_list_pods(session, job, &pods, &count, err);
        for (size_t i = 0; r == 0 && i < count; i++)
            if (str_is(object_label(pods[i], "torchrun.ai/role"), "worker"))
                r = session_call(session,
                                 &(struct api_request){.verb = API_DELETE,
                                                       .kind = &kind_pod,
                                                       .ns = pods[i]->ns,
                                                       .name = pods[i]->name},
                                 NULL, err);
        if (r == 0)
            printf("job %s starts again with new pods\n", job);
        return r;
    }
    status = sync_http(session, job,
                       &(struct session_request){.method = "POST",
                                                 .path = sync_path(session, job, "restart"),
                                                 .content_type = "application/json",
                                                 .timeout_ms = SYNC_PROXY_LIMIT_MS},
                       &body, err);
    if (status != 200)
        return status < 0 ? status
                          : err_set(err, -EIO,
                                    "the sync pod of job %s cannot be reached (%d: " STR_FMT
                                    "); --pods restarts it with new pods",
                                    job, status, STR_ARG(session_error_text(session, body)));
    printf("ranks of job %s restart in place\n", job);
    return 0;
}

static int restart_run(struct invocation *invocation)
{
    return for_each_job(invocation, restart_job, invocation->values);
}

const struct command command_restart = {
    .name = "restart",
    .summary = "restart the ranks of a job, in place or with new pods",
    .usage = "JOB...",
    .options = restart_options,
    .values_size = sizeof(struct restart_values),
    .args_min = 1,
    .args_max = 100,
    .run = restart_run,
};
