#include "api/kind.h"
#include "api/large_test.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "store/space.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an object may be large in, and how much a namespace may have of them; tests/costs counts what
 * that costs. */

#define POD_WITH(more)                                                                          \
    "{\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"," \
    "\"resources\":{\"limits\":{" more "}}}]}}"

/* What is limited is requested too, and 16 seconds went by before that was too large. */
TEST(an_object_is_too_large_before_anything_is_filled_in)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str names =
        large_list(&arena, 19000,
                   "\"example.com/"
                   "a-name-that-is-about-as-long-as-names-of-resources-may-be-and-then-some-more-",
                   "\":\"1\"");
    struct harness h;
    unsigned long bytes = 0;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          str_printf(&arena, POD_WITH(STR_FMT), STR_ARG(names)).p) < 0);
    EXPECT(h.status == 413);
    const char *told = strstr(h.text, "is too large: ");
    EXPECT(told != NULL);
    bytes = strtoul(told + sizeof("is too large: ") - 1, NULL, 10);
    EXPECT(bytes > names.len - 19000 * 8 && bytes < names.len + 1000);
    harness_close(&h);
}

/* Subgroups in chains of so many, each below the one behind it. */
static struct str chains(struct arena *arena, size_t count, size_t length)
{
    _cleanup_(buf_done) struct buf text = {0};

    for (size_t i = 0; i < count; i++) {
        buf_addf(&text, "%s{\"name\":\"s%zu\"", i ? "," : "", i);
        if (i % length == 0)
            buf_addf(&text, ",\"minMember\":1");
        if (i % length < length - 1 && i + 1 < count)
            buf_addf(&text, ",\"parent\":\"s%zu\"", i + 1);
        buf_addf(&text, "}");
    }
    return str_dup(arena, buf_str(&text));
}

TEST(a_group_has_so_many_subgroups_in_so_many_levels)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const struct {
        const char *why;
        size_t count;
        size_t length;
        const char *words; /* NULL: it is taken */
    } rows[] = {{"as many as there may be", 10240, 32, NULL},
                {"one more", 10241, 32, "10241 subgroups; a group has at most 10240"},
                {"a level more", 33, 33, "33 levels of subgroups; at most 32"},
                {"a chain of all, which took minutes", 10240, 10240,
                 "10240 levels of subgroups; at most 32"}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        struct str list = chains(&arena, rows[i].count, rows[i].length);
        struct str body = str_printf(
            &arena, "{\"metadata\":{\"name\":\"g\"},\"spec\":{\"subGroups\":[" STR_FMT "]}}",
            STR_ARG(list));

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT((harness_create(&h, &kind_podgroup, "default", body.p) == 0) == !rows[i].words);
        EXPECT(!rows[i].words || (h.status == 422 && strstr(h.causes, rows[i].words)));
        harness_close(&h);
    }
}

TEST(what_a_pod_and_a_selector_name_is_bounded_in_words)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *before;
        const char *item;
        const char *item_after;
        const char *after;
        size_t most;
        const char *words;
    } rows[] = {
        {"resources", &kind_pod,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\","
         "\"resources\":{\"limits\":{",
         "\"example.com/r", "\":\"1\"", "}}}]}}", 256,
         "257 resources are named; a pod has at most 256"},
        {"claims", &kind_pod,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}"
         "],"
         "\"resourceClaims\":[",
         "{\"resourceClaimName\":\"a\",\"name\":\"c", "\"}", "]}}", 256,
         "257 claims; a pod has at most 256"},
        {"labels of a selector", &kind_pdb,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
         "\"matchLabels\":{",
         "\"l", "\":\"v\"", "}}}}", 1000,
         "1001 labels, expressions and values; a selector has at most 1000"},
        {"values of a selector", &kind_pdb,
         "{\"metadata\":{\"name\":\"y\"},\"spec\":{\"minAvailable\":1,\"selector\":{"
         "\"matchExpressions\":[{\"key\":\"k\",\"operator\":\"In\",\"values\":[",
         "\"v", "\"", "]}]}}}", 999,
         "1001 labels, expressions and values; a selector has at most 1000"},
        {"labels", &kind_configmap, "{\"metadata\":{\"name\":\"x\",\"labels\":{", "\"l", "\":\"v\"",
         "}}}", 1000, "1001 labels; an object has at most 1000"},
        {"resources of a quota", &kind_resourcequota,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"hard\":{", "\"example.com/r", "\":\"1\"",
         "}}}", 256, "257 resources; a quota has at most 256"},
        {"labels of a service", &kind_service,
         "{\"metadata\":{\"name\":\"x\"},\"spec\":{\"ports\":[{\"port\":80}],\"selector\":{", "\"l",
         "\":\"v\"", "}}}", 1000,
         "1001 labels, expressions and values; a selector has at most 1000"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        for (size_t more = 1; more + 1 > 0; more--) {
            struct str items =
                large_list(&arena, rows[i].most + more, rows[i].item, rows[i].item_after);
            struct str body = str_printf(&arena, "%s" STR_FMT "%s", rows[i].before, STR_ARG(items),
                                         rows[i].after);

            EXPECT((harness_create(&h, rows[i].kind, "default", body.p) == 0) == !more);
            EXPECT(!more || strstr(h.causes, rows[i].words));
        }
        harness_close(&h);
    }
}

/* To whoever asks for protobuf they go as bytes: one that is none broke the whole list. */
TEST(bytes_are_base64)
{
#define MADE(more) "{\"metadata\":{\"name\":\"x\"}," more "}"
    static const struct {
        const struct kind *kind;
        const char *body;
        const char *words; /* NULL: it is taken */
    } rows[] = {
        {&kind_configmap, MADE("\"binaryData\":{\"a\":\"AP8=\",\"b\":\"\"}"), NULL},
        {&kind_configmap, MADE("\"binaryData\":{\"a\":\"plain!\"}"), "must be base64"},
        {&kind_secret, MADE("\"data\":{\"a\":\"AP8=\"}"), NULL},
        {&kind_secret, MADE("\"data\":{\"a\":\"plain!\"}"),
         "must be base64; use stringData for plain text"},
        {&kind_mutatingwebhooks,
         MADE("\"webhooks\":[{\"name\":\"a.b.c\",\"admissionReviewVersions\":[\"v1\"],"
              "\"sideEffects\":\"None\",\"clientConfig\":{\"url\":\"https://x/y\","
              "\"caBundle\":\"plain!\"}}]"),
         "must be base64"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].body);
        harness_open(&h, NULL);
        EXPECT((harness_create(&h, rows[i].kind, rows[i].kind->namespaced ? "default" : "",
                               rows[i].body) == 0) == !rows[i].words);
        EXPECT(!rows[i].words || (h.status == 400 && strstr(h.text, rows[i].words)));
        harness_close(&h);
    }
}

TEST(a_selector_is_read_once_an_object)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pdb, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,"
                          "\"selector\":{\"matchLabels\":{\"a\":\"b\"}}}}") == 0);
    const struct selector *selector = object_selector(h.object);
    EXPECT(selector && selector->term_count == 1 && str_is(selector->terms[0].key, "a"));
    EXPECT(object_selector(h.object) == selector);
    EXPECT(harness_create(&h, &kind_service, "default",
                          "{\"metadata\":{\"name\":\"s\"},\"spec\":{\"ports\":[{\"port\":80}],"
                          "\"selector\":{\"c\":\"d\"}}}") == 0);
    selector = object_selector(h.object);
    EXPECT(selector && selector->term_count == 1 && str_is(selector->terms[0].key, "c"));
    EXPECT(harness_create(&h, &kind_configmap, "default", "{\"metadata\":{\"name\":\"c\"}}") == 0);
    EXPECT(!object_selector(h.object));
    harness_close(&h);
}

static int put(struct harness *h, const char *ns, const char *name, size_t bytes)
{
    _cleanup_(arena_done) struct arena arena = {0};

    return harness_create(
        h, &kind_configmap, ns,
        str_printf(&arena, "{\"metadata\":{\"name\":\"%s\"},\"data\":{\"k\":\"" STR_FMT "\"}}",
                   name, STR_ARG(large_word(&arena, bytes)))
            .p);
}

static int write_by_somebody(struct harness *h,
                             enum api_verb verb,
                             const char *name,
                             struct str body)
{
    return harness_call(h, &(struct api_request){.verb = verb,
                                                 .kind = &kind_configmap,
                                                 .ns = STR("default"),
                                                 .name = str_from(name),
                                                 .user = &(struct api_user){.name = STR("one")},
                                                 .patch = API_PATCH_MERGE,
                                                 .body = body});
}

/* A list of short texts of 1.4 MB took a third of a second a write. */
TEST(an_object_has_so_many_values)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *names = large_list(&arena, SPACE_VALUES_MAX / 5 * 2, "\"k", "\":\"\"").p;
    struct str two = str_printf(&arena,
                                "{\"metadata\":{\"name\":\"a\",\"annotations\":{%s}},"
                                "\"data\":{%s}}",
                                names, names);
    struct str three = str_printf(&arena,
                                  "{\"metadata\":{\"name\":\"b\",\"annotations\":{%s}},"
                                  "\"data\":{%s},\"binaryData\":{%s}}",
                                  names, names, names);
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(write_by_somebody(&h, API_CREATE, "", two) == 0);
    EXPECT(write_by_somebody(&h, API_CREATE, "", three) < 0);
    EXPECT(h.status == 413 && strstr(h.text, "is too large: it has more than 32768 values"));
    test_case("what a patch makes of it counts too");
    EXPECT(write_by_somebody(&h, API_PATCH, "a",
                             str_printf(&arena, "{\"binaryData\":{%s}}", names)) < 0);
    EXPECT(h.status == 413 && strstr(h.text, "ConfigMap \"a\" is too large: it has more than"));
    harness_close(&h);
}

/* Fields that have several owners count once for each. */
TEST(an_object_has_so_many_field_managers)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *fields = large_list(&arena, SPACE_VALUES_MAX / 2, "\"f:k", "\":{}").p;
    const char *entry =
        "{\"operation\":\"Update\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\","
        "\"manager\"";
    struct harness h;

    harness_open(&h, NULL);
    for (int managers = 3; managers <= 5; managers++) {
        const char *list = "";
        for (int i = 0; i < managers; i++)
            list = str_printf(&arena, "%s%s%s:\"%d\",\"fieldsV1\":{\"f:data\":{%s}}}", list,
                              i ? "," : "", entry, i, fields)
                       .p;
        struct str body = str_printf(
            &arena, "{\"metadata\":{\"name\":\"m%d\",\"managedFields\":[%s]}}", managers, list);
        EXPECT((write_by_somebody(&h, API_CREATE, "", body) == 0) == (managers < 4));
    }
    EXPECT(h.status == 413 && strstr(h.text, "metadata.managedFields has more than 65536 values"));
    harness_close(&h);
}

TEST(a_namespace_stores_so_many_bytes)
{
    char folder[] = "/tmp/muster-size-XXXXXX";
    char path[64];
    char command[96];
    struct harness h;

    EXPECT(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    harness_open(&h, path);
    EXPECT(harness_create(&h, &kind_namespace, "",
                          "{\"metadata\":{\"name\":\"small\",\"annotations\":{\"" SPACE_ANNOTATION
                          "\":\"1Mi\"}}}") == 0);
    EXPECT(put(&h, "small", "a", 500000) == 0 && put(&h, "small", "b", 500000) == 0);
    EXPECT(put(&h, "small", "c", 500000) < 0);
    EXPECT(h.status == 403 && strstr(h.text, "namespace small is full: its objects have 100"));
    EXPECT(strstr(h.text, "at most 1048576; delete some"));
    EXPECT(put(&h, "default", "c", 500000) == 0); /* another one has its own */
    EXPECT(harness_patch(&h, &kind_configmap, "small", "a", "{\"data\":null}") == 0);
    EXPECT(put(&h, "small", "c", 400000) == 0);
    EXPECT(put(&h, "small", "d", 400000) < 0);
    EXPECT(harness_delete(&h, &kind_configmap, "small", "b", "") == 0);
    EXPECT(put(&h, "small", "d", 400000) == 0);
    harness_close(&h);
    test_case("as many when it is opened again");
    harness_open(&h, path);
    EXPECT(put(&h, "small", "e", 400000) < 0 && h.status == 403);
    EXPECT(put(&h, "small", "f", 1000) == 0);
    harness_close(&h);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    EXPECT(system(command) == 0);
}
