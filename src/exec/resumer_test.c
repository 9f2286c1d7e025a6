#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "cache/cache.h"
#include "exec/resumer.h"
#include "sched/sched.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NOW 1000
#define POD(annotations)                                                                          \
    "{\"metadata\":{\"name\":\"p\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"7\"," \
    "\"annotations\":{" annotations "}}}"
#define SUSPENDED "\"" SUSPEND_ANNOTATION "\":\"yield\""

struct stage {
    struct api api;
    struct cache *cache;
    struct resumer *resumer;
    api_done_fn *asked; /* NULL: nothing is under way */
    void *asked_user;
    enum api_verb verb;
    int writes;
    int turns;
    int told;
    int code;
};

static void stage_call(struct api *api,
                       const struct api_request *request,
                       api_done_fn *done,
                       void *user)
{
    struct stage *stage = (struct stage *)api;

    EXPECT(!stage->asked);
    stage->asked = done;
    stage->asked_user = user;
    stage->verb = request->verb;
    if (request->verb == API_PATCH) {
        stage->writes++;
        EXPECT(str_is(request->uid, "u") && str_contains(request->body, STR("\"7\"")));
    }
}

static void stage_again(void *user)
{
    ((struct stage *)user)->turns++;
}

static void stage_told(void *user, const struct api_result *result)
{
    struct stage *stage = user;

    stage->told++;
    stage->code = result->code;
}

static struct object *pod_make(const char *text)
{
    struct object *pod = NULL;

    (void)object_new(&kind_pod, str_from(text), &pod, NULL);
    return pod;
}

static void stage_open(struct stage *stage)
{
    static const struct api_ops ops = {.call = stage_call};
    struct object *pod = pod_make(POD(SUSPENDED));

    *stage = (struct stage){.api = {.ops = &ops}, .cache = cache_new(1)};
    cache_put(stage->cache, pod);
    object_unref(pod);
    stage->resumer = resumer_new(&(struct resumer_options){
        .api = &stage->api, .cache = stage->cache, .again = stage_again, .user = stage});
    resumer_send(stage->resumer,
                 &(struct sched_pod_ref){.ns = STR("ns"), .name = STR("p"), .uid = STR("u")},
                 stage_told, stage);
}

/* Of what is under way: a status of HTTP, 0 for nobody. */
static void stage_answer(struct stage *stage, int status, const char *object)
{
    api_done_fn *asked = stage->asked;
    struct err err = {.http_status = status};
    struct object *pod = object ? pod_make(object) : NULL;

    stage->asked = NULL;
    EXPECT(asked);
    if (asked)
        asked(stage->asked_user, &(struct api_result){.code = status == 200 ? 0
                                                              : status      ? -EINVAL
                                                                            : -ETIMEDOUT,
                                                      .err = status == 200 ? NULL : &err,
                                                      .object = pod});
    object_unref(pod);
}

static void stage_close(struct stage *stage)
{
    resumer_free(stage->resumer);
    cache_free(stage->cache);
}

#define LOST 0

TEST(a_pod_whose_resume_nobody_answers_is_given_up_only_when_that_is_certain)
{
    static const struct {
        const char *why;
        int answers[4];  /* -1: no more */
        const char *pod; /* as it is read */
        int writes;
        int code;
    } rows[] = {
        {"it happens", {200, -1}, NULL, 1, 0},
        {"it is refused", {409, -1}, NULL, 1, -EINVAL},
        {"the pod is gone", {404, -1}, NULL, 1, -EINVAL},
        {"the first was lost before it happened", {LOST, 200, -1}, NULL, 2, 0},
        {"a server in trouble does not know, either", {503, 200, -1}, NULL, 2, 0},
        {"only the answer was lost", {LOST, 409, 200, -1}, POD(""), 2, 0},
        {"somebody else changed the pod", {LOST, 409, 200, -1}, POD(SUSPENDED), 2, -EBUSY},
        {"who reads it gets no answer at first", {LOST, 409, LOST, 200}, POD(""), 2, 0},
        {"the pod is gone meanwhile", {LOST, 404, -1}, NULL, 2, -EINVAL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;
        int64_t now_ms = NOW;

        test_case(rows[i].why);
        stage_open(&stage);
        for (size_t j = 0; j < COUNT_OF(rows[i].answers) && rows[i].answers[j] >= 0; j++) {
            EXPECT(stage.told == 0);
            stage_answer(&stage, rows[i].answers[j], stage.verb == API_GET ? rows[i].pod : NULL);
            if (stage.told || stage.asked)
                continue;
            EXPECT(stage.turns > 0);
            int64_t due_ms = resumer_turn(stage.resumer, now_ms);
            EXPECT(due_ms == now_ms + RESUMER_RETRY_MS && !stage.asked);
            now_ms = due_ms;
            (void)resumer_turn(stage.resumer, now_ms);
        }
        EXPECT(stage.told == 1 && stage.code == rows[i].code && stage.writes == rows[i].writes);
        EXPECT(resumer_turn(stage.resumer, now_ms) == INT64_MAX);
        stage_close(&stage);
    }
}

TEST(who_waits_for_a_resume_is_told_when_nobody_cares_any_more)
{
    struct stage stage;

    stage_open(&stage);
    stage_answer(&stage, LOST, NULL);
    EXPECT(stage.told == 0);
    stage_close(&stage);
    EXPECT(stage.told == 1 && stage.code == -ECANCELED);

    stage_open(&stage);
    stage_close(&stage);
    EXPECT(stage.told == 0);
    stage_answer(&stage, LOST, NULL);
    EXPECT(stage.told == 1 && stage.code == -ETIMEDOUT);
}
