#include "api/condition.h"
#include "api/service_find.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "server/extension.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct extension_spec spec = {.group = STR("a.b"),
                                           .version = STR("v1"),
                                           .ns = STR("n"),
                                           .service = STR("s"),
                                           .port = 444};

TEST(an_apiservice_with_a_service_says_where_its_group_is_served)
{
    static const struct {
        const char *why;
        const char *text;
        bool elsewhere;
        const char *ca;
        int64_t port;
        bool insecure;
    } rows[] = {
        {"all of it",
         "{\"spec\":{\"group\":\"a.b\",\"version\":\"v1\",\"caBundle\":\"Q0E=\",\"service\":{"
         "\"namespace\":\"n\",\"name\":\"s\",\"port\":444}}}",
         true, "CA", 444, false},
        {"the usual port, and nobody is checked",
         "{\"spec\":{\"group\":\"a.b\",\"version\":\"v1\",\"insecureSkipTLSVerify\":true,"
         "\"service\":{\"namespace\":\"n\",\"name\":\"s\"}}}",
         true, "", 443, true},
        {"this server's own", "{\"spec\":{\"group\":\"a.b\",\"version\":\"v1\"}}", false, "", 0,
         false},
        {"nothing of it", "{\"spec\":{\"service\":null}}", false, "", 0, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct extension_spec found = {0};
        struct json *root = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].text), &root, NULL) == 0);
        EXPECT(extension_read(&arena, root, &found) == rows[i].elsewhere);
        if (!rows[i].elsewhere)
            continue;
        EXPECT(str_is(found.group, "a.b") && str_is(found.version, "v1"));
        EXPECT(str_is(found.ns, "n") && str_is(found.service, "s"));
        EXPECT(str_is(found.ca, rows[i].ca) && found.port == rows[i].port);
        EXPECT(found.insecure == rows[i].insecure);
    }
}

TEST(what_a_service_lacks_is_said_in_kubernetes_words)
{
    static const struct {
        struct service_place place;
        const char *status;
        const char *reason;
        const char *message;
    } rows[] = {
        {{.lack = SERVICE_LACKS_ITSELF},
         "False",
         "ServiceNotFound",
         "service/s in \"n\" is not present"},
        {{.lack = SERVICE_LACKS_PORT},
         "False",
         "ServicePortError",
         "service/s in \"n\" is not listening on port 444"},
        {{.lack = SERVICE_LACKS_ADDRESSES, .port_name = STR("https")},
         "False",
         "MissingEndpoints",
         "endpoints for service/s in \"n\" have no addresses with port name \"https\""},
        {{.lack = SERVICE_LACKS_ANSWER},
         "Unknown",
         "ServiceAccessError",
         "service/s in \"n\" cannot be checked due to: no answer"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct condition condition = extension_lacks(&arena, &spec, &rows[i].place);

        test_case(rows[i].reason);
        EXPECT(strcmp(condition.type, "Available") == 0);
        EXPECT(strcmp(condition.status, rows[i].status) == 0);
        EXPECT(strcmp(condition.reason, rows[i].reason) == 0);
        EXPECT(str_is(condition.message, rows[i].message));
    }
}

TEST(groups_of_others_stand_in_the_order_of_their_priorities)
{
    static const struct extension_spec rows[] = {
        {.group = STR("z"), .version = STR("v1"), .group_priority = 20, .version_priority = 1},
        {.group = STR("a"), .version = STR("v2"), .group_priority = 10, .version_priority = 9},
        {.group = STR("a"), .version = STR("v1"), .group_priority = 10, .version_priority = 5},
        {.group = STR("a"), .version = STR("v3"), .group_priority = 10, .version_priority = 5},
        {.group = STR("b"), .version = STR("v1"), .group_priority = 10, .version_priority = 50},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; j < COUNT_OF(rows); j++) {
            int order = extension_compare(&rows[i], &rows[j]);

            EXPECT(i < j ? order < 0 : i > j ? order > 0 : order == 0);
        }
}

TEST(what_another_server_lists_becomes_a_version_of_the_discovery)
{
    static const struct {
        const char *why;
        const char *list;
        const char *resources; /* NULL: it is no list */
    } rows[] = {
        {"all of it",
         "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"cats\",\"singularName\":\"cat\","
         "\"namespaced\":true,\"kind\":\"Cat\",\"verbs\":[\"get\",\"list\"],\"shortNames\":[\"c\"],"
         "\"categories\":[\"all\"]},{\"name\":\"cats/scale\",\"group\":\"autoscaling\",\"version\":"
         "\"v1\",\"kind\":\"Scale\",\"verbs\":[\"get\"]},{\"name\":\"catsup/"
         "status\",\"kind\":\"X\","
         "\"verbs\":[]}]}",
         "[{\"resource\":\"cats\",\"responseKind\":{\"group\":\"a.b\",\"version\":\"v1\",\"kind\":"
         "\"Cat\"},\"scope\":\"Namespaced\",\"singularResource\":\"cat\",\"verbs\":[\"get\","
         "\"list\"],\"shortNames\":[\"c\"],\"categories\":[\"all\"],\"subresources\":[{"
         "\"subresource\":\"scale\",\"responseKind\":{\"group\":\"autoscaling\",\"version\":\"v1\","
         "\"kind\":\"Scale\"},\"verbs\":[\"get\"]}]}]"},
        {"little of it", "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\"},{}]}",
         "[{\"resource\":\"a\",\"responseKind\":{\"group\":\"a.b\",\"version\":\"v1\",\"kind\":\"\""
         "},\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[]}]"},
        {"words that are none",
         "{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\\\"b\",\"verbs\":[1,{},\"x\"]"
         "}]}",
         "[{\"resource\":\"a\\\"b\",\"responseKind\":{\"group\":\"a.b\",\"version\":\"v1\","
         "\"kind\":\"\"},\"scope\":\"Cluster\",\"singularResource\":\"\",\"verbs\":[\"x\"]}]"},
        {"nothing is served", "{\"kind\":\"APIResourceList\"}", "[]"},
        {"another kind", "{\"kind\":\"Status\"}", NULL},
        {"no JSON", "<html>", NULL},
        {"nothing", "", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf out = {0};

        test_case(rows[i].why);
        EXPECT(extension_resources(&arena, &spec, str_from(rows[i].list), &out) ==
               (rows[i].resources != NULL));
        EXPECT(str_is(buf_str(&out), rows[i].resources ? rows[i].resources : ""));
    }
}

TEST(an_openapi_document_is_where_the_other_server_says)
{
    static const struct {
        const char *why;
        const char *index;
        const char *url;
    } rows[] = {
        {"it has one",
         "{\"paths\":{\"apis/a.b/v1\":{\"serverRelativeURL\":\"/openapi/v3/apis/a.b/v1?hash=1\"}}}",
         "/openapi/v3/apis/a.b/v1?hash=1"},
        {"of another version alone",
         "{\"paths\":{\"apis/a.b/v2\":{\"serverRelativeURL\":\"/openapi/v3/apis/a.b/v2\"}}}", ""},
        {"a way elsewhere",
         "{\"paths\":{\"apis/a.b/v1\":{\"serverRelativeURL\":\"/api/v1/secrets?x\"}}}", ""},
        {"none", "{}", ""},
        {"no JSON", "not found", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(extension_document(&arena, &spec, str_from(rows[i].index)), rows[i].url));
    }
}

TEST(a_list_of_resources_has_an_end)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf list = {0};
    _cleanup_(buf_done) struct buf out = {0};

    buf_add(&list, STR("{\"kind\":\"APIResourceList\",\"resources\":[{\"name\":\"a\"}"));
    for (int i = 0; i < 1000; i++)
        buf_addf(&list, ",{\"name\":\"a%d\"}", i);
    buf_add(&list, STR("]}"));
    EXPECT(!extension_resources(&arena, &spec, buf_str(&list), &out) && !out.len);
}
