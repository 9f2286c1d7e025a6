#include "hook/translate.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/conversion.h"
#include "hook/hook.h"
#include "hook/review.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct translator {
    const struct kinds *kinds;
    struct hook_asker asker;
    struct translation *first;
    uint64_t next_uid;
    bool closing;
};

/* One call. */
struct translation {
    struct translator *translator;
    struct translation *next;
    struct translation **link;
    struct arena arena; /* of the question that is under way */
    struct translate what;
    size_t at;                            /* all before it are done */
    size_t places[TRANSLATE_OBJECTS_MAX]; /* in `objects`, of those that are asked about */
    const struct object *asked[TRANSLATE_OBJECTS_MAX];
    size_t asked_count;
    struct hook hook;
    struct conversion question;
    uint64_t started_ns;
};

static void translation_next(struct translation *t);

struct translator *translator_new(const struct kinds *kinds, const struct hook_asker *asker)
{
    struct translator *translator = MEM_NEW(struct translator);

    translator->kinds = kinds;
    translator->asker = *asker;
    return translator;
}

static void translation_end(struct translation *t, const struct err *err)
{
    translate_done_fn *done = t->what.done;
    void *user = t->what.user;

    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    arena_done(&t->arena);
    mem_free(t);
    done(user, err);
}

static void translation_fail(struct translation *t, int status, const char *why)
{
    char version[KIND_API_VERSION_BYTES];
    struct err err = {0};

    (void)err_set(&err, -EIO, "conversion webhook for " STR_FMT ", Kind=%s failed: %s",
                  STR_ARG(kind_api_version(t->what.to, version)), t->what.to->name, why);
    err.http_status = status;
    translation_end(t, &err);
}

/* What the webhook made of them takes their places. */
static int take(struct translation *t, struct json **made, struct err *err)
{
    const struct kind_crd *crd = kinds_crd(t->translator->kinds, t->what.to); /* NULL: not served */

    for (size_t i = 0; i < t->asked_count; i++) {
        struct schema_unknown unknown = {0};
        struct object *object = NULL;
        int r = 0;

        if (crd && crd->schema) {
            schema_prune(&t->arena, crd->schema, made[i], &unknown);
            r = schema_default(&t->arena, crd->schema, made[i], err);
        }
        if (r == 0)
            r = object_new(t->what.to, json_text(&t->arena, made[i]), &object, err);
        if (r < 0)
            return r;
        object_unref(t->what.objects[t->places[i]]);
        t->what.objects[t->places[i]] = object;
    }
    return 0;
}

static void on_answer(void *user, struct str body, const struct err *failed)
{
    struct translation *t = user;
    struct err err = {0};

    if (failed) {
        translation_fail(t, 500, failed->text);
        return;
    }
    struct json **made = ARENA_ARRAY(&t->arena, struct json *, t->asked_count);
    int r = conversion_read(&t->arena, &t->question, body, made, &err);
    if (r == 0)
        r = take(t, made, &err);
    if (r < 0)
        translation_fail(t, 500, err.text);
    else
        translation_next(t);
}

/* As many as go in one question. */
static void choose(struct translation *t)
{
    size_t bytes = 0;

    t->asked_count = 0;
    for (; t->at < t->what.count && t->asked_count < TRANSLATE_OBJECTS_MAX; t->at++) {
        const struct object *object = t->what.objects[t->at];

        if (object->kind == t->what.to)
            continue;
        if (t->asked_count && bytes + object->raw.len > TRANSLATE_BYTES_MAX)
            break;
        bytes += object->raw.len;
        t->places[t->asked_count] = t->at;
        t->asked[t->asked_count++] = object;
    }
}

static void translation_next(struct translation *t)
{
    struct translator *translator = t->translator;

    arena_done(&t->arena);
    choose(t);
    if (!t->asked_count) {
        translation_end(t, NULL);
        return;
    }
    if (translator->closing) {
        translation_fail(t, 503, "the server is being stopped");
        return;
    }
    if (uv_hrtime() - t->started_ns > TRANSLATE_SECONDS_ALL * UINT64_C(1000000000)) {
        translation_fail(t, 504, "it is too slow for that many objects: ask for fewer at a time");
        return;
    }
    struct str uid = str_printf(&t->arena, "%08" PRIx64 "-0001-4000-8000-%012" PRIx64,
                                uv_hrtime() & 0xffffffff, ++translator->next_uid & 0xffffffffffff);
    t->question = (struct conversion){
        .uid = uid, .to = t->what.to, .objects = t->asked, .count = t->asked_count};
    t->hook = (struct hook){.name = str_from(t->what.to->plural),
                            .spec = t->what.webhook,
                            .timeout_seconds = TRANSLATE_SECONDS};
    translator->asker.ask(translator->asker.asker, &t->hook,
                          conversion_write(&t->arena, &t->question), on_answer, t);
}

void translate(struct translator *translator, const struct translate *what)
{
    struct translation *t = MEM_NEW(struct translation);

    t->translator = translator;
    t->next = translator->first;
    t->link = &translator->first;
    if (t->next)
        t->next->link = &t->next;
    translator->first = t;
    t->what = *what;
    t->started_ns = uv_hrtime();
    translation_next(t);
}

void translator_stop(struct translator *translator)
{
    if (!translator)
        return;
    translator->closing = true;
    while (translator->first)
        translation_fail(translator->first, 503, "the server is being stopped");
}

void translator_free(struct translator *translator)
{
    mem_free(translator);
}
