#include "base/arena.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/conn.h"
#include "http/server.h"
#include "http/tls.h"
#include "http1/parse.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

/* The answer half of src/http/server.h: what handlers call. Everything is queued on the connection;
 * nothing here sends or calls back. */

#define SMALL_BODY_BYTES \
    ((size_t)32 << 10) /* copied behind the head: one record, one system call */

static const struct {
    int status;
    const char *text;
} status_texts[] = {
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < COUNT_OF(status_texts); i++)
        if (status_texts[i].status == status)
            return status_texts[i].text;
    return "Status";
}

/* The head's bytes move into the exchange (as x->body, for the caller to parse), because the
 * connection's buffer goes on. */
struct http_exchange *exchange_new(struct http_conn *conn, struct str head_bytes)
{
    struct http_exchange *x = MEM_NEW(struct http_exchange);

    x->conn = conn;
    x->refs = 1;
    x->body_max = HTTP_BODY_BYTES_MAX;
    x->body = str_dup(&x->arena, head_bytes);
    return x;
}

struct http_exchange *http_ref(struct http_exchange *x)
{
    x->refs++;
    return x;
}

void http_unref(struct http_exchange *x)
{
    if (!x || --x->refs)
        return;
    buf_done(&x->headers);
    buf_done(&x->body_buf);
    arena_done(&x->arena);
    mem_free(x);
}

void exchange_gone(struct http_exchange *x)
{
    x->conn = NULL;
    if (x->on_close)
        x->on_close(x);
    http_unref(x);
}

bool http_is_open(const struct http_exchange *x)
{
    return x->conn && x->answer != ANSWER_DONE;
}

struct str http_peer_address(struct http_exchange *x)
{
    struct sockaddr_storage at;
    socklen_t size = sizeof(at);
    char text[INET6_ADDRSTRLEN] = "";
    bool known = x->conn && getpeername(x->conn->fd, (struct sockaddr *)&at, &size) == 0;

    if (known && at.ss_family == AF_INET)
        (void)inet_ntop(AF_INET, &((struct sockaddr_in *)&at)->sin_addr, text, sizeof(text));
    else if (known && at.ss_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&at)->sin6_addr, text, sizeof(text));
    return text[0] ? str_dup(&x->arena, str_from(text)) : STR_NONE;
}

struct str http_peer_identity(struct http_exchange *x)
{
    struct buf subject = {0};

    if (!x->conn || !x->conn->tls)
        return STR_NONE;
    tls_peer_identity(x->conn->tls, &subject);
    struct str result = subject.len ? str_dup(&x->arena, buf_str(&subject)) : STR_NONE;
    buf_done(&subject);
    return result;
}

void http_header(struct http_exchange *x, const char *name, struct str value)
{
    buf_addf(&x->headers, "%s: " STR_FMT "\r\n", name, STR_ARG(value));
}

static void write_head(struct http_exchange *x, int status, const char *content_type)
{
    struct buf *out = &x->conn->out;

    x->status = status;
    buf_addf(out, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
    if (content_type)
        buf_addf(out, "Content-Type: %s\r\n", content_type);
    buf_add(out, buf_str(&x->headers));
}

void http_reply_parts(struct http_exchange *x,
                      int status,
                      const char *content_type,
                      const struct str *parts,
                      size_t count,
                      void (*release)(void *),
                      void *release_user)
{
    struct http_conn *conn = x->conn;
    size_t length = 0;

    if (!conn || x->answer != ANSWER_NONE) {
        if (release)
            release(release_user);
        return;
    }
    for (size_t i = 0; i < count; i++)
        length += parts[i].len;
    if (!x->body_done)
        conn->close_after = true;
    write_head(x, status, content_type);
    if (status != 304 && status != 204)
        buf_addf(&conn->out, "Content-Length: %zu\r\n", length);
    buf_add(&conn->out, conn->close_after ? STR("Connection: close\r\n\r\n") : STR("\r\n"));
    x->answer = ANSWER_DONE;
    conn->deadline_ms = 0;
    conn_mark_dirty(conn);
    if (conn->no_body || length <= SMALL_BODY_BYTES) {
        for (size_t i = 0; i < count && !conn->no_body; i++)
            buf_add(&conn->out, parts[i]);
        if (release)
            release(release_user);
        return;
    }
    conn->parts = parts;
    conn->part_count = count;
    conn->part_index = 0;
    conn->part_sent = 0;
    conn->release = release;
    conn->release_user = release_user;
}

void http_reply(struct http_exchange *x, int status, const char *content_type, struct str body)
{
    struct str *part = ARENA_NEW(&x->arena, struct str);

    *part = body.len <= SMALL_BODY_BYTES ? body : str_dup(&x->arena, body);
    http_reply_parts(x, status, content_type, part, 1, NULL, NULL);
}

void http_begin(struct http_exchange *x, int status, const char *content_type)
{
    struct http_conn *conn = x->conn;

    if (!conn || x->answer != ANSWER_NONE)
        return;
    write_head(x, status, content_type);
    if (!x->head.keep_alive)
        conn->close_after = true;
    buf_add(&conn->out, conn->close_after ? STR("Connection: close\r\n\r\n")
                                          : STR("Transfer-Encoding: chunked\r\n\r\n"));
    x->answer = ANSWER_STREAMING;
    if (x->body_done)
        conn->deadline_ms = 0;
    conn_mark_dirty(conn);
}

void http_write(struct http_exchange *x, struct str bytes)
{
    struct http_conn *conn = x->conn;

    if (!conn || !bytes.len || conn->no_body)
        return;
    if (x->answer == ANSWER_STREAMING && !conn->close_after) {
        char size[20];
        int len = snprintf(size, sizeof(size), "%zx\r\n", bytes.len);

        assert(len > 0 && (size_t)len < sizeof(size));
        buf_add(&conn->out, (struct str){size, (size_t)len});
        buf_add(&conn->out, bytes);
        buf_add(&conn->out, STR("\r\n"));
    } else if (x->answer == ANSWER_STREAMING || x->answer == ANSWER_UPGRADED) {
        buf_add(&conn->out, bytes);
    }
    conn_mark_dirty(conn);
}

void http_end(struct http_exchange *x)
{
    struct http_conn *conn = x->conn;

    if (!conn)
        return;
    if (x->answer == ANSWER_STREAMING && !conn->close_after && !conn->no_body)
        buf_add(&conn->out, STR("0\r\n\r\n"));
    if (x->answer == ANSWER_UPGRADED || !x->body_done)
        conn->close_after = true;
    x->answer = ANSWER_DONE;
    conn->deadline_ms = 0;
    conn_mark_dirty(conn);
}

void http_abort(struct http_exchange *x)
{
    if (x->conn)
        conn_close(x->conn);
}

void http_upgrade(struct http_exchange *x, const char *protocol)
{
    struct http_conn *conn = x->conn;

    if (!conn || x->answer != ANSWER_NONE)
        return;
    write_head(x, 101, NULL);
    buf_addf(&conn->out, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n", protocol);
    x->answer = ANSWER_UPGRADED;
    x->body_done = true;
    conn->deadline_ms = 0;
    conn_mark_dirty(conn);
}

size_t http_pending(const struct http_exchange *x)
{
    return x->conn ? conn_pending(x->conn) : 0;
}

void http_pause(struct http_exchange *x, bool paused)
{
    if (!x->conn || x->conn->paused == paused)
        return;
    x->conn->paused = paused;
    conn_mark_dirty(x->conn);
}
