#include "api/api.h"
#include "api/kind.h"
#include "api/launch.h"
#include "api/object.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "kube/client.h"
#include "kube/kube.h"
#include "plugin/job.h"
#include "plugin/local.h"
#include "plugin/plugin.h"
#include "system/process.h"
#include "tool/clock.h"
#include "tool/timer.h"
#include "workspace/door.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PER_SECOND 200
#define PAGE       500
#define VERSION_MS 10000

const char *const output_names[] = {"table", "wide", "json", "yaml", "name", NULL};

/* Where `muster up` leaves its kubeconfig when nobody named another place. One of the person's own
 * that has ended is started again: it is what keeps their jobs. */
static int session_use_local(struct session *session,
                             struct kubeconfig_options *options,
                             bool start,
                             struct err *err)
{
    struct arena *arena = &session->config_arena;
    const char *folder = local_folder(arena);
    int r = 0;

    if (local_holder(folder) == 0 && (start || local_is_own(folder))) {
        r = local_start(arena, folder, err);
        if (r > 0)
            session_say(session,
                        "started a muster of your own for this machine; it ends after " LOCAL_IDLE
                        " without work, and `muster stop` ends it now");
    }
    /* One that somebody else has started a moment ago has no kubeconfig yet, or an old one. */
    if (r == 0 && local_holder(folder) != 0)
        r = local_await(arena, folder, err);
    options->path = local_kubeconfig(arena);
    return r < 0 ? r : kubeconfig_load(arena, options, &session->config, err);
}

/* kubectl's order, and the muster of this machine last. For `muster` itself this machine comes
 * before other clusters: what its `run` started here, its other words must find. */
static int find_config(struct session *session,
                       const struct common_values *common,
                       enum session_place place,
                       struct err *err)
{
    struct kubeconfig_options options = {
        .path = common->kubeconfig,
        .env = getenv("KUBECONFIG"),
        .home = getenv("HOME"),
        .context = common->context,
        .ns = common->ns,
    };
    int r = kubeconfig_load(&session->config_arena, &options, &session->config, err);
    bool here =
        place == SESSION_HERE || (place == SESSION_NEAR && local_is_here(&session->config_arena));

    if (common->kubeconfig || common->context || (r < 0 && r != -ENOENT))
        return r;
    if (r == 0 && (!here || local_is_served(&session->config)))
        return 0;
    if (here)
        return session_use_local(session, &options, place == SESSION_HERE, err);
    if (options.env && *options.env)
        return r;
    r = kubeconfig_in_cluster(&session->config_arena, getenv("KUBERNETES_SERVICE_HOST"),
                              getenv("KUBERNETES_SERVICE_PORT"), &session->config, err);
    if (r == 0 && common->ns)
        session->config.ns = common->ns;
    if (r != -ENOENT)
        return r;
    if (access(local_kubeconfig(&session->config_arena), R_OK) == 0)
        return session_use_local(session, &options, false, err);
    if (strcmp(session->program, "muster") == 0)
        return err_set(
            err, -ENOENT,
            "there is no muster here yet: `muster run train.py` starts one with its first job, and "
            "`muster up` one that stays; a cluster is named by KUBECONFIG");
    return err_set(err, -ENOENT,
                   "no cluster: neither ~/.kube/config nor %s exists; set KUBECONFIG or start "
                   "`muster up`",
                   local_kubeconfig(&session->config_arena));
}

static void on_timer(void *user)
{
    (void)user; /* only to end a turn of the loop */
}

struct session session_closed(const struct invocation *invocation)
{
    return (struct session){.program = invocation->program->name,
                            .command = invocation->command->name};
}

int session_open(struct session *session, const struct invocation *invocation, struct err *err)
{
    bool near = strcmp(invocation->program->name, "muster") == 0;

    return session_open_at(session, invocation, near ? SESSION_NEAR : SESSION_ANYWHERE, err);
}

int session_open_at(struct session *session,
                    const struct invocation *invocation,
                    enum session_place place,
                    struct err *err)
{
    int r;

    *session = session_closed(invocation);
    session->out = term_open(STDOUT_FILENO, process_environment());
    session->err = term_open(STDERR_FILENO, process_environment());
    (void)uv_loop_init(&session->loop);
    session->timer = timer_new(&session->loop, session);
    r = find_config(session, invocation->values, place, err);
    if (r < 0)
        return r;
    r = kube_open(&session->loop,
                  &(struct kube_options){.config = &session->config,
                                         .user_agent = "kubectl-torchrun/" MUSTER_VERSION,
                                         .per_second = PER_SECOND,
                                         .burst = 2 * PER_SECOND},
                  &session->kube, err);
    if (r < 0)
        return r;
    session->api = kube_api(session->kube);
    return client_new(&(struct client_options){.loop = &session->loop,
                                               .config = &session->config,
                                               .user_agent = "kubectl-torchrun/" MUSTER_VERSION,
                                               .per_second = PER_SECOND,
                                               .burst = 2 * PER_SECOND,
                                               .under_way_max = KUBE_UNDER_WAY},
                      &session->client, err);
}

static void close_handle(uv_handle_t *handle, void *user)
{
    (void)user;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void session_close(struct session *session)
{
    client_free(session->client);
    kube_close(session->kube);
    timer_free(session->timer);
    uv_walk(&session->loop, close_handle, NULL);
    while (uv_run(&session->loop, UV_RUN_NOWAIT) != 0)
        ;
    (void)uv_loop_close(&session->loop);
    arena_done(&session->arena);
    arena_done(&session->config_arena);
}

bool session_is_local(const struct session *session)
{
    return local_is_address(session->config.server ? session->config.server : "");
}

int session_fail(struct session *session, const struct err *err)
{
    bool down = err->code == -ECONNREFUSED && err->http_status == 0 && session_is_local(session);

    (void)fprintf(stderr, "%s %s: %s%s\n", session->program, session->command, err->text,
                  down ? "; start it with `muster up`, or name another cluster in KUBECONFIG" : "");
    return 1;
}

void session_say(struct session *session, const char *fmt, ...)
{
    va_list args;

    (void)session;
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

/* An answer may come out of a timer of the client, and then the loop would go on to sleep although
 * there is nothing to wait for any more. */
static void answered(struct session *session)
{
    uv_stop(&session->loop);
}

void session_turn(struct session *session, int64_t limit_ms)
{
    timer_in(session->timer, limit_ms, on_timer);
    (void)uv_run(&session->loop, UV_RUN_ONCE);
    timer_cancel(session->timer);
}

void session_pause(struct session *session, int64_t pause_ms)
{
    int64_t until = clock_monotonic_ms() + pause_ms;

    for (int64_t now = clock_monotonic_ms(); now < until; now = clock_monotonic_ms())
        session_turn(session, until - now);
}

/* ---- struct api, waiting ---- */

struct waiting_call {
    struct session *session;
    struct object *object;
    const struct object **items;
    size_t item_count;
    struct str continue_token;
    int code;
    struct err err;
    bool done;
};

static void on_call_done(void *user, const struct api_result *result)
{
    struct waiting_call *call = user;
    struct arena *arena = &call->session->arena;

    answered(call->session);
    call->done = true;
    call->code = result->code;
    if (result->err)
        call->err = *result->err;
    if (result->object)
        call->object = object_ref(result->object);
    if (result->item_count) {
        call->items = ARENA_ARRAY(arena, const struct object *, result->item_count);
        for (size_t i = 0; i < result->item_count; i++) {
            call->items[i] = object_ref(result->items[i]);
            arena_defer(arena, object_release, object_ref(result->items[i]));
            object_unref(call->items[i]);
        }
        call->item_count = result->item_count;
    }
    if (result->continue_token.len)
        call->continue_token = str_dup(arena, result->continue_token);
}

static int wait_call(struct session *session,
                     const struct api_request *request,
                     struct waiting_call *call,
                     struct err *err)
{
    *call = (struct waiting_call){.session = session};
    api_call(session->api, request, on_call_done, call);
    while (!call->done)
        session_turn(session, 1000);
    if (call->code < 0 && err)
        *err = call->err;
    return call->code;
}

int session_call(struct session *session,
                 const struct api_request *request,
                 struct object **ret_object,
                 struct err *err)
{
    struct waiting_call call;
    int r = wait_call(session, request, &call, err);

    if (r == 0 && ret_object)
        *ret_object = call.object;
    else
        object_unref(call.object);
    return r;
}

int session_get(struct session *session,
                const struct kind *kind,
                const char *name,
                struct object **ret,
                struct err *err)
{
    struct err why = {0};
    int r = session_call(
        session,
        &(struct api_request){.verb = API_GET,
                              .kind = kind,
                              .ns = kind->namespaced ? str_from(session->config.ns) : STR(""),
                              .name = str_from(name)},
        ret, &why);

    if (r < 0 && why.http_status == 404)
        return err_set(err, -ENOENT, "%s %s does not exist in namespace %s", kind->singular, name,
                       session->config.ns);
    if (r < 0 && err)
        *err = why;
    return r;
}

int session_list(struct session *session,
                 const struct kind *kind,
                 const char *ns,
                 const char *label_selector,
                 const struct object ***ret,
                 size_t *ret_count,
                 struct err *err)
{
    VEC(const struct object *) all = {0};
    struct str token = STR("");

    do {
        struct waiting_call call;
        struct api_request request = {
            .verb = API_LIST,
            .kind = kind,
            .ns = !kind->namespaced || strcmp(ns, "*") == 0 ? STR("") : str_from(ns),
            .label_selector = str_from(label_selector ? label_selector : ""),
            .limit = PAGE,
            .continue_token = token,
        };
        int r = wait_call(session, &request, &call, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < call.item_count; i++)
            VEC_PUSH(&session->arena, &all, call.items[i]);
        token = call.continue_token;
    } while (token.len);
    *ret = all.items;
    *ret_count = all.count;
    return 0;
}

int session_list_pods(struct session *session,
                      const char *job,
                      const struct object ***ret,
                      size_t *ret_count,
                      struct err *err)
{
    size_t own = 0, count = 0;
    int r =
        session_list(session, &kind_pod, session->config.ns,
                     str_printf(&session->arena, "torchrun-job-name=%s", job).p, ret, &count, err);

    for (size_t i = 0; r == 0 && i < count; i++)
        if (job_owns(job, (*ret)[i]))
            (*ret)[own++] = (*ret)[i];
    *ret_count = own;
    return r;
}

int session_patch(struct session *session,
                  const struct kind *kind,
                  const char *name,
                  struct str patch,
                  struct err *err)
{
    return session_call(session,
                        &(struct api_request){.verb = API_PATCH,
                                              .kind = kind,
                                              .ns = str_from(session->config.ns),
                                              .name = str_from(name),
                                              .body = patch,
                                              .patch = API_PATCH_MERGE},
                        NULL, err);
}

/* ---- plain requests, waiting ---- */

struct waiting_http {
    struct session *session;
    int status;
    int code;
    struct err err;
    struct str body;
    bool done;
};

static void on_http_done(void *user, const struct transport_reply *reply)
{
    struct waiting_http *call = user;

    answered(call->session);
    call->done = true;
    call->code = reply->code;
    call->status = reply->status;
    if (reply->err)
        call->err = *reply->err;
    call->body = str_dup(&call->session->arena, reply->body);
}

int session_http(struct session *session,
                 const struct session_request *request,
                 struct str *ret_body,
                 struct err *err)
{
    struct waiting_http call = {.session = session};
    struct client_request sent = {
        .class = LIMITER_NORMAL,
        .method = request->method,
        .path = request->path,
        .content_type = request->content_type,
        .accept = "*/*",
        .body = request->body,
        .header = request->header,
        .timeout_ms = request->timeout_ms,
        .done = on_http_done,
        .user = &call,
    };

    (void)client_send(session->client, &sent);
    while (!call.done)
        session_turn(session, 1000);
    if (call.code < 0) {
        if (err)
            *err = call.err;
        return call.code;
    }
    if (ret_body)
        *ret_body = call.body;
    return call.status;
}

int session_is_muster(struct session *session, struct err *err)
{
    struct str body = STR("");
    struct session_request request = {
        .method = "GET", .path = STR("/version"), .timeout_ms = VERSION_MS};
    int status = session_http(session, &request, &body, err);

    if (status < 0)
        return status;
    return status == 200 && str_contains(body, STR("+muster-"));
}

struct str session_error_text(struct session *session, struct str body)
{
    struct json *status;

    if (json_parse(&session->arena, body, &status, NULL) == 0) {
        struct str message = json_str(json_get(status, "message"));

        if (message.len)
            return message;
    }
    return str_trim(str_sub(body, 0, 200));
}

struct str sync_path(struct session *session, const char *job, const char *what)
{
    return str_printf(&session->arena, "/api/v1/namespaces/%s/pods/%s-sync-0:%d/proxy/v1/%s",
                      session->config.ns, job, LAUNCH_SYNC_PORT, what);
}

struct str sync_commit_path(struct session *session, const char *job)
{
    const struct passwd *entry = getpwuid(geteuid());
    char text[160];
    char host[64] = "";

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(text, sizeof(text), "commit?by=%.60s@%s", entry ? entry->pw_name : "unknown",
                   host);
    for (char *c = text + strlen("commit?by="); *c; c++)
        if (!strchr("@.-_", *c) && !isalnum((unsigned char)*c))
            *c = '_';
    return sync_path(session, job, text);
}

int sync_header(struct session *session, const char *job, struct str *ret, struct err *err)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    _cleanup_(object_unrefp) struct object *secret = NULL;
    struct arena *arena = &session->arena;
    struct err why = {0};
    struct str value;
    int r;

    *ret = session->sync_header;
    if (str_is(session->sync_job, job))
        return 0;
    r = session_get(session, &kind_torchrunjob, job, &object, err);
    if (r < 0)
        return r;
    assert(object);
    struct str name = LAUNCH_SECRET_NAME(arena, object->name, object->uid);
    r = session_get(session, &kind_secret, name.p, &secret, &why);
    *ret = STR_NONE;
    if (r == -ENOENT)
        return 0;
    if (r == -EACCES && client_is_settling(session->client))
        return err_set(err, -EAGAIN, "the secret of job %s: %s", job, why.text);
    if (r == -EACCES)
        return err_set(err, r,
                       "the workspace of job %s is for people who may get secrets in namespace %s "
                       "(Secret " STR_FMT "); ask for that right: %s",
                       job, session->config.ns, STR_ARG(name), why.text);
    if (r < 0)
        return err_set(err, r, "the secret of job %s: %s", job, why.text);
    if (!base64_decode(arena, json_str_at(object_json(secret, arena), "data." LAUNCH_SECRET_KEY),
                       &value))
        return err_set(err, -EINVAL, "Secret " STR_FMT " has no data." LAUNCH_SECRET_KEY,
                       STR_ARG(name));
    session->sync_job = str_dup(&session->config_arena, str_from(job));
    session->sync_header =
        str_printf(&session->config_arena, DOOR_HEADER ": " STR_FMT, STR_ARG(value));
    *ret = session->sync_header;
    return 0;
}

int sync_http(struct session *session,
              const char *job,
              const struct session_request *request,
              struct str *ret_body,
              struct err *err)
{
    struct session_request sent = *request;

    for (int tries = 0;; tries++) {
        int r = sync_header(session, job, &sent.header, err);

        if (r == 0)
            r = session_http(session, &sent, ret_body, err);
        if (r != 401 || tries)
            return r;
        /* The secret came after we looked, or the job is another one of the same name. */
        session->sync_job = STR_NONE;
        session->sync_header = STR_NONE;
    }
}
