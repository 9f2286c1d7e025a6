#include "http/conn.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/server.h"
#include "http/tls.h"
#include "http1/parse.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

#define HEAD_SECONDS   20  /* to finish a handshake and to send a head, body pieces likewise */
#define IDLE_SECONDS   180 /* between requests; Go's clients give up first, after 90 */
#define LINGER_SECONDS 10
#define IOV_MAX_USED   64
#define RECORD_BYTES   16384             /* the largest TLS record */
#define IN_BYTES_MAX   ((size_t)1 << 20) /* input held back while a handler is busy */
#define READ_ROUNDS    8                 /* reads before others get their turn */

static void deadline_in(struct http_conn *conn, uint64_t seconds)
{
    conn->deadline_ms = seconds ? uv_now(conn->server->loop) + seconds * 1000 : 0;
}

static void drop_session(struct http_conn *conn)
{
    if (conn->tls)
        gnutls_deinit(conn->tls);
    tls_identity_free(conn->identity);
}

static void on_closed(uv_handle_t *handle)
{
    struct http_conn *conn = handle->data;

    drop_session(conn);
    (void)close(conn->fd);
    buf_done(&conn->in);
    buf_done(&conn->out);
    mem_free(conn);
}

static void drop_parts(struct http_conn *conn)
{
    void (*release)(void *) = conn->release;

    conn->part_count = 0;
    conn->part_index = 0;
    conn->release = NULL;
    if (release)
        release(conn->release_user);
}

void conn_close(struct http_conn *conn)
{
    struct http_server *server = conn->server;

    if (conn->closing)
        return;
    conn->closing = true;
    drop_parts(conn); /* they may lie in the exchange's arena */
    if (conn->x) {
        struct http_exchange *x = conn->x;
        conn->x = NULL;
        exchange_gone(x);
    }
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    server->conn_count--;
    (void)uv_poll_stop(&conn->poll);
    if (!conn->dirty)
        uv_close((uv_handle_t *)&conn->poll, on_closed);
}

void conn_mark_dirty(struct http_conn *conn)
{
    struct http_server *server = conn->server;

    if (conn->dirty || conn->closing)
        return;
    conn->dirty = true;
    conn->dirty_next = NULL;
    if (server->dirty_last)
        server->dirty_last->dirty_next = conn;
    else
        server->dirty_first = conn;
    server->dirty_last = conn;
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void poll_update(struct http_conn *conn)
{
    int events = UV_DISCONNECT;

    if (conn->closing)
        return;
    if (!conn->paused && conn->in.len < IN_BYTES_MAX)
        events |= UV_READABLE;
    if (!conn->writable)
        events |= UV_WRITABLE;
    if (events == conn->events)
        return;
    conn->events = events;
    (void)uv_poll_start(&conn->poll, events, on_poll);
}

/* ---- output ---- */
size_t conn_pending(const struct http_conn *conn)
{
    size_t bytes = conn->out.len - conn->out_sent;

    for (size_t i = conn->part_index; i < conn->part_count; i++)
        bytes += conn->parts[i].len;
    return bytes - (conn->part_index < conn->part_count ? conn->part_sent : 0);
}

static void advance_parts(struct http_conn *conn, size_t bytes)
{
    conn->part_sent += bytes;
    while (conn->part_index < conn->part_count &&
           conn->part_sent >= conn->parts[conn->part_index].len)
        conn->part_sent -= conn->parts[conn->part_index++].len;
}

static void advance(struct http_conn *conn, size_t bytes)
{
    size_t from_out = conn->out.len - conn->out_sent;

    if (from_out > bytes)
        from_out = bytes;
    conn->out_sent += from_out;
    if (conn->out_sent == conn->out.len) {
        buf_clear(&conn->out);
        conn->out_sent = 0;
    }
    advance_parts(conn, bytes - from_out);
}

static bool has_output(const struct http_conn *conn)
{
    return conn->tls_unsent || conn->out_sent < conn->out.len ||
           conn->part_index < conn->part_count;
}

static ssize_t send_plain(struct http_conn *conn)
{
    struct iovec iov[IOV_MAX_USED];
    struct msghdr message = {.msg_iov = iov};
    size_t count = 0;

    if (conn->out_sent < conn->out.len)
        iov[count++] = (struct iovec){conn->out.p + conn->out_sent, conn->out.len - conn->out_sent};
    size_t skip = conn->part_sent;
    for (size_t i = conn->part_index; i < conn->part_count && count < IOV_MAX_USED; i++) {
        union {
            const char *in;
            void *out;
        } pun = {.in = conn->parts[i].p + skip};
        iov[count++] = (struct iovec){pun.out, conn->parts[i].len - skip};
        skip = 0;
    }
    message.msg_iovlen = count;
    ssize_t sent = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* Up to a record of output in one piece: in place where it lies together, else in the scratch. */
static struct str next_record(struct http_conn *conn)
{
    struct str record = {conn->out.p + conn->out_sent, conn->out.len - conn->out_sent};
    size_t skip = conn->part_sent;

    if (record.len >= RECORD_BYTES || conn->part_index == conn->part_count)
        return str_sub(record, 0, RECORD_BYTES);
    char *scratch = conn->server->scratch;
    size_t len = record.len;
    if (len)
        memcpy(scratch, record.p, len);
    for (size_t i = conn->part_index; i < conn->part_count && len < RECORD_BYTES; i++) {
        struct str part = str_sub(conn->parts[i], skip, RECORD_BYTES - len);

        if (!len && part.len == RECORD_BYTES)
            return part;
        memcpy(scratch + len, part.p, part.len);
        len += part.len;
        skip = 0;
    }
    return (struct str){scratch, len};
}

static ssize_t send_tls(struct http_conn *conn)
{
    struct str record = conn->tls_unsent ? (struct str){NULL, 0} : next_record(conn);
    ssize_t sent = gnutls_record_send(conn->tls, record.p, record.len);

    if (sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED) {
        /* GnuTLS holds the encrypted record now: our copy is done with. */
        if (record.len) {
            advance(conn, record.len);
            conn->tls_unsent = record.len;
        }
        return -EAGAIN;
    }
    if (sent < 0)
        return -EPIPE;
    if (conn->tls_unsent) {
        conn->tls_unsent = 0;
        return 0;
    }
    return sent;
}

static void linger(struct http_conn *conn)
{
    conn->lingering = true;
    conn->paused = false;
    buf_clear(&conn->in);
    if (conn->tls)
        (void)gnutls_bye(conn->tls, GNUTLS_SHUT_WR);
    (void)shutdown(conn->fd, SHUT_WR);
    deadline_in(conn, LINGER_SECONDS);
}

static void process(struct http_conn *conn);

/* Everything queued is with the kernel. */
static void sent_all(struct http_conn *conn)
{
    struct http_exchange *x = conn->x;

    drop_parts(conn);
    if (conn->out.capacity > RECORD_BYTES)
        buf_done(&conn->out);
    if (!x) {
        if (conn->close_after)
            linger(conn);
        return;
    }
    if (x->answer == ANSWER_DONE) {
        bool reuse = x->body_done && !conn->close_after;
        conn->x = NULL;
        x->conn = NULL;
        http_unref(x);
        if (!reuse) {
            linger(conn);
            return;
        }
        buf_done(&conn->out);
        deadline_in(conn, IDLE_SECONDS);
        process(conn);
    } else if (x->answer != ANSWER_NONE && x->on_drain) {
        x->on_drain(x);
    }
}

/* False when the socket is full. */
static bool send_some(struct http_conn *conn)
{
    while (has_output(conn)) {
        ssize_t sent = conn->tls ? send_tls(conn) : send_plain(conn);

        if (sent == -EAGAIN || sent == -EINTR)
            return false;
        if (sent < 0) {
            conn_close(conn);
            return false;
        }
        advance(conn, (size_t)sent);
    }
    return true;
}

static void conn_read(struct http_conn *conn);

void conn_flush(struct http_conn *conn)
{
    conn->dirty = false;
    if (conn->closing) {
        uv_close((uv_handle_t *)&conn->poll, on_closed);
        return;
    }
    if (conn->handshaking)
        return;
    bool had_output = has_output(conn) || conn->x == NULL || conn->x->answer == ANSWER_DONE;
    conn->writable = send_some(conn);
    if (!conn->closing && conn->writable && had_output)
        sent_all(conn);
    if (!conn->closing && !conn->paused) {
        if (conn->in.len)
            process(conn);
        if (!conn->closing && conn->tls && gnutls_record_check_pending(conn->tls))
            conn_read(conn);
    }
    poll_update(conn);
}

/* ---- input ---- */
static void refuse(struct http_conn *conn, const struct err *err)
{
    int status = err->http_status ? err->http_status : 400;

    conn->close_after = true;
    buf_addf(&conn->out,
             "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
             "Connection: close\r\n\r\n%s\n",
             status, http_status_text(status), strlen(err->text) + 1, err->text);
    conn_mark_dirty(conn);
}

/* Start the next exchange if its head is there. */
static bool next_head(struct http_conn *conn)
{
    struct err err = {0};
    struct str bytes = buf_str(&conn->in);
    const char *end = memmem(bytes.p, bytes.len, "\r\n\r\n", 4);
    struct http_head head;

    if (!end || (size_t)(end - bytes.p) > HTTP_HEAD_BYTES_MAX) {
        /* Not complete: only look for what can never become right. */
        if (http_head_parse(bytes, &head, &err) < 0)
            refuse(conn, &err);
        return false;
    }
    size_t size = (size_t)(end - bytes.p) + 4;
    struct http_exchange *x = exchange_new(conn, str_sub(bytes, 0, size));
    ssize_t r = http_head_parse(x->body, &x->head, &err);
    x->body = STR_NONE;
    if (r <= 0) {
        x->conn = NULL;
        http_unref(x);
        refuse(conn, &err);
        return false;
    }
    buf_consume(&conn->in, (size_t)r);
    conn->x = x;
    conn->no_body = str_is(x->head.method, "HEAD");
    conn->close_after = !x->head.keep_alive;
    x->body_left = x->head.content_length > 0 ? (uint64_t)x->head.content_length : 0;
    x->body_done = !x->head.chunked && !x->body_left;
    deadline_in(conn, x->body_done ? 0 : HEAD_SECONDS);
    if (conn->server->begin)
        conn->server->begin(conn->server->user, x);
    if (conn->closing || conn->x != x || x->answer == ANSWER_DONE)
        return false;
    if (!x->body_done && x->head.expect_continue) {
        buf_add(&conn->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
        conn_mark_dirty(conn);
    }
    if (x->body_done) {
        if (x->on_body)
            x->on_body(x, STR(""), true);
        else if (x->answer == ANSWER_NONE)
            conn->server->handle(conn->server->user, x);
    }
    return true;
}

static void body_too_large(struct http_conn *conn)
{
    struct http_exchange *x = conn->x;
    static const char text[] =
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
        "\"message\":\"the request body is larger than this server takes\","
        "\"reason\":\"RequestEntityTooLarge\",\"code\":413}\n";

    if (x->answer == ANSWER_NONE)
        http_reply(x, 413, "application/json", str_from(text));
    else
        http_abort(x);
}

/* Feed body bytes to the exchange. False when no more can be done now. */
static bool feed_body(struct http_conn *conn)
{
    struct http_exchange *x = conn->x;
    struct str bytes = buf_str(&conn->in);
    ssize_t used = 0;

    if (!bytes.len)
        return false;
    if (x->on_body && conn->paused)
        return false;
    x->body_buf.bytes_max = x->on_body ? BUF_BYTES_MAX : x->body_max ? x->body_max : 1;
    if (x->head.chunked) {
        used = http_chunked_read(&x->chunked, bytes, &x->body_buf, &x->body_done);
    } else {
        struct str part = str_sub(bytes, 0, x->body_left < bytes.len ? x->body_left : bytes.len);
        buf_add(&x->body_buf, part);
        used = x->body_buf.overflow ? -EMSGSIZE : (ssize_t)part.len;
        x->body_left -= part.len;
        x->body_done = x->body_left == 0;
    }
    if (used == -EMSGSIZE) {
        body_too_large(conn);
        return false;
    }
    if (used < 0) {
        struct err err = {.http_status = 400, .text = "malformed chunked body"};
        conn->x = NULL;
        exchange_gone(x);
        refuse(conn, &err);
        return false;
    }
    buf_consume(&conn->in, (size_t)used);
    deadline_in(conn, x->body_done ? 0 : HEAD_SECONDS);
    if (x->on_body) {
        struct buf piece = x->body_buf;
        x->body_buf = (struct buf){0};
        x->on_body(x, buf_str(&piece), x->body_done);
        buf_done(&piece);
    } else if (x->body_done) {
        x->body = buf_str(&x->body_buf);
        conn->server->handle(conn->server->user, x);
    }
    return true;
}

static void process(struct http_conn *conn)
{
    bool more = true;

    while (more && !conn->closing) {
        struct http_exchange *x = conn->x;

        if (conn->lingering) {
            buf_clear(&conn->in);
            return;
        }
        if (!x && conn->close_after)
            return;
        if (!x)
            more = conn->in.len && next_head(conn);
        else if (x->answer == ANSWER_DONE)
            more = false;
        else if (x->answer == ANSWER_UPGRADED && conn->in.len && !conn->paused) {
            struct buf bytes = conn->in;
            conn->in = (struct buf){0};
            if (x->on_data)
                x->on_data(x, buf_str(&bytes));
            buf_done(&bytes);
        } else
            more = !x->body_done && feed_body(conn);
    }
    if (!conn->closing && !conn->in.len)
        buf_done(&conn->in);
}

static void handshake(struct http_conn *conn)
{
    int r = gnutls_handshake(conn->tls);

    if (r == GNUTLS_E_SUCCESS) {
        conn->handshaking = false;
        conn->writable = true;
        if (conn->out.len)
            conn_mark_dirty(conn);
    } else if (r == GNUTLS_E_AGAIN || r == GNUTLS_E_INTERRUPTED) {
        conn->writable = gnutls_record_get_direction(conn->tls) == 0;
    } else if (gnutls_error_is_fatal(r)) {
        conn_close(conn);
        return;
    }
    poll_update(conn);
}

/* Bytes read, 0 at the end, -EAGAIN when there is nothing now. */
static ssize_t receive(struct http_conn *conn)
{
    char *scratch = conn->server->scratch;

    if (!conn->tls) {
        ssize_t count = recv(conn->fd, scratch, sizeof(conn->server->scratch), 0);
        return count < 0 ? -errno : count;
    }
    ssize_t count = gnutls_record_recv(conn->tls, scratch, sizeof(conn->server->scratch));
    if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED)
        return -EAGAIN;
    return count < 0 ? -EPIPE : count;
}

static void conn_read(struct http_conn *conn)
{
    for (int round = 0; !conn->closing && !conn->paused; round++) {
        if (conn->in.len >= IN_BYTES_MAX)
            break;
        /* The rest of a TLS record lies in GnuTLS, where the loop does not see it. */
        if (round && !(conn->tls && gnutls_record_check_pending(conn->tls)) && round >= READ_ROUNDS)
            break;
        ssize_t count = receive(conn);
        if (count == -EAGAIN || count == -EINTR)
            break;
        if (count <= 0) {
            conn_close(conn);
            return;
        }
        if (conn->lingering)
            continue;
        buf_add(&conn->in, (struct str){conn->server->scratch, (size_t)count});
        process(conn);
        if (conn->tls ? !gnutls_record_check_pending(conn->tls)
                      : (size_t)count < sizeof(conn->server->scratch))
            break;
    }
    poll_update(conn);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    struct http_conn *conn = handle->data;

    if (conn->closing)
        return;
    if (status < 0) {
        conn_close(conn);
        return;
    }
    if (conn->handshaking) {
        handshake(conn);
        if (conn->closing || conn->handshaking)
            return;
    }
    if ((events & UV_WRITABLE) && !conn->writable)
        conn_mark_dirty(conn);
    if (!conn->closing && (events & (UV_READABLE | UV_DISCONNECT))) {
        if (conn->events & UV_READABLE)
            conn_read(conn);
        else if (events & UV_DISCONNECT)
            conn_close(conn);
    }
}

void conn_open(struct http_server *server, int fd)
{
    struct http_conn *conn = MEM_NEW(struct http_conn);

    conn->server = server;
    conn->fd = fd;
    conn->writable = true;
    conn->poll.data = conn;
    if (server->tls) {
        if (tls_session_new(server->tls, fd, &conn->tls) < 0) {
            (void)close(fd);
            mem_free(conn);
            return;
        }
        conn->identity = tls_identity_ref(server->tls);
        conn->handshaking = true;
    }
    if (uv_poll_init_socket(server->loop, &conn->poll, fd) < 0) {
        drop_session(conn);
        (void)close(fd);
        mem_free(conn);
        return;
    }
    conn->next = server->conns;
    if (conn->next)
        conn->next->previous = conn;
    server->conns = conn;
    server->conn_count++;
    deadline_in(conn, HEAD_SECONDS);
    poll_update(conn);
}
