#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "hook/hook.h"
#include "hook/review.h"
#include "store/harness.h"
#include "test.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A store with a CRD whose versions a webhook converts that is played here:
 * v1 has spec.hostPort "h:p", v2 has spec.host and spec.port. */
struct play {
    struct harness h;
    struct api *store;
    struct hooks *hooks;
    char asked[512]; /* "VERSION*COUNT ", in order */
    unsigned races;  /* how often somebody else writes while it is asked */
    bool dead;
};

struct pending {
    struct play *play;
    struct arena arena;
    struct str body;
    struct timer *timer;
    hook_answer_fn *answer;
    void *user;
};

static void turn(struct arena *arena, struct json *object, bool to_v2)
{
    struct json *spec = json_get(object, "spec");

    json_add_c(arena, object, "apiVersion", to_v2 ? "t.io/v2" : "t.io/v1");
    if (to_v2) {
        struct str rest = json_str(json_get(spec, "hostPort"));
        struct str host = STR("");

        (void)str_cut(&rest, ':', &host);
        json_add_str(arena, spec, "host", host);
        json_add_str(arena, spec, "port", rest);
        json_remove(spec, STR("hostPort"));
    } else {
        json_add_str(arena, spec, "hostPort",
                     str_printf(arena, STR_FMT ":" STR_FMT,
                                STR_ARG(json_str(json_get(spec, "host"))),
                                STR_ARG(json_str(json_get(spec, "port")))));
        json_remove(spec, STR("host"));
        json_remove(spec, STR("port"));
    }
    json_add_str(arena, json_make_path(arena, object, "metadata.annotations"), "turned",
                 to_v2 ? STR("v2") : STR("v1"));
}

static void race(struct play *play)
{
    char body[96];

    if (!play->races)
        return;
    play->races--;
    (void)snprintf(body, sizeof(body), "{\"metadata\":{\"labels\":{\"raced\":\"%u\"}}}",
                   play->races);
    api_call(play->store,
             &(struct api_request){
                 .verb = API_PATCH,
                 .kind = kinds_by_plural(play->store->kinds, STR("t.io"), STR("v1"), STR("things")),
                 .ns = STR("default"),
                 .name = STR("a"),
                 .patch = API_PATCH_MERGE,
                 .body = str_from(body)},
             api_ignore, NULL);
}

static void on_due(void *user)
{
    struct pending *p = user;
    struct play *play = p->play;
    struct json *root = NULL;
    struct err dead = {.code = -ECONNREFUSED, .text = "nobody is there"};
    size_t len = strlen(play->asked);

    EXPECT(json_parse(&p->arena, p->body, &root, NULL) == 0);
    struct json *objects = json_at(root, "request.objects");
    bool to_v2 = str_is(json_str_at(root, "request.desiredAPIVersion"), "t.io/v2");
    (void)snprintf(play->asked + len, sizeof(play->asked) - len, "v%d*%zu ", to_v2 ? 2 : 1,
                   json_count(objects));
    for (size_t i = 0; i < json_count(objects); i++)
        turn(&p->arena, json_index(objects, i), to_v2);
    race(play);
    struct str answer = str_printf(
        &p->arena,
        "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"ConversionReview\",\"response\":"
        "{\"uid\":\"" STR_FMT "\",\"result\":{\"status\":\"Success\"},\"convertedObjects\":" STR_FMT
        "}}",
        STR_ARG(json_str_at(root, "request.uid")), STR_ARG(json_text(&p->arena, objects)));
    p->answer(p->user, play->dead ? STR("") : answer, play->dead ? &dead : NULL);
    timer_free(p->timer);
    arena_done(&p->arena);
    mem_free(p);
}

static void play_ask(void *asker,
                     const struct hook *hook,
                     struct str body,
                     hook_answer_fn *answer,
                     void *user)
{
    struct play *play = asker;
    struct pending *p = MEM_NEW(struct pending);

    EXPECT(str_is(json_str_at(hook->spec, "clientConfig.url"), "https://x/"));
    p->play = play;
    p->body = str_dup(&p->arena, body);
    p->answer = answer;
    p->user = user;
    p->timer = timer_new(&play->h.loop, p);
    timer_in(p->timer, 0, on_due);
}

#define TEXTS(a, b)                                                                               \
    "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{" a "," b \
    "}}}}"
#define TEXT(name) "\"" name "\":{\"type\":\"string\"}"
#define VERSION(name, storage, schema, field)                                                   \
    "{\"name\":\"" name "\",\"served\":true,\"storage\":" storage                               \
    ",\"schema\":{\"openAPIV3Schema\":" schema "},\"selectableFields\":[{\"jsonPath\":\"" field \
    "\"}]}"
#define CONVERSION(version)                                                             \
    "{\"strategy\":\"Webhook\",\"webhook\":{\"clientConfig\":{\"url\":\"https://x/\"}," \
    "\"conversionReviewVersions\":[\"" version "\"]}}"
#define SPEC(plural, one, two, conversion)                                                     \
    "{\"group\":\"t.io\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"" plural             \
    "\",\"kind\":\"Thing\"},\"conversion\":" conversion                                        \
    ",\"versions\":[" VERSION("v1", one, TEXTS(TEXT("hostPort"), TEXT("extra")),               \
                              ".spec.hostPort") "," VERSION("v2", two,                         \
                                                            TEXTS(TEXT("host"), TEXT("port")), \
                                                            ".spec.host") "]}"
#define THINGS(one, two)                                                          \
    "{\"metadata\":{\"name\":\"things.t.io\"},\"spec\":" SPEC("things", one, two, \
                                                              CONVERSION("v1")) "}"

static const struct kind *version(const struct play *play, const char *name)
{
    return kinds_by_plural(play->store->kinds, STR("t.io"), str_from(name), STR("things"));
}

static void play_open(struct play *play)
{
    *play = (struct play){0};
    harness_open(&play->h, NULL);
    play->store = play->h.api;
    play->hooks = hooks_new(&play->h.loop, play->store, &(struct hook_asker){play_ask, play});
    play->h.api = hooks_api(play->hooks);
    EXPECT(harness_create(&play->h, &kind_crd, "", THINGS("true", "false")) == 0);
    harness_settle(&play->h);
}

static void play_close(struct play *play)
{
    hooks_stop(play->hooks);
    play->h.api = play->store;
    harness_close(&play->h);
    hooks_free(play->hooks);
}

static bool is(struct play *play, const char *path, const char *text)
{
    return strcmp(harness_text(&play->h, path), text) == 0;
}

static bool asked(struct play *play, const char *text)
{
    bool same = strcmp(play->asked, text) == 0;

    play->asked[0] = '\0';
    return same;
}

#define ONE(name, at) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"hostPort\":\"" at "\"}}"
#define TWO(name, host, port)                                                                      \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"host\":\"" host "\",\"port\":\"" port "\"}" \
    "}"

TEST(what_is_stored_in_another_version_is_read_as_the_webhook_has_it)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("a", "h:80")) == 0);
    EXPECT(harness_get(&play.h, version(&play, "v1"), "default", "a") == 0);
    EXPECT(asked(&play, ""));
    EXPECT(harness_get(&play.h, version(&play, "v2"), "default", "a") == 0);
    EXPECT(asked(&play, "v2*1 "));
    EXPECT(is(&play, "apiVersion", "t.io/v2") && is(&play, "spec.host", "h") &&
           is(&play, "spec.port", "80") && is(&play, "spec.hostPort", ""));
    EXPECT(is(&play, "metadata.annotations.turned", "v2"));
    play.dead = true;
    EXPECT(harness_get(&play.h, version(&play, "v2"), "default", "a") < 0);
    EXPECT(play.h.status == 500 && strstr(play.h.text, "conversion webhook for t.io/v2, "
                                                       "Kind=Thing failed: nobody is there"));
    EXPECT(harness_get(&play.h, version(&play, "v1"), "default", "a") == 0);
    EXPECT(harness_delete(&play.h, version(&play, "v2"), "default", "a", "") == 0);
    EXPECT(harness_get(&play.h, version(&play, "v1"), "default", "a") < 0);
    play_close(&play);
}

TEST(what_is_written_in_another_version_is_stored_as_the_webhook_has_it)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, version(&play, "v2"), "default", TWO("a", "h", "80")) == 0);
    EXPECT(play.h.created && is(&play, "spec.host", "h") && is(&play, "metadata.generation", "1"));
    EXPECT(asked(&play, "v1*1 v2*1 "));
    EXPECT(harness_get(&play.h, version(&play, "v1"), "default", "a") == 0);
    EXPECT(is(&play, "spec.hostPort", "h:80") && is(&play, "spec.host", "") && asked(&play, ""));
    EXPECT(harness_create(&play.h, version(&play, "v2"), "default", TWO("a", "h", "80")) < 0 &&
           play.h.status == 409);
    play.asked[0] = '\0';
    EXPECT(harness_patch(&play.h, version(&play, "v2"), "default", "a",
                         "{\"spec\":{\"port\":\"81\"}}") == 0);
    EXPECT(is(&play, "spec.port", "81") && is(&play, "metadata.generation", "2"));
    EXPECT(asked(&play, "v2*1 v1*1 v2*1 "));
    EXPECT(harness_call(&play.h,
                        &(struct api_request){.verb = API_PATCH,
                                              .patch = API_PATCH_APPLY,
                                              .kind = version(&play, "v2"),
                                              .ns = STR("default"),
                                              .name = STR("a"),
                                              .field_manager = STR("m"),
                                              .force = true,
                                              .body = STR("{\"apiVersion\":\"t.io/v2\",\"kind\":"
                                                          "\"Thing\",\"spec\":{\"host\":\"g\"}"
                                                          "}")}) == 0);
    EXPECT(harness_get(&play.h, version(&play, "v1"), "default", "a") == 0);
    EXPECT(is(&play, "spec.hostPort", "g:81"));
    EXPECT(harness_create(&play.h, version(&play, "v2"), "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"port\":7}}") < 0);
    EXPECT(play.h.status == 422 && strstr(play.h.causes, "spec.port")); /* by its own schema */
    play_close(&play);
}

TEST(a_list_of_objects_in_several_versions_is_one_question)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("a", "h:80")) == 0);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("b", "i:80")) == 0);
    EXPECT(harness_patch(&play.h, &kind_crd, "", "things.t.io",
                         "{\"spec\":" SPEC("things", "false", "true", CONVERSION("v1")) "}") == 0);
    harness_settle(&play.h);
    EXPECT(harness_create(&play.h, version(&play, "v2"), "default", TWO("c", "j", "80")) == 0);
    EXPECT(asked(&play, ""));
    EXPECT(harness_list(&play.h, version(&play, "v2"), "default") == 0);
    EXPECT(play.h.item_count == 3 && asked(&play, "v2*2 "));
    EXPECT(harness_list(&play.h, version(&play, "v1"), "default") == 0);
    EXPECT(play.h.item_count == 3 && asked(&play, "v1*1 "));
    EXPECT(harness_call(&play.h, &(struct api_request){.verb = API_LIST,
                                                       .kind = version(&play, "v2"),
                                                       .ns = STR("default"),
                                                       .field_selector = STR("spec.host=i")}) == 0);
    EXPECT(strcmp(play.h.names, "b") == 0);
    EXPECT(harness_call(&play.h, &(struct api_request){.verb = API_DELETE_COLLECTION,
                                                       .kind = version(&play, "v2"),
                                                       .ns = STR("default"),
                                                       .field_selector = STR("spec.host=i")}) == 0);
    EXPECT(harness_list(&play.h, version(&play, "v1"), "default") == 0);
    EXPECT(play.h.item_count == 2 && !strstr(play.h.names, "b"));
    /* The next write brings it to the version of today, changed or not. */
    play.asked[0] = '\0';
    EXPECT(harness_patch(&play.h, version(&play, "v2"), "default", "a", "{}") == 0);
    EXPECT(asked(&play, "v2*1 "));
    EXPECT(harness_get(&play.h, version(&play, "v2"), "default", "a") == 0);
    EXPECT(asked(&play, "") && is(&play, "spec.host", "h"));
    play_close(&play);
}

TEST(a_watch_tells_what_is_converted_in_its_order)
{
    struct play play;
    struct harness_watch all, some;

    play_open(&play);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("a", "h:80")) == 0);
    harness_watch(&play.h, &all, &(struct api_watch_request){.kind = version(&play, "v2")});
    harness_watch(&play.h, &some,
                  &(struct api_watch_request){.kind = version(&play, "v2"),
                                              .field_selector = STR("spec.host=h")});
    harness_settle(&play.h);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("b", "i:80")) == 0);
    EXPECT(harness_patch(&play.h, version(&play, "v1"), "default", "b",
                         "{\"spec\":{\"hostPort\":\"h:1\"}}") == 0);
    EXPECT(harness_patch(&play.h, version(&play, "v1"), "default", "b",
                         "{\"spec\":{\"hostPort\":\"k:1\"}}") == 0);
    EXPECT(harness_delete(&play.h, version(&play, "v1"), "default", "a", "") == 0);
    harness_settle(&play.h);
    EXPECT(strcmp(all.heard, "+a = +b ~b ~b -a") == 0);
    EXPECT(strcmp(some.heard, "+a = +b -b -a") == 0);
    play.dead = true;
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("c", "i:80")) == 0);
    harness_settle(&play.h);
    EXPECT(strcmp(all.heard, "+a = +b ~b ~b -a !") == 0 && all.closed == 500);
    api_watch_stop(play.h.api, all.watch);
    api_watch_stop(play.h.api, some.watch);
    play_close(&play);
}

TEST(an_object_that_moves_while_it_is_converted_is_converted_again)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, version(&play, "v1"), "default", ONE("a", "h:80")) == 0);
    play.races = 2;
    EXPECT(harness_patch(&play.h, version(&play, "v2"), "default", "a",
                         "{\"spec\":{\"port\":\"81\"}}") == 0);
    EXPECT(is(&play, "spec.port", "81") && is(&play, "metadata.labels.raced", "0"));
    play.races = 1000;
    EXPECT(harness_patch(&play.h, version(&play, "v2"), "default", "a",
                         "{\"spec\":{\"port\":\"82\"}}") < 0);
    EXPECT(play.h.status == 409);
    play.races = 0;
    play_close(&play);
}

TEST(a_crd_says_who_converts_in_words_that_can_be_followed)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, &kind_crd, "",
                          "{\"metadata\":{\"name\":\"others.t.io\"},\"spec\":" SPEC(
                              "others", "true", "false", CONVERSION("v1beta1")) "}") < 0);
    EXPECT(strstr(play.h.causes, "spec.conversion.webhook.conversionReviewVersions"));
    EXPECT(harness_create(&play.h, &kind_crd, "",
                          "{\"metadata\":{\"name\":\"others.t.io\"},\"spec\":" SPEC(
                              "others", "true", "false", "{\"strategy\":\"Webhook\"}") "}") < 0);
    EXPECT(strstr(play.h.causes, "spec.conversion.webhook.clientConfig"));
    EXPECT(harness_create(&play.h, &kind_crd, "",
                          "{\"metadata\":{\"name\":\"others.t.io\"},\"spec\":" SPEC(
                              "others", "true", "false",
                              "{\"strategy\":\"None\",\"webhook\":{\"conversionReviewVersions\":["
                              "\"v1\"]}}") "}") < 0);
    EXPECT(strstr(play.h.causes, "should not be set when strategy"));
    play_close(&play);
}
