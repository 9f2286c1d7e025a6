#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/yaml.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Webhook configurations as they are written, and what a write does for those who have a say. */

static int create(struct harness *h, const struct kind *kind, const char *text)
{
    struct arena arena = {0};
    struct json *root = NULL;

    EXPECT(yaml_parse(&arena, str_from(text), &root, NULL) == 0);
    int r = harness_create(h, kind, "", str_c(&arena, json_text(&arena, root)));
    arena_done(&arena);
    return r;
}

#define HOOK(name, rest)                                                                \
    "metadata: {name: c}\n"                                                             \
    "webhooks:\n"                                                                       \
    "- name: " name "\n"                                                                \
    "  rules: [{operations: [CREATE], apiGroups: ['*'], apiVersions: [v1], resources: " \
    "[pods]}]\n" rest
#define GOOD                            \
    "  admissionReviewVersions: [v1]\n" \
    "  sideEffects: None\n"

TEST(a_webhook_configuration_is_filled_in)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_mutatingwebhooks,
                  HOOK("a.b.c", GOOD "  clientConfig: {service: {name: s, namespace: ns}}\n")) ==
           0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.failurePolicy"), "Fail") == 0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.matchPolicy"), "Equivalent") == 0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.reinvocationPolicy"), "Never") == 0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.timeoutSeconds"), "10") == 0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.rules.0.scope"), "*") == 0);
    EXPECT(strcmp(harness_text(&h, "webhooks.0.clientConfig.service.port"), "443") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.generation"), "1") == 0);
    harness_close(&h);
}

TEST(a_field_beside_metadata_that_goes_as_a_whole_is_a_new_generation)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(create(&h, &kind_mutatingwebhooks,
                  HOOK("a.b.c", GOOD "  clientConfig: {url: 'https://a/'}\n")) == 0);
    EXPECT(h.object->generation == 1);
    EXPECT(harness_patch(&h, &kind_mutatingwebhooks, "", "c", "{\"webhooks\":null}") == 0);
    EXPECT(h.object->generation == 2);
    harness_close(&h);
}

TEST(a_webhook_configuration_is_refused_in_words)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {HOOK("a.b", GOOD "  clientConfig: {url: 'https://a/'}\n"), "at least three segments"},
        {HOOK("a.b.c", GOOD "  clientConfig: {url: 'http://a/'}\n"), "'https' is the only"},
        {HOOK("a.b.c", GOOD "  clientConfig: {url: 'https://u@a/'}\n"), "user information"},
        {HOOK("a.b.c", GOOD "  clientConfig: {url: 'https://a/?b'}\n"), "query parameters"},
        {HOOK("a.b.c", GOOD "  clientConfig: {}\n"), "exactly one of url or service"},
        {HOOK("a.b.c", GOOD "  clientConfig: {service: {name: s}}\n"), "namespace is required"},
        {HOOK("a.b.c", GOOD "  timeoutSeconds: 31\n  clientConfig: {url: 'https://a/'}\n"),
         "between 1 and 30, inclusive"},
        {HOOK("a.b.c", GOOD "  failurePolicy: Maybe\n  clientConfig: {url: 'https://a/'}\n"),
         "supported values: \"Fail\", \"Ignore\""},
        {HOOK("a.b.c", "  admissionReviewVersions: [v1]\n  clientConfig: {url: 'https://a/'}\n"),
         "sideEffects: Required value"},
        {HOOK("a.b.c", "  sideEffects: None\n  clientConfig: {url: 'https://a/'}\n"),
         "must specify one of v1"},
        {HOOK("a.b.c", GOOD "  clientConfig: {url: 'https://a/'}\n"
                            "  matchConditions: [{name: x, expression: 'no('}]\n"),
         "compilation failed"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].text);
        harness_open(&h, NULL);
        EXPECT(create(&h, &kind_validatingwebhooks, rows[i].text) < 0 && h.status == 422);
        EXPECT(strstr(h.causes, rows[i].words));
        harness_close(&h);
    }
}

/* ---- api_review ---- */

struct say {
    int changes; /* how often each was called */
    int looks;
    int change;    /* what it answers */
    int look;      /* and the other */
    char seen[32]; /* the label "by" of what would be stored */
};

static int say_change(void *user,
                      struct arena *arena,
                      const struct json *old,
                      struct json *object,
                      struct err *err)
{
    struct say *say = user;

    (void)old;
    say->changes++;
    if (say->change < 0)
        return err_set(err, say->change, "not so");
    if (say->change)
        json_add_c(arena, json_make_path(arena, object, "metadata.labels"), "by", "hook");
    return say->change;
}

static int say_look(void *user, const struct json *old, const struct json *object, struct err *err)
{
    struct say *say = user;
    struct str by = json_str_at(object ? object : old, "metadata.labels.by");

    say->looks++;
    (void)snprintf(say->seen, sizeof(say->seen), STR_FMT, STR_ARG(by));
    return say->look < 0 ? err_set(err, say->look, "not at all") : 0;
}

TEST(who_has_a_say_changes_a_write_and_sees_its_end)
{
    struct harness h;
    struct say say = {.change = 1};
    struct api_review review = {.change = say_change, .look = say_look, .user = &say};
    struct api_request request = {.verb = API_CREATE,
                                  .kind = &kind_configmap,
                                  .ns = STR("default"),
                                  .body = STR("{\"metadata\":{\"name\":\"a\"}}"),
                                  .review = &review};

    harness_open(&h, NULL);
    EXPECT(harness_call(&h, &request) == 0);
    EXPECT(say.changes == 1 && say.looks == 1 && strcmp(say.seen, "hook") == 0);
    EXPECT(strcmp(harness_text(&h, "metadata.labels.by"), "hook") == 0);
    request.verb = API_DELETE;
    request.name = STR("a");
    request.body = STR("");
    say.look = -EPERM;
    EXPECT(harness_call(&h, &request) < 0 && h.status == 500);
    EXPECT(strcmp(h.text, "not at all") == 0);
    EXPECT(say.changes == 1 && say.looks == 2);
    EXPECT(harness_get(&h, &kind_configmap, "default", "a") == 0);
    say.change = -EPERM;
    request.verb = API_CREATE;
    request.name = STR("");
    request.body = STR("{\"metadata\":{\"name\":\"b\"}}");
    EXPECT(harness_call(&h, &request) < 0 && say.looks == 2);
    EXPECT(harness_get(&h, &kind_configmap, "default", "b") < 0);
    harness_close(&h);
}
