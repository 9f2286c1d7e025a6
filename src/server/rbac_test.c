#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "server/rbac.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static const struct kind role = {.name = "Role", .namespaced = true};
static const struct kind cluster_role = {.name = "ClusterRole"};
static const struct kind role_binding = {.name = "RoleBinding", .namespaced = true};
static const struct kind cluster_role_binding = {.name = "ClusterRoleBinding"};

static const struct {
    const struct kind *kind;
    const char *text;
} stored[] = {
    {&role,
     "{\"metadata\":{\"name\":\"reader\",\"namespace\":\"a\"},\"rules\":[{\"verbs\":[\"get\","
     "\"list\"],\"apiGroups\":[\"\"],\"resources\":[\"pods\",\"pods/log\"]},{\"verbs\":["
     "\"patch\"],\"apiGroups\":[\"torchrun.ai\"],\"resources\":[\"torchrunjobs\"],"
     "\"resourceNames\":[\"mine\"]}]}"},
    {&cluster_role, "{\"metadata\":{\"name\":\"all\"},\"rules\":[{\"verbs\":[\"*\"],\"apiGroups\":["
                    "\"*\"],\"resources\":[\"*\"]},{\"verbs\":[\"get\"],\"nonResourceURLs\":["
                    "\"/metrics*\"]}]}"},
    {&role_binding, "{\"metadata\":{\"name\":\"b\",\"namespace\":\"a\"},\"subjects\":[{\"kind\":"
                    "\"ServiceAccount\",\"name\":\"bot\"}],\"roleRef\":{\"kind\":\"Role\",\"name\":"
                    "\"reader\"}}"},
    {&role_binding, "{\"metadata\":{\"name\":\"c\",\"namespace\":\"b\"},\"subjects\":[{\"kind\":"
                    "\"Group\",\"name\":\"system:serviceaccounts:a\"}],\"roleRef\":{\"kind\":"
                    "\"ClusterRole\",\"name\":\"all\"}}"},
    {&cluster_role_binding, "{\"metadata\":{\"name\":\"d\"},\"subjects\":[{\"kind\":\"User\","
                            "\"name\":\"joe\"}],\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":"
                            "\"all\"}}"},
};
#define STORED COUNT_OF(stored)

TEST(rbac_allows_what_a_binding_says_and_nothing_else)
{
    static const struct {
        const char *why;
        const char *user, *verb, *group, *resource, *ns, *name, *path;
        bool allowed;
    } rows[] = {
        {"role in its namespace", "bot", "get", "", "pods", "a", "x", "", true},
        {"subresource named", "bot", "get", "", "pods/log", "a", "x", "", true},
        {"subresource not named", "bot", "get", "", "pods/exec", "a", "x", "", false},
        {"verb not named", "bot", "delete", "", "pods", "a", "x", "", false},
        {"all namespaces", "bot", "list", "", "pods", "", "", "", false},
        {"group of the resource counts", "bot", "get", "batch", "pods", "a", "x", "", false},
        {"that name", "bot", "patch", "torchrun.ai", "torchrunjobs", "a", "mine", "", true},
        {"another name", "bot", "patch", "torchrun.ai", "torchrunjobs", "a", "yours", "", false},
        {"no name where the rule has names", "bot", "patch", "torchrun.ai", "torchrunjobs", "a", "",
         "", false},
        {"by group, in the binding's namespace", "bot", "delete", "", "secrets", "b", "s", "",
         true},
        {"that binding holds nowhere else", "bot", "delete", "", "secrets", "c", "s", "", false},
        {"an account of the same name elsewhere", "other", "get", "", "pods", "a", "x", "", false},
        {"cluster binding", "joe", "delete", "batch", "jobs", "c", "j", "", true},
        {"path by prefix", "joe", "get", "", "", "", "", "/metrics/x", true},
        {"path not named", "joe", "get", "", "", "", "", "/logs", false},
        {"paths are never granted by a RoleBinding", "bot", "get", "", "", "", "", "/metrics",
         false},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *objects[STORED];

    for (size_t i = 0; i < STORED; i++) {
        struct object *object = NULL;
        EXPECT(object_new(stored[i].kind, str_from(stored[i].text), &object, NULL) == 0);
        objects[i] = object;
    }
    struct rbac rbac = {objects, STORED};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool bot = str_is(str_from(rows[i].user), "bot");
        struct str groups[] = {bot ? STR("system:serviceaccounts:a") : STR("none")};
        struct str name = bot ? STR("system:serviceaccount:a:bot")
                          : str_is(str_from(rows[i].user), "other")
                              ? STR("system:serviceaccount:b:bot")
                              : str_from(rows[i].user);
        struct rbac_user user = {name, groups, 1};
        struct rbac_request request = {
            str_from(rows[i].verb),     str_from(rows[i].group),
            str_from(rows[i].resource), str_from(rows[i].ns),
            str_from(rows[i].name),     rows[i].path[0] ? str_from(rows[i].path) : STR_NONE};

        test_case(rows[i].why);
        EXPECT(rbac_allows(&rbac, &arena, &user, &request) == rows[i].allowed);
    }
    for (size_t i = 0; i < STORED; i++)
        object_unref(objects[i]);
}
