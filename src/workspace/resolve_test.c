#include "test.h"
#include "workspace/resolve.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

TEST(resolve_finds_names_in_a_hosts_file)
{
    struct str hosts = STR("# comment\n127.0.0.1\tlocalhost\n10.0.0.7 a.b a # x\n::1 six\n");
    struct in_addr got = {0};

    EXPECT(resolve_in_hosts(hosts, STR("a"), &got, 1) && got.s_addr == htonl(0x0a000007));
    EXPECT(resolve_in_hosts(hosts, STR("A.B"), &got, 1));
    EXPECT(!resolve_in_hosts(hosts, STR("x"), &got, 1));
    EXPECT(!resolve_in_hosts(hosts, STR("six"), &got, 1));
}

TEST(resolve_finds_all_addresses_of_a_name)
{
    struct str hosts = STR("10.0.0.7 w-0.job\n10.0.0.7 job x\n10.0.0.8 job\n10.0.0.9 job\n");
    struct in_addr got[3] = {0};

    EXPECT(resolve_in_hosts(hosts, STR("job"), got, 3) == 3);
    EXPECT(got[0].s_addr == htonl(0x0a000007) && got[2].s_addr == htonl(0x0a000009));
    EXPECT(resolve_in_hosts(hosts, STR("job"), got, 2) == 2);
    EXPECT(resolve_in_hosts(hosts, STR("w-0.job"), got, 3) == 1);
}

TEST(resolve_takes_urls_apart)
{
    struct str host;
    uint16_t port;

    EXPECT(resolve_url(STR("http://a.b:7077/x"), &host, &port, NULL) == 0);
    EXPECT(str_is(host, "a.b") && port == 7077);
    EXPECT(resolve_url(STR("http://a"), &host, &port, NULL) == 0 && port == 80);
    EXPECT(resolve_url(STR("https://a"), &host, &port, NULL) < 0);
    EXPECT(resolve_url(STR("http://a:0"), &host, &port, NULL) < 0);
    EXPECT(resolve_url(STR("http://a:99999"), &host, &port, NULL) < 0);
}

TEST(resolve_asks_and_reads_dns)
{
    unsigned char packet[512];
    struct in_addr got = {0};
    size_t size = resolve_query(STR("a.example"), 0x1234, packet, sizeof(packet));
    /* The answer: a name that points back to the question, type A, class IN, 60 s, four bytes. */
    static const unsigned char answer[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 1, 2, 3};

    EXPECT(size == 12 + 11 + 4);
    EXPECT(resolve_query(STR("a..b"), 1, packet, sizeof(packet)) == 0);
    size = resolve_query(STR("a.example"), 0x1234, packet, sizeof(packet));
    memcpy(packet + size, answer, sizeof(answer));
    packet[2] |= 0x80;
    packet[7] = 1;
    EXPECT(resolve_answer(packet, size + sizeof(answer), 0x1234, &got, 1));
    EXPECT(got.s_addr == htonl(0x0a010203));
    EXPECT(!resolve_answer(packet, size + sizeof(answer), 0x4321, &got, 1));
    for (size_t cut = 0; cut < size + sizeof(answer); cut++)
        EXPECT(!resolve_answer(packet, cut, 0x1234, &got, 1));
}
