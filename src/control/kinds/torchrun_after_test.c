#include "api/kind.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* spec.after: who waits for whom, and what becomes of it. */

static void after_open(struct scene *scene)
{
    scene_open(scene);
    scene_put(scene, &kind_torchrunqueue,
              "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':1}}}");
}

static void after_put(struct scene *scene, const char *name, const char *after)
{
    scene_put(scene, &kind_torchrunjob,
              str_printf(&scene->arena,
                         "{'metadata':{'name':'%s'},'spec':{'jobQueue':'q','numGPUs':1,"
                         "'command':'true','after':[%s]}}",
                         name, after)
                  .p);
}

static bool after_is(struct scene *scene, const char *job, const char *phase, const char *message)
{
    const struct json *tree = scene_get(scene, &kind_torchrunjob, job);
    struct str words = json_str_at(tree, "status.message");
    bool fits =
        str_is(json_str_at(tree, "status.phase"), phase) && str_starts(words, str_from(message));

    if (!fits)
        test_fail(__FILE__, __LINE__, str_c(&scene->arena, words));
    return fits;
}

static bool after_has_pod(struct scene *scene, const char *job)
{
    return scene_get(scene, &kind_pod, str_printf(&scene->arena, "%s-worker-0", job).p) != NULL;
}

TEST(a_job_waits_for_the_success_of_another)
{
    struct scene scene;

    after_open(&scene);
    after_put(&scene, "b", "{'job':'a'}");
    scene_run(&scene, &torchrun_job_controller, "b");
    EXPECT(after_is(&scene, "b", "Queued", "waits for job a, which does not exist in namespace n"));
    after_put(&scene, "a", "");
    scene_run(&scene, &torchrun_job_controller, "a");
    scene_run(&scene, &torchrun_job_controller, "b");
    EXPECT(after_is(&scene, "b", "Queued", "waits for job a to succeed"));
    EXPECT(after_has_pod(&scene, "a") && !after_has_pod(&scene, "b"));
    scene_patch(&scene, &kind_torchrunjob, "a", "{'status':{'phase':'Succeeded'}}");
    scene_run(&scene, &torchrun_job_controller, "b");
    EXPECT(after_has_pod(&scene, "b"));
    /* What has been met stays met. */
    scene_drop(&scene, &kind_torchrunjob, "a");
    scene_run(&scene, &torchrun_job_controller, "b");
    EXPECT(after_is(&scene, "b", "Queued", "waiting to be scheduled"));
    scene_close(&scene);
}

TEST(a_dependency_that_can_no_longer_be_met_fails_the_job)
{
    static const struct {
        const char *why;
        const char *after;
        const char *end; /* of job a; NULL: it is deleted */
        const char *phase;
        const char *message;
    } rows[] = {
        {"it failed", "{'job':'a'}", "Failed", "Failed",
         "never starts (DependencyNeverSatisfied): spec.after asks for the success of job a, and "
         "job a is Failed"},
        {"it ran too long", "{'job':'a'}", "TimedOut", "Failed", "never starts"},
        {"it was deleted", "{'job':'a'}", NULL, "Failed",
         "never starts (DependencyNeverSatisfied): spec.after asks for the success of job a, and "
         "job a was deleted before it succeeded"},
        {"any end will do", "{'job':'a','when':'Ended'}", "Failed", "Queued", "waiting to be"},
        {"also that", "{'job':'a','when':'Ended'}", NULL, "Queued", "waiting to be"},
        {"one of two is not enough", "{'job':'a','when':'Ended'},{'job':'c'}", "Failed", "Queued",
         "waits for job c"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct scene scene;

        test_case(rows[i].why);
        after_open(&scene);
        after_put(&scene, "a", "");
        after_put(&scene, "b", rows[i].after);
        scene_run(&scene, &torchrun_job_controller, "a");
        scene_run(&scene, &torchrun_job_controller, "b");
        EXPECT(after_is(&scene, "b", "Queued", "waits for job a to "));
        if (rows[i].end)
            scene_patch(&scene, &kind_torchrunjob, "a",
                        str_printf(&scene.arena, "{'status':{'phase':'%s'}}", rows[i].end).p);
        else
            scene_drop(&scene, &kind_torchrunjob, "a");
        scene_run(&scene, &torchrun_job_controller, "b");
        EXPECT(after_is(&scene, "b", rows[i].phase, rows[i].message));
        scene_close(&scene);
    }
}

TEST(jobs_in_a_ring_say_so)
{
    struct scene scene;

    after_open(&scene);
    after_put(&scene, "a", "{'job':'b'}");
    after_put(&scene, "b", "{'job':'c'}");
    after_put(&scene, "c", "{'job':'a'}");
    scene_run(&scene, &torchrun_job_controller, "a");
    EXPECT(after_is(&scene, "a", "Pending", "spec.after: the job waits"));
    scene_close(&scene);
}

TEST(the_end_of_a_job_wakes_those_that_wait_for_it)
{
    struct scene scene;
    struct control_keys keys = {0};

    after_open(&scene);
    keys.arena = &scene.arena;
    after_put(&scene, "a", "");
    after_put(&scene, "b", "{'job':'a'}");
    scene_patch(&scene, &kind_torchrunjob, "a", "{'status':{'phase':'Running'}}");
    torchrun_job_controller.keys(
        scene.cache, cache_get(scene.cache, &kind_torchrunjob, STR("n"), STR("a")), &keys);
    EXPECT(keys.list.count == 1);
    scene_patch(&scene, &kind_torchrunjob, "a", "{'status':{'phase':'Failed'}}");
    torchrun_job_controller.keys(
        scene.cache, cache_get(scene.cache, &kind_torchrunjob, STR("n"), STR("a")), &keys);
    EXPECT(keys.list.count == 3 && str_is(keys.list.items[2].name, "b"));
    scene_close(&scene);
}
