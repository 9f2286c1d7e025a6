#include "agent/check.h"

#include "agent/core.h"
#include "agent/dial.h"
#include "agent/exec.h"
#include "agent/lifecycle.h"
#include "agent/network.h"
#include "agent/pod.h"
#include "agent/secure.h"
#include "agent/stream.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#define REPLY_BYTES 1024 /* of an HTTP answer: its first line is what counts */
#define WORDS_BYTES 512

struct check {
    struct agent *agent;
    check_done_fn *done;
    void *user;
    bool over; /* done was called, or nobody wants it any more */
    bool result;
    struct buf words;
    struct podio_stream *exec;
    struct secure *secure;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct timer *timer;
    bool tcp_open;
    int handles_open;
    bool http;
    bool sleeping;
    bool refused; /* nobody was asked; the words say why */
    struct buf request;
    char reply[REPLY_BYTES + 1];
    size_t reply_len;
};

static void check_closed(void *user)
{
    struct check *check = user;
    if (--check->handles_open)
        return;
    buf_done(&check->words);
    buf_done(&check->request);
    struct agent *agent = check->agent;
    mem_free(check);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void tcp_closed(uv_handle_t *handle)
{
    check_closed(handle->data);
}

static void check_release(struct check *check)
{
    check->over = true;
    if (check->exec)
        check->exec->ops->close(check->exec);
    check->exec = NULL;
    secure_cancel(check->secure);
    check->secure = NULL;
    if (check->tcp_open)
        uv_close((uv_handle_t *)&check->tcp, tcp_closed);
    check->tcp_open = false;
    timer_close(check->timer, check_closed);
}

void check_cancel(struct check *check)
{
    if (check && !check->over)
        check_release(check);
}

static void check_finish(struct check *check, bool ok)
{
    if (check->over)
        return;
    check->over = true;
    check->done(check->user, ok, buf_str(&check->words));
    check->over = false;
    check_release(check);
}

static void on_timeout(void *user)
{
    struct check *check = user;
    if (!check->sleeping && !check->refused)
        buf_add(&check->words, STR("timed out"));
    check_finish(check, check->sleeping);
}

/* ---- exec ---- */

static void exec_data(void *user, int channel, struct str bytes)
{
    (void)channel;
    struct check *check = user;
    buf_add(&check->words, str_sub(bytes, 0, WORDS_BYTES));
}

static void exec_end(void *user, int exit_code, const struct err *err)
{
    struct check *check = user;
    if (err)
        buf_add(&check->words, str_from(err->text));
    check_finish(check, !err && exit_code == 0);
}

static void check_exec(struct check *check, const struct check_request *request)
{
    VEC(struct str) command = {0};
    _cleanup_(arena_done) struct arena arena = {0};
    JSON_FOREACH(json_at(request->action, "exec.command"), word)
        VEC_PUSH(&arena, &command, json_str(word));
    struct podio_exec_request exec = {.ns = request->pod->ns,
                                      .pod = request->pod->name,
                                      .container =
                                          request->pod->run.containers[request->container].name,
                                      .command = command.items,
                                      .command_count = command.count};
    struct podio_reader reader = {.data = exec_data, .end = exec_end, .user = check};
    check->exec = exec_open(&check->agent->podio, &exec, &reader);
}

/* ---- httpGet and tcpSocket ---- */

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)size;
    struct check *check = handle->data;
    *buf = uv_buf_init(check->reply + check->reply_len, (unsigned)(REPLY_BYTES - check->reply_len));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct check *check = stream->data;
    if (n > 0) {
        check->reply_len += (size_t)n;
        check->reply[check->reply_len] = '\0';
    }
    int status = 0;
    bool line = strchr(check->reply, '\n') != NULL || check->reply_len == REPLY_BYTES;
    if (n >= 0 && !line)
        return;
    if (sscanf(check->reply, "HTTP/%*d.%*d %d", &status) != 1)
        buf_add(&check->words, STR("the answer is not HTTP"));
    else
        buf_addf(&check->words, "HTTP probe failed with statuscode: %d", status);
    check_finish(check, status >= 200 && status < 400);
}

static void on_written(uv_write_t *write, int status)
{
    struct check *check = write->data;
    if (status < 0)
        return; /* cancelled, or the read end says it */
    (void)uv_read_start((uv_stream_t *)&check->tcp, on_alloc, on_read);
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct check *check = connect->data;
    if (status == UV_ECANCELED || check->over)
        return;
    if (status < 0)
        buf_addf(&check->words, "cannot connect: %s", uv_strerror(status));
    if (status < 0 || !check->http) {
        check_finish(check, status >= 0);
        return;
    }
    uv_buf_t buf = uv_buf_init(check->request.p, (unsigned)check->request.len);
    check->write.data = check;
    if (uv_write(&check->write, (uv_stream_t *)&check->tcp, &buf, 1, on_written) < 0)
        check_finish(check, false);
}

static int64_t port_number(const struct check_request *request, const struct json *port)
{
    int64_t number = 0;
    if (json_i64(port, &number) || str_to_i64(json_str(port), &number))
        return number;
    JSON_FOREACH(json_get(pod_container_spec(request->pod, request->container), "ports"), entry)
        if (str_eq(json_str(json_get(entry, "name")), json_str(port)))
            return json_i64_or(json_get(entry, "containerPort"), 0);
    return 0;
}

/* In a request a line that ends is the next header's, or the next request's. */
static bool is_of_one_line(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.p[i] < ' ' && text.p[i] != '\t') || text.p[i] == 0x7f)
            return false;
    return true;
}

static bool request_is_plain(const struct json *get)
{
    bool plain = is_of_one_line(json_str(json_get(get, "path")));
    JSON_FOREACH(json_get(get, "httpHeaders"), header)
        plain = plain && is_of_one_line(json_str(json_get(header, "name"))) &&
                is_of_one_line(json_str(json_get(header, "value")));
    return plain;
}

static void request_build(struct check *check,
                          const struct json *get,
                          const char *host,
                          int64_t port)
{
    struct str path = json_str(json_get(get, "path"));
    buf_addf(&check->request, "GET " STR_FMT " HTTP/1.1\r\nHost: %s:%lld\r\n",
             STR_ARG(path.len ? path : STR("/")), host, (long long)port);
    JSON_FOREACH(json_get(get, "httpHeaders"), header)
        buf_addf(&check->request, STR_FMT ": " STR_FMT "\r\n",
                 STR_ARG(json_str(json_get(header, "name"))),
                 STR_ARG(json_str(json_get(header, "value"))));
    buf_add(&check->request,
            STR("User-Agent: kube-probe/1.32\r\nAccept: */*\r\nConnection: close\r\n\r\n"));
}

static void secure_done(void *user, bool ok, struct str words)
{
    struct check *check = user;
    check->secure = NULL;
    buf_add(&check->words, words);
    check_finish(check, ok);
}

static int check_socket(struct check *check, const struct check_request *request)
{
    const struct json *get = json_get(request->action, "httpGet");
    const struct json *grpc = json_get(request->action, "grpc");
    const struct json *target = get ? get : grpc ? grpc : json_get(request->action, "tcpSocket");
    char host[64];
    struct str given = json_str(json_get(target, "host"));
    (void)snprintf(host, sizeof(host), STR_FMT,
                   STR_ARG(given.len ? given : str_from(request->pod->ip)));
    int64_t port = port_number(request, json_get(target, "port"));
    struct sockaddr_in to;
    if (port <= 0 || port > UINT16_MAX || uv_ip4_addr(host, (int)port, &to) < 0) {
        buf_addf(&check->words, "no such port or address: %s", host);
        return -EINVAL;
    }
    if (given.len && network_has_bridge(request->pod) && dial_is_loopback(&to)) {
        buf_addf(&check->words,
                 "%s is the machine's own address, not the pod's; leave `host` out to ask the pod",
                 host);
        return -EPERM;
    }
    check->http = get != NULL;
    if (check->http && !request_is_plain(get)) {
        buf_add(&check->words, STR("httpGet: path and httpHeaders may have no line breaks"));
        return -EINVAL;
    }
    if (check->http)
        request_build(check, get, host, port);
    if (grpc || (get && str_is(json_str(json_get(get, "scheme")), "HTTPS"))) {
        struct str service = json_str(json_get(grpc, "service"));
        check->secure =
            secure_start(&(struct secure_request){.agent = check->agent,
                                                  .ns = request->pod->ns,
                                                  .host = host,
                                                  .port = (uint16_t)port,
                                                  .timeout_ms = request->timeout_ms,
                                                  .grpc = grpc != NULL,
                                                  .text = grpc ? service : buf_str(&check->request),
                                                  .done = secure_done,
                                                  .user = check});
        if (!check->secure)
            buf_addf(&check->words, "%d checks over HTTPS or gRPC of this namespace are under way",
                     SECURE_A_NAMESPACE);
        return check->secure ? 0 : -EAGAIN;
    }
    (void)uv_tcp_init(check->agent->loop, &check->tcp);
    check->tcp.data = check->connect.data = check;
    check->tcp_open = true;
    check->handles_open++;
    return uv_tcp_connect(&check->connect, &check->tcp, (const struct sockaddr *)&to, on_connect);
}

struct check *check_start(const struct check_request *request)
{
    struct check *check = MEM_NEW(struct check);
    check->agent = request->pod->agent;
    check->done = request->done;
    check->user = request->user;
    check->words.bytes_max = 2 * WORDS_BYTES;
    check->timer = timer_new(check->agent->loop, check);
    check->handles_open = 1;
    check->agent->streams_open++;
    int64_t timeout_ms = request->timeout_ms, seconds;
    if (json_get(request->action, "exec")) {
        check_exec(check, request);
    } else if (json_i64(json_at(request->action, "sleep.seconds"), &seconds)) {
        check->sleeping = true;
        timeout_ms = 1000 * seconds;
    } else if (check_socket(check, request) < 0) {
        check->refused = true;
        timeout_ms = 0;
    }
    timer_in(check->timer, timeout_ms, on_timeout);
    return check;
}
