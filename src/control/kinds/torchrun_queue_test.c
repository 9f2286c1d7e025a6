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

TEST(a_torchrunqueue_hands_on_whose_work_is_taken_and_how_long_that_may_run)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'maxRunTime':'8h','namespaces':['a']"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    const struct json *kai = scene_get(&scene, &kind_queue, "dev");
    EXPECT(str_is(json_str_at(kai, "spec.maxRunTime"), "8h"));
    EXPECT(str_is(json_str_at(kai, "spec.namespaces.0"), "a"));
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(",'namespaceSelector':{'matchLabels':{'team':'a'}}"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    kai = scene_get(&scene, &kind_queue, "dev");
    EXPECT(!json_at(kai, "spec.maxRunTime") && !json_at(kai, "spec.namespaces"));
    EXPECT(str_is(json_str_at(kai, "spec.namespaceSelector.matchLabels.team"), "a"));
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
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'x','labels':{'torchrun.ai/queue':'dev'}%s},"
                             "'data':{'a':'old'}}",
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

static struct str condition_words(struct scene *scene, const char *type, const char *field)
{
    JSON_FOREACH(json_at(scene_get(scene, &kind_torchrunqueue, "dev"), "status.conditions"), each)
        if (str_is(json_str(json_get(each, "type")), type))
            return json_str(json_get(each, field));
    return STR_NONE;
}

TEST(a_torchrunqueue_that_makes_no_sense_says_so_once)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'image':7"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(condition_words(&scene, "Valid", "reason"), "ValidationError"));
    EXPECT(str_is(condition_words(&scene, "Valid", "message"),
                  "the queue's spec.image: 7 is not a string"));
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'x'},'spec':{'parentQueue':'dev'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(scene.events, "ValidationError"));
    scene_patch(&scene, &kind_torchrunqueue, "dev", "{'spec':{'image':'i'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(condition_words(&scene, "Valid", "reason"), "ValidationPassed"));
    EXPECT(
        str_contains(json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"), "status.message"),
                     STR("has child queues (x)")));
}

#define TRAINER(generation, field)                                    \
    "{'metadata':{'name':'dev','generation':" generation "},'spec':{" \
    "'podTemplate':{'spec':{'containers':[{'name':'trainer','" field "':'i'}]}}}}"

TEST(a_torchrunqueue_with_a_misspelt_field_is_not_valid)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue, TRAINER("1", "imagee"));
    for (int i = 0; i < 2; i++) {
        scene_run(&scene, &torchrun_queue_controller, "dev");
        EXPECT(str_is(condition_words(&scene, "Valid", "status"), "False"));
        EXPECT(str_is(condition_words(&scene, "Valid", "message"),
                      "field spec.podTemplate.spec.containers[0].imagee: there is no such field; "
                      "see kubectl explain torchrunqueue"));
    }
    EXPECT(str_is(scene.events, "ValidationError"));
    scene_put(&scene, &kind_torchrunqueue, TRAINER("2", "image"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(condition_words(&scene, "Valid", "status"), "True"));
}

TEST(a_scheduling_queue_follows_its_torchrunqueue)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'queue':{'name':'a','parentQueue':'top'}"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(
        str_contains(json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"), "status.message"),
                     STR("parent top of scheduling queue a does not exist")));
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(",'queue':{'name':'a','parentQueue':'a','resources':{'gpu':{'quota':4}}}"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    const struct json *kai = scene_get(&scene, &kind_queue, "a");
    EXPECT(!json_at(kai, "spec.parentQueue")); /* none is its own parent */
    EXPECT(json_i64_or(json_at(kai, "spec.resources.gpu.quota"), 0) == 4);
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'queue':{'name':'b'}"));
    scene_patch(&scene, &kind_queue, "a",
                "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:41Z'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(scene_get(&scene, &kind_queue, "a") != NULL); /* it goes already */
    scene_patch(&scene, &kind_queue, "a", "{'metadata':{'deletionTimestamp':null}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(scene_names(&scene, &kind_queue), "default b"));
    scene_patch(&scene, &kind_torchrunqueue, "dev",
                "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:41Z'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(scene_names(&scene, &kind_queue), "default"));
}

TEST(a_torchrunqueue_says_what_somebody_elses_queue_does_not_do_for_it)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_queue, KAI("", "3"));
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'suspendUnusedAfter':'30m'"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(
        str_contains(json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"), "status.message"),
                     STR("spec.suspendUnusedAfter is not applied: somebody else made it")));
}

#define RESOURCE(more) ",'resources':[{'name':'x','nameMode':'prefix','template':{" more "}}]"

TEST(further_objects_of_a_torchrunqueue_are_made_and_kept)
{
    _cleanup_(scene_close) struct scene scene;
    struct kinds *kinds = kinds_new();

    scene_open(&scene);
    scene.kinds = kinds;
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(RESOURCE("'apiVersion':'example.com/v1','kind':'Odd'")));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"),
                              "status.resourceStatuses.0.message"),
                  "the server knows no kind Odd in apiVersion \"example.com/v1\""));
    EXPECT(str_is(condition_words(&scene, "ResourcesReady", "status"), "False"));
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(RESOURCE("'apiVersion':'v1','kind':'ConfigMap','metadata':{'labels':{'l':'1'"
                                "}},'data':{'a':'1','b':'1'}")));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    const struct json *map = scene_get(&scene, &kind_configmap, "dev-x");
    EXPECT(str_is(json_str_at(map, "metadata.ownerReferences.0.name"), "dev"));
    EXPECT(str_is(json_str_at(map, "metadata.labels.l"), "1"));
    EXPECT(str_is(condition_words(&scene, "ResourcesReady", "status"), "True"));
    scene_patch(&scene, &kind_configmap, "dev-x", "{'data':{'a':'2','b':'2','c':'2'}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    map = scene_get(&scene, &kind_configmap, "dev-x");
    EXPECT(str_is(json_str_at(map, "data.a"), "1") && str_is(json_str_at(map, "data.b"), "1"));
    EXPECT(str_is(json_str_at(map, "data.c"), "2")); /* what others added stays */
    scene_put(&scene, &kind_torchrunqueue,
              TORCHRUN(RESOURCE("'apiVersion':'scheduling.k8s.io/v1','kind':'PriorityClass',"
                                "'value':5")));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    const struct json *class = scene_get(&scene, &kind_priorityclass, "dev-x");
    EXPECT(class && !json_at(class, "metadata.ownerReferences"));
    EXPECT(!json_at(class, "metadata.namespace"));
    scene_run(&scene, &torchrun_queue_controller, "dev");
    kinds_free(kinds);
}

/* Accepted means done: the object of another is not this queue's, and it does not become it. */
TEST(an_object_that_another_queue_has_is_said_to_be_taken)
{
#define MESSAGE           "status.resourceStatuses.0.message"
#define NAMED(kind, more) ",'resources':[{'name':'x','template':{" kind more "}}]"
#define MAP               "'apiVersion':'v1','kind':'ConfigMap'"
#define CLASS             "'apiVersion':'scheduling.k8s.io/v1','kind':'PriorityClass','value':5"
    static const struct {
        const char *why;
        const char *queue; /* members of spec */
        const struct kind *kind;
        const char *object; /* that is there */
        const char *says;
    } taken[] = {
        {"of another queue", NAMED(MAP, ",'data':{'a':'1'}"), &kind_configmap,
         "{'metadata':{'name':'x','labels':{'torchrun.ai/queue':'first'},'ownerReferences':[{"
         "'apiVersion':'torchrun.ai/v1alpha1','kind':'TorchrunQueue','name':'first','uid':'u',"
         "'controller':true}]}}",
         "it belongs to TorchrunQueue first; spec.resources can have another name for it, or "
         "nameMode prefix"},
        {"nobody's", NAMED(MAP, ",'data':{'a':'1'}"), &kind_configmap, "{'metadata':{'name':'x'}}",
         "somebody else made it; "},
        {"without an owner, and made for this queue", NAMED(MAP, ",'data':{'a':'1'}"),
         &kind_configmap, "{'metadata':{'name':'x','labels':{'torchrun.ai/queue':'dev'}}}", ""},
        {"of a queue of that name elsewhere", NAMED(CLASS, ""), &kind_priorityclass,
         "{'metadata':{'name':'x','labels':{'torchrun.ai/queue':'dev',"
         "'torchrun.ai/queue-namespace':'other'}},'value':5}",
         "it belongs to TorchrunQueue dev of namespace other; "},
    };
    static const char twice[] = ",'resources':[{'name':'y','template':{" MAP "}},"
                                "{'name':'y','template':{" MAP "}}]";

    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        _cleanup_(scene_close) struct scene scene;
        struct kinds *kinds = kinds_new();

        test_case(taken[i].why);
        scene_open(&scene);
        scene.kinds = kinds;
        scene_put(&scene, &kind_queue, "{'metadata':{'name':'default'},'spec':{}}");
        scene_put(&scene, taken[i].kind, taken[i].object);
        scene_put(&scene, &kind_torchrunqueue,
                  str_printf(&scene.arena, TORCHRUN("%s"), taken[i].queue).p);
        scene_run(&scene, &torchrun_queue_controller, "dev");
        const struct json *queue = scene_get(&scene, &kind_torchrunqueue, "dev");
        EXPECT(str_starts(json_str_at(queue, MESSAGE), str_from(taken[i].says)) &&
               !json_str_at(queue, MESSAGE).len == !*taken[i].says);
        EXPECT(str_is(condition_words(&scene, "ResourcesReady", "status"),
                      *taken[i].says ? "False" : "True"));
        if (taken[i].kind == &kind_configmap)
            EXPECT(!json_at(scene_get(&scene, taken[i].kind, "x"), "data.a") == !!*taken[i].says);
        scene_put(&scene, &kind_torchrunqueue, str_printf(&scene.arena, TORCHRUN("%s"), twice).p);
        scene_run(&scene, &torchrun_queue_controller, "dev");
        EXPECT(str_is(json_str_at(scene_get(&scene, &kind_torchrunqueue, "dev"),
                                  "status.resourceStatuses.1.message"),
                      "spec.resources has the same object above"));
        kinds_free(kinds);
    }
}

TEST(a_torchrunqueue_hears_of_its_queues_and_jobs)
{
    _cleanup_(scene_close) struct scene scene;
    const struct controller *controller = &torchrun_queue_controller;

    scene_open(&scene);
    scene_put(&scene, &kind_torchrunqueue, TORCHRUN(",'queue':{'name':'a','parentQueue':'top'}"));
    scene_run(&scene, controller, "dev");
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'top'},'spec':{}}");
    scene_put(&scene, &kind_queue, "{'metadata':{'name':'x'},'spec':{}}");
    scene_put(&scene, &kind_torchrunjob, "{'metadata':{'name':'j'},'spec':{'jobQueue':'dev'}}");
    scene_put(&scene, &kind_torchrunjob, "{'metadata':{'name':'k'},'spec':{}}");
    scene_put(&scene, &kind_configmap,
              "{'metadata':{'name':'m','ownerReferences':[{'apiVersion':'torchrun.ai/v1alpha1',"
              "'kind':'TorchrunQueue','name':'dev','uid':'u','controller':true}]}}");
    scene_put(&scene, &kind_configmap, "{'metadata':{'name':'n'}}");
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunqueue, "dev"), "dev"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_queue, "a"), "dev dev"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_queue, "top"), "dev"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_queue, "x"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunjob, "j"), "dev"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_torchrunjob, "k"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_configmap, "m"), "dev"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_configmap, "n"), ""));
}

/* The one that is there was made by an earlier version, for a smaller job. */
TEST(what_jobs_share_grows_with_them_and_is_of_none_of_them)
{
    for (int may = 0; may < 2; may++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_node,
                  "{'metadata':{'name':'a'},'status':{'allocatable':{'nvidia.com/gpu':'4'}}}");
        scene_put(&scene, &kind_storageclass,
                  str_printf(&scene.arena, "{'metadata':{'name':'c'},'allowVolumeExpansion':%s}",
                             may ? "true" : "false")
                      .p);
        scene_put(&scene, &kind_pvc,
                  "{'metadata':{'name':'q-checkpoints','labels':{'torchrun-job-name':'first'}},"
                  "'spec':{'storageClassName':'c','resources':{'requests':{'storage':'5Gi'}}},"
                  "'status':{'phase':'Bound'}}");
        scene_put(&scene, &kind_torchrunqueue,
                  "{'metadata':{'name':'q'},'spec':{'nodeResources':{'gpus':4},"
                  "'storage':{'checkpoints':{'enabled':true,'sizePerGPU':'5Gi'}}}}");
        scene_put(&scene, &kind_torchrunjob,
                  "{'metadata':{'name':'j'},'spec':{'jobQueue':'q','command':'x','numGPUs':4}}");
        scene_run(&scene, &torchrun_job_controller, "j");
        const struct json *claim = scene_get(&scene, &kind_pvc, "q-checkpoints");
        EXPECT(!json_get(json_at(claim, "metadata.labels"), "torchrun-job-name"));
        EXPECT(str_is(json_str(json_get(json_at(claim, "metadata.labels"), "torchrun.ai/jobqueue")),
                      "q"));
        EXPECT(str_is(json_str_at(claim, "spec.resources.requests.storage"), may ? "20Gi" : "5Gi"));
        EXPECT(str_contains(scene.events, STR("ClaimTooSmall")) == !may);
    }
}
