#include "workspace/httpd.h"

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/vec.h"
#include "http1/parse.h"
#include "workspace/address.h"
#include "workspace/door.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BACKLOG 128

enum conn_state {
    CONN_HEAD,   /* reading a request's head */
    CONN_BODY,   /* reading a body of known length */
    CONN_CHUNKS, /* reading a body that comes in chunks */
    CONN_WAIT,   /* the request is complete, its answer is not */
};

struct httpd_conn {
    struct httpd *httpd;
    int fd;
    enum conn_state state;
    struct buf in;
    struct buf out;
    size_t out_sent; /* of out: not moved to the front at every write */
    struct buf head; /* the current request's, kept for its strings */
    struct httpd_request request;
    uint64_t body_left;          /* CONN_BODY */
    struct http_chunked chunked; /* CONN_CHUNKS */
    bool keep_alive;
    bool answered; /* the answer is complete in `out` */
    bool streaming;
    bool more; /* streaming: `drained` has more to give */
    bool dead; /* to be closed at the end of the turn */
    bool close_after;
    bool asked; /* a request was complete */
    int64_t active_ms;
    void *data;
};

struct httpd {
    int fd;
    uint16_t port;
    struct httpd_handler handler;
    struct conn_vec VEC_FIELDS(struct httpd_conn *) conns;
    VEC(struct pollfd) polls;
    size_t conns_max;
    size_t dead_count; /* of this turn: they are closed at its end */
    char *scratch;
    struct buf piece; /* of a chunked body, decoded; at most as long as what was read */
};

static int64_t clock_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int httpd_open(const char *address,
               uint16_t port,
               const struct httpd_handler *handler,
               struct httpd **ret,
               struct err *err)
{
    int fd = address_listen(address, port, BACKLOG, err);

    if (fd < 0)
        return fd;
    struct httpd *httpd = MEM_NEW(struct httpd);
    httpd->fd = fd;
    httpd->port = address_port(fd);
    httpd->handler = *handler;
    httpd->conns_max = handler->conns_max ? handler->conns_max : HTTPD_CONNS_MAX;
    httpd->scratch = mem_alloc(HTTPD_READ_BYTES);
    *ret = httpd;
    return 0;
}

uint16_t httpd_port(const struct httpd *httpd)
{
    return httpd->port;
}

static void conn_free(struct httpd_conn *conn)
{
    conn->httpd->handler.closed(conn->httpd->handler.user, conn);
    close(conn->fd);
    buf_done(&conn->in);
    buf_done(&conn->out);
    buf_done(&conn->head);
    mem_free(conn);
}

void httpd_close(struct httpd *httpd)
{
    if (!httpd)
        return;
    for (size_t i = 0; i < httpd->conns.count; i++)
        conn_free(httpd->conns.items[i]);
    VEC_DONE(&httpd->conns);
    VEC_DONE(&httpd->polls);
    close(httpd->fd);
    mem_free(httpd->scratch);
    buf_done(&httpd->piece);
    mem_free(httpd);
}

/* ---- answers ---- */

static const char *status_text(int status)
{
    switch (status) {
    case 200: return "OK";
    case 201: return "Created";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 409: return "Conflict";
    case 412: return "Precondition Failed";
    case 413: return "Content Too Large";
    case 422: return "Unprocessable Content";
    case 414: return "URI Too Long";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Status";
    }
}

static void conn_flush(struct httpd_conn *conn)
{
    while (!conn->dead && conn->out_sent < conn->out.len) {
        ssize_t sent = send(conn->fd, conn->out.p + conn->out_sent, conn->out.len - conn->out_sent,
                            MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            conn->dead = errno != EAGAIN;
            return;
        }
        conn->out_sent += (size_t)sent;
    }
    conn->out_sent = 0;
    buf_clear(&conn->out);
}

static void answer_done(struct httpd_conn *conn)
{
    conn->answered = true;
    conn->streaming = false;
    conn->more = false;
    conn->close_after = conn->state != CONN_WAIT || !conn->keep_alive;
}

void httpd_reply(struct httpd_conn *conn,
                 int status,
                 const char *headers,
                 const char *type,
                 struct str body)
{
    if (conn->answered || conn->streaming)
        return; /* the handler had already refused it */
    bool close_after = conn->state != CONN_WAIT || !conn->keep_alive;

    buf_addf(&conn->out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s\r\n",
             status, status_text(status), type, body.len, headers,
             close_after ? "Connection: close\r\n" : "");
    if (!str_is(conn->request.method, "HEAD"))
        buf_add(&conn->out, body);
    answer_done(conn);
}

void httpd_stream_begin(struct httpd_conn *conn, const char *type)
{
    buf_addf(&conn->out,
             "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", type);
    conn->streaming = true;
}

bool httpd_stream_add(struct httpd_conn *conn, struct str bytes)
{
    if (conn->dead || !conn->streaming)
        return false;
    if (bytes.len == 0)
        return true; /* an empty chunk would end the stream */
    if (conn->out.len - conn->out_sent + bytes.len > HTTPD_BUFFERED_MAX) {
        conn->dead = true;
        return false;
    }
    buf_addf(&conn->out, "%zx\r\n", bytes.len);
    buf_add(&conn->out, bytes);
    buf_add(&conn->out, STR("\r\n"));
    return true;
}

void httpd_stream_end(struct httpd_conn *conn)
{
    if (conn->dead || !conn->streaming)
        return;
    buf_add(&conn->out, STR("0\r\n\r\n"));
    answer_done(conn);
}

void httpd_drop(struct httpd_conn *conn)
{
    conn->dead = true;
}

int httpd_fd(const struct httpd_conn *conn)
{
    return conn->fd;
}

void *httpd_user(const struct httpd_conn *conn)
{
    return conn->httpd->handler.user;
}

void httpd_set_data(struct httpd_conn *conn, void *data)
{
    conn->data = data;
}

void *httpd_data(const struct httpd_conn *conn)
{
    return conn->data;
}

const struct httpd_request *httpd_request(const struct httpd_conn *conn)
{
    return &conn->request;
}

/* ---- requests ---- */

static void refuse(struct httpd_conn *conn, int status, const char *why)
{
    conn->keep_alive = false;
    httpd_reply(conn, status, "", "text/plain", str_from(why));
}

/* conn->head holds the whole head, which `head` was read from. */
static void head_complete(struct httpd_conn *conn, const struct http_head *head)
{
    conn->request = (struct httpd_request){.method = head->method,
                                           .path = head->path,
                                           .query = head->query,
                                           .host = http_head_get(head, "Host"),
                                           .secret = http_head_get(head, DOOR_HEADER)};
    conn->keep_alive = head->keep_alive;
    conn->asked = true;
    conn->chunked = (struct http_chunked){0};
    conn->body_left = head->content_length > 0 ? (uint64_t)head->content_length : 0;
    conn->state = head->chunked ? CONN_CHUNKS : conn->body_left ? CONN_BODY : CONN_WAIT;
    if (head->expect_continue)
        buf_add(&conn->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    conn->httpd->handler.begin(conn->httpd->handler.user, conn, &conn->request);
    if (conn->state == CONN_WAIT)
        conn->httpd->handler.end(conn->httpd->handler.user, conn);
}

static size_t eat_head(struct httpd_conn *conn, struct str in)
{
    struct http_head head;
    struct err err = {0};
    ssize_t len = http_head_parse(in, &head, &err);

    if (len == 0)
        return 0;
    conn->answered = false;
    conn->streaming = false;
    conn->request = (struct httpd_request){0};
    if (len < 0) {
        refuse(conn, err.http_status, err.text);
        return 0;
    }
    buf_clear(&conn->head);
    buf_add(&conn->head, str_sub(in, 0, (size_t)len));
    (void)http_head_parse(buf_str(&conn->head), &head, NULL); /* its strings last as long */
    head_complete(conn, &head);
    return (size_t)len;
}

static void body_complete(struct httpd_conn *conn)
{
    conn->state = CONN_WAIT;
    if (!conn->answered)
        conn->httpd->handler.end(conn->httpd->handler.user, conn);
}

static size_t eat_body(struct httpd_conn *conn, struct str in)
{
    struct str piece = str_sub(in, 0, conn->body_left < in.len ? (size_t)conn->body_left : in.len);

    conn->body_left -= piece.len;
    if (!conn->answered)
        conn->httpd->handler.body(conn->httpd->handler.user, conn, piece);
    if (conn->body_left == 0)
        body_complete(conn);
    return piece.len;
}

static size_t eat_chunks(struct httpd_conn *conn, struct str in)
{
    struct buf *piece = &conn->httpd->piece;
    bool done = false;
    ssize_t used;

    buf_clear(piece);
    used = http_chunked_read(&conn->chunked, in, piece, &done);
    if (used < 0) {
        refuse(conn, 400, "the chunks of the body are malformed\n");
        return 0;
    }
    if (piece->len && !conn->answered)
        conn->httpd->handler.body(conn->httpd->handler.user, conn, buf_str(piece));
    if (done)
        body_complete(conn);
    return (size_t)used;
}

/* One step of parsing; 0 when more input is needed or the answer must come first. */
static size_t eat(struct httpd_conn *conn, struct str in)
{
    switch (conn->state) {
    case CONN_HEAD: return eat_head(conn, in);
    case CONN_BODY: return eat_body(conn, in);
    case CONN_CHUNKS: return eat_chunks(conn, in);
    case CONN_WAIT: return 0;
    }
    return 0;
}

static void finish_answer(struct httpd_conn *conn)
{
    if (conn->out.len > 0)
        conn_flush(conn);
    if (conn->out.len > 0 || !conn->answered)
        return;
    if (conn->close_after) {
        conn->dead = true;
        return;
    }
    conn->answered = false;
    conn->state = CONN_HEAD;
}

/* `fresh` is what was just read; it is parsed where it lies unless something older waits. */
static void conn_input(struct httpd_conn *conn, struct str fresh)
{
    struct str in = fresh;

    if (conn->in.len) {
        buf_add(&conn->in, fresh);
        in = buf_str(&conn->in);
    }
    size_t used = 0;
    if (conn->state == CONN_WAIT && conn->in.len > HTTPD_READ_BYTES)
        conn->dead = true; /* it talks on instead of waiting for its answer */
    while (!conn->dead && used < in.len && !(conn->answered && conn->close_after)) {
        size_t step = eat(conn, str_sub(in, used, in.len));

        used += step;
        if (conn->answered)
            finish_answer(conn);
        if (step == 0)
            break;
    }
    if (conn->in.len)
        buf_consume(&conn->in, used);
    else
        buf_add(&conn->in, str_sub(fresh, used, fresh.len));
}

static void conn_read(struct httpd_conn *conn)
{
    char *scratch = conn->httpd->scratch;
    ssize_t got = recv(conn->fd, scratch, HTTPD_READ_BYTES, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        conn->dead = true;
        return;
    }
    conn_input(conn, (struct str){scratch, (size_t)got});
}

/* Connections that owe and are owed nothing go for new ones: first those that never asked for
 * anything, then those that have not for longest. A stranger who holds as many as there can be would
 * keep the job's own pods out; they come again when they want something. */
static bool make_room(struct httpd *httpd)
{
    struct httpd_conn *oldest = NULL;

    for (size_t i = 0; i < httpd->conns.count; i++) {
        struct httpd_conn *conn = httpd->conns.items[i];

        if (conn->dead || conn->state != CONN_HEAD || conn->out.len)
            continue;
        if (!oldest || conn->asked < oldest->asked ||
            (conn->asked == oldest->asked && conn->active_ms < oldest->active_ms))
            oldest = conn;
    }
    if (!oldest)
        return false;
    oldest->dead = true;
    httpd->dead_count++;
    return true;
}

static void accept_all(struct httpd *httpd, int64_t now_ms)
{
    int yes = 1;
    int fd;

    while ((fd = accept4(httpd->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (httpd->conns.count - httpd->dead_count >= httpd->conns_max && !make_room(httpd)) {
            close(fd);
            continue;
        }
        struct httpd_conn *conn = MEM_NEW(struct httpd_conn);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        conn->httpd = httpd;
        conn->fd = fd;
        conn->active_ms = now_ms;
        VEC_PUSH(NULL, &httpd->conns, conn);
    }
}

static void conn_turn(struct httpd_conn *conn, short events, int64_t now_ms)
{
    if (events & (POLLERR | POLLNVAL))
        conn->dead = true;
    if (!conn->dead && (events & (POLLIN | POLLHUP))) {
        conn->active_ms = now_ms;
        conn_read(conn);
    }
    if (!conn->dead)
        finish_answer(conn);
    if (!conn->dead && conn->state == CONN_HEAD && conn->in.len)
        conn_input(conn, STR("")); /* a request that came behind the last one */
    if (!conn->dead && conn->streaming && conn->out.len == 0)
        conn->more = conn->httpd->handler.drained(conn->httpd->handler.user, conn);
    if (!conn->dead)
        finish_answer(conn);
    if (conn->state != CONN_WAIT && conn->state != CONN_HEAD &&
        now_ms - conn->active_ms > HTTPD_IDLE_LIMIT_MS)
        conn->dead = true;
}

int httpd_turn(struct httpd *httpd, int timeout_ms, struct err *err)
{
    size_t count = httpd->conns.count;
    int64_t now_ms;

    httpd->polls.count = 0;
    httpd->dead_count = 0;
    VEC_PUSH(NULL, &httpd->polls, (struct pollfd){.fd = httpd->fd, .events = POLLIN});
    for (size_t i = 0; i < count; i++) {
        struct httpd_conn *conn = httpd->conns.items[i];
        int events = POLLIN | (conn->out.len || conn->more ? POLLOUT : 0);

        VEC_PUSH(NULL, &httpd->polls, (struct pollfd){.fd = conn->fd, .events = (short)events});
    }
    if (poll(httpd->polls.items, httpd->polls.count, timeout_ms) < 0 && errno != EINTR)
        return err_set(err, -errno, "poll: %s", strerrordesc_np(errno));
    now_ms = clock_ms();
    if (httpd->polls.items[0].revents)
        accept_all(httpd, now_ms);
    for (size_t i = 0; i < count; i++)
        conn_turn(httpd->conns.items[i], httpd->polls.items[i + 1].revents, now_ms);
    httpd->handler.tick(httpd->handler.user, now_ms);
    for (size_t i = httpd->conns.count; i-- > 0;) {
        struct httpd_conn *conn = httpd->conns.items[i];

        if (conn->out.len && !conn->dead)
            conn_flush(conn);
        if (conn->dead) {
            VEC_REMOVE_SWAP(&httpd->conns, i);
            conn_free(conn);
        }
    }
    return 0;
}

bool httpd_query(const struct httpd_conn *conn, const char *name, char *out, size_t out_bytes)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str value = http_query(&arena, conn->request.query, name);

    if (!str_is_set(value))
        return false;
    (void)snprintf(out, out_bytes, STR_FMT, STR_ARG(value));
    return true;
}
