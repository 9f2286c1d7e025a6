#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/pods.h"
#include "net/service.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Services of the machine's own network, real sockets of its loopback, and pods by hand. Ports are
 * those that the kernel gave the servers behind, so that tests at once do not meet. */
#define TURNS   200
#define AT      "127.32.77.2"
#define POD_AT  "127.64.77.1"
#define HAND_AT "127.64.77.9"

struct stage {
    struct arena arena;
    uv_loop_t loop;
    struct cache *cache;
    struct services *services;
    struct net_pod pod;
    int server; /* what listens in the pod */
    uint16_t port;
    size_t troubles; /* told */
    bool closed;
};

static int bound(const char *ip, int type, uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof(at);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    EXPECT(inet_pton(AF_INET, ip, &at.sin_addr) == 1);
    EXPECT(bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&at, &length) == 0);
    *port = ntohs(at.sin_port);
    if (type == SOCK_STREAM)
        EXPECT(listen(fd, 8) == 0);
    return fd;
}

static struct object *put(struct stage *stage, const struct kind *kind, struct str text)
{
    struct object *object = NULL;
    struct err err = {0};

    EXPECT(object_new(kind, str_from(test_quotes(&stage->arena, str_c(&stage->arena, text))),
                      &object, &err) == 0);
    cache_put(stage->cache, object);
    arena_defer(&stage->arena, object_release, object);
    return object;
}

static bool the_pod(void *user, size_t *cursor, struct net_pod *ret)
{
    struct stage *stage = user;

    *ret = stage->pod;
    return (*cursor)++ == 0 && stage->pod.object;
}

static void on_closed(void *user)
{
    ((struct stage *)user)->closed = true;
}

static void on_trouble(void *user, const struct services_trouble *trouble)
{
    struct stage *stage = user;

    stage->troubles += str_contains(trouble->words, STR("this namespace has 1024 others"));
}

static void open_stage(struct stage *stage)
{
    *stage = (struct stage){.cache = cache_new(1)};
    EXPECT(uv_loop_init(&stage->loop) == 0);
    stage->server = bound(POD_AT, SOCK_STREAM, &stage->port);
    stage->services = services_start(&(struct services_options){.loop = &stage->loop,
                                                                .cache = stage->cache,
                                                                .pods = {the_pod, stage},
                                                                .closed = on_closed,
                                                                .trouble = on_trouble,
                                                                .user = stage});
    struct object *pod = put(
        stage, &kind_pod,
        STR("{'metadata':{'name':'w','namespace':'a','uid':'1','labels':{'app':'w'}},'spec':{}}"));
    stage->pod =
        (struct net_pod){.object = pod, .root = object_json(pod, &stage->arena), .ip = POD_AT};
}

static void close_stage(struct stage *stage)
{
    services_stop(stage->services);
    for (int i = 0; i < TURNS && !stage->closed; i++)
        (void)uv_run(&stage->loop, UV_RUN_NOWAIT);
    EXPECT(stage->closed);
    EXPECT(uv_loop_close(&stage->loop) == 0);
    (void)close(stage->server);
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

static void observe(struct stage *stage, const char *more)
{
    services_observe(
        stage->services,
        put(stage, &kind_service,
            str_printf(&stage->arena,
                       "{'metadata':{'name':'s','namespace':'a','uid':'2'},'spec':{'clusterIP':'" AT
                       "',%s'ports':[{'port':%u,'targetPort':%u,'protocol':'TCP'},"
                       "{'name':'u','port':%u,'targetPort':%u,'protocol':'UDP'}]}}",
                       more, stage->port, stage->port, stage->port, stage->port)));
}

static void be_ready(struct stage *stage, bool ready)
{
    stage->pod.ready = ready;
    services_follow(stage->services, stage->pod.object);
}

/* 0: connected, and `*fd` is it; else why not. */
static int connected(const struct stage *stage, int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(stage->port)};

    EXPECT(inet_pton(AF_INET, AT, &at.sin_addr) == 1);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(*fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ? errno : 0;
}

static bool refused(const struct stage *stage)
{
    int fd = -1;
    int r = connected(stage, &fd);

    (void)close(fd);
    return r == ECONNREFUSED;
}

/* What the kernel has to do takes a moment. */
static void turn(struct stage *stage)
{
    struct pollfd none = {.fd = -1};

    (void)uv_run(&stage->loop, UV_RUN_NOWAIT);
    (void)poll(&none, 1, 1);
}

/* What was sent through `fd` comes to `server`. */
static bool arrives(struct stage *stage, int fd, int server)
{
    char c = 0;
    int end = -1;

    EXPECT(send(fd, "x", 1, MSG_NOSIGNAL) == 1);
    for (int i = 0; i < TURNS && end < 0; i++) {
        turn(stage);
        end = accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    for (int i = 0; i < TURNS && end >= 0 && !c; i++) {
        turn(stage);
        (void)recv(end, &c, 1, 0);
    }
    (void)close(end);
    return c == 'x';
}

static bool udp_refused(const struct stage *stage)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(stage->port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    EXPECT(inet_pton(AF_INET, AT, &at.sin_addr) == 1);
    EXPECT(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
    (void)send(fd, "x", 1, 0);
    bool no = send(fd, "x", 1, 0) < 0 && errno == ECONNREFUSED;
    (void)close(fd);
    return no;
}

TEST(a_service_refuses_connections_while_no_pod_of_it_is_ready)
{
    struct stage stage;
    int fd = -1;

    open_stage(&stage);
    EXPECT(fcntl(stage.server, F_SETFL, O_NONBLOCK) == 0);
    observe(&stage, "'selector':{'app':'w'},");
    EXPECT(refused(&stage));
    EXPECT(udp_refused(&stage));
    be_ready(&stage, true);
    EXPECT(!udp_refused(&stage));
    EXPECT(connected(&stage, &fd) == 0);
    /* Who has come already is still there after a change that is about something else. */
    observe(&stage, "'selector':{'app':'w'},'sessionAffinity':'ClientIP',");
    EXPECT(arrives(&stage, fd, stage.server));
    be_ready(&stage, false);
    EXPECT(refused(&stage));
    EXPECT(udp_refused(&stage));
    (void)close(fd);
    close_stage(&stage);
}

static void write_slice(struct stage *stage, const char *ip, unsigned port, bool ready)
{
    services_follow(
        stage->services,
        put(stage, &kind_endpointslice,
            str_printf(
                &stage->arena,
                "{'metadata':{'name':'s-1','namespace':'a','uid':'3','labels':{"
                "'kubernetes.io/service-name':'s'}},'addressType':'IPv4','ports':[{'name':'',"
                "'port':%u,'protocol':'TCP'}],'endpoints':[{'addresses':['%s'],"
                "'conditions':{'ready':%s}}]}",
                port, ip, ready ? "true" : "false")));
}

TEST(a_service_without_a_selector_leads_to_what_was_written_for_it)
{
    struct stage stage;
    uint16_t port = 0;
    int fd = -1;
    int by_hand = -1;

    open_stage(&stage);
    by_hand = bound(HAND_AT, SOCK_STREAM, &port);
    EXPECT(fcntl(by_hand, F_SETFL, O_NONBLOCK) == 0);
    observe(&stage, "");
    be_ready(&stage, true);
    EXPECT(refused(&stage));
    write_slice(&stage, HAND_AT, port, false);
    EXPECT(refused(&stage));
    write_slice(&stage, HAND_AT, port, true);
    EXPECT(connected(&stage, &fd) == 0);
    EXPECT(arrives(&stage, fd, by_hand));
    (void)close(fd);
    /* What only this machine may reach, and itself, without end. */
    write_slice(&stage, "127.0.0.1", port, true);
    EXPECT(refused(&stage));
    write_slice(&stage, AT, stage.port, true);
    EXPECT(refused(&stage));
    (void)close(by_hand);
    close_stage(&stage);
}

/* Each of them is a socket of the program that serves everybody. */
TEST(a_namespace_has_so_many_ports_listened_on)
{
    _cleanup_(buf_done) struct buf ports = {0};
    struct stage stage;
    size_t listened = 0;
    struct rlimit files = {0};

    EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max > 2500);
    files.rlim_cur = files.rlim_cur > 2500 ? files.rlim_cur : 2500;
    EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
    open_stage(&stage);
    stage.pod.ready = true;
    for (int port = 20001; port <= 22000; port++)
        buf_addf(&ports, "%s{'name':'p%d','port':%d,'protocol':'TCP'}", port > 20001 ? "," : "",
                 port, port);
    struct object *service = put(
        &stage, &kind_service,
        str_printf(&stage.arena,
                   "{'metadata':{'name':'many','namespace':'a','uid':'3'},'spec':{'clusterIP':'" AT
                   "','selector':{'app':'w'},'ports':[" STR_FMT "]}}",
                   STR_ARG(buf_str(&ports))));
    services_observe(stage.services, service);
    for (int port = 20001; port <= 22000; port++)
        listened += services_listen(stage.services, service, port);
    EXPECT(listened == 1024);
    EXPECT(stage.troubles == 1);
    close_stage(&stage);
}
