#include "net/datagrams.h"
#include "test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* Two sockets that answer and clients that ask, all on the loopback and by hand: the loop is turned
 * until what was sent has come. */
struct stage {
    uv_loop_t loop;
    struct datagrams *port;
    struct sockaddr_in at;
    int ends[2];
    struct sockaddr_in end_at[2];
    unsigned asked;
    unsigned chosen;
    bool nobody;
    bool closed;
};

static int bound(struct sockaddr_in *ret)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t length = sizeof(*ret);

    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    EXPECT(fd >= 0 && bind(fd, (const struct sockaddr *)ret, sizeof(*ret)) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)ret, &length) == 0);
    return fd;
}

static bool choose(void *user, uint32_t client, struct sockaddr_in *ret)
{
    struct stage *stage = user;

    EXPECT(client == htonl(INADDR_LOOPBACK));
    stage->asked++;
    if (stage->nobody)
        return false;
    *ret = stage->end_at[stage->chosen++ % 2];
    return true;
}

static void on_closed(void *user)
{
    ((struct stage *)user)->closed = true;
}

static void stage_open(struct stage *stage)
{
    struct datagrams_options options = {
        .loop = &stage->loop, .choose = choose, .closed = on_closed, .user = stage};

    *stage = (struct stage){0};
    EXPECT(uv_loop_init(&stage->loop) == 0);
    for (int i = 0; i < 2; i++)
        stage->ends[i] = bound(&stage->end_at[i]);
    close(bound(&stage->at)); /* a number that is free */
    options.at = stage->at;
    EXPECT(datagrams_listen(&options, &stage->port) == 0);
}

static void stage_close(struct stage *stage)
{
    datagrams_close(stage->port);
    EXPECT(uv_run(&stage->loop, UV_RUN_DEFAULT) == 0);
    EXPECT(stage->closed);
    EXPECT(uv_loop_close(&stage->loop) == 0);
    for (int i = 0; i < 2; i++)
        close(stage->ends[i]);
}

#define TURNS 2000

/* Some of what is under way has come; at most 5 ms a turn. */
static void stage_turn(struct stage *stage, int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    (void)uv_run(&stage->loop, UV_RUN_NOWAIT);
    (void)poll(&poll_fd, 1, 5);
}

/* What comes to a socket, and from whom. */
static bool came(struct stage *stage, int fd, const char *text, struct sockaddr_in *from)
{
    char buffer[64];
    socklen_t length = sizeof(*from);

    for (int turn = 0; turn < TURNS; turn++) {
        stage_turn(stage, fd);
        ssize_t n =
            recvfrom(fd, buffer, sizeof(buffer), MSG_DONTWAIT, (struct sockaddr *)from, &length);
        if (n >= 0)
            return (size_t)n == strlen(text) && memcmp(buffer, text, (size_t)n) == 0;
    }
    return false;
}

static void say(const struct stage *stage, int fd, const char *text)
{
    EXPECT(sendto(fd, text, strlen(text), 0, (const struct sockaddr *)&stage->at,
                  sizeof(stage->at)) == (ssize_t)strlen(text));
}

TEST(a_client_of_a_udp_port_stays_with_its_end_and_hears_it)
{
    struct stage stage;
    struct sockaddr_in own, from, flow;

    stage_open(&stage);
    int first = bound(&own), second = bound(&own);
    say(&stage, first, "one");
    EXPECT(came(&stage, stage.ends[0], "one", &flow));
    EXPECT(sendto(stage.ends[0], "two", 3, 0, (const struct sockaddr *)&flow, sizeof(flow)) == 3);
    EXPECT(came(&stage, first, "two", &from) && from.sin_port == stage.at.sin_port);
    say(&stage, second, "three");
    EXPECT(came(&stage, stage.ends[1], "three", &from));
    say(&stage, first, "");
    EXPECT(came(&stage, stage.ends[0], "", &from) && from.sin_port == flow.sin_port);
    EXPECT(stage.chosen == 2);
    close(first);
    close(second);
    stage_close(&stage);
}

TEST(a_datagram_for_nobody_is_dropped_and_the_next_one_chosen_anew)
{
    struct stage stage;
    struct sockaddr_in own, from;

    stage_open(&stage);
    int client = bound(&own);
    stage.nobody = true;
    say(&stage, client, "lost");
    for (int turn = 0; turn < TURNS && !stage.asked; turn++)
        stage_turn(&stage, client);
    EXPECT(stage.asked == 1);
    stage.nobody = false;
    say(&stage, client, "found");
    EXPECT(came(&stage, stage.ends[0], "found", &from));
    close(client);
    stage_close(&stage);
}
