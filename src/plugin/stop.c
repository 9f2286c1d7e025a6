#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "plugin/home_record.h"
#include "plugin/job.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "system/errors.h"
#include "tool/clock.h"
#include "workspace/disk.h"
#include "workspace/statcache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* stop: ends the muster that `run` started. Pods would outlive it, so jobs go first, or it stays. */
#define STOP_LIMIT_MS  60000
#define STOP_PAUSE_MS  50
#define NAMES_SHOWN    10
#define RESULTS_FOLDER "results" /* of the data folder (agent/results_kept.h) */
/* Everything but the pods that stand for parts of muster itself. */
#define STOP_SELECTOR "app.kubernetes.io/managed-by!=muster"

struct stop_values {
    struct common_values common;
    bool all;
};

static const struct option stop_options[] = {
    {"all", 0, OPTION_BOOL, offsetof(struct stop_values, all),
     .help = "cancel all jobs first, and remove the data folder with everything in it",
     .flag_only = true},
    {0},
};

/* Jobs that are not over, in words; empty: none. */
static int stop_name_jobs(struct session *session,
                          struct buf *names,
                          size_t *ret_count,
                          struct err *err)
{
    const struct object **jobs;
    size_t count;
    int r = session_list(session, &kind_torchrunjob, "*", NULL, &jobs, &count, err);

    *ret_count = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        struct str phase = json_str_at(object_json(jobs[i], &session->arena), "status.phase");

        if (job_is_over(phase))
            continue;
        if ((*ret_count)++ < NAMES_SHOWN)
            buf_addf(names, "%s" STR_FMT, names->len ? ", " : "", STR_ARG(jobs[i]->name));
    }
    return r;
}

static int stop_delete_all(struct session *session, const struct kind *kind, struct err *err)
{
    const struct object **objects;
    size_t count;
    int r = session_list(session, kind, "*", STOP_SELECTOR, &objects, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++) {
        struct err why = {0};

        r = session_call(session,
                         &(struct api_request){.verb = API_DELETE,
                                               .kind = kind,
                                               .ns = objects[i]->ns,
                                               .name = objects[i]->name,
                                               .body = STR("{\"propagationPolicy\":\"Background\","
                                                           "\"gracePeriodSeconds\":0}")},
                         NULL, &why);
        if (r < 0 && why.http_status == 404)
            r = 0;
        else if (r < 0 && err)
            *err = why;
    }
    return r;
}

/* Until no pod is left. Those that something makes again belong to kinds that `run` does not make:
 * they are named instead of fought. */
static int stop_await_pods(struct session *session, struct err *err)
{
    int64_t until = clock_monotonic_ms() + STOP_LIMIT_MS;

    for (;;) {
        const struct object **pods = NULL;
        size_t count = 0;
        int r = stop_delete_all(session, &kind_pod, err);

        if (r == 0)
            r = session_list(session, &kind_pod, "*", STOP_SELECTOR, &pods, &count, err);
        if (r < 0 || count == 0)
            return r;
        assert(pods);
        if (clock_monotonic_ms() > until)
            return err_set(err, -ETIMEDOUT,
                           "pod " STR_FMT "/" STR_FMT
                           " does not go; delete what makes it with kubectl, then stop again",
                           STR_ARG(pods[0]->ns), STR_ARG(pods[0]->name));
        session_pause(session, STOP_PAUSE_MS);
    }
}

static int stop_jobs(struct session *session, bool all, struct err *err)
{
    _cleanup_(buf_done) struct buf names = {0};
    size_t count = 0;
    int r = stop_name_jobs(session, &names, &count, err);

    if (r == 0 && count && !all)
        return err_set(err, -EBUSY,
                       "%zu job%s not over: %.*s; wait, or `%s stop --all` cancels and removes "
                       "everything",
                       count, count == 1 ? " is" : "s are", (int)names.len, names.p,
                       session->program);
    if (r < 0 || !all)
        return r;
    if (count)
        session_say(session, "cancelling %.*s", (int)names.len, names.p);
    r = stop_delete_all(session, &kind_torchrunjob, err);
    if (r == 0)
        r = stop_await_pods(session, err);
    return r;
}

static int stop_process(struct session *session, const char *folder, long pid, struct err *err)
{
    int64_t until = clock_monotonic_ms() + STOP_LIMIT_MS;

    if (pid <= 1 || kill((pid_t)pid, SIGTERM) < 0)
        return err_set(err, -EPERM, "cannot end the muster of %s (pid %ld)", folder, pid);
    while (local_holder(folder) == pid) {
        if (clock_monotonic_ms() > until)
            return err_set(err, -ETIMEDOUT, "the muster of %s (pid %ld) does not end", folder, pid);
        session_pause(session, STOP_PAUSE_MS);
    }
    return 0;
}

/* What did not come home is in the data folder, under the names of the pods that wrote it. Where nobody can be asked it
 * is named, and --all says yes. */
static int stop_name_kept(const char *folder, struct err *err)
{
    _cleanup_(buf_done) struct buf names = {0};
    char path[PATH_MAX];
    char answer[16] = "";
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "%s/" RESULTS_FOLDER, folder);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct str rest = str_from(e->d_name);
        struct str ns, pod;

        if (e->d_name[0] != '.' && str_cut(&rest, '_', &ns) && str_cut(&rest, '_', &pod) &&
            count++ < NAMES_SHOWN)
            buf_addf(&names, "%s" STR_FMT "/" STR_FMT, names.len ? ", " : "", STR_ARG(ns),
                     STR_ARG(pod));
    }
    if (dir)
        closedir(dir);
    if (!count)
        return 0;
    if (count > NAMES_SHOWN)
        buf_addf(&names, " and %zu more pods", count - NAMES_SHOWN);
    (void)fprintf(stderr, "removed with it, and perhaps not at home: what %.*s wrote\n",
                  (int)names.len, names.p);
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return 0;
    (void)fprintf(stderr, "remove it? [y/N] ");
    if (read(STDIN_FILENO, answer, sizeof(answer) - 1) > 0 &&
        (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return err_set(err, -ECANCELED, "muster is stopped, and %s stays", folder);
}

static int stop(struct invocation *invocation, struct session *session, struct err *err)
{
    struct stop_values *v = invocation->values;
    const char *folder = local_folder(invocation->arena);
    long pid = local_holder(folder);
    int r = 0;

    if (!local_is_own(folder)) {
        if (pid == 0) {
            (void)printf("no muster of your own is here\n");
            return 0;
        }
        return err_set(
            err, -EPERM,
            "the muster of %s (pid %ld) was not started by `%s run`: end it where it was "
            "started, with Ctrl-C or `systemctl stop muster`",
            folder, pid, session->program);
    }
    /* With --all what it kept must go in order: one that has ended is started once more. */
    if (pid == 0 && v->all)
        r = local_start(invocation->arena, folder, err);
    if (r >= 0 && (pid != 0 || v->all)) {
        v->common.kubeconfig = local_kubeconfig(invocation->arena); /* this one and no other */
        r = session_open(session, invocation, err);
        if (r == 0)
            r = stop_jobs(session, v->all, err);
        pid = local_holder(folder);
    }
    if (r >= 0 && pid != 0)
        r = stop_process(session, folder, pid, err);
    if (r == 0 && v->all)
        r = stop_name_kept(folder, err);
    if (r == 0 && v->all) /* until then what they wrote can still come home */
        home_record_remove_of(&session->arena, session->config.server);
    if (r == 0 && v->all && (r = disk_remove_path(folder)) < 0)
        return err_set(err, r, "%s: %s", folder, errno_words(-r));
    if (r == 0 && v->all)
        statcache_remove_all(getenv("XDG_CACHE_HOME"), getenv("HOME"));
    if (r == 0)
        (void)printf(v->all ? "muster is stopped, and %s is removed\n"
                            : "muster is stopped; %s keeps what jobs wrote\n",
                     folder);
    return r;
}

static int stop_run(struct invocation *invocation)
{
    struct session session = session_closed(invocation);
    struct err err = {0};
    int r = stop(invocation, &session, &err);

    if (r < 0)
        r = session_fail(&session, &err);
    if (session.timer)
        session_close(&session);
    return r;
}

const struct command command_stop = {
    .name = "stop",
    .summary = "end the muster that run started on this machine",
    .about =
        "Without --all it ends only when no job is left, and what jobs wrote is kept. With --all "
        "jobs are cancelled, and the data folder is removed: nothing of muster is left running or "
        "on disk.",
    .example = "muster stop\nmuster stop --all",
    .options = stop_options,
    .values_size = sizeof(struct stop_values),
    .run = stop_run,
};
