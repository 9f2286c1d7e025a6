#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "server/kubelet.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(a_kubelets_paths_become_those_of_the_api)
{
    static const struct {
        const char *path;
        const char *query;
        const char *want_path; /* NULL: refused */
        const char *want_query;
        const char *why;
    } rows[] = {
        {"/containerLogs/ns/p/c", "follow=true", "/api/v1/namespaces/ns/pods/p/log",
         "container=c&follow=true", "logs name their container in the path"},
        {"/exec/ns/p/c", "command=ls&error=1&output=1", "/api/v1/namespaces/ns/pods/p/exec",
         "container=c&stdout=true&stderr=true&command=ls&error=1&output=1",
         "streams have other names"},
        {"/exec/ns/p/u-i-d/c", "", "/api/v1/namespaces/ns/pods/p/exec", "container=c&",
         "the pod's uid may be named"},
        {"/attach/ns/p/c", "input=1&tty=1", "/api/v1/namespaces/ns/pods/p/attach",
         "container=c&stdin=true&input=1&tty=1", "attach as exec"},
        {"/portForward/ns/p", "port=80,81", "/api/v1/namespaces/ns/pods/p/portforward",
         "ports=80,81&port=80,81", "over WebSocket the ports are in the query"},
        {"/portForward/ns/p", "", "/api/v1/namespaces/ns/pods/p/portforward", "",
         "ports are of the pod"},
        {"/api/v1/namespaces/ns/pods/p/log", "", NULL, NULL, "this is not an API server"},
        {"/containerLogs/ns/p", "", NULL, NULL, "no container"},
        {"/exec/ns//c", "", NULL, NULL, "an empty segment"},
        {"/exec/a/b/c/d/e/f", "", NULL, NULL, "too long"},
        {"/", "", NULL, NULL, "nothing asked for"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str path = str_from(rows[i].path), query = str_from(rows[i].query);
        bool known = kubelet_path(&arena, &path, &query);

        EXPECT(known == (rows[i].want_path != NULL));
        EXPECT(str_is(path, known ? rows[i].want_path : rows[i].path));
        EXPECT(str_is(query, known ? rows[i].want_query : rows[i].query));
    }
}
