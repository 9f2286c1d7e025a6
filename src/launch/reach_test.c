#include "base/err.h"
#include "launch/reach.h"
#include "test.h"
#include "workspace/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TEST(reach_says_which_port_is_taken_and_which_endpoint_is_silent)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    struct err err = {0};
    char endpoint[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
    EXPECT(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    (void)snprintf(endpoint, sizeof(endpoint), "127.0.0.1:%u", ntohs(at.sin_port));
    EXPECT(reach_listen(endpoint, &err) == -EADDRINUSE && strstr(err.text, "distributed.port"));
    EXPECT(reach_connect(endpoint, NULL) == 0);
    close(fd);
    EXPECT(reach_listen(endpoint, NULL) == 0);
    EXPECT(reach_connect(endpoint, &err) == -ECONNREFUSED && strstr(err.text, "rdzvEndpoint"));
    fd = address_listen("::1", 0, 1, NULL);
    if (fd >= 0) { /* else this machine has no IPv6 */
        (void)snprintf(endpoint, sizeof(endpoint), "[::1]:%u", address_port(fd));
        EXPECT(reach_connect(endpoint, NULL) == 0);
        close(fd);
    }
    EXPECT(reach_connect("no-port", NULL) == 0 && reach_listen("host:0", NULL) == 0);
}
