#include "base/count.h"
#include "test.h"
#include "workspace/address.h"
#include "workspace/resolve.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static bool is_address(struct address address, const char *text)
{
    char out[INET6_ADDRSTRLEN];

    return strcmp(address_text(address, out), text) == 0;
}

TEST(resolve_finds_names_in_a_hosts_file)
{
    struct str hosts = STR("# comment\n127.0.0.1\tlocalhost\n10.0.0.7 a.b a # x\n::1 six\n");
    struct address got = {0};

    EXPECT(resolve_in_hosts(hosts, STR("a"), &got, 1) && is_address(got, "10.0.0.7"));
    EXPECT(resolve_in_hosts(hosts, STR("A.B"), &got, 1));
    EXPECT(!resolve_in_hosts(hosts, STR("x"), &got, 1));
    EXPECT(resolve_in_hosts(hosts, STR("six"), &got, 1) && is_address(got, "::1"));
}

TEST(resolve_takes_version_4_first_where_a_name_has_both)
{
    struct str hosts = STR("::1 both\n127.0.0.1 both\n");
    struct address got[3] = {0};

    EXPECT(resolve_in_hosts(hosts, STR("both"), got, 1) == 1 && is_address(got[0], "127.0.0.1"));
    EXPECT(resolve_in_hosts(hosts, STR("both"), got, 3) == 2 && is_address(got[1], "::1"));
}

TEST(resolve_finds_all_addresses_of_a_name)
{
    struct str hosts = STR("10.0.0.7 w-0.job\n10.0.0.7 job x\n10.0.0.8 job\n10.0.0.9 job\n");
    struct address got[3] = {0};

    EXPECT(resolve_in_hosts(hosts, STR("job"), got, 3) == 3);
    EXPECT(is_address(got[0], "10.0.0.7") && is_address(got[2], "10.0.0.9"));
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
    EXPECT(resolve_url(STR("http://[fd00::1]:7077/x"), &host, &port, NULL) == 0);
    EXPECT(str_is(host, "[fd00::1]") && port == 7077);
    EXPECT(resolve_url(STR("http://[::1]"), &host, &port, NULL) == 0 && port == 80);
    EXPECT(resolve_url(STR("https://a"), &host, &port, NULL) < 0);
    EXPECT(resolve_url(STR("http://a:0"), &host, &port, NULL) < 0);
    EXPECT(resolve_url(STR("http://a:99999"), &host, &port, NULL) < 0);
}

TEST(resolve_asks_and_reads_dns)
{
    static const struct {
        enum resolve_type type;
        unsigned char
            answer[28]; /* a name that points back to the question, type, class IN, 60 s */
        size_t size;
        const char *address;
    } rows[] = {
        {RESOLVE_A, {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 1, 2, 3}, 16, "10.1.2.3"},
        {RESOLVE_AAAA,
         {0xc0, 12, 0, 28, 0, 1, 0, 0, 0, 60, 0, 16, 0xfd, 0,
          0,    0,  0, 0,  0, 0, 0, 0, 0, 0,  0, 0,  0,    7},
         28,
         "fd00::7"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct resolve_question bad = {.name = STR("a..b")};
        struct resolve_question good = {
            .name = STR("a.example"), .type = rows[i].type, .id = 0x1234};
        unsigned char packet[512];
        struct address got = {0};
        size_t size = resolve_query(&good, packet, sizeof(packet));
        size_t whole = size + rows[i].size;

        test_case(rows[i].address);
        EXPECT(size == 12 + 11 + 4 && packet[size - 3] == rows[i].type);
        memcpy(packet + size, rows[i].answer, rows[i].size);
        packet[2] |= 0x80;
        packet[7] = 1;
        EXPECT(resolve_answer(packet, whole, 0x1234, &got, 1) && is_address(got, rows[i].address));
        EXPECT(!resolve_answer(packet, whole, 0x4321, &got, 1));
        for (size_t cut = 0; cut < whole; cut++)
            EXPECT(!resolve_answer(packet, cut, 0x1234, &got, 1));
        EXPECT(resolve_query(&bad, packet, sizeof(packet)) == 0);
    }
}

TEST(resolve_asks_for_a_long_answer_only_where_more_is_wanted)
{
    static const struct {
        unsigned char flags;
        size_t len;
        size_t count;
        bool cut;
        const char *why;
    } rows[] = {
        {0x82, 512, 0, true, "nothing of it came"},
        {0x82, 512, 7, true, "one more would do"},
        {0x82, 512, 8, false, "there are as many as are wanted"},
        {0x80, 512, 0, false, "that was all"},
        {0x82, 12, 0, false, "a head alone"},
        {0x82, 13, 0, true, "a little more than the head"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        unsigned char packet[512] = {0x12, 0x34, rows[i].flags};

        test_case(rows[i].why);
        EXPECT(resolve_is_cut(packet, rows[i].len, rows[i].count, 8) == rows[i].cut);
    }
}
