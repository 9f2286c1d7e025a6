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
#include "control/core/group_name.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static void mirror_put(struct cache *cache, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object)
        cache_put(cache, object);
    object_unref(object);
}

/* What the controller creates under this name, as JSON; empty: nothing. */
static struct str mirror_made(struct arena *arena,
                              struct cache *cache,
                              const struct kind *kind,
                              const char *name)
{
    struct control_config config = {.root_ca = STR("PEM")};
    struct control_input input = {.cache = cache, .config = &config, .now_ms = 1000};
    struct control_key key = {.ns = STR(""), .name = STR("")};
    struct actions actions = {.arena = arena};

    mirrors_controller.reconcile(&input, &key, &actions);
    for (size_t i = 0; i < actions.list.count; i++) {
        const struct action *action = &actions.list.items[i];

        if (action->type == ACTION_CREATE && action->kind == kind &&
            str_is(json_str_at(action->body, "metadata.name"), name))
            return json_text(arena, action->body);
    }
    return STR("");
}

TEST(kubeflows_client_finds_the_version_of_the_trainer)
{
    struct arena arena = {0};
    struct cache *cache = cache_new(1);

    EXPECT(mirror_made(&arena, cache, &kind_namespace, "kubeflow-system").len);
    mirror_put(cache, &kind_namespace, "{\"metadata\":{\"name\":\"kubeflow-system\"}}");
    EXPECT(str_contains(mirror_made(&arena, cache, &kind_configmap, "kubeflow-trainer-public"),
                        STR("\"kubeflow_trainer_version\":\"v2.3.0\"")));
    mirror_put(
        cache, &kind_configmap,
        "{\"metadata\":{\"namespace\":\"kubeflow-system\",\"name\":\"kubeflow-trainer-public\"}}");
    EXPECT(!mirror_made(&arena, cache, &kind_configmap, "kubeflow-trainer-public").len);
    cache_free(cache);
    arena_done(&arena);
}

/* The action about the pod that stands for Kubeflow's operator; NULL: none. */
static const struct action *mirror_action(struct actions *actions,
                                          const struct cache *cache,
                                          const char *const *without)
{
    struct control_input input = {.cache = cache, .now_ms = 1000, .without = without};

    actions->list.count = 0;
    mirrors_controller.reconcile(&input, &(struct control_key){0}, actions);
    for (size_t i = 0; i < actions->list.count; i++) {
        const struct action *action = &actions->list.items[i];
        struct str name = action->type == ACTION_CREATE ? json_str_at(action->body, "metadata.name")
                                                        : action->name;

        if (action->kind == &kind_pod && str_is(name, "training-operator"))
            return action;
    }
    return NULL;
}

TEST(pods_that_stand_for_others_are_marked_and_on_no_node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct actions actions = {.arena = &arena};
    struct cache *cache = cache_new(1);

    mirror_put(cache, &kind_namespace, "{\"metadata\":{\"name\":\"kubeflow\"}}");
    const struct action *action = mirror_action(&actions, cache, NULL);
    EXPECT(action && action->type == ACTION_CREATE);
    EXPECT(action && json_get(json_at(action->body, "metadata.labels"), GROUP_STAND_IN));
    EXPECT(action && !json_at(action->body, "spec.nodeName"));
    /* One of an older program, which had a node of its own, is replaced. */
    mirror_put(
        cache, &kind_pod,
        "{\"metadata\":{\"name\":\"training-operator\",\"namespace\":\"kubeflow\","
        "\"annotations\":{\"kubernetes.io/config.mirror\":\"muster\"}},\"spec\":{\"nodeName\":"
        "\"muster\"},\"status\":{\"phase\":\"Running\"}}");
    action = mirror_action(&actions, cache, NULL);
    EXPECT(action && action->type == ACTION_DELETE);
    cache_free(cache);
}

#define STANDS(meta, phase)                                                                       \
    "{\"metadata\":{\"name\":\"training-operator\",\"namespace\":\"kubeflow\"" meta               \
    ",\"annotations\":{\"kubernetes.io/config.mirror\":\"muster\"},\"labels\":{\"" GROUP_STAND_IN \
    "\":\"true\"}},\"status\":{\"phase\":\"" phase "\"}}"
#define KUBEFLOW(meta) "{\"metadata\":{\"name\":\"kubeflow\"" meta "}}"
#define GOING          ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""

TEST(a_pod_that_stands_for_a_controller_is_there_while_that_runs)
{
    static const char *const off[] = {"jobset", "pytorchjob", "trainjob", NULL};
    static const struct {
        const char *why;
        const char *place;
        const char *pod; /* NULL: none */
        const char *const *without;
        bool some; /* action, of type */
        enum action_type type;
    } rows[] = {
        {"it is not there", KUBEFLOW(""), NULL, NULL, true, ACTION_CREATE},
        {"its namespace is going", KUBEFLOW(GOING), NULL, NULL, false, ACTION_CREATE},
        {"nobody runs that", KUBEFLOW(""), NULL, off, false, ACTION_CREATE},
        {"it was just made", KUBEFLOW(""), STANDS("", "Pending"), NULL, true, ACTION_PATCH_STATUS},
        {"it stands", KUBEFLOW(""), STANDS("", "Running"), NULL, false, ACTION_CREATE},
        {"it is going", KUBEFLOW(""), STANDS(GOING, "Running"), NULL, true, ACTION_DELETE},
        {"nobody runs that any more", KUBEFLOW(""), STANDS("", "Running"), off, true,
         ACTION_DELETE},
        {"somebody else's", KUBEFLOW(""),
         "{\"metadata\":{\"name\":\"training-operator\",\"namespace\":\"kubeflow\"}}", off, false,
         ACTION_DELETE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct actions actions = {.arena = &arena};
        struct cache *cache = cache_new(1);

        test_case(rows[i].why);
        mirror_put(cache, &kind_namespace, rows[i].place);
        mirror_put(cache, &kind_namespace,
                   "{\"metadata\":{\"name\":\"kubeflow-system\"" GOING "}}");
        if (rows[i].pod)
            mirror_put(cache, &kind_pod, rows[i].pod);
        const struct action *action = mirror_action(&actions, cache, rows[i].without);
        EXPECT((action != NULL) == rows[i].some);
        EXPECT(!action || action->type == rows[i].type);
        for (size_t j = 0; j < actions.list.count; j++) /* nothing is written to what is going */
            EXPECT(actions.list.items[j].kind != &kind_configmap);
        cache_free(cache);
    }
}
