#include "base/err.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/dns.h"
#include "net/dns_message.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* The server, clients, and a name server of the machine, all on the loopback and by hand: the loop is
 * turned until what was sent has come. */
#define TURNS 2000

struct stage {
    uv_loop_t loop;
    struct dns *dns;
    struct cache *cache;
    struct sockaddr_in at;
    int other; /* the machine's name server, by UDP */
    struct sockaddr_in other_at;
    bool none; /* the machine has none */
    bool closed;
};

static int bound(int type, struct sockaddr_in *ret)
{
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof(*ret);

    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    EXPECT(fd >= 0 && bind(fd, (const struct sockaddr *)ret, sizeof(*ret)) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)ret, &length) == 0);
    return fd;
}

static size_t servers(void *user, struct sockaddr_storage *out)
{
    struct stage *stage = user;

    memcpy(out, &stage->other_at, sizeof(stage->other_at));
    return stage->none ? 0 : 1;
}

static bool no_pod(void *user, size_t *cursor, struct net_pod *ret)
{
    (void)user;
    (void)cursor;
    (void)ret;
    return false;
}

static void on_closed(void *user)
{
    ((struct stage *)user)->closed = true;
}

static void stage_open(struct stage *stage, uint32_t mask)
{
    struct err err = {0};

    *stage = (struct stage){0};
    EXPECT(uv_loop_init(&stage->loop) == 0);
    stage->cache = cache_new(1);
    stage->other = bound(SOCK_DGRAM, &stage->other_at);
    close(bound(SOCK_STREAM, &stage->at)); /* a number that is free */
    struct dns_options options = {.loop = &stage->loop,
                                  .zone = {.cache = stage->cache,
                                           .pods = {no_pod, NULL},
                                           .api_address = 0x0a018001u,
                                           .network = 0x7f000001u & mask,
                                           .mask = mask},
                                  .at = stage->at,
                                  .servers = servers,
                                  .closed = on_closed,
                                  .user = stage};
    if (mask == UINT32_MAX)
        options.zone.network = 0x7f000002u;
    EXPECT(dns_start(&options, &stage->dns, &err) == 0);
}

static void stage_close(struct stage *stage)
{
    dns_stop(stage->dns);
    EXPECT(uv_run(&stage->loop, UV_RUN_DEFAULT) == 0);
    EXPECT(stage->closed && uv_loop_close(&stage->loop) == 0);
    close(stage->other);
    cache_free(stage->cache);
}

/* "a.b" of type A under that number; returns its length. */
static size_t question(unsigned id, const char *name, char *out)
{
    struct str rest = str_from(name), label;
    size_t len = 12;

    memset(out, 0, len);
    out[0] = (char)(id >> 8);
    out[1] = (char)id;
    out[2] = 1;
    out[5] = 1;
    while (str_cut(&rest, '.', &label)) {
        out[len++] = (char)label.len;
        memcpy(out + len, label.p, label.len);
        len += label.len;
    }
    memcpy(out + len, "\0\0\1\0\1", 5);
    return len + 5;
}

static void ask(const struct stage *stage, int fd, unsigned id, const char *name)
{
    char message[300];
    size_t len = question(id, name, message);

    EXPECT(sendto(fd, message, len, 0, (const struct sockaddr *)&stage->at, sizeof(stage->at)) ==
           (ssize_t)len);
}

/* What comes to a socket; -1: nothing does. */
static ssize_t came(struct stage *stage, int fd, char *out, size_t size, struct sockaddr_in *from)
{
    socklen_t length = sizeof(*from);

    for (int turn = 0; turn < TURNS; turn++) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};

        (void)uv_run(&stage->loop, UV_RUN_NOWAIT);
        (void)poll(&wait, 1, 5);
        ssize_t n = recvfrom(fd, out, size, MSG_DONTWAIT, (struct sockaddr *)from, &length);
        if (n > 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK))
            return n;
    }
    return -1;
}

static enum dns_code code_of(const char *message, ssize_t n)
{
    return dns_code_of((struct str){message, (size_t)n});
}

TEST(a_name_of_the_cluster_is_answered_and_another_one_asked_of_the_machines_server)
{
    struct stage stage;
    struct sockaddr_in own, from, flow;
    struct dns_record record;
    char message[600], asked[600];
    size_t cursor = 0;

    stage_open(&stage, 0xff000000u);
    int client = bound(SOCK_DGRAM, &own);
    ask(&stage, client, 7, "Kubernetes.default.svc.cluster.local");
    ssize_t n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_FINE);
    EXPECT(dns_next_record((struct str){message, (size_t)n}, &cursor, &record));
    EXPECT(str_eq(record.data, (struct str){"\x0a\1\x80\1", 4}));
    ask(&stage, client, 8, "nothing.svc.cluster.local.x.cluster.local");
    n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_NO_SUCH_NAME);

    ask(&stage, client, 9, "www.example.com");
    n = came(&stage, stage.other, asked, sizeof(asked), &flow);
    EXPECT(n > 0);
    asked[2] = (char)0x81; /* a wrong number is a guess, and not heard */
    asked[0] = (char)(asked[0] ^ 1);
    EXPECT(sendto(stage.other, asked, (size_t)n, 0, (struct sockaddr *)&flow, sizeof(flow)) == n);
    asked[0] = (char)(asked[0] ^ 1);
    asked[3] = (char)DNS_NO_SUCH_NAME;
    EXPECT(sendto(stage.other, asked, (size_t)n, 0, (struct sockaddr *)&flow, sizeof(flow)) == n);
    n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_NO_SUCH_NAME && message[0] == 0 && message[1] == 9);
    EXPECT(from.sin_port == stage.at.sin_port);
    close(client);
    stage_close(&stage);
}

TEST(a_question_that_nobody_answers_fails)
{
    struct stage stage;
    struct sockaddr_in own, from;
    char message[600];

    stage_open(&stage, 0xff000000u);
    int client = bound(SOCK_DGRAM, &own);
    stage.none = true;
    ask(&stage, client, 7, "www.example.com");
    ssize_t n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_FAILED);
    close(client);
    stage_close(&stage);
}

TEST(a_source_has_so_many_questions_under_way_and_no_more)
{
    struct stage stage;
    struct sockaddr_in own, from;
    char message[600];

    stage_open(&stage, 0xff000000u);
    int client = bound(SOCK_DGRAM, &own);
    for (unsigned i = 0; i < DNS_SOURCE_PENDING; i++) {
        ask(&stage, client, i, "www.example.com");
        EXPECT(came(&stage, stage.other, message, sizeof(message), &from) > 0);
    }
    ask(&stage, client, 999, "www.example.com");
    ssize_t n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_FAILED && message[0] == 3);
    ask(&stage, client, 5, "kubernetes.default.svc.cluster.local");
    n = came(&stage, client, message, sizeof(message), &from);
    EXPECT(n > 0 && code_of(message, n) == DNS_FINE); /* names of the cluster ask nobody */
    close(client);
    stage_close(&stage);
}

TEST(who_is_not_of_the_pod_network_is_not_answered)
{
    struct stage stage;
    struct sockaddr_in own;
    char message[600];

    stage_open(&stage, UINT32_MAX); /* 127.0.0.2 alone */
    int client = bound(SOCK_DGRAM, &own);
    ask(&stage, client, 7, "kubernetes.default.svc.cluster.local");
    for (int i = 0; i < 20; i++)
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
    EXPECT(recv(client, message, sizeof(message), MSG_DONTWAIT) < 0 && errno == EAGAIN);
    close(client);
    stage_close(&stage);
}

TEST(a_source_that_asks_too_often_is_not_answered)
{
    struct stage stage;
    struct sockaddr_in own;
    char message[600];
    unsigned heard = 0;

    stage_open(&stage, 0xff000000u);
    int client = bound(SOCK_DGRAM, &own);
    uv_update_time(&stage.loop);
    uint64_t began_ms = uv_now(&stage.loop);
    for (unsigned i = 0; i < 2 * DNS_BURST; i++) { /* as fast as it goes */
        ask(&stage, client, i, "kubernetes.default.svc.cluster.local");
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
        while (recv(client, message, sizeof(message), MSG_DONTWAIT) > 0)
            heard++;
    }
    /* A slow machine gives it more. */
    uint64_t most = DNS_BURST + (uv_now(&stage.loop) - began_ms + 1) * DNS_RATE / 1000;
    EXPECT(heard >= DNS_BURST && heard <= most);
    close(client);
    stage_close(&stage);
}

/* By TCP: two questions in one piece. */
TEST(by_tcp_questions_are_answered_one_after_another)
{
    struct stage stage;
    struct sockaddr_in from;
    char message[700], answers[1200];
    size_t len = 0, got = 0;

    stage_open(&stage, 0xff000000u);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(connect(client, (const struct sockaddr *)&stage.at, sizeof(stage.at)) == 0);
    for (unsigned i = 1; i <= 2; i++) {
        size_t one = question(i, "kubernetes.default.svc.cluster.local", message + len + 2);

        message[len] = (char)(one >> 8);
        message[len + 1] = (char)one;
        len += 2 + one;
    }
    EXPECT(send(client, message, len, 0) == (ssize_t)len);
    while (got < 2 * (2 + len / 2 - 2 + 16)) {
        ssize_t n = came(&stage, client, answers + got, sizeof(answers) - got, &from);

        EXPECT(n > 0);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    size_t first = (size_t)(unsigned char)answers[0] << 8 | (unsigned char)answers[1];
    EXPECT(got == 2 * (2 + first) && answers[3] == 1 && answers[2 + first + 3] == 2);
    close(client);
    stage_close(&stage);
}

TEST(who_takes_no_answers_by_tcp_costs_no_more_than_one)
{
    struct stage stage;
    char name[256], message[300];
    int few = 1;
    size_t most = 0, sent = 0;

    stage_open(&stage, 0xff000000u);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT(setsockopt(client, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few)) == 0);
    EXPECT(connect(client, (const struct sockaddr *)&stage.at, sizeof(stage.at)) == 0);
    (void)snprintf(name, sizeof(name), "%060d.%060d.%060d.a.svc.cluster.local", 1, 2, 3);
    size_t one = question(1, name, message + 2);
    message[0] = (char)(one >> 8);
    message[1] = (char)one;
    for (int i = 0; i < DNS_BURST - 100; i++) {
        sent += send(client, message, 2 + one, MSG_DONTWAIT) == (ssize_t)(2 + one);
        (void)uv_run(&stage.loop, UV_RUN_NOWAIT);
        size_t unread = dns_unread(stage.dns);
        most = unread > most ? unread : most;
    }
    EXPECT(sent && most > 0 && most <= 2 + DNS_PLAIN_MAX);
    close(client);
    stage_close(&stage);
}
