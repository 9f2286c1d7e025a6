#include "api/admit.h"
#include "api/kind.h"
#include "api/refusal_test.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

/* What makes pods: the words of Kubernetes' own kinds, and those of training. */

#define PODS                                                                               \
    "'restartPolicy':'Always','dnsPolicy':'Default','terminationGracePeriodSeconds':1,"    \
    "'containers':[{'name':'c','image':'i','volumeMounts':[{'name':'d','mountPath':'/d'}]" \
    "}],'volumes':[{'name':'d','emptyDir':{}}]"
#define LABELS         "'metadata':{'labels':{'a':'b'}}"
#define TEMPLATE       "'template':{" LABELS ",'spec':{" PODS "}}"
#define SELECT         "'selector':{'matchLabels':{'a':'b'}}"
#define ROLL(more)     "'strategy':{'type':'RollingUpdate','rollingUpdate':{" more "}}"
#define DEPLOY(more)   "{" SELECT "," TEMPLATE more "}"
#define ROLLING(more)  DEPLOY("," ROLL(more))
#define ROLLING_FIELD  "spec.strategy.rollingUpdate"
#define MAX_SURGE      ROLLING_FIELD ".maxSurge"
#define MAX_GONE       ROLLING_FIELD ".maxUnavailable"
#define PARTS(pods)    "{" SELECT "," ROLL("") ",'template':{" LABELS ",'spec':{" pods "}}}"
#define CHOSEN(wanted) "{" ROLL("") "," TEMPLATE ",'selector':" wanted "}"

TEST(a_deployment_can_choose_and_replace_its_pods)
{
    static const struct refusal rows[] = {
        {"some of each", &kind_deployment, NULL, ROLLING("'maxSurge':'25%','maxUnavailable':'25%'"),
         ""},
        {"numbers", &kind_deployment, NULL, ROLLING("'maxSurge':0,'maxUnavailable':1"), ""},
        {"more than all beside them", &kind_deployment, NULL, ROLLING("'maxSurge':'200%'"), ""},
        {"more than all gone", &kind_deployment, NULL, ROLLING("'maxUnavailable':'101%'"),
         MAX_GONE},
        {"fewer than none", &kind_deployment, NULL, ROLLING("'maxSurge':-1"), MAX_SURGE},
        {"fewer than none of a hundred", &kind_deployment, NULL, ROLLING("'maxSurge':'-1%'"),
         MAX_SURGE},
        {"only a sign", &kind_deployment, NULL, ROLLING("'maxSurge':'%'"), MAX_SURGE},
        {"a word", &kind_deployment, NULL, ROLLING("'maxSurge':'x%'"), MAX_SURGE},
        {"a number as a word", &kind_deployment, NULL, ROLLING("'maxUnavailable':'1'"), MAX_GONE},
        {"no way at all", &kind_deployment, NULL, ROLLING("'maxSurge':0,'maxUnavailable':0"),
         MAX_GONE},
        {"nor of a hundred", &kind_deployment, NULL,
         ROLLING("'maxSurge':'0%','maxUnavailable':'0%'"), MAX_GONE},
        {"all at once", &kind_deployment, NULL, DEPLOY(",'strategy':{'type':'Recreate'}"), ""},
        {"all at once, and slowly", &kind_deployment, NULL,
         DEPLOY(",'strategy':{'type':'Recreate','rollingUpdate':{'maxSurge':1}}"), ROLLING_FIELD},
        {"somehow", &kind_deployment, NULL, DEPLOY(",'strategy':{'type':'Somehow'}"),
         "spec.strategy.type"},
        {"late", &kind_deployment, NULL,
         DEPLOY("," ROLL("") ",'progressDeadlineSeconds':11,'minReadySeconds':10"), ""},
        {"too late", &kind_deployment, NULL,
         DEPLOY("," ROLL("") ",'progressDeadlineSeconds':10,'minReadySeconds':10"),
         "spec.progressDeadlineSeconds"},
        {"fewer pods than none", &kind_deployment, NULL, DEPLOY("," ROLL("") ",'replicas':-1"),
         "spec.replicas"},
        {"nobody is chosen", &kind_deployment, NULL, "{" ROLL("") "," TEMPLATE "}",
         "spec.selector"},
        {"everybody is", &kind_deployment, NULL, CHOSEN("{}"), "spec.selector"},
        {"by no operator", &kind_deployment, NULL,
         CHOSEN("{'matchExpressions':[{'key':'a','operator':'Like','values':['b']}]}"),
         "spec.selector"},
        {"by an expression", &kind_deployment, NULL,
         CHOSEN("{'matchExpressions':[{'key':'a','operator':'In','values':['b']}]}"), ""},
        {"those of others", &kind_deployment, NULL, CHOSEN("{'matchLabels':{'a':'c'}}"),
         "spec.template.metadata.labels"},
        {"others later", &kind_deployment, CHOSEN("{'matchLabels':{'x':'y'}}"),
         CHOSEN("{'matchLabels':{'a':'b'}}"), "spec.selector"},
        {"no pods", &kind_replicaset, NULL, "{" SELECT "}", "spec.template.metadata.labels"},
        {"pods that end", &kind_deployment, NULL,
         PARTS("'restartPolicy':'Never','containers':[{'name':'c','image':'i'}]"),
         "spec.template.spec.restartPolicy"},
        {"by a deadline", &kind_deployment, NULL,
         PARTS("'activeDeadlineSeconds':1,'containers':[{'name':'c','image':'i'}]"),
         "spec.template.spec.activeDeadlineSeconds"},
        {"a set", &kind_replicaset, DEPLOY(",'replicas':1"), DEPLOY(",'replicas':2"), ""},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define UPDATES(more) DEPLOY(",'updateStrategy':{" more "}")
#define DAEMON        "spec.updateStrategy.rollingUpdate"
#define KEEP          "'persistentVolumeClaimRetentionPolicy'"
#define CLAIMS        ",'volumeClaimTemplates':[{'metadata':{'name':'e'}},{'metadata':{'name':'d'}}]"

TEST(sets_of_pods_with_names_and_on_every_node_say_how_they_change)
{
    static const struct refusal rows[] = {
        {"a node at a time", &kind_daemonset, NULL,
         UPDATES("'type':'RollingUpdate','rollingUpdate':{'maxSurge':0,'maxUnavailable':1}"), ""},
        {"beside the old ones", &kind_daemonset, NULL,
         UPDATES("'type':'RollingUpdate','rollingUpdate':{'maxSurge':'10%','maxUnavailable':0}"),
         ""},
        {"by hand", &kind_daemonset, NULL, UPDATES("'type':'OnDelete'"), ""},
        {"somehow", &kind_daemonset, NULL, UPDATES("'type':'Somehow'"), "spec.updateStrategy.type"},
        {"both ways", &kind_daemonset, NULL,
         UPDATES("'rollingUpdate':{'maxSurge':1,'maxUnavailable':1}"), DAEMON ".maxSurge"},
        {"neither way", &kind_daemonset, NULL,
         UPDATES("'rollingUpdate':{'maxSurge':0,'maxUnavailable':0}"), DAEMON ".maxUnavailable"},
        {"more than every node", &kind_daemonset, NULL,
         UPDATES("'rollingUpdate':{'maxSurge':'101%','maxUnavailable':0}"), DAEMON ".maxSurge"},
        {"fewer than none", &kind_daemonset, NULL,
         UPDATES("'rollingUpdate':{'maxSurge':0,'maxUnavailable':-1}"), DAEMON ".maxUnavailable"},
        {"claims of its own, one as a volume", &kind_statefulset, NULL,
         DEPLOY(",'podManagementPolicy':'Parallel'," KEEP
                ":{'whenDeleted':'Delete','whenScaled':'Retain'}" CLAIMS),
         ""},
        {"in no order", &kind_statefulset, NULL, DEPLOY(",'podManagementPolicy':'Any'"),
         "spec.podManagementPolicy"},
        {"kept somehow", &kind_statefulset, NULL, DEPLOY("," KEEP ":{'whenScaled':'Keep'}"),
         "spec.persistentVolumeClaimRetentionPolicy.whenScaled"},
        {"numbers from below", &kind_statefulset, NULL, DEPLOY(",'ordinals':{'start':-1}"),
         "spec.ordinals.start"},
        {"a part below none", &kind_statefulset, NULL, UPDATES("'rollingUpdate':{'partition':-1}"),
         DAEMON ".partition"},
        {"other pods later", &kind_statefulset, DEPLOY(",'replicas':1,'minReadySeconds':1"),
         DEPLOY(",'replicas':2,'ordinals':{'start':1}"), ""},
        {"another service later", &kind_statefulset, DEPLOY(",'serviceName':'a'"),
         DEPLOY(",'serviceName':'b'"), "spec"},
        {"older than selectors", &kind_replicationcontroller, NULL,
         "{'selector':{'a':'b'}," TEMPLATE "}", ""},
        {"which it lacks", &kind_replicationcontroller, NULL, "{" TEMPLATE "}", "spec.selector"},
        {"those of others", &kind_replicationcontroller, NULL,
         "{'selector':{'a':'c'}," TEMPLATE "}", "spec.template.metadata.labels"},
        {"no pods", &kind_replicationcontroller, NULL, "{'selector':{'a':'c'}}", "spec.template"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

TEST(a_replication_controller_without_a_selector_chooses_the_pods_of_its_template)
{
    static const struct {
        const char *why;
        const char *given;
        const char *selector;
        const char *labels;
    } rows[] = {
        {"neither", "{'metadata':{},'spec':{" TEMPLATE "}}", "{'a':'b'}", "{'a':'b'}"},
        {"both", "{'metadata':{'labels':{'x':'y'}},'spec':{'selector':{'a':'c'}," TEMPLATE "}}",
         "{'a':'c'}", "{'x':'y'}"},
        {"no labels", "{'metadata':{},'spec':{'template':{'spec':{" PODS "}}}}", "null", "null"},
        {"no pods", "{'metadata':{},'spec':{}}", "null", "null"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena,
                              .kind = &kind_replicationcontroller,
                              .object = test_json(&arena, rows[i].given)};
        const struct json *want[] = {test_json(&arena, rows[i].selector),
                                     test_json(&arena, rows[i].labels)};
        const char *const paths[] = {"spec.selector", "metadata.labels"};

        test_case(rows[i].why);
        EXPECT(admit_default(&admit, NULL) == 0);
        for (size_t j = 0; j < COUNT_OF(paths); j++) {
            const struct json *got = json_at(admit.object, paths[j]);

            EXPECT(json_is_null(want[j]) ? json_is_null(got) : json_equal(want[j], got));
        }
    }
}

#define ENDING        "'dnsPolicy':'Default','containers':[{'name':'c','image':'i'}]"
#define WORK(more)    "{'template':{'spec':{'restartPolicy':'Never'," ENDING "}}" more "}"
#define INDEXED(more) WORK(",'completionMode':'Indexed'" more)
#define RULES(rule)   WORK(",'podFailurePolicy':{'rules':[" rule "]}")
#define RULE          "spec.podFailurePolicy.rules[0]"
#define ON_CODES      "'onExitCodes':{'operator':'In','values':[1]}"
#define STOPPED(more) "{'suspend':true,'template':{" more "}}"

TEST(a_job_says_when_it_has_ended)
{
    static const struct refusal rows[] = {
        {"plainly", &kind_job, NULL, WORK(""), ""},
        {"indexed", &kind_job, NULL,
         INDEXED(",'completions':3,'backoffLimitPerIndex':1,'maxFailedIndexes':1,"
                 "'successPolicy':{'rules':[{'succeededCount':1}]}"),
         ""},
        {"without a count", &kind_job, NULL, INDEXED(""), "spec.completions"},
        {"with too many", &kind_job, NULL, INDEXED(",'completions':100001"), "spec.completions"},
        {"in another way", &kind_job, NULL, WORK(",'completionMode':'Some'"),
         "spec.completionMode"},
        {"fewer than none", &kind_job, NULL, WORK(",'parallelism':-1"), "spec.parallelism"},
        {"what only indexed ones have", &kind_job, NULL, WORK(",'backoffLimitPerIndex':1"),
         "spec.backoffLimitPerIndex"},
        {"a limit of failed ones without one of each", &kind_job, NULL,
         INDEXED(",'completions':3,'maxFailedIndexes':1"), "spec.backoffLimitPerIndex"},
        {"no rule of success", &kind_job, NULL, INDEXED(",'completions':1,'successPolicy':{}"),
         "spec.successPolicy.rules"},
        {"codes", &kind_job, NULL, RULES("{'action':'FailJob'," ON_CODES "}"), ""},
        {"conditions", &kind_job, NULL,
         RULES("{'action':'Ignore','onPodConditions':[{'type':'DisruptionTarget'}]}"), ""},
        {"counted", &kind_job, NULL,
         RULES("{'action':'Count','onExitCodes':{'operator':'NotIn','values':[0]}}"), ""},
        {"of one index", &kind_job, NULL, RULES("{'action':'FailIndex'," ON_CODES "}"),
         RULE ".action"},
        {"no action", &kind_job, NULL, RULES("{'action':'Cry'," ON_CODES "}"), RULE ".action"},
        {"for nothing", &kind_job, NULL, RULES("{'action':'Count'}"), RULE},
        {"for both", &kind_job, NULL,
         RULES("{'action':'Count'," ON_CODES ",'onPodConditions':[{'type':'A'}]}"), RULE},
        {"like a code", &kind_job, NULL,
         RULES("{'action':'Count','onExitCodes':{'operator':'Like','values':[1]}}"),
         RULE ".onExitCodes.operator"},
        {"no code", &kind_job, NULL, RULES("{'action':'Count','onExitCodes':{'operator':'In'}}"),
         RULE ".onExitCodes.values"},
        {"the code of success", &kind_job, NULL,
         RULES("{'action':'Count','onExitCodes':{'operator':'In','values':[0]}}"),
         RULE ".onExitCodes.values[0]"},
        {"rules of pods that go on", &kind_job, NULL,
         "{'podFailurePolicy':{'rules':[]},'template':{'spec':{'restartPolicy':'OnFailure'," ENDING
         "}}}",
         "spec.template.spec.restartPolicy"},
        {"pods that never end", &kind_job, NULL,
         "{'template':{'spec':{'restartPolicy':'Always'," ENDING "}}}",
         "spec.template.spec.restartPolicy"},
        {"nothing said about it", &kind_job, NULL, "{'template':{'spec':{" ENDING "}}}",
         "spec.template.spec.restartPolicy"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

TEST(a_job_that_is_there_changes_in_few_ways)
{
    static const struct refusal rows[] = {
        {"how many at once", &kind_job, WORK(",'parallelism':1"), WORK(",'parallelism':2"), ""},
        {"fewer than none", &kind_job, WORK(",'parallelism':1"), WORK(",'parallelism':-1"),
         "spec.parallelism"},
        {"how many in all", &kind_job, WORK(",'completions':1"), WORK(",'completions':2"),
         "spec.completions"},
        {"indexed ones, with those at once", &kind_job, INDEXED(",'completions':1,'parallelism':1"),
         INDEXED(",'completions':2,'parallelism':2"), ""},
        {"indexed ones, without them", &kind_job, INDEXED(",'completions':1,'parallelism':1"),
         INDEXED(",'completions':2,'parallelism':1"), "spec.completions"},
        {"indexed from now on", &kind_job, WORK(",'completionMode':'NonIndexed','completions':1"),
         INDEXED(",'completions':1"), "spec.completionMode"},
        {"whose pods", &kind_job, WORK(",'selector':{'matchLabels':{'a':'b'}}"),
         WORK(",'selector':{'matchLabels':{'a':'c'}}"), "spec.selector"},
        {"who manages it", &kind_job, WORK(",'managedBy':'x.org/a'"),
         WORK(",'managedBy':'x.org/b'"), "spec.managedBy"},
        {"other pods", &kind_job, WORK(""), "{'template':{'spec':{}}}", "spec.template"},
        {"where they run, while none does", &kind_job,
         STOPPED("'spec':{'nodeSelector':{'a':'b'}},'metadata':{'labels':{'a':'b'}}"),
         STOPPED("'spec':{'tolerations':[],'affinity':{}}"), ""},
        {"who they are, while none runs", &kind_job,
         STOPPED("'spec':{},'metadata':{'labels':{'a':'b'},'name':'x'}"),
         STOPPED("'spec':{},'metadata':{'annotations':{'a':'b'},'name':'x'}"), ""},
        {"what they do, while none runs", &kind_job, STOPPED("'spec':{'containers':[]}"),
         STOPPED("'spec':{}"), "spec.template"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define SCHEDULE(text) "{'schedule':'" text "','concurrencyPolicy':'Allow'"
#define NIGHTLY        SCHEDULE("0 3 * * *")
#define EACH           ",'jobTemplate':{'spec':" WORK("") "}}"
#define LONG           "a2345678901234567890123456789012345678901234567890"

TEST(a_cron_job_says_when_and_what)
{
    static const struct refusal rows[] = {
        {"every night", &kind_cronjob, NULL, NIGHTLY ",'timeZone':'Europe/Berlin'" EACH, ""},
        {"one at a time", &kind_cronjob, NULL,
         "{'schedule':'@hourly','concurrencyPolicy':'Forbid'" EACH, ""},
        {"the last one", &kind_cronjob, NULL,
         "{'schedule':'@hourly','concurrencyPolicy':'Replace'" EACH, ""},
        {"in another way", &kind_cronjob, NULL,
         "{'schedule':'@hourly','concurrencyPolicy':'Queue'" EACH, "spec.concurrencyPolicy"},
        {"never", &kind_cronjob, NULL, SCHEDULE("") EACH, "spec.schedule"},
        {"sometimes", &kind_cronjob, NULL, SCHEDULE("now and then") EACH, "spec.schedule"},
        {"where", &kind_cronjob, NULL, SCHEDULE("TZ=UTC 0 3 * * *") EACH, "spec.schedule"},
        {"nowhere", &kind_cronjob, NULL, NIGHTLY ",'timeZone':'../etc'" EACH, "spec.timeZone"},
        {"a little late", &kind_cronjob, NULL, NIGHTLY ",'startingDeadlineSeconds':-1" EACH,
         "spec.startingDeadlineSeconds"},
        {"fewer kept than none", &kind_cronjob, NULL, NIGHTLY ",'failedJobsHistoryLimit':-1" EACH,
         "spec.failedJobsHistoryLimit"},
        {"nothing", &kind_cronjob, NULL, NIGHTLY ",'jobTemplate':{'spec':{}}}",
         "spec.jobTemplate.spec.template"},
        {"what may never end", &kind_cronjob, NULL,
         NIGHTLY ",'jobTemplate':{'spec':{'template':{'spec':{" ENDING "}}}}}",
         "spec.jobTemplate.spec.template.spec.restartPolicy"},
    };
    static const struct refusal named[] = {
        {"short enough", &kind_cronjob, NULL,
         "{'metadata':{'name':'" LONG "12'},'spec':" NIGHTLY EACH "}", ""},
        {"too long", &kind_cronjob, NULL,
         "{'metadata':{'name':'" LONG "123'},'spec':" NIGHTLY EACH "}", "metadata.name"},
        {"too long, as it was", &kind_cronjob,
         "{'metadata':{'name':'" LONG "123'},'spec':" NIGHTLY EACH "}",
         "{'metadata':{'name':'" LONG "123'},'spec':" NIGHTLY EACH "}", ""},
    };

    refusals_play(rows, COUNT_OF(rows));
    refusals_play_whole(named, COUNT_OF(named));
}

#define BARE                                                                               \
    "{'restartPolicy':'Never','dnsPolicy':'Default','containers':[{'name':'c','image':'i'" \
    ",'volumeMounts':[{'name':'d','mountPath':'/d'}]}]"
#define PART(name, more) \
    "{'name':'" name "','template':{'spec':{'template':{'spec':" BARE more "}}}}}"
#define CLAIMED          "'volumeClaimPolicies':[{'templates':[{'metadata':{'name':'d'}}]}]"
#define SET(more, parts) "{" more "'replicatedJobs':[" parts "]}"
#define SIMPLE(template)                                                                           \
    "{'suspend':true,'replicatedJobs':[{'name':'a','template':{'spec':{'template':" template "}}}" \
                                                                                             "]}"
#define PODS_OF "spec.replicatedJobs[0].template.spec.template.spec"

TEST(a_jobset_makes_jobs_that_can_be_made)
{
    static const struct refusal rows[] = {
        {"claims of the set", &kind_jobset, NULL, SET(CLAIMED ",", PART("a", "")), ""},
        {"and a volume of the same name", &kind_jobset, NULL,
         SET(CLAIMED ",", PART("a", ",'volumes':[{'name':'d','emptyDir':{}}]")), ""},
        {"no such claim", &kind_jobset, NULL, SET("", PART("a", "")),
         PODS_OF ".containers[0].volumeMounts[0].name"},
        {"no pods", &kind_jobset, NULL, "{'replicatedJobs':[{'name':'a','template':{'spec':{}}}]}",
         PODS_OF ".containers"},
        {"none of them yet", &kind_jobset, NULL,
         "{'replicatedJobs':[{'name':'a','replicas':0,'template':{'spec':{'parallelism':0,"
         "'template':{'spec':{'restartPolicy':'Never','dnsPolicy':'Default','containers':[{'name':"
         "'c','image':'i'}]}}}}}]}",
         ""},
        {"where they run, while none does", &kind_jobset,
         SIMPLE("{'spec':{'nodeSelector':{'a':'b'}}}"),
         SIMPLE("{'metadata':{'labels':{'a':'b'}},'spec':{'tolerations':[]}}"), ""},
        {"what they do, while none runs", &kind_jobset, SIMPLE("{'spec':{'containers':[]}}"),
         SIMPLE("{'spec':{}}"), "spec.replicatedJobs"},
        {"their names, while none runs", &kind_jobset,
         SIMPLE("{'metadata':{'name':'x'},'spec':{}}"),
         SIMPLE("{'metadata':{'name':'x','annotations':{'a':'b'}},'spec':{}}"), ""},
    };
    static const struct refusal named[] = {
        {"names that are too long", &kind_jobset, NULL,
         "{'metadata':{'name':'" LONG
         "1234567890','namespace':'n'},'spec':" SET("", PART("a", "")) "}",
         "spec.replicatedJobs[0].name"},
    };

    refusals_play(rows, COUNT_OF(rows));
    refusals_play_whole(named, COUNT_OF(named));
}

/* JobSet's own sample is such a one. */
TEST(a_jobset_that_names_no_job_is_told_that_nothing_comes_of_it)
{
    static const char *const specs[] = {"null", "{}", "{'replicatedJobs':[]}",
                                        SET(CLAIMED ",", PART("a", ""))};

    for (size_t i = 0; i < COUNT_OF(specs); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = &kind_jobset};

        test_case(specs[i]);
        admit.object = test_json(
            &arena, str_printf(&arena, "{'metadata':{'name':'q'},'spec':%s}", specs[i]).p);
        admit_validate(&admit);
        EXPECT(!admit.causes.count);
        EXPECT(str_is(admit.warnings,
                      i < 3 ? "spec.replicatedJobs: names no job, so nothing comes of this JobSet"
                            : ""));
    }
}

#define PULLED "'image':'i','imagePullPolicy':'Always'"
#define DEBUG(more)                                                                       \
    "{'containers':[{'name':'c'," PULLED "}],'initContainers':[{'name':'i'," PULLED "}]," \
    "'volumes':[{'name':'v','emptyDir':{}}],'ephemeralContainers':[{" PULLED "," more "}]}"
#define E "spec.ephemeralContainers[0]"

TEST(who_looks_into_a_pod_takes_nothing_of_it)
{
    static const struct refusal rows[] = {
        {"from the beginning", &kind_pod, NULL, DEBUG("'name':'e'"), "spec.ephemeralContainers"},
        {"later", &kind_pod, DEBUG("'name':'e'"), DEBUG("'name':'e','targetContainerName':'c'"),
         "spec"},
        {"into one", &kind_pod, DEBUG("'name':'e','targetContainerName':'c'"),
         DEBUG("'name':'e','targetContainerName':'c'"), ""},
        {"into one that runs first", &kind_pod, DEBUG("'name':'e','targetContainerName':'i'"),
         DEBUG("'name':'e','targetContainerName':'i'"), ""},
        {"into none", &kind_pod, DEBUG("'name':'e','targetContainerName':'x'"),
         DEBUG("'name':'e','targetContainerName':'x'"), E ".targetContainerName"},
        {"by the name of one", &kind_pod, DEBUG("'name':'c'"), DEBUG("'name':'c'"), E ".name"},
        {"by the name of one that runs first", &kind_pod, DEBUG("'name':'i'"), DEBUG("'name':'i'"),
         E ".name"},
        {"with a port", &kind_pod, DEBUG("'name':'e','ports':[{'containerPort':1}]"),
         DEBUG("'name':'e','ports':[{'containerPort':1}]"), E ".ports"},
        {"with an amount", &kind_pod, DEBUG("'name':'e','resources':{'limits':{'cpu':1}}"),
         DEBUG("'name':'e','resources':{'limits':{'cpu':1}}"), E ".resources"},
        {"in a part of a volume", &kind_pod,
         DEBUG("'name':'e','volumeMounts':[{'name':'v','mountPath':'/v','subPath':'s'}]"),
         DEBUG("'name':'e','volumeMounts':[{'name':'v','mountPath':'/v','subPath':'s'}]"),
         E ".volumeMounts[0].subPath"},
        {"in a part that is made up", &kind_pod,
         DEBUG("'name':'e','volumeMounts':[{'name':'v','mountPath':'/w'},{'name':'v','mountPath':"
               "'/v','subPathExpr':'s'}]"),
         DEBUG("'name':'e','volumeMounts':[{'name':'v','mountPath':'/w'},{'name':'v','mountPath':"
               "'/v','subPathExpr':'s'}]"),
         E ".volumeMounts[1].subPath"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

TEST(a_torchrun_job_waits_and_ends)
{
    static const struct refusal rows[] = {
        {"in time", &kind_torchrunjob, NULL, "{'maxRunTime':'90m'}", ""},
        {"some time", &kind_torchrunjob, NULL, "{'maxRunTime':'soon'}", "spec.maxRunTime"},
        {"in no time", &kind_torchrunjob, NULL, "{'maxRunTime':'0s'}", "spec.maxRunTime"},
        {"for others", &kind_torchrunjob, NULL, "{'after':[{'job':'a'},{'job':'b'}]}", ""},
        {"for itself", &kind_torchrunjob, NULL, "{'after':[{'job':'a'},{'job':'q'}]}",
         "spec.after[1].job"},
        {"for fewer than at least", &kind_torchrunjob, NULL,
         "{'elastic':{'minNodes':2,'maxNodes':1}}", "spec.elastic.maxNodes"},
        {"for as many as there are", &kind_torchrunjob, NULL, "{'elastic':{'minNodes':2}}", ""},
        {"no indexes", &kind_torchrunjob, NULL, "{'array':{'indexes':'x'}}", "spec.array.indexes"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define LEVEL(label, alias) "{'nodeLabel':'" label "','alias':'" alias "'}"
#define LEVELS(list)        "{'levels':[" list "]}"
#define HOST                "kubernetes.io/hostname"

TEST(the_levels_of_a_topology_stay)
{
    static const struct refusal rows[] = {
        {"two", &kind_topology, NULL, LEVELS(LEVEL("a/r", "rack") "," LEVEL(HOST, "host")), ""},
        {"other words for them", &kind_topology, LEVELS(LEVEL("a/r", "rack")),
         LEVELS(LEVEL("a/r", "row")), ""},
        {"others", &kind_topology, LEVELS(LEVEL("a/r", "rack")), LEVELS(LEVEL("a/s", "rack")),
         "spec.levels"},
        {"more", &kind_topology, LEVELS(LEVEL("a/r", "rack")),
         LEVELS(LEVEL("a/r", "rack") "," LEVEL(HOST, "host")), "spec.levels"},
        {"one twice", &kind_topology, NULL, LEVELS(LEVEL("a/r", "") "," LEVEL("a/r", "")),
         "spec.levels[1].nodeLabel"},
        {"two of one word", &kind_topology, NULL, LEVELS(LEVEL("a/r", "x") "," LEVEL("a/s", "x")),
         "spec.levels[1].alias"},
        {"the word of another", &kind_topology, NULL,
         LEVELS(LEVEL("a/r", "a/s") "," LEVEL("a/s", "x")), "spec.levels[0].alias"},
        {"hosts above others", &kind_topology, NULL, LEVELS(LEVEL(HOST, "x") "," LEVEL("a/s", "y")),
         "spec.levels[0].nodeLabel"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

#define GANG(more)     "'schedulingPolicy':{'gang':{'minCount':2}}" more
#define TEMPLATES(all) "{'podGroupTemplates':[" all "]}"
#define GROUPED(more)  TEMPLATES("{'name':'a'," GANG(more) "}")
#define T              "spec.podGroupTemplates[0]"

TEST(a_group_of_pods_of_kubernetes_says_how_it_is_placed)
{
    static const struct refusal rows[] = {
        {"together", &kind_workload, NULL, GROUPED(""), ""},
        {"together, how many is not said", &kind_workload, NULL,
         TEMPLATES("{'name':'a','schedulingPolicy':{'gang':{}}}"),
         T ".schedulingPolicy.gang.minCount"},
        {"none together", &kind_workload, NULL,
         TEMPLATES("{'name':'a','schedulingPolicy':{'gang':{'minCount':0}}}"),
         T ".schedulingPolicy.gang.minCount"},
        {"near each other", &kind_workload, NULL,
         GROUPED(",'schedulingConstraints':{'topology':[{'key':'a/rack'}]}"), ""},
        {"near in no way", &kind_workload, NULL,
         GROUPED(",'schedulingConstraints':{'topology':[{}]}"),
         T ".schedulingConstraints.topology.key"},
        {"near by no label", &kind_workload, NULL,
         GROUPED(",'schedulingConstraints':{'topology':[{'key':'a b'}]}"),
         T ".schedulingConstraints.topology.key"},
        {"near in two ways", &kind_workload, NULL,
         GROUPED(",'schedulingConstraints':{'topology':[{'key':'a'},{'key':'b'}]}"),
         T ".schedulingConstraints.topology"},
        {"with devices", &kind_workload, NULL,
         GROUPED(",'resourceClaims':[{'name':'d','resourceClaimName':'x'}]"), ""},
        {"with devices of no name", &kind_workload, NULL,
         GROUPED(",'resourceClaims':[{'resourceClaimName':'x'}]"), T ".resourceClaims[0].name"},
        {"with no name of them", &kind_workload, NULL,
         GROUPED(",'resourceClaims':[{'name':'D','resourceClaimName':'x'}]"),
         T ".resourceClaims[0].name"},
        {"with both", &kind_workload, NULL,
         GROUPED(",'resourceClaims':[{'name':'d','resourceClaimName':'x',"
                 "'resourceClaimTemplateName':'y'}]"),
         T ".resourceClaims[0]"},
        {"with too many", &kind_workload, NULL,
         GROUPED(",'resourceClaims':[{'name':'a','resourceClaimName':'x'},{'name':'b',"
                 "'resourceClaimName':'x'},{'name':'c','resourceClaimName':'x'},{'name':'d',"
                 "'resourceClaimName':'x'},{'name':'e','resourceClaimName':'x'}]"),
         T ".resourceClaims"},
        {"of a class", &kind_workload, NULL, GROUPED(",'priorityClassName':'high'"), ""},
        {"of no class", &kind_workload, NULL, GROUPED(",'priorityClassName':'High'"),
         T ".priorityClassName"},
        {"above all", &kind_workload, NULL, GROUPED(",'priority':1000000001"), T ".priority"},
        {"who makes no room", &kind_workload, NULL, GROUPED(",'preemptionPolicy':'Never'"), ""},
        {"who makes room", &kind_workload, NULL,
         GROUPED(",'preemptionPolicy':'PreemptLowerPriority'"), ""},
        {"who makes some", &kind_workload, NULL, GROUPED(",'preemptionPolicy':'Some'"),
         T ".preemptionPolicy"},
        {"two of one class", &kind_workload, NULL,
         TEMPLATES("{'name':'a'," GANG(",'priorityClassName':'x'") "},{'name':'b'," GANG(
             ",'priorityClassName':'x'") "}"),
         ""},
        {"two of two classes", &kind_workload, NULL,
         TEMPLATES("{'name':'a'," GANG(",'priorityClassName':'x'") "},{'name':'b'," GANG(
             ",'priorityClassName':'y'") "}"),
         "spec.podGroupTemplates"},
        {"two of a name", &kind_workload, NULL,
         TEMPLATES("{'name':'a'," GANG("") "},{'name':'a'," GANG("") "}"),
         "spec.podGroupTemplates[1].name"},
        {"nothing", &kind_workload, NULL, "{}", "spec"},
        {"as before", &kind_workload, GROUPED(""), GROUPED(""), ""},
        {"one more later", &kind_workload, GROUPED(""),
         TEMPLATES("{'name':'a'," GANG("") "},{'name':'b'," GANG("") "}"),
         "spec.podGroupTemplates"},
        {"another later", &kind_workload, GROUPED(""), TEMPLATES("{'name':'b'," GANG("") "}"),
         "spec.podGroupTemplates"},
    };

    refusals_play(rows, COUNT_OF(rows));
}
