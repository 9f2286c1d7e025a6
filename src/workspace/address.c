#include "workspace/address.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define V4_OFFSET 12 /* of the four bytes in ::ffff:a.b.c.d */

static struct address from_v4(struct in_addr v4)
{
    struct address address = {0};

    address.ip.s6_addr[V4_OFFSET - 2] = 0xff;
    address.ip.s6_addr[V4_OFFSET - 1] = 0xff;
    memcpy(&address.ip.s6_addr[V4_OFFSET], &v4, sizeof(v4));
    return address;
}

bool address_parse(struct str text, struct address *ret)
{
    char c[INET6_ADDRSTRLEN];
    struct in_addr v4;

    if (text.len > 2 && text.p[0] == '[' && text.p[text.len - 1] == ']')
        text = str_sub(text, 1, text.len - 2);
    if (text.len >= sizeof(c))
        return false;
    memcpy(c, text.p, text.len);
    c[text.len] = '\0';
    if (inet_pton(AF_INET, c, &v4) == 1) {
        *ret = from_v4(v4);
        return true;
    }
    return inet_pton(AF_INET6, c, &ret->ip) == 1;
}

bool address_of_bytes(const void *bytes, size_t size, struct address *ret)
{
    struct in_addr v4;

    if (size != sizeof(v4) && size != sizeof(ret->ip))
        return false;
    if (size == sizeof(v4)) {
        memcpy(&v4, bytes, size);
        *ret = from_v4(v4);
    } else {
        memcpy(&ret->ip, bytes, size);
    }
    return true;
}

struct address address_of(const struct sockaddr_storage *from)
{
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;

    if (from->ss_family == AF_INET) {
        memcpy(&v4, from, sizeof(v4));
        return from_v4(v4.sin_addr);
    }
    if (from->ss_family != AF_INET6)
        return (struct address){0};
    memcpy(&v6, from, sizeof(v6));
    return (struct address){v6.sin6_addr};
}

bool address_eq(struct address a, struct address b)
{
    return memcmp(&a.ip, &b.ip, sizeof(a.ip)) == 0;
}

bool address_is_v4(struct address address)
{
    return IN6_IS_ADDR_V4MAPPED(&address.ip);
}

const char *address_text(struct address address, char out[static INET6_ADDRSTRLEN])
{
    const char *text =
        address_is_v4(address)
            ? inet_ntop(AF_INET, &address.ip.s6_addr[V4_OFFSET], out, INET_ADDRSTRLEN)
            : inet_ntop(AF_INET6, &address.ip, out, INET6_ADDRSTRLEN);

    return text ? text : "?";
}

socklen_t address_to(struct address address, uint16_t port, struct sockaddr_storage *ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = address.ip};

    *ret = (struct sockaddr_storage){0};
    if (!address_is_v4(address)) {
        memcpy(ret, &v6, sizeof(v6));
        return sizeof(v6);
    }
    memcpy(&v4.sin_addr, &address.ip.s6_addr[V4_OFFSET], sizeof(v4.sin_addr));
    memcpy(ret, &v4, sizeof(v4));
    return sizeof(v4);
}

/* -errno, or the socket. */
static int listen_at(struct address at, uint16_t port, int backlog)
{
    struct sockaddr_storage to;
    socklen_t size = address_to(at, port, &to);
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int yes = 1;
    int no = 0;

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (to.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
    if (bind(fd, (struct sockaddr *)&to, size) == 0 && listen(fd, backlog) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

int address_listen(const char *address, uint16_t port, int backlog, struct err *err)
{
    struct address at = {0}; /* ::, which takes both versions */
    int fd;

    if (address && !address_parse(str_from(address), &at))
        return err_set(err, -EINVAL, "'%s' is not an IP address", address);
    fd = listen_at(at, port, backlog);
    if (!address && (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL)) /* a kernel without IPv6 */
        fd = listen_at(from_v4((struct in_addr){htonl(INADDR_ANY)}), port, backlog);
    return fd < 0 ? err_set(err, fd, "port %u: %s", port, strerrordesc_np(-fd)) : fd;
}

uint16_t address_port_of(const struct sockaddr_storage *from)
{
    struct sockaddr_in v4;

    memcpy(&v4, from, sizeof(v4)); /* the port is at the same place in both */
    return ntohs(v4.sin_port);
}

uint16_t address_port(int fd)
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof(at);

    return getsockname(fd, (struct sockaddr *)&at, &size) < 0 ? 0 : address_port_of(&at);
}
