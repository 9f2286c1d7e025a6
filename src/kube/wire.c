#include "kube/wire.h"

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/auth.h"
#include "kube/transport.h"
#include "system/random.h"
#include "tool/clock.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

#define CONNECT_LIMIT_MS 30000L
#define ANSWER_LIMIT_MS  30000 /* for the answer to the upgrade */
#define HEAD_BYTES_MAX   ((size_t)64 << 10)
#define PING_EVERY_MS    5000
#define PIECE_BYTES      16384

/* ---- frames ---- */

int wire_frame_next(struct str bytes, struct wire_frame *ret)
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
    if (len > WIRE_FRAME_MAX)
        return -EPROTO;
    if (bytes.len - head < len)
        return 0;
    *ret = (struct wire_frame){
        .opcode = p[0] & 0x0fU, .data = {bytes.p + head, (size_t)len}, .bytes = head + (size_t)len};
    return 1;
}

void wire_frame_add(struct buf *out, unsigned opcode, const unsigned char mask[4], struct str data)
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

static bool wire_is_stopped(const struct wire *wire)
{
    return wire->stop && *wire->stop;
}

short wire_events(const struct wire *wire)
{
    return (short)(POLLIN | (wire->going.len ? POLLOUT : 0));
}

static int wire_wait(const struct wire *wire, int limit_ms)
{
    struct pollfd wait = {.fd = wire->socket, .events = wire_events(wire)};

    return poll(&wait, 1, limit_ms);
}

int wire_push(struct wire *wire, struct err *err)
{
    while (wire->going.len || wire->out.len) {
        size_t sent = 0;

        if (!wire->going.len) {
            struct buf empty = wire->going;

            wire->going = wire->out;
            wire->out = empty;
        }
        CURLcode code = curl_easy_send(wire->easy, wire->going.p, wire->going.len, &sent);
        if (code == CURLE_AGAIN)
            return 0;
        if (code != CURLE_OK)
            return err_set(err, -EPIPE, "the connection was lost: %s", curl_easy_strerror(code));
        buf_consume(&wire->going, sent);
    }
    return 0;
}

int wire_receive(struct wire *wire)
{
    char piece[PIECE_BYTES];
    size_t got = 0;
    CURLcode code = curl_easy_recv(wire->easy, piece, sizeof(piece), &got);

    if (code == CURLE_AGAIN)
        return 0;
    if (code != CURLE_OK || got == 0) {
        wire->closed = true;
        return 0;
    }
    buf_add(&wire->in, (struct str){piece, got});
    return 1;
}

/* "https://HOST:PORT/PATH", and the way to the real host where the certificate has another name. */
struct wire_address {
    struct str base;
    struct str host;
    struct str path;
    struct curl_slist *connect_to;
    bool loopback;
};

static void wire_find(struct arena *arena,
                      const char *server,
                      const char *name,
                      struct wire_address *ret)
{
    bool plain = strncmp(server, "http://", 7) == 0;
    struct str rest = str_from(server + (plain ? 7 : strncmp(server, "https://", 8) == 0 ? 8 : 0));
    struct str host = str_sub(rest, 0, str_find(rest, '/'));
    struct str path = str_sub(rest, host.len, rest.len);

    while (path.len && path.p[path.len - 1] == '/')
        path.len--;
    *ret = (struct wire_address){.host = name ? str_from(name) : host, .path = path};
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
    return wire_is_stopped(user);
}

static int wire_connect(struct wire *wire,
                        const struct auth *auth,
                        const struct wire_address *address,
                        struct err *err)
{
    const struct transport_tls *tls = auth_tls(auth);
    CURL *easy = wire->easy = curl_easy_init();

    curl_easy_setopt(easy, CURLOPT_URL, address->base.p);
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_LIMIT_MS);
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, wire);
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
        code = curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &wire->socket);
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return err_set(err, -EINTR, "interrupted");
    if (code != CURLE_OK)
        return err_set(err, -ECONNREFUSED, "cannot reach " STR_FMT ": %s", STR_ARG(address->base),
                       curl_easy_strerror(code));
    return 0;
}

/* ---- the upgrade ---- */
/* An answer that is no upgrade says why, in its body. */
static int wire_refused(struct wire *wire, size_t head, struct err *err)
{
    struct json *status = NULL;

    while (!wire->closed && wire->in.len < HEAD_BYTES_MAX &&
           json_parse(&wire->arena, str_sub(buf_str(&wire->in), head, wire->in.len), &status,
                      NULL) < 0 &&
           (wire_receive(wire) || wire_wait(wire, 1000) > 0))
        ;
    struct str words = json_str(json_get(status, "message"));
    if (!words.len)
        words = str_sub(buf_str(&wire->in), 0, str_find(buf_str(&wire->in), '\r'));
    int r = err_set(err, -EACCES, "the server refuses: " STR_FMT, STR_ARG(str_sub(words, 0, 180)));
    uint64_t code = 0; /* "HTTP/1.1 503 ..." */
    if (err && str_to_u64(str_sub(buf_str(&wire->in), 9, 3), &code))
        err->http_status = (int)code;
    return r;
}

static int wire_upgrade(struct wire *wire, struct err *err)
{
    int r = 0;

    while (r == 0 && (r = wire_push(wire, err)) == 0) {
        struct str text = buf_str(&wire->in);
        const char *end = text.len ? memmem(text.p, text.len, "\r\n\r\n", 4) : NULL;

        if (end) {
            size_t head = (size_t)(end - text.p) + 4;

            if (!str_starts(text, STR("HTTP/1.1 101")))
                return wire_refused(wire, head, err);
            wire->five = str_contains(str_sub(text, 0, head), STR("v5.channel.k8s.io"));
            buf_consume(&wire->in, head);
            return 0;
        }
        if (wire_is_stopped(wire))
            return err_set(err, -EINTR, "interrupted");
        if (wire->closed || text.len > HEAD_BYTES_MAX ||
            (!wire_receive(wire) && wire_wait(wire, ANSWER_LIMIT_MS) <= 0 &&
             !wire_is_stopped(wire)))
            return err_set(err, -EPIPE, "the server does not answer");
    }
    return r;
}

static void wire_ask(struct wire *wire,
                     const struct wire_request *request,
                     const struct wire_address *address,
                     struct str token)
{
    char random[16] = "muster";

    (void)random_bytes(random, sizeof(random));
    buf_addf(&wire->out,
             "GET " STR_FMT STR_FMT " HTTP/1.1\r\nHost: " STR_FMT
             "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " STR_FMT "\r\n"
             "Sec-WebSocket-Protocol: %s\r\n",
             STR_ARG(address->path), STR_ARG(request->path), STR_ARG(address->host),
             STR_ARG(base64_encode(&wire->arena, (struct str){random, sizeof(random)})),
             request->protocols);
    if (token.len)
        buf_addf(&wire->out, "Authorization: Bearer " STR_FMT "\r\n", STR_ARG(token));
    buf_add(&wire->out, STR("\r\n"));
}

static void on_credential(void *user)
{
    *(bool *)user = true;
}

int wire_door_open(struct wire_door *door,
                   struct uv_loop_s *loop,
                   const struct kube_config *config,
                   struct err *err)
{
    *door = (struct wire_door){.loop = loop};
    return auth_new(loop, config, on_credential, &door->changed, &door->auth, err);
}

void wire_door_close(struct wire_door *door)
{
    auth_free(door->auth);
    door->auth = NULL;
}

static int wire_door_token(struct wire_door *door, struct str *ret, struct err *err)
{
    int r;

    while ((r = auth_token(door->auth, ret, err)) == -EAGAIN)
        for (door->changed = false; !door->changed;)
            (void)uv_run(door->loop, UV_RUN_ONCE);
    return r;
}

int wire_open(struct wire *wire,
              struct wire_door *door,
              const struct wire_request *request,
              struct err *err)
{
    struct wire_address address = {0};
    struct str token = STR_NONE;

    *wire = (struct wire){.stop = request->stop};
    int r = wire_door_token(door, &token, err);
    if (r == 0) {
        wire_find(&wire->arena, auth_server(door->auth), auth_tls(door->auth)->server_name,
                  &address);
        r = wire_connect(wire, door->auth, &address, err);
        curl_slist_free_all(address.connect_to);
    }
    if (r == 0) {
        transport_keep_alive(wire->socket, request->patient);
        wire_ask(wire, request, &address, token);
        r = wire_upgrade(wire, err);
    }
    wire->pinged_ms = clock_monotonic_ms();
    return r;
}

void wire_close(struct wire *wire)
{
    curl_easy_cleanup(wire->easy);
    buf_done(&wire->in);
    buf_done(&wire->out);
    buf_done(&wire->going);
    arena_done(&wire->arena);
}

static void wire_send(struct wire *wire, unsigned opcode, struct str data)
{
    unsigned char mask[4] = {1, 2, 3, 4};

    (void)random_bytes(mask, sizeof(mask));
    wire_frame_add(&wire->out, opcode, mask, data);
}

void wire_send_channel(struct wire *wire, unsigned channel, struct str data)
{
    _cleanup_(buf_done) struct buf message = {0};

    buf_addc(&message, (char)channel);
    buf_add(&message, data);
    wire_send(wire, WIRE_BINARY, buf_str(&message));
}

int wire_take(struct wire *wire,
              void (*message)(void *user, struct str data),
              void *user,
              struct err *err)
{
    struct wire_frame frame;
    int r;

    while ((r = wire_frame_next(buf_str(&wire->in), &frame)) > 0) {
        if (frame.opcode == WIRE_PING)
            wire_send(wire, WIRE_PONG, frame.data);
        else if (frame.opcode == WIRE_CLOSE)
            wire->closed = true;
        else if (frame.opcode == WIRE_BINARY)
            message(user, frame.data);
        buf_consume(&wire->in, frame.bytes);
    }
    return r < 0 ? err_set(err, r, "the server's answer cannot be read") : 0;
}

void wire_ping(struct wire *wire)
{
    int64_t now = clock_monotonic_ms();

    if (now - wire->pinged_ms < PING_EVERY_MS || wire->going.len)
        return;
    wire->pinged_ms = now;
    wire_send(wire, WIRE_PING, STR("here"));
}
