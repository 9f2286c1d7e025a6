#include "agent/host_port.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

#define POD(port) "{\"containers\":[{\"ports\":[{\"containerPort\":1}," port "]}]}"
#define INIT(policy) \
    "{\"initContainers\":[{" policy "\"ports\":[{\"hostPort\":80}]}],\"containers\":[{}]}"

TEST(two_pods_collide_in_the_same_port_protocol_and_address)
{
    static const struct {
        const char *one;
        const char *other;
        int port;
        const char *why;
    } rows[] = {
        {POD("{\"hostPort\":80}"), POD("{\"hostPort\":80}"), 80, "TCP at all addresses"},
        {POD("{\"hostPort\":80}"), POD("{\"hostPort\":81}"), 0, "another port"},
        {POD("{\"hostPort\":80}"), POD("{\"hostPort\":80,\"protocol\":\"UDP\"}"), 0,
         "another protocol"},
        {POD("{\"hostPort\":80,\"hostIP\":\"127.0.0.1\"}"),
         POD("{\"hostPort\":80,\"hostIP\":\"127.0.0.2\"}"), 0, "another address"},
        {POD("{\"hostPort\":80,\"hostIP\":\"127.0.0.1\"}"),
         POD("{\"hostPort\":80,\"hostIP\":\"0.0.0.0\"}"), 80, "one of all addresses"},
        {POD("{\"containerPort\":80}"), POD("{\"containerPort\":80}"), 0,
         "ports of their own network"},
        {INIT(""), POD("{\"hostPort\":80}"), 0, "an init container is over by then"},
        {INIT("\"restartPolicy\":\"Always\","), POD("{\"hostPort\":80}"), 80, "a sidecar is not"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *one = NULL, *other = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].one), &one, NULL) == 0);
        EXPECT(json_parse(&arena, str_from(rows[i].other), &other, NULL) == 0);
        EXPECT(host_port_common(one, other) == rows[i].port);
        EXPECT(host_port_common(other, one) == rows[i].port);
        arena_done(&arena);
    }
}

TEST(a_pod_wants_a_port_of_the_machine_only_where_it_says_so)
{
    static const struct {
        const char *spec;
        bool any;
    } rows[] = {
        {POD("{\"hostPort\":80}"), true},
        {POD("{\"hostPort\":0}"), false},
        {POD("{\"containerPort\":80}"), false},
        {"{\"containers\":[{}]}", false},
        {INIT(""), false},
        {INIT("\"restartPolicy\":\"Always\","), true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct json *spec = NULL;

        test_case(rows[i].spec);
        EXPECT(json_parse(&arena, str_from(rows[i].spec), &spec, NULL) == 0);
        EXPECT(host_port_any(spec) == rows[i].any);
        arena_done(&arena);
    }
}
