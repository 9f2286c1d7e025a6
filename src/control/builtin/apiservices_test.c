#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct stage {
    struct arena arena;
    struct cache *cache;
    struct kinds *kinds;
    struct actions actions;
};

static void stage_open(struct stage *stage)
{
    *stage = (struct stage){.cache = cache_new(1), .kinds = kinds_new()};
    stage->actions.arena = &stage->arena;
}

static void stage_close(struct stage *stage)
{
    cache_free(stage->cache);
    kinds_free(stage->kinds);
    arena_done(&stage->arena);
}

static void put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

/* What the controller does about a key, one line an action: "patch v1.apps {...}". */
static struct str react(struct stage *stage, const struct controller *controller, const char *name)
{
    static const char *const verbs[] = {[ACTION_CREATE] = "create",
                                        [ACTION_PATCH] = "patch",
                                        [ACTION_PATCH_STATUS] = "status",
                                        [ACTION_DELETE] = "delete"};
    struct control_config config = {
        .root_ca = STR("USERS"), .front_proxy_ca = STR("PROXY"), .api_port = 6443};
    struct control_input input = {
        .cache = stage->cache, .config = &config, .kinds = stage->kinds, .now_ms = 1000};
    struct control_key key = {.ns = STR(""), .name = str_from(name)};
    struct str text = STR("");

    stage->actions.list.count = 0;
    controller->reconcile(&input, &key, &stage->actions);
    for (size_t i = 0; i < stage->actions.list.count; i++) {
        const struct action *action = &stage->actions.list.items[i];
        struct str body = action->body ? json_text(&stage->arena, action->body) : STR("");

        text = str_printf(&stage->arena, STR_FMT "%s " STR_FMT "%s" STR_FMT "\n", STR_ARG(text),
                          verbs[action->type],
                          STR_ARG(action->type == ACTION_CREATE
                                      ? json_str_at(action->body, "metadata.name")
                                      : action->name),
                          body.len ? " " : "", STR_ARG(body));
    }
    return text;
}

/* Groups that the API server answers itself without storing anything of them. */
static bool is_asked_only(struct str name)
{
    return str_is(name, "v1.authentication.k8s.io") || str_is(name, "v1.authorization.k8s.io") ||
           str_is(name, "v1beta1.metrics.k8s.io");
}

TEST(every_group_version_that_is_built_in_has_an_apiservice)
{
    _cleanup_(stage_close) struct stage stage;
    size_t asked_only = 0;

    stage_open(&stage);
    struct str made = react(&stage, &apiservices_controller, "");
    for (size_t i = 0; i < kinds_count(stage.kinds); i++) {
        const struct kind *kind = kinds_at(stage.kinds, i);

        if (kind->custom || strcmp(kind->group, "apiregistration.k8s.io") == 0)
            continue;
        test_case(kind->name);
        EXPECT(str_contains(
            made, str_printf(&stage.arena, "create %s.%s {", kind->version, kind->group)));
    }
    for (size_t i = 0; i < stage.actions.list.count; i++) {
        struct str name = json_str_at(stage.actions.list.items[i].body, "metadata.name");
        struct str group = name;
        struct str version;
        bool served = false;

        test_case(str_c(&stage.arena, name));
        (void)str_cut(&group, '.', &version);
        for (size_t j = 0; j < kinds_count(stage.kinds) && !served; j++)
            served = str_is(group, kinds_at(stage.kinds, j)->group) &&
                     str_is(version, kinds_at(stage.kinds, j)->version);
        EXPECT(served != is_asked_only(name));
        asked_only += !served;
    }
    EXPECT(asked_only == 3);
}

#define OWN(more)                                                                      \
    "{\"metadata\":{\"name\":\"v1.apps\",\"labels\":{\"kube-aggregator.kubernetes.io/" \
    "automanaged\":\"onstart\"}},\"spec\":{\"group\":\"apps\",\"version\":\"v1\","     \
    "\"groupPriorityMinimum\":17800,\"versionPriority\":15" more "}"
#define LOCAL                                                                              \
    ",\"status\":{\"conditions\":[{\"type\":\"Available\",\"status\":\"True\",\"reason\":" \
    "\"Local\"}]}}"
#define SERVICE ",\"service\":{\"namespace\":\"n\",\"name\":\"s\"}"

TEST(an_apiservice_of_this_server_stays_as_it_was)
{
    static const struct {
        const char *why;
        const char *object; /* NULL: there is none */
        const char *does;   /* its beginning */
        const char *name;
    } rows[] = {
        {"it is made", NULL, "create v1.apps {", "v1.apps"},
        {"it says so", OWN("") "}",
         "status v1.apps {\"status\":{\"conditions\":[{\"type\":\"Available\",\"status\":\"True\"",
         "v1.apps"},
        {"it is right", OWN("") LOCAL, "", "v1.apps"},
        {"nobody takes it away", OWN(SERVICE) LOCAL,
         "patch v1.apps {\"spec\":{\"service\":null}}\n", "v1.apps"},
        {"its label is kept",
         "{\"metadata\":{\"name\":\"v1.apps\"},\"spec\":{\"group\":\"apps\",\"version\":\"v1\","
         "\"groupPriorityMinimum\":17800,\"versionPriority\":15}" LOCAL,
         "patch v1.apps {\"metadata\":{\"labels\":{\"kube-aggregator.kubernetes.io/"
         "automanaged\":\"onstart\"}}}\n",
         "v1.apps"},
        {"one that leads elsewhere is not its matter",
         "{\"metadata\":{\"name\":\"v1.x.y\"},\"spec\":{\"group\":\"x.y\",\"version\":"
         "\"v1\"" SERVICE "}}",
         "", "v1.x.y"},
        {"one for a group that is not there is none either", NULL, "", "v1.x.y"},
        {"somebody says that this server serves it",
         "{\"metadata\":{\"name\":\"v1.x.y\"},\"spec\":{\"group\":\"x.y\",\"version\":\"v1\"}}",
         "status v1.x.y {", "v1.x.y"},
        {"what a CRD brought goes with it",
         "{\"metadata\":{\"name\":\"v1.x.y\",\"labels\":{\"kube-aggregator.kubernetes.io/"
         "automanaged\":\"true\"}},\"spec\":{\"group\":\"x.y\",\"version\":\"v1\"}}",
         "delete v1.x.y\n", "v1.x.y"},
        {"of a CRD that is there", NULL, "create v1alpha1.torchrun.ai {", "v1alpha1.torchrun.ai"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        if (rows[i].object)
            put(&stage, &kind_apiservice, rows[i].object);
        struct str text = react(&stage, &apiservices_controller, rows[i].name);
        EXPECT(str_starts(text, str_from(rows[i].does)) && (text.len > 0) == !!*rows[i].does);
    }
}

TEST(other_api_servers_read_how_this_one_is_known)
{
    static const struct {
        const char *why;
        const char *data; /* NULL: there is no such map */
        const char *does;
    } rows[] = {
        {"it is made", NULL, "create extension-apiserver-authentication {"},
        {"an edit is undone",
         "{\"client-ca-file\":\"EVE\",\"more\":\"x\",\"requestheader-allowed-names\":"
         "\"[\\\"front-proxy-client\\\"]\",\"requestheader-client-ca-file\":\"PROXY\","
         "\"requestheader-extra-headers-prefix\":\"[\\\"X-Remote-Extra-\\\"]\","
         "\"requestheader-group-headers\":\"[\\\"X-Remote-Group\\\"]\","
         "\"requestheader-uid-headers\":\"[\\\"X-Remote-Uid\\\"]\","
         "\"requestheader-username-headers\":\"[\\\"X-Remote-User\\\"]\"}",
         "patch extension-apiserver-authentication {\"data\":{\"more\":null,\"client-ca-file\":"
         "\"USERS\"}}\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(stage_close) struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage);
        EXPECT(!react(&stage, &extension_auth_controller, "").len);
        put(&stage, &kind_namespace, "{\"metadata\":{\"name\":\"kube-system\"}}");
        if (rows[i].data)
            put(&stage, &kind_configmap,
                str_printf(&stage.arena,
                           "{\"metadata\":{\"name\":\"extension-apiserver-authentication\","
                           "\"namespace\":\"kube-system\"},\"data\":%s}",
                           rows[i].data)
                    .p);
        EXPECT(str_starts(react(&stage, &extension_auth_controller, ""), str_from(rows[i].does)));
    }
}
