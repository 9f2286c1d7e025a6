#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/claims_write.h"
#include "sched/sched.h"
#include "test.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What is written about a claim, on an API that answers at once and keeps the subresources. */
struct stage {
    struct api api;
    char calls[64]; /* of patches: "-" the object, "status" */
    int code;
    int ended;
};

struct keeper {
    struct api api;
    char made[2048];
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;
    size_t len = strlen(stage->calls);

    EXPECT(request->verb == API_PATCH && request->kind == &kind_resourceclaim);
    (void)snprintf(stage->calls + len, sizeof(stage->calls) - len, "%s" STR_FMT, len ? " " : "",
                   STR_ARG(request->subresource.len ? request->subresource : STR("-")));
    done(user, &(struct api_result){0});
}

static void stage_done(void *user, int code, const struct err *err)
{
    struct stage *stage = user;

    (void)err;
    stage->code = code;
    stage->ended++;
}

/* Keeps what is made, and answers the rest. */
static void keeper_call(struct api *api,
                        const struct api_request *request,
                        api_done_fn *done,
                        void *user)
{
    struct keeper *keeper = (struct keeper *)api;

    if (request->verb == API_CREATE)
        (void)snprintf(keeper->made, sizeof(keeper->made), STR_FMT, STR_ARG(request->body));
    done(user, &(struct api_result){0});
}

TEST(a_claim_made_for_a_pods_gpus_is_the_pods_and_needs_no_right_to_pods_finalizers)
{
    _cleanup_(arena_done) struct arena arena = {0};
    static const struct api_ops ops = {.call = keeper_call};
    static const struct sched_bind_device device = {
        .class = STR("gpu"), .driver = STR("d"), .pool = STR("n"), .device = STR("gpu-0")};
    struct keeper keeper = {.api = {.ops = &ops}};
    struct stage stage = {0};
    struct cache *cache = cache_new(1);
    struct object *pod = NULL;
    struct sched_bind bind = {
        .pod = {.ns = STR("ns"), .name = STR("p"), .uid = STR("1")},
        .group = STR("g"),
        .node = STR("n"),
        .more = &(struct sched_bind_more){.whole = &device, .whole_count = 1, .whole_gpus = 1}};

    EXPECT(object_new(&kind_pod,
                      STR("{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"1\"},"
                          "\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":"
                          "{\"nvidia.com/gpu\":\"1\"}}}]}}"),
                      &pod, NULL) == 0);
    cache_put(cache, pod);
    object_unref(pod);
    claims_write_send(claims_write_new(&arena, &bind, 1, 1000), &keeper.api, cache, stage_done,
                      &stage);
    EXPECT(stage.ended == 1 && stage.code == 0);
    EXPECT(strstr(keeper.made,
                  "\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"p\","
                  "\"uid\":\"1\",\"controller\":true}]"));
    EXPECT(strstr(keeper.made, "container-0-request-0"));
    cache_free(cache);
}

TEST(a_claim_is_protected_once_before_it_is_given_devices)
{
    static const struct {
        const char *why;
        const char *finalizers;
        size_t devices;
        const char *calls;
    } rows[] = {
        {"nobody protects it yet", "", 1, "- status"},
        {"somebody else's finalizer does not", "\"a.b/c\"", 1, "- status"},
        {"it is protected already", "\"resource.kubernetes.io/delete-protection\"", 1, "status"},
        {"it has its devices: only who uses it is new", "", 0, "status"},
    };
    static const struct api_ops ops = {.call = stage_call};
    static const struct sched_bind_device device = {.request = STR("r"),
                                                    .class = STR("gpu"),
                                                    .driver = STR("d"),
                                                    .pool = STR("n"),
                                                    .device = STR("gpu-0")};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct stage stage = {.api = {.ops = &ops}};
        struct cache *cache = cache_new(1);
        struct object *object = NULL;
        struct sched_bind_claim claim = {
            .name = STR("c"), .devices = &device, .device_count = rows[i].devices};
        struct sched_bind bind = {
            .pod = {.ns = STR("ns"), .name = STR("p"), .uid = STR("1")},
            .group = STR("g"),
            .node = STR("n"),
            .more = &(struct sched_bind_more){.claims = &claim, .claim_count = 1}};

        test_case(rows[i].why);
        EXPECT(object_new(&kind_resourceclaim,
                          str_printf(&arena,
                                     "{\"metadata\":{\"name\":\"c\",\"namespace\":\"ns\",\"uid\":"
                                     "\"2\",\"finalizers\":[%s]},\"spec\":{}}",
                                     rows[i].finalizers),
                          &object, NULL) == 0);
        cache_put(cache, object);
        object_unref(object);
        claims_write_send(claims_write_new(&arena, &bind, 1, 1000), &stage.api, cache, stage_done,
                          &stage);
        EXPECT(stage.ended == 1 && stage.code == 0);
        EXPECT(strcmp(stage.calls, rows[i].calls) == 0);
        cache_free(cache);
    }
}
