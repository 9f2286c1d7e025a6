#include "api/api.h"
#include "base/err.h"
#include "base/str.h"
#include "exec/learner.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* A server that is asked and answers when the test says so. */
struct stage {
    struct api api;
    api_done_fn *done;
    void *user;
    size_t asked;
    size_t told;
    size_t found;
};

static void stage_learn(struct api *api,
                        struct str api_version,
                        struct str kind,
                        api_done_fn *done,
                        void *user)
{
    struct stage *stage = (struct stage *)api;

    EXPECT(str_is(api_version, "example.com/v1") && str_is(kind, "Flow"));
    stage->asked++;
    stage->done = done;
    stage->user = user;
}

static void on_told(void *user, const struct learner_key *key, bool found)
{
    struct stage *stage = user;

    EXPECT(key->unit == stage && str_is(key->ns, "d"));
    stage->told++;
    stage->found += found;
}

static struct learner *stage_open(struct stage *stage)
{
    static const struct api_ops ops = {.learn = stage_learn};

    *stage = (struct stage){.api = {.ops = &ops}};
    return learner_new(
        &(struct learner_options){.api = &stage->api, .told = on_told, .user = stage});
}

static void ask(struct stage *stage, struct learner *learner, const char *name)
{
    learner_ask(learner, STR("example.com/v1"), STR("Flow"),
                &(struct learner_key){stage, STR("d"), str_from(name)});
}

TEST(a_kind_is_asked_for_once_for_all_who_want_to_know)
{
    struct stage stage;
    struct learner *learner = stage_open(&stage);

    ask(&stage, learner, "a");
    ask(&stage, learner, "b");
    EXPECT(stage.asked == 1 && stage.told == 0);
    stage.done(stage.user, &(struct api_result){0});
    EXPECT(stage.told == 2 && stage.found == 2);
    learner_free(learner);
}

TEST(a_kind_that_was_not_found_is_asked_for_again)
{
    struct stage stage;
    struct learner *learner = stage_open(&stage);
    struct err err = {0};

    (void)err_set(&err, -ENOENT, "no such kind");
    ask(&stage, learner, "a");
    stage.done(stage.user, &(struct api_result){.code = -ENOENT, .err = &err});
    EXPECT(stage.told == 1 && stage.found == 0);
    ask(&stage, learner, "a");
    EXPECT(stage.asked == 2);
    stage.done(stage.user, &(struct api_result){0});
    EXPECT(stage.found == 1);
    learner_free(learner);
}

TEST(an_answer_that_nobody_waits_for_is_dropped)
{
    struct stage stage;
    struct learner *learner = stage_open(&stage);

    ask(&stage, learner, "a");
    learner_free(learner);
    stage.done(stage.user, &(struct api_result){0});
    EXPECT(stage.told == 0);
}
