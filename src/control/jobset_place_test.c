#include "api/hold.h"
#include "api/kind.h"
#include "api/place.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A JobSet of two Jobs with two pods each, one of which fails: when all restart in the pods that there
 * are, and when the Jobs are made again. */

#define S           1000LL
#define NOTES(word) ",'annotations':{'muster.dev/restart-mode':'" word "'}"
#define SET_OF(notes, policy, job, pod)                                                   \
    "{'metadata':{'name':'js'" notes "},'spec':{" policy                                  \
    "'replicatedJobs':[{'name':'w','replicas':2,'template':{'spec':{'parallelism':2," job \
    "'template':{'spec':{" pod "'containers':[{'name':'c','image':'i'}]}}}}}]}}"
#define POLICY(more) "'failurePolicy':{'maxRestarts':2,'restartStrategy':'InPlaceRestart'" more "},"
#define NEVER        "'restartPolicy':'Never',"
#define NONE         "'backoffLimit':0,"
#define SET          SET_OF("", POLICY(""), NONE, NEVER)

#define RUNS(count)                                                                         \
    "{'spec':{'nodeName':'node'},'status':{'phase':'Running','containerStatuses':[{'name':" \
    "'c','restartCount':" count ",'state':{'running':{},'terminated':null}}]}}"
#define ENDED_AS(count, message)                                                               \
    "{'status':{'containerStatuses':[{'name':'c','restartCount':" count                        \
    ",'state':{'running':null,'terminated':{'exitCode':3,'reason':'Error','message':'" message \
    "','finishedAt':'1970-01-01T00:16:40Z'}}}]}}"
#define ENDED(count) ENDED_AS(count, "")

/* All controllers that a set needs, until none wants anything more. */
static void look(struct scene *scene)
{
    for (int i = 0; i < 4; i++) {
        scene_run(scene, &jobset_controller, "js");
        scene_run(scene, &batch_job_controller, "js-w-0");
        scene_run(scene, &batch_job_controller, "js-w-1");
    }
}

static const char *pod_name(struct scene *scene, int number)
{
    struct str rest = scene_names(scene, &kind_pod);
    struct str name = STR_NONE;

    for (int i = 0; i <= number; i++)
        (void)str_cut(&rest, ' ', &name);
    return str_c(&scene->arena, name);
}

static void all_are(struct scene *scene, const char *patch)
{
    for (int i = 0; i < 4; i++)
        scene_patch(scene, &kind_pod, pod_name(scene, i), patch);
}

static void begin_on(struct scene *scene, const char *set, const char *runtime)
{
    scene_open(scene);
    scene_put(scene, &kind_node,
              str_c(&scene->arena,
                    str_printf(&scene->arena,
                               "{'metadata':{'name':'node'},'status':{'nodeInfo':{'"
                               "containerRuntimeVersion':'%s'},'conditions':[{'type':'Ready',"
                               "'status':'True'}]}}",
                               runtime)));
    scene_put(scene, &kind_jobset, set);
    look(scene);
    all_are(scene, RUNS("0"));
    look(scene);
}

static void begin(struct scene *scene, const char *set)
{
    begin_on(scene, set, "muster-shim://1");
}

static struct str order_of(struct scene *scene, int pod)
{
    const struct json *tree = scene_get(scene, &kind_pod, pod_name(scene, pod));

    return json_str(json_get(json_at(tree, "metadata.annotations"), PLACE_ANNOTATION));
}

static bool all_told(struct scene *scene, const char *word)
{
    for (int i = 0; i < 4; i++)
        if (!str_is(order_of(scene, i), word))
            return false;
    return true;
}

static int64_t number(struct scene *scene, const char *field)
{
    return json_i64_or(json_get(json_get(scene_get(scene, &kind_jobset, "js"), "status"), field),
                       -1);
}

static bool is_so(struct scene *scene, const char *condition)
{
    return str_contains(scene_conditions(scene, &kind_jobset, "js"), str_from(condition));
}

TEST(a_failed_pod_restarts_its_set_in_the_pods_that_it_has)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    EXPECT(all_told(&scene, "0 go"));
    struct str names = str_dup(&scene.arena, scene_names(&scene, &kind_pod));
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "1 stop"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
    EXPECT(is_so(&scene, "RestartingJobSet=True"));
    EXPECT(
        str_contains(scene.event_words, STR("ended with exit status 3; restart 1 of 2, in place")));
    /* Nobody goes before all have stopped. */
    scene_patch(&scene, &kind_pod, pod_name(&scene, 0), ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "1 stop"));
    all_are(&scene, ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "1 go"));
    look(&scene); /* an old end is no failure of the new round */
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
    all_are(&scene, RUNS("1"));
    look(&scene);
    EXPECT(is_so(&scene, "RestartingJobSet=False"));
    EXPECT(number(&scene, "restarts") == 0);
    EXPECT(number(&scene, "previousInPlaceRestartAttempt") == 0);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 1);
    EXPECT(str_eq(scene_names(&scene, &kind_pod), names));
}

TEST(sets_restart_in_place_where_it_is_asked_for_and_can_be_done)
{
    static const struct {
        const char *why;
        const char *set;
        bool stays;
        const char *ignored; /* part of the words of an event */
    } rows[] = {
        {"JobSet's own strategy", SET, true, NULL},
        {"by annotation",
         SET_OF(NOTES("InPlace"), "'failurePolicy':{'maxRestarts':1},", NONE, NEVER), true, NULL},
        {"pods that would restart alone", SET_OF("", POLICY(""), "", ""), true, NULL},
        {"nobody asks", SET_OF("", "'failurePolicy':{'maxRestarts':1},", NONE, NEVER), false, NULL},
        {"the annotation has the last word", SET_OF(NOTES("Pods"), POLICY(""), NONE, NEVER), false,
         NULL},
        {"a word that is none", SET_OF(NOTES("yes"), POLICY(""), NONE, NEVER), false,
         "it must be InPlace or Pods"},
        {"no restart is allowed", SET_OF(NOTES("InPlace"), "", NONE, NEVER), false,
         "it has no failurePolicy with maxRestarts"},
        {"pods are judged one by one",
         SET_OF("", POLICY(""), "'podFailurePolicy':{'rules':[]},", NEVER), false,
         "replicatedJob w has a podFailurePolicy"},
        {"some pods come later", SET_OF("", POLICY(""), "'completions':4,", NEVER), false,
         "has completions that differ from its parallelism"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, rows[i].set);
        EXPECT(str_is(order_of(&scene, 0), rows[i].stays ? "0 go" : ""));
        EXPECT(str_contains(scene.events, STR("Ignored")) == (rows[i].ignored != NULL));
        EXPECT(!rows[i].ignored || str_contains(scene.event_words, str_from(rows[i].ignored)));
    }
}

TEST(failures_by_code_are_not_retried_in_place_for_ever)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    for (int round = 0; round < 2; round++) {
        scene_patch(&scene, &kind_pod, pod_name(&scene, 1), round ? ENDED("1") : ENDED("0"));
        look(&scene);
        all_are(&scene, round ? ENDED("1") : ENDED("0"));
        look(&scene);
        all_are(&scene, round ? RUNS("2") : RUNS("1"));
        look(&scene);
    }
    EXPECT(all_told(&scene, "2 go"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 2);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 1), ENDED("2"));
    const char *culprit = pod_name(&scene, 1);
    (void)scene_turn(&scene, &jobset_controller, "js");
    EXPECT(is_so(&scene, "Failed=True"));
    /* Its node lets go of it, and its Job fails by itself: logs stay. The other Job is ended. */
    EXPECT(str_is(order_of(&scene, 1), "over"));
    EXPECT(str_is(scene_names(&scene, &kind_job), "js-w-0"));
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(str_is(scene_names(&scene, &kind_job), "js-w-0"));
    scene_patch(&scene, &kind_pod, culprit, "{'status':{'phase':'Failed'}}");
    look(&scene);
    EXPECT(str_contains(scene_conditions(&scene, &kind_job, "js-w-0"), STR("Failed=True")));
    EXPECT(scene_get(&scene, &kind_pod, culprit) != NULL);
}

TEST(a_set_that_is_not_well_has_its_jobs_made_again)
{
    static const struct {
        const char *why;
        const char *peer; /* patch of another pod */
        const char *node;
    } rows[] = {
        {"a pod does not run", "{'status':{'phase':'Pending'}}", NULL},
        {"a pod gives up its GPUs", "{'metadata':{'annotations':{'muster.dev/suspend':'yield'}}}",
         NULL},
        {"a node is silent", NULL,
         "{'status':{'conditions':[{'type':'Ready','status':'False','lastTransitionTime':"
         "'1970-01-01T00:16:40Z'}]}}"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, SET);
        if (rows[i].peer)
            scene_patch(&scene, &kind_pod, pod_name(&scene, 0), rows[i].peer);
        if (rows[i].node)
            scene_patch(&scene, &kind_node, "node", rows[i].node);
        scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
        (void)scene_turn(&scene, &jobset_controller, "js");
        EXPECT(number(&scene, "restarts") == 1);
        EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
        EXPECT(number(&scene, "previousInPlaceRestartAttempt") == -1);
    }
}

TEST(a_container_that_a_kubelet_restarts_is_no_failure_of_the_set)
{
    _cleanup_(scene_close) struct scene scene;

    begin_on(&scene, SET_OF("", POLICY(""), "", ""), "containerd://2");
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "0 go"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 0);
}

TEST(who_lost_a_peer_is_not_blamed_while_others_are_to_be_heard_of)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 0), ENDED_AS("0", "Connection reset by peer"));
    look(&scene);
    EXPECT(number(&scene, "restartsCountTowardsMax") == 0);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 2), ENDED_AS("0", "ValueError"));
    look(&scene);
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
    EXPECT(str_contains(scene.event_words, str_from(pod_name(&scene, 2))));
    EXPECT(str_contains(scene.event_words, STR("job js-w-1 failed")));
}

TEST(a_round_of_a_set_that_takes_too_long_ends_in_new_jobs)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    scene_put(&scene, &kind_podgroup,
              "{'metadata':{'name':'pg-js-u-js','ownerReferences':[{'apiVersion':'jobset.x-k8s.io/"
              "v1alpha2','kind':'JobSet','name':'js','uid':'u-js'}]}}");
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    EXPECT(number(&scene, "restarts") == 0);
    scene.now_ms += 61 * S;
    (void)scene_turn(&scene, &jobset_controller, "js");
    EXPECT(number(&scene, "restarts") == 1);
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 1);
    /* Its room is held for the new ones. */
    const struct json *group = scene_get(&scene, &kind_podgroup, "pg-js-u-js");
    EXPECT(json_get(json_at(group, "metadata.annotations"), HOLD_UNTIL_ANNOTATION) != NULL);
}

TEST(a_round_that_was_counted_and_not_told_is_told_later)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    scene_patch(
        &scene, &kind_jobset, "js",
        "{'status':{'restartsCountTowardsMax':1,'previousInPlaceRestartAttempt':0,"
        "'conditions':[{'type':'RestartingJobSet','status':'True','reason':'x','message':'',"
        "'lastTransitionTime':'1970-01-01T00:16:40Z'}]}}");
    look(&scene);
    EXPECT(all_told(&scene, "1 stop"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
}

TEST(rounds_are_remembered_where_the_crd_is_foreign)
{
    static const char *const older[] = {"conditions", "restarts", "restartsCountTowardsMax",
                                        "replicatedJobsStatus", NULL};
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    scene.foreign = &kind_jobset;
    scene.foreign_status = older;
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "1 stop"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
    all_are(&scene, ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "1 go"));
    EXPECT(number(&scene, "restartsCountTowardsMax") == 1);
}

TEST(the_failure_policy_decides_about_pods_that_are_kept)
{
    static const struct {
        const char *why;
        const char *rule;
        const char *conditions;
        int64_t counted;
        const char *told;
    } rows[] = {
        {"the set fails", "{'action':'FailJobSet'}", "Failed=True", 0, NULL},
        {"for nothing", "{'action':'RestartJobSetAndIgnoreMaxRestarts'}", "RestartingJobSet=True",
         0, "1 stop"},
        {"of other failures it says nothing",
         "{'action':'FailJobSet','onJobFailureReasons':['DeadlineExceeded']}",
         "RestartingJobSet=True", 1, "1 stop"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;
        char set[1024];

        test_case(rows[i].why);
        (void)snprintf(set, sizeof(set), SET_OF("", POLICY(",'rules':[%s]"), NONE, NEVER),
                       rows[i].rule);
        begin(&scene, set);
        scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
        look(&scene);
        EXPECT(is_so(&scene, rows[i].conditions));
        EXPECT(number(&scene, "restartsCountTowardsMax") == rows[i].counted);
        EXPECT(!rows[i].told || all_told(&scene, rows[i].told));
    }
}

/* ---- JobSet's agents in pods that kubelets run ---- */

#define AGENTS                                                                                    \
    SET_OF(                                                                                       \
        "", POLICY(""), "'backoffLimit':2147483647,",                                             \
        "'initContainers':[{'name':'a','restartPolicy':'Always','restartPolicyRules':[{'action':" \
        "'RestartAllContainers','exitCodes':{'operator':'NotIn','values':[0]}}]}],")
#define AT(attempt) \
    "{'metadata':{'annotations':{'jobset.sigs.k8s.io/in-place-restart-attempt':'" attempt "'}}}"

TEST(agents_are_told_which_attempt_must_end_and_which_may_run)
{
    _cleanup_(scene_close) struct scene scene;

    begin_on(&scene, AGENTS, "containerd://2");
    EXPECT(!order_of(&scene, 0).len);
    EXPECT(!str_contains(scene.events, STR("Ignored")));
    for (int i = 0; i < 3; i++)
        scene_patch(&scene, &kind_pod, pod_name(&scene, i), AT("0"));
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == -1);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), AT("0"));
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 0);
    EXPECT(number(&scene, "previousInPlaceRestartAttempt") == -1);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 2), AT("1"));
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 0);
    EXPECT(number(&scene, "previousInPlaceRestartAttempt") == 0);
    all_are(&scene, AT("1"));
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 1);
    all_are(&scene, AT("2"));
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 2);
    EXPECT(!is_so(&scene, "Failed=True"));
    scene_patch(&scene, &kind_pod, pod_name(&scene, 2), AT("3"));
    look(&scene);
    EXPECT(is_so(&scene, "Failed=True"));
}

TEST(agents_whose_program_fails_before_all_are_there_end_the_set)
{
    _cleanup_(scene_close) struct scene scene;

    begin_on(&scene, AGENTS, "containerd://2");
    scene_patch(&scene, &kind_pod, pod_name(&scene, 2), RUNS("2"));
    look(&scene);
    EXPECT(!is_so(&scene, "Failed=True"));
    scene_patch(&scene, &kind_pod, pod_name(&scene, 2), RUNS("3"));
    look(&scene);
    EXPECT(is_so(&scene, "Failed=True"));
}

TEST(a_suspended_set_forgets_its_round)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    scene_patch(&scene, &kind_jobset, "js", "{'spec':{'suspend':true}}");
    look(&scene);
    EXPECT(number(&scene, "currentInPlaceRestartAttempt") == 1);
    EXPECT(!scene_names(&scene, &kind_pod).len);
    scene_patch(&scene, &kind_jobset, "js", "{'spec':{'suspend':false}}");
    look(&scene);
    EXPECT(all_told(&scene, "0 go"));
    all_are(&scene, RUNS("0"));
    look(&scene);
    scene_patch(&scene, &kind_pod, pod_name(&scene, 3), ENDED("0"));
    look(&scene);
    EXPECT(all_told(&scene, "2 stop"));
}
