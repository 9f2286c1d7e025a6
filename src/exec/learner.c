#include "exec/learner.h"

#include "api/api.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/vec.h"
#include "tool/log.h"

#include <stdbool.h>
#include <stddef.h>

/* One kind that is being asked for. It outlives its learner: the answer comes in any case. */
struct lesson {
    struct learner *learner; /* NULL: nobody wants to know any more */
    struct lesson *next;
    struct arena arena;
    struct str api_version;
    struct str kind;
    VEC(struct learner_key) keys;
};

struct learner {
    struct learner_options options;
    struct lesson *lessons;
};

static void lesson_free(struct lesson *lesson)
{
    VEC_DONE(&lesson->keys);
    arena_done(&lesson->arena);
    mem_free(lesson);
}

static void on_answer(void *user, const struct api_result *result)
{
    struct lesson *lesson = user;
    struct learner *learner = lesson->learner;

    if (learner) {
        struct lesson **at = &learner->lessons;

        while (*at != lesson)
            at = &(*at)->next;
        *at = lesson->next;
        if (result->code)
            log_warn(learner->options.log, "kind.unknown", LOG_STR("kind", lesson->kind),
                     LOG_STR("apiVersion", lesson->api_version), LOG_ERR(result->err));
        for (size_t i = 0; i < lesson->keys.count; i++)
            learner->options.told(learner->options.user, &lesson->keys.items[i], !result->code);
    }
    lesson_free(lesson);
}

void learner_ask(struct learner *learner,
                 struct str api_version,
                 struct str kind,
                 const struct learner_key *key)
{
    struct lesson *lesson = learner->lessons;

    while (lesson && !(str_eq(lesson->api_version, api_version) && str_eq(lesson->kind, kind)))
        lesson = lesson->next;
    if (!lesson) {
        lesson = MEM_NEW(struct lesson);
        lesson->learner = learner;
        lesson->api_version = str_dup(&lesson->arena, api_version);
        lesson->kind = str_dup(&lesson->arena, kind);
        if (!api_learn(learner->options.api, api_version, kind, on_answer, lesson)) {
            lesson_free(lesson);
            return;
        }
        lesson->next = learner->lessons;
        learner->lessons = lesson;
    }
    VEC_PUSH(NULL, &lesson->keys,
             (struct learner_key){key->unit, str_dup(&lesson->arena, key->ns),
                                  str_dup(&lesson->arena, key->name)});
}

struct learner *learner_new(const struct learner_options *options)
{
    struct learner *learner = MEM_NEW(struct learner);

    learner->options = *options;
    return learner;
}

void learner_free(struct learner *learner)
{
    if (!learner)
        return;
    for (struct lesson *lesson = learner->lessons; lesson; lesson = lesson->next)
        lesson->learner = NULL;
    mem_free(learner);
}
