#pragma once

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "test.h"

#include <stddef.h>

/* The loops of a controller-manager: what is there, and what they do about it. */
struct stage {
    struct arena arena;
    struct cache *cache;
    struct actions actions;
};

static inline void stage_open(struct stage *stage)
{
    *stage = (struct stage){.cache = cache_new(1)};
    stage->actions.arena = &stage->arena;
}

static inline void stage_close(struct stage *stage)
{
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

static inline void put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

/* What the controller does about a key, one line an action: "create pv/pvc-u1 {...}". */
static inline struct str react(struct stage *stage,
                               const struct controller *controller,
                               const char *ns,
                               const char *name)
{
    static const char *const verbs[] = {[ACTION_CREATE] = "create",
                                        [ACTION_PATCH] = "patch",
                                        [ACTION_PATCH_STATUS] = "status",
                                        [ACTION_DELETE] = "delete"};
    struct control_config config = {.root_ca = STR("PEM"),
                                    .api_address = STR("127.0.0.1"),
                                    .api_port = 6443,
                                    .service_cidr = STR("10.1.128.0/17")};
    struct control_input input = {.cache = stage->cache, .config = &config, .now_ms = 1000};
    struct control_key key = {.ns = str_from(ns), .name = str_from(name)};
    struct str text = STR("");

    stage->actions.list.count = 0;
    controller->reconcile(&input, &key, &stage->actions);
    for (size_t i = 0; i < stage->actions.list.count; i++) {
        const struct action *action = &stage->actions.list.items[i];
        struct str object = action->type == ACTION_CREATE
                                ? json_str_at(action->body, "metadata.name")
                                : action->name;

        if (action->type > ACTION_DELETE)
            continue;
        text = str_printf(&stage->arena, STR_FMT "%s %s/" STR_FMT "%s" STR_FMT "\n", STR_ARG(text),
                          verbs[action->type], action->kind->singular, STR_ARG(object),
                          action->type == ACTION_DELETE ? "" : " ",
                          STR_ARG(action->type == ACTION_DELETE
                                      ? STR("")
                                      : json_text(&stage->arena, action->body)));
    }
    return text;
}
