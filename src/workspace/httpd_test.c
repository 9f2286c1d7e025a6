#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"
#include "workspace/httpd.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TURNS_MAX 1000 /* of 10 ms each, if nothing comes */

/* What the handler was told, and what it answers: the body it got. */
struct echo {
    struct buf body;
    struct buf head; /* "METHOD path query host" */
    char a[16];      /* query parameter "a" */
    int begun;
    int ended;
};

static void echo_begin(void *user, struct httpd_conn *conn, const struct httpd_request *request)
{
    struct echo *echo = user;

    echo->begun++;
    buf_clear(&echo->body);
    buf_clear(&echo->head);
    buf_addf(&echo->head, STR_FMT " " STR_FMT " " STR_FMT " " STR_FMT, STR_ARG(request->method),
             STR_ARG(request->path), STR_ARG(request->query), STR_ARG(request->host));
    if (!httpd_query(conn, "a", echo->a, sizeof(echo->a)))
        (void)snprintf(echo->a, sizeof(echo->a), "none");
}

static void echo_body(void *user, struct httpd_conn *conn, struct str bytes)
{
    struct echo *echo = user;

    (void)conn;
    buf_add(&echo->body, bytes);
}

static void echo_end(void *user, struct httpd_conn *conn)
{
    struct echo *echo = user;

    echo->ended++;
    httpd_reply(conn, 200, "", "text/plain", buf_str(&echo->body));
}

static bool echo_drained(void *user, struct httpd_conn *conn)
{
    (void)user;
    (void)conn;
    return false;
}

static void echo_closed(void *user, struct httpd_conn *conn)
{
    (void)user;
    (void)conn;
}

static void echo_tick(void *user, int64_t now_ms)
{
    (void)user;
    (void)now_ms;
}

static int dial(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
    return fd;
}

/* Sends `text` in pieces of `cut` bytes and turns the server until it has answered or closed; the
 * status of the answer, 0 when there is none. */
static int status_of(struct echo *echo, const char *text, size_t cut)
{
    struct httpd_handler handler = {.begin = echo_begin,
                                    .body = echo_body,
                                    .end = echo_end,
                                    .drained = echo_drained,
                                    .closed = echo_closed,
                                    .tick = echo_tick,
                                    .user = echo};
    struct httpd *httpd = NULL;
    struct str rest = str_from(text);
    char answer[1024];
    ssize_t got = -1;
    int status = 0;
    int fd;

    echo->begun = echo->ended = 0;
    EXPECT(httpd_open("127.0.0.1", 0, &handler, &httpd, NULL) == 0);
    fd = dial(httpd_port(httpd));
    for (int turns = 0; got < 0 && turns < TURNS_MAX; turns++) {
        struct str piece = str_sub(rest, 0, cut);

        if (piece.len && send(fd, piece.p, piece.len, MSG_NOSIGNAL) == (ssize_t)piece.len)
            rest = str_sub(rest, piece.len, rest.len);
        EXPECT(httpd_turn(httpd, rest.len ? 0 : 10, NULL) == 0);
        got = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
    }
    if (got > 0) {
        answer[got] = '\0';
        EXPECT(sscanf(answer, "HTTP/1.1 %d ", &status) == 1);
    }
    close(fd);
    httpd_close(httpd);
    return status;
}

static void echo_done(struct echo *echo)
{
    buf_done(&echo->body);
    buf_done(&echo->head);
}

#define POST "POST /v1/state HTTP/1.1\r\nHost: sync\r\n"

TEST(the_sync_server_refuses_what_a_proxy_might_read_differently)
{
    static const struct {
        const char *why;
        const char *text;
        int status;
    } rows[] = {
        {"two lengths", POST "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
        {"a length and chunks",
         POST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        {"a coding that we do not know", POST "Transfer-Encoding: gzip\r\n\r\n", 501},
        {"a negative length", POST "Content-Length: -1\r\n\r\n", 400},
        {"a length with a sign", POST "Content-Length: +1\r\n\r\na", 400},
        {"a folded header", POST "X-A: b\r\n folded\r\nContent-Length: 0\r\n\r\n", 400},
        {"a blank before the colon", POST "Content-Length : 0\r\n\r\n", 400},
        {"bare line feeds", "POST / HTTP/1.1\nHost: sync\nContent-Length: 0\r\n\r\n", 400},
        {"two hosts", POST "Host: other\r\nContent-Length: 0\r\n\r\n", 400},
        {"a version of tomorrow", "GET / HTTP/1.9\r\nHost: sync\r\n\r\n", 505},
        {"a chunk with a sign", POST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
        {"a chunk without a size", POST "Transfer-Encoding: chunked\r\n\r\n\r\n", 400},
        {"a chunk whose size is no number", POST "Transfer-Encoding: chunked\r\n\r\ng\r\n", 400},
        {"a chunk longer than it says",
         POST "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n", 400},
        {"a chunk line without CR", POST "Transfer-Encoding: chunked\r\n\r\n1\na\n0\n\n", 400},
        {"a size of more than 64 bits",
         POST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400},
    };
    struct echo echo = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].why);
        EXPECT(status_of(&echo, rows[i].text, SIZE_MAX) == rows[i].status);
        EXPECT(echo.ended == 0);
    }
    echo_done(&echo);
}

TEST(the_sync_server_joins_requests_whatever_their_cut)
{
    static const struct {
        const char *why;
        const char *text;
        const char *head;
        const char *body;
        const char *a;
    } rows[] = {
        {"no body", "GET /v1/state?a=x%2Fy+z HTTP/1.1\r\nHost: sync:1\r\n\r\n",
         "GET /v1/state a=x%2Fy+z sync:1", "", "x/y z"},
        {"a length", POST "Content-Length: 5\r\n\r\nhello", "POST /v1/state  sync", "hello",
         "none"},
        {"chunks, an extension and a trailer",
         POST "transfer-encoding: Chunked\r\n\r\n4;x=y\r\nWiki\r\n6\r\npedia \r\n0\r\nT: a\r\n\r\n",
         "POST /v1/state  sync", "Wikipedia ", "none"},
        {"HTTP/1.0 needs no Host", "GET / HTTP/1.0\r\n\r\n", "GET /  ", "", "none"},
    };
    static const size_t cuts[] = {1, 7, SIZE_MAX};
    struct echo echo = {0};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; j < COUNT_OF(cuts); j++) {
            test_case(rows[i].why);
            EXPECT(status_of(&echo, rows[i].text, cuts[j]) == 200);
            EXPECT(echo.begun == 1 && echo.ended == 1);
            EXPECT(str_is(buf_str(&echo.head), rows[i].head));
            EXPECT(str_is(buf_str(&echo.body), rows[i].body));
            EXPECT(strcmp(echo.a, rows[i].a) == 0);
        }
    echo_done(&echo);
}

static int ask_on(struct httpd *httpd, int fd)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: sync\r\n\r\n";
    char answer[1024];
    ssize_t got = -1;
    int status = 0;

    if (send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL) < 0)
        return 0;
    for (int turns = 0; got < 0 && turns < TURNS_MAX; turns++) {
        EXPECT(httpd_turn(httpd, 10, NULL) == 0);
        got = recv(fd, answer, sizeof(answer) - 1, MSG_DONTWAIT);
    }
    if (got <= 0)
        return 0;
    answer[got] = '\0';
    EXPECT(sscanf(answer, "HTTP/1.1 %d ", &status) == 1);
    return status;
}

/* Whoever reaches the port may connect, and say nothing for ever. */
TEST(strangers_who_say_nothing_keep_nobody_out_of_the_sync_server)
{
    struct echo echo = {0};
    struct httpd_handler handler = {.begin = echo_begin,
                                    .body = echo_body,
                                    .end = echo_end,
                                    .drained = echo_drained,
                                    .closed = echo_closed,
                                    .tick = echo_tick,
                                    .user = &echo,
                                    .conns_max = 8};
    struct httpd *httpd = NULL;
    int strangers[20];

    EXPECT(httpd_open("127.0.0.1", 0, &handler, &httpd, NULL) == 0);
    int known = dial(httpd_port(httpd));
    EXPECT(ask_on(httpd, known) == 200);
    for (size_t i = 0; i < COUNT_OF(strangers); i++) {
        strangers[i] = dial(httpd_port(httpd));
        EXPECT(httpd_turn(httpd, 0, NULL) == 0);
    }
    int late = dial(httpd_port(httpd));
    EXPECT(ask_on(httpd, late) == 200);
    EXPECT(ask_on(httpd, known) == 200); /* whoever asked before is kept */
    for (size_t i = 0; i < COUNT_OF(strangers); i++)
        close(strangers[i]);
    close(known);
    close(late);
    httpd_close(httpd);
    echo_done(&echo);
}
