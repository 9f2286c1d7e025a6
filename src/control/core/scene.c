#include "control/core/scene.h"

#include "api/kept.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "test.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#define SCENE_NAMESPACE "n"
#define SCENE_SYSTEM    "kube-system" /* what is made there stays there */

void scene_open(struct scene *scene)
{
    *scene = (struct scene){.cache = cache_new(1),
                            .whole = cache_new(1),
                            .config = {.scheduler_name = STR("kai-scheduler"),
                                       .queue_label_key = STR("kai.scheduler/queue"),
                                       .default_queue = STR("default-queue"),
                                       .default_parent = STR("default-parent-queue"),
                                       .cluster_domain = STR("cluster.local"),
                                       .node_health = true},
                            .now_ms = 1000000};
}

void scene_close(struct scene *scene)
{
    cache_free(scene->cache);
    cache_free(scene->whole);
    arena_done(&scene->arena);
}

struct str scene_text(struct scene *scene, const char *text)
{
    char *copy = str_c(&scene->arena, str_from(text));

    for (char *c = copy; *c; c++)
        if (*c == '\'')
            *c = '"';
    return str_from(copy);
}

static struct json *parse(struct scene *scene, const char *text)
{
    struct json *tree = NULL;
    int r = json_parse(&scene->arena, scene_text(scene, text), &tree, NULL);

    assert(r == 0);
    (void)r;
    return tree;
}

static void put(struct scene *scene,
                struct cache *cache,
                const struct kind *kind,
                const struct json *tree)
{
    struct object *object = NULL;
    int r = object_new(kind, json_text(&scene->arena, tree), &object, NULL);

    assert(r == 0);
    (void)r;
    cache_put(cache, object);
    object_unref(object);
}

/* As an API server does with what a schema does not name. */
static void prune(const struct scene *scene, struct json *tree)
{
    struct json *status = json_get(tree, "status");

    for (struct json *member = json_first(status); member;) {
        struct json *next = json_next(member);
        bool named = false;

        for (size_t i = 0; scene->foreign_status[i]; i++)
            named = named || str_is(json_key(member), scene->foreign_status[i]);
        if (!named)
            json_remove(status, json_key(member));
        member = next;
    }
}

static void keep(struct scene *scene, const struct kind *kind, struct json *tree)
{
    struct json *meta = json_make_path(&scene->arena, tree, "metadata");
    struct str name = json_str(json_get(meta, "name"));
    char version[KIND_API_VERSION_BYTES];
    struct json *seen;

    assert(kind);
    json_add_str(&scene->arena, tree, "apiVersion",
                 str_dup(&scene->arena, kind_api_version(kind, version)));
    json_add_c(&scene->arena, tree, "kind", kind->name);
    if (kind->namespaced && !str_is(json_str(json_get(meta, "namespace")), SCENE_SYSTEM))
        json_add_c(&scene->arena, meta, "namespace", SCENE_NAMESPACE);
    if (!json_get(meta, "uid"))
        json_add_str(&scene->arena, meta, "uid",
                     str_printf(&scene->arena, "u-" STR_FMT, STR_ARG(name)));
    json_add_str(&scene->arena, meta, "resourceVersion",
                 str_printf(&scene->arena, "%llu", (unsigned long long)++scene->revision));
    if (kind == scene->foreign)
        prune(scene, tree);
    put(scene, scene->whole, kind, tree);
    seen = json_clone(&scene->arena, tree);
    kept_trim(kind, seen);
    put(scene, scene->cache, kind, seen);
}

static void drop(struct scene *scene, const struct object *object)
{
    cache_drop(scene->cache, object); /* first: the object is the other one's */
    cache_drop(scene->whole, object);
}

void scene_put(struct scene *scene, const struct kind *kind, const char *text)
{
    keep(scene, kind, parse(scene, text));
}

static const struct object *find(struct scene *scene, const struct kind *kind, struct str name)
{
    const struct object *object =
        cache_get(scene->whole, kind, kind->namespaced ? STR(SCENE_NAMESPACE) : STR(""), name);

    return object ? object : cache_get(scene->whole, kind, STR(SCENE_SYSTEM), name);
}

/* A patch of a foreign kind that leaves nothing behind is answered, and nobody hears of it. */
static bool is_lost(struct scene *scene, const struct json *before, const struct json *after)
{
    struct json *pruned = json_clone(&scene->arena, after);

    prune(scene, pruned);
    return json_equal(before, pruned);
}

static void change(struct scene *scene,
                   const struct kind *kind,
                   struct str name,
                   const struct json *patch)
{
    const struct object *object = find(scene, kind, name);

    assert(object);
    arena_defer(&scene->arena, object_release, object_ref(object));
    const struct json *before = object_json(object, &scene->arena);
    struct json *after = patch_merge(&scene->arena, json_clone(&scene->arena, before), patch);
    if (kind != scene->foreign || !is_lost(scene, before, after))
        keep(scene, kind, after);
}

void scene_patch(struct scene *scene, const struct kind *kind, const char *name, const char *patch)
{
    change(scene, kind, str_from(name), parse(scene, patch));
}

void scene_change(struct scene *scene,
                  const struct kind *kind,
                  const char *name,
                  const struct json *patch)
{
    change(scene, kind, str_from(name), patch);
}

void scene_drop(struct scene *scene, const struct kind *kind, const char *name)
{
    const struct object *object = find(scene, kind, str_from(name));

    assert(object);
    drop(scene, object);
}

/* What a test kept of the text stays as it is: bytes are added behind it, or all are copied to twice the room. */
static void append(struct scene *scene, struct str *text, struct room *room, struct str piece)
{
    if (text->p != room->p || text->len + piece.len > room->bytes) {
        size_t bytes = 2 * (text->len + piece.len) + 64;
        char *p = ARENA_ARRAY(&scene->arena, char, bytes);

        if (text->len)
            memcpy(p, text->p, text->len);
        *room = (struct room){p, bytes};
        text->p = p;
    }
    if (piece.len)
        memcpy(room->p + text->len, piece.p, piece.len);
    text->len += piece.len;
}

static void tell(struct scene *scene, struct str reason, struct str message)
{
    if (scene->events.len)
        append(scene, &scene->events, &scene->events_room, STR(" "));
    append(scene, &scene->events, &scene->events_room, reason);
    append(scene, &scene->event_words, &scene->words_room, message);
    append(scene, &scene->event_words, &scene->words_room, STR("\n"));
}

/* As the runner does: once for as long as it is the same. */
static void tell_refusal(struct scene *scene, const struct controller *controller)
{
    if (controller->kind && !str_eq(scene->told, scene->refusal))
        tell(scene, str_from(controller->refused ? controller->refused : "FailedCreate"),
             scene->refusal);
    scene->told = scene->refusal;
}

/* What is done ends with what is refused; so do the events that say it was done. */
static bool is_refused(const struct scene *scene, size_t index)
{
    const struct action *action = &scene->actions.list.items[index];

    if (action->type == ACTION_EVENT && !action->warning)
        while (index > 0 && action->type >= ACTION_EVENT)
            action = &scene->actions.list.items[--index];
    return action->type == ACTION_CREATE && scene->refusal.len;
}

static void carry_out(struct scene *scene, const struct action *action)
{
    struct str name =
        action->type == ACTION_CREATE ? json_str_at(action->body, "metadata.name") : action->name;
    const struct object *object = action->kind ? find(scene, action->kind, name) : NULL;

    switch (action->type) {
    case ACTION_CREATE:
        if (!object)
            keep(scene, action->kind, json_clone(&scene->arena, action->body));
        break;
    case ACTION_PATCH:
    case ACTION_PATCH_STATUS: change(scene, action->kind, name, action->body); break;
    case ACTION_DELETE:
        if (object)
            drop(scene, object);
        break;
    case ACTION_EVENT: tell(scene, action->reason, action->message); break;
    case ACTION_POST:
        scene->posts =
            str_printf(&scene->arena, STR_FMT STR_FMT " " STR_FMT "\n", STR_ARG(scene->posts),
                       STR_ARG(action->name), STR_ARG(json_text(&scene->arena, action->body)));
        break;
    case ACTION_LOOK_AGAIN:
    case ACTION_LEARN:
    case ACTION_WATCH: break;
    }
}

static bool changes(struct scene *scene)
{
    bool any = false;

    for (size_t i = 0; i < scene->actions.list.count; i++) {
        const struct action *action = &scene->actions.list.items[i];
        bool patch = action->type == ACTION_PATCH || action->type == ACTION_PATCH_STATUS;

        if (patch && action->kind == scene->foreign) {
            const struct json *before =
                object_json(find(scene, action->kind, action->name), &scene->arena);

            scene->patches++;
            struct json *copy = json_clone(&scene->arena, before);

            any |= !is_lost(scene, before, patch_merge(&scene->arena, copy, action->body));
        } else if (action->type <= ACTION_DELETE) {
            any |= action->type != ACTION_CREATE || !scene->refusal.len;
        }
    }
    return any;
}

/* As the executor does: bodies may point into objects of the cache, which are gone once an earlier
 * action has changed them. */
static void write_down(struct scene *scene)
{
    for (size_t i = 0; i < scene->actions.list.count; i++) {
        struct action *action = &scene->actions.list.items[i];

        if (action->body)
            EXPECT(json_parse(&scene->arena, json_text(&scene->arena, action->body), &action->body,
                              NULL) == 0);
    }
}

bool scene_turn(struct scene *scene, const struct controller *controller, const char *name)
{
    /* Those of a controller-manager run where the store is our own: nothing is left out there. */
    struct control_input input = {.cache = controller->embedded ? scene->whole : scene->cache,
                                  .config = &scene->config,
                                  .kinds = scene->kinds,
                                  .now_ms = scene->now_ms,
                                  .refusal = scene->refusal};
    struct control_key key = {STR(SCENE_NAMESPACE), str_from(name)};

    scene->actions = (struct actions){.arena = &scene->arena};
    controller->reconcile(&input, &key, &scene->actions);
    write_down(scene);
    if (!changes(scene))
        return false;
    for (size_t i = 0; i < scene->actions.list.count; i++)
        if (is_refused(scene, i))
            tell_refusal(scene, controller);
        else
            carry_out(scene, &scene->actions.list.items[i]);
    return true;
}

void scene_run(struct scene *scene, const struct controller *controller, const char *name)
{
    int turn = 0;

    while (turn <= SCENE_TURNS_MAX && scene_turn(scene, controller, name))
        turn++;
    EXPECT(turn <= SCENE_TURNS_MAX);
}

struct json *scene_get(struct scene *scene, const struct kind *kind, const char *name)
{
    const struct object *object = find(scene, kind, str_from(name));

    if (!object)
        return NULL;
    arena_defer(&scene->arena, object_release, object_ref(object));
    return object_json(object, &scene->arena);
}

struct str scene_conditions(struct scene *scene, const struct kind *kind, const char *name)
{
    struct str text = STR("");

    JSON_FOREACH(json_at(scene_get(scene, kind, name), "status.conditions"), condition)
        text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT "=" STR_FMT, STR_ARG(text),
                          text.len ? " " : "", STR_ARG(json_str(json_get(condition, "type"))),
                          STR_ARG(json_str(json_get(condition, "status"))));
    return text;
}

struct str scene_names(struct scene *scene, const struct kind *kind)
{
    struct str text = STR("");
    const struct object *object = NULL;
    size_t cursor = 0;

    while ((object = cache_next(scene->whole, kind, STR(""), &cursor)))
        text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? " " : "",
                          STR_ARG(object->name));
    return text;
}

struct str scene_words(struct scene *scene, const struct json *list)
{
    struct str text = STR("");

    JSON_FOREACH(list, item)
        text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? " " : "",
                          STR_ARG(json_str(item)));
    return text;
}

struct str scene_keys(struct scene *scene,
                      const struct controller *controller,
                      const struct kind *kind,
                      const char *name)
{
    struct control_keys keys = {.arena = &scene->arena};
    struct str text = STR("");
    struct str ns = kind->namespaced ? STR(SCENE_NAMESPACE) : STR("");
    const struct object *object = cache_get(scene->cache, kind, ns, str_from(name));

    EXPECT(object != NULL);
    if (object)
        controller->keys(scene->cache, object, &keys);
    for (size_t i = 0; i < keys.list.count; i++)
        text = str_printf(&scene->arena, STR_FMT "%s" STR_FMT, STR_ARG(text), text.len ? " " : "",
                          STR_ARG(keys.list.items[i].name));
    return text;
}
