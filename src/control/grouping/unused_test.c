#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "control/grouping/unused.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Work whose GPUs nobody uses. */

#define MINUTE INT64_C(60000)

static const struct {
    const char *why;
    struct unused unused;
    int64_t now_ms;
    enum unused_step step;
    int64_t at_ms;
} rows[] = {
    {"nobody said how long", {0, 1, 0, true}, 100 * MINUTE, UNUSED_LEAVE, 0},
    {"in use", {30 * MINUTE, 0, 0, true}, 100 * MINUTE, UNUSED_LEAVE, 0},
    {"nobody waits", {30 * MINUTE, MINUTE, 0, false}, 100 * MINUTE, UNUSED_LEAVE, 0},
    {"not for long", {30 * MINUTE, MINUTE, 0, true}, 10 * MINUTE, UNUSED_LEAVE, 26 * MINUTE},
    {"five minutes before",
     {30 * MINUTE, MINUTE, 0, true},
     26 * MINUTE,
     UNUSED_ANNOUNCE,
     31 * MINUTE},
    {"others came late: it has its notice all the same",
     {30 * MINUTE, MINUTE, 0, true},
     90 * MINUTE,
     UNUSED_ANNOUNCE,
     95 * MINUTE},
    {"of a short time half",
     {2 * MINUTE, MINUTE, 0, true},
     2 * MINUTE,
     UNUSED_ANNOUNCE,
     3 * MINUTE},
    {"announced", {30 * MINUTE, MINUTE, 31 * MINUTE, true}, 30 * MINUTE, UNUSED_LEAVE, 31 * MINUTE},
    {"over", {30 * MINUTE, MINUTE, 31 * MINUTE, true}, 31 * MINUTE, UNUSED_SUSPEND, 31 * MINUTE},
    {"over, and nobody waits any more",
     {30 * MINUTE, MINUTE, 31 * MINUTE, false},
     40 * MINUTE,
     UNUSED_LEAVE,
     0},
    {"used after it was announced",
     {30 * MINUTE, 28 * MINUTE, 31 * MINUTE, true},
     32 * MINUTE,
     UNUSED_TAKE_BACK,
     0},
    {"in use again", {30 * MINUTE, 0, 31 * MINUTE, true}, 31 * MINUTE, UNUSED_TAKE_BACK, 0},
    {"allowed again", {0, MINUTE, 31 * MINUTE, true}, 31 * MINUTE, UNUSED_TAKE_BACK, 0},
};

TEST(gpus_that_nobody_uses_are_given_up_after_notice_and_while_others_wait)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t at_ms = -1;

        test_case(rows[i].why);
        EXPECT(unused_judge(&rows[i].unused, rows[i].now_ms, &at_ms) == rows[i].step);
        EXPECT(at_ms == rows[i].at_ms);
    }
}

/* ---- the controller ---- */

#define QUEUE(after)                                                            \
    "{'metadata':{'name':'top','annotations':{'muster.dev/suspend-unused-after" \
    "':'" after "'}},'spec':{}}"
#define GROUP(name, more) \
    "{'metadata':{'name':'" name "'},'spec':{'queue':'q','minMember':1}," more "'x':0}"
#define WAITS(reason)                                                                     \
    "'status':{'message':'waits','resourcesStatus':{'requested':{'nvidia.com/gpu':'1'}}," \
    "'schedulingConditions':[{'reasons':[{'reason':'" reason "'}]}]},"
#define POD(name, group, device)                                             \
    "{'metadata':{'name':'" name "','annotations':{'pod-group-name':'" group \
    "','torchrun.ai/gpu-devices':'" device                                   \
    "'}},'spec':{'nodeName':'a'},'status':{'phase':'Running','startTime':'2026-01-01T00:00:00Z'}}"
#define NODE(unused)                                                               \
    "{'metadata':{'name':'a','labels':{'muster.dev/suspend':'freeze'},'annotation" \
    "s':{'muster.dev/gpu-unused-since':'" unused "'}}}"
#define NOON INT64_C(1767268800000) /* 2026-01-01T12:00:00Z */

static void noon(struct scene *scene)
{
    scene_open(scene);
    scene->now_ms = NOON;
    scene_put(scene, &kind_queue, QUEUE("30m"));
    scene_put(scene, &kind_queue, "{'metadata':{'name':'q'},'spec':{'parentQueue':'top'}}");
    scene_put(scene, &kind_node, NODE("2026-01-01T11:00:00Z,2026-01-01T10:00:00Z,-"));
    scene_put(scene, &kind_podgroup, GROUP("g", ""));
    scene_put(scene, &kind_podgroup, GROUP("h", ""));
    scene_put(scene, &kind_podgroup, GROUP("busy", ""));
    scene_put(scene, &kind_pod, POD("p", "g", "0"));
    scene_put(scene, &kind_pod, POD("r", "h", "1"));
    scene_put(scene, &kind_pod, POD("b", "busy", "2"));
}

static struct str wish(struct scene *scene, const char *pod)
{
    return json_str(json_get(json_at(scene_get(scene, &kind_pod, pod), "metadata.annotations"),
                             "muster.dev/suspend"));
}

static bool announced(struct scene *scene, const char *group)
{
    return json_str(
               json_get(json_at(scene_get(scene, &kind_podgroup, group), "metadata.annotations"),
                        "muster.dev/suspend-unused-at"))
               .len > 0;
}

static void look(struct scene *scene, int64_t minutes)
{
    scene->now_ms += minutes * MINUTE;
    scene_run(scene, &unused_controller, "");
}

TEST(what_is_unused_for_longest_gives_way_and_comes_back_when_it_is_wanted)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    look(&scene, 0);
    EXPECT(!announced(&scene, "g") && !announced(&scene, "h")); /* nobody waits */
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("LargerThanAnyNode")));
    look(&scene, 0);
    EXPECT(!announced(&scene, "h")); /* no GPU of anybody would help it */
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    look(&scene, 0);
    EXPECT(announced(&scene, "g") && announced(&scene, "h") && !announced(&scene, "busy"));
    EXPECT(str_contains(scene.events, STR("GpusUnused")));
    EXPECT(str_contains(scene.event_words, STR("At 2026-01-01T12:05:00Z it is suspended")));
    look(&scene, 4);
    EXPECT(!wish(&scene, "p").len && !wish(&scene, "r").len);
    look(&scene, 1);
    EXPECT(!wish(&scene, "p").len && str_is(wish(&scene, "r"), "unused")); /* one at a time */
    look(&scene, 1);
    EXPECT(!wish(&scene, "p").len);
    scene_patch(&scene, &kind_pod, "r",
                "{'status':{'conditions':[{'type':'Suspended','status':'True','reason':'Frozen',"
                "'lastTransitionTime':'2026-01-01T12:06:00Z'}]}}");
    scene_patch(&scene, &kind_podgroup, "w", "{'status':{'message':null}}");
    look(&scene, 10);
    EXPECT(!wish(&scene, "p").len && str_is(wish(&scene, "r"), "unused"));
    scene_patch(&scene, &kind_pod, "r",
                "{'metadata':{'annotations':{'muster.dev/resumed-at':'2026-01-01T12:15:00Z'}}}");
    look(&scene, 0);
    EXPECT(str_is(wish(&scene, "r"), "yield") && !announced(&scene, "h"));
    EXPECT(str_contains(scene.events, STR("Wanted")));
}

TEST(one_that_is_stuck_on_its_way_out_keeps_the_others_for_five_minutes_only)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    look(&scene, 0);
    look(&scene, 30); /* long after it was announced for */
    EXPECT(!wish(&scene, "p").len && str_is(wish(&scene, "r"), "unused"));
    look(&scene, 4);
    EXPECT(!wish(&scene, "p").len);
    look(&scene, 1); /* its node has not said a word */
    EXPECT(str_is(wish(&scene, "p"), "unused") && str_is(wish(&scene, "r"), "unused"));
}

TEST(the_next_gives_way_five_seconds_after_the_last_and_not_before)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    look(&scene, 0);
    look(&scene, 5);
    EXPECT(!wish(&scene, "p").len && str_is(wish(&scene, "r"), "unused"));
    scene_patch(&scene, &kind_pod, "r",
                "{'status':{'conditions':[{'type':'Suspended','status':'True','reason':'Frozen',"
                "'lastTransitionTime':'2026-01-01T12:06:00Z'}]}}");
    scene.now_ms = NOON + 6 * MINUTE + 4999;
    look(&scene, 0);
    EXPECT(!wish(&scene, "p").len);
    scene.now_ms++;
    look(&scene, 0);
    EXPECT(str_is(wish(&scene, "p"), "unused"));
}

TEST(a_job_whose_gpus_were_unused_is_back_in_line_when_it_is_resumed)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_torchrunqueue,
              "{'metadata':{'name':'dev'},'spec':{'nodeResources':{'gpus':1}}}");
    scene_put(&scene, &kind_torchrunjob,
              "{'metadata':{'name':'j'},'spec':{'jobQueue':'dev','command':'x','numGPUs':1}}");
    scene_run(&scene, &torchrun_queue_controller, "dev");
    scene_run(&scene, &torchrun_job_controller, "j");
    scene_patch(
        &scene, &kind_pod, "j-worker-0",
        "{'metadata':{'annotations':{'muster.dev/suspend':'unused'}},'spec':{'nodeName':'a'},"
        "'status':{'phase':'Running','conditions':[{'type':'Suspended','status':'True',"
        "'reason':'Frozen','lastTransitionTime':'2026-01-01T11:00:00Z'}]}}");
    scene_patch(&scene, &kind_torchrunjob, "j",
                "{'metadata':{'annotations':{'muster.dev/resumed-at':'2026-01-01T10:59:00Z'}}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(wish(&scene, "j-worker-0"), "unused")); /* that was before */
    EXPECT(str_contains(json_str_at(scene_get(&scene, &kind_torchrunjob, "j"), "status.message"),
                        STR("its GPUs were unused")));
    scene_patch(&scene, &kind_torchrunjob, "j",
                "{'metadata':{'annotations':{'muster.dev/resumed-at':'2026-01-01T11:30:00Z'}}}");
    scene_run(&scene, &torchrun_job_controller, "j");
    EXPECT(str_is(wish(&scene, "j-worker-0"), "yield"));
}

TEST(work_that_may_keep_its_gpus_and_work_that_cannot_be_moved_keep_them)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    scene_patch(&scene, &kind_podgroup, "h",
                "{'metadata':{'annotations':{'muster.dev/suspend-unused-after':'never'}}}");
    look(&scene, 0);
    look(&scene, 5);
    EXPECT(str_is(wish(&scene, "p"), "unused") && !wish(&scene, "r").len);
    scene_patch(&scene, &kind_pod, "p",
                "{'status':{'conditions':[{'type':'Suspended','status':'False','reason':"
                "'SuspendFailed','lastTransitionTime':'2026-01-01T12:05:00Z'}]}}");
    look(&scene, 1);
    EXPECT(!wish(&scene, "p").len && !announced(&scene, "g"));
    look(&scene, 20);
    EXPECT(!announced(&scene, "g")); /* it has its time again */
}

TEST(only_work_that_can_give_way_is_told_that_it_will)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *name;
        const char *patch; /* NULL: it is gone */
        bool told;         /* the group h */
    } changes[] = {
        {"as it is", &kind_node, "a", "{}", true},
        {"its own word", &kind_podgroup, "h",
         "{'metadata':{'annotations':{'muster.dev/suspend-unused-after':'10m'}}}", true},
        {"a word that is no time", &kind_queue, "top",
         "{'metadata':{'annotations':{'muster.dev/suspend-unused-after':'soon'}}}", false},
        {"less than none", &kind_queue, "top",
         "{'metadata':{'annotations':{'muster.dev/suspend-unused-after':'-5m'}}}", false},
        {"a queue that is not there", &kind_podgroup, "h", "{'spec':{'queue':'none'}}", false},
        {"no queue", &kind_podgroup, "h", "{'spec':{'queue':null}}", false},
        {"queues in a circle that say nothing", &kind_queue, "q", "{'spec':{'parentQueue':'q'}}",
         false},
        {"a group that is going", &kind_podgroup, "h",
         "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}", false},
        {"a node that is gone", &kind_node, "a", NULL, false},
        {"a node that cannot suspend", &kind_node, "a",
         "{'metadata':{'labels':{'muster.dev/suspend':null}}}", false},
        {"a node that does not measure", &kind_node, "a",
         "{'metadata':{'annotations':{'muster.dev/gpu-unused-since':null}}}", false},
        {"one that measures fewer cards", &kind_node, "a",
         "{'metadata':{'annotations':{'muster.dev/gpu-unused-since':'2026-01-01T11:00:00Z'}}}",
         false},
        {"a card that is none", &kind_pod, "r",
         "{'metadata':{'annotations':{'torchrun.ai/gpu-devices':'x'}}}", false},
        {"two cards, of which one is in use", &kind_pod, "r",
         "{'metadata':{'annotations':{'torchrun.ai/gpu-devices':'1,2'}}}", false},
        {"two cards that nobody uses", &kind_pod, "r",
         "{'metadata':{'annotations':{'torchrun.ai/gpu-devices':'0,1'}}}", true},
        {"no card", &kind_pod, "r", "{'metadata':{'annotations':{'torchrun.ai/gpu-devices':null}}}",
         false},
        {"a pod that is going", &kind_pod, "r",
         "{'metadata':{'deletionTimestamp':'2026-01-01T00:00:00Z'}}", false},
        {"one that has ended", &kind_pod, "r", "{'status':{'phase':'Succeeded'}}", false},
        {"one that has failed", &kind_pod, "r", "{'status':{'phase':'Failed'}}", false},
        {"one that has not begun", &kind_pod, "r", "{'status':{'phase':'Pending'}}", false},
        {"one that somebody suspends", &kind_pod, "r",
         "{'metadata':{'annotations':{'muster.dev/suspend':'hold'}}}", false},
        {"others that wait for a part of a card", &kind_podgroup, "w",
         "{'status':{'resourcesStatus':{'requested':{'nvidia.com/gpu':null,'run.ai/gpu.memory':"
         "'1'}}}}",
         true},
        {"others that wait for no card", &kind_podgroup, "w",
         "{'status':{'resourcesStatus':{'requested':{'nvidia.com/gpu':null}}}}", false},
        {"others that said nothing yet", &kind_podgroup, "w", "{'status':{'message':null}}", false},
    };

    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(changes[i].why);
        noon(&scene);
        scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
        if (changes[i].patch)
            scene_patch(&scene, changes[i].kind, changes[i].name, changes[i].patch);
        else
            scene_drop(&scene, changes[i].kind, changes[i].name);
        look(&scene, 0);
        EXPECT(announced(&scene, "h") == changes[i].told);
    }
}

TEST(what_was_announced_is_taken_back_when_it_may_keep_its_gpus)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    look(&scene, 0);
    EXPECT(announced(&scene, "h"));
    scene_patch(&scene, &kind_queue, "top",
                "{'metadata':{'annotations':{'muster.dev/suspend-unused-after':null}}}");
    look(&scene, 1);
    EXPECT(!announced(&scene, "h") && !announced(&scene, "g"));
}

TEST(a_gang_of_which_one_pod_cannot_be_moved_runs_on_whole)
{
    _cleanup_(scene_close) struct scene scene;

    noon(&scene);
    scene_put(&scene, &kind_pod, POD("s", "h", "1"));
    scene_put(&scene, &kind_podgroup, GROUP("w", WAITS("NotEnoughResources")));
    look(&scene, 0);
    look(&scene, 5);
    EXPECT(str_is(wish(&scene, "r"), "unused") && str_is(wish(&scene, "s"), "unused"));
    scene_patch(&scene, &kind_pod, "r",
                "{'status':{'conditions':[{'type':'Suspended','status':'True','reason':'Frozen',"
                "'lastTransitionTime':'2026-01-01T12:05:00Z'}]}}");
    scene_patch(&scene, &kind_pod, "s",
                "{'status':{'conditions':[{'type':'Suspended','status':'False','reason':"
                "'SuspendFailed','lastTransitionTime':'2026-01-01T12:05:00Z'}]}}");
    look(&scene, 1);
    /* The one that stands goes on as soon as it has its GPU again. */
    EXPECT(str_is(wish(&scene, "r"), "yield") && str_is(wish(&scene, "s"), "yield"));
    EXPECT(!announced(&scene, "h"));
}
