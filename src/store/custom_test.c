#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define SCHEMA(extra)                                                                              \
    "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"required\":[\"size\"],"  \
    "\"properties\":{\"size\":{\"type\":\"integer\",\"minimum\":1},\"mode\":{\"type\":\"string\"," \
    "\"default\":\"fast\"}" extra "}},\"status\":{\"type\":\"object\","                            \
    "\"x-kubernetes-preserve-unknown-fields\":true}}}"
#define WIDGETS(extra)                                                                             \
    "{\"metadata\":{\"name\":\"widgets.test.local\"},\"spec\":{\"group\":\"test.local\","          \
    "\"scope\":"                                                                                   \
    "\"Namespaced\",\"names\":{\"plural\":\"widgets\",\"kind\":\"Widget\",\"shortNames\":[\"wg\"]" \
    "},"                                                                                           \
    "\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{"           \
    "\"status\":"                                                                                  \
    "{}},\"schema\":{\"openAPIV3Schema\":" SCHEMA(                                                 \
        extra) "}},{\"name\":\"v2\",\"served\":true,"                                              \
               "\"storage\":false,\"schema\":{\"openAPIV3Schema\":" SCHEMA(extra) "}}]}}"

static const struct kind *widget(const struct harness *h, const char *version)
{
    return kinds_by_plural(h->api->kinds, STR("test.local"), str_from(version), STR("widgets"));
}

TEST(a_crd_makes_a_kind_that_validates_defaults_and_prunes)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(!widget(&h, "v1"));
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS("")) == 0);
    EXPECT(strcmp(harness_text(&h, "status.conditions.1.type"), "Established") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.names.singular"), "widget") == 0);
    const struct kind *v1 = widget(&h, "v1");
    const struct kind *v2 = widget(&h, "v2");
    EXPECT(v1 && v2 && strcmp(v1->short_names, "wg") == 0 && v1->status && v1->custom);
    if (!v1 || !v2) {
        harness_close(&h);
        return;
    }
    EXPECT(harness_create(&h, v1, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":0}}") == -EINVAL);
    EXPECT(h.status == 422 && strstr(h.causes, "spec.size"));
    EXPECT(harness_create(&h, v1, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":2,\"x\":1},\"status\":"
                          "{\"y\":1}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec"), "{\"size\":2,\"mode\":\"fast\"}") == 0);
    EXPECT(strcmp(harness_text(&h, "status"), "") == 0);
    struct api_request strict = {.verb = API_CREATE,
                                 .kind = v1,
                                 .ns = STR("default"),
                                 .body = STR("{\"metadata\":{\"name\":\"b\"},\"spec\":{\"size\":2,"
                                             "\"x\":1}}"),
                                 .strict_fields = true};
    EXPECT(harness_call(&h, &strict) == -EINVAL && h.status == 400);
    EXPECT(strstr(h.text, "unknown field \"spec.x\""));
    strict.verb = API_PATCH;
    strict.patch = API_PATCH_APPLY;
    strict.name = STR("b");
    strict.field_manager = STR("m");
    strict.body = STR("{\"apiVersion\":\"test.local/v1\",\"kind\":\"Widget\",\"metadata\":{"
                      "\"name\":\"b\",\"y\":1},\"spec\":{\"size\":2,\"x\":1}}");
    EXPECT(harness_call(&h, &strict) == -EINVAL && h.status == 400);
    EXPECT(strstr(h.text, ".spec.x: field not declared in schema, .metadata.y: field not"));

    /* The other version shows the same object. */
    EXPECT(harness_get(&h, v2, "default", "a") == 0);
    EXPECT(h.object && h.object->kind == v2);
    EXPECT(strcmp(harness_text(&h, "apiVersion"), "test.local/v2") == 0);
    EXPECT(harness_patch(&h, v2, "default", "a", "{\"spec\":{\"size\":3}}") == 0);
    EXPECT(strcmp(harness_text(&h, "apiVersion"), "test.local/v2") == 0);
    EXPECT(harness_get(&h, v1, "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "apiVersion"), "test.local/v1") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.size"), "3") == 0);
    struct api_request strategic = {.verb = API_PATCH,
                                    .kind = v1,
                                    .ns = STR("default"),
                                    .name = STR("a"),
                                    .body = STR("{}"),
                                    .patch = API_PATCH_STRATEGIC};
    EXPECT(harness_call(&h, &strategic) < 0 && h.status == 415);
    harness_close(&h);
}

TEST(a_crd_that_changes_changes_its_kind_and_one_that_goes_takes_its_objects)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS("")) == 0);
    const struct kind *v1 = widget(&h, "v1");
    EXPECT(v1);
    if (!v1) {
        harness_close(&h);
        return;
    }
    EXPECT(harness_patch(&h, &kind_crd, "", "widgets.test.local",
                         WIDGETS(",\"x\":{\"type\":\"integer\"}")) == 0);
    EXPECT(widget(&h, "v1") == v1);
    EXPECT(harness_create(&h, v1, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":2,\"x\":1}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.x"), "1") == 0);
    EXPECT(harness_patch(&h, &kind_crd, "", "widgets.test.local",
                         "{\"metadata\":{\"finalizers\":[\"customresourcecleanup.apiextensions.k8s."
                         "io\"]}}") == 0);
    EXPECT(harness_delete(&h, &kind_crd, "", "widgets.test.local", "") == 0);
    harness_settle(&h);
    EXPECT(harness_get(&h, &kind_crd, "", "widgets.test.local") == -ENOENT);
    EXPECT(!widget(&h, "v1"));
    EXPECT(harness_get(&h, v1, "default", "a") == -ENOENT);
    /* And it can come again. */
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS("")) == 0);
    v1 = widget(&h, "v1");
    EXPECT(v1 && harness_list(&h, v1, "") == 0 && h.item_count == 0);
    harness_close(&h);
}

#define SCALED                                                                                     \
    "{\"metadata\":{\"name\":\"sets.test.local\"},\"spec\":{\"group\":\"test.local\",\"scope\":"   \
    "\"Namespaced\",\"names\":{\"plural\":\"sets\",\"kind\":\"Set\"},\"versions\":[{\"name\":"     \
    "\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{},\"scale\":{"          \
    "\"specReplicasPath\":\".spec.count\",\"statusReplicasPath\":\".status.count\"}},\"schema\":{" \
    "\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\","      \
    "\"properties\":{\"count\":{\"type\":\"integer\"}}},\"status\":{\"type\":\"object\","          \
    "\"x-kubernetes-preserve-unknown-fields\":true}}}}}]}}"

static int scale_call(struct harness *h, struct api_request how, const char *body)
{
    how.kind = &kind_deployment;
    how.ns = STR("default");
    how.name = STR("d");
    how.subresource = STR("scale");
    how.body = str_from(body);
    return harness_call(h, &how);
}

#define DEPLOYED                                                                                \
    "{\"metadata\":{\"name\":\"d\"},\"spec\":{\"replicas\":1,\"selector\":{\"matchLabels\":{"   \
    "\"a\":"                                                                                    \
    "\"b\"}},\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{" \
    "\"name\":\"c\",\"image\":\"i\"}]}}}}"
#define SCALE(rest) "{\"apiVersion\":\"autoscaling/v1\",\"kind\":\"Scale\"," rest "}"
#define NAMED       "\"metadata\":{\"name\":\"d\"}"

TEST(who_applies_a_scale_owns_the_replicas_and_others_conflict)
{
    struct harness h;
    struct api_request apply = {
        .verb = API_PATCH, .patch = API_PATCH_APPLY, .field_manager = STR("a")};
    struct api_request put = {.verb = API_UPDATE, .field_manager = STR("p")};

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_deployment, "default", DEPLOYED) == 0);
    EXPECT(scale_call(&h, put, SCALE(NAMED ",\"spec\":{\"replicas\":2}")) == 0);
    EXPECT(scale_call(&h, apply, SCALE(NAMED ",\"spec\":{\"replicas\":5}")) < 0);
    EXPECT(h.status == 409);
    EXPECT(scale_call(&h, apply, SCALE(NAMED ",\"spec\":{\"replicas\":2}")) == 0);
    apply.force = true;
    EXPECT(scale_call(&h, apply, SCALE(NAMED ",\"spec\":{\"replicas\":5}")) == 0);
    EXPECT(strcmp(harness_text(&h, "spec.replicas"), "5") == 0);
    EXPECT(harness_get(&h, &kind_deployment, "default", "d") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.replicas"), "5") == 0);
    EXPECT(str_contains(h.object->raw, STR("\"subresource\":\"scale\"")));
    EXPECT(str_contains(h.object->raw, STR("\"manager\":\"a\"")));
    EXPECT(!str_contains(h.object->raw, STR("\"manager\":\"p\"")));
    apply.force = false;
    apply.field_manager = STR("b");
    EXPECT(scale_call(&h, apply, SCALE(NAMED ",\"spec\":{\"replicas\":6}")) < 0);
    EXPECT(h.status == 409);
    harness_close(&h);
}

TEST(a_scale_is_of_the_object_of_its_address)
{
    static const struct {
        const char *body;
        int status;
    } rows[] = {
        {SCALE("\"metadata\":{\"name\":\"other\"},\"spec\":{\"replicas\":9}"), 400},
        {SCALE("\"metadata\":{\"name\":\"d\",\"namespace\":\"other\"},\"spec\":{\"replicas\":9}"),
         400},
        {SCALE("\"metadata\":{\"name\":\"d\",\"uid\":\"x\"},\"spec\":{\"replicas\":9}"), 409},
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\"," NAMED ",\"spec\":{\"replicas\":9}}", 400},
        {"[1]", 400},
    };
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_deployment, "default", DEPLOYED) == 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].body);
        EXPECT(scale_call(&h, (struct api_request){.verb = API_UPDATE}, rows[i].body) < 0);
        EXPECT(h.status == rows[i].status);
        EXPECT(harness_get(&h, &kind_deployment, "default", "d") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.replicas"), "1") == 0);
    }
    harness_close(&h);
}

TEST(a_scale_reads_and_writes_the_paths_of_its_crd)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_crd, "", SCALED) == 0);
    const struct kind *set =
        kinds_by_plural(h.api->kinds, STR("test.local"), STR("v1"), STR("sets"));
    EXPECT(set);
    if (set) {
        struct api_request scale = {.verb = API_PATCH,
                                    .kind = set,
                                    .ns = STR("default"),
                                    .name = STR("a"),
                                    .subresource = STR("scale"),
                                    .body = STR("{\"spec\":{\"replicas\":5}}")};

        EXPECT(harness_create(&h, set, "default",
                              "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"count\":2}}") == 0);
        EXPECT(harness_call(&h, &scale) == 0);
        EXPECT(strcmp(harness_text(&h, "kind"), "Scale") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.replicas"), "5") == 0);
        EXPECT(harness_get(&h, set, "default", "a") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.count"), "5") == 0 && h.object->generation == 2);
        scale.verb = API_GET;
        EXPECT(harness_call(&h, &scale) == 0);
        EXPECT(strcmp(harness_text(&h, "status.replicas"), "0") == 0);
        scale.verb = API_UPDATE;
        scale.body = STR("{\"spec\":{\"replicas\":1}}");
        EXPECT(harness_call(&h, &scale) == -EINVAL && h.status == 400); /* of whom? */
        scale.body = STR("{\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":-1}}");
        EXPECT(harness_call(&h, &scale) == -EINVAL && h.status == 422 &&
               strstr(h.causes, "spec.replicas: "));
        scale.body = STR("{\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":\"many\"}}");
        EXPECT(harness_call(&h, &scale) == -EINVAL && h.status == 400);
        scale.body =
            STR("{\"metadata\":{\"name\":\"a\"},\"spec\":{}}"); /* how a client in Go writes none */
        EXPECT(harness_call(&h, &scale) == 0);
        EXPECT(harness_get(&h, set, "default", "a") == 0);
        EXPECT(strcmp(harness_text(&h, "spec.count"), "0") == 0);
    }
    struct api_request none = {.verb = API_GET,
                               .kind = &kind_pod,
                               .ns = STR("default"),
                               .name = STR("a"),
                               .subresource = STR("scale")};
    EXPECT(harness_call(&h, &none) == -ENOENT && h.status == 404);
    harness_close(&h);
}

TEST(our_own_crds_are_there_from_the_start)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_get(&h, &kind_crd, "", "torchrunjobs.torchrun.ai") == 0);
    EXPECT(kinds_crd(h.api->kinds, &kind_torchrunjob));
    EXPECT(kinds_by_plural(h.api->kinds, STR("torchrun.ai"), STR("v1alpha1"),
                           STR("torchrunjobs")) == &kind_torchrunjob);
    harness_close(&h);
}

TEST(events_of_both_groups_are_the_same_events)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(
               &h, &kind_event_k8s, "default",
               "{\"metadata\":{\"name\":\"e\"},\"eventTime\":\"2026-01-01T00:00:00.000000Z\","
               "\"note\":\"hello\",\"reason\":\"R\",\"action\":\"a\",\"type\":\"Normal\","
               "\"reportingController\":\"a.b/c\",\"reportingInstance\":\"i\","
               "\"regarding\":{\"kind\":\"Pod\",\"name\":\"p\"}}") == 0);
    EXPECT(strcmp(harness_text(&h, "note"), "hello") == 0);
    EXPECT(harness_get(&h, &kind_event, "default", "e") == 0);
    EXPECT(strcmp(harness_text(&h, "message"), "hello") == 0);
    EXPECT(strcmp(harness_text(&h, "involvedObject.name"), "p") == 0);
    EXPECT(strcmp(harness_text(&h, "apiVersion"), "v1") == 0);
    EXPECT(harness_list(&h, &kind_event_k8s, "") == 0 && h.item_count == 1);
    harness_close(&h);
}

TEST(defaults_that_a_crd_gets_later_are_shown_at_once)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS("")) == 0);
    const struct kind *v1 = widget(&h, "v1");
    EXPECT(harness_create(&h, v1, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":2}}") == 0);
    EXPECT(harness_patch(&h, &kind_crd, "", "widgets.test.local",
                         WIDGETS(",\"colour\":{\"type\":\"string\",\"default\":\"red\"}")) == 0);
    v1 = widget(&h, "v1");
    EXPECT(harness_get(&h, v1, "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "spec"), "{\"size\":2,\"mode\":\"fast\",\"colour\":\"red\"}") ==
           0);
    EXPECT(harness_get(&h, widget(&h, "v2"), "default", "a") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.colour"), "red") == 0);
    harness_close(&h);
}

TEST(a_crd_tells_who_uses_a_version_that_it_advises_against)
{
    static const struct {
        const char *why;
        const char *more; /* of the version */
        const char *words;
    } rows[] = {
        {"it says why", "\"deprecated\":true,\"deprecationWarning\":\"use v2\",", "use v2"},
        {"it says nothing", "\"deprecated\":true,", "test.local/v1 Widget is deprecated"},
        {"it does not", "", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char body[2000];

        test_case(rows[i].why);
        (void)snprintf(body, sizeof(body),
                       "{\"metadata\":{\"name\":\"widgets.test.local\"},\"spec\":{\"group\":"
                       "\"test.local\",\"scope\":\"Namespaced\",\"names\":{\"plural\":"
                       "\"widgets\",\"kind\":\"Widget\"},\"versions\":[{%s\"name\":\"v1\","
                       "\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{"
                       "\"type\":\"object\"}}}]}}",
                       rows[i].more);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_crd, "", body) == 0);
        const struct kind_crd *crd = kinds_crd(h.api->kinds, widget(&h, "v1"));
        EXPECT(crd && !crd->deprecation == !rows[i].words);
        if (crd && rows[i].words)
            EXPECT(strcmp(crd->deprecation, rows[i].words) == 0);
        harness_close(&h);
    }
}

#define RULED(rule) \
    ",\"limit\":{\"type\":\"integer\",\"x-kubernetes-validations\":[{\"rule\":\"" rule "\"}]}"

TEST(rules_of_a_crd_are_evaluated_when_its_objects_are_written)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS(RULED("self >"))) == -EINVAL);
    EXPECT(h.status == 422 && strstr(h.causes, "Syntax error"));
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS(RULED("self.z > 1"))) == -EINVAL);
    EXPECT(h.status == 422 && strstr(h.causes, ".rule: Invalid value"));
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS(RULED("self >= oldSelf"))) == 0);
    const struct kind *v1 = widget(&h, "v1");
    EXPECT(v1);
    if (!v1) {
        harness_close(&h);
        return;
    }
    EXPECT(harness_create(&h, v1, "default",
                          "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"size\":2,\"limit\":5}}") ==
           0);
    EXPECT(harness_patch(&h, v1, "default", "a", "{\"spec\":{\"limit\":4}}") == -EINVAL);
    EXPECT(h.status == 422);
    EXPECT(
        strstr(h.causes, "spec.limit: Invalid value: \"integer\": failed rule: self >= oldSelf"));
    EXPECT(harness_patch(&h, v1, "default", "a", "{\"spec\":{\"limit\":6}}") == 0);
    harness_close(&h);
}

TEST(a_crd_that_gets_other_names_is_known_by_them)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_crd, "", WIDGETS("")) == 0);
    const struct kind *v1 = widget(&h, "v1");
    EXPECT(v1 && strcmp(v1->short_names, "wg") == 0);
    EXPECT(harness_patch(&h, &kind_crd, "", "widgets.test.local",
                         "{\"spec\":{\"names\":{\"shortNames\":[\"wd\"]}}}") == 0);
    /* The same kind, since whoever looked it up has its address. */
    EXPECT(v1 && widget(&h, "v1") == v1 && strcmp(v1->short_names, "wd") == 0);
    harness_close(&h);
}
