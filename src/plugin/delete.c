#include "api/api.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/array.h"
#include "plugin/home.h"
#include "plugin/job.h"
#include "plugin/plugin.h"
#include "plugin/results.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* delete: what goes with a job does not come back, so it is named first, and asked about. Where
 * nobody can be asked, --force says yes. */
#define PODS_MAX  16 /* whose folders are looked into */
#define NAMED_MAX 10 /* files that are named */

struct delete_values {
    struct common_values common;
    bool force;
};

static const struct option delete_options[] = {
    COMMON_OPTIONS,
    {"force", 0, OPTION_BOOL, offsetof(struct delete_values, force),
     .help = "do not ask; needed where there is no terminal", .flag_only = true},
    {0},
};

static void name_files(struct session *session,
                       const char *pod,
                       const struct result_list *list,
                       size_t *named)
{
    char bytes[TERM_BYTES_TEXT];
    size_t shown = 0;

    session_say(session, "  %zu file%s (%s) that %s wrote into its folder:", list->files.count,
                list->files.count == 1 ? "" : "s", term_bytes(list->bytes, bytes), pod);
    for (size_t i = 0; i < list->files.count && *named < NAMED_MAX; i++, shown++, ++*named)
        session_say(session, "    %s (%s)", results_name(session, list->files.items[i].path),
                    term_bytes(list->files.items[i].size, bytes));
    if (shown < list->files.count)
        session_say(session, "    and %zu more", list->files.count - shown);
}

/* False: nothing that could be seen. */
static bool name_pods(struct session *session, const char *job, const struct object *object)
{
    struct results_source *sources = NULL;
    struct err err = {0};
    size_t count = 0;
    size_t named = 0;
    bool any = false;

    if (results_sources(session, job, object, &sources, &count, &err) < 0) {
        session_say(session, "  files that its pods wrote; they cannot be listed: %s", err.text);
        return true;
    }
    for (size_t i = 0; i < count && i < PODS_MAX; i++) {
        struct result_list list;
        int r = results_list(session, &sources[i], STR(""), &list, &err);

        if (r == -ENOENT && !sources[i].pod)
            continue; /* nothing is kept of it */
        if (r < 0)
            session_say(session, "  files that %s wrote; they cannot be listed: %s",
                        sources[i].name, err.text);
        else if (list.files.count)
            name_files(session, sources[i].name, &list, &named);
        else
            continue;
        any = true;
    }
    if (count > PODS_MAX)
        session_say(session, "  and files of %zu more pods, which were not listed",
                    count - PODS_MAX);
    return any;
}

/* Of a job, or of all jobs of an array. */
static bool name_written(struct session *session, const char *job, const struct object *object)
{
    const struct object **jobs = NULL;
    size_t count = 0;
    bool any = false;

    if (!array_is(object_json(object, &session->arena)))
        return name_pods(session, job, object);
    if (array_jobs(session, job, &jobs, &count, NULL) == 0 && count) {
        session_say(session, "  %zu job%s of the array", count, count == 1 ? "" : "s");
        any = true;
    }
    for (size_t i = 0; i < count && i < PODS_MAX; i++)
        (void)name_pods(session, str_c(&session->arena, jobs[i]->name), jobs[i]);
    if (count > PODS_MAX)
        session_say(session, "  and what %zu more jobs wrote, which was not listed",
                    count - PODS_MAX);
    return any;
}

/* Claims that belong to the job alone; shared ones outlive it. */
static bool name_claims(struct session *session, const struct object *job)
{
    const struct object **claims = NULL;
    size_t count = 0;
    bool any = false;

    if (session_list(session, &kind_pvc, session->config.ns, NULL, &claims, &count, NULL) < 0)
        return false;
    for (size_t i = 0; i < count; i++)
        JSON_FOREACH(json_at(object_json(claims[i], &session->arena), "metadata.ownerReferences"),
                     owner)
            if (str_eq(json_str(json_get(owner, "uid")), job->uid)) {
                session_say(session, "  claim " STR_FMT " and what is in it",
                            STR_ARG(claims[i]->name));
                any = true;
            }
    return any;
}

/* 0: yes. */
static int confirm(struct session *session,
                   const char *job,
                   const struct object *object,
                   struct err *err)
{
    struct str phase = json_str_at(object_json(object, &session->arena), "status.phase");
    char answer[16] = "";
    bool any;

    session_say(session, "deleting job %s%s would destroy:", job,
                job_is_over(phase) ? "" : ", which is not over,");
    any = name_written(session, job, object);
    any = name_claims(session, object) || any;
    if (!any)
        session_say(session, "  the job itself; it wrote nothing into its folder");
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return err_set(err, -ENOTTY,
                       "job %s was not deleted: there is no terminal to ask on. --force deletes "
                       "it; `%s pull %s` copies what it wrote",
                       job, session->program, job);
    (void)fprintf(stderr, "delete it? [y/N] ");
    if (read(STDIN_FILENO, answer, sizeof(answer) - 1) > 0 &&
        (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return err_set(err, -ECANCELED, "job %s was not deleted", job);
}

/* Its owner was told what goes, and said so: nothing of it is kept. */
static void discard(struct session *session, const char *job, const struct object *object)
{
    const struct object **jobs = NULL;
    const struct object **pods = NULL;
    size_t count = 0;

    if (array_is(object_json(object, &session->arena))) {
        if (array_jobs(session, job, &jobs, &count, NULL) == 0)
            for (size_t i = 0; i < count; i++)
                discard(session, str_c(&session->arena, jobs[i]->name), jobs[i]);
        return;
    }
    if (results_pods(session, job, &pods, &count, NULL) == 0)
        for (size_t i = 0; i < count; i++)
            results_mark(session, pods[i], RESULTS_DISCARD);
}

static int delete_job(struct session *session, const char *job, bool force, struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    int r = session_get(session, &kind_torchrunjob, job, &object, err);

    if (r == 0 && !force) {
        r = confirm(session, job, object, err);
        if (r == 0)
            discard(session, job, object);
    }
    if (r == 0)
        r = session_call(
            session,
            &(struct api_request){.verb = API_DELETE,
                                  .kind = &kind_torchrunjob,
                                  .ns = str_from(session->config.ns),
                                  .name = str_from(job),
                                  .uid = object->uid, /* the one that was asked about */
                                  .body = STR("{\"propagationPolicy\":\"Background\"}")},
            NULL, err);
    if (r == 0)
        printf("job %s deleted\n", job);
    else if (err->http_status == 404)
        err_set(err, r, "job %s does not exist in namespace %s", job, session->config.ns);
    return r;
}

/* What it wrote comes home, where it has one; where it cannot, deleting asks as ever. */
static int cancel_job(struct session *session, const char *job, bool force, struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    struct err why = {0};

    /* One that has not started has written nothing: there is nothing to ask. */
    if (session_get(session, &kind_torchrunjob, job, &object, NULL) == 0 &&
        !json_at(object_json(object, &session->arena), "status.startTime"))
        return delete_job(session, job, true, err);
    int r = home_bring(session, job, &why);

    if (r == -ENOENT) /* no such job, or it came from nowhere */
        return delete_job(session, job, force, err);
    if (r == -ESRCH) /* it has not started: there is nothing to lose */
        return delete_job(session, job, true, err);
    if (r < 0)
        session_say(session, "what job %s wrote did not come back: %s", job, why.text);
    return delete_job(session, job, force || r == 0, err);
}

/* One that nobody named is cancelled only while it is not over: what has ended is nobody's hurry. */
static int cancel_newest(struct session *session,
                         const struct invocation *invocation,
                         bool force,
                         struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    const char *job = session_job(session, invocation, err);
    int r = job ? session_get(session, &kind_torchrunjob, job, &object, err) : err->code;

    if (r == 0 && job_is_over(json_str_at(object_json(object, &session->arena), "status.phase")))
        return err_set(err, -EINVAL, "job %s is over; name the job that is meant", job);
    return r == 0 ? cancel_job(session, job, force, err) : r;
}

static int cancel_run(struct invocation *invocation)
{
    const struct delete_values *v = invocation->values;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0 && !invocation->arg_count)
        r = cancel_newest(&session, invocation, v->force, &err);
    for (size_t i = 0; r == 0 && i < invocation->arg_count; i++)
        r = cancel_job(&session, job_arg(invocation->args[i]), v->force, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_cancel = {
    .name = "cancel",
    .summary = "copy what jobs wrote to where they came from, and delete them",
    .usage = "[JOB...]",
    .also = "kill scancel",
    .about = "Without a job: the newest, if it is not over. A job that came from this machine is "
             "not asked about: what its first pod wrote is in its "
             "folder afterwards, that of the jobs of an array in a folder for each. Any other is "
             "deleted "
             "as `delete` does it.",
    .options = delete_options,
    .values_size = sizeof(struct delete_values),
    .args_max = 100,
    .run = cancel_run,
};

static int delete_run(struct invocation *invocation)
{
    const struct delete_values *v = invocation->values;
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    for (size_t i = 0; r == 0 && i < invocation->arg_count; i++)
        r = delete_job(&session, job_arg(invocation->args[i]), v->force, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_delete = {
    .name = "delete",
    .summary = "delete jobs and everything that belongs to them, after asking",
    .usage = "JOB...",
    .options = delete_options,
    .values_size = sizeof(struct delete_values),
    .args_min = 1,
    .args_max = 100,
    .run = delete_run,
};
