#include "api/host_ports.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

/* 10.1.128.0/17, as on a bridge. */
#define SERVICES ((struct service_network){0x0a018002u, 0x7ffd})

/* With ' for ". */
static struct json *made(struct arena *arena, const char *text)
{
    char *own = str_c(arena, str_from(text));
    struct json *root = NULL;

    for (char *at = own; *at; at++)
        if (*at == '\'')
            *at = '"';
    EXPECT(json_parse(arena, str_from(own), &root, NULL) == 0);
    return root;
}

TEST(who_is_not_the_owner_has_no_port_that_is_somebody_elses)
{
    static const struct {
        const char *port;
        const char *why; /* NULL: fine */
    } rows[] = {
        {"{'containerPort': 80}", NULL},
        {"{'containerPort': 80, 'hostPort': 0, 'hostIP': '127.0.0.1'}", NULL},
        {"{'hostPort': 8080}", NULL},
        {"{'hostPort': 8080, 'hostIP': '0.0.0.0'}", NULL},
        {"{'hostPort': 8080, 'hostIP': '10.1.0.1'}", NULL},
        {"{'hostPort': 8080, 'hostIP': '192.168.7.7'}", NULL},
        {"{'hostPort': 80}", "hostPort 80: ports below 1024"},
        {"{'hostPort': 53, 'protocol': 'UDP'}", "hostPort 53"},
        {"{'hostPort': 1023}", "hostPort 1023"},
        {"{'hostPort': 1024}", NULL},
        {"{'hostPort': 8080, 'hostIP': '127.0.0.1'}", "hostIP 127.0.0.1: loopback"},
        {"{'hostPort': 8080, 'hostIP': '127.200.3.4'}", "loopback"},
        {"{'hostPort': 8080, 'hostIP': '10.1.128.0'}", "addresses of Services"},
        {"{'hostPort': 8080, 'hostIP': '10.1.128.1'}", "addresses of Services"},
        {"{'hostPort': 8080, 'hostIP': '10.1.130.77'}", "addresses of Services"},
        {"{'hostPort': 8080, 'hostIP': '10.1.255.254'}", "addresses of Services"},
        {"{'hostPort': 8080, 'hostIP': '10.2.128.1'}", NULL},
        {"{'hostPort': 8080, 'hostIP': '192.168.7.1'}", "the address of the API server"},
        {"{'hostPort': 8080, 'hostIP': '::1'}", "hostIP ::1: it is not an IPv4 address"},
        {"{'hostPort': 8080, 'hostIP': '::ffff:127.0.0.1'}", "it is not an IPv4 address"},
        {"{'hostPort': 8080, 'hostIP': '127.1'}", "it is not an IPv4 address"},
        /* cut off where an address ends, it would be one of loopback */
        {"{'hostPort': 8080, 'hostIP': '127.100.100.1001'}", "it is not an IPv4 address"},
        {"{'containerPort': 80, 'hostIP': '::1'}", NULL},
        {"{'hostPort': 30000}", "hostPort 30000: ports 30000 to 32767 are the nodePorts"},
        {"{'hostPort': 32767}", "hostPort 32767"},
        {"{'hostPort': 29999}", NULL},
        {"{'hostPort': 32768}", NULL},
    };
    static const char *const objects[] = {
        "{'spec': {'containers': [{'name': 'c', 'ports': [",
        "{'spec': {'template': {'spec': {'initContainers': [{'name': 'c', 'ports': [",
        "{'spec': {'jobTemplate': {'spec': {'template': {'containers': [{'name': 'c', 'ports': [",
        "{'spec': [{'a': {'b': [{'containers': [{'name': 'c', 'ports': [",
    };
    static const char *const closings[] = {"]}]}}", "]}]}}}}", "]}]}}}}}", "]}]}]}}]}"};
    const struct host_ports rules = {SERVICES, STR("192.168.7.1")};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t k = 0; k < COUNT_OF(objects); k++) {
            _cleanup_(arena_done) struct arena arena = {0};
            const struct json *object =
                made(&arena, str_printf(&arena, "%s%s%s", objects[k], rows[i].port, closings[k]).p);
            struct str why = host_ports_refuse_account(&arena, &rules, object, NULL);

            test_case(rows[i].port);
            EXPECT(rows[i].why ? str_contains(why, str_from(rows[i].why)) : !why.len);
            EXPECT(!host_ports_refuse_account(&arena, &rules, object, object).len);
        }
}

TEST(what_an_object_has_already_allows_no_more_of_it)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct host_ports rules = {SERVICES, STR("")};
    const struct json *old =
        made(&arena, "{'spec': {'containers': [{'name': 'c', 'ports': [{'hostPort': 80}]}]}}");
    const struct json *more = made(&arena, "{'spec': {'containers': [{'name': 'c', 'ports': "
                                           "[{'hostPort': 80}, {'hostPort': 443}]}]}}");

    EXPECT(str_contains(host_ports_refuse_account(&arena, &rules, more, old), STR("hostPort 443")));
    EXPECT(!host_ports_refuse_account(&arena, &rules, old, more).len);
}

TEST(node_ports_and_what_cannot_be_listened_on_are_nobodys)
{
    _cleanup_(arena_done) struct arena arena = {0};

    EXPECT(str_contains(
        host_ports_refuse(&arena,
                          made(&arena, "{'containers': [{'name': 'a'}, {'name': 'c', 'ports': "
                                       "[{'hostPort': 80}, {'hostPort': 31000}]}]}")),
        STR("container c: ports: hostPort 31000")));
    EXPECT(str_contains(
        host_ports_refuse(&arena, made(&arena, "{'initContainers': [{'name': 'i', 'ports': "
                                               "[{'hostPort': 30000}]}]}")),
        STR("container i")));
    EXPECT(str_contains(host_ports_refuse(&arena, made(&arena, "{'containers': [{'ports': [{"
                                                               "'hostPort': 80, 'hostIP': "
                                                               "'fe80::1'}]}]}")),
                        STR("hostIP fe80::1")));
    EXPECT(!host_ports_refuse(&arena,
                              made(&arena, "{'containers': [{'ports': [{'hostPort': 80, 'hostIP': "
                                           "'127.0.0.1'}]}]}"))
                .len);
}
