#include "api/kind.h"
#include "api/object.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/forward.h"
#include "plugin/job.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "system/errors.h"
#include "system/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINK_MS 10000

/* Somebody with rights in one namespace would see a page of refusals. */
static bool open_sees_all(struct session *session)
{
    const struct session_request request = {
        .method = "POST",
        .path = STR("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        .content_type = "application/json",
        .body =
            STR("{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
                "\"spec\":{\"resourceAttributes\":{\"verb\":\"list\",\"group\":\"torchrun.ai\","
                "\"resource\":\"torchrunjobs\"}}}"),
        .timeout_ms = LINK_MS};
    struct json *answer = NULL;
    struct str body = STR_NONE;

    return session_http(session, &request, &body, NULL) != 201 ||
           json_parse(&session->arena, str_dup(&session->arena, body), &answer, NULL) < 0 ||
           json_bool_or(json_at(answer, "status.allowed"), true);
}

int open_link(struct session *session, const char **ret, struct err *err)
{
    const struct session_request request = {.method = "POST",
                                            .path = STR("/ui/link"),
                                            .content_type = "application/json",
                                            .body = STR("{}"),
                                            .timeout_ms = LINK_MS};
    struct json *answer = NULL;
    struct str body = STR_NONE;
    int status = session_http(session, &request, &body, err);

    if (status < 0)
        return status;
    if (json_parse(&session->arena, str_dup(&session->arena, body), &answer, NULL) < 0)
        return err_set(err, -EBADMSG, "the server answered %d: it serves no page", status);
    if (status != 201)
        return err_set(err, -EACCES, STR_FMT, STR_ARG(json_str(json_get(answer, "message"))));
    bool all = open_sees_all(session);
    *ret = str_printf(&session->arena, "%s/ui/enter%s%s#" STR_FMT, session->config.server,
                      all ? "" : "?ns=", all ? "" : session->config.ns,
                      STR_ARG(json_str(json_get(answer, "code"))))
               .p;
    return 0;
}

/* open JOB PORT: the address of a program in a pod of the job: TensorBoard, Jupyter.
 *
 * A pod of this machine has an address that this machine reaches: that is printed, and nothing has to
 * stay. Elsewhere a port of this machine is forwarded until it is interrupted. */

static const struct object *open_pod(struct session *session, const char *job, struct err *err)
{
    const struct object **pods = NULL;
    size_t count = 0;

    if (session_list_pods(session, job, &pods, &count, err) < 0)
        return NULL;
    const struct object *found = NULL;
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        struct json *tree = object_json(pods[i], &session->arena);
        int64_t index = 0;

        (void)str_to_i64(object_label(pods[i], "torchrun.ai/index"), &index);
        if (str_is(object_label(pods[i], "torchrun.ai/role"), "worker") &&
            str_is(json_str_at(tree, "status.phase"), "Running") && index < first) {
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

/* At the same port of this machine, or at any if that one is taken or not for us. */
static int open_listen(int64_t port, int64_t *ret_port, struct err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket_open(AF_INET, SOCK_STREAM, 0);
    int again = 1;

    if (fd < 0)
        return err_set(err, -errno, "socket: %s", errno_words(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again));
    address.sin_port = htons((uint16_t)port);
    int r = bind(fd, (struct sockaddr *)&address, sizeof(address));
    if (r < 0) {
        address.sin_port = 0;
        r = bind(fd, (struct sockaddr *)&address, sizeof(address));
    }
    /* One that is not bound would listen at every address of this machine. */
    if (r < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        r = err_set(err, -errno, "cannot listen at 127.0.0.1: %s", errno_words(errno));

        (void)close(fd);
        return r;
    }
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void open_say(void *user, const char *words)
{
    session_say(user, "%s", words);
}

static int open_elsewhere(struct session *session,
                          const struct object *pod,
                          int64_t port,
                          struct err *err)
{
    struct forward_request request = {.ns = str_c(&session->arena, pod->ns),
                                      .pod = str_c(&session->arena, pod->name),
                                      .port = (int)port,
                                      .say = open_say,
                                      .user = session};
    struct err refused = {0};
    int64_t here = 0;
    int r = forward_try(&session->loop, &session->config, &request, &refused);

    if (r < 0)
        return err_set(err, r, "port %lld of pod %s: %s", (long long)port, request.pod,
                       refused.text);
    request.listener = open_listen(port, &here, err);
    if (request.listener < 0)
        return request.listener;
    (void)printf("http://127.0.0.1:%lld\n", (long long)here);
    (void)fflush(stdout);
    if (here != port)
        session_say(session, "port %lld of this machine is not free", (long long)port);
    session_say(session, "port %lld of pod %s is forwarded until Ctrl-C", (long long)port,
                request.pod);
    r = forward_run(&session->loop, &session->config, &request, err);
    (void)close(request.listener);
    return r;
}

/* A pod of the muster of this machine can be reached from here; one behind an API server that only
 * looks as if it were here (kind, a tunnel) cannot. */
static int open_pod_port(struct session *session,
                         const struct object *pod,
                         int64_t port,
                         struct err *err)
{
    int r = session_is_local(session) ? session_is_muster(session, err) : 0;

    if (r < 0)
        return r;
    return r ? open_here(session, pod, port, err) : open_elsewhere(session, pod, port, err);
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
        r = open_pod_port(&session, pod, port, &err);
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
        "On one's own machine this is the address of the job's first pod. On a cluster the port is "
        "forwarded to this machine until the command is interrupted; kubectl is not needed.",
    .example = "kubectl torchrun open train-x7k2p 6006",
    .options = open_job_options,
    .values_size = sizeof(struct common_values),
    .args_min = 2,
    .args_max = 2,
    .run = open_job_run,
};
