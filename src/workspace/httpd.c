#include "workspace/httpd.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/vec.h"
#include "workspace/door.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum conn_state {
    CONN_HEAD,       /* reading a request's head */
    CONN_BODY,       /* reading a body of known length */
    CONN_CHUNK_HEAD, /* reading the line before a chunk */
    CONN_CHUNK,      /* reading a chunk */
    CONN_CHUNK_TAIL, /* the line end behind a chunk */
    CONN_TRAILER,    /* the lines behind the last chunk */
    CONN_WAIT,       /* the request is complete, its answer is not */
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
    uint64_t body_left;
    bool keep_alive;
    bool answered; /* the answer is complete in `out` */
    bool streaming;
    bool more; /* streaming: `drained` has more to give */
    bool dead; /* to be closed at the end of the turn */
    bool close_after;
    int64_t active_ms;
    void *data;
};

struct httpd {
    int fd;
    uint16_t port;
    struct httpd_handler handler;
    struct conn_vec VEC_FIELDS(struct httpd_conn *) conns;
    VEC(struct pollfd) polls;
    char *scratch;
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
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t at_len = sizeof(at);
    int yes = 1;
    int fd;

    if (address && inet_pton(AF_INET, address, &at.sin_addr) != 1)
        return err_set(err, -EINVAL, "'%s' is not an IPv4 address", address);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return err_set(err, -errno, "socket: %s", strerrordesc_np(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 128) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &at_len) < 0) {
        int r = err_set(err, -errno, "port %u: %s", port, strerrordesc_np(errno));

        close(fd);
        return r;
    }
    struct httpd *httpd = MEM_NEW(struct httpd);
    httpd->fd = fd;
    httpd->port = ntohs(at.sin_port);
    httpd->handler = *handler;
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
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
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
    if (!conn->streaming)
        return;
    buf_add(&conn->out, STR("0\r\n\r\n"));
    answer_done(conn);
}

size_t httpd_pending(const struct httpd_conn *conn)
{
    return conn->out.len - conn->out_sent;
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

static struct str header(struct str lines, const char *name)
{
    size_t name_len = strlen(name);
    struct str line;

    while (str_cut(&lines, '\n', &line)) {
        if (line.len > name_len && line.p[name_len] == ':' &&
            strncasecmp(line.p, name, name_len) == 0)
            return str_trim(str_sub(line, name_len + 1, line.len));
    }
    return STR_NONE;
}

static bool says(struct str value, const char *word)
{
    return value.len == strlen(word) && strncasecmp(value.p, word, value.len) == 0;
}

/* conn->head holds the whole head. */
static void head_complete(struct httpd_conn *conn)
{
    struct str lines = buf_str(&conn->head);
    struct str line;
    struct str target;
    struct str length;
    struct str version;
    uint64_t bytes = 0;
    int64_t status = 0;

    conn->answered = false;
    conn->streaming = false;
    conn->request = (struct httpd_request){0};
    (void)str_cut(&lines, '\n', &line);
    line = str_trim(line);
    if (!str_cut(&line, ' ', &conn->request.method) || !str_cut(&line, ' ', &target) ||
        !str_cut(&line, ' ', &version) || !str_starts(version, STR("HTTP/1."))) {
        refuse(conn, 400, "not an HTTP/1 request\n");
        return;
    }
    conn->request.path = str_sub(target, 0, str_find(target, '?'));
    conn->request.query = str_sub(target, conn->request.path.len + 1, target.len);
    conn->request.host = header(lines, "Host");
    conn->request.secret = header(lines, DOOR_HEADER);
    conn->keep_alive = str_is(version, "HTTP/1.1") && !says(header(lines, "Connection"), "close");
    length = header(lines, "Content-Length");
    if (str_is_set(header(lines, "Transfer-Encoding"))) {
        if (!says(header(lines, "Transfer-Encoding"), "chunked") || str_is_set(length))
            status = 400;
        conn->state = CONN_CHUNK_HEAD;
    } else if (str_is_set(length) && !str_to_u64(length, &bytes)) {
        status = 400;
    } else {
        conn->state = bytes ? CONN_BODY : CONN_WAIT;
        conn->body_left = bytes;
    }
    if (status) {
        refuse(conn, (int)status, "a body without a known length\n");
        return;
    }
    if (says(header(lines, "Expect"), "100-continue"))
        buf_add(&conn->out, STR("HTTP/1.1 100 Continue\r\n\r\n"));
    conn->httpd->handler.begin(conn->httpd->handler.user, conn, &conn->request);
    if (conn->state == CONN_WAIT)
        conn->httpd->handler.end(conn->httpd->handler.user, conn);
}

static size_t eat_head(struct httpd_conn *conn, struct str in)
{
    const char *end = memmem(in.p, in.len, "\r\n\r\n", 4);

    if (!end) {
        if (in.len > HTTPD_HEAD_MAX)
            refuse(conn, 431, "the request's head is too long\n");
        return 0;
    }
    size_t len = (size_t)(end - in.p) + 4;
    buf_clear(&conn->head);
    buf_add(&conn->head, str_sub(in, 0, len));
    head_complete(conn);
    return len;
}

static size_t eat_body(struct httpd_conn *conn, struct str in)
{
    struct str piece = str_sub(in, 0, conn->body_left < in.len ? (size_t)conn->body_left : in.len);

    conn->body_left -= piece.len;
    if (!conn->answered)
        conn->httpd->handler.body(conn->httpd->handler.user, conn, piece);
    if (conn->body_left == 0) {
        bool chunked = conn->state == CONN_CHUNK;

        conn->state = chunked ? CONN_CHUNK_TAIL : CONN_WAIT;
        if (!chunked && !conn->answered)
            conn->httpd->handler.end(conn->httpd->handler.user, conn);
    }
    return piece.len;
}

static bool parse_hex(struct str text, uint64_t *ret)
{
    uint64_t number = 0;

    if (text.len == 0 || text.len > 15)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit == 99)
            return false;
        number = number << 4 | digit;
    }
    *ret = number;
    return true;
}

/* The lines of the chunked encoding. */
static size_t eat_chunk_line(struct httpd_conn *conn, struct str in)
{
    size_t end = str_find(in, '\n');
    struct str line;

    if (end == in.len) {
        if (in.len > HTTPD_HEAD_MAX)
            refuse(conn, 400, "a chunk line that does not end\n");
        return 0;
    }
    line = str_trim(str_sub(in, 0, end));
    if (conn->state == CONN_CHUNK_TAIL) {
        conn->state = CONN_CHUNK_HEAD;
    } else if (conn->state == CONN_TRAILER) {
        if (line.len == 0) {
            conn->state = CONN_WAIT;
            if (!conn->answered)
                conn->httpd->handler.end(conn->httpd->handler.user, conn);
        }
    } else if (!parse_hex(str_trim(str_sub(line, 0, str_find(line, ';'))), &conn->body_left)) {
        refuse(conn, 400, "a chunk without a size\n");
    } else {
        conn->state = conn->body_left ? CONN_CHUNK : CONN_TRAILER;
    }
    return end + 1;
}

/* One step of parsing; 0 when more input is needed or the answer must come first. */
static size_t eat(struct httpd_conn *conn, struct str in)
{
    switch (conn->state) {
    case CONN_HEAD: return eat_head(conn, in);
    case CONN_BODY:
    case CONN_CHUNK: return eat_body(conn, in);
    case CONN_CHUNK_HEAD:
    case CONN_CHUNK_TAIL:
    case CONN_TRAILER: return eat_chunk_line(conn, in);
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

static void accept_all(struct httpd *httpd, int64_t now_ms)
{
    int yes = 1;
    int fd;

    while ((fd = accept4(httpd->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (httpd->conns.count >= HTTPD_CONNS_MAX) {
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
    struct str rest = conn->request.query;
    struct str pair;

    while (str_cut(&rest, '&', &pair)) {
        size_t eq = str_find(pair, '=');
        struct str value = str_sub(pair, eq + 1, pair.len);
        size_t n = 0;

        if (!str_is(str_sub(pair, 0, eq), name))
            continue;
        for (size_t i = 0; i < value.len && n + 1 < out_bytes; i++) {
            uint64_t byte;

            if (value.p[i] == '%' && parse_hex(str_sub(value, i + 1, 2), &byte) &&
                i + 2 < value.len) {
                out[n++] = (char)(unsigned char)byte;
                i += 2;
            } else {
                out[n++] = value.p[i] == '+' ? ' ' : value.p[i];
            }
        }
        out[n] = '\0';
        return true;
    }
    return false;
}
