#include "kube/auth.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "kube/kubeconfig.h"
#include "kube/transport.h"
#include "system/errors.h"
#include "system/files.h"
#include "system/process.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum exec_state {
    EXEC_NONE,
    EXEC_RUNNING,
    EXEC_HAVE,
    EXEC_FAILED,
};

/* A file without a name that holds PEM text. */
struct secret_file {
    struct private_file file;
    struct buf text;
    const char *from; /* the file it is read from again, or NULL */
};

/* One run of the plugin. It outlives its auth when that is freed first: then auth is NULL. */
struct exec_run {
    struct auth *auth;
    uv_process_t process;
    uv_pipe_t output;
    struct timer *limit;
    struct buf text;
    int handles; /* not yet closed */
    bool exited;
    bool drained;
    bool too_long;  /* the time */
    bool too_large; /* the output */
    int64_t status;
};

struct auth {
    uv_loop_t *loop;
    struct arena arena; /* the config */
    struct kube_config config;
    struct secret_file ca;
    struct secret_file cert;
    struct secret_file key;
    struct transport_tls tls;
    struct buf token;
    int64_t token_read_ms; /* 0: never, or not to be trusted any more */
    int64_t files_read_ms; /* of the certificates, the same way */
    enum exec_state exec_state;
    int64_t exec_until_ms; /* wall clock: run again after this; 0: never by itself */
    int64_t exec_ended_ms;
    struct exec_run *run;
    struct err exec_err;
    void (*changed)(void *user);
    void *user;
};

/* Under another path than before, so that no connection that was made with the old text is taken
 * for one of the new. */
static int secret_file_set(struct secret_file *file, struct str text, struct err *err)
{
    struct private_file new;

    if (private_file_open(&new, "muster-tls") < 0)
        return err_set(err, -errno, "cannot keep a certificate in memory: %s", errno_words(errno));
    for (size_t done = 0; done < text.len;) {
        ssize_t wrote = write(new.fd, text.p + done, text.len - done);

        if (wrote < 0) {
            int r = -errno;

            private_file_close(&new);
            return err_set(err, r, "cannot keep a certificate in memory: %s", errno_words(-r));
        }
        done += (size_t)wrote;
    }
    private_file_close(&file->file);
    file->file = new;
    buf_clear(&file->text);
    buf_add(&file->text, text);
    return 0;
}

static void secret_file_done(struct secret_file *file)
{
    private_file_close(&file->file);
    buf_done(&file->text);
}

/* ---- the exec plugin ---- */

/* {"kind":"ExecCredential","status":{"token":...,"expirationTimestamp":...}} */
static int take_credential(struct auth *auth, struct str text, struct err *err)
{
    struct arena arena = {0};
    struct json *root = NULL;
    struct json *status;
    struct str cert;
    struct str key;
    int64_t until_ms = 0;
    int r = json_parse(&arena, text, &root, err);

    if (r < 0) {
        arena_done(&arena);
        return err_wrap(err, r, "its output");
    }
    status = json_get(root, "status");
    cert = json_str(json_get(status, "clientCertificateData"));
    key = json_str(json_get(status, "clientKeyData"));
    if (!json_is(status, JSON_OBJECT))
        r = err_set(err, -EINVAL, "its output has no status");
    else if ((cert.len > 0) != (key.len > 0))
        r = err_set(err, -EINVAL,
                    "status.clientCertificateData needs status.clientKeyData, and the other way "
                    "round");
    buf_clear(&auth->token);
    buf_add(&auth->token, json_str(json_get(status, "token")));
    if (r == 0 && cert.len > 0) {
        r = secret_file_set(&auth->cert, cert, err);
        if (r == 0)
            r = secret_file_set(&auth->key, key, err);
        auth->tls.cert_file = auth->cert.file.path;
        auth->tls.key_file = auth->key.file.path;
    }
    if (r == 0 && auth->token.len == 0 && cert.len == 0)
        r = err_set(err, -EINVAL, "its output has neither token nor client certificate");
    if (r == 0 && !json_is_null(json_get(status, "expirationTimestamp")) &&
        !time_parse(json_str(json_get(status, "expirationTimestamp")), &until_ms))
        r = err_set(err, -EINVAL, "status.expirationTimestamp is not a moment (RFC 3339)");
    auth->exec_until_ms = until_ms > 0 ? until_ms - AUTH_EARLY_MS : 0;
    arena_done(&arena);
    return r;
}

static void run_closed(uv_handle_t *handle)
{
    struct exec_run *run = handle->data;

    if (--run->handles > 0)
        return;
    buf_done(&run->text);
    mem_free(run);
}

static void run_close(struct exec_run *run)
{
    if (run->auth)
        run->auth->run = NULL;
    run->auth = NULL;
    uv_close((uv_handle_t *)&run->process, run_closed);
    uv_close((uv_handle_t *)&run->output, run_closed);
    timer_free(run->limit);
}

/* Once it has ended its number may be another's. */
static void run_kill(struct exec_run *run)
{
    if (!run->exited)
        uv_process_kill(&run->process, SIGKILL);
}

/* A child of the plugin may hold the pipe open: its end is not waited for. */
static void run_give_up(struct exec_run *run)
{
    run->drained = true;
    uv_read_stop((uv_stream_t *)&run->output);
    run_kill(run);
}

static void run_finish(struct exec_run *run)
{
    struct auth *auth = run->auth;
    const struct kubeconfig_exec *exec = auth ? auth->config.exec : NULL;
    int r;

    if (!run->exited || !run->drained)
        return;
    if (!auth) {
        run_close(run);
        return;
    }
    auth->exec_err = (struct err){0};
    if (run->too_long)
        r = err_set(&auth->exec_err, -ETIMEDOUT, "did not end within %d s", AUTH_EXEC_MS / 1000);
    else if (run->too_large)
        r = err_set(&auth->exec_err, -EMSGSIZE, "more than %zu bytes of output",
                    AUTH_EXEC_BYTES_MAX);
    else if (run->status != 0)
        r = err_set(&auth->exec_err, -EACCES, "exit status %lld", (long long)run->status);
    else
        r = take_credential(auth, buf_str(&run->text), &auth->exec_err);
    if (r < 0)
        (void)err_wrap(&auth->exec_err, r, "%s: exec plugin %s", auth->config.source,
                       exec->command);
    auth->exec_state = r < 0 ? EXEC_FAILED : EXEC_HAVE;
    auth->exec_ended_ms = clock_monotonic_ms();
    run_close(run);
    auth->changed(auth->user);
}

static void on_plugin_exit(uv_process_t *process, int64_t status, int signal)
{
    struct exec_run *run = process->data;

    run->exited = true;
    run->status = signal ? 128 + signal : status;
    run_finish(run);
}

static void on_room(uv_handle_t *handle, size_t wanted, uv_buf_t *buf)
{
    struct exec_run *run = handle->data;

    *buf = uv_buf_init(buf_room(&run->text, wanted), (unsigned int)wanted);
    if (!buf->base)
        buf->len = 0; /* too much output: the read ends with UV_ENOBUFS */
}

static void on_output(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct exec_run *run = stream->data;

    (void)buf;
    if (got >= 0) {
        run->text.len += (size_t)got;
        return;
    }
    uv_read_stop(stream);
    run->drained = true;
    if (got == UV_ENOBUFS) { /* it would wait for a reader for ever */
        run->too_large = true;
        run_kill(run);
    }
    run_finish(run);
}

static void on_limit(void *user)
{
    struct exec_run *run = user;

    run->too_long = true;
    run_give_up(run);
    run_finish(run);
}

/* The environment of the plugin: ours, its own variables, and KUBERNETES_EXEC_INFO. */
static char **exec_environment(struct arena *arena, const struct auth *auth)
{
    const struct kube_config *config = &auth->config;
    const struct kubeconfig_exec *exec = config->exec;
    struct json *info = json_new_object(arena);
    struct json *spec;
    VEC(char *) env = {0};

    json_add_c(arena, info, "kind", "ExecCredential");
    json_add_c(arena, info, "apiVersion", exec->api_version);
    spec = json_add_object(arena, info, "spec");
    json_add_bool(arena, spec, "interactive", false);
    if (exec->provide_cluster_info) {
        struct json *cluster = json_add_object(arena, spec, "cluster");

        json_add_c(arena, cluster, "server", config->server);
        if (auth->tls.server_name)
            json_add_c(arena, cluster, "tls-server-name", auth->tls.server_name);
        if (config->proxy)
            json_add_c(arena, cluster, "proxy-url", config->proxy);
        json_add_bool(arena, cluster, "insecure-skip-tls-verify", config->insecure);
        json_add_str(arena, cluster, "certificate-authority-data",
                     base64_encode(arena, buf_str(&auth->ca.text)));
    }
    for (char **at = process_environment(); *at; at++)
        VEC_PUSH(arena, &env, *at);
    for (size_t i = 0; i < exec->env_count; i++)
        VEC_PUSH(arena, &env,
                 str_c(arena, str_printf(arena, "%s=%s", exec->env[i].name, exec->env[i].value)));
    VEC_PUSH(arena, &env,
             str_c(arena, str_printf(arena, "KUBERNETES_EXEC_INFO=" STR_FMT,
                                     STR_ARG(json_text(arena, info)))));
    VEC_PUSH(arena, &env, NULL);
    return env.items;
}

static int exec_start(struct auth *auth, struct err *err)
{
    const struct kubeconfig_exec *exec = auth->config.exec;
    struct exec_run *run = MEM_NEW(struct exec_run);
    struct arena arena = {0};
    VEC(char *) argv = {0};
    uv_stdio_container_t stdio[3] = {
        {.flags = UV_IGNORE},
        {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&run->output},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO}};
    int r;

    run->auth = auth;
    run->handles = 2;
    run->text.bytes_max = AUTH_EXEC_BYTES_MAX;
    run->process.data = run->output.data = run;
    uv_pipe_init(auth->loop, &run->output, 0);
    run->output.data = run;
    run->limit = timer_new(auth->loop, run);
    VEC_PUSH(&arena, &argv, str_c(&arena, str_from(exec->command)));
    for (size_t i = 0; exec->args[i]; i++)
        VEC_PUSH(&arena, &argv, str_c(&arena, str_from(exec->args[i])));
    VEC_PUSH(&arena, &argv, NULL);
    r = uv_spawn(auth->loop, &run->process,
                 &(uv_process_options_t){.file = exec->command,
                                         .args = argv.items,
                                         .env = exec_environment(&arena, auth),
                                         .stdio = stdio,
                                         .stdio_count = 3,
                                         .exit_cb = on_plugin_exit});
    run->process.data = run;
    arena_done(&arena);
    if (r < 0) {
        run_close(run);
        auth->exec_state = EXEC_FAILED;
        auth->exec_ended_ms = clock_monotonic_ms();
        (void)err_set(&auth->exec_err, r, "%s: exec plugin %s does not start: %s%s%s",
                      auth->config.source, exec->command, uv_strerror(r),
                      exec->install_hint ? ": " : "", exec->install_hint ? exec->install_hint : "");
        return err_set(err, r, "%s", auth->exec_err.text);
    }
    auth->run = run;
    auth->exec_state = EXEC_RUNNING;
    uv_read_start((uv_stream_t *)&run->output, on_room, on_output);
    timer_in(run->limit, AUTH_EXEC_MS, on_limit);
    return 0;
}

static int exec_token(struct auth *auth, struct err *err)
{
    bool rested = clock_monotonic_ms() - auth->exec_ended_ms >= AUTH_EXEC_RETRY_MS;
    /* A credential that ends at once, or by a clock that is not ours, is used all the same. */
    bool old = rested && auth->exec_until_ms > 0 && clock_now_ms() >= auth->exec_until_ms;
    int r;

    if (auth->exec_state == EXEC_RUNNING)
        return -EAGAIN;
    if (auth->exec_state == EXEC_HAVE && !old)
        return 0;
    if (auth->exec_state == EXEC_FAILED && !rested)
        return err_set(err, auth->exec_err.code, "%s", auth->exec_err.text);
    r = exec_start(auth, err);
    return r < 0 ? r : -EAGAIN;
}

/* ---- tokens ---- */

static int file_token(struct auth *auth, struct err *err)
{
    int64_t now_ms = clock_monotonic_ms();
    struct arena arena = {0};
    struct str text;
    int r;

    if (auth->token_read_ms && now_ms - auth->token_read_ms < AUTH_FILE_MS)
        return 0;
    r = file_read(&arena, auth->config.token_file, &text, err);
    if (r == 0 && str_trim(text).len == 0)
        r = err_set(err, -EINVAL, "%s is empty", auth->config.token_file);
    if (r < 0)
        (void)err_wrap(err, r, "%s: tokenFile", auth->config.source);
    if (r == 0) {
        buf_clear(&auth->token);
        buf_add(&auth->token, str_trim(text));
        auth->token_read_ms = now_ms;
    } else if (auth->token.len > 0) {
        r = 0; /* being replaced just now: the old one is still good */
    }
    arena_done(&arena);
    return r;
}

/* ---- certificates from files ---- */

/* All of the file: PEM ends with a line that says so. */
static bool read_whole(struct arena *arena, const struct secret_file *file, struct str *ret)
{
    return file->from && file_read(arena, file->from, ret, NULL) == 0 &&
           str_contains(*ret, STR("\n-----END "));
}

static bool is_new(const struct secret_file *file, struct str text)
{
    return !str_eq(text, buf_str(&file->text));
}

static void files_again(struct auth *auth)
{
    int64_t now_ms = clock_monotonic_ms();
    struct arena arena = {0};
    bool changed = false;
    struct str ca;
    struct str cert;
    struct str key;

    if ((!auth->ca.from && !auth->cert.from) ||
        (auth->files_read_ms && now_ms - auth->files_read_ms < AUTH_FILE_MS))
        return;
    auth->files_read_ms = now_ms;
    if (read_whole(&arena, &auth->ca, &ca) && is_new(&auth->ca, ca))
        changed = secret_file_set(&auth->ca, ca, NULL) == 0;
    if (read_whole(&arena, &auth->cert, &cert) && read_whole(&arena, &auth->key, &key) &&
        (is_new(&auth->cert, cert) || is_new(&auth->key, key)))
        changed |= secret_file_set(&auth->cert, cert, NULL) == 0 &&
                   secret_file_set(&auth->key, key, NULL) == 0;
    arena_done(&arena);
    if (changed)
        auth->changed(auth->user);
}

void auth_doubt(struct auth *auth)
{
    auth->files_read_ms = 0;
}

int auth_token(struct auth *auth, struct str *ret, struct err *err)
{
    int r = 0;

    files_again(auth);
    if (auth->config.exec)
        r = exec_token(auth, err);
    else if (auth->config.token_file)
        r = file_token(auth, err);
    if (r < 0)
        return r;
    *ret = buf_str(&auth->token);
    return 0;
}

bool auth_expire(struct auth *auth)
{
    if (auth->config.exec) {
        if (auth->exec_state == EXEC_HAVE)
            auth->exec_state = EXEC_NONE;
        return true;
    }
    auth->token_read_ms = 0;
    return auth->config.token_file != NULL;
}

/* ---- open and close ---- */

static const char *keep(struct auth *auth, const char *text)
{
    return text ? str_c(&auth->arena, str_from(text)) : NULL;
}

static void keep_exec(struct auth *auth, const struct kubeconfig_exec *from)
{
    struct kubeconfig_exec *exec = ARENA_NEW(&auth->arena, struct kubeconfig_exec);
    struct kubeconfig_env *env =
        ARENA_ARRAY(&auth->arena, struct kubeconfig_env, from->env_count + 1);
    VEC(const char *) args = {0};

    *exec = *from;
    exec->api_version = keep(auth, from->api_version);
    exec->command = keep(auth, from->command);
    exec->install_hint = keep(auth, from->install_hint);
    for (size_t i = 0; from->args[i]; i++)
        VEC_PUSH(&auth->arena, &args, keep(auth, from->args[i]));
    VEC_PUSH(&auth->arena, &args, NULL);
    exec->args = args.items;
    for (size_t i = 0; i < from->env_count; i++)
        env[i] =
            (struct kubeconfig_env){keep(auth, from->env[i].name), keep(auth, from->env[i].value)};
    exec->env = env;
    auth->config.exec = exec;
}

static int keep_config(struct auth *auth, const struct kube_config *config, struct err *err)
{
    int r = 0;

    auth->config = (struct kube_config){
        .source = keep(auth, config->source),
        .server = keep(auth, config->server),
        .proxy = keep(auth, config->proxy),
        .token_file = keep(auth, config->token_file),
        .insecure = config->insecure,
    };
    if (config->exec)
        keep_exec(auth, config->exec);
    if (config->token)
        buf_add(&auth->token, str_from(config->token));
    auth->tls.server_name = keep(auth, config->server_name);
    auth->tls.insecure = config->insecure;
    auth->ca.from = keep(auth, config->ca_file);
    auth->cert.from = keep(auth, config->cert_file);
    auth->key.from = keep(auth, config->key_file);
    auth->files_read_ms = clock_monotonic_ms();
    if (config->ca_pem.len > 0) {
        r = secret_file_set(&auth->ca, config->ca_pem, err);
        auth->tls.ca_file = auth->ca.file.path;
    }
    if (r == 0 && config->cert_pem.len > 0) {
        r = secret_file_set(&auth->cert, config->cert_pem, err);
        if (r == 0)
            r = secret_file_set(&auth->key, config->key_pem, err);
        auth->tls.cert_file = auth->cert.file.path;
        auth->tls.key_file = auth->key.file.path;
    }
    return r;
}

int auth_new(struct uv_loop_s *loop,
             const struct kube_config *config,
             void (*changed)(void *user),
             void *user,
             struct auth **ret,
             struct err *err)
{
    struct auth *auth = MEM_NEW(struct auth);
    int r;

    auth->loop = loop;
    auth->changed = changed;
    auth->user = user;
    auth->ca.file.fd = auth->cert.file.fd = auth->key.file.fd = -1;
    r = keep_config(auth, config, err);
    if (r < 0) {
        auth_free(auth);
        return r;
    }
    *ret = auth;
    return 0;
}

void auth_free(struct auth *auth)
{
    if (!auth)
        return;
    if (auth->run) {
        run_give_up(auth->run);
        auth->run->auth = NULL;
    }
    secret_file_done(&auth->ca);
    secret_file_done(&auth->cert);
    secret_file_done(&auth->key);
    buf_done(&auth->token);
    arena_done(&auth->arena);
    mem_free(auth);
}

const char *auth_server(const struct auth *auth)
{
    return auth->config.server;
}

const char *auth_proxy(const struct auth *auth)
{
    return auth->config.proxy;
}

const struct transport_tls *auth_tls(const struct auth *auth)
{
    return &auth->tls;
}
