#include "api/admit.h"
#include "api/crd.h"
#include "api/crd_builtin.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

TEST(every_crd_of_ours_is_valid_and_agrees_with_the_kinds_in_the_code)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct kinds *kinds = kinds_new();
    size_t known = 0;

    EXPECT(crd_builtin_count > 0);
    for (size_t i = 0; i < crd_builtin_count; i++) {
        struct json *root = NULL;
        struct crd *crd = NULL;
        struct err err = {0};

        test_case(crd_builtins[i].name);
        EXPECT(json_parse(&arena, (struct str){crd_builtins[i].text, crd_builtins[i].text_len},
                          &root, NULL) == 0);
        struct admit admit = {.arena = &arena, .kind = &kind_crd, .object = root};
        crd_default(&admit);
        admit_validate(&admit); /* as a store does with those that do not come with the program */
        for (size_t j = 0; j < admit.causes.count; j++)
            (void)fprintf(stderr, "%s: " STR_FMT ": " STR_FMT "\n", crd_builtins[i].name,
                          STR_ARG(admit.causes.items[j].field),
                          STR_ARG(admit.causes.items[j].message));
        EXPECT(admit.causes.count == 0);
        EXPECT(crd_parse(&arena, root, &crd, &err) == 0);
        for (size_t j = 0; crd && j < crd->version_count; j++) {
            const struct kind *made = &crd->versions[j].kind;
            const struct kind *ours = kinds_by_plural(
                kinds, str_from(made->group), str_from(made->version), str_from(made->plural));
            size_t count = 0;

            if (!ours)
                continue;
            known++;
            EXPECT(strcmp(ours->name, made->name) == 0);
            EXPECT(strcmp(ours->singular, made->singular) == 0);
            EXPECT(strcmp(ours->short_names, made->short_names) == 0);
            EXPECT(strcmp(ours->categories, made->categories) == 0);
            EXPECT(ours->namespaced == made->namespaced && ours->status == made->status);
            EXPECT(ours->custom && kind_columns(ours, &count) && count == made->column_count);
        }
    }
    EXPECT(known >= 4);
    kinds_free(kinds);
}

TEST(a_crd_is_told_what_it_lacks)
{
    static const struct {
        const char *body;
        const char *field;
    } rows[] = {
        {"{\"metadata\":{\"name\":\"x\"},\"spec\":{}}", "spec.group"},
        {"{\"metadata\":{\"name\":\"as.b.c\"},\"spec\":{\"group\":\"b.c\",\"scope\":\"World\","
         "\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[{\"name\":\"v1\",\"storage\":"
         "true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}",
         "spec.scope"},
        {"{\"metadata\":{\"name\":\"as.b.c\"},\"spec\":{\"group\":\"b.c\",\"scope\":\"Cluster\","
         "\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[{\"name\":\"v1\",\"storage\":"
         "true}]}}",
         "spec.versions[0].schema.openAPIV3Schema"},
        {"{\"metadata\":{\"name\":\"as.b.c\"},\"spec\":{\"group\":\"b.c\",\"scope\":\"Cluster\","
         "\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[{\"name\":\"v1\","
         "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}",
         "spec.versions"},
        {"{\"metadata\":{\"name\":\"as.b.c\"},\"spec\":{\"group\":\"b.c\",\"scope\":\"Cluster\","
         "\"preserveUnknownFields\":true,\"names\":{\"plural\":\"as\",\"kind\":\"A\"},"
         "\"versions\":[{\"name\":\"v1\",\"storage\":true,"
         "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}]}}",
         "spec.preserveUnknownFields"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *root = NULL;

        test_case(rows[i].field);
        EXPECT(json_parse(&arena, str_from(rows[i].body), &root, NULL) == 0);
        struct admit admit = {.arena = &arena, .kind = &kind_crd, .object = root};
        crd_default(&admit);
        crd_validate(&admit);
        EXPECT(admit.causes.count && str_is(admit.causes.items[0].field, rows[i].field));
    }
}

TEST(a_version_that_objects_were_stored_in_stays_until_the_status_says_they_are_not)
{
#define VERSION(name, storage)                                    \
    "{\"name\":\"" name "\",\"served\":true,\"storage\":" storage \
    ",\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}}}"
#define CRD(versions, stored)                                                                \
    "{\"metadata\":{\"name\":\"as.b.c\"},\"spec\":{\"group\":\"b.c\",\"scope\":\"Cluster\"," \
    "\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[" versions "]},\"status\":{" \
    "\"storedVersions\":" stored "}}"
    static const struct {
        const char *stored;
        const char *versions;
        const char *subresource;
        const char *field; /* NULL: it is admitted */
        const char *why;
    } rows[] = {
        {"[\"v1\"]", VERSION("v1", "false") "," VERSION("v2", "true"), "", NULL, "it is there"},
        {"[\"v1\"]", VERSION("v2", "true"), "", "status.storedVersions[0]", "it is gone"},
        {"[\"v2\",\"v1\"]", VERSION("v2", "true"), "", "status.storedVersions[1]",
         "one of several"},
        {"[\"v2\"]", VERSION("v2", "true"), "", NULL, "somebody took it off the status"},
        {"[\"v1\"]", VERSION("v2", "true"), "status", NULL, "the status itself may be written"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *root = NULL, *old = NULL;
        struct str text = str_printf(&arena, CRD("%s", "%s"), rows[i].versions, rows[i].stored);

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, text, &root, NULL) == 0);
        EXPECT(json_parse(&arena, text, &old, NULL) == 0);
        struct admit admit = {.arena = &arena,
                              .kind = &kind_crd,
                              .object = root,
                              .old = old,
                              .subresource = str_from(rows[i].subresource)};
        crd_validate(&admit);
        EXPECT(admit.causes.count == (rows[i].field ? 1 : 0));
        if (!rows[i].field || !admit.causes.count)
            continue;
        EXPECT(str_is(admit.causes.items[0].field, rows[i].field));
        EXPECT(str_contains(admit.causes.items[0].message,
                            STR("v1 was previously a storage version")));
    }
#undef VERSION
#undef CRD
}

/* ---- what stands in two of them ---- */

static struct json *spec_schema(struct arena *arena, const char *name)
{
    struct json *root = NULL;

    for (size_t i = 0; i < crd_builtin_count; i++)
        if (strcmp(crd_builtins[i].name, name) == 0)
            EXPECT(json_parse(arena, (struct str){crd_builtins[i].text, crd_builtins[i].text_len},
                              &root, NULL) == 0);
    return json_at(root, "spec.versions.0.schema.openAPIV3Schema.properties.spec.properties");
}

/* Defaults and rules are of the kind itself; a copy says what it is about in its own words. */
static void strip(struct json *schema)
{
    json_remove(schema, STR("default"));
    json_remove(schema, STR("x-kubernetes-validations"));
    if (json_is(json_get(schema, "description"), JSON_STRING))
        json_remove(schema, STR("description"));
    JSON_FOREACH(schema, member)
        if (json_is(member, JSON_OBJECT))
            strip(member);
}

TEST(what_one_kind_takes_from_another_has_the_same_fields)
{
    static const struct {
        const char *from;
        const char *to;
        const char *at; /* in `to` */
        const char *fields[16];
    } rows[] = {
        {"torchrunqueues.torchrun.ai",
         "torchrunjobs.torchrun.ai",
         NULL,
         {"storage", "workspaceStorage", "scheduling", "networking", "nodeResources"}},
        {"jobsets.jobset.x-k8s.io",
         "trainingruntimes.trainer.kubeflow.org",
         "template.properties.spec.properties",
         {"replicatedJobs", "network", "successPolicy", "failurePolicy", "startupPolicy", "suspend",
          "coordinator", "managedBy", "ttlSecondsAfterFinished", "volumeClaimPolicies"}},
        {"trainingruntimes.trainer.kubeflow.org",
         "clustertrainingruntimes.trainer.kubeflow.org",
         NULL,
         {"mlPolicy", "podGroupPolicy", "template"}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; rows[i].fields[j]; j++) {
            _cleanup_(arena_done) struct arena arena = {0};
            struct json *to = spec_schema(&arena, rows[i].to);
            struct json *theirs = json_get(spec_schema(&arena, rows[i].from), rows[i].fields[j]);
            struct json *ours =
                json_get(rows[i].at ? json_at(to, rows[i].at) : to, rows[i].fields[j]);

            test_case(rows[i].fields[j]);
            EXPECT(ours && theirs);
            strip(ours);
            strip(theirs);
            EXPECT(json_equal(json_get(ours, "items"), json_get(theirs, "items")));
            EXPECT(json_equal(json_get(ours, "properties"), json_get(theirs, "properties")));
        }
}
