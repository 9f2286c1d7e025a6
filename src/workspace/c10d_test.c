#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/mem.h"
#include "base/str.h"
#include "test.h"
#include "workspace/c10d.h"
#include "workspace/door.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void text(struct buf *out, const char *s)
{
    uint64_t len = strlen(s);

    buf_add(out, (struct str){(const char *)&len, sizeof(len)});
    buf_add(out, str_from(s));
}

static void number(struct buf *out, uint64_t n)
{
    buf_add(out, (struct str){(const char *)&n, sizeof(n)});
}

/* Requests in the types of recent clients: 1 set, 2 compare, 3 get, 4 add, 5 check, 6 wait. */
static int ask(struct c10d_conn *conn, char type, const char *a, const char *b, const char *c)
{
    _cleanup_(buf_done) struct buf out = {0};

    buf_addc(&out, type);
    if (type == 5 || type == 6)
        number(&out, 1);
    text(&out, a);
    if (b)
        text(&out, b);
    if (c)
        text(&out, c);
    return c10d_input(conn, buf_str(&out));
}

static bool answered(struct c10d_conn *conn, const char *s)
{
    _cleanup_(buf_done) struct buf out = {0};
    bool same;

    text(&out, s);
    same = str_eq(buf_str(&out), buf_str(&conn->out));
    buf_clear(&conn->out);
    return same;
}

static void greet(struct c10d_conn *conn)
{
    EXPECT(c10d_input(conn, (struct str){"\0\xce\xf7\x85\x3c", 5}) == 0);
    EXPECT(conn->recent && conn->out.len == 0);
}

TEST(c10d_keeps_compares_adds_and_waits)
{
    struct c10d store = {0};
    struct c10d_conn one = {.store = &store};
    struct c10d_conn two = {.store = &store};
    _cleanup_(buf_done) struct buf add = {0};
    int64_t sum = 0;

    greet(&one);
    greet(&two);
    EXPECT(ask(&two, 6, "k", NULL, NULL) == 0 && two.out.len == 0); /* waits */
    EXPECT(ask(&one, 5, "k", NULL, NULL) == 0 && one.out.len == 1 && one.out.p[0] == 1);
    buf_clear(&one.out);
    EXPECT(ask(&one, 1, "k", "value", NULL) == 0 && one.out.len == 0);
    c10d_wake(&two);
    c10d_wake(&two); /* it waits no more, and is not told again */
    EXPECT(two.out.len == 1 && two.out.p[0] == 0);
    buf_clear(&two.out);
    EXPECT(ask(&two, 3, "k", NULL, NULL) == 0 && answered(&two, "value"));
    EXPECT(ask(&one, 2, "k", "other", "new") == 0 && answered(&one, "value"));
    EXPECT(ask(&one, 2, "k", "value", "new") == 0 && answered(&one, "new"));
    EXPECT(ask(&one, 2, "absent", "x", "new") == 0 && answered(&one, "x"));
    EXPECT(ask(&one, 2, "absent", "", "first") == 0 && answered(&one, "first"));
    buf_addc(&add, 4);
    text(&add, "n");
    number(&add, 5);
    EXPECT(c10d_input(&one, buf_str(&add)) == 0 && c10d_input(&one, buf_str(&add)) == 0);
    memcpy(&sum, one.out.p + 8, sizeof(sum));
    EXPECT(one.out.len == 16 && sum == 10);
    c10d_conn_done(&one);
    c10d_conn_done(&two);
    c10d_done(&store);
}

TEST(c10d_takes_requests_in_any_pieces_and_from_older_clients)
{
    struct c10d store = {0};
    struct c10d_conn conn = {.store = &store};
    _cleanup_(buf_done) struct buf set = {0};

    buf_addc(&set, 0); /* "set" of an older client */
    text(&set, "key");
    text(&set, "in pieces");
    for (size_t i = 0; i < set.len; i++)
        EXPECT(c10d_input(&conn, (struct str){set.p + i, 1}) == 0);
    EXPECT(!conn.recent && store.keys.count == 1);
    EXPECT(ask(&conn, 2, "key", NULL, NULL) == 0 && answered(&conn, "in pieces")); /* its "get" */
    c10d_conn_done(&conn);
    c10d_done(&store);
}

TEST(c10d_refuses_what_is_no_client)
{
    static const struct {
        const char *why;
        struct str bytes;
    } cases[] = {
        {"a request of HTTP", STR("GET / HTTP/1.1\r\n\r\n")},
        {"a type that is not served", {"\0\xce\xf7\x85\x3c\x63", 6}},
        {"a length that cannot be", {"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff", 10}},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct c10d store = {0};
        struct c10d_conn conn = {.store = &store};

        test_case(cases[i].why);
        EXPECT(c10d_input(&conn, cases[i].bytes) == -EPROTO);
        c10d_conn_done(&conn);
        c10d_done(&store);
    }
}

TEST(c10d_strangers_who_wait_give_way_to_others)
{
    struct address eve = {.ip = {.s6_addr = {[15] = 1}}};
    struct address joe = {.ip = {.s6_addr = {[15] = 2}}};
    struct c10d_waiting *waiting = mem_alloc(C10D_WAITING_MAX * sizeof(*waiting));

    for (size_t i = 0; i < C10D_WAITING_MAX; i++) { /* 64 of each, the later ones first */
        waiting[i] = (struct c10d_waiting){.until_ms = (int64_t)(C10D_WAITING_MAX - i)};
        waiting[i].address.ip.s6_addr[14] = (uint8_t)(1 + i / C10D_WAITING_OF_ONE_MAX);
        if (i < C10D_WAITING_OF_ONE_MAX)
            waiting[i].address = eve;
    }
    EXPECT(c10d_gives_way(waiting, 0, eve) == SIZE_MAX);
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_OF_ONE_MAX - 1, eve) == SIZE_MAX);
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_OF_ONE_MAX, joe) == SIZE_MAX);
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_OF_ONE_MAX, eve) == C10D_WAITING_OF_ONE_MAX - 1);
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_MAX - 1, joe) == SIZE_MAX);
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_MAX, joe) == C10D_WAITING_MAX - 1);
    for (size_t i = 0; i < C10D_WAITING_OF_ONE_MAX; i++) /* who came first, at the same moment */
        waiting[i].until_ms = 1;
    EXPECT(c10d_gives_way(waiting, C10D_WAITING_OF_ONE_MAX, eve) == 0);
    mem_free(waiting);
}

/* ---- who is served ---- */

static void note_nothing(void *user, const char *words)
{
    (void)user;
    (void)words;
}

/* 1: it is answered; 0: it is shut out; -1: neither. */
static int knock(uint16_t port)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct timeval limit = {.tv_sec = 10};
    _cleanup_(buf_done) struct buf out = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char answer[64];

    buf_add(&out, (struct str){"\0\xce\xf7\x85\x3c\1", 6});
    text(&out, "k");
    text(&out, "v");
    buf_addc(&out, 3);
    text(&out, "k");
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        return -1;
    (void)send(fd, out.p, out.len, MSG_NOSIGNAL);
    ssize_t got = recv(fd, answer, sizeof(answer), 0);
    bool reset = got < 0 && errno == ECONNRESET;
    (void)close(fd);
    return got > 0 ? 1 : got == 0 || reset ? 0 : -1;
}

TEST(c10d_serves_the_jobs_own_user_and_shuts_others_out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    static struct door *door; /* its thread serves to the end of the process */
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = 0;

    EXPECT(bind(fd, (struct sockaddr *)&at, size) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    (void)close(fd); /* a port that was free just now */
    door = door_new(&(struct door_options){.job = "team/job", .secret = "s", .peer_uid = -1});
    EXPECT(c10d_start(&(struct c10d_options){.address = "127.0.0.1",
                                             .port = ntohs(at.sin_port),
                                             .door = door,
                                             .note = note_nothing},
                      NULL) == 0);
    EXPECT(knock(ntohs(at.sin_port)) == 1);
    if (geteuid() != 0)
        return; /* nobody else can be played */
    pid_t child = fork();
    if (child == 0) {
        bool other = setgid(65534) == 0 && setuid(65534) == 0;
        _exit(other ? knock(ntohs(at.sin_port)) + 1 : 9);
    }
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 1);
}
