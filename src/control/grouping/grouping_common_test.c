#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/grouping/grouping.h"
#include "control/grouping/grouping_case_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

/* What holds for the group of every kind of owner. */

#define THING(meta)  "{'apiVersion':'x/v1','kind':'Thing','metadata':{'name':'o','uid':'u'" meta "}}"
#define LABELS(list) "'labels':{" list "}"
#define NOTES(list)  "'annotations':{" list "}"
#define CLASS(name)  "{'kind':'PriorityClass','metadata':{'name':'" name "'}}"
#define HIGH         "'priorityClassName':'high'"
#define LOW          "'priorityClassName':'low'"
#define CLASSES      CLASS("high") "," CLASS("low")
#define BELOW(meta)  "{'apiVersion':'x/v1','kind':'Part','metadata':{'name':'b','uid':'bu'" meta "}}"

TEST(the_priority_of_a_group_is_the_first_class_that_exists)
{
    static const struct grouping_case rows[] = {
        {"the top owner's",
         {THING("," LABELS(HIGH)), BELOW("," LABELS(LOW))},
         LABELS(LOW),
         .around = CLASSES,
         .want = "pg-o-u 1 priority high"},
        {"an owner's below it",
         {THING(""), BELOW("," LABELS(HIGH))},
         LABELS(LOW),
         .around = CLASSES,
         .want = "pg-o-u 1 priority high"},
        {"the pod's label",
         {THING("")},
         LABELS(HIGH),
         LOW,
         .around = CLASSES,
         .want = "pg-o-u 1 priority high"},
        {"the pod's",
         {THING("")},
         .spec = HIGH,
         .around = CLASSES,
         .want = "pg-o-u 1 priority high"},
        {"classes that do not exist are none",
         {THING("," LABELS("'priorityClassName':'a'")),
          BELOW("," LABELS("'priorityClassName':'b'"))},
         LABELS("'priorityClassName':'c'"),
         "'priorityClassName':'d'",
         .around = CLASSES,
         .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_group_is_preemptible_as_its_owner_says_then_as_its_pod_does)
{
#define SAYS(word) "'kai.scheduler/preemptibility':'" word "'"
    static const struct grouping_case rows[] = {
        {"the owner's label",
         {THING("," LABELS(SAYS("preemptible")) "," NOTES(SAYS("non-preemptible")))},
         LABELS(SAYS("semi-preemptible")),
         .want = "pg-o-u 1 is preemptible"},
        {"its annotation",
         {THING("," LABELS(SAYS("rather not")) "," NOTES(SAYS("non-preemptible")))},
         LABELS(SAYS("semi-preemptible")),
         .want = "pg-o-u 1 is non-preemptible"},
        {"the pod's label",
         {THING("")},
         LABELS(SAYS("semi-preemptible")) "," NOTES(SAYS("preemptible")),
         .want = "pg-o-u 1 is semi-preemptible"},
        {"its annotation",
         {THING("")},
         LABELS(SAYS("rather not")) "," NOTES(SAYS("preemptible")),
         .want = "pg-o-u 1 is preemptible"},
        {"nobody's", {THING("")}, NOTES(SAYS("rather not")), .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(the_defaults_of_a_kind_are_those_of_its_group_then_of_its_name)
{
    static const struct {
        const char *why;
        const char *defaults;
        const char *want;
    } rows[] = {
        {"both",
         "[{\"typeName\":\"Other\",\"priorityName\":\"low\"},{\"typeName\":\"Thing\","
         "\"priorityName\":\"low\"},{\"typeName\":\"Thing\",\"group\":\"x\","
         "\"priorityName\":\"high\",\"preemptibility\":\"semi-preemptible\"}]",
         "pg-o-u 1 priority high is semi-preemptible"},
        {"the first that has the name alone",
         "[{\"typeName\":\"Thing\",\"group\":\"y\",\"priorityName\":\"low\"},{\"typeName\":"
         "\"Thing\",\"priorityName\":\"high\"},{\"typeName\":\"Thing\",\"priorityName\":\"low\"}]",
         "pg-o-u 1 priority high"},
        {"a class that is not there and a word that means nothing",
         "[{\"typeName\":\"Thing\",\"priorityName\":\"none\",\"preemptibility\":\"rather\"}]",
         "pg-o-u 1"},
        {"no list", "[", "pg-o-u 1"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct grouping_case row = {
            rows[i].why, {THING("")}, .around = CLASSES, .want = rows[i].want};

        grouping_case_check(&row, 1,
                            &(struct grouping_input){.defaults = str_from(rows[i].defaults)});
    }
}

TEST(a_kind_of_the_core_group_has_the_defaults_of_its_name)
{
    static const struct grouping_case row = {
        "no group is no group",
        {"{'apiVersion':'v1','kind':'Thing','metadata':{'name':'o','uid':'u'}}"},
        .around = CLASSES,
        .want = "pg-o-u 1 priority high"};

    grouping_case_check(&row, 1,
                        &(struct grouping_input){
                            .defaults = STR("[{\"typeName\":\"Thing\",\"group\":\"x\","
                                            "\"priorityName\":\"low\"},{\"typeName\":\"Thing\","
                                            "\"priorityName\":\"high\"}]")});
}

#define RUN(time) "'muster.dev/max-run-time':'" time "'"
#define REQUEUE   "'muster.dev/requeue-after-max-run-time':'true'"

TEST(how_long_a_group_may_run_is_said_by_its_owners_or_its_pod)
{
    static const struct {
        struct grouping_case row;
        const char *time; /* NULL: for ever */
        bool requeue;
    } rows[] = {
        {{"the owner's spec",
          .owners = {"{'apiVersion':'x/"
                     "v1','kind':'Thing','metadata':{'name':'o','uid':'u','annotations':{" RUN(
                         "1h") "}},'spec':{'maxRunTime':'2h','requeueAfterMaxRunTime':true}}"}},
         "2h",
         true},
        {{"a spec that says no time",
          .owners = {"{'apiVersion':'x/"
                     "v1','kind':'Thing','metadata':{'name':'o','uid':'u','annotations':{" RUN(
                         "1h") "}},'spec':{'maxRunTime':'long'}}"}},
         "1h",
         false},
        {{"nor does one of nothing",
          .owners = {"{'apiVersion':'x/v1','kind':'Thing','metadata':{'name':'o','uid':'u'},"
                     "'spec':{'maxRunTime':'0s'}}"},
          NOTES(RUN("1h"))},
         "1h",
         false},
        {{"its annotation", .owners = {THING("," NOTES(RUN("1h") "," REQUEUE))}, NOTES(RUN("2h"))},
         "1h",
         true},
        {{"an owner's below it", .owners = {THING(""), BELOW("," NOTES(RUN("1h") "," REQUEUE))},
          NOTES(RUN("2h"))},
         "1h",
         true},
        {{"the pod's", .owners = {THING("," NOTES(RUN("soon")))}, NOTES(RUN("2h") "," REQUEUE)},
         "2h",
         true},
        {{"without an end it does not come back", .owners = {THING("," NOTES(REQUEUE))}},
         NULL,
         false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping group = {0};

        test_case(rows[i].row.why);
        EXPECT(grouping_case_decide(&rows[i].row, &(struct grouping_input){0}, &arena, &group,
                                    NULL) == 0);
        const struct json *spec = json_get(grouping_manifest(&group, &arena), "spec");
        EXPECT(str_eq(json_str(json_get(spec, "maxRunTime")), str_from(rows[i].time)));
        EXPECT(json_bool_or(json_get(spec, "requeueAfterMaxRunTime"), false) == rows[i].requeue);
    }
}

TEST(a_group_tells_whose_it_is)
{
    static const struct grouping_case row = {
        .owners =
            {"{'apiVersion':'x/"
             "v1','kind':'Thing','metadata':{'name':'o','uid':'u','labels':{'a':'1'},"
             "'annotations':{'note':'2','kubectl.kubernetes.io/last-applied-configuration':'{}',"
             "'kai.scheduler/topology':'t','kai.scheduler/topology-preferred-placement':'rack'}}}"},
        .meta = LABELS("'user':'ann','kai.scheduler/node-pool':'h100','b':'2'")};
    _cleanup_(arena_done) struct arena arena = {0};
    struct grouping group = {0};

    EXPECT(grouping_case_decide(&row, &(struct grouping_input){0}, &arena, &group, NULL) == 0);
    const struct json *made = grouping_manifest(&group, &arena);
    const struct json *labels = json_at(made, "metadata.labels");
    const struct json *notes = json_at(made, "metadata.annotations");
    EXPECT(json_count(labels) == 3); /* the pod's b is its own */
    EXPECT(str_is(json_str(json_get(labels, "a")), "1"));
    EXPECT(str_is(json_str(json_get(labels, "user")), "ann"));
    EXPECT(str_is(json_str(json_get(labels, "kai.scheduler/node-pool")), "h100"));
    EXPECT(str_is(json_str(json_get(notes, "note")), "2"));
    EXPECT(!json_get(notes, "kubectl.kubernetes.io/last-applied-configuration"));
    EXPECT(str_is(json_str(json_get(notes, "kai.scheduler/top-owner-metadata")),
                  "name: o\nuid: u\ngroup: x\nversion: v1\nkind: Thing\n"));
    EXPECT(str_is(json_str_at(made, "metadata.namespace"), "d"));
    EXPECT(str_is(json_str_at(made, "metadata.ownerReferences.0.apiVersion"), "x/v1"));
    EXPECT(str_is(json_str_at(made, "spec.topologyConstraint.preferredTopologyLevel"), "rack"));
    EXPECT(!json_at(made, "spec.topologyConstraint.requiredTopologyLevel"));
}

TEST(near_to_each_other_needs_a_topology_and_a_level)
{
#define LEVEL "'kai.scheduler/topology-required-placement':'rack'"
    static const struct grouping_case rows[] = {
        {"both",
         {THING("," NOTES("'kai.scheduler/topology':'t'," LEVEL))},
         .want = "pg-o-u 1@t:rack:"},
        {"no topology", {THING("," NOTES(LEVEL))}, .want = "pg-o-u 1"},
        {"no level", {THING("," NOTES("'kai.scheduler/topology':'t'"))}, .want = "pg-o-u 1"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(a_word_of_preemptibility_that_means_nothing_is_found_wherever_it_stands)
{
    static const struct {
        const char *why;
        const char *owner;
        const char *pod;
        const char *word;
    } rows[] = {
        {"nowhere", "{}", "{}", ""},
        {"they are all words",
         "{\"metadata\":{\"labels\":{\"kai.scheduler/preemptibility\":"
         "\"preemptible\"},\"annotations\":{\"kai.scheduler/preemptibility\":"
         "\"semi-preemptible\"}}}",
         "{}", ""},
        {"the owner's label",
         "{\"metadata\":{\"labels\":{\"kai.scheduler/preemptibility\":\"no\"}}}", "{}",
         "is \"no\", which"},
        {"the owner's annotation",
         "{\"metadata\":{\"annotations\":{\"kai.scheduler/preemptibility\":\"no\"}}}", "{}",
         "is \"no\", which"},
        {"the pod's", "{}", "{\"metadata\":{\"labels\":{\"kai.scheduler/preemptibility\":\"no\"}}}",
         "is \"no\", which"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct grouping_input in = {.arena = &arena, .owner_count = 1};
        struct json *owner = NULL, *pod = NULL;

        test_case(rows[i].why);
        EXPECT(json_parse(&arena, str_from(rows[i].owner), &owner, NULL) == 0);
        EXPECT(json_parse(&arena, str_from(rows[i].pod), &pod, NULL) == 0);
        in.owners[0] = owner;
        in.pod = pod;
        struct str words = grouping_odd_words(&in);
        EXPECT(str_contains(words, str_from(rows[i].word)) && !words.len == !*rows[i].word);
    }
}

/* ---- too much ---- */

TEST(a_group_has_no_more_subgroups_than_one_can_have)
{
    static const struct grouping_case rows[] = {
        {"Jobs of a JobSet",
         {"{'apiVersion':'jobset.x-k8s.io/v1alpha2','kind':'JobSet','metadata':{'name':'o','uid':"
          "'u'},'spec':{'replicatedJobs':[{'name':'a','replicas':2000000000}]}}"},
         LABELS("'jobset.sigs.k8s.io/replicatedjob-name':'a','jobset.sigs.k8s.io/job-index':'0'"),
         .want = "refused: replicatedJob a has 2000000000 replicas, and a group at most 10240 "
                 "subgroups"},
        {"of two sets together",
         {"{'apiVersion':'jobset.x-k8s.io/v1alpha2','kind':'JobSet','metadata':{'name':'o','uid':"
          "'u'},'spec':{'replicatedJobs':[{'name':'a','replicas':8000},{'name':'b','replicas':8000}"
          "]}}"},
         LABELS(
             "'jobset.sigs.k8s.io/replicatedjob-name':'b','jobset.sigs.k8s.io/job-index':'7999'"),
         .want = "refused: its group would have more than the 10240 subgroups that it can"},
    };

    grouping_case_check(rows, COUNT_OF(rows), &(struct grouping_input){0});
}

TEST(all_segments_that_are_allowed_are_subgroups)
{
    static const struct grouping_case row = {
        .owners = {"{'apiVersion':'kubeflow.org/"
                   "v1','kind':'PyTorchJob','metadata':{'name':'o','uid':'u'},"
                   "'spec':{'pytorchReplicaSpecs':{'Master':{},'Worker':{'replicas':10000}}}}"},
        .meta = NOTES("'kai.scheduler/segment-size':'1'") "," LABELS(
            "'training.kubeflow.org/replica-index':'9999'")};
    _cleanup_(arena_done) struct arena arena = {0};
    struct grouping group = {0};

    EXPECT(grouping_case_decide(&row, &(struct grouping_input){0}, &arena, &group, NULL) == 0);
    EXPECT(group.subs.count == 10002 && group.subs.items[1].min_sub == 10000);
    EXPECT(str_eq(group.subs.items[group.subs.count - 1].name, group.pod_sub));
}
