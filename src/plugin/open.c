#include "api/kind.h"
#include "api/object.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/job.h"
#include "plugin/kubectl.h"
#include "plugin/local.h"
#include "plugin/plugin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* open JOB PORT: the address of a program in a pod of the job: TensorBoard, Jupyter.
 *
 * A pod of this machine has an address that this machine reaches: that is printed, and nothing has to
 * stay. Elsewhere kubectl forwards a port of this machine until it is interrupted. */

static const struct object *open_pod(struct session *session, const char *job, struct err *err)
{
    const struct object **pods = NULL;
    size_t count = 0;

    if (session_list(
            session, &kind_pod, session->config.ns,
            str_printf(&session->arena, "torchrun-job-name=%s,torchrun.ai/role=worker", job).p,
            &pods, &count, err) < 0)
        return NULL;
    const struct object *found = NULL;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], &session->arena);
        int64_t index = 0;

        (void)str_to_i64(object_label(pods[i], "torchrun.ai/index"), &index);
        if (str_is(json_str_at(tree, "status.phase"), "Running") && index < first) {
            found = pods[i];
            first = index;
        }
    }
    if (!found)
        (void)err_set(err, -ENOENT, "no pod of job %s runs; `%s status %s` says why", job,
                      session->program, job);
    return found;
}

static int open_here(struct session *session,
                     const struct object *pod,
                     int64_t port,
                     struct err *err)
{
    struct str ip = json_str_at(object_json(pod, &session->arena), "status.podIP");
    bool six = str_find(ip, ':') < ip.len;
    const char *url = str_printf(&session->arena, "http://%s" STR_FMT "%s:%lld", six ? "[" : "",
                                 STR_ARG(ip), six ? "]" : "", (long long)port)
                          .p;

    if (!ip.len || !local_answers(url))
        return err_set(err, -ECONNREFUSED,
                       "nothing in pod " STR_FMT " listens at " STR_FMT
                       ":%lld; let the program listen on all addresses (tensorboard --bind_all, "
                       "jupyter --ip 0.0.0.0)",
                       STR_ARG(pod->name), STR_ARG(ip), (long long)port);
    (void)printf("%s\n", url);
    return 0;
}

static int open_elsewhere(struct session *session,
                          const struct object *pod,
                          int64_t port,
                          struct err *err)
{
    struct kubectl_args args = {0};
    int r = kubectl_find(err);

    if (r < 0)
        return r;
    kubectl_begin(&args, session, "port-forward");
    kubectl_add(&args, str_printf(&session->arena, "pod/" STR_FMT, STR_ARG(pod->name)).p);
    kubectl_add(&args,
                str_printf(&session->arena, "%lld:%lld", (long long)port, (long long)port).p);
    (void)printf("http://127.0.0.1:%lld\n", (long long)port);
    (void)fflush(stdout);
    session_say(session, "kubectl forwards it until Ctrl-C");
    return kubectl_become(&args, err);
}

int open_job_run(struct invocation *invocation)
{
    struct session session;
    struct err err = {0};
    int64_t port = 0;
    int r = session_open(&session, invocation, &err);

    if (r == 0 && (invocation->arg_count != 2 ||
                   !str_to_i64(str_from(invocation->args[1]), &port) || port < 1 || port > 65535))
        r = err_set(&err, -EINVAL, "a job and a port are needed, like: open train-x7k2p 6006");
    const struct object *pod =
        r == 0 ? open_pod(&session, job_arg(invocation->args[0]), &err) : NULL;
    if (r == 0 && !pod)
        r = err.code;
    if (pod)
        r = session_is_local(&session) ? open_here(&session, pod, port, &err)
                                       : open_elsewhere(&session, pod, port, &err);
    if (r < 0)
        r = session_fail(&session, &err);
    session_close(&session);
    return r;
}

static const struct option open_job_options[] = {
    COMMON_OPTIONS,
    {0},
};

const struct command command_open_job = {
    .name = "open",
    .summary = "show the address of a program in a job, such as TensorBoard",
    .usage = "JOB PORT",
    .about =
        "On one's own machine this is the address of the job's first pod. On a cluster kubectl "
        "forwards the port to this machine until it is interrupted.",
    .example = "kubectl torchrun open train-x7k2p 6006",
    .options = open_job_options,
    .values_size = sizeof(struct common_values),
    .args_min = 2,
    .args_max = 2,
    .run = open_job_run,
};
