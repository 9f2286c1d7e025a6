#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/volumes_write.h"
#include "sched/sched.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What is written about claims, on an API that answers at once, and a core whose word the test has. */
struct stage {
    struct api api;
    struct cache *cache;
    struct arena arena;
    struct volumes_write *write;
    enum sched_volumes state;
    int refuse; /* what the API answers; 0: yes */
    int patches;
    char body[1024]; /* of the last one */
    char about[64];  /* its kind and name */
    int waits;
    int ended;
    int code;
    struct err err;
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;
    struct err err = {0};

    stage->patches++;
    (void)snprintf(stage->body, sizeof(stage->body), STR_FMT, STR_ARG(request->body));
    (void)snprintf(stage->about, sizeof(stage->about), "%s " STR_FMT, request->kind->name,
                   STR_ARG(request->name));
    if (stage->refuse)
        (void)err_set(&err, stage->refuse, "somebody changed it");
    done(user, &(struct api_result){.code = stage->refuse, .err = stage->refuse ? &err : NULL});
}

static enum sched_volumes stage_state(void *user,
                                      const struct sched_pod_ref *pod,
                                      struct str node,
                                      struct str *ret_claim)
{
    struct stage *stage = user;

    EXPECT(str_is(pod->name, "p") && str_is(node, "a"));
    *ret_claim = STR("data");
    return stage->state;
}

static void stage_done(void *user, int code, const struct err *err)
{
    struct stage *stage = user;

    stage->ended++;
    stage->code = code;
    if (err)
        stage->err = *err;
}

static void stage_waits(void *user, struct str claim)
{
    struct stage *stage = user;

    EXPECT(str_is(claim, "data"));
    stage->waits++;
}

static void stage_put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    cache_put(stage->cache, object);
    object_unref(object);
}

#define CLAIM(annotations)                                                                     \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"namespace\":"   \
    "\"ns\","                                                                                  \
    "\"name\":\"data\",\"uid\":\"u1\",\"resourceVersion\":\"7\",\"annotations\":{" annotations \
    "}},\"spec\":{}}"
#define VOLUME(spec)                                                                        \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"disk\"," \
    "\"uid\":\"u2\",\"resourceVersion\":\"9\"},\"spec\":{" spec "}}"

/* A plan that binds a pod whose claim has to be bound first; to `volume`, if there is one. */
static void stage_open(struct stage *stage, const char *volume)
{
    static const struct api_ops ops = {.call = stage_call};
    struct sched_bind_volume volumes = {
        .claim = STR("data"), .volume = str_from(volume), .node = STR("a")};
    struct sched_bind_more more = {.volumes = &volumes, .volume_count = 1};
    struct sched_bind bind = {
        .pod = {STR("ns"), STR("p"), STR("u")}, .node = STR("a"), .more = &more};

    *stage = (struct stage){
        .api = {.ops = &ops}, .cache = cache_new(1), .state = SCHED_VOLUMES_TOLD_NOT};
    stage_put(stage, &kind_pvc, CLAIM(""));
    stage->write = volumes_write_new(&stage->arena, &bind, 1, 1000);
}

static void stage_send(struct stage *stage)
{
    volumes_write_send(stage->write, &(struct volumes_options){.api = &stage->api,
                                                               .cache = stage->cache,
                                                               .state = stage_state,
                                                               .state_user = stage,
                                                               .done = stage_done,
                                                               .waits = stage_waits,
                                                               .user = stage});
}

static void stage_close(struct stage *stage)
{
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

TEST(a_claim_is_told_its_node_and_waited_for_until_it_is_bound)
{
    struct stage stage;

    stage_open(&stage, "");
    stage_send(&stage);
    EXPECT(stage.patches == 1 && str_is(str_from(stage.about), "PersistentVolumeClaim data"));
    EXPECT(str_contains(str_from(stage.body), STR("\"volume.kubernetes.io/selected-node\":\"a\"")));
    EXPECT(str_contains(str_from(stage.body), STR("\"resourceVersion\":\"7\"")));
    EXPECT(stage.waits == 1 && !stage.ended);
    EXPECT(volumes_write_poll(stage.write, 2000) == 1000 + VOLUMES_WAIT_MS);
    stage.state = SCHED_VOLUMES_WAIT;
    EXPECT(volumes_write_poll(stage.write, 3000) == 1000 + VOLUMES_WAIT_MS && !stage.ended);
    stage.state = SCHED_VOLUMES_READY;
    EXPECT(volumes_write_poll(stage.write, 4000) == INT64_MAX);
    EXPECT(stage.ended == 1 && stage.code == 0);
    stage_close(&stage);
}

TEST(a_claim_that_was_told_its_node_already_is_not_told_again)
{
    struct stage stage;

    stage_open(&stage, "");
    stage_put(&stage, &kind_pvc, CLAIM("\"volume.kubernetes.io/selected-node\":\"a\""));
    stage_send(&stage);
    EXPECT(stage.patches == 0 && stage.waits == 1);
    stage_close(&stage);
}

TEST(a_volume_is_given_to_its_claim_unless_it_has_it)
{
    static const struct {
        const char *why;
        const char *volume;
        int patches;
        bool ours; /* we keep it for the claim, so it is free again when that is gone */
    } rows[] = {
        {"it is nobody's", VOLUME(""), 1, true},
        {"somebody kept it for the claim",
         VOLUME("\"claimRef\":{\"namespace\":\"ns\",\"name\":\"data\"}"), 1, false},
        {"it is the claim's",
         VOLUME("\"claimRef\":{\"namespace\":\"ns\",\"name\":\"data\",\"uid\":\"u1\"}"), 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage, "disk");
        stage_put(&stage, &kind_pv, rows[i].volume);
        stage_send(&stage);
        EXPECT(stage.patches == rows[i].patches && stage.waits == 1);
        if (stage.patches) {
            EXPECT(str_is(str_from(stage.about), "PersistentVolume disk"));
            EXPECT(str_contains(str_from(stage.body), STR("\"uid\":\"u1\"")));
            EXPECT(str_contains(str_from(stage.body), STR("bound-by-controller")) == rows[i].ours);
        }
        stage_close(&stage);
    }
}

TEST(binds_whose_volumes_do_not_come_about_are_given_back)
{
    static const struct {
        const char *why;
        enum sched_volumes first;
        enum sched_volumes then;
        int64_t now_ms;
        int refuse;
        int code;
        const char *says;
    } rows[] = {
        {"the write is refused", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_WAIT, 2000, -EAGAIN, -EAGAIN,
         "PersistentVolumeClaim data: somebody changed it"},
        {"its provisioner cannot, and takes the node off", SCHED_VOLUMES_WAIT,
         SCHED_VOLUMES_TOLD_NOT, 2000, 0, -EAGAIN, "could not be made for node a"},
        {"it was made elsewhere", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_LOST, 2000, 0, -EAGAIN,
         "cannot be used from node a"},
        {"nobody makes it", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_WAIT, 1000 + VOLUMES_WAIT_MS, 0,
         -ETIMEDOUT, "was not bound within 10 minutes"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage, "");
        stage.refuse = rows[i].refuse;
        stage_send(&stage);
        stage.state = rows[i].first;
        if (!stage.ended)
            (void)volumes_write_poll(stage.write, 1500);
        stage.state = rows[i].then;
        if (!stage.ended)
            (void)volumes_write_poll(stage.write, rows[i].now_ms);
        EXPECT(stage.ended == 1 && stage.code == rows[i].code);
        EXPECT(str_contains(str_from(stage.err.text), str_from(rows[i].says)));
        stage_close(&stage);
    }
}

TEST(binds_that_wait_for_volumes_end_with_the_scheduler)
{
    struct stage stage;

    stage_open(&stage, "");
    volumes_write_stop(stage.write); /* it was never sent: who made it knows */
    EXPECT(!stage.ended);
    stage_close(&stage);
    stage_open(&stage, "");
    stage_send(&stage);
    volumes_write_stop(stage.write);
    EXPECT(stage.ended == 1 && stage.code == -ECANCELED);
    stage_close(&stage);
}
