#include "api/api.h"
#include "api/kind.h"
#include "base/count.h"
#include "base/str.h"
#include "store/harness.h"
#include "store/state.h"
#include "store/sums.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What ResourceQuotas and LimitRanges let into their namespace. */

#define QUOTA(hard) "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":{" hard "}}}"
#define POD(name, resources)                                                                     \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":" \
    "\"i\",\"resources\":{" resources "}}]}}"
#define LIMITS(cpu)   "\"limits\":{\"cpu\":\"" cpu "\"}"
#define REQUESTS(cpu) "\"requests\":{\"cpu\":\"" cpu "\"}"

TEST(a_quota_refuses_what_is_too_much)
{
    static const struct {
        const char *why;
        const char *quota;
        const struct kind *kind;
        const char *first;
        const char *second;
        const char *words; /* of the refusal of the second; NULL: it is let in */
    } rows[] = {
        {"a number of pods", QUOTA("\"pods\":1"), &kind_pod, POD("a", ""), POD("b", ""),
         "pods \"b\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: "
         "pods=1"},
        {"what they ask for", QUOTA("\"requests.cpu\":\"1\""), &kind_pod,
         POD("a", REQUESTS("600m")), POD("b", REQUESTS("500m")),
         "requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"},
        {"what fits", QUOTA("\"cpu\":\"1\""), &kind_pod, POD("a", REQUESTS("500m")),
         POD("b", REQUESTS("500m")), NULL},
        {"who says nothing", QUOTA("\"limits.cpu\":\"4\""), &kind_pod, POD("a", LIMITS("1")),
         POD("b", ""), "failed quota: q: must specify limits.cpu for: c"},
        {"any kind", QUOTA("\"count/configmaps\":\"1\""), &kind_configmap,
         "{\"metadata\":{\"name\":\"a\"}}", "{\"metadata\":{\"name\":\"b\"}}",
         "configmaps \"b\" is forbidden: exceeded quota: q"},
        {"another kind", QUOTA("\"secrets\":\"0\""), &kind_configmap,
         "{\"metadata\":{\"name\":\"a\"}}", "{\"metadata\":{\"name\":\"b\"}}", NULL},
        {"devices", QUOTA("\"requests.nvidia.com/gpu\":\"1\""), &kind_pod, POD("a", ""),
         POD("b", "\"limits\":{\"nvidia.com/gpu\":2}"), "requests.nvidia.com/gpu=2"},
        {"a scope that does not cover it",
         "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":{\"pods\":0},\"scopes\":["
         "\"BestEffort\"]}}",
         &kind_pod, POD("a", REQUESTS("1")), POD("b", REQUESTS("1")), NULL},
        {"a scope that does",
         "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":{\"pods\":1},\"scopes\":["
         "\"BestEffort\"]}}",
         &kind_pod, POD("a", ""), POD("b", ""), "exceeded quota"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_resourcequota, "default", rows[i].quota) == 0);
        EXPECT(harness_create(&h, rows[i].kind, "default", rows[i].first) == 0);
        int r = harness_create(&h, rows[i].kind, "default", rows[i].second);
        EXPECT((r < 0) == (rows[i].words != NULL));
        if (rows[i].words)
            EXPECT(h.status == 403 && strstr(h.text, rows[i].words));
        harness_close(&h);
    }
}

TEST(a_pod_that_has_ended_takes_nothing_of_a_quota)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_resourcequota, "default", QUOTA("\"pods\":1")) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("a", "")) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("b", "")) < 0);
    struct api_request done = {.verb = API_PATCH,
                               .kind = &kind_pod,
                               .ns = STR("default"),
                               .name = STR("a"),
                               .subresource = STR("status"),
                               .body = STR("{\"status\":{\"phase\":\"Succeeded\"}}")};
    EXPECT(harness_call(&h, &done) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("b", "")) == 0);
    harness_close(&h);
}

static int pod_phase(struct harness *h, const char *name, const char *body)
{
    return harness_call(h, &(struct api_request){.verb = API_PATCH,
                                                 .kind = &kind_pod,
                                                 .ns = STR("default"),
                                                 .name = str_from(name),
                                                 .subresource = STR("status"),
                                                 .patch = API_PATCH_MERGE,
                                                 .body = str_from(body)});
}

TEST(a_quota_follows_all_that_happens_in_its_namespace)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_resourcequota, "default",
                          QUOTA("\"pods\":3,\"requests.cpu\":\"1\"")) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("a", REQUESTS("400m"))) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("b", REQUESTS("400m"))) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("c", REQUESTS("400m"))) < 0);
    EXPECT(strstr(h.text, "used: requests.cpu=800m"));
    test_case("a refused one and one that was only tried take nothing");
    struct api_request trial = {.verb = API_CREATE,
                                .kind = &kind_pod,
                                .ns = STR("default"),
                                .dry_run = true,
                                .body = STR(POD("t", REQUESTS("200m")))};
    EXPECT(harness_call(&h, &trial) == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("c", REQUESTS("200m"))) == 0);
    test_case("one that ends gives back");
    EXPECT(harness_create(&h, &kind_pod, "default", POD("d", REQUESTS("100m"))) < 0);
    EXPECT(strstr(h.text, "used: pods=3,requests.cpu=1"));
    EXPECT(pod_phase(&h, "a", "{\"status\":{\"phase\":\"Failed\"}}") == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("d", REQUESTS("400m"))) == 0);
    test_case("so does one that goes");
    EXPECT(harness_delete(&h, &kind_pod, "default", "b", "{\"gracePeriodSeconds\":0}") == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("e", REQUESTS("500m"))) < 0);
    EXPECT(strstr(h.text, "used: requests.cpu=600m"));
    test_case("another quota counts anew");
    EXPECT(harness_patch(&h, &kind_resourcequota, "default", "q",
                         "{\"spec\":{\"hard\":{\"pods\":2,\"requests.cpu\":\"2\"}}}") == 0);
    EXPECT(harness_create(&h, &kind_pod, "default", POD("e", REQUESTS("500m"))) < 0);
    EXPECT(strstr(h.text, "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"));
    harness_close(&h);
}

#define MANY_PODS 1000

TEST(a_quota_of_a_full_namespace_is_not_added_up_for_every_write)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(
               &h, &kind_resourcequota, "default",
               QUOTA("\"pods\":2000,\"requests.cpu\":\"2000\",\"limits.cpu\":\"2000\"")) == 0);
    for (int i = 0; i < MANY_PODS; i++) {
        char pod[300];
        (void)snprintf(pod, sizeof(pod),
                       "{\"metadata\":{\"name\":\"p%d\"},\"spec\":{\"containers\":[{\"name\":\"c\","
                       "\"image\":\"i\",\"resources\":{\"limits\":{\"cpu\":\"1\"}}}]}}",
                       i);
        EXPECT(harness_create(&h, &kind_pod, "default", pod) == 0);
    }
    EXPECT(((struct store *)h.api)->sums.added_up == 3); /* once a resource */
    harness_close(&h);
}

TEST(a_limitrange_gives_amounts_and_holds_them)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *words; /* NULL: it is let in */
        const char *resources;
    } rows[] = {
        {"who says nothing", POD("a", ""), NULL,
         "{\"limits\":{\"cpu\":\"500m\"},\"requests\":{\"cpu\":\"250m\"}}"},
        {"who says it", POD("a", LIMITS("1") "," REQUESTS("1")), NULL,
         "{\"limits\":{\"cpu\":\"1\"},\"requests\":{\"cpu\":\"1\"}}"},
        {"too much", POD("a", LIMITS("3")),
         "pods \"a\" is forbidden: [maximum cpu usage per Container is 2, but limit is 3]", ""},
        {"too little", POD("a", LIMITS("1") "," REQUESTS("10m")),
         "minimum cpu usage per Container is 100m, but request is 10m", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_limitrange, "default",
                              "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"limits\":[{\"type\":"
                              "\"Container\",\"max\":{\"cpu\":\"2\"},\"min\":{\"cpu\":\"100m\"},"
                              "\"default\":{\"cpu\":\"500m\"},\"defaultRequest\":{\"cpu\":"
                              "\"250m\"}}]}}") == 0);
        int r = harness_create(&h, &kind_pod, "default", rows[i].pod);
        EXPECT((r < 0) == (rows[i].words != NULL));
        if (rows[i].words)
            EXPECT(h.status == 403 && strstr(h.text, rows[i].words));
        else
            EXPECT(strcmp(harness_text(&h, "spec.containers.0.resources"), rows[i].resources) == 0);
        harness_close(&h);
    }
}

TEST(a_limitrange_that_contradicts_itself_is_refused)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_limitrange, "default",
                          "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"limits\":[{\"type\":"
                          "\"Container\",\"max\":{\"cpu\":\"1\"},\"min\":{\"cpu\":\"2\"}}]}}") < 0);
    EXPECT(h.status == 422 && strstr(h.causes, "min value is greater than max value"));
    EXPECT(harness_create(&h, &kind_limitrange, "default",
                          "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"limits\":[{\"type\":"
                          "\"Container\",\"max\":{\"memory\":\"1Gi\"}}]}}") == 0);
    EXPECT(strcmp(harness_text(&h, "spec.limits.0.defaultRequest"), "{\"memory\":\"1Gi\"}") == 0);
    harness_close(&h);
}

TEST(a_limitrange_without_a_name_is_given_one)
{
    static const struct {
        const char *object, *why;
        int status;
    } rows[] = {{"{\"metadata\":{},\"spec\":{\"limits\":[]}}", "none", 0},
                {"{\"metadata\":{\"name\":\"\"},\"spec\":{\"limits\":[]}}", "empty", 0},
                {"{\"metadata\":{\"name\":[7]},\"spec\":{\"limits\":[]}}", "no text", 400}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;

        test_case(rows[i].why);
        harness_open(&h, NULL);
        int r = harness_create(&h, &kind_limitrange, "default", rows[i].object);
        EXPECT(rows[i].status ? r < 0 && h.status == rows[i].status : r == 0);
        EXPECT(rows[i].status || strlen(harness_text(&h, "metadata.name")) >= 36);
        harness_close(&h);
    }
}

TEST(limitranges_hold_pods_and_ratios_as_kubernetes_does)
{
#define INIT(resources, more)                                                                      \
    "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"initContainers\":[{\"name\":\"i\",\"image\":\"i\"" \
    ",\"resources\":{" resources "}" more "}],\"containers\":[{\"name\":\"c\",\"image\":\"i\","    \
    "\"resources\":{" LIMITS("1") "," REQUESTS("1") "}}]}}"
    static const struct {
        const char *why;
        const char *limit;
        const char *pod;
        const char *words; /* NULL: it is let in */
    } rows[] = {
        {"no limit has no ratio", "\"type\":\"Container\",\"maxLimitRequestRatio\":{\"cpu\":\"2\"}",
         POD("a", REQUESTS("1")), "but no limit is specified or limit is 0"},
        {"nothing said", "\"type\":\"Container\",\"maxLimitRequestRatio\":{\"cpu\":\"2\"}",
         POD("a", ""), "but no request is specified or request is 0"},
        {"too far apart", "\"type\":\"Container\",\"maxLimitRequestRatio\":{\"cpu\":\"2\"}",
         POD("a", LIMITS("5") "," REQUESTS("2")), "but provided ratio is 2.500000"},
        {"near enough", "\"type\":\"Container\",\"maxLimitRequestRatio\":{\"cpu\":\"2\"}",
         POD("a", LIMITS("4") "," REQUESTS("2")), NULL},
        {"what runs before counts for the pod", "\"type\":\"Pod\",\"max\":{\"cpu\":\"2\"}",
         INIT(LIMITS("3") "," REQUESTS("3"), ""), "maximum cpu usage per Pod is 2, but limit is 3"},
        {"but is not added to it", "\"type\":\"Pod\",\"max\":{\"cpu\":\"2\"}",
         INIT(LIMITS("2") "," REQUESTS("2"), ""), NULL},
        {"what stays beside it is", "\"type\":\"Pod\",\"max\":{\"cpu\":\"2\"}",
         INIT(LIMITS("2") "," REQUESTS("2"), ",\"restartPolicy\":\"Always\""),
         "maximum cpu usage per Pod is 2, but limit is 3"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char range[256];

        test_case(rows[i].why);
        harness_open(&h, NULL);
        (void)snprintf(range, sizeof(range),
                       "{\"metadata\":{\"name\":\"l\"},\"spec\":{\"limits\":[{%s}]}}",
                       rows[i].limit);
        EXPECT(harness_create(&h, &kind_limitrange, "default", range) == 0);
        int r = harness_create(&h, &kind_pod, "default", rows[i].pod);
        EXPECT((r < 0) == (rows[i].words != NULL));
        if (rows[i].words)
            EXPECT(h.status == 403 && strstr(h.text, rows[i].words));
        harness_close(&h);
    }
#undef INIT
}

TEST(an_eviction_that_is_refused_takes_nothing_of_a_budget)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}},\"spec\":{"
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    EXPECT(harness_create(&h, &kind_pdb, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"maxUnavailable\":1,"
                          "\"selector\":{\"matchLabels\":{\"x\":\"y\"}}}}") == 0);
    struct api_request status = {.verb = API_PATCH,
                                 .patch = API_PATCH_MERGE,
                                 .kind = &kind_pod,
                                 .ns = STR("default"),
                                 .name = STR("a"),
                                 .subresource = STR("status"),
                                 .body = STR("{\"status\":{\"phase\":\"Running\"}}")};
    EXPECT(harness_call(&h, &status) == 0);
    status.kind = &kind_pdb;
    status.name = STR("b");
    status.body = STR("{\"status\":{\"disruptionsAllowed\":1}}");
    EXPECT(harness_call(&h, &status) == 0);
    struct api_request evict = {.verb = API_CREATE,
                                .kind = &kind_pod,
                                .ns = STR("default"),
                                .name = STR("a"),
                                .subresource = STR("eviction"),
                                .body = STR("{\"deleteOptions\":{\"preconditions\":{\"uid\":"
                                            "\"another\"}}}")};
    EXPECT(harness_call(&h, &evict) < 0 && h.status == 409);
    EXPECT(harness_get(&h, &kind_pdb, "default", "b") == 0);
    EXPECT(strcmp(harness_text(&h, "status.disruptionsAllowed"), "1") == 0);
    evict.body = STR("");
    EXPECT(harness_call(&h, &evict) == 0);
    EXPECT(harness_get(&h, &kind_pdb, "default", "b") == 0);
    EXPECT(strcmp(harness_text(&h, "status.disruptionsAllowed"), "0") == 0);
    harness_close(&h);
}

/* A pod that was bound, so that it stays for its grace period. */
TEST(a_pod_that_is_evicted_says_so_and_one_that_is_deleted_does_not)
{
    static const struct {
        const char *why;
        const char *before; /* its conditions */
        bool evict;
        const char *reason;
    } rows[] = {
        {"deleted", "", false, ""},
        {"evicted", "", true, "EvictionByEvictionAPI"},
        {"the scheduler said why",
         "{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"PreemptionByScheduler\"}",
         true, "PreemptionByScheduler"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct harness h;
        char status[300];
        struct api_request request = {.verb = API_PATCH,
                                      .patch = API_PATCH_MERGE,
                                      .kind = &kind_pod,
                                      .ns = STR("default"),
                                      .name = STR("a"),
                                      .subresource = STR("status"),
                                      .body = STR_NONE};

        test_case(rows[i].why);
        harness_open(&h, NULL);
        EXPECT(harness_create(&h, &kind_pod, "default",
                              "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"nodeName\":\"n\","
                              "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
        (void)snprintf(status, sizeof(status),
                       "{\"status\":{\"phase\":\"Running\",\"conditions\":[%s]}}", rows[i].before);
        request.body = str_from(status);
        EXPECT(harness_call(&h, &request) == 0);
        request = (struct api_request){.verb = rows[i].evict ? API_CREATE : API_DELETE,
                                       .kind = &kind_pod,
                                       .ns = STR("default"),
                                       .name = STR("a"),
                                       .subresource = rows[i].evict ? STR("eviction") : STR("")};
        EXPECT(harness_call(&h, &request) == 0);
        EXPECT(harness_get(&h, &kind_pod, "default", "a") == 0);
        EXPECT(harness_text(&h, "metadata.deletionTimestamp")[0]);
        EXPECT(strcmp(harness_text(&h, "status.conditions.0.reason"), rows[i].reason) == 0);
        harness_close(&h);
    }
}

TEST(an_eviction_that_a_budget_refuses_says_so_in_its_cause)
{
    struct harness h;

    harness_open(&h, NULL);
    EXPECT(harness_create(&h, &kind_pod, "default",
                          "{\"metadata\":{\"name\":\"a\",\"labels\":{\"x\":\"y\"}},\"spec\":{"
                          "\"containers\":[{\"name\":\"c\",\"image\":\"i\"}]}}") == 0);
    EXPECT(harness_create(&h, &kind_pdb, "default",
                          "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"minAvailable\":1,"
                          "\"selector\":{\"matchLabels\":{\"x\":\"y\"}}}}") == 0);
    struct api_request status = {.verb = API_PATCH,
                                 .patch = API_PATCH_MERGE,
                                 .kind = &kind_pod,
                                 .ns = STR("default"),
                                 .name = STR("a"),
                                 .subresource = STR("status"),
                                 .body = STR("{\"status\":{\"phase\":\"Running\"}}")};
    EXPECT(harness_call(&h, &status) == 0);
    struct api_request evict = {.verb = API_CREATE,
                                .kind = &kind_pod,
                                .ns = STR("default"),
                                .name = STR("a"),
                                .subresource = STR("eviction"),
                                .body = STR("")};
    EXPECT(harness_call(&h, &evict) < 0 && h.status == 429);
    EXPECT(strstr(h.causes, "budget b needs 0 healthy pods and has 0"));
    harness_close(&h);
}
