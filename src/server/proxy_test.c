#include "server/request.h"
#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

/* As one that a pod refuses late: the error is at the socket when it is polled. */
static int reset_connection(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger none = {.l_onoff = 1};
    socklen_t size = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(bind(listener, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
           listen(listener, 1) == 0);
    EXPECT(getsockname(listener, (struct sockaddr *)&at, &size) == 0);
    EXPECT(connect(fd, (const struct sockaddr *)&at, sizeof(at)) == 0);
    int other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    EXPECT(other >= 0 && setsockopt(other, SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0);
    close(other);
    close(listener);
    return fd;
}

TEST(why_a_connection_to_a_pod_failed_is_what_its_socket_says)
{
    int fd = reset_connection();
    struct pollfd asked = {.fd = fd, .events = POLLIN};

    EXPECT(poll(&asked, 1, -1) == 1 && (asked.revents & POLLERR));
    EXPECT(strcmp(pod_socket_trouble(fd, UV_EBADF), uv_strerror(UV_ECONNRESET)) == 0);
    EXPECT(strcmp(pod_socket_trouble(fd, UV_EBADF), uv_strerror(UV_EBADF)) == 0);
    close(fd);
}
