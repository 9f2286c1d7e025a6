#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* TorchrunQueues and the scheduling queues they map to. */

#define TORCHRUN(spec) "{'metadata':{'name':'dev'},'spec':{'nodeResources':{'gpus':2}" spec "}}"
#define KAI(labels, quota)                                                                        \
    "{'metadata':{'name':'dev','labels':{" labels "}},'spec':{'resources':{'gpu':{'quota':" quota \
    "}}}}"
#define MADE_IN(ns)                                                                             \
    "'torchrun.ai/managed-by':'jobqueue-controller','torchrun.ai/jobqueue':'dev','torchrun.ai/" \
    "jobqueue-namespace':'" ns "'"

static const struct {
    const char *why;
    const char *queue;
    const char *kai; /* NULL: none is there */
    const char *phase;
    const char *reason; /* of QueueReady */
    const char *message;
} rows[] = {
    {"its own", TORCHRUN(""), NULL, "Active", "QueueExists", "charged to scheduling queue dev"},
    {"one of that name in another namespace has it", TORCHRUN(""), KAI(MADE_IN("a"), "3"),
     "Updating", "QueueTaken",
     "scheduling queue dev belongs to TorchrunQueue a/dev; set spec.kaiQ"},
    {"named, it is shared", TORCHRUN(",'kaiQueue':'dev'"), KAI(MADE_IN("a"), "3"), "Active",
     "QueueExists", "charged to scheduling queue dev"},
    {"named with a quota of its own, which would be dropped",
     TORCHRUN(",'queue':{'name':'dev','resources':{'gpu':{'quota':5}}}"), KAI(MADE_IN("a"), "3"),
     "Updating", "QueueTaken", "spec.queue.resources would have no effect"},
    {"somebody's own Queue is used as it is",
     TORCHRUN(",'queue':{'name':'dev','resources':{'gpu':{'quota':5}}}"), KAI("", "3"), "Active",
     "QueueExists", "spec.queue.resources is not applied"},
};

TEST(a_torchrunqueue_hands_on_how_long_gpus_may_be_unused)
{
    static const char *const key = "muster.dev/suspend-unused-after";
    static const char *const specs[] = {TORCHRUN(",'suspendUnusedAfter':'30m'"),
                                        TORCHRUN(",'suspendUnusedAfter':'1h'"), TORCHRUN("")};
    static const char *const said[] = {"30m", "1h", ""};
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        test_case(said[i]);
        scene_put(&scene, &kind_torchrunqueue, specs[i]);
        scene_run(&scene, &torchrun_queue_controller, "dev");
        const struct json *kai = scene_get(&scene, &kind_queue, "dev");
        EXPECT(str_is(json_str(json_get(json_at(kai, "metadata.annotations"), key)), said[i]));
    }
    static const char *const labels[] = {"", "'muster.dev/suspend':'checkpoint'"};
    scene_put(&scene, &kind_torchrunqueue, specs[0]);
    for (size_t i = 0; i < COUNT_OF(labels); i++) {
        test_case(i ? "a node that can" : "no node can");
        scene_put(&scene, &kind_node,
                  str_printf(&scene.arena, "{'metadata':{'name':'a','labels':{%s}}}", labels[i]).p);
        scene_run(&scene, &torchrun_queue_controller, "dev");
        struct str words =
            json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"), "status.message");
        EXPECT(str_contains(words, STR("spec.suspendUnusedAfter does nothing")) == (i == 0));
    }
}

TEST(a_torchrunqueue_says_whose_scheduling_queue_it_has)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct str reason = STR_NONE;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
        if (rows[i].kai)
            scene_put(&scene, &kind_queue, rows[i].kai);
        scene_put(&scene, &kind_torchrunqueue, rows[i].queue);
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'j'},'spec':{'jobQueue':'dev','command':'x','numGPUs':1}}");
        scene_run(&scene, &torchrun_queue_controller, "dev");
        const struct json *status =
            json_get(scene_get(&scene, &kind_torchrunqueue, "dev"), "status");
        JSON_FOREACH(json_get(status, "conditions"), condition)
            if (str_is(json_str(json_get(condition, "type")), "QueueReady"))
                reason = json_str(json_get(condition, "reason"));
        EXPECT(str_is(json_str(json_get(status, "phase")), rows[i].phase));
        EXPECT(str_is(reason, rows[i].reason));
        EXPECT(str_contains(json_str(json_get(status, "message")), str_from(rows[i].message)));
        /* Jobs of a queue that cannot be are not charged to another's. */
        scene_run(&scene, &torchrun_job_controller, "j");
        EXPECT((scene_get(&scene, &kind_pod, "j-worker-0") != NULL) ==
               (str_is(str_from(rows[i].phase), "Active")));
    }
}

TEST(a_scheduling_queue_stays_until_the_last_job_of_a_deleted_queue_is_over)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(""));
    scene_put(&scene, &kind_torchrunjob,
              "{'metadata':{'name':'j'},'spec':{'jobQueue':'dev','command':'x','numGPUs':1},"
              "'status':{'phase':'Running'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    scene_drop(&scene, &kind_torchrunqueue, "dev");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(scene_get(&scene, &kind_queue, "dev") != NULL);
    scene_patch(&scene, &kind_torchrunjob, "j", "{'status':{'phase':'Succeeded'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(scene_get(&scene, &kind_queue, "dev") == NULL);
}

TEST(a_scheduling_queue_that_is_made_has_the_shares_that_were_given)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(",'queue':{'name':'dev','resources':{'gpu':{'quota':5,'limit':8}}}"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    const struct json *shares = json_at(scene_get(&scene, &kind_queue, "dev"), "spec.resources");
    EXPECT(json_i64_or(json_at(shares, "gpu.quota"), 0) == 5);
    EXPECT(json_i64_or(json_at(shares, "gpu.limit"), 0) == 8);
    EXPECT(json_i64_or(json_at(shares, "gpu.overQuotaWeight"), 0) == 1);
    EXPECT(json_i64_or(json_at(shares, "cpu.quota"), 0) == -1);
}

TEST(a_further_object_is_kept_as_its_template_says_unless_immutable_or_going)
{
    static const struct {
        const char *why;
        const char *immutable;
        const char *deleted;
        size_t patches;
    } cases[] = {
        {"it differs", "false", "", 1},
        {"it is not to be changed", "true", "", 0},
        {"it goes, and is made anew then", "false", ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         0},
    };
    struct kinds *kinds = kinds_new();

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct control_config config = {.default_queue = STR("leaf")};
        size_t patches = 0;

        test_case(cases[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_torchrunqueue,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'dev'},'spec':{'nodeResources':{'gpus':2},"
                             "'resources':[{'name':'x','immutable':%s,'template':{'apiVersion':'v1'"
                             ",'kind':'ConfigMap','data':{'a':'new'}}}]}}",
                             cases[i].immutable)
                      .p);
        scene_put(&scene, &kind_configmap,
                  str_printf(&scene.arena, "{'metadata':{'name':'x'%s},'data':{'a':'old'}}",
                             cases[i].deleted)
                      .p);
        struct control_input input = {.cache = scene.cache, .config = &config, .kinds = kinds};
        struct actions actions = {.arena = &scene.arena};
        torchrun_queue_controller.reconcile(&input, &(struct control_key){STR("n"), STR("dev")},
                                            &actions);
        for (size_t a = 0; a < actions.list.count; a++) {
            EXPECT(actions.list.items[a].kind != &kind_configmap ||
                   actions.list.items[a].type == ACTION_PATCH);
            patches += actions.list.items[a].kind == &kind_configmap;
        }
        EXPECT(patches == cases[i].patches);
    }
    kinds_free(kinds);
}

TEST(the_memory_of_nodeResources_is_a_limit_too)
{
    static const struct {
        const char *why;
        const char *template;
        const char *limit;
    } cases[] = {
        {"half of the GPUs, half of the memory", "", "4Gi"},
        {"the template's own limit stays",
         ",'podTemplate':{'spec':{'containers':[{'name':'trainer','resources':{'limits':{'memory':"
         "'9Gi'}}}]}}",
         "9Gi"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(cases[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_torchrunqueue,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'dev'},'spec':{'nodeResources':{'gpus':2,"
                             "'memory':'8Gi'}%s}}",
                             cases[i].template)
                      .p);
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'j'},'spec':{'jobQueue':'dev','command':'x','numGPUs':1}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        const struct json *resources =
            json_at(scene_get(&scene, &kind_pod, "j-worker-0"), "spec.containers.0.resources");
        EXPECT(str_is(json_str_at(resources, "requests.memory"), "4Gi"));
        EXPECT(str_is(json_str_at(resources, "limits.memory"), cases[i].limit));
    }
}

/* KAI Scheduler's own manifest is created with `create`: nothing of it may be there before. */
TEST(the_queue_named_default_is_made_when_another_needs_it)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_run(&scene, &defaults_controller, "");
    EXPECT(str_is(scene_names(&scene, &kind_queue), "default-parent-queue default-queue"));
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'x'},'spec':{'parentQueue':'default'}}");
    scene_run(&scene, &defaults_controller, "");
    EXPECT(scene_get(&scene, &kind_queue, "default") != NULL);
}

/* Deployments are not preemptible: in a queue with quota 0 none would ever run. */
TEST(the_default_queues_lend_where_they_are_told_to)
{
    static const char *const words[] = {"", "non-preemptible"};

    for (int lends = 0; lends < 2; lends++) {
        _cleanup_(scene_close) struct scene scene;
        struct control_config config = {
            .default_queue = STR("leaf"), .default_parent = STR("top"), .default_lends = lends};

        scene_open(&scene);
        struct control_input input = {.cache = scene.cache, .config = &config};
        struct actions actions = {.arena = &scene.arena};
        defaults_controller.reconcile(&input, &(struct control_key){STR(""), STR("")}, &actions);
        for (size_t i = 0; i < 2; i++) {
            const struct json *queue = actions.list.items[i].body;
            const struct json *notes = json_at(queue, "metadata.annotations");

            EXPECT(str_is(json_str_at(queue, "metadata.name"), i ? "leaf" : "top"));
            EXPECT(str_is(json_str(json_get(notes, "muster.dev/beyond-quota")), words[lends]));
            EXPECT(json_i64_or(json_at(queue, "spec.resources.cpu.quota"), -1) == 0);
        }
    }
}
