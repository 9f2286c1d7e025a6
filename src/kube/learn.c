#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "kube/client.h"
#include "kube/kube_internal.h"

#include <errno.h>
#include <stddef.h>

/* Kinds of others. The server says of each group and version which resources it has: from there
 * come the plural of a kind and whether its objects have a namespace. */

struct kube_learned {
    struct kube_learned *next;
    struct arena arena;
    struct kind kind;
};

struct kube_lesson {
    struct kube_lesson *next;
    struct kube *kube;
    struct client_call *call;
    struct arena arena;
    struct str group; /* empty: the core group */
    struct str version;
    struct str name;
    api_done_fn *done;
    void *user;
};

static void lesson_free(struct kube_lesson *lesson)
{
    struct kube_lesson **at = &lesson->kube->lessons;

    while (*at != lesson)
        at = &(*at)->next;
    *at = lesson->next;
    client_cancel(lesson->call);
    arena_done(&lesson->arena);
    mem_free(lesson);
}

static void add_kind(const struct kube_lesson *lesson, const struct json *resource)
{
    struct kube *kube = lesson->kube;
    struct kube_learned *learned = MEM_NEW(struct kube_learned);
    struct arena *arena = &learned->arena;
    struct str singular = json_str(json_get(resource, "singularName"));

    learned->kind = (struct kind){
        .group = str_dup(arena, lesson->group).p,
        .version = str_dup(arena, lesson->version).p,
        .name = str_dup(arena, lesson->name).p,
        .plural = str_dup(arena, json_str(json_get(resource, "name"))).p,
        .singular = str_dup(arena, singular).p,
        .short_names = "",
        .categories = "",
        .namespaced = json_bool_or(json_get(resource, "namespaced"), false),
        .custom = true,
    };
    learned->next = kube->learned;
    kube->learned = learned;
    kube->learned_count++;
    kinds_add(kube->kinds, &learned->kind);
}

/* The resource of the kind itself: "flows", not "flows/status". */
static const struct json *resource_of(const struct kube_lesson *lesson, const struct json *list)
{
    JSON_FOREACH(json_get(list, "resources"), resource)
        if (str_eq(json_str(json_get(resource, "kind")), lesson->name) &&
            json_str(json_get(resource, "name")).len &&
            !str_contains(json_str(json_get(resource, "name")), STR("/")))
            return resource;
    return NULL;
}

static int take(struct kube_lesson *lesson, struct str body, struct err *err)
{
    struct json *list = NULL;
    int r = json_parse(&lesson->arena, body, &list, err);

    if (r < 0)
        return err_wrap(err, r, "resources of " STR_FMT "/" STR_FMT, STR_ARG(lesson->group),
                        STR_ARG(lesson->version));
    const struct json *resource = resource_of(lesson, list);
    if (!resource)
        return err_set(err, -ENOENT, "the API server serves no " STR_FMT " of " STR_FMT "/" STR_FMT,
                       STR_ARG(lesson->name), STR_ARG(lesson->group), STR_ARG(lesson->version));
    if (lesson->kube->learned_count >= KUBE_LEARNED_MAX)
        return err_set(err, -ENOSPC,
                       "%d kinds of others are watched already, more are not; delete Kartas that "
                       "nobody needs and start the operator again",
                       KUBE_LEARNED_MAX);
    add_kind(lesson, resource);
    return 0;
}

static void on_reply(void *user, const struct transport_reply *reply)
{
    struct kube_lesson *lesson = user;
    struct api_result result = {0};
    struct err err = {0};

    lesson->call = NULL;
    if (reply->code || reply->status != 200) {
        kube_failure(&lesson->arena, reply, &result, &err);
    } else {
        result.code = take(lesson, reply->body, &err);
        result.err = result.code ? &err : NULL;
    }
    lesson->done(lesson->user, &result);
    lesson_free(lesson);
}

void kube_learn(struct api *api,
                struct str api_version,
                struct str kind,
                api_done_fn *done,
                void *user)
{
    struct kube *kube = (struct kube *)api;
    struct kube_lesson *lesson = MEM_NEW(struct kube_lesson);
    _cleanup_(buf_done) struct buf path = {0};
    struct str rest = api_version;
    struct str first = STR_NONE;

    (void)str_cut(&rest, '/', &first);
    lesson->kube = kube;
    lesson->group = str_dup(&lesson->arena, rest.len ? first : STR(""));
    lesson->version = str_dup(&lesson->arena, rest.len ? rest : first);
    lesson->name = str_dup(&lesson->arena, kind);
    lesson->done = done;
    lesson->user = user;
    lesson->next = kube->lessons;
    kube->lessons = lesson;
    if (kube->closing)
        return; /* told by kube_close() */
    buf_addf(&path, lesson->group.len ? "/apis/" : "/api/");
    if (lesson->group.len) {
        kube_escape(&path, lesson->group);
        buf_addc(&path, '/');
    }
    kube_escape(&path, lesson->version);
    lesson->call = client_send(kube->client, &(struct client_request){.class = LIMITER_READ,
                                                                      .method = "GET",
                                                                      .path = buf_str(&path),
                                                                      .done = on_reply,
                                                                      .user = lesson});
}

void kube_lessons_close(struct kube *kube, const struct err *err)
{
    while (kube->lessons) {
        struct kube_lesson *lesson = kube->lessons;

        lesson->done(lesson->user, &(struct api_result){.code = err->code, .err = err});
        lesson_free(lesson);
    }
}

void kube_learned_free(struct kube *kube)
{
    while (kube->learned) {
        struct kube_learned *learned = kube->learned;

        kube->learned = learned->next;
        arena_done(&learned->arena);
        mem_free(learned);
    }
}
