#include "api/kind.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/controllers.h"
#include "control/core/scene.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* What a JobSet makes, what it leaves alone, and which failure it goes by. */

#define PART(name, more)                                                                          \
    "{'name':'" name "'," more                                                                    \
    "'template':{'spec':{'parallelism':2,'template':{'spec':{'containers':[{'name':'c','image':'" \
    "i'}]}}}}}"
#define SET(spec, parts) "{'metadata':{'name':'js'},'spec':{" spec "'replicatedJobs':[" parts "]}}"
#define ONE              PART("w", "'replicas':2,")
#define OWNED(name)                                                                             \
    "'ownerReferences':[{'apiVersion':'jobset.x-k8s.io/v1alpha2','kind':'JobSet','name':'" name \
    "','uid':'u-" name "','controller':true}]"

static void begin(struct scene *scene, const char *set)
{
    scene_open(scene);
    scene_put(scene, &kind_jobset, set);
    scene_run(scene, &jobset_controller, "js");
}

static struct str pod_text(struct scene *scene, const char *job, const char *path)
{
    const struct json *value =
        json_at(json_at(scene_get(scene, &kind_job, job), "spec.template.spec"), path);
    char *text = str_c(&scene->arena, value ? json_text(&scene->arena, value) : STR(""));

    for (char *c = text; *c; c++)
        *c = *c == '"' ? '\'' : *c;
    return str_from(text);
}

/* ---- who failed ---- */

#define FAILED_AT(second, message)                                                              \
    "{'status':{'conditions':[{'type':'Failed','status':'True','reason':'BackoffLimitExceeded'" \
    ",'message':'" message "','lastTransitionTime':'2026-01-01T00:00:" second "Z'}]}}"
#define RULES(list) "'failurePolicy':{'maxRestarts':0,'rules':[" list "]},"
#define MATCHES(action, patterns) \
    "{'action':'" action "','onJobFailureMessagePatterns':[" patterns "]}"

static const struct {
    const char *why;
    const char *set;
    const char *first; /* how js-w-0 failed; NULL: it has not */
    const char *second;
    const char *status; /* a part of it */
} failures[] = {
    {"the earliest of two", SET("", ONE), FAILED_AT("09", "late"), FAILED_AT("01", "early"),
     "job js-w-1 failed: BackoffLimitExceeded: early"},
    {"the earliest of two, wherever it stands", SET("", ONE), FAILED_AT("01", "early"),
     FAILED_AT("09", "late"), "job js-w-0 failed: BackoffLimitExceeded: early"},
    {"a rule goes by the failure that it matches", SET(RULES(MATCHES("FailJobSet", "'late'")), ONE),
     FAILED_AT("09", "late"), FAILED_AT("01", "early"),
     "job js-w-0 failed: BackoffLimitExceeded: late"},
    {"any pattern of a rule", SET(RULES(MATCHES("FailJobSet", "'no','y.s'")), ONE),
     FAILED_AT("01", "yes"), NULL, "FailJobSetFailurePolicyAction"},
    {"a pattern that is none matches nothing", SET(RULES(MATCHES("FailJobSet", "'('")), ONE),
     FAILED_AT("01", "("), NULL, "ReachedMaxRestarts"},
    {"no pattern matches", SET(RULES(MATCHES("FailJobSet", "'no'")), ONE), FAILED_AT("01", "yes"),
     NULL, "ReachedMaxRestarts"},
    {"one job alone, however often",
     SET(RULES(MATCHES("RestartJobAndIgnoreMaxRestarts", "'yes'")), ONE), FAILED_AT("01", "yes"),
     NULL, "'restartsCountTowardsMax':0"},
    {"and the others stay", SET(RULES(MATCHES("RestartJobAndIgnoreMaxRestarts", "'yes'")), ONE),
     FAILED_AT("01", "yes"), NULL, "[{'restarts':1,'name':'js-w-0'}]"},
};

TEST(a_jobset_goes_by_the_failure_that_counts)
{
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(failures[i].why);
        begin(&scene, failures[i].set);
        scene_patch(&scene, &kind_job, "js-w-0", failures[i].first);
        if (failures[i].second)
            scene_patch(&scene, &kind_job, "js-w-1", failures[i].second);
        scene_run(&scene, &jobset_controller, "js");
        struct str status =
            json_text(&scene.arena, json_get(scene_get(&scene, &kind_jobset, "js"), "status"));
        EXPECT(str_contains(status, scene_text(&scene, failures[i].status)));
    }
}

/* ---- what is made ---- */

TEST(a_jobset_whose_pods_have_no_names_has_no_service)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("'network':{'enableDNSHostnames':false},", ONE));
    EXPECT(str_is(scene_names(&scene, &kind_service), ""));
    EXPECT(str_is(pod_text(&scene, "js-w-0", "subdomain"), ""));
}

TEST(what_a_template_says_of_its_job_stays)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("", "{'name':'w','template':{'spec':{'completionMode':'NonIndexed',"
                          "'completions':3,'template':{'spec':{'restartPolicy':'Never'}}}}}"));
    const struct json *spec = json_get(scene_get(&scene, &kind_job, "js-w-0"), "spec");
    EXPECT(str_is(json_str(json_get(spec, "completionMode")), "NonIndexed"));
    EXPECT(json_i64_or(json_get(spec, "completions"), 0) == 3);
    EXPECT(str_is(json_str_at(spec, "template.spec.restartPolicy"), "Never"));
}

#define EXCLUSIVE "'alpha.jobset.sigs.k8s.io/exclusive-topology':'rack'"
#define SELECTOR  "'alpha.jobset.sigs.k8s.io/node-selector':'true'"
#define PLACED(all, own)                                                                          \
    "{'metadata':{'name':'js','annotations':{" all "}},'spec':{'replicatedJobs':[{'name':'w',"    \
    "'template':{'metadata':{'annotations':{" own "}},'spec':{'template':{'spec':{'tolerations':" \
    "[{'key':'t'}],'containers':[{'name':'c'}]}}}}}]}}"

TEST(jobs_have_a_domain_for_themselves_by_affinity_or_by_labelled_nodes)
{
    static const struct {
        const char *why;
        const char *set;
        bool affinity;
        bool selector;
    } rows[] = {
        {"nothing is said", PLACED("", ""), false, false},
        {"of all parts", PLACED(EXCLUSIVE, ""), true, false},
        {"of one part", PLACED("", EXCLUSIVE), true, false},
        {"nodes were labelled, for all", PLACED(EXCLUSIVE "," SELECTOR, ""), false, true},
        {"nodes were labelled, for one", PLACED(EXCLUSIVE, SELECTOR), false, true},
        {"nodes were labelled for nothing", PLACED(SELECTOR, ""), false, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        begin(&scene, rows[i].set);
        EXPECT((pod_text(&scene, "js-w-0", "affinity").len > 0) == rows[i].affinity);
        EXPECT(str_is(pod_text(&scene, "js-w-0", "nodeSelector"),
                      rows[i].selector ? "{'alpha.jobset.sigs.k8s.io/namespaced-job':'n_js-w-0'}"
                                       : ""));
        EXPECT(str_is(pod_text(&scene, "js-w-0", "tolerations.1.operator"),
                      rows[i].selector ? "'Exists'" : ""));
    }
}

#define CLAIM(policy) \
    "'volumeClaimPolicies':[{'templates':[{'metadata':{'name':'data'},'spec':{}}]" policy "}],"
#define MOUNTS(pod) "{'name':'w','template':{'spec':{'template':{'spec':{" pod "}}}}}"
#define DATA_VOLUME "{'name':'data','persistentVolumeClaim':{'claimName':'data-js'}}"

TEST(a_claim_of_a_jobset_is_the_volume_of_who_mounts_it)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *volumes;
    } rows[] = {
        {"nobody does", "'containers':[{'name':'c','volumeMounts':[{'name':'x'}]}]", ""},
        {"a container does",
         "'containers':[{'name':'a'},{'name':'c','volumeMounts':[{'name':'x'},{"
         "'name':'data'}]}]",
         "[" DATA_VOLUME "]"},
        {"one that runs first does",
         "'containers':[{'name':'c'}],'initContainers':[{'name':'i','volumeMounts':[{'name':'data'}"
         "]"
         "}]",
         "[" DATA_VOLUME "]"},
        {"beside other volumes",
         "'volumes':[{'name':'x'}],'containers':[{'name':'c','volumeMounts':[{'name':'data'}]}]",
         "[{'name':'x'}," DATA_VOLUME "]"},
        {"its own volume of that name stays",
         "'volumes':[{'name':'data','emptyDir':{}}],'containers':[{'name':'c','volumeMounts':[{"
         "'name':'data'}]}]",
         "[{'name':'data','emptyDir':{}}]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(scene_close) struct scene scene;

        test_case(rows[i].why);
        scene_open(&scene);
        scene_put(&scene, &kind_jobset,
                  str_printf(&scene.arena, SET(CLAIM(""), MOUNTS("%s")), rows[i].pod).p);
        scene_run(&scene, &jobset_controller, "js");
        EXPECT(str_is(pod_text(&scene, "js-w-0", "volumes"), rows[i].volumes));
        EXPECT(str_is(
            json_str_at(scene_get(&scene, &kind_pvc, "data-js"), "metadata.ownerReferences.0.name"),
            "js")); /* it goes with the set */
    }
}

TEST(groups_of_parts_count_their_own_jobs)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("", PART("a", "'groupName':'g','replicas':2,") "," PART("b", "") "," PART(
                              "c", "'groupName':'g',")));
    const struct json *labels = json_at(scene_get(&scene, &kind_job, "js-c-0"), "metadata.labels");
    EXPECT(str_is(json_str(json_get(labels, "jobset.sigs.k8s.io/group-name")), "g"));
    EXPECT(str_is(json_str(json_get(labels, "jobset.sigs.k8s.io/group-replicas")), "3"));
    EXPECT(str_is(json_str(json_get(labels, "jobset.sigs.k8s.io/job-group-index")), "2"));
    EXPECT(str_is(json_str(json_get(labels, "jobset.sigs.k8s.io/job-global-index")), "3"));
}

/* ---- what is changed, removed, left alone ---- */

TEST(jobs_that_a_jobset_does_not_have_any_more_go)
{
    static const char *const labels[] = {
        "'jobset.sigs.k8s.io/replicatedjob-name':'gone','jobset.sigs.k8s.io/job-index':'0'",
        "'jobset.sigs.k8s.io/replicatedjob-name':'w','jobset.sigs.k8s.io/job-index':'9'"};

    for (size_t i = 0; i < COUNT_OF(labels); i++) {
        _cleanup_(scene_close) struct scene scene;

        begin(&scene, SET("", ONE));
        scene_put(&scene, &kind_job,
                  str_printf(&scene.arena,
                             "{'metadata':{'name':'old','labels':{%s}," OWNED("js") "}}", labels[i])
                      .p);
        scene_run(&scene, &jobset_controller, "js");
        EXPECT(str_is(scene_names(&scene, &kind_job), "js-w-0 js-w-1"));
    }
}

TEST(a_job_of_a_jobset_that_goes_is_waited_for)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("", ONE));
    scene_patch(&scene, &kind_job, "js-w-0",
                "{'metadata':{'deletionTimestamp':'1970-01-01T00:16:41Z'}}");
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(scene_get(&scene, &kind_job, "js-w-0") != NULL); /* once is enough */
    EXPECT(!str_contains(scene.events, STR("JobCreationFailed")));
    scene_drop(&scene, &kind_job, "js-w-0");
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(scene_get(&scene, &kind_job, "js-w-0") != NULL);
}

TEST(a_job_of_somebody_else_is_left_alone_and_said)
{
    static const char *const owners[] = {"", "," OWNED("other")};

    for (size_t i = 0; i < COUNT_OF(owners); i++) {
        _cleanup_(scene_close) struct scene scene;

        scene_open(&scene);
        scene_put(&scene, &kind_job,
                  str_printf(&scene.arena, "{'metadata':{'name':'js-w-0'%s}}", owners[i]).p);
        scene_put(&scene, &kind_jobset, SET("", ONE));
        (void)scene_turn(&scene, &jobset_controller, "js");
        EXPECT(str_contains(scene.event_words,
                            STR("a job js-w-0 already exists and does not belong to this jobset")));
        EXPECT(!json_get(scene_get(&scene, &kind_job, "js-w-0"), "spec"));
        EXPECT(scene_get(&scene, &kind_job, "js-w-1") != NULL);
    }
}

TEST(what_the_server_says_to_a_job_is_the_jobsets_to_tell)
{
    _cleanup_(scene_close) struct scene scene;

    scene_open(&scene);
    scene.refusal = STR("exceeded quota");
    scene_put(&scene, &kind_jobset, SET("", ONE));
    (void)scene_turn(&scene, &jobset_controller, "js");
    EXPECT(str_contains(scene.events, STR("JobCreationFailed")));
    EXPECT(str_contains(scene.event_words, STR("exceeded quota")));
}

TEST(jobs_that_are_resumed_have_what_was_changed_meanwhile)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("'suspend':true,", "{'name':'w','template':{'spec':{'template':{'spec':{"
                                         "'tolerations':[{'key':'t'}]}}}}}"));
    scene_put(&scene, &kind_jobset,
              SET("'suspend':true,", "{'name':'w','template':{'spec':{'template':{'metadata':{"
                                     "'labels':{'l':'1'}},'spec':{'nodeSelector':{'a':'1'}}}}}}"));
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(str_is(pod_text(&scene, "js-w-0", "nodeSelector"), "")); /* not before */
    scene_patch(&scene, &kind_jobset, "js", "{'spec':{'suspend':false}}");
    scene_run(&scene, &jobset_controller, "js");
    EXPECT(str_is(pod_text(&scene, "js-w-0", "nodeSelector"), "{'a':'1'}"));
    EXPECT(str_is(pod_text(&scene, "js-w-0", "tolerations"), ""));
    EXPECT(str_is(
        json_str_at(scene_get(&scene, &kind_job, "js-w-0"), "spec.template.metadata.labels.l"),
        "1"));
}

TEST(a_part_that_waits_for_one_that_is_not_there_does_not_start)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, SET("'managedBy':'jobset.sigs.k8s.io/jobset-controller',",
                      PART("a", "") "," PART("b", "'dependsOn':[{'name':'x','status':'Ready'}],")));
    EXPECT(str_is(scene_names(&scene, &kind_job), "js-a-0"));
}

TEST(a_jobset_that_goes_or_is_gone_makes_nothing)
{
    _cleanup_(scene_close) struct scene scene;

    begin(&scene, "{'metadata':{'name':'js','deletionTimestamp':'1970-01-01T00:16:41Z'},'spec':{"
                  "'replicatedJobs':[" ONE "]}}");
    scene_run(&scene, &jobset_controller, "none");
    EXPECT(str_is(scene_names(&scene, &kind_job), ""));
}

TEST(a_jobset_hears_of_its_jobs_and_of_pods_that_say_where_they_are)
{
    _cleanup_(scene_close) struct scene scene;
    const struct controller *controller = &jobset_controller;

    begin(&scene, SET("", ONE));
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'placed','labels':{'jobset.sigs.k8s.io/jobset-name':'js'},"
              "'annotations':{'muster.dev/restart-in-place':'0 go'}}}");
    scene_put(&scene, &kind_pod,
              "{'metadata':{'name':'silent','labels':{'jobset.sigs.k8s.io/jobset-name':'js'}}}");
    scene_put(&scene, &kind_job,
              "{'metadata':{'name':'odd','ownerReferences':[{'apiVersion':'example.com/v1','kind':"
              "'JobSet','name':'js','uid':'u-js','controller':true}]}}");
    scene_put(&scene, &kind_job,
              "{'metadata':{'name':'other','ownerReferences':[{'apiVersion':'batch/v1','kind':"
              "'CronJob','name':'js','uid':'x','controller':true}]}}");
    EXPECT(str_is(scene_keys(&scene, controller, &kind_jobset, "js"), "js"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_job, "js-w-0"), "js"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_job, "odd"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_job, "other"), ""));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "placed"), "js"));
    EXPECT(str_is(scene_keys(&scene, controller, &kind_pod, "silent"), ""));
}
