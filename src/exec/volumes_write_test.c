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
#include <string.h>

/* What is written about claims, on an API that answers at once, and a core whose word the test has. */
struct stage {
    struct api api;
    struct cache *cache;
    struct arena arena;
    struct volumes_write *write;
    enum sched_volumes state;
    int refuse;            /* what the API answers; 0: yes */
    struct object *answer; /* what it is after it */
    int patches;
    char body[1024]; /* of the last one */
    char about[64];  /* its kind and name */
    int parked;
    char waits[128]; /* pods, and what they were told to wait for */
    bool other;      /* the first claim is there, another is waited for */
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
    done(user, &(struct api_result){.code = stage->refuse,
                                    .err = stage->refuse ? &err : NULL,
                                    .object = stage->refuse ? NULL : stage->answer});
}

static enum sched_volumes stage_state(void *user,
                                      const struct sched_pod_ref *pod,
                                      struct str node,
                                      struct str *ret_claim)
{
    struct stage *stage = user;

    EXPECT(str_is(node, "a"));
    if (!str_is(pod->name, "p"))
        return SCHED_VOLUMES_READY;
    *ret_claim = stage->other ? STR("other") : STR("data");
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

static void stage_parked(void *user)
{
    struct stage *stage = user;

    stage->parked++;
}

static void stage_waits(void *user,
                        const struct sched_pod_ref *pod,
                        struct str node,
                        struct str claim,
                        int64_t now_ms)
{
    struct stage *stage = user;
    size_t used = strlen(stage->waits);

    EXPECT(str_is(node, "a") && now_ms > 1000);
    (void)snprintf(stage->waits + used, sizeof(stage->waits) - used, STR_FMT ":" STR_FMT " ",
                   STR_ARG(pod->name), STR_ARG(claim));
}

static void stage_put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    cache_put(stage->cache, object);
    object_unref(object);
}

#define CLAIM_OF(name, revision, annotations)                                                \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolumeClaim\",\"metadata\":{\"namespace\":" \
    "\"ns\",\"name\":\"" name "\",\"uid\":\"u1\",\"resourceVersion\":\"" revision            \
    "\",\"annotations\":{" annotations "}},\"spec\":{}}"
#define CLAIM(annotations) CLAIM_OF("data", "7", annotations)
#define TOLD(node)         "\"volume.kubernetes.io/selected-node\":\"" node "\""
#define VOLUME(spec)                                                                        \
    "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":\"disk\"," \
    "\"uid\":\"u2\",\"resourceVersion\":\"9\"},\"spec\":{" spec "}}"
#define REF(name, uid) \
    "\"claimRef\":{\"namespace\":\"ns\",\"name\":\"" name "\",\"uid\":\"" uid "\"}"

/* A plan that binds a pod whose claim has to be bound first, to `volume` if there is one, maybe
 * another claim, too, and a pod without any. */
static void stage_open_with(struct stage *stage, const char *volume, size_t claims)
{
    static const struct api_ops ops = {.call = stage_call};
    struct sched_bind_volume volumes[] = {
        {.claim = STR("data"), .volume = str_from(volume), .node = STR("a")},
        {.claim = STR("other"), .node = STR("a")}};
    struct sched_bind_more more = {.volumes = volumes, .volume_count = claims};
    struct sched_bind binds[] = {
        {.pod = {STR("ns"), STR("p"), STR("u")}, .node = STR("a"), .more = &more},
        {.pod = {STR("ns"), STR("none"), STR("v")}, .node = STR("a")}};

    *stage = (struct stage){
        .api = {.ops = &ops}, .cache = cache_new(1), .state = SCHED_VOLUMES_TOLD_NOT};
    stage_put(stage, &kind_pvc, CLAIM(""));
    stage_put(stage, &kind_pvc, CLAIM_OF("other", "7", ""));
    EXPECT(object_new(&kind_pvc, STR(CLAIM_OF("data", "8", TOLD("a"))), &stage->answer, NULL) == 0);
    stage->write = volumes_write_new(&stage->arena, binds, COUNT_OF(binds), 1000);
}

static void stage_open(struct stage *stage, const char *volume)
{
    stage_open_with(stage, volume, 1);
}

static void stage_send(struct stage *stage)
{
    volumes_write_send(stage->write, &(struct volumes_options){.api = &stage->api,
                                                               .cache = stage->cache,
                                                               .state = stage_state,
                                                               .state_user = stage,
                                                               .done = stage_done,
                                                               .parked = stage_parked,
                                                               .waits = stage_waits,
                                                               .user = stage});
}

static void stage_close(struct stage *stage)
{
    cache_free(stage->cache);
    object_unref(stage->answer);
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
    EXPECT(stage.parked == 1 && !stage.ended);
    EXPECT(volumes_write_poll(stage.write, 2000) == 1000 + VOLUMES_WAIT_MS);
    EXPECT(strcmp(stage.waits, "p:data none:data ") == 0);
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
    stage_put(&stage, &kind_pvc, CLAIM(TOLD("a")));
    stage_send(&stage);
    EXPECT(stage.patches == 0 && stage.parked == 1);
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
        {"it is the claim's", VOLUME(REF("data", "u1")), 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage, "disk");
        stage_put(&stage, &kind_pv, rows[i].volume);
        stage_send(&stage);
        EXPECT(stage.patches == rows[i].patches && stage.parked == 1);
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
        const char *claim; /* what it is then; NULL: as it was */
    } rows[] = {
        {"the write is refused", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_WAIT, 2000, -EAGAIN, -EAGAIN,
         "PersistentVolumeClaim data: somebody changed it", NULL},
        {"its provisioner cannot, and takes the node off", SCHED_VOLUMES_WAIT,
         SCHED_VOLUMES_TOLD_NOT, 2000, 0, -EAGAIN, "could not be made for node a",
         CLAIM_OF("data", "9", "")},
        {"the same, before anybody has seen the node there", SCHED_VOLUMES_TOLD_NOT,
         SCHED_VOLUMES_TOLD_NOT, 2000, 0, -EAGAIN, "could not be made for node a",
         CLAIM_OF("data", "9", "")},
        {"somebody tells it another one", SCHED_VOLUMES_TOLD_NOT, SCHED_VOLUMES_TOLD_NOT, 2000, 0,
         -EAGAIN, "could not be made for node a", CLAIM_OF("data", "9", TOLD("b"))},
        {"it was made elsewhere", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_LOST, 2000, 0, -EAGAIN,
         "cannot be used from node a", NULL},
        {"nobody makes it", SCHED_VOLUMES_WAIT, SCHED_VOLUMES_WAIT, 1000 + VOLUMES_WAIT_MS, 0,
         -ETIMEDOUT, "was not bound within 10 minutes", NULL},
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
        if (rows[i].claim)
            stage_put(&stage, &kind_pvc, rows[i].claim);
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

/* Between the plan and its writes somebody else may have decided. */
TEST(what_another_one_decided_meanwhile_is_not_written_over)
{
    static const struct {
        const char *why;
        const char *volume; /* that the plan gives to it; empty: none */
        const char *is;     /* the volume, or the claim, by now */
        const char *says;
    } rows[] = {
        {"the claim was told another node", "", CLAIM(TOLD("b")), "for another node: b"},
        {"the volume was given to another claim", "disk", VOLUME(REF("else", "u9")),
         "another claim has by now: PersistentVolume disk"},
        {"it was that of one of the same name before", "disk", VOLUME(REF("data", "u0")),
         "another claim has by now: PersistentVolume disk"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        test_case(rows[i].why);
        stage_open(&stage, rows[i].volume);
        stage_put(&stage, *rows[i].volume ? &kind_pv : &kind_pvc, rows[i].is);
        stage_send(&stage);
        EXPECT(stage.patches == 0 && stage.ended == 1 && stage.code == -EAGAIN);
        EXPECT(str_contains(str_from(stage.err.text), str_from(rows[i].says)));
        stage_close(&stage);
    }
}

/* The cluster's controller may part a volume and its claim again. */
TEST(a_volume_that_is_taken_from_its_claim_is_waited_for_no_longer)
{
    struct stage stage;

    stage_open(&stage, "disk");
    stage_put(&stage, &kind_pv, VOLUME(REF("data", "u1")));
    stage_send(&stage);
    stage.state = SCHED_VOLUMES_WAIT;
    EXPECT(volumes_write_poll(stage.write, 2000) == 1000 + VOLUMES_WAIT_MS && !stage.ended);
    stage_put(&stage, &kind_pv,
              "{\"apiVersion\":\"v1\",\"kind\":\"PersistentVolume\",\"metadata\":{\"name\":"
              "\"disk\",\"uid\":\"u2\",\"resourceVersion\":\"10\"},\"spec\":{}}");
    (void)volumes_write_poll(stage.write, 3000);
    EXPECT(stage.ended == 1 && stage.code == -EAGAIN);
    stage_close(&stage);
}

TEST(each_pod_says_which_claim_it_waits_for_also_when_the_first_is_there)
{
    struct stage stage;

    stage_open_with(&stage, "", 2);
    stage.answer->revision = 0; /* of the other one nothing is said */
    stage_send(&stage);
    EXPECT(stage.patches == 2);
    stage.state = SCHED_VOLUMES_WAIT;
    (void)volumes_write_poll(stage.write, 2000);
    (void)volumes_write_poll(stage.write, 2500);
    EXPECT(strcmp(stage.waits, "p:data none:data ") == 0);
    stage.other = true;
    (void)volumes_write_poll(stage.write, 3000);
    EXPECT(strcmp(stage.waits, "p:data none:data p:other none:other ") == 0);
    stage.state = SCHED_VOLUMES_READY;
    EXPECT(volumes_write_poll(stage.write, 4000) == INT64_MAX && stage.ended == 1);
    stage_close(&stage);
}
