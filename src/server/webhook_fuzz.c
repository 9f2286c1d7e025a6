#include "api/kind.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "fuzz/fuzz.h"
#include "server/webhook.h"

#include <stdbool.h>
#include <stddef.h>

/* The body of an AdmissionReview. Whatever it is, the answer is one that an API server takes, or a
 * refusal in words; and what a pod was changed into is let through unchanged when it comes again,
 * as it does when another webhook has changed it too. */

/* The response, or NULL when the body was no review. */
static const struct json *respond(struct arena *arena,
                                  const struct webhook_rules *rules,
                                  const char *path,
                                  struct str body)
{
    struct json *answer = NULL;
    struct json *review = NULL;
    struct str text = STR_NONE;
    struct err err = {0};

    if (webhook_answer(arena, rules, str_from(path), body, &text, &err) < 0) {
        FUZZ_HOLDS(err.text[0] != '\0');
        return NULL;
    }
    FUZZ_HOLDS(json_parse(arena, body, &review, NULL) == 0);
    FUZZ_HOLDS(json_parse(arena, text, &answer, NULL) == 0);
    FUZZ_HOLDS(str_eq(json_str_at(answer, "response.uid"), json_str_at(review, "request.uid")));
    const struct json *response = json_get(answer, "response");
    FUZZ_HOLDS(json_is(json_get(response, "allowed"), JSON_BOOL));
    FUZZ_HOLDS(json_bool_or(json_get(response, "allowed"), false) ||
               json_str_at(response, "status.message").len > 0);
    return response;
}

/* The review as it would be with the patch of the response carried out; NULL: there is none. */
static struct json *patched(struct arena *arena,
                            struct str body,
                            const struct json *response,
                            struct err *err)
{
    struct json *review = NULL;
    struct json *patch = NULL;
    struct json *object = NULL;
    struct str text = STR_NONE;

    if (!json_get(response, "patch"))
        return NULL;
    FUZZ_HOLDS(base64_decode(arena, json_str(json_get(response, "patch")), &text));
    FUZZ_HOLDS(json_parse(arena, text, &patch, NULL) == 0);
    FUZZ_HOLDS(json_parse(arena, body, &review, NULL) == 0);
    struct json *request = json_get(review, "request");
    FUZZ_HOLDS(patch_json(arena, json_get(request, "object"), patch, &object, err) == 0);
    json_set(request, STR("object"), object);
    return review;
}

static void check_path(const struct webhook_rules *rules, const char *path, struct str input)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *response = respond(&arena, rules, path, input);
    struct err err = {0};
    struct json *again = patched(&arena, input, response, &err);

    if (!again)
        return;
    response = respond(&arena, rules, path, json_text(&arena, again));
    /* The text has grown past what a text may nest: refused, which the first time it was not. */
    if (!response)
        return;
    FUZZ_HOLDS(json_bool_or(json_get(response, "allowed"), false));
    FUZZ_HOLDS(!json_get(response, "patch"));
}

FUZZ(webhook)
{
    static struct kinds *kinds;

    if (!kinds)
        kinds = kinds_new();
    const struct webhook_rules rules[] = {
        {.kinds = kinds, .scheduler_name = STR("kai-scheduler"), .shares = true},
        {.kinds = kinds, .shares = true, .runtime_class = STR("nvidia")}, /* of every pod */
        {.kinds = kinds, .scheduler_name = STR("kai-scheduler")},
    };

    for (size_t i = 0; i < COUNT_OF(rules); i++)
        check_path(&rules[i], WEBHOOK_PODS, input);
    check_path(&rules[0], WEBHOOK_KINDS, input);
}
