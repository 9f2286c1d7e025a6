#include "api/hold.h"
#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stddef.h>

/* What happens to a JobSet -> its conditions, counters and Jobs. */

#define PART(name, more)                                                                          \
    "{'name':'" name "'," more                                                                    \
    "'template':{'spec':{'parallelism':2,'template':{'spec':{'containers':[{'name':'c','image':'" \
    "i'}]}}}}}"
#define SET(spec, parts) "{'metadata':{'name':'js'},'spec':{" spec "'replicatedJobs':[" parts "]}}"
#define ONE              PART("w", "'replicas':2,")
#define TWO              PART("a", "") "," PART("b", "")

#define COMPLETE "{'status':{'conditions':[{'type':'Complete','status':'True'}],'succeeded':2}}"
#define FAILED_AS(reason, message)                                                               \
    "{'status':{'conditions':[{'type':'Failed','status':'True','reason':'" reason "','message':" \
    "'" message "','lastTransitionTime':'2026-01-01T00:00:00Z'}]}}"
#define FAILED FAILED_AS("BackoffLimitExceeded", "too many")
#define READY  "{'status':{'active':2,'ready':2}}"

struct step {
    const struct kind *kind;
    const char *name;
    const char *patch;
};

#define JOB(name, patch)       \
    {                          \
        &kind_job, name, patch \
    }
#define SELF(patch)               \
    {                             \
        &kind_jobset, "js", patch \
    }

static const struct {
    const char *why;
    const char *set;
    struct step steps[4];
    const char *conditions;
    const char *status; /* part of it; behind "!" what is no part of it */
    const char *jobs;
} rows[] = {
    {"a new set makes its jobs",
     SET("", ONE),
     {{0}},
     "",
     "'restarts':0,'restartsCountTowardsMax':0",
     "js-w-0 js-w-1"},
    {"active and ready jobs are counted",
     SET("", ONE),
     {JOB("js-w-0", READY)},
     "",
     "{'name':'w','ready':1,'succeeded':0,'failed':0,'active':1,'suspended':0}",
     "js-w-0 js-w-1"},
    {"a job with one pod of two is active, not ready",
     SET("", ONE),
     {JOB("js-w-0", "{'status':{'active':2,'ready':1}}")},
     "",
     "{'name':'w','ready':0,'succeeded':0,'failed':0,'active':1,'suspended':0}",
     "js-w-0 js-w-1"},
    {"one of two complete: not over",
     SET("", ONE),
     {JOB("js-w-0", COMPLETE)},
     "",
     "'succeeded':1",
     "js-w-0 js-w-1"},
    {"all complete",
     SET("", ONE),
     {JOB("js-w-0", COMPLETE), JOB("js-w-1", COMPLETE)},
     "Completed=True",
     "'terminalState':'Completed'",
     "js-w-0 js-w-1"},
    {"any complete: the rest is removed",
     SET("'successPolicy':{'operator':'Any'},", ONE),
     {JOB("js-w-1", COMPLETE)},
     "Completed=True",
     "'terminalState':'Completed'",
     "js-w-1"},
    {"only targets count for success",
     SET("'successPolicy':{'operator':'All','targetReplicatedJobs':['b']},", TWO),
     {JOB("js-b-0", COMPLETE)},
     "Completed=True",
     "'terminalState':'Completed'",
     "js-b-0"},
    {"no failure policy: the first failure is the end",
     SET("", ONE),
     {JOB("js-w-0", FAILED)},
     "Failed=True",
     "'reason':'FailedJobs'",
     "js-w-0"},
    {"maxRestarts 0 is the end as well",
     SET("'failurePolicy':{'maxRestarts':0},", ONE),
     {JOB("js-w-0", FAILED)},
     "Failed=True",
     "'reason':'ReachedMaxRestarts'",
     "js-w-0"},
    {"a restart makes all jobs anew",
     SET("'failurePolicy':{'maxRestarts':1},", ONE),
     {JOB("js-w-0", FAILED)},
     "RestartingJobSet=False",
     "'restarts':1,'restartsCountTowardsMax':1",
     "js-w-0 js-w-1"},
    {"and the second failure is one too many",
     SET("'failurePolicy':{'maxRestarts':1},", ONE),
     {JOB("js-w-0", FAILED), JOB("js-w-1", FAILED)},
     "RestartingJobSet=False Failed=True",
     "'reason':'ReachedMaxRestarts'",
     "js-w-1"},
    {"a rule ends it at once",
     SET("'failurePolicy':{'maxRestarts':9,'rules':[{'action':'FailJobSet','onJobFailureReasons':["
         "'PodFailurePolicy']}]},",
         ONE),
     {JOB("js-w-0", FAILED_AS("PodFailurePolicy", "code 42"))},
     "Failed=True",
     "'reason':'FailJobSetFailurePolicyAction'",
     "js-w-0"},
    {"a rule for another reason does not match",
     SET("'failurePolicy':{'maxRestarts':9,'rules':[{'action':'FailJobSet','onJobFailureReasons':["
         "'PodFailurePolicy']}]},",
         ONE),
     {JOB("js-w-0", FAILED)},
     "RestartingJobSet=False",
     "'restarts':1,'restartsCountTowardsMax':1",
     "js-w-0 js-w-1"},
    {"a rule looks into the message",
     SET("'failurePolicy':{'maxRestarts':0,'rules':[{'action':'RestartJobSetAndIgnoreMaxRestarts',"
         "'onJobFailureMessagePatterns':['node .* lost']}]},",
         ONE),
     {JOB("js-w-0", FAILED_AS("BackoffLimitExceeded", "its node n1 was lost"))},
     "RestartingJobSet=False",
     "'restarts':1,'restartsCountTowardsMax':0",
     "js-w-0 js-w-1"},
    {"a rule of another part does not match",
     SET("'failurePolicy':{'maxRestarts':0,'rules':[{'action':'RestartJobSetAndIgnoreMaxRestarts',"
         "'targetReplicatedJobs':['b']}]},",
         TWO),
     {JOB("js-a-0", FAILED)},
     "Failed=True",
     "'reason':'ReachedMaxRestarts'",
     "js-a-0"},
    {"one job is restarted alone",
     SET("'failurePolicy':{'maxRestarts':3,'rules':[{'action':'RestartJob'}]},", ONE),
     {JOB("js-w-0", FAILED)},
     "",
     "'individualJobRestarts':[{'restarts':1,'name':'js-w-0'}]",
     "js-w-1 js-w-0"},
    {"a restart of the whole set forgets the restarts of single jobs",
     SET("'failurePolicy':{'maxRestarts':3,'rules':[{'action':'RestartJob','onJobFailureReasons':["
         "'PodFailurePolicy']}]},",
         ONE),
     {JOB("js-w-0", FAILED_AS("PodFailurePolicy", "code 42")), JOB("js-w-1", FAILED)},
     "RestartingJobSet=False",
     "!individualJobRestarts",
     "js-w-0 js-w-1"},
    {"suspended from the start: the jobs are made, and suspended",
     SET("'suspend':true,", ONE),
     {{0}},
     "Suspended=True",
     "'suspended':2",
     "js-w-0 js-w-1"},
    {"resumed",
     SET("'suspend':true,", ONE),
     {SELF("{'spec':{'suspend':false}}")},
     "Suspended=False",
     "'suspended':0",
     "js-w-0 js-w-1"},
    {"suspended while running",
     SET("", ONE),
     {JOB("js-w-0", READY), SELF("{'spec':{'suspend':true}}")},
     "Suspended=True",
     "'suspended':2",
     "js-w-0 js-w-1"},
    {"in order: the second part waits",
     SET("'startupPolicy':{'startupPolicyOrder':'InOrder'},", TWO),
     {{0}},
     "StartupPolicyInProgress=True",
     "'restarts':0",
     "js-a-0"},
    {"in order: the first is ready, the second comes",
     SET("'startupPolicy':{'startupPolicyOrder':'InOrder'},", TWO),
     {JOB("js-a-0", READY)},
     "StartupPolicyInProgress=True",
     "'ready':1",
     "js-a-0 js-b-0"},
    {"in order: all are ready",
     SET("'startupPolicy':{'startupPolicyOrder':'InOrder'},", TWO),
     {JOB("js-a-0", READY), JOB("js-b-0", READY)},
     "StartupPolicyInProgress=False StartupPolicyCompleted=True",
     "'ready':1",
     "js-a-0 js-b-0"},
    {"depending on completion: ready is not enough",
     SET("", PART("a", "") "," PART("b", "'dependsOn':[{'name':'a','status':'Complete'}],")),
     {JOB("js-a-0", READY)},
     "",
     "'ready':1",
     "js-a-0"},
    {"depending on completion: done",
     SET("", PART("a", "") "," PART("b", "'dependsOn':[{'name':'a','status':'Complete'}],")),
     {JOB("js-a-0", COMPLETE)},
     "",
     "'succeeded':1",
     "js-a-0 js-b-0"},
    {"depending on readiness",
     SET("", PART("a", "") "," PART("b", "'dependsOn':[{'name':'a','status':'Ready'}],")),
     {JOB("js-a-0", READY)},
     "",
     "'ready':1",
     "js-a-0 js-b-0"},
    {"a finished set stays finished",
     SET("", ONE),
     {JOB("js-w-0", COMPLETE), JOB("js-w-1", COMPLETE), JOB("js-w-1", FAILED)},
     "Completed=True",
     "'terminalState':'Completed'",
     "js-w-0 js-w-1"},
    {"somebody else's set is left alone",
     SET("'managedBy':'acme.io/sets',", ONE),
     {{0}},
     "",
     "",
     ""},
};

TEST(a_jobset_follows_its_jobs)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_jobset, rows[i].set);
        scene_run(&scene, &jobset_controller, "js");
        for (size_t j = 0; j < 4 && rows[i].steps[j].kind; j++) {
            const struct step *step = &rows[i].steps[j];

            scene_patch(&scene, step->kind, step->name, step->patch);
            scene_run(&scene, &jobset_controller, "js");
        }
        struct str status =
            json_text(&scene.arena, json_get(scene_get(&scene, &kind_jobset, "js"), "status"));
        EXPECT(str_is(scene_conditions(&scene, &kind_jobset, "js"), rows[i].conditions));
        bool absent = rows[i].status[0] == '!';
        EXPECT(str_contains(status, scene_text(&scene, rows[i].status + absent)) != absent);
        EXPECT(str_is(scene_names(&scene, &kind_job), rows[i].jobs));
    }
}

TEST(a_finished_jobset_goes_after_its_time)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_jobset, SET("'ttlSecondsAfterFinished':5,", PART("w", "")));
    scene_run(&scene, &jobset_controller, "js");
    scene_patch(&scene, &kind_job, "js-w-0", COMPLETE);
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(scene_get(&scene, &kind_jobset, "js") != NULL);
    scene.now_ms += 5000;
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(scene_get(&scene, &kind_jobset, "js") == NULL);
}

TEST(a_job_of_a_set_says_where_it_belongs)
{
    static const struct {
        const char *path;
        const char *value;
    } expected[] = {
        {"jobset-name", "js"},
        {"replicatedjob-name", "b"},
        {"replicatedjob-replicas", "2"},
        {"global-replicas", "3"},
        {"job-index", "1"},
        {"job-global-index", "2"},
        {"restart-attempt", "0"},
        {"group-name", "default"},
        {"group-replicas", "3"},
        {"job-group-index", "2"},
        {"coordinator", "js-a-0-0.net"},
        {"job-key", "0279a1987856acaa38634ac06643801535f40cee"},
    };
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_jobset,
              SET("'network':{'subdomain':'net'},'coordinator':{'replicatedJob':'a'},",
                  PART("a", "") "," PART("b", "'replicas':2,")));
    scene_run(&scene, &jobset_controller, "js");
    const struct json *job = scene_get(&scene, &kind_job, "js-b-1");
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        struct str key = str_printf(&scene.arena, "jobset.sigs.k8s.io/%s", expected[i].path);

        test_case(expected[i].path);
        EXPECT(str_is(json_str(json_get_str(json_at(job, "metadata.labels"), key)),
                      expected[i].value));
        EXPECT(
            str_is(json_str(json_get_str(json_at(job, "spec.template.metadata.annotations"), key)),
                   expected[i].value));
    }
    EXPECT(str_is(json_str_at(job, "spec.template.spec.subdomain"), "net"));
    EXPECT(str_is(json_str_at(job, "spec.completionMode"), "Indexed"));
    EXPECT(str_is(json_str_at(job, "spec.template.spec.restartPolicy"), "OnFailure"));
    EXPECT(str_is(json_str_at(scene_get(&scene, &kind_service, "net"), "spec.clusterIP"), "None"));
}

TEST(exclusive_placement_and_claims_reach_the_pods)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene_put(&scene, &kind_jobset,
              "{'metadata':{'name':'js','annotations':{'alpha.jobset.sigs.k8s.io/"
              "exclusive-topology':'rack'}},'spec':{'volumeClaimPolicies':[{'templates':[{'metadata"
              "':{'name':'data'},'spec':{'accessModes':['ReadWriteOnce']}}],'retentionPolicy':{'"
              "whenDeleted':'Retain'}}],'replicatedJobs':[{'name':'w','template':{'spec':{'template"
              "':{'spec':{'containers':[{'name':'c','volumeMounts':[{'name':'data','mountPath':'/d'"
              "}]}]}}}}}]}}");
    scene_run(&scene, &jobset_controller, "js");
    const struct json *spec = json_at(scene_get(&scene, &kind_job, "js-w-0"), "spec.template.spec");
    EXPECT(str_is(json_str_at(spec, "volumes.0.persistentVolumeClaim.claimName"), "data-js"));
    EXPECT(str_is(json_str_at(spec, "affinity.podAffinity."
                                    "requiredDuringSchedulingIgnoredDuringExecution.0.topologyKey"),
                  "rack"));
    const struct json *claim = scene_get(&scene, &kind_pvc, "data-js");
    EXPECT(claim && !json_at(claim, "metadata.ownerReferences"));
}

/* ---- its room while it restarts ---- */

#define FAILED_NOW                                                                              \
    "{'status':{'conditions':[{'type':'Failed','status':'True','reason':'BackoffLimitExceeded'" \
    ",'message':'m','lastTransitionTime':'1970-01-01T00:16:40Z'}]}}"

static struct str js_held(struct scene *scene)
{
    const struct json *group = scene_get(scene, &kind_podgroup, "pg-js-u-js");

    return json_str(json_get(json_at(group, "metadata.annotations"), HOLD_UNTIL_ANNOTATION));
}

static struct str js_marked(struct scene *scene, const char *job)
{
    const struct json *tree = scene_get(scene, &kind_job, job);

    return json_str(json_get(json_at(tree, "spec.template.metadata.annotations"), HOLD_ANNOTATION));
}

static void js_begin(struct scene *scene, const char *set)
{
    scene_open(scene);
    scene->now_ms = 1000000;
    scene_put(scene, &kind_jobset, set);
    scene_put(scene, &kind_podgroup,
              "{'metadata':{'name':'pg-js-u-js','ownerReferences':[{'apiVersion':'jobset.x-k8s.io/"
              "v1alpha2','kind':'JobSet','name':'js','uid':'u-js'}]}}");
    scene_run(scene, &jobset_controller, "js");
}

TEST(a_jobset_that_restarts_has_its_room_held)
{
    _cleanup_(scene_close) struct scene scene;

    js_begin(&scene, SET("'failurePolicy':{'maxRestarts':1},", ONE));
    EXPECT(str_is(js_marked(&scene, "js-w-0"), "60000ms"));
    EXPECT(!js_held(&scene).len);
    scene_patch(&scene, &kind_job, "js-w-0", FAILED_NOW);
    EXPECT(scene_turn(&scene, &jobset_controller, "js"));
    EXPECT(str_is(js_held(&scene), "1970-01-01T00:17:40Z"));
    /* No restart is left to those made now. */
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(!js_marked(&scene, "js-w-0").len);
    EXPECT(str_is(js_held(&scene), "1970-01-01T00:17:40Z"));
    /* They run: nothing is held any more. */
    scene_patch(&scene, &kind_job, "js-w-0", READY);
    scene_patch(&scene, &kind_job, "js-w-1", READY);
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(!js_held(&scene).len);
}

TEST(a_jobset_that_was_not_told_of_a_restart_is_told_later)
{
    _cleanup_(scene_close) struct scene scene;

    js_begin(&scene, SET("'failurePolicy':{'maxRestarts':1},", ONE));
    /* The restart is counted; who counted it died before the next write. */
    scene_patch(&scene, &kind_job, "js-w-0", FAILED_NOW);
    scene_patch(&scene, &kind_jobset, "js",
                "{'status':{'restarts':1,'restartsCountTowardsMax':1}}");
    EXPECT(scene_turn(&scene, &jobset_controller, "js"));
    EXPECT(str_is(js_held(&scene), "1970-01-01T00:17:40Z"));
}

TEST(a_jobset_holds_nothing_where_it_must_not)
{
    static const struct {
        const char *why;
        const char *set;
        const char *patch; /* of the set */
        const char *held;
    } refusals[] = {
        {"it is not restarted", SET("", ONE), NULL, ""},
        {"as often as it may be", SET("'failurePolicy':{'maxRestarts':0},", ONE), NULL,
         "1970-01-01T00:16:41Z"},
        {"its annotation says so",
         "{'metadata':{'name':'js','annotations':{'muster.dev/restart-hold':'0s'}},'spec':{"
         "'failurePolicy':{'maxRestarts':1},'replicatedJobs':[" ONE "]}}",
         NULL, ""},
        {"it is suspended meanwhile", SET("'failurePolicy':{'maxRestarts':1},", ONE),
         "{'spec':{'suspend':true}}", "1970-01-01T00:16:41Z"},
    };

    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(refusals[i].why);
        js_begin(&scene, refusals[i].set);
        scene.now_ms += 1000;
        scene_patch(&scene, &kind_job, "js-w-0", FAILED_NOW);
        (void)scene_turn(&scene, &jobset_controller, "js");
        if (refusals[i].patch)
            scene_patch(&scene, &kind_jobset, "js", refusals[i].patch);
        scene_run(&scene, &jobset_controller, "js");
        EXPECT(str_is(js_held(&scene), refusals[i].held));
    }
}
