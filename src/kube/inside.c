#include "kube/inside.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/auth.h"
#include "kube/kubeconfig.h"
#include "kube/transport.h"
#include "system/random.h"
#include "tool/clock.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <uv.h>

#define CONNECT_LIMIT_MS 30000L
#define ANSWER_LIMIT_MS  30000 /* for the answer to the upgrade */
#define HEAD_BYTES_MAX   ((size_t)64 << 10)
#define SIZE_EVERY_MS    500  /* a terminal is asked for its size */
#define LOOK_EVERY_MS    1000 /* for a signal that came just before a wait */
#define PING_EVERY_MS    5000
#define PIECE_BYTES      16384
#define OUT_BYTES_MAX    ((size_t)256 << 10) /* beyond, input waits until the server took some */

enum {
    CHANNEL_IN,
    CHANNEL_OUT,
    CHANNEL_ERR,
    CHANNEL_STATUS,
    CHANNEL_SIZE,
    CHANNEL_CLOSE = 255
};
enum {
    OP_BINARY = 2,
    OP_CLOSE = 8,
    OP_PING = 9,
    OP_PONG = 10
};

struct inside {
    const struct inside_request *request;
    struct arena arena;
    CURL *easy;
    curl_socket_t socket;
    struct buf in;
    struct buf out;
    struct buf going; /* of `out`: what curl could not take yet must be offered again unchanged */
    struct winsize size;
    int64_t pinged_ms;
    bool input_open;
    bool half_closes; /* version 5: the end of standard input can be told */
    bool closed;      /* by the server */
    bool unwanted;    /* output() wants no more */
    int status;
    bool status_known;
};

/* ---- frames ---- */

int inside_frame_next(struct str bytes, struct inside_frame *ret)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    uint64_t len;
    size_t head = 2;

    if (bytes.len < 2)
        return 0;
    if (!(p[0] & 0x80) || (p[0] & 0x70) || (p[1] & 0x80))
        return -EPROTO; /* fragments and masks are not sent by servers of this protocol */
    len = p[1] & 0x7f;
    if (len >= 126) {
        size_t width = len == 126 ? 2 : 8;

        if (bytes.len < head + width)
            return 0;
        len = 0;
        for (size_t i = 0; i < width; i++)
            len = len << 8 | p[head + i];
        head += width;
    }
    if (len > INSIDE_FRAME_MAX)
        return -EPROTO;
    if (bytes.len - head < len)
        return 0;
    *ret = (struct inside_frame){
        .opcode = p[0] & 0x0fU, .data = {bytes.p + head, (size_t)len}, .bytes = head + (size_t)len};
    return 1;
}

void inside_frame_add(struct buf *out,
                      unsigned opcode,
                      const unsigned char mask[4],
                      struct str data)
{
    buf_addc(out, (char)(0x80U | opcode));
    if (data.len < 126) {
        buf_addc(out, (char)(0x80U | data.len));
    } else if (data.len <= UINT16_MAX) {
        buf_addc(out, (char)(0x80U | 126));
        buf_addc(out, (char)(data.len >> 8));
        buf_addc(out, (char)(data.len & 0xff));
    } else {
        buf_addc(out, (char)(0x80U | 127));
        for (int shift = 56; shift >= 0; shift -= 8)
            buf_addc(out, (char)((uint64_t)data.len >> shift & 0xff));
    }
    buf_add(out, (struct str){(const char *)mask, 4});
    for (size_t i = 0; i < data.len; i++)
        buf_addc(out, (char)((unsigned char)data.p[i] ^ mask[i % 4]));
}

int inside_status(struct arena *arena, struct str text, struct err *err)
{
    struct json *status = NULL;
    int64_t code = 0;

    if (json_parse(arena, text, &status, NULL) < 0)
        return text.len ? err_set(err, -EIO, STR_FMT, STR_ARG(str_sub(text, 0, 200))) : 0;
    if (str_is(json_str(json_get(status, "status")), "Success"))
        return 0;
    JSON_FOREACH(json_at(status, "details.causes"), cause)
        if (str_is(json_str(json_get(cause, "reason")), "ExitCode") &&
            str_to_i64(json_str(json_get(cause, "message")), &code) && code > 0 && code < 256)
            return (int)code;
    return err_set(err, -EIO, STR_FMT, STR_ARG(json_str(json_get(status, "message"))));
}

static void inside_send(struct inside *inside, unsigned opcode, struct str data)
{
    unsigned char mask[4] = {1, 2, 3, 4};

    (void)random_bytes(mask, sizeof(mask));
    inside_frame_add(&inside->out, opcode, mask, data);
}

static void inside_send_channel(struct inside *inside, unsigned channel, struct str data)
{
    _cleanup_(buf_done) struct buf message = {0};

    buf_addc(&message, (char)channel);
    buf_add(&message, data);
    inside_send(inside, OP_BINARY, buf_str(&message));
}

/* ---- the connection ---- */

static bool inside_is_stopped(const struct inside *inside)
{
    return inside->request->stop && *inside->request->stop;
}

/* For what comes, and for room where something is to go out. */
static short inside_events(const struct inside *inside)
{
    return (short)(POLLIN | (inside->going.len ? POLLOUT : 0));
}

static int inside_wait(const struct inside *inside, int limit_ms)
{
    struct pollfd wait = {.fd = inside->socket, .events = inside_events(inside)};

    return poll(&wait, 1, limit_ms);
}

/* What can go out now. Who waits here for the rest would not read, and the server might wait for
 * just that. */
static int inside_push(struct inside *inside, struct err *err)
{
    while (inside->going.len || inside->out.len) {
        size_t sent = 0;

        if (!inside->going.len) {
            struct buf empty = inside->going;

            inside->going = inside->out;
            inside->out = empty;
        }
        CURLcode code = curl_easy_send(inside->easy, inside->going.p, inside->going.len, &sent);
        if (code == CURLE_AGAIN)
            return 0;
        if (code != CURLE_OK)
            return err_set(err, -EPIPE, "the connection was lost: %s", curl_easy_strerror(code));
        buf_consume(&inside->going, sent);
    }
    return 0;
}

/* What has come; 0: nothing more for now. */
static int inside_receive(struct inside *inside)
{
    char piece[PIECE_BYTES];
    size_t got = 0;
    CURLcode code = curl_easy_recv(inside->easy, piece, sizeof(piece), &got);

    if (code == CURLE_AGAIN)
        return 0;
    if (code != CURLE_OK || got == 0) {
        inside->closed = true;
        return 0;
    }
    buf_add(&inside->in, (struct str){piece, got});
    return 1;
}

/* "https://HOST:PORT/PATH", and the way to the real host where the certificate has another name. */
struct inside_address {
    struct str base;
    struct str host;
    struct str path;
    struct curl_slist *connect_to;
    bool loopback;
};

static void inside_find(struct arena *arena,
                        const char *server,
                        const char *name,
                        struct inside_address *ret)
{
    bool plain = strncmp(server, "http://", 7) == 0;
    struct str rest = str_from(server + (plain ? 7 : strncmp(server, "https://", 8) == 0 ? 8 : 0));
    struct str host = str_sub(rest, 0, str_find(rest, '/'));
    struct str path = str_sub(rest, host.len, rest.len);

    while (path.len && path.p[path.len - 1] == '/')
        path.len--;
    *ret = (struct inside_address){.host = name ? str_from(name) : host, .path = path};
    const char *colon = strrchr(str_c(arena, host), ':');
    bool port = colon && host.p[host.len - 1] != ']';
    ret->loopback = transport_is_loopback(port ? str_sub(host, 0, host.len - strlen(colon)) : host);
    if (name) {
        ret->connect_to = curl_slist_append(
            NULL, str_printf(arena, "::" STR_FMT "%s", STR_ARG(host), port ? "" : ":443").p);
    }
    ret->base = str_printf(arena, "%s" STR_FMT, plain ? "http://" : "https://", STR_ARG(ret->host));
}

static int on_progress(void *user,
                       curl_off_t all,
                       curl_off_t done,
                       curl_off_t up_all,
                       curl_off_t up_done)
{
    (void)all;
    (void)done;
    (void)up_all;
    (void)up_done;
    return inside_is_stopped(user);
}

static int inside_connect(struct inside *inside,
                          const struct auth *auth,
                          const struct inside_address *address,
                          struct err *err)
{
    const struct transport_tls *tls = auth_tls(auth);
    CURL *easy = inside->easy = curl_easy_init();

    curl_easy_setopt(easy, CURLOPT_URL, address->base.p);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_LIMIT_MS);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, inside);
    if (tls->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (tls->cert_file) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file);
    }
    if (tls->insecure) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (address->connect_to)
        curl_easy_setopt(easy, CURLOPT_CONNECT_TO, address->connect_to);
    if (auth_proxy(auth)) {
        curl_easy_setopt(easy, CURLOPT_PROXY, auth_proxy(auth));
        curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    } else if (address->loopback) {
        curl_easy_setopt(easy, CURLOPT_PROXY, "");
    }
    CURLcode code = curl_easy_perform(easy);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &inside->socket);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return err_set(err, -EINTR, "interrupted");
    if (code != CURLE_OK)
        return err_set(err, -ECONNREFUSED, "cannot reach " STR_FMT ": %s", STR_ARG(address->base),
                       curl_easy_strerror(code));
    /* A command may read what it is sent an hour later. */
    transport_keep_alive(inside->socket, inside->request->input_fd >= 0 && !inside->request->tty);
    return 0;
}

/* ---- the upgrade ---- */

static void query_add(struct buf *out, const char *key, const char *value)
{
    buf_addf(out, "&%s=", key);
    for (; *value; value++)
        buf_addf(out, "%%%02X", (unsigned char)*value);
}

static void inside_ask(struct inside *inside,
                       const struct inside_address *address,
                       struct str token)
{
    const struct inside_request *request = inside->request;
    struct buf *out = &inside->out;
    char random[16] = "muster";

    (void)random_bytes(random, sizeof(random));
    buf_addf(out, "GET " STR_FMT "/api/v1/namespaces/%s/pods/%s/exec?stdout=true",
             STR_ARG(address->path), request->ns, request->pod);
    buf_add(out, request->tty ? STR("&tty=true") : STR("&stderr=true"));
    if (request->input_fd >= 0)
        buf_add(out, STR("&stdin=true"));
    query_add(out, "container", request->container);
    for (size_t i = 0; i < request->command_count; i++)
        query_add(out, "command", request->command[i]);
    buf_addf(out,
             " HTTP/1.1\r\nHost: " STR_FMT "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " STR_FMT "\r\n"
             "Sec-WebSocket-Protocol: v5.channel.k8s.io, v4.channel.k8s.io\r\n",
             STR_ARG(address->host),
             STR_ARG(base64_encode(&inside->arena, (struct str){random, sizeof(random)})));
    if (token.len)
        buf_addf(out, "Authorization: Bearer " STR_FMT "\r\n", STR_ARG(token));
    buf_add(out, STR("\r\n"));
}

/* An answer that is no upgrade says why, in its body. */
static int inside_refused(struct inside *inside, size_t head, struct err *err)
{
    struct json *status = NULL;

    while (!inside->closed && inside->in.len < HEAD_BYTES_MAX &&
           json_parse(&inside->arena, str_sub(buf_str(&inside->in), head, inside->in.len), &status,
                      NULL) < 0 &&
           (inside_receive(inside) || inside_wait(inside, 1000) > 0))
        ;
    struct str words = json_str(json_get(status, "message"));
    if (!words.len)
        words = str_sub(buf_str(&inside->in), 0, str_find(buf_str(&inside->in), '\r'));
    return err_set(err, -EACCES, "the server refuses the command: " STR_FMT,
                   STR_ARG(str_sub(words, 0, 180)));
}

static int inside_upgrade(struct inside *inside, struct err *err)
{
    int r = 0;

    while (r == 0 && (r = inside_push(inside, err)) == 0) {
        struct str text = buf_str(&inside->in);
        const char *end = text.len ? memmem(text.p, text.len, "\r\n\r\n", 4) : NULL;

        if (end) {
            size_t head = (size_t)(end - text.p) + 4;

            if (!str_starts(text, STR("HTTP/1.1 101")))
                return inside_refused(inside, head, err);
            inside->half_closes = str_contains(str_sub(text, 0, head), STR("v5.channel.k8s.io"));
            buf_consume(&inside->in, head);
            return 0;
        }
        if (inside_is_stopped(inside))
            return err_set(err, -EINTR, "interrupted");
        if (inside->closed || text.len > HEAD_BYTES_MAX ||
            (!inside_receive(inside) && inside_wait(inside, ANSWER_LIMIT_MS) <= 0 &&
             !inside_is_stopped(inside)))
            return err_set(err, -EPIPE, "the server does not answer");
    }
    return r;
}

/* ---- while it runs ---- */

static int inside_message(struct inside *inside, struct str data, struct err *err)
{
    const struct inside_request *request = inside->request;
    unsigned channel = data.len ? (unsigned char)data.p[0] : CHANNEL_CLOSE;
    struct str rest = str_sub(data, data.len ? 1 : 0, data.len);

    if (channel == CHANNEL_OUT || channel == CHANNEL_ERR) {
        if (rest.len)
            inside->unwanted |= !request->output(request->user, (int)channel, rest);
    } else if (channel == CHANNEL_STATUS && rest.len) {
        inside->status = inside_status(&inside->arena, rest, err);
        inside->status_known = true;
    }
    return 0;
}

static int inside_take(struct inside *inside, struct err *err)
{
    struct inside_frame frame;
    int r;

    while ((r = inside_frame_next(buf_str(&inside->in), &frame)) > 0) {
        if (frame.opcode == OP_PING)
            inside_send(inside, OP_PONG, frame.data);
        else if (frame.opcode == OP_CLOSE)
            inside->closed = true;
        else if (frame.opcode == OP_BINARY)
            (void)inside_message(inside, frame.data, err);
        buf_consume(&inside->in, frame.bytes);
    }
    return r < 0 ? err_set(err, r, "the server's answer cannot be read") : 0;
}

static void inside_read_input(struct inside *inside)
{
    char piece[PIECE_BYTES];
    ssize_t got = read(inside->request->input_fd, piece, sizeof(piece));

    if (got > 0) {
        inside_send_channel(inside, CHANNEL_IN, (struct str){piece, (size_t)got});
    } else if (got == 0 || errno != EINTR) {
        inside->input_open = false;
        if (inside->half_closes)
            inside_send_channel(inside, CHANNEL_CLOSE, (struct str){"\0", 1});
        else /* what does not wait for it works all the same */
            (void)inside->request->output(
                inside->request->user, 2,
                STR("This API server cannot be told that standard input has ended. If the command "
                    "waits for that, install kubectl, which can tell it.\n"));
    }
}

static void inside_tell_size(struct inside *inside)
{
    struct winsize size = {0};

    if (!inside->request->tty || ioctl(inside->request->input_fd, TIOCGWINSZ, &size) < 0 ||
        (size.ws_col == inside->size.ws_col && size.ws_row == inside->size.ws_row))
        return;
    inside->size = size;
    inside_send_channel(
        inside, CHANNEL_SIZE,
        str_printf(&inside->arena, "{\"Width\":%u,\"Height\":%u}", size.ws_col, size.ws_row));
}

/* Proxies on the way close what is silent for long, and a dead peer is noticed by what is sent. */
static void inside_ping(struct inside *inside)
{
    int64_t now = clock_monotonic_ms();

    if (now - inside->pinged_ms < PING_EVERY_MS || inside->going.len)
        return;
    inside->pinged_ms = now;
    inside_send(inside, OP_PING, STR("here"));
}

static int inside_turn(struct inside *inside, struct err *err)
{
    int r = inside_take(inside, err);

    if (r < 0 || inside->closed)
        return r;
    if (inside->unwanted)
        return err_set(err, -ECANCELED, "what the command says is not wanted any more");
    if (inside_is_stopped(inside))
        return err_set(err, -EINTR, "interrupted");
    inside_tell_size(inside);
    inside_ping(inside);
    r = inside_push(inside, err);
    if (r < 0 || inside_receive(inside))
        return r;
    bool reads = inside->input_open && inside->out.len + inside->going.len < OUT_BYTES_MAX;
    struct pollfd wait[2] = {{.fd = inside->socket, .events = inside_events(inside)},
                             {.fd = reads ? inside->request->input_fd : -1, .events = POLLIN}};
    if (poll(wait, 2, inside->request->tty ? SIZE_EVERY_MS : LOOK_EVERY_MS) > 0 && wait[1].revents)
        inside_read_input(inside);
    return 0;
}

static void on_credential(void *user)
{
    *(bool *)user = true;
}

static int inside_credential(struct uv_loop_s *loop,
                             const struct kube_config *config,
                             struct auth **ret,
                             struct str *ret_token,
                             struct err *err)
{
    bool changed = false;
    int r = auth_new(loop, config, on_credential, &changed, ret, err);

    if (r < 0)
        return r;
    while ((r = auth_token(*ret, ret_token, err)) == -EAGAIN)
        for (changed = false; !changed;)
            (void)uv_run(loop, UV_RUN_ONCE);
    return r;
}

int inside_run(struct uv_loop_s *loop,
               const struct kube_config *config,
               const struct inside_request *request,
               struct err *err)
{
    struct inside inside = {.request = request, .input_open = request->input_fd >= 0};
    struct inside_address address = {0};
    struct auth *auth = NULL;
    struct str token = STR_NONE;
    int r = inside_credential(loop, config, &auth, &token, err);

    if (r == 0) {
        inside_find(&inside.arena, auth_server(auth), auth_tls(auth)->server_name, &address);
        r = inside_connect(&inside, auth, &address, err);
    }
    if (r == 0) {
        inside_ask(&inside, &address, token);
        r = inside_upgrade(&inside, err);
    }
    inside.pinged_ms = clock_monotonic_ms();
    while (r == 0 && !inside.closed && !inside.status_known)
        r = inside_turn(&inside, err);
    if (r == 0 && !inside.status_known)
        r = err_set(err, -EPIPE, "the connection was lost before the command ended");
    else if (r == 0)
        r = inside.status;
    curl_easy_cleanup(inside.easy);
    curl_slist_free_all(address.connect_to);
    auth_free(auth);
    buf_done(&inside.in);
    buf_done(&inside.out);
    buf_done(&inside.going);
    arena_done(&inside.arena);
    return r;
}
