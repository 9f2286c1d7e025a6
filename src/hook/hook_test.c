#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/yaml.h"
#include "hook/client.h"
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

/* A store with webhooks before it that are played here: what each does, its name says. */
struct play {
    struct harness h;
    struct api *store;
    struct hooks *hooks;
    char asked[512]; /* "NAME:OPERATION ", in order */
    unsigned races;  /* how often "race" lets somebody else write in between */
};

struct pending {
    struct play *play;
    struct arena arena;
    struct str hook;
    struct str body;
    struct timer *timer;
    hook_answer_fn *answer;
    void *user;
};

/* label-X adds the label X. */
static struct str label_patch(struct arena *arena, struct str name, const struct json *request)
{
    struct json *labels = json_clone(arena, json_at(request, "object.metadata.labels"));
    struct str label = str_sub(name, 6, str_find(name, '.') - 6);

    if (!labels)
        labels = json_new_object(arena);
    json_set(labels, label, json_new_str(arena, STR("yes")));
    return base64_encode(arena, str_printf(arena,
                                           "[{\"op\":\"add\",\"path\":\"/metadata/labels\","
                                           "\"value\":" STR_FMT "}]",
                                           STR_ARG(json_text(arena, labels))));
}

static struct str patch_of(struct arena *arena, const char *patch)
{
    return str_printf(arena,
                      "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"" STR_FMT "\"",
                      STR_ARG(base64_encode(arena, str_from(patch))));
}

static struct str answer_of(struct pending *p, const struct json *request)
{
    struct arena *arena = &p->arena;
    bool bad = json_str_at(request, "object.metadata.labels.bad").len > 0;
    struct str rest = STR("\"allowed\":true");

    if (str_starts(p->hook, STR("label-")))
        rest = str_printf(arena,
                          "\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":\"" STR_FMT "\"",
                          STR_ARG(label_patch(arena, p->hook, request)));
    else if (str_starts(p->hook, STR("strip"))) /* [{"op":"remove","path":"/metadata"}] */
        rest = STR("\"allowed\":true,\"patchType\":\"JSONPatch\",\"patch\":"
                   "\"W3sib3AiOiJyZW1vdmUiLCJwYXRoIjoiL21ldGFkYXRhIn1d\"");
    else if (str_starts(p->hook, STR("approve")))
        rest = patch_of(arena, "[{\"op\":\"add\",\"path\":\"/status\",\"value\":{\"conditions\":[{"
                               "\"type\":\"Approved\",\"status\":\"True\",\"reason\":\"x\"}],"
                               "\"phase\":\"Succeeded\"}}]");
    else if (str_starts(p->hook, STR("spec")))
        rest = patch_of(arena,
                        "[{\"op\":\"add\",\"path\":\"/spec/activeDeadlineSeconds\",\"value\":5},"
                        "{\"op\":\"add\",\"path\":\"/metadata/finalizers\",\"value\":"
                        "[\"a.io/b\"]}]");
    else if (str_starts(p->hook, STR("deny")) &&
             (bad || json_bool_or(json_at(request, "object.stdin"), false)))
        rest = STR("\"allowed\":false,\"status\":{\"code\":403,\"reason\":\"Forbidden\","
                   "\"message\":\"it is bad\"}");
    return str_printf(arena,
                      "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\","
                      "\"response\":{\"uid\":\"" STR_FMT "\"," STR_FMT "}}",
                      STR_ARG(json_str(json_get(request, "uid"))), STR_ARG(rest));
}

static void race(struct play *play)
{
    if (!play->races)
        return;
    play->races--;
    char body[80];
    (void)snprintf(body, sizeof(body), "{\"data\":{\"raced\":\"%u\"}}", play->races);
    api_call(play->store,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_configmap,
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
    const struct json *request = json_get(root, "request");
    (void)snprintf(play->asked + len, sizeof(play->asked) - len, STR_FMT ":%c ",
                   STR_ARG(str_sub(p->hook, 0, str_find(p->hook, '.'))),
                   json_str(json_get(request, "operation")).p[0]);
    if (str_starts(p->hook, STR("race")))
        race(play);
    bool is_dead = str_starts(p->hook, STR("dead"));
    p->answer(p->user, is_dead ? STR("") : answer_of(p, request), is_dead ? &dead : NULL);
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

    p->play = play;
    p->hook = str_dup(&p->arena, hook->name);
    p->body = str_dup(&p->arena, body);
    p->answer = answer;
    p->user = user;
    p->timer = timer_new(&play->h.loop, p);
    timer_in(p->timer, 0, on_due);
}

static void play_open(struct play *play)
{
    *play = (struct play){0};
    harness_open(&play->h, NULL);
    play->store = play->h.api;
    play->hooks = hooks_new(&play->h.loop, play->store, &(struct hook_asker){play_ask, play});
    play->h.api = hooks_api(play->hooks);
}

static void play_close(struct play *play)
{
    hooks_stop(play->hooks);
    play->h.api = play->store;
    harness_close(&play->h);
    hooks_free(play->hooks);
}

/* About these resources, "a, b/status" of any group. */
static void add_about(struct play *play,
                      bool mutating,
                      const char *name,
                      const char *resources,
                      const char *more)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *root = NULL;
    struct str text =
        str_printf(&arena,
                   "metadata: {name: %s}\n"
                   "webhooks:\n"
                   "- name: %s.x.io\n"
                   "  rules: [{operations: ['*'], apiGroups: ['*'], apiVersions: [v1], resources: "
                   "[%s]}]\n"
                   "  admissionReviewVersions: [v1]\n"
                   "  sideEffects: None\n"
                   "  clientConfig: {url: 'https://x/'}\n"
                   "  %s\n",
                   name, name, resources, more);

    EXPECT(yaml_parse(&arena, text, &root, NULL) == 0);
    EXPECT(harness_create(&play->h, mutating ? &kind_mutatingwebhooks : &kind_validatingwebhooks,
                          "", str_c(&arena, json_text(&arena, root))) == 0);
    harness_settle(&play->h);
}

static void add(struct play *play, bool mutating, const char *name, const char *more)
{
    add_about(play, mutating, name, "configmaps", more);
}

#define MAP(name, labels) \
    "{\"metadata\":{\"name\":\"" name "\",\"labels\":{" labels "}},\"data\":{\"k\":\"v\"}}"

TEST(mutating_webhooks_are_asked_by_name_and_again_then_validating_ones)
{
    struct play play;

    play_open(&play);
    add(&play, false, "deny", "");
    add(&play, true, "label-b", "");
    add(&play, true, "label-a", "reinvocationPolicy: IfNeeded");
    EXPECT(strcmp(play.asked, "") == 0); /* about itself none is asked */
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) == 0);
    EXPECT(strcmp(play.asked, "label-a:C label-b:C label-a:C deny:C ") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.labels.a"), "yes") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.labels.b"), "yes") == 0);
    EXPECT(strcmp(harness_text(&play.h, "data.k"), "v") == 0);
    play.asked[0] = '\0';
    EXPECT(harness_create(&play.h, &kind_secret, "default", "{\"metadata\":{\"name\":\"s\"}}") ==
           0);
    EXPECT(strcmp(play.asked, "") == 0);
    play_close(&play);
}

TEST(a_webhook_that_refuses_or_is_dead_keeps_the_write_away)
{
    struct play play;

    play_open(&play);
    add(&play, false, "deny", "");
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "\"bad\":\"1\"")) < 0);
    EXPECT(play.h.status == 403 &&
           strstr(play.h.text, "\"deny.x.io\" denied the request: it is bad"));
    EXPECT(harness_get(&play.h, &kind_configmap, "default", "a") < 0);
    add(&play, false, "dead-a", "failurePolicy: Ignore");
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) == 0);
    add(&play, true, "dead-b", "");
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("b", "")) < 0);
    EXPECT(play.h.status == 500 && strstr(play.h.text, "\"dead-b.x.io\""));
    EXPECT(strstr(play.h.text, "nobody is there"));
    play_close(&play);
}

TEST(a_webhook_that_takes_the_metadata_away_is_named)
{
    struct play play;

    play_open(&play);
    add(&play, true, "strip", "");
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) < 0);
    EXPECT(play.h.status == 500 &&
           strstr(play.h.text, "\"strip.x.io\" cannot be applied: it takes"));
    play_close(&play);
}

TEST(an_object_that_moves_is_asked_about_again)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) == 0);
    add(&play, false, "race", "");
    play.races = 2;
    EXPECT(harness_patch(&play.h, &kind_configmap, "default", "a", "{\"data\":{\"mine\":\"1\"}}") ==
           0);
    EXPECT(strcmp(play.asked, "race:U race:U race:U ") == 0);
    EXPECT(strcmp(harness_text(&play.h, "data.mine"), "1") == 0);
    EXPECT(strcmp(harness_text(&play.h, "data.raced"), "0") == 0);
    play.races = 100;
    EXPECT(harness_patch(&play.h, &kind_configmap, "default", "a", "{\"data\":{\"mine\":\"2\"}}") <
           0);
    EXPECT(play.h.status == 409);
    play_close(&play);
}

TEST(what_is_deleted_is_asked_about_one_by_one)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) == 0);
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("b", "")) == 0);
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("c", "")) == 0);
    add(&play, false, "deny",
        "matchConditions: [{name: no-c, expression: 'request.name != \"c\"'}]");
    EXPECT(harness_delete(&play.h, &kind_configmap, "default", "a", "") == 0);
    EXPECT(strcmp(play.asked, "deny:D ") == 0);
    EXPECT(harness_call(&play.h, &(struct api_request){.verb = API_DELETE_COLLECTION,
                                                       .kind = &kind_configmap,
                                                       .ns = STR("default")}) == 0);
    EXPECT(harness_get(&play.h, &kind_configmap, "default", "b") < 0);
    EXPECT(harness_get(&play.h, &kind_configmap, "default", "c") < 0);
    EXPECT(strcmp(play.asked, "deny:D deny:D ") == 0);
    play_close(&play);
}

#define CSR                                                                              \
    "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"request\":"                              \
    "\"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0=\",\"usages\":[\"client auth\"]," \
    "\"signerName\":\"a.io/b\"}}"
#define POD \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}"

TEST(a_mutating_webhook_writes_no_status_where_its_writer_could_not)
{
    struct play play;

    play_open(&play);
    add_about(&play, true, "approve", "certificatesigningrequests, pods", "");
    EXPECT(harness_create(&play.h, &kind_csr, "", CSR) == 0);
    EXPECT(strcmp(play.asked, "approve:C ") == 0);
    EXPECT(strcmp(harness_text(&play.h, "status.conditions.0.type"), "") == 0);
    EXPECT(harness_patch(&play.h, &kind_csr, "", "a",
                         "{\"metadata\":{\"labels\":{\"x\":\"y\"}}}") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.labels.x"), "y") == 0);
    EXPECT(strcmp(harness_text(&play.h, "status.conditions.0.type"), "") == 0);
    EXPECT(harness_create(&play.h, &kind_pod, "default", POD) == 0);
    EXPECT(strcmp(harness_text(&play.h, "status.phase"), "Pending") == 0);
    play_close(&play);
}

#define BUDGET(least) \
    "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":" least ",\"selector\":{}}}"

TEST(generations_are_counted_where_webhooks_change_an_object)
{
    struct play play;

    play_open(&play);
    add_about(&play, true, "label-a", "poddisruptionbudgets", "");
    EXPECT(harness_create(&play.h, &kind_pdb, "default", BUDGET("1")) == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.generation"), "1") == 0);
    EXPECT(harness_patch(&play.h, &kind_pdb, "default", "b",
                         "{\"metadata\":{\"labels\":null},\"spec\":{\"minAvailable\":2}}") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.labels.a"), "yes") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.generation"), "2") == 0);
    play_close(&play);
}

TEST(a_mutating_webhook_of_a_status_changes_nothing_else)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, &kind_pod, "default", POD) == 0);
    add_about(&play, true, "spec", "pods/status", "");
    EXPECT(harness_call(&play.h, &(struct api_request){
                                     .verb = API_PATCH,
                                     .kind = &kind_pod,
                                     .ns = STR("default"),
                                     .name = STR("p"),
                                     .subresource = STR("status"),
                                     .patch = API_PATCH_MERGE,
                                     .body = STR("{\"status\":{\"message\":\"m\"}}")}) == 0);
    EXPECT(strcmp(play.asked, "spec:U ") == 0);
    EXPECT(strcmp(harness_text(&play.h, "status.message"), "m") == 0);
    EXPECT(strcmp(harness_text(&play.h, "spec.activeDeadlineSeconds"), "") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.finalizers.0"), "") == 0);
    play_close(&play);
}

#define MANY 300

TEST(every_webhook_is_asked_however_many_there_are)
{
    struct play play;

    play_open(&play);
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "quiet-%03d", i);
        add_about(&play, false, name, "secrets", "");
    }
    add(&play, false, "zzz-deny", "");
    EXPECT(harness_create(&play.h, &kind_configmap, "default", MAP("a", "")) == 0);
    EXPECT(strcmp(play.asked, "zzz-deny:C ") == 0);
    play_close(&play);
}

static int attach(struct play *play, const char *options)
{
    return harness_call(&play->h, &(struct api_request){.verb = API_GET,
                                                        .kind = &kind_pod,
                                                        .ns = STR("default"),
                                                        .name = STR("p"),
                                                        .subresource = STR("attach"),
                                                        .connect = true,
                                                        .body = str_from(options)});
}

TEST(who_connects_to_a_pod_is_asked_about)
{
    struct play play;

    play_open(&play);
    EXPECT(harness_create(&play.h, &kind_pod, "default", POD) == 0);
    EXPECT(attach(&play, "{\"kind\":\"PodAttachOptions\"}") == 0);
    add_about(&play, false, "deny", "pods/attach", "");
    EXPECT(harness_get(&play.h, &kind_pod, "default", "p") == 0);
    EXPECT(strcmp(play.asked, "") == 0);
    EXPECT(attach(&play, "{\"kind\":\"PodAttachOptions\"}") == 0);
    EXPECT(strcmp(harness_text(&play.h, "metadata.name"), "p") == 0);
    EXPECT(attach(&play, "{\"kind\":\"PodAttachOptions\",\"stdin\":true}") < 0);
    EXPECT(play.h.status == 403 && strstr(play.h.text, "it is bad"));
    EXPECT(strcmp(play.asked, "deny:C deny:C ") == 0);
    add_about(&play, true, "label-a", "pods/attach", "");
    EXPECT(attach(&play, "{\"kind\":\"PodAttachOptions\"}") < 0);
    EXPECT(play.h.status == 500 && strstr(play.h.text, "not supported for this operation"));
    play_close(&play);
}
