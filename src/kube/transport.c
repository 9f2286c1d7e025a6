#include "kube/transport.h"

#include "base/buf.h"
#include "base/mem.h"
#include "system/sockets.h"
#include "tool/clock.h"
#include "tool/timer.h"

#include <assert.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* libcurl's multi interface driven by libuv: curl names the sockets and the one timer it wants, we
 * tell it when they are due. Bytes that arrive are only collected while curl is on the stack; they
 * are delivered afterwards (deliver()), because curl forbids most of its API inside its callbacks.
 */

#define HEADER_BYTES_MAX   ((size_t)16 << 10)
#define CONNECT_TIMEOUT_MS 5000
/* Unanswered data or keepalives: a dead peer is noticed after this. */
#define TCP_DEAD_MS      10000
#define KEEPALIVE_S      5
#define KEEPALIVE_PROBES 2
#define RECEIVE_BYTES \
    (16L << 10)          /* of each request under way or kept; a record of TLS has no more */
#define IDLE_EASY_MAX 64 /* curl handles kept for the next request */

struct link {
    struct link *next;
    struct link *prev;
};

struct socket_watch {
    uv_poll_t poll;
    curl_socket_t fd;
    struct transport *transport;
};

struct transport {
    uv_loop_t *loop;
    CURLM *multi;
    struct timer *timer;    /* curl's */
    struct timer *deferred; /* failures that must not be told from inside transport_send() */
    char *server;
    char *proxy;
    char *user_agent;
    char *ca_file;
    char *cert_file;
    char *key_file;
    struct curl_slist *connect_to; /* for tls-server-name */
    char *url_base;                /* scheme, host to verify, port, path */
    bool insecure;
    bool loopback;
    struct link exchanges; /* all under way */
    struct link ready;     /* those with something to deliver */
    CURL *idle[IDLE_EASY_MAX];
    size_t idle_count;
    int64_t heard_ms;
};

struct transport_exchange {
    struct link all;   /* first member: transport.exchanges */
    struct link ready; /* self-linked when not waiting for delivery */
    struct transport *transport;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    size_t body_size;
    size_t body_at; /* of one that is sent once: what is gone */
    struct buf received;
    struct buf warnings;
    struct transport_request request; /* its strings are not kept */
    int64_t retry_after_ms;
    int status;
    bool finished;  /* code and err are final */
    bool cancelled; /* while being delivered */
    bool delivering;
    int code;
    struct err err;
};

static void link_init(struct link *link)
{
    link->next = link->prev = link;
}

static bool link_empty(const struct link *link)
{
    return link->next == link;
}

static void link_append(struct link *head, struct link *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static void link_remove(struct link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link_init(link);
}

static struct transport_exchange *from_ready(struct link *link)
{
    return (struct transport_exchange *)(void *)((char *)link -
                                                 offsetof(struct transport_exchange, ready));
}

static void replace(char **where, const char *text)
{
    free(*where);
    *where = text ? strdup(text) : NULL;
    if (text && !*where)
        abort();
}

/* ---- what curl calls ---- */

void transport_keep_alive(int fd, bool patient)
{
    socket_be_patient(fd, &(struct socket_patience){.unanswered_ms = patient ? 0 : TCP_DEAD_MS,
                                                    .idle_s = KEEPALIVE_S,
                                                    .probes = KEEPALIVE_PROBES});
}

static int on_socket_option(void *user, curl_socket_t fd, curlsocktype purpose)
{
    (void)user;
    (void)purpose;
    transport_keep_alive(fd, false);
    return CURL_SOCKOPT_OK;
}

static void hear(struct transport_exchange *exchange)
{
    if (!exchange->request.alone)
        exchange->transport->heard_ms = clock_monotonic_ms();
}

static size_t on_body(char *bytes, size_t size, size_t count, void *user)
{
    struct transport_exchange *exchange = user;
    struct str piece = {bytes, size * count};

    hear(exchange);
    buf_add(&exchange->received, piece);
    if (exchange->received.overflow)
        return 0; /* curl ends the transfer with CURLE_WRITE_ERROR */
    if (exchange->request.data && link_empty(&exchange->ready))
        link_append(&exchange->transport->ready, &exchange->ready);
    return piece.len;
}

static bool header_is(struct str line, struct str name, struct str *ret_value)
{
    if (line.len <= name.len || line.p[name.len] != ':' ||
        strncasecmp(line.p, name.p, name.len) != 0)
        return false;
    *ret_value = str_trim(str_sub(line, name.len + 1, line.len));
    return true;
}

/* Warning: 299 - "text": what stands between the first and the last quote. */
static void take_warning(struct transport_exchange *exchange, struct str value)
{
    size_t open = str_find(value, '"');

    if (open + 1 >= value.len || value.p[value.len - 1] != '"')
        return;
    if (exchange->warnings.len > 0)
        buf_addc(&exchange->warnings, '\n');
    buf_add(&exchange->warnings, str_sub(value, open + 1, value.len - open - 2));
}

static size_t on_header(char *bytes, size_t size, size_t count, void *user)
{
    struct transport_exchange *exchange = user;
    struct str line = {bytes, size * count};
    struct str value;
    int64_t seconds;

    hear(exchange);
    if (header_is(line, STR("retry-after"), &value) && str_to_i64(value, &seconds) && seconds >= 0)
        exchange->retry_after_ms = (seconds > 3600 ? 3600 : seconds) * 1000;
    else if (header_is(line, STR("warning"), &value))
        take_warning(exchange, value);
    return line.len;
}

static void deliver(struct transport *transport);

static void after_curl(struct transport *transport);

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct socket_watch *watch = poll->data;
    struct transport *transport = watch->transport;
    int flags = 0;
    int running;

    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    curl_multi_socket_action(transport->multi, watch->fd, flags, &running);
    after_curl(transport);
}

static void on_poll_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

static int on_socket(CURL *easy, curl_socket_t fd, int action, void *user, void *attached)
{
    struct transport *transport = user;
    struct socket_watch *watch = attached;
    int events = 0;

    (void)easy;
    if (action == CURL_POLL_REMOVE) {
        if (watch) {
            curl_multi_assign(transport->multi, fd, NULL);
            uv_poll_stop(&watch->poll);
            uv_close((uv_handle_t *)&watch->poll, on_poll_closed);
        }
        return 0;
    }
    if (!watch) {
        watch = MEM_NEW(struct socket_watch);
        watch->fd = fd;
        watch->transport = transport;
        if (uv_poll_init_socket(transport->loop, &watch->poll, fd) != 0) {
            mem_free(watch);
            return -1;
        }
        watch->poll.data = watch;
        curl_multi_assign(transport->multi, fd, watch);
    }
    if (action != CURL_POLL_IN)
        events |= UV_WRITABLE;
    if (action != CURL_POLL_OUT)
        events |= UV_READABLE;
    uv_poll_start(&watch->poll, events, on_poll);
    return 0;
}

static void on_timer(void *user)
{
    struct transport *transport = user;
    int running;

    curl_multi_socket_action(transport->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    after_curl(transport);
}

static int on_timer_wanted(CURLM *multi, long timeout_ms, void *user)
{
    struct transport *transport = user;

    (void)multi;
    if (timeout_ms < 0)
        timer_cancel(transport->timer);
    else
        timer_in(transport->timer, timeout_ms, on_timer);
    return 0;
}

/* ---- the life of an exchange ---- */

static void release_easy(struct transport_exchange *exchange)
{
    struct transport *transport = exchange->transport;

    if (!exchange->easy)
        return;
    curl_multi_remove_handle(transport->multi, exchange->easy);
    if (transport->idle_count < IDLE_EASY_MAX) {
        curl_easy_reset(exchange->easy);
        transport->idle[transport->idle_count++] = exchange->easy;
    } else {
        curl_easy_cleanup(exchange->easy);
    }
    exchange->easy = NULL;
}

static void exchange_free(struct transport_exchange *exchange)
{
    release_easy(exchange);
    link_remove(&exchange->all);
    link_remove(&exchange->ready);
    curl_slist_free_all(exchange->headers);
    free(exchange->body);
    buf_done(&exchange->received);
    buf_done(&exchange->warnings);
    mem_free(exchange);
}

static void finish(struct transport_exchange *exchange)
{
    exchange->finished = true;
    release_easy(exchange);
    if (link_empty(&exchange->ready))
        link_append(&exchange->transport->ready, &exchange->ready);
}

static int code_of(CURLcode result)
{
    switch ((int)result) {
    case CURLE_OPERATION_TIMEDOUT: return -ETIMEDOUT;
    case CURLE_COULDNT_CONNECT: return -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return -EHOSTUNREACH;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM: return -EPERM;
    case CURLE_WRITE_ERROR: return -EMSGSIZE;
    default: return -ECONNRESET;
    }
}

static void ended(struct transport_exchange *exchange, CURLcode result)
{
    struct transport *transport = exchange->transport;
    long status = 0;

    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    exchange->status = (int)status;
    if (result != CURLE_OK) {
        exchange->code = code_of(result);
        (void)err_set(&exchange->err, exchange->code, "%s: %s", transport->server,
                      curl_easy_strerror(result));
    }
    finish(exchange);
}

static void collect(struct transport *transport)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(transport->multi, &left))) {
        struct transport_exchange *exchange = NULL;
        CURLcode result = message->data.result;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&exchange);
        assert(exchange);
        ended(exchange, result);
    }
}

static bool is_2xx(const struct transport_exchange *exchange)
{
    long status = exchange->status;

    if (exchange->easy)
        curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    return status >= 200 && status < 300;
}

/* The pieces of a stream that arrived since the last time. */
static void deliver_data(struct transport_exchange *exchange)
{
    struct buf piece = exchange->received;

    if (!exchange->request.data || piece.len == 0 || !is_2xx(exchange))
        return;
    exchange->received = (struct buf){.bytes_max = TRANSPORT_REPLY_BYTES_MAX};
    exchange->request.data(exchange->request.user, buf_str(&piece));
    buf_done(&piece);
}

static void deliver_one(struct transport_exchange *exchange)
{
    struct transport_reply reply;

    exchange->delivering = true;
    deliver_data(exchange);
    if (exchange->finished && !exchange->cancelled) {
        reply = (struct transport_reply){
            .code = exchange->code,
            .err = exchange->code ? &exchange->err : NULL,
            .status = exchange->status,
            .body = buf_str(&exchange->received),
            .retry_after_ms = exchange->retry_after_ms,
            .warnings = buf_str(&exchange->warnings),
        };
        exchange->request.done(exchange->request.user, &reply);
        exchange->cancelled = true;
    }
    exchange->delivering = false;
    if (exchange->cancelled)
        exchange_free(exchange);
}

static void deliver(struct transport *transport)
{
    while (!link_empty(&transport->ready)) {
        struct transport_exchange *exchange = from_ready(transport->ready.next);

        link_remove(&exchange->ready);
        deliver_one(exchange);
    }
}

static void on_deferred(void *user)
{
    deliver(user);
}

static void after_curl(struct transport *transport)
{
    collect(transport);
    deliver(transport);
}

/* ---- requests ---- */

static void add_header(struct transport_exchange *exchange, const char *prefix, struct str value)
{
    _cleanup_(buf_done) struct buf line = {.bytes_max = HEADER_BYTES_MAX};

    buf_addf(&line, "%s" STR_FMT, prefix, STR_ARG(value));
    if (!line.overflow)
        exchange->headers = curl_slist_append(exchange->headers, line.p);
}

static void set_tls(struct transport *transport, CURL *easy)
{
    if (transport->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, transport->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        /* The number behind the path of a file without a name comes back with another file. */
        curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);
    }
    if (transport->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, transport->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, transport->key_file);
    }
    if (transport->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (transport->connect_to)
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, transport->connect_to);
    if (transport->proxy)
        curl_easy_setopt(easy, CURLOPT_PROXY, transport->proxy);
    else if (transport->loopback)
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
}

/* curl cannot begin again with what it reads, so it does not. */
static size_t on_body_wanted(char *to, size_t size, size_t count, void *user)
{
    struct transport_exchange *exchange = user;
    size_t room = size * count;
    size_t left = exchange->body_size - exchange->body_at;
    size_t piece = left < room ? left : room;

    if (piece > 0)
        memcpy(to, exchange->body + exchange->body_at, piece);
    exchange->body_at += piece;
    return piece;
}

static void set_body(struct transport_exchange *exchange, const struct transport_request *request)
{
    CURL *easy = exchange->easy;

    if (!request->content_type)
        return;
    exchange->body = malloc(request->body.len + 1);
    if (!exchange->body)
        abort();
    if (request->body.len > 0)
        memcpy(exchange->body, request->body.p, request->body.len);
    exchange->body_size = request->body.len;
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (request->once) {
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body_wanted);
        curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
    } else {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange->body);
    }
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    add_header(exchange, "Content-Type: ", str_from(request->content_type));
    /* Without this curl asks for permission first and loses a round trip. */
    exchange->headers = curl_slist_append(exchange->headers, "Expect:");
}

static void set_options(struct transport_exchange *exchange,
                        const struct transport_request *request)
{
    struct transport *transport = exchange->transport;
    CURL *easy = exchange->easy;
    _cleanup_(buf_done) struct buf url = {0};

    buf_addf(&url, "%s" STR_FMT, transport->url_base, STR_ARG(request->path));
    curl_easy_setopt(easy, CURLOPT_URL, url.p);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, (long)request->alone);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, (long)request->alone);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, RECEIVE_BYTES);
    curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket_option);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, transport->user_agent);
    set_tls(transport, easy);
    set_body(exchange, request);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method);
    add_header(exchange,
               "Accept: ", str_from(request->accept ? request->accept : "application/json"));
    if (request->bearer.len > 0)
        add_header(exchange, "Authorization: Bearer ", request->bearer);
    for (struct str lines = request->header, line; str_cut(&lines, '\n', &line);)
        if (line.len)
            add_header(exchange, "", line);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange->headers);
}

struct transport_exchange *transport_send(struct transport *transport,
                                          const struct transport_request *request)
{
    struct transport_exchange *exchange = MEM_NEW(struct transport_exchange);

    exchange->transport = transport;
    exchange->request = *request;
    exchange->request.path = exchange->request.body = exchange->request.bearer = STR_NONE;
    exchange->retry_after_ms = -1;
    exchange->received.bytes_max = TRANSPORT_REPLY_BYTES_MAX;
    exchange->warnings.bytes_max = HEADER_BYTES_MAX;
    link_init(&exchange->ready);
    link_append(&transport->exchanges, &exchange->all);
    exchange->easy =
        transport->idle_count > 0 ? transport->idle[--transport->idle_count] : curl_easy_init();
    if (!exchange->easy)
        abort();
    set_options(exchange, request);
    if (curl_multi_add_handle(transport->multi, exchange->easy) != CURLM_OK) {
        exchange->code =
            err_set(&exchange->err, -EIO, "%s: curl refuses the request", transport->server);
        finish(exchange);
        timer_in(transport->deferred, 0, on_deferred);
    }
    return exchange;
}

void transport_cancel(struct transport_exchange *exchange)
{
    if (!exchange)
        return;
    if (exchange->delivering) {
        exchange->cancelled = true;
        return;
    }
    exchange_free(exchange);
}

void transport_pause(struct transport_exchange *exchange, bool paused)
{
    if (!exchange->easy) /* all of it is here */
        return;
    (void)curl_easy_pause(exchange->easy, paused ? CURLPAUSE_RECV : CURLPAUSE_CONT);
    /* What curl held back it hands over from inside the call. */
    timer_in(exchange->transport->deferred, 0, on_deferred);
}

static void multi_open(struct transport *transport)
{
    transport->multi = curl_multi_init();
    if (!transport->multi)
        abort();
    curl_multi_setopt(transport->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(transport->multi, CURLMOPT_SOCKETDATA, transport);
    curl_multi_setopt(transport->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    curl_multi_setopt(transport->multi, CURLMOPT_TIMERDATA, transport);
    curl_multi_setopt(transport->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(transport->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                      (long)TRANSPORT_CONNECTIONS_MAX);
}

static void multi_close(struct transport *transport)
{
    while (transport->idle_count > 0)
        curl_easy_cleanup(transport->idle[--transport->idle_count]);
    curl_multi_cleanup(transport->multi);
    transport->multi = NULL;
    timer_cancel(transport->timer);
}

void transport_reset(struct transport *transport, const char *why)
{
    for (struct link *at = transport->exchanges.next; at != &transport->exchanges; at = at->next) {
        struct transport_exchange *exchange = (struct transport_exchange *)(void *)at;

        if (exchange->finished)
            continue;
        exchange->code = err_set(&exchange->err, -ECONNRESET, "%s: connection closed: %s",
                                 transport->server, why);
        finish(exchange);
    }
    multi_close(transport);
    multi_open(transport);
    timer_in(transport->deferred, 0, on_deferred);
}

int64_t transport_last_heard_ms(const struct transport *transport)
{
    return transport->heard_ms;
}

/* ---- the server's address ---- */

bool transport_is_loopback(struct str host)
{
    return str_is(host, "localhost") || str_is(host, "[::1]") || str_starts(host, STR("127."));
}

/* With a server name of its own the URL carries that name, so that it is what the certificate is
 * checked against, and the connection goes to the real host. */
static void set_address(struct transport *transport, const char *server_name)
{
    struct str rest = str_from(transport->server);
    struct str scheme = STR("https://");
    _cleanup_(buf_done) struct buf text = {0};

    if (str_starts(rest, STR("http://")))
        scheme = STR("http://");
    if (str_starts(rest, scheme))
        rest = str_sub(rest, scheme.len, rest.len);

    size_t slash = str_find(rest, '/');
    struct str authority = str_sub(rest, 0, slash);
    struct str path = str_sub(rest, slash, rest.len);
    size_t host_end = authority.len;

    while (host_end > 0 && authority.p[host_end - 1] >= '0' && authority.p[host_end - 1] <= '9')
        host_end--;
    bool has_port = host_end > 0 && authority.p[host_end - 1] == ':' &&
                    (authority.p[0] != '[' || (host_end > 1 && authority.p[host_end - 2] == ']'));
    struct str host = has_port ? str_sub(authority, 0, host_end - 1) : authority;
    struct str port = has_port ? str_sub(authority, host_end, authority.len)
                               : (scheme.len == 8 ? STR("443") : STR("80"));

    while (path.len > 0 && path.p[path.len - 1] == '/')
        path.len--;
    transport->loopback = transport_is_loopback(host);
    curl_slist_free_all(transport->connect_to);
    transport->connect_to = NULL;
    if (server_name) {
        buf_addf(&text, "%s:" STR_FMT ":" STR_FMT ":" STR_FMT, server_name, STR_ARG(port),
                 STR_ARG(host), STR_ARG(port));
        transport->connect_to = curl_slist_append(NULL, text.p);
        host = str_from(server_name);
    }
    buf_clear(&text);
    buf_addf(&text, STR_FMT STR_FMT ":" STR_FMT STR_FMT, STR_ARG(scheme), STR_ARG(host),
             STR_ARG(port), STR_ARG(path));
    replace(&transport->url_base, text.p);
}

void transport_set_tls(struct transport *transport, const struct transport_tls *tls)
{
    replace(&transport->ca_file, tls->ca_file);
    replace(&transport->cert_file, tls->cert_file);
    replace(&transport->key_file, tls->key_file);
    transport->insecure = tls->insecure;
    set_address(transport, tls->server_name);
}

int transport_new(const struct transport_options *options, struct transport **ret, struct err *err)
{
    struct transport *transport;

    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, -EIO, "libcurl does not start");
    if (!options->server || !*options->server)
        return err_set(err, -EINVAL, "server: the address of the API server is empty");
    transport = MEM_NEW(struct transport);
    transport->loop = options->loop;
    link_init(&transport->exchanges);
    link_init(&transport->ready);
    replace(&transport->server, options->server);
    replace(&transport->proxy, options->proxy);
    replace(&transport->user_agent, options->user_agent);
    transport->timer = timer_new(transport->loop, transport);
    transport->deferred = timer_new(transport->loop, transport);
    transport->heard_ms = clock_monotonic_ms();
    set_address(transport, NULL);
    multi_open(transport);
    *ret = transport;
    return 0;
}

void transport_free(struct transport *transport)
{
    if (!transport)
        return;
    while (!link_empty(&transport->exchanges))
        exchange_free((struct transport_exchange *)(void *)transport->exchanges.next);
    multi_close(transport);
    timer_free(transport->timer);
    timer_free(transport->deferred);
    curl_slist_free_all(transport->connect_to);
    free(transport->server);
    free(transport->proxy);
    free(transport->user_agent);
    free(transport->ca_file);
    free(transport->cert_file);
    free(transport->key_file);
    free(transport->url_base);
    mem_free(transport);
}
