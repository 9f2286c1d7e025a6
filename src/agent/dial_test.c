#include "agent/dial.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener(const char *ip, int backlog, uint16_t *ret_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(inet_pton(AF_INET, ip, &at.sin_addr) == 1);
    EXPECT(bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, backlog) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    *ret_port = ntohs(at.sin_port);
    return fd;
}

TEST(ports_of_a_pod_with_its_own_network_are_not_those_of_the_machine)
{
    static const struct {
        const char *ip;
        bool own;
        bool reached;
        const char *why;
    } rows[] = {
        {"127.31.32.33", false, true,
         "a program of the machine's network that listens on localhost"},
        {"127.31.32.33", true, false, "the machine's loopback is nothing of the pod"},
        {"127.0.0.1", true, true, "its own address"},
    };
    uint16_t port = 0;
    int fd = listener("127.0.0.1", 4, &port);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        test_case(rows[i].why);
        int to = dial_pod(rows[i].ip, rows[i].own, port);
        EXPECT((to >= 0) == rows[i].reached);
        if (to >= 0)
            close(to);
    }
    close(fd);
}

/* The loop of the API server would stand still for two minutes with each. */
TEST(nobody_waits_for_a_pod_that_takes_no_connections)
{
    int fds[8];
    uint16_t port = 0;
    int fd = listener("127.0.0.1", 0, &port);

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        fds[i] = dial_pod("127.0.0.1", true, port);
        EXPECT(fds[i] >= 0);
    }
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        close(fds[i]);
    close(fd);
}
