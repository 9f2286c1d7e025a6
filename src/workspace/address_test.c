#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "test.h"
#include "workspace/address.h"
#include "workspace/disk.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

TEST(an_address_of_either_version_is_read_and_written)
{
    static const struct {
        const char *text;
        const char *written; /* NULL: it is none */
        bool v4;
    } rows[] = {
        {"10.0.0.7", "10.0.0.7", true},
        {"fd00::1", "fd00::1", false},
        {"[fd00::1]", "fd00::1", false},
        {"::ffff:10.0.0.7", "10.0.0.7", true},
        {"::1", "::1", false},
        {"host", NULL, false},
        {"", NULL, false},
        {"10.0.0", NULL, false},
        {"fd00::1::2", NULL, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[INET6_ADDRSTRLEN];
        struct address address = {0};

        test_case(rows[i].text);
        EXPECT(address_parse(str_from(rows[i].text), &address) == (rows[i].written != NULL));
        if (!rows[i].written)
            continue;
        EXPECT(address_is_v4(address) == rows[i].v4);
        EXPECT(strcmp(address_text(address, text), rows[i].written) == 0);
    }
}

static int dial(const char *host, uint16_t port)
{
    struct sockaddr_storage to;
    struct address address;
    socklen_t size;
    int fd;

    EXPECT(address_parse(str_from(host), &address));
    size = address_to(address, port, &to);
    fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, size) < 0) {
        close(fd);
        return -errno;
    }
    return fd < 0 ? -errno : fd;
}

TEST(a_server_listens_at_both_versions_and_knows_a_peer_by_either)
{
    struct err err = {0};
    _cleanup_(disk_closep) int server = address_listen(NULL, 0, 4, &err);
    _cleanup_(disk_closep) int four = dial("127.0.0.1", address_port(server));
    _cleanup_(disk_closep) int six = dial("::1", address_port(server));
    struct sockaddr_storage from;
    socklen_t size = sizeof(from);
    struct address loopback;
    int conn;

    EXPECT(server >= 0 && four >= 0);
    conn = accept4(server, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    EXPECT(conn >= 0 && address_parse(STR("127.0.0.1"), &loopback));
    EXPECT(address_eq(address_of(&from), loopback));
    close(conn);
    if (six < 0)
        return; /* this machine has no IPv6 */
    size = sizeof(from);
    conn = accept4(server, (struct sockaddr *)&from, &size, SOCK_CLOEXEC);
    EXPECT(conn >= 0 && address_parse(STR("::1"), &loopback));
    EXPECT(address_eq(address_of(&from), loopback));
    close(conn);
}

TEST(an_address_that_is_none_or_taken_is_said)
{
    struct err err = {0};
    _cleanup_(disk_closep) int server = address_listen("127.0.0.1", 0, 4, &err);

    EXPECT(address_listen("host", 0, 4, &err) == -EINVAL && strstr(err.text, "'host'"));
    EXPECT(address_listen("127.0.0.1", address_port(server), 4, &err) == -EADDRINUSE);
}
