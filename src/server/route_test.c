#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "server/route.h"
#include "test.h"

#include <stddef.h>

TEST(route_of_a_path)
{
    static const struct {
        const char *path;
        enum route_type type;
        const char *group, *version, *ns, *plural, *name, *subresource, *rest;
    } rows[] = {
        {"/", ROUTE_ROOT, "", "", "", "", "", "", ""},
        {"/version/", ROUTE_VERSION, "", "", "", "", "", "", ""},
        {"/.well-known/openid-configuration", ROUTE_ISSUER, "", "", "", "", "", "", ""},
        {"/.well-known/else", ROUTE_UNKNOWN, "", "", "", "", "", "", ""},
        {"/openid/v1/jwks", ROUTE_ISSUER_KEYS, "", "", "", "", "", "", ""},
        {"/readyz", ROUTE_HEALTH, "", "", "", "", "", "", ""},
        {"/metrics", ROUTE_METRICS, "", "", "", "", "", "", ""},
        {"/accounts", ROUTE_ACCOUNTS, "", "", "", "", "", "", ""},
        {"/history", ROUTE_HISTORY, "", "", "", "", "", "", ""},
        {"/accounts/x", ROUTE_UNKNOWN, "", "", "", "", "", "", ""},
        {"/api", ROUTE_API, "", "", "", "", "", "", ""},
        {"/api/v1", ROUTE_GROUP_VERSION, "", "v1", "", "", "", "", ""},
        {"/apis", ROUTE_APIS, "", "", "", "", "", "", ""},
        {"/apis/batch", ROUTE_GROUP, "batch", "", "", "", "", "", ""},
        {"/apis/batch/v1", ROUTE_GROUP_VERSION, "batch", "v1", "", "", "", "", ""},
        {"/api/v1/namespaces", ROUTE_RESOURCE, "", "v1", "", "namespaces", "", "", ""},
        {"/api/v1/namespaces/a", ROUTE_RESOURCE, "", "v1", "", "namespaces", "a", "", ""},
        {"/api/v1/namespaces/a/status", ROUTE_RESOURCE, "", "v1", "", "namespaces", "a", "status",
         ""},
        {"/api/v1/namespaces/a/pods", ROUTE_RESOURCE, "", "v1", "a", "pods", "", "", ""},
        {"/api/v1/namespaces/a/pods/p/log", ROUTE_RESOURCE, "", "v1", "a", "pods", "p", "log", ""},
        {"/api/v1/namespaces/a/pods/p:80/proxy/x/../y%2f", ROUTE_RESOURCE, "", "v1", "a", "pods",
         "p:80", "proxy", "/x/../y%2f"},
        {"/api/v1/namespaces/a%2fpods/p%2Flog", ROUTE_RESOURCE, "", "v1", "a", "pods", "p", "log",
         ""},
        {"/api/v1/namespaces/a/pods/p%2Fq%2Fr", ROUTE_UNKNOWN, "", "v1", "a", "pods", "p", "q", ""},
        {"/api/v1/pods", ROUTE_RESOURCE, "", "v1", "", "pods", "", "", ""},
        {"/apis/torchrun.ai/v1alpha1/namespaces/a/torchrunjobs/j", ROUTE_RESOURCE, "torchrun.ai",
         "v1alpha1", "a", "torchrunjobs", "j", "", ""},
        {"/openapi/v3/apis/batch/v1", ROUTE_OPENAPI_DOC, "batch", "v1", "", "", "", "", ""},
        {"/nothing", ROUTE_UNKNOWN, "", "", "", "", "", "", ""},
        {"/api/v1/namespaces/a/pods/p/log/more", ROUTE_UNKNOWN, "", "v1", "a", "pods", "p", "log",
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct route route = {0};

        test_case(rows[i].path);
        EXPECT(route_parse(&arena, str_from(rows[i].path), &route, NULL) == 0);
        EXPECT(route.type == rows[i].type);
        EXPECT(str_is(route.group, rows[i].group) && str_is(route.version, rows[i].version));
        EXPECT(str_is(route.ns, rows[i].ns) && str_is(route.plural, rows[i].plural));
        EXPECT(str_is(route.name, rows[i].name));
        EXPECT(str_is(route.subresource, rows[i].subresource) && str_is(route.rest, rows[i].rest));
    }
}

TEST(route_refuses_paths_that_climb_or_hide)
{
    static const char *const rows[] = {"/api/v1/../../etc/passwd",
                                       "/api/v1/%2e%2e/x",
                                       "/api/v1/namespaces/%00/pods",
                                       "/api//v1",
                                       "/api/v1/%zz",
                                       "/a/b/c/d/e/f/g/h/i/j/k/l/m"};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct route route = {0};
        struct err err = {0};

        test_case(rows[i]);
        EXPECT(route_parse(&arena, str_from(rows[i]), &route, &err) < 0 && err.text[0]);
    }
}
