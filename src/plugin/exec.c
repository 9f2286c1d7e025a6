#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "plugin/inside.h"
#include "plugin/job.h"
#include "plugin/kubectl.h"
#include "plugin/plugin.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

/* exec, checkpoints: run a program in a worker pod. kubectl does the talking where there is one: it is there wherever
 * this is a plugin of it, and knows every way to reach a container. */

struct exec_values {
    struct common_values common;
    int64_t worker;
    bool tty;
    bool input;
};

static const struct option exec_options[] = {
    COMMON_OPTIONS,
    {"worker", 'w', OPTION_I64, offsetof(struct exec_values, worker), .fallback = "0", .min = 0,
     .max = 100000, .value = "N", .help = "which pod of the job", .flag_only = true},
    {"tty", 't', OPTION_BOOL, offsetof(struct exec_values, tty), .help = "with a terminal",
     .flag_only = true},
    {"stdin", 'i', OPTION_BOOL, offsetof(struct exec_values, input), .help = "with standard input",
     .flag_only = true},
    {0},
};

#define EXEC_WORDS_MAX 140
#define TRAINER        "trainer" /* container of a worker */

static int exec_without_kubectl(struct session *session,
                                const struct invocation *invocation,
                                const char *pod,
                                const char *in_folder,
                                struct err *err)
{
    const struct exec_values *v = invocation->values;
    const char *words[EXEC_WORDS_MAX] = {"sh", "-c", in_folder, "sh"};
    size_t count = 4;

    for (size_t i = 1; i < invocation->arg_count && count < EXEC_WORDS_MAX; i++)
        words[count++] = invocation->args[i];
    if (invocation->arg_count == 1)
        words[count++] = "sh";
    return inside_become(session,
                         &(struct inside_command){.pod = pod,
                                                  .container = TRAINER,
                                                  .words = words,
                                                  .count = count,
                                                  .input = v->input,
                                                  .tty = v->input && v->tty},
                         err);
}

/* The pod of that number: its own, or the spare that took its place. */
static void worker_name(struct session *session,
                        const char *job,
                        int64_t number,
                        char name[static 300])
{
    struct str index = str_printf(&session->arena, "%lld", (long long)number);
    const struct object **pods = NULL;
    size_t count = 0;

    (void)snprintf(name, 300, "%s-worker-%lld", job, (long long)number);
    (void)session_list_pods(session, job, &pods, &count, NULL);
    for (size_t i = 0; i < count; i++)
        if (!pods[i]->deleted_ms && str_is(object_label(pods[i], "torchrun.ai/role"), "worker") &&
            str_eq(object_label(pods[i], "torchrun.ai/index"), index))
            (void)snprintf(name, 300, STR_FMT, STR_ARG(pods[i]->name));
}

static int exec_run(struct invocation *invocation)
{
    /* Where the command of the job runs; a container's own folder is / as a rule. */
    static const char in_folder[] = "cd \"${" LAUNCH_ENV_APP_DIR ":-.}\" 2>/dev/null; exec \"$@\"";
    const struct exec_values *v = invocation->values;
    _cleanup_(object_unrefp) struct object *pod = NULL;
    struct kubectl_args args = {0};
    struct session session;
    struct err err = {0};
    char name[300];
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        worker_name(&session, job_arg(invocation->args[0]), v->worker, name);
    if (r == 0)
        r = session_get(&session, &kind_pod, name, &pod, &err);
    if (r == 0 && kubectl_find(NULL) < 0) {
        r = exec_without_kubectl(&session, invocation, name, in_folder, &err);
        if (r >= 0) {
            session_close(&session);
            return r;
        }
    } else if (r == 0) {
        kubectl_begin(&args, &session, "exec");
        if (v->input)
            kubectl_add(&args, "-i");
        if (v->tty)
            kubectl_add(&args, "-t");
        kubectl_add(&args, name);
        kubectl_add(&args, "--");
        kubectl_add(&args, "sh");
        kubectl_add(&args, "-c");
        kubectl_add(&args, in_folder);
        kubectl_add(&args, "sh");
        for (size_t i = 1; i < invocation->arg_count; i++)
            kubectl_add(&args, invocation->args[i]);
        if (invocation->arg_count == 1)
            kubectl_add(&args, "sh");
        (void)kubectl_become(&args, &err);
    }
    r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_exec = {
    .name = "exec",
    .summary = "run a program in a pod of a job, in its working folder",
    .usage = "JOB [-- PROGRAM...]",
    .options = exec_options,
    .values_size = sizeof(struct exec_values),
    .args_min = 1,
    .args_max = 100,
    .run = exec_run,
};

/* ---- checkpoints ---- */

static const struct option checkpoints_options[] = {
    COMMON_OPTIONS,
    {0},
};

static const struct object *running_worker(struct session *session, const char *job)
{
    const struct object **pods;
    size_t count;

    if (session_list_pods(session, job, &pods, &count, NULL) < 0)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], &session->arena);

        if (str_is(object_label(pods[i], "torchrun.ai/role"), "worker") &&
            str_is(json_str_at(tree, "status.phase"), "Running"))
            return pods[i];
    }
    return NULL;
}

static int checkpoints_run(struct invocation *invocation)
{
    static const char script[] =
        "d=${CHECKPOINT_DIR:-/checkpoints}; [ -d \"$d\" ] || { echo \"this job has no checkpoint "
        "volume\" >&2; exit 1; }; ls -lt --time-style=long-iso \"$d\"";
    _cleanup_(object_unrefp) struct object *job = NULL;
    const struct object *pod = NULL;
    struct kubectl_args args = {0};
    struct session session;
    struct err err = {0};
    int r = session_open(&session, invocation, &err);

    if (r == 0)
        r = session_get(&session, &kind_torchrunjob, job_arg(invocation->args[0]), &job, &err);
    if (r == 0) {
        pod = running_worker(&session, job_arg(invocation->args[0]));
        if (!pod)
            r = err_set(&err, -ENOENT,
                        "no pod of job %s is running, so its checkpoints cannot be listed",
                        job_arg(invocation->args[0]));
    }
    if (r == 0 && pod && kubectl_find(NULL) < 0) {
        const char *const words[] = {"sh", "-c", script};

        r = inside_become(&session,
                          &(struct inside_command){.pod = str_c(&session.arena, pod->name),
                                                   .container = TRAINER,
                                                   .words = words,
                                                   .count = COUNT_OF(words)},
                          &err);
        if (r >= 0) {
            session_close(&session);
            return r;
        }
    } else if (r == 0 && pod) {
        kubectl_begin(&args, &session, "exec");
        kubectl_add(&args, str_c(&session.arena, pod->name));
        kubectl_add(&args, "--");
        kubectl_add(&args, "sh");
        kubectl_add(&args, "-c");
        kubectl_add(&args, script);
        (void)kubectl_become(&args, &err);
    }
    r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

const struct command command_checkpoints = {
    .name = "checkpoints",
    .summary = "list the checkpoints that a running job can see",
    .usage = "JOB",
    .options = checkpoints_options,
    .values_size = sizeof(struct common_values),
    .args_min = 1,
    .args_max = 1,
    .run = checkpoints_run,
};
