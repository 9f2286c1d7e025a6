#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pods that name a PodGroup of scheduling.k8s.io: what the grouper and the status controller do. */
struct stage {
    struct arena arena;
    struct cache *cache;
    struct actions actions;
    bool others; /* there are other schedulers */
    const struct kind *unwatched;
};

static bool is_watched(const void *user, const struct kind *kind)
{
    return kind != ((const struct stage *)user)->unwatched;
}

static void stage_open(struct stage *stage)
{
    *stage = (struct stage){.cache = cache_new(1)};
    stage->actions.arena = &stage->arena;
}

static void stage_close(struct stage *stage)
{
    cache_free(stage->cache);
    arena_done(&stage->arena);
}

static void put(struct stage *stage, const struct kind *kind, const char *text)
{
    struct object *object = NULL;

    EXPECT(object_new(kind, str_from(text), &object, NULL) == 0);
    if (object)
        cache_put(stage->cache, object);
    object_unref(object);
}

static void react(struct stage *stage, const struct controller *controller, const char *name)
{
    struct control_config config = {.scheduler_name = STR("kai-scheduler"),
                                    .other_schedulers = stage->others,
                                    .queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};
    struct control_input input = {.cache = stage->cache,
                                  .config = &config,
                                  .now_ms = 1000,
                                  .is_watched = is_watched,
                                  .user = stage};
    struct control_key key = {.ns = STR("d"), .name = str_from(name)};

    stage->actions.list.count = 0;
    controller->reconcile(&input, &key, &stage->actions);
}

/* The body of the first action of a type on a kind; NULL: there is none. */
static const struct json *done(const struct stage *stage,
                               enum action_type type,
                               const struct kind *kind)
{
    for (size_t i = 0; i < stage->actions.list.count; i++)
        if (stage->actions.list.items[i].type == type && stage->actions.list.items[i].kind == kind)
            return stage->actions.list.items[i].body;
    return NULL;
}

#define POD(more)                                                                               \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"d\"," \
    "\"uid\":\"pu\"" more "},\"spec\":{\"schedulerName\":\"kai-scheduler\",\"priority\":7,"     \
    "\"schedulingGroup\":{\"podGroupName\":\"g\"},\"containers\":[{\"name\":\"c\"}]}}"
#define GANG(more)                                                                                 \
    "{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{"           \
    "\"name\":\"g\",\"namespace\":\"d\",\"uid\":\"gu\",\"generation\":3,\"labels\":{"              \
    "\"kai.scheduler/queue\":\"team\"}},\"spec\":{\"priority\":7,\"priorityClassName\":\"build\"," \
    "\"schedulingPolicy\":{\"gang\":{\"minCount\":3}}" more "}}"

#define OTHER(name, scheduler, priority)                                                          \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" name                      \
    "\",\"namespace\":\"d\",\"uid\":\"" name                                                      \
    "\",\"creationTimestamp\":\"1970-01-01T00:00:01Z\"},\"spec\":{\"schedulerName\":\"" scheduler \
    "\",\"priority\":" priority                                                                   \
    ",\"schedulingGroup\":{\"podGroupName\":\"g\"},\"containers\":[{\"name\":\"c\"}]}}"

static const struct action *asked(const struct stage *stage, enum action_type type)
{
    for (size_t i = 0; i < stage->actions.list.count; i++)
        if (stage->actions.list.items[i].type == type)
            return &stage->actions.list.items[i];
    return NULL;
}

TEST(a_pod_is_in_the_group_that_it_names_with_its_numbers)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s, GANG(",\"disruptionMode\":{\"all\":{}}"));
    react(&stage, &group_controller, "p");
    const struct json *group = done(&stage, ACTION_CREATE, &kind_podgroup);
    EXPECT(str_is(json_str_at(group, "metadata.name"), "podgroup-g"));
    EXPECT(str_is(json_str_at(group, "metadata.ownerReferences.0.uid"), "gu"));
    EXPECT(json_i64_or(json_at(group, "spec.minMember"), 0) == 3);
    EXPECT(str_is(json_str_at(group, "spec.queue"), "team"));
    EXPECT(str_is(json_str_at(group, "spec.priorityClassName"), "build"));
    EXPECT(str_is(
        json_str(json_get(json_at(group, "metadata.annotations"), "muster.dev/disruption-mode")),
        "all"));
    EXPECT(str_is(json_str_at(group, "spec.preemptibility"), "preemptible"));
    EXPECT(str_is(json_str_at(group, "spec.stalenessGracePeriod"), "-1s"));
    EXPECT(!json_at(group, "spec.preemptionDelay"));
    EXPECT(!done(&stage, ACTION_PATCH, &kind_pod)); /* it says the group by what it names */
    stage_close(&stage);
}

TEST(a_group_that_may_not_preempt_never_does)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s, GANG(",\"preemptionPolicy\":\"Never\""));
    react(&stage, &group_controller, "p");
    const struct json *group = done(&stage, ACTION_CREATE, &kind_podgroup);
    EXPECT(str_is(json_str_at(group, "spec.preemptionDelay"), "876000h"));
    stage_close(&stage);
}

TEST(a_pod_whose_group_does_not_exist_waits_and_says_so)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    react(&stage, &group_controller, "p");
    EXPECT(!done(&stage, ACTION_CREATE, &kind_podgroup));
    const struct json *status = done(&stage, ACTION_PATCH_STATUS, &kind_pod);
    EXPECT(str_is(json_str_at(status, "status.conditions.0.type"), "PodScheduled"));
    EXPECT(str_contains(json_str_at(status, "status.conditions.0.message"),
                        STR("waits for PodGroup \"g\" of scheduling.k8s.io")));
    stage_close(&stage);
}

TEST(one_pod_makes_the_group_for_all_of_them)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_pod, OTHER("q", "kai-scheduler", "7"));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    react(&stage, &group_controller, "q");
    EXPECT(stage.actions.list.count == 0);
    react(&stage, &group_controller, "p");
    EXPECT(done(&stage, ACTION_CREATE, &kind_podgroup));
    /* It is gone before it could. */
    struct control_keys keys = {.arena = &stage.arena};
    const struct object *gone = object_ref(cache_get(stage.cache, &kind_pod, STR("d"), STR("p")));
    cache_drop(stage.cache, gone);
    group_controller.keys(stage.cache, gone, &keys);
    EXPECT(keys.list.count == 2 && str_is(keys.list.items[1].name, "q"));
    react(&stage, &group_controller, "q");
    EXPECT(done(&stage, ACTION_CREATE, &kind_podgroup));
    object_unref(gone);
    stage_close(&stage);
}

TEST(a_pod_that_an_older_version_told_another_group_is_moved)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(",\"annotations\":{\"pod-group-name\":\"pg-g-gu\"}"));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    react(&stage, &group_controller, "p");
    EXPECT(done(&stage, ACTION_CREATE, &kind_podgroup));
    EXPECT(str_is(
        json_str_at(done(&stage, ACTION_PATCH, &kind_pod), "metadata.annotations.pod-group-name"),
        "podgroup-g"));
    stage_close(&stage);
}

TEST(the_group_of_one_that_was_deleted_and_made_again_is_made_again)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    put(&stage, &kind_podgroup,
        "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\","
        "\"ownerReferences\":[{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":"
        "\"PodGroup\",\"name\":\"g\",\"uid\":\"before\"}]},\"spec\":{\"minMember\":3}}");
    react(&stage, &group_controller, "p");
    EXPECT(stage.actions.list.count == 1 && stage.actions.list.items[0].type == ACTION_DELETE);
    stage_close(&stage);
}

static const struct json *refusal(const struct stage *stage)
{
    for (size_t i = 0; i < stage->actions.list.count; i++) {
        const struct action *action = &stage->actions.list.items[i];
        const struct json *notes = json_at(action->body, "metadata.annotations");

        if (action->kind == &kind_podgroup && json_get(notes, "muster.dev/refused"))
            return json_get(notes, "muster.dev/refused");
    }
    return NULL;
}

static struct str refused(const struct stage *stage)
{
    const struct json *words = refusal(stage);

    return words ? json_str(words) : STR("not said");
}

#define REFUSED(words)                                                                           \
    "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\",\"annotations\":{" \
    "\"muster.dev/refused\":\"" words "\"}},\"spec\":{\"minMember\":3}}"

TEST(a_pod_of_another_priority_than_its_group_keeps_all_of_it)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_pod, OTHER("q", "kai-scheduler", "8"));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    react(&stage, &group_controller, "p");
    EXPECT(str_contains(refused(&stage), STR("got 8 and 7")));
    put(&stage, &kind_podgroup, REFUSED("got 8 and 7"));
    react(&stage, &gang_status_controller, "g");
    EXPECT(str_is(json_str_at(done(&stage, ACTION_PATCH_STATUS, &kind_podgroup_k8s),
                              "status.conditions.0.reason"),
                  "SchedulerError"));
    /* Without it the others may start. */
    const struct object *gone = object_ref(cache_get(stage.cache, &kind_pod, STR("d"), STR("q")));
    struct control_keys keys = {.arena = &stage.arena};
    cache_drop(stage.cache, gone);
    group_controller.keys(stage.cache, gone, &keys);
    EXPECT(keys.list.count == 2 && str_is(keys.list.items[1].name, "p"));
    react(&stage, &group_controller, "p");
    EXPECT(!refused(&stage).len);
    object_unref(gone);
    stage_close(&stage);
}

TEST(a_group_with_pods_of_two_schedulers_is_refused_and_left_to_nobody)
{
    struct stage stage;

    stage_open(&stage);
    stage.others = true;
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_pod, OTHER("q", "default-scheduler", "7"));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    react(&stage, &group_controller, "q");
    EXPECT(!done(&stage, ACTION_CREATE, &kind_podgroup) && asked(&stage, ACTION_LOOK_AGAIN));
    react(&stage, &group_controller, "p");
    EXPECT(str_contains(refused(&stage), STR("got: \"kai-scheduler\" and \"default-scheduler\"")));
    /* One that comes when our group is there already. */
    put(&stage, &kind_podgroup,
        "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\"},"
        "\"spec\":{\"minMember\":3}}");
    react(&stage, &group_controller, "q");
    EXPECT(str_contains(refused(&stage), STR("the same .spec.schedulerName set")));
    put(&stage, &kind_podgroup, REFUSED("pods should have the same .spec.schedulerName set"));
    react(&stage, &gang_status_controller, "g");
    EXPECT(stage.actions.list.count == 0);
    stage_close(&stage);
}

TEST(a_label_that_pods_must_share_becomes_a_topology_of_one_level)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s,
        GANG(",\"schedulingConstraints\":{\"topology\":[{\"key\":\"a.b/Rack_1\"}]}"));
    react(&stage, &group_controller, "p");
    const struct json *topology = done(&stage, ACTION_CREATE, &kind_topology);
    const struct json *group = done(&stage, ACTION_CREATE, &kind_podgroup);
    EXPECT(str_is(json_str_at(topology, "spec.levels.0.nodeLabel"), "a.b/Rack_1"));
    EXPECT(str_starts(json_str_at(topology, "metadata.name"), STR("label-a.b.rack-1-")));
    EXPECT(str_eq(json_str_at(group, "spec.topologyConstraint.topology"),
                  json_str_at(topology, "metadata.name")));
    EXPECT(
        str_is(json_str_at(group, "spec.topologyConstraint.requiredTopologyLevel"), "a.b/Rack_1"));
    stage_close(&stage);
}

TEST(pods_of_another_scheduler_and_those_that_say_so_are_not_put_into_the_group_they_name)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_podgroup_k8s, GANG(""));
    put(&stage, &kind_pod,
        POD(",\"annotations\":{\"kai.scheduler/ignore-workload-api\":\"true\"}"));
    react(&stage, &group_controller, "p");
    EXPECT(str_is(json_str_at(done(&stage, ACTION_CREATE, &kind_podgroup), "metadata.name"),
                  "pg-p-pu"));
    stage.others = true;
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"q\",\"namespace\":\"d\",\"uid\":\"qu\"},\"spec\":{"
        "\"schedulerName\":\"default-scheduler\",\"schedulingGroup\":{\"podGroupName\":\"g\"}}}");
    react(&stage, &group_controller, "q");
    EXPECT(stage.actions.list.count == 1 && asked(&stage, ACTION_LOOK_AGAIN));
    react(&stage, &gang_status_controller, "g");
    EXPECT(stage.actions.list.count == 0);
    stage_close(&stage);
}

#define OURS(status)                                                                       \
    "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\"},\"spec\":{" \
    "\"minMember\":3},\"status\":{" status "}}"
#define MEMBER(name, more)                                                     \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"d\",\"uid\":\"" name \
    "\",\"annotations\":{\"pod-group-name\":\"podgroup-g\"}},\"spec\":{" more "}}"

TEST(the_group_says_why_it_waits_and_once_that_it_was_scheduled)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_podgroup_k8s, GANG(""));
    put(&stage, &kind_podgroup,
        OURS("\"schedulingConditions\":[{\"message\":\"2 of 3 pods\",\"reasons\":[{\"reason\":"
             "\"NotReady\"}]}]"));
    react(&stage, &gang_status_controller, "g");
    EXPECT(stage.actions.list.count == 0); /* Kubernetes says nothing either */
    put(&stage, &kind_podgroup,
        OURS("\"schedulingConditions\":[{\"message\":\"no room\",\"reasons\":[{\"reason\":"
             "\"NotEnoughResources\"}]}]"));
    put(&stage, &kind_pod, MEMBER("a", "\"nodeName\":\"n\""));
    react(&stage, &gang_status_controller, "g");
    const struct json *status = done(&stage, ACTION_PATCH_STATUS, &kind_podgroup_k8s);
    EXPECT(str_is(json_str_at(status, "status.conditions.0.type"), "PodGroupInitiallyScheduled"));
    EXPECT(str_is(json_str_at(status, "status.conditions.0.status"), "False"));
    EXPECT(str_is(json_str_at(status, "status.conditions.0.reason"), "Unschedulable"));
    EXPECT(str_is(json_str_at(status, "status.conditions.0.message"), "no room"));
    EXPECT(json_i64_or(json_at(status, "status.conditions.0.observedGeneration"), 0) == 3);
    put(&stage, &kind_pod, MEMBER("b", "\"nodeName\":\"n\""));
    put(&stage, &kind_pod, MEMBER("c", "\"nodeName\":\"n\""));
    react(&stage, &gang_status_controller, "g");
    status = done(&stage, ACTION_PATCH_STATUS, &kind_podgroup_k8s);
    EXPECT(str_is(json_str_at(status, "status.conditions.0.status"), "True"));
    EXPECT(str_is(json_str_at(status, "status.conditions.0.reason"), "Scheduled"));
    stage_close(&stage);
}

#define OWNED(version)                                                          \
    "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\"," \
    "\"ownerReferences\":[{"                                                    \
    "\"apiVersion\":\"" version                                                 \
    "\",\"kind\":\"PodGroup\",\"name\":\"g\",\"uid\":\"gu\"}]},\"spec\":{\"minMember\":3}}"

static bool wakes(struct stage *stage, const struct kind *kind, const char *name)
{
    struct control_keys keys = {.arena = &stage->arena};
    const struct object *object = cache_get(stage->cache, kind, STR("d"), str_from(name));

    EXPECT(object);
    if (object)
        gang_status_controller.keys(stage->cache, object, &keys);
    EXPECT(keys.list.count <= 1);
    return keys.list.count == 1 && str_is(keys.list.items[0].ns, "d") &&
           str_is(keys.list.items[0].name, "g");
}

TEST(what_becomes_of_our_group_and_its_pods_wakes_the_group_it_was_made_for)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_podgroup_k8s, GANG(""));
    put(&stage, &kind_pod, MEMBER("a", ""));
    EXPECT(wakes(&stage, &kind_podgroup_k8s, "g"));
    EXPECT(!wakes(&stage, &kind_pod, "a")); /* our group is not there yet */
    put(&stage, &kind_podgroup, OWNED("scheduling.k8s.io/v1beta1"));
    EXPECT(wakes(&stage, &kind_podgroup, "podgroup-g"));
    EXPECT(wakes(&stage, &kind_pod, "a"));
    put(&stage, &kind_podgroup, OWNED("scheduling.sigs.k8s.io/v1alpha1"));
    EXPECT(!wakes(&stage, &kind_podgroup, "podgroup-g"));
    stage_close(&stage);
}

TEST(what_is_not_watched_yet_is_waited_for)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s,
        GANG(",\"schedulingConstraints\":{\"topology\":[{\"key\":\"rack\"}]}"));
    put(&stage, &kind_podgroup, OURS(""));
    stage.unwatched = &kind_podgroup_k8s;
    react(&stage, &group_controller, "p");
    EXPECT(stage.actions.list.count == 1 && asked(&stage, ACTION_WATCH));
    react(&stage, &gang_status_controller, "g");
    EXPECT(stage.actions.list.count == 1 && asked(&stage, ACTION_WATCH));
    stage.unwatched = &kind_topology;
    react(&stage, &group_controller, "p");
    EXPECT(stage.actions.list.count == 1 && asked(&stage, ACTION_WATCH));
    stage.unwatched = NULL;
    react(&stage, &gang_status_controller, "none");
    EXPECT(stage.actions.list.count == 0);
    stage_close(&stage);
}

TEST(a_topology_that_is_there_is_not_made_again)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup_k8s,
        GANG(",\"schedulingConstraints\":{\"topology\":[{\"key\":\"rack\"}]}"));
    react(&stage, &group_controller, "p");
    put(&stage, &kind_topology,
        json_text(&stage.arena, done(&stage, ACTION_CREATE, &kind_topology)).p);
    react(&stage, &group_controller, "p");
    EXPECT(!done(&stage, ACTION_CREATE, &kind_topology));
    EXPECT(done(&stage, ACTION_CREATE, &kind_podgroup));
    stage_close(&stage);
}

#define UNSAID                                                                           \
    "{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":\"PodGroup\",\"metadata\":{" \
    "\"name\":\"g\",\"namespace\":\"d\",\"uid\":\"gu\",\"annotations\":{"                \
    "\"kai.scheduler/preemptibility\":\"non-preemptible\","                              \
    "\"kai.scheduler/staleness-grace-period\":\"5m\"}},\"spec\":{\"priority\":7,"        \
    "\"schedulingPolicy\":{\"basic\":{}}}}"
#define TORCHRUN(name, labels, owners)                                                          \
    "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\",\"metadata\":{\"name\":" \
    "\"" name "\",\"namespace\":\"d\",\"uid\":\"" name "\",\"labels\":{" labels                 \
    "},\"ownerReferences\":[" owners "]},\"spec\":{\"jobQueue\":\"q\",\"command\":\"x\"}}"
#define OWNER(name)                                                                      \
    "{\"apiVersion\":\"torchrun.ai/v1alpha1\",\"kind\":\"TorchrunJob\",\"name\":\"" name \
    "\",\"uid\":\"" name "\"}"

TEST(what_a_group_does_not_say_its_pods_owners_do)
{
    static const struct {
        const char *why;
        const char *job;
        const char *queue;
    } rows[] = {
        {"nobody", TORCHRUN("j", "", ""), "default-queue"},
        {"its job", TORCHRUN("j", "\"kai.scheduler/queue\":\"lab\"", ""), "lab"},
        {"what made its job", TORCHRUN("j", "", OWNER("top")), "best"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_podgroup_k8s, UNSAID);
        put(&stage, &kind_torchrunjob, rows[i].job);
        put(&stage, &kind_torchrunjob, TORCHRUN("top", "\"kai.scheduler/queue\":\"best\"", ""));
        put(&stage, &kind_pod, POD(",\"ownerReferences\":[" OWNER("j") "]"));
        react(&stage, &group_controller, "p");
        const struct json *group = done(&stage, ACTION_CREATE, &kind_podgroup);
        EXPECT(str_is(json_str_at(group, "spec.queue"), rows[i].queue));
        EXPECT(str_is(json_str_at(group, "spec.priorityClassName"), "train"));
        EXPECT(str_is(json_str_at(group, "spec.preemptibility"), "non-preemptible"));
        EXPECT(str_is(json_str_at(group, "spec.stalenessGracePeriod"), "5m"));
        EXPECT(json_i64_or(json_at(group, "spec.minMember"), 0) == 1);
        stage_close(&stage);
    }
}

#define AWAY(name, priority, more)                                                       \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"d\",\"uid\":\"" name "\"" more \
    "},\"spec\":{\"schedulerName\":\"kai-scheduler\",\"priority\":" priority             \
    ",\"schedulingGroup\":{\"podGroupName\":\"g\"}}"
#define ELSEWHERE                                                                               \
    "{\"metadata\":{\"name\":\"e\",\"namespace\":\"e\",\"uid\":\"e\"},\"spec\":{"               \
    "\"schedulerName\":\"kai-scheduler\",\"priority\":8,\"schedulingGroup\":{\"podGroupName\":" \
    "\"g\"}}}"

TEST(only_pods_that_are_in_the_group_and_may_still_start_can_be_out_of_place)
{
    static const struct {
        const char *why;
        const char *other;
        bool refused;
    } rows[] = {
        {"one that waits", AWAY("a", "8", "") "}", true},
        {"one that is done", AWAY("a", "8", "") ",\"status\":{\"phase\":\"Succeeded\"}}", false},
        {"one that failed", AWAY("a", "8", "") ",\"status\":{\"phase\":\"Failed\"}}", false},
        {"one that is going", AWAY("a", "8", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"") "}",
         false},
        {"one of the same name in another namespace", ELSEWHERE, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_pod, rows[i].other);
        put(&stage, &kind_podgroup_k8s, GANG(""));
        put(&stage, &kind_podgroup, REFUSED("got 8 and 7"));
        put(&stage, &kind_pod, POD(""));
        react(&stage, &group_controller, "p");
        /* It was refused: that stays, or is taken back. */
        EXPECT((refusal(&stage) == NULL) == rows[i].refused);
        EXPECT(!refusal(&stage) || !refused(&stage).len);
        stage_close(&stage);
    }
}

TEST(the_first_of_the_pods_that_are_there_makes_the_group)
{
    struct stage stage;

    stage_open(&stage);
    stage.others = true;
    put(&stage, &kind_pod, ELSEWHERE);
    put(&stage, &kind_pod, AWAY("a", "7", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"") "}");
    put(&stage, &kind_pod, OTHER("b", "default-scheduler", "7"));
    put(&stage, &kind_pod, OTHER("c", "kai-scheduler", "7"));
    put(&stage, &kind_pod, OTHER("d", "kai-scheduler", "8"));
    put(&stage, &kind_podgroup_k8s, GANG(""));
    react(&stage, &group_controller, "d"); /* not it, and it does not fit: it looks again */
    EXPECT(stage.actions.list.count == 1 && asked(&stage, ACTION_LOOK_AGAIN));
    react(&stage, &group_controller, "c");
    EXPECT(str_contains(refused(&stage), STR("default-scheduler")));
    stage_close(&stage);
}

TEST(a_group_that_is_refused_already_or_is_going_is_not_written_again)
{
    struct stage stage;

    stage_open(&stage);
    stage.others = true;
    put(&stage, &kind_podgroup_k8s, GANG(""));
    put(&stage, &kind_podgroup, REFUSED("already"));
    put(&stage, &kind_pod, OTHER("q", "default-scheduler", "7"));
    react(&stage, &group_controller, "q");
    EXPECT(stage.actions.list.count == 0);
    put(&stage, &kind_pod,
        "{\"metadata\":{\"name\":\"q\",\"namespace\":\"d\",\"uid\":\"q\"},\"spec\":{"
        "\"schedulerName\":\"other\",\"schedulingGroup\":{\"podGroupName\":\"late\"}},"
        "\"status\":{\"phase\":\"Failed\"}}");
    put(&stage, &kind_podgroup,
        "{\"metadata\":{\"name\":\"podgroup-late\",\"namespace\":\"d\",\"uid\":\"l\"},\"spec\":{}"
        "}");
    react(&stage, &group_controller, "q"); /* it has ended: the others may start */
    EXPECT(stage.actions.list.count == 0);
    stage.others = false;
    put(&stage, &kind_pod, POD(""));
    put(&stage, &kind_podgroup,
        "{\"metadata\":{\"name\":\"podgroup-g\",\"namespace\":\"d\",\"uid\":\"x\","
        "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","
        "\"ownerReferences\":[{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":"
        "\"PodGroup\",\"name\":\"g\",\"uid\":\"before\"}]},\"spec\":{\"minMember\":3}}");
    react(&stage, &group_controller, "p");
    EXPECT(stage.actions.list.count == 0);
    stage_close(&stage);
}

#define STOPPED(type, status, reason)                                                        \
    "\"nodeName\":\"n\"},\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":" \
    "\"True\"},{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason        \
    "\",\"message\":\"for others\"}]"

TEST(a_group_whose_pods_are_stopped_together_says_that_it_is_stopped)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *mode;
        bool told;
    } rows[] = {
        {"for others", MEMBER("a", STOPPED("DisruptionTarget", "True", "PreemptionByScheduler")),
         "all", true},
        {"in our words",
         MEMBER("a", STOPPED("muster.dev/Evicted", "True", "PreemptionByScheduler")), "all", true},
        {"one by one", MEMBER("a", STOPPED("DisruptionTarget", "True", "PreemptionByScheduler")),
         "single", false},
        {"no longer", MEMBER("a", STOPPED("DisruptionTarget", "False", "PreemptionByScheduler")),
         "all", false},
        {"for its node", MEMBER("a", STOPPED("DisruptionTarget", "True", "DeletionByTaintManager")),
         "all", false},
        {"not at all", MEMBER("a", STOPPED("Ready", "True", "PreemptionByScheduler")), "all",
         false},
        {"another of that name",
         "{\"metadata\":{\"name\":\"a\",\"namespace\":\"e\",\"uid\":\"a\",\"annotations\":{"
         "\"pod-group-name\":\"podgroup-g\"}},\"spec\":{" STOPPED("DisruptionTarget", "True",
                                                                  "PreemptionByScheduler") "}}",
         "all", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stage stage;

        stage_open(&stage);
        test_case(rows[i].why);
        put(&stage, &kind_podgroup_k8s,
            str_printf(&stage.arena,
                       GANG(",\"disruptionMode\":{\"%s\":{}}},\"status\":{"
                            "\"conditions\":[{\"type\":"
                            "\"PodGroupInitiallyScheduled\",\"status\":\"True\"}]"),
                       rows[i].mode)
                .p);
        put(&stage, &kind_podgroup, OURS(""));
        put(&stage, &kind_pod, rows[i].pod);
        react(&stage, &gang_status_controller, "g");
        const struct json *status = done(&stage, ACTION_PATCH_STATUS, &kind_podgroup_k8s);
        EXPECT((status != NULL) == rows[i].told);
        EXPECT(!status ||
               (str_is(json_str_at(status, "status.conditions.1.type"), "DisruptionTarget") &&
                str_is(json_str_at(status, "status.conditions.1.message"), "for others")));
        stage_close(&stage);
    }
}

/* ---- kinds of others ---- */

#define FLOW_POD                                                                                \
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"namespace\":\"d\"," \
    "\"uid\":\"pu\",\"creationTimestamp\":\"1970-01-01T00:00:01Z\",\"ownerReferences\":[{"      \
    "\"apiVersion\":\"x/v1\",\"kind\":\"Flow\",\"name\":\"f\",\"uid\":\"fu\"}]},\"spec\":{"     \
    "\"schedulerName\":\"kai-scheduler\",\"containers\":[{\"name\":\"c\"}]}}"
#define FLOWS                                                                                  \
    "{\"apiVersion\":\"run.ai/v1alpha1\",\"kind\":\"Karta\",\"metadata\":{\"name\":\"flows\"," \
    "\"uid\":\"ku\"},\"spec\":{\"structureDefinition\":{\"rootComponent\":{\"name\":\"flow\"," \
    "\"kind\":{\"group\":\"x\",\"version\":\"v1\",\"kind\":\"Flow\"}}},"                       \
    "\"optimizationInstructions\":{\"gangScheduling\":{\"podGroup\":{\"name\":\"all\"}}}}}"

static void react_on_cluster(struct stage *stage, int64_t now_ms)
{
    struct control_config config = {.scheduler_name = STR("kai-scheduler"),
                                    .other_schedulers = true,
                                    .queue_label_key = STR("kai.scheduler/queue"),
                                    .default_queue = STR("default-queue")};
    struct kinds *kinds = kinds_new_cluster();
    struct control_input input = {
        .cache = stage->cache, .config = &config, .now_ms = now_ms, .kinds = kinds, .learns = true};
    struct control_key key = {.ns = STR("d"), .name = STR("p")};

    stage->actions.list.count = 0;
    group_controller.reconcile(&input, &key, &stage->actions);
    kinds_free(kinds);
}

TEST(a_kind_of_others_is_asked_for_when_a_karta_names_it)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, FLOW_POD);
    react_on_cluster(&stage, 2000);
    EXPECT(!asked(&stage, ACTION_LEARN));
    EXPECT(done(&stage, ACTION_CREATE, &kind_podgroup)); /* alone, as nobody says more of it */
    put(&stage, &kind_karta, FLOWS);
    react_on_cluster(&stage, 2000);
    const struct action *learn = asked(&stage, ACTION_LEARN);
    EXPECT(learn && str_is(learn->api_version, "x/v1") && str_is(learn->name, "Flow"));
    EXPECT(!done(&stage, ACTION_CREATE, &kind_podgroup));
    EXPECT(!done(&stage, ACTION_PATCH_STATUS, &kind_pod));
    EXPECT(asked(&stage, ACTION_LOOK_AGAIN));
    stage_close(&stage);
}

TEST(a_pod_whose_owner_cannot_be_read_says_so_after_a_moment)
{
    struct stage stage;

    stage_open(&stage);
    put(&stage, &kind_pod, FLOW_POD);
    put(&stage, &kind_karta, FLOWS);
    react_on_cluster(&stage, 20000);
    const struct json *status = done(&stage, ACTION_PATCH_STATUS, &kind_pod);
    EXPECT(str_contains(json_str_at(status, "status.conditions.0.message"),
                        STR("Flow of x/v1: the operator needs get, list and watch")));
    stage_close(&stage);
}
