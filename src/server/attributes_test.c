#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "server/attributes.h"
#include "server/rbac.h"
#include "server/route.h"
#include "test.h"

#include <stddef.h>

#define PODS "/api/v1/namespaces/a/pods"

TEST(attributes_of_a_request)
{
    static const struct {
        const char *why;
        const char *method, *path, *query;
        const char *verb, *resource, *name;
    } rows[] = {
        {"a list", "GET", PODS, "", "list", "pods", ""},
        {"one object", "GET", PODS "/p", "", "get", "pods", "p"},
        {"only its head", "HEAD", PODS "/p", "", "get", "pods", "p"},
        {"a watch", "GET", PODS, "watch=true", "watch", "pods", ""},
        {"a list of one name is about that name", "GET", PODS, "fieldSelector=metadata.name%3Dp",
         "list", "pods", "p"},
        {"a watch of what has a name is a get", "GET", PODS "/p", "watch=true", "get", "pods", "p"},
        {"results are for who may exec, however asked", "GET", PODS "/p/results", "watch=true",
         "create", "pods/exec", "p"},
        {"so is a watch", "GET", PODS, "watch=1&fieldSelector=metadata.name=p", "watch", "pods",
         "p"},
        {"all but one name is about all", "GET", PODS, "fieldSelector=metadata.name!=p", "list",
         "pods", ""},
        {"another field is about all", "GET", PODS, "fieldSelector=spec.nodeName=n", "list", "pods",
         ""},
        {"deleting a collection is never about a name", "DELETE", PODS,
         "fieldSelector=metadata.name=p", "deletecollection", "pods", ""},
        {"one is deleted", "DELETE", PODS "/p", "", "delete", "pods", "p"},
        {"made", "POST", PODS, "", "create", "pods", ""},
        {"written", "PUT", PODS "/p", "", "update", "pods", "p"},
        {"patched", "PATCH", PODS "/p/status", "", "patch", "pods/status", "p"},
        {"a log is read", "GET", PODS "/p/log", "", "get", "pods/log", "p"},
        {"exec by POST", "POST", PODS "/p/exec", "command=sh", "create", "pods/exec", "p"},
        {"exec by GET is a shell all the same", "GET", PODS "/p/exec", "command=sh", "create",
         "pods/exec", "p"},
        {"attach by GET", "GET", PODS "/p/attach", "", "create", "pods/attach", "p"},
        {"ports by GET", "GET", PODS "/p/portforward", "", "create", "pods/portforward", "p"},
        {"exec with watch is no watch", "GET", PODS "/p/exec", "watch=true", "create", "pods/exec",
         "p"},
        {"the files of a pod are what exec shows", "GET", PODS "/p/results", "", "create",
         "pods/exec", "p"},
        {"so is what its processes are doing", "GET", PODS "/p/stacks", "", "create", "pods/exec",
         "p"},
        {"a proxy goes by its method, and the name has no port", "GET", PODS "/p:80/proxy/x", "",
         "get", "pods/proxy", "p"},
        {"nor a scheme", "GET", PODS "/https:p:80/proxy/x", "", "get", "pods/proxy", "p"},
        {"nor an empty one", "GET", PODS "/:p:80/proxy/x", "", "get", "pods/proxy", "p"},
        {"evicted", "POST", PODS "/p/eviction", "", "create", "pods/eviction", "p"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str path = str_from(rows[i].path);
        struct route route = {0};

        test_case(rows[i].why);
        EXPECT(route_parse(&arena, path, &route, NULL) == 0);
        struct rbac_request wanted =
            attributes_of(&arena, &route, str_from(rows[i].method), path, str_from(rows[i].query));
        EXPECT(str_is(wanted.verb, rows[i].verb));
        EXPECT(str_is(wanted.resource, rows[i].resource));
        EXPECT(str_is(wanted.name, rows[i].name));
        EXPECT(str_is(wanted.ns, "a") && !wanted.path.p);
    }
}

TEST(attributes_of_other_paths_are_method_and_path)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct route route = {0};

    EXPECT(route_parse(&arena, STR("/metrics"), &route, NULL) == 0);
    struct rbac_request wanted =
        attributes_of(&arena, &route, STR("GET"), STR("/metrics"), STR("watch=true"));
    EXPECT(str_is(wanted.verb, "get") && str_is(wanted.path, "/metrics"));
}
