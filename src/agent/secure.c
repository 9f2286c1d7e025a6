#include "agent/secure.h"

#include "agent/core.h"
#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <uv.h>

#define TEXT_BYTES  4096 /* of a request with its headers */
#define REPLY_BYTES 1024
#define STACK_BYTES ((size_t)1 << 20)
#define TICKETS_MAX 4
#define FRAME_HEAD  9
#define FRAMES_MAX  64 /* of an answer: a server that says more is not one of this service */

enum frame {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_RESET = 3,
    FRAME_SETTINGS = 4,
    FRAME_GOAWAY = 7,
};
#define FLAG_END 1 /* of a stream; of settings: acknowledged */
#define FLAG_ALL 4 /* the headers are complete */

struct secure {
    struct secure *next; /* of the agent's */
    uv_thread_t thread;
    uv_async_t over;
    struct secure_request request; /* done NULL: cancelled */
    uv_mutex_t lock;               /* of the two below */
    int fd;                        /* that is asked; -1: none */
    bool cancelled;
    char ns[64];
    char host[64];
    char text[TEXT_BYTES];
    size_t text_len;
    bool ok;
    char words[256];
};

/* ---- in its thread ---- */

static int secure_dial(struct secure *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(s->request.port)};
    struct timeval limit = {.tv_sec = s->request.timeout_ms / 1000,
                            .tv_usec = s->request.timeout_ms % 1000 * 1000};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || inet_pton(AF_INET, s->host, &to.sin_addr) != 1 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
        (void)snprintf(s->words, sizeof(s->words), "cannot connect: %s", strerrordesc_np(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

static void read_status(struct secure *s, gnutls_session_t session)
{
    char reply[REPLY_BYTES + 1];
    size_t len = 0;
    int status = 0;
    int again = 0;
    while (len < REPLY_BYTES && !memchr(reply, '\n', len)) {
        ssize_t n = gnutls_record_recv(session, reply + len, REPLY_BYTES - len);
        /* A ticket of TLS 1.3 comes before the answer and is told as "again". */
        if (n == GNUTLS_E_INTERRUPTED || (n == GNUTLS_E_AGAIN && again++ < TICKETS_MAX))
            continue;
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    reply[len] = '\0';
    if (sscanf(reply, "HTTP/%*d.%*d %d", &status) != 1)
        (void)snprintf(s->words, sizeof(s->words), "the answer is not HTTP");
    else
        (void)snprintf(s->words, sizeof(s->words), "HTTP probe failed with statuscode: %d", status);
    s->ok = status >= 200 && status < 400;
}

static void secure_ask_https(struct secure *s, int fd)
{
    gnutls_certificate_credentials_t credentials = NULL;
    gnutls_session_t session = NULL;
    int r = gnutls_certificate_allocate_credentials(&credentials);
    if (r == 0)
        r = gnutls_init(&session, GNUTLS_CLIENT);
    if (r == 0)
        r = gnutls_set_default_priority(session);
    if (r == 0)
        r = gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    if (r == 0) {
        gnutls_transport_set_int(session, fd);
        gnutls_handshake_set_timeout(session, (unsigned)s->request.timeout_ms);
        do
            r = gnutls_handshake(session);
        while (r < 0 && !gnutls_error_is_fatal(r) && r != GNUTLS_E_AGAIN);
    }
    if (r == 0 && gnutls_record_send(session, s->text, s->text_len) == (ssize_t)s->text_len)
        read_status(s, session);
    else
        (void)snprintf(s->words, sizeof(s->words), "TLS: %s", gnutls_strerror(r));
    if (session)
        gnutls_deinit(session);
    if (credentials)
        gnutls_certificate_free_credentials(credentials);
}

/* A frame of HTTP/2; returns where the next one begins. */
static size_t put_frame(unsigned char *out,
                        int type,
                        int flags,
                        int stream,
                        const void *body,
                        size_t size)
{
    unsigned char head[FRAME_HEAD] = {(unsigned char)(size >> 16), (unsigned char)(size >> 8),
                                      (unsigned char)size, (unsigned char)type,
                                      (unsigned char)flags};
    head[8] = (unsigned char)stream;
    memcpy(out, head, sizeof(head));
    if (size)
        memcpy(out + FRAME_HEAD, body, size);
    return FRAME_HEAD + size;
}

/* A header field, written out: no table, no compression. */
static size_t put_field(unsigned char *out, const char *name, const char *value)
{
    size_t a = strlen(name), b = strlen(value);
    out[0] = 0;
    out[1] = (unsigned char)a;
    memcpy(out + 2, name, a);
    out[2 + a] = (unsigned char)b;
    memcpy(out + 3 + a, value, b);
    return 3 + a + b;
}

static size_t put_check(const struct secure *s, unsigned char *out)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    unsigned char fields[512], message[5 + 2 + 128] = {0};
    size_t n = 0, len = s->text_len < 120 ? s->text_len : 120, at = strlen(preface);
    n += put_field(fields + n, ":method", "POST");
    n += put_field(fields + n, ":scheme", "http");
    n += put_field(fields + n, ":path", "/grpc.health.v1.Health/Check");
    n += put_field(fields + n, ":authority", s->host);
    n += put_field(fields + n, "content-type", "application/grpc");
    n += put_field(fields + n, "te", "trailers");
    memcpy(out, preface, at);
    at += put_frame(out + at, FRAME_SETTINGS, 0, 0, NULL, 0);
    at += put_frame(out + at, FRAME_HEADERS, FLAG_ALL, 1, fields, n);
    /* Not compressed, four bytes of length, then the message: field 1, the service. */
    if (len) {
        message[4] = (unsigned char)(len + 2);
        message[5] = 1 << 3 | 2;
        message[6] = (unsigned char)len;
        memcpy(message + 7, s->text, len);
    }
    return at + put_frame(out + at, FRAME_DATA, FLAG_END, 1, message, len ? 7 + len : 5);
}

static bool socket_take_all(int fd, unsigned char *out, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = recv(fd, out + done, size - done, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

/* The message in DATA: field 1 is the status, and 1 is SERVING. */
static void read_health(struct secure *s, const unsigned char *data, size_t size)
{
    int status = size >= 7 && data[5] == 1 << 3 ? data[6] : 0;
    s->ok = status == 1;
    (void)snprintf(s->words, sizeof(s->words), "service unhealthy (responded with status %d)",
                   status);
}

static void secure_ask_grpc(struct secure *s, int fd)
{
    unsigned char out[TEXT_BYTES], head[FRAME_HEAD], body[16384];
    size_t size = put_check(s, out);
    (void)snprintf(s->words, sizeof(s->words), "no gRPC health service answered");
    if (send(fd, out, size, MSG_NOSIGNAL) != (ssize_t)size)
        return;
    for (int i = 0; i < FRAMES_MAX && socket_take_all(fd, head, sizeof(head)); i++) {
        size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
        if (len > sizeof(body) || !socket_take_all(fd, body, len))
            return;
        if (head[3] == FRAME_SETTINGS && !(head[4] & FLAG_END)) {
            size = put_frame(out, FRAME_SETTINGS, FLAG_END, 0, NULL, 0);
            (void)send(fd, out, size, MSG_NOSIGNAL);
        } else if (head[3] == FRAME_DATA && len) {
            read_health(s, body, len);
            return;
        } else if (head[3] == FRAME_RESET || head[3] == FRAME_GOAWAY ||
                   (head[3] == FRAME_HEADERS && head[4] & FLAG_END)) {
            return;
        }
    }
}

/* What is asked from now on; false: nobody waits for it any more. */
static bool secure_hold(struct secure *s, int fd)
{
    uv_mutex_lock(&s->lock);
    bool cancelled = s->cancelled;
    s->fd = cancelled ? -1 : fd;
    uv_mutex_unlock(&s->lock);
    return !cancelled;
}

static void secure_ask(void *user)
{
    struct secure *s = user;
    int fd = secure_dial(s);
    bool wanted = fd >= 0 && secure_hold(s, fd);
    if (wanted && s->request.grpc)
        secure_ask_grpc(s, fd);
    else if (wanted)
        secure_ask_https(s, fd);
    (void)secure_hold(s, -1);
    if (fd >= 0)
        close(fd);
    (void)uv_async_send(&s->over);
}

/* ---- in the loop ---- */

static void secure_closed(uv_handle_t *handle)
{
    struct secure *s = handle->data;
    struct agent *agent = s->request.agent;
    uv_mutex_destroy(&s->lock);
    mem_free(s);
    agent->streams_open--;
    agent_maybe_free(agent);
}

static void secure_end(struct secure *s)
{
    for (struct secure **at = &s->request.agent->secures; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    uv_close((uv_handle_t *)&s->over, secure_closed);
}

static void secure_asked(uv_async_t *over)
{
    struct secure *s = over->data;
    (void)uv_thread_join(&s->thread);
    if (s->request.done)
        s->request.done(s->request.user, s->ok, str_from(s->words));
    secure_end(s);
}

static bool secure_too_many(const struct agent *agent, struct str ns)
{
    size_t all = 0, own = 0;
    for (const struct secure *s = agent->secures; s; s = s->next) {
        all++;
        own += str_is(ns, s->ns);
    }
    return all >= SECURE_MAX || own >= SECURE_A_NAMESPACE;
}

struct secure *secure_start(const struct secure_request *request)
{
    uv_thread_options_t options = {.flags = UV_THREAD_HAS_STACK_SIZE, .stack_size = STACK_BYTES};
    struct agent *agent = request->agent;
    if (secure_too_many(agent, request->ns))
        return NULL;
    struct secure *s = MEM_NEW(struct secure);
    s->request = *request;
    (void)snprintf(s->ns, sizeof(s->ns), STR_FMT, STR_ARG(request->ns));
    (void)snprintf(s->host, sizeof(s->host), "%s", request->host);
    s->text_len = request->text.len < sizeof(s->text) ? request->text.len : sizeof(s->text);
    if (s->text_len)
        memcpy(s->text, request->text.p, s->text_len);
    if (s->request.timeout_ms <= 0)
        s->request.timeout_ms = 1000;
    s->fd = -1;
    (void)uv_mutex_init(&s->lock);
    s->over.data = s;
    (void)uv_async_init(agent->loop, &s->over, secure_asked);
    agent->streams_open++;
    s->next = agent->secures;
    agent->secures = s;
    if (uv_thread_create_ex(&s->thread, &options, secure_ask, s) == 0)
        return s;
    secure_end(s);
    return NULL;
}

void secure_cancel(struct secure *secure)
{
    if (!secure)
        return;
    secure->request.done = NULL;
    uv_mutex_lock(&secure->lock);
    secure->cancelled = true;
    if (secure->fd >= 0) /* its calls wait anew for whoever says one byte at a time */
        (void)shutdown(secure->fd, SHUT_RDWR);
    uv_mutex_unlock(&secure->lock);
}
