#include "api/kind.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* spec.notify: what is told, when, and how often. */

#define START_MS ((int64_t)1000000000000) /* 2001-09-09T01:46:40Z */

static void notify_put(struct scene *scene, const char *events, const char *status)
{
    scene_open(scene);
    scene->now_ms = START_MS;
    scene_put(scene, &kind_torchrunjob,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','numGPUs':2,'command':"
                         "'true','notify':{'url':'https://chat.example/x'%s}},'status':{%s}}",
                         events, status)
                  .p);
}

static void notify_look(struct scene *scene)
{
    scene_run(scene, &torchrun_notify_controller, "j");
}

static struct str notify_known(struct scene *scene, const char *key)
{
    return json_str(
        json_get(json_at(scene_get(scene, &kind_torchrunjob, "j"), "status.notify"), key));
}

#define RUNNING "'phase':'Running','startTime':'2001-09-09T01:46:40Z','message':'2 of 2 pods run'"
#define ENDED                                                               \
    "'phase':'Failed','startTime':'2001-09-09T01:46:40Z','completionTime':" \
    "'2001-09-09T01:46:50Z','exitCode':7,'message':'it broke'"

TEST(a_job_that_waits_has_no_news)
{
    struct scene scene;

    notify_put(&scene, "", "'phase':'Queued'");
    notify_look(&scene);
    EXPECT(!notify_known(&scene, "start").len && !scene.posts.len);
    scene_close(&scene);
}

TEST(start_and_end_of_a_job_are_told_once_each)
{
    struct scene scene;

    notify_put(&scene, "", RUNNING);
    notify_look(&scene);
    EXPECT(str_is(notify_known(&scene, "start"), "Sent"));
    EXPECT(str_starts(scene.posts,
                      STR("https://chat.example/x {\"event\":\"Started\",\"time\":"
                          "\"2001-09-09T01:46:40Z\",\"namespace\":\"n\",\"job\":\"j\",\"uid\":"
                          "\"u-j\",\"text\":\"job n/j: Started: 2 of 2 pods run\",\"phase\":"
                          "\"Running\"")));
    size_t told = scene.posts.len;
    notify_look(&scene);
    EXPECT(scene.posts.len == told);
    scene_patch(&scene, &kind_torchrunjob, "j", "{'status':{" ENDED "}}");
    scene.now_ms += 10000;
    notify_look(&scene);
    EXPECT(str_is(notify_known(&scene, "end"), "Sent"));
    EXPECT(str_contains(scene.posts, STR("\"event\":\"Failed\"")) &&
           str_contains(scene.posts, STR("\"exitCode\":7")));
    scene_close(&scene);
}

TEST(only_the_events_that_are_asked_for_are_told)
{
    struct scene scene;

    notify_put(&scene, ",'events':['Failed']", ENDED);
    notify_look(&scene);
    EXPECT(str_is(notify_known(&scene, "start"), "NotWanted"));
    EXPECT(str_is(notify_known(&scene, "end"), "Sent"));
    EXPECT(!str_contains(scene.posts, STR("Started")));
    scene_close(&scene);
}

TEST(what_nobody_takes_is_given_up_and_said)
{
    struct scene scene;

    notify_put(&scene, "", ENDED);
    scene.refusal = STR("the answer was HTTP status 404");
    scene.now_ms = START_MS + 400000;
    notify_look(&scene);
    EXPECT(str_is(notify_known(&scene, "start"), "GivenUp"));
    EXPECT(str_is(notify_known(&scene, "end"), "GivenUp"));
    EXPECT(!scene.posts.len);
    EXPECT(str_contains(scene.event_words,
                        STR("spec.notify.url could not be told that the job has Failed: the answer "
                            "was HTTP status 404")));
    scene_close(&scene);
}
