#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "server/rbac.h"
#include "test.h"

#include <stddef.h>

#define OBJECTS_MAX 8

struct stored {
    const struct object *objects[OBJECTS_MAX];
    size_t count;
};

static void stored_add(struct stored *stored, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    stored->objects[stored->count++] = object;
}

static void stored_done(struct stored *stored)
{
    for (size_t i = 0; i < stored->count; i++)
        object_unref(stored->objects[i]);
}

static void give_joe(struct stored *stored, const char *rules)
{
    _cleanup_(buf_done) struct buf buf = {0};

    buf_addf(&buf, "{\"metadata\":{\"name\":\"joes\"},\"rules\":%s}", rules);
    stored_add(stored, &kind_clusterrole, buf.p);
    stored_add(stored, &kind_rolebinding,
               "{\"metadata\":{\"name\":\"b\",\"namespace\":\"a\"},\"subjects\":[{\"kind\":"
               "\"User\",\"name\":\"joe\"}],\"roleRef\":{\"kind\":\"ClusterRole\",\"name\":"
               "\"joes\"}}");
}

TEST(rbac_nobody_grants_what_he_does_not_hold)
{
    static const struct {
        const char *why, *held, *granted, *missing; /* "": it may be granted */
    } rows[] = {
        {"the same", "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]", ""},
        {"a part of it", "[{'verbs':['get','list'],'apiGroups':[''],'resources':['pods','nodes']}]",
         "[{'verbs':['list'],'apiGroups':[''],'resources':['nodes']}]", ""},
        {"from two rules together",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']},{'verbs':['list'],'apiGroups':["
         "''],'resources':['pods']}]",
         "[{'verbs':['get','list'],'apiGroups':[''],'resources':['pods']}]", ""},
        {"another verb", "[{'verbs':['get'],'apiGroups':[''],'resources':['secrets']}]",
         "[{'verbs':['get','list','watch'],'apiGroups':[''],'resources':['secrets']}]",
         "{APIGroups:[''], Resources:['secrets'], Verbs:['list' 'watch']}"},
        {"everything", "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]",
         "[{'verbs':['*'],'apiGroups':['*'],'resources':['*']}]",
         "{APIGroups:['*'], Resources:['*'], Verbs:['*']}"},
        {"all verbs are more than each",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]",
         "[{'verbs':['*'],'apiGroups':[''],'resources':['pods']}]",
         "{APIGroups:[''], Resources:['pods'], Verbs:['*']}"},
        {"star covers", "[{'verbs':['*'],'apiGroups':['*'],'resources':['*']}]",
         "[{'verbs':['escalate'],'apiGroups':['x'],'resources':['pods/exec']}]", ""},
        {"a subresource of all", "[{'verbs':['get'],'apiGroups':[''],'resources':['*/log']}]",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['pods/log']}]", ""},
        {"all names are more than one",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['secrets'],'resourceNames':['mine']}]",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['secrets']}]",
         "{APIGroups:[''], Resources:['secrets'], Verbs:['get']}"},
        {"that name",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['secrets'],'resourceNames':["
         "'mine']}]",
         "[{'verbs':['get'],'apiGroups':[''],'resources':['secrets'],'resourceNames':['mine','x']}"
         "]",
         "{APIGroups:[''], Resources:['secrets'], ResourceNames:['x'], Verbs:['get']}"},
        {"a path", "[{'verbs':['get'],'nonResourceURLs':['/healthz*']}]",
         "[{'verbs':['get'],'nonResourceURLs':['/healthz/x','/metrics']}]",
         "{NonResourceURLs:['/metrics'], Verbs:['get']}"},
        {"nothing is held", "[]", "[{'verbs':['get'],'apiGroups':[''],'resources':['pods']}]",
         "{APIGroups:[''], Resources:['pods'], Verbs:['get']}"},
        {"nothing is granted", "[]", "[]", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct stored stored = {0};
        struct str groups[] = {STR("system:authenticated")};
        struct rbac_user joe = {STR("joe"), groups, 1};
        char *texts[3];
        const char *given[] = {rows[i].held, rows[i].granted, rows[i].missing};
        struct json *rules = NULL;

        for (size_t k = 0; k < COUNT_OF(given); k++) {
            texts[k] = str_c(&arena, str_from(given[k]));
            for (char *p = texts[k]; *p; p++)
                if (*p == '\'')
                    *p = '"';
        }
        test_case(rows[i].why);
        give_joe(&stored, texts[0]);
        EXPECT(json_parse(&arena, str_from(texts[1]), &rules, NULL) == 0);
        struct rbac rbac = {stored.objects, stored.count};
        struct str missing = rbac_missing(&rbac, &arena, &joe, STR("a"), rules);
        struct str wanted =
            texts[2][0] ? str_printf(&arena,
                                     "user \"joe\" (groups=[\"system:authenticated\"]) is "
                                     "attempting to grant RBAC permissions not currently held:\n%s",
                                     texts[2])
                        : STR("");
        EXPECT(str_eq(missing, wanted));
        /* His rights end with his namespace. */
        if (json_count(rules))
            EXPECT(rbac_missing(&rbac, &arena, &joe, STR("b"), rules).len > 0);
        stored_done(&stored);
    }
}

TEST(rbac_comparing_what_is_granted_has_an_end)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct stored stored = {0};
    struct rbac_user joe = {STR("joe"), NULL, 0};
    struct json *rules = NULL;
    static const char *const lists[] = {"\"verbs\":[", "],\"apiGroups\":[", "],\"resources\":["};

    buf_add(&text, STR("[{"));
    for (size_t list = 0; list < COUNT_OF(lists); list++) {
        buf_add(&text, str_from(lists[list]));
        for (int i = 0; i < 10000; i++)
            buf_addf(&text, "%s\"x%d\"", i ? "," : "", i);
    }
    buf_add(&text, STR("]}]"));
    give_joe(&stored, "[{\"verbs\":[\"*\"],\"apiGroups\":[\"*\"],\"resources\":[\"*\"]}]");
    EXPECT(json_parse(&arena, buf_str(&text), &rules, NULL) == 0);
    struct rbac rbac = {stored.objects, stored.count};
    struct str missing = rbac_missing(&rbac, &arena, &joe, STR("a"), rules);
    EXPECT(str_contains(missing, STR("more than can be compared")));
    stored_done(&stored);
}

TEST(rbac_an_aggregated_role_has_the_rules_that_its_selectors_choose)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct stored stored = {0};

    stored_add(&stored, &kind_clusterrole,
               "{\"metadata\":{\"name\":\"all\",\"labels\":{\"to\":\"all\"}},\"aggregationRule\":{"
               "\"clusterRoleSelectors\":[{\"matchLabels\":{\"to\":\"all\"}},{\"matchLabels\":{"
               "\"also\":\"x\"}}]},\"rules\":[{\"verbs\":[\"stale\"]}]}");
    stored_add(&stored, &kind_clusterrole,
               "{\"metadata\":{\"name\":\"b\",\"labels\":{\"to\":\"all\"}},\"rules\":[{\"verbs\":["
               "\"b\"]},{\"verbs\":[\"a\"]}]}");
    stored_add(&stored, &kind_clusterrole,
               "{\"metadata\":{\"name\":\"a\",\"labels\":{\"also\":\"x\"}},\"rules\":[{\"verbs\":["
               "\"a\"]}]}");
    stored_add(&stored, &kind_clusterrole,
               "{\"metadata\":{\"name\":\"c\"},\"rules\":[{\"verbs\":[\"c\"]}]}");
    struct rbac rbac = {stored.objects, stored.count};
    struct json *rules = rbac_aggregate(&rbac, &arena, stored.objects[0]);
    EXPECT(str_is(json_text(&arena, rules), "[{\"verbs\":[\"a\"]},{\"verbs\":[\"b\"]}]"));
    EXPECT(rbac_aggregate(&rbac, &arena, stored.objects[1]) == NULL);
    stored_done(&stored);
}
