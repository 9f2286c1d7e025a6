#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/str.h"
#include "sched/decode.h"
#include "sched/decode_test.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is read of pods. */

/* A pod with these annotations or labels, and with this spec, or status; "": without. */
struct manifest {
    const char *annotations;
    const char *labels;
    const char *spec;
    const char *status;
};

static void pod_open(struct reading *r, const struct manifest *pod)
{
    struct arena arena = {0};
    struct str text =
        str_printf(&arena,
                   "{'metadata':{'namespace':'ns','name':'p','annotations':{%s},"
                   "'labels':{%s}},'spec':{%s},'status':{%s}}",
                   pod->annotations ? pod->annotations : "", pod->labels ? pod->labels : "",
                   pod->spec ? pod->spec : "", pod->status ? pod->status : "");

    reading_open(r, &kind_pod, str_c(&arena, text));
    arena_done(&arena);
}

static struct sched_pod pod_read(struct reading *r, const struct manifest *pod)
{
    struct sched_pod spec;

    pod_open(r, pod);
    decode_pod(&r->decode, &spec);
    return spec;
}

TEST(a_pod_asks_for_what_its_containers_request_or_else_are_limited_to)
{
    static const struct {
        const char *resources;
        int64_t cpu_milli;
        int64_t gpus;
        size_t others;
        const char *wrong;
    } rows[] = {
        {"'requests':{'cpu':'2','nvidia.com/gpu':'1'}", 2000, 1, 0, NULL},
        {"'limits':{'cpu':'3'},'requests':{'cpu':'2500m'}", 2500, 0, 0, NULL},
        {"'limits':{'cpu':'3','amd.com/gpu':2}", 3000, 2, 0, NULL},
        {"'requests':{'example.com/a':'1','example.com/b':'2','example.com/none':'0'}", 0, 0, 2,
         NULL},
        {"'requests':{'cpu':'-1','nvidia.com/gpu':'1'}", 0, 1, 0,
         "resources.requests.cpu: is negative"},
        {"'limits':{'cpu':'two'}", 0, 0, 0, "resources.limits.cpu: "},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str spec =
            str_printf(&arena, "'containers':[{'name':'c','resources':{%s}}]", rows[i].resources);
        struct reading r;

        test_case(rows[i].resources);
        struct sched_pod pod = pod_read(&r, &(struct manifest){.spec = str_c(&arena, spec)});
        EXPECT(pod.cpu_milli == rows[i].cpu_milli);
        EXPECT(pod.gpus == rows[i].gpus);
        EXPECT(pod.amount_count == rows[i].others);
        EXPECT(reading_says(&r, rows[i].wrong));
        reading_close(&r);
        arena_done(&arena);
    }
}

/* Kubernetes: Guaranteed is who has a limit of CPUs and memory in every container, and asks for no
 * less. */
TEST(the_class_of_a_pod_is_worked_out_where_its_status_does_not_say_it)
{
    static const struct {
        const char *resources;
        const char *status;
        bool guaranteed;
    } rows[] = {
        {"", "", false},
        {"", "'qosClass':'Guaranteed'", true},
        {"'limits':{'cpu':'1','memory':'1Gi'}", "'qosClass':'Burstable'", false},
        {"'limits':{'cpu':'1','memory':'1Gi'}", "", true},
        {"'limits':{'cpu':'1'}", "", false},
        {"'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'1000m'}", "", true},
        {"'limits':{'cpu':'1','memory':'1Gi'},'requests':{'cpu':'500m'}", "", false},
        {"'limits':{'cpu':'x','memory':'1Gi'}", "", false},
        {"'limits':{'cpu':'1','memory':'1Gi'},'requests':{'memory':'x'}", "", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str spec =
            str_printf(&arena, "'containers':[{'resources':{%s}}]", rows[i].resources);
        struct reading r;

        test_case(rows[i].resources);
        struct sched_pod pod =
            pod_read(&r, &(struct manifest){.spec = str_c(&arena, spec), .status = rows[i].status});
        EXPECT(pod.guaranteed == rows[i].guaranteed);
        reading_close(&r);
        arena_done(&arena);
    }
}

/* What the sandbox takes belongs to no container: so they are told apart from the pod. */
TEST(a_container_alone_is_told_apart_from_a_pod_with_overhead)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r, &(struct manifest){.spec = "'containers':[{'resources':{'requests':{'cpu':'1'}}}],"
                                       "'overhead':{'cpu':'250m'}"});

    EXPECT(pod.cpu_milli == 1250 && pod.container_count == 1);
    EXPECT(pod.containers[0].amounts[0].amount == 1000);
    reading_close(&r);
    pod = pod_read(&r, &(struct manifest){.spec = "'containers':[{}]"});
    EXPECT(pod.container_count == 0);
    reading_close(&r);
}

TEST(zones_that_make_no_sense_are_as_good_as_none)
{
    static const struct {
        const char *zones;
        size_t parts;
    } rows[] = {
        {"not json", 0},
        {"[]", 0},
        {"[{\\'zone\\':\\'node-0\\',\\'amount\\':{\\'a\\':\\'1\\'}}]", 1},
        {"[{\\'zone\\':\\'node-0\\',\\'amount\\':{\\'a\\':\\'1\\',\\'b\\':\\'2\\'}}]", 2},
        {"[{\\'zone\\':\\'node-0\\',\\'amount\\':{\\'c\\':\\'1\\'}}]", 0}, /* not asked for */
        {"[{\\'zone\\':\\'node-0\\',\\'amount\\':{\\'a\\':1,\\'1\\':1,\\'2\\':1,\\'3\\':1,"
         "\\'4\\':1,\\'5\\':1,\\'6\\':1,\\'7\\':1,\\'8\\':1,\\'9\\':1,\\'10\\':1,\\'11\\':1,"
         "\\'12\\':1,\\'13\\':1,\\'14\\':1,\\'15\\':1,\\'16\\':1}}]",
         0}, /* more kinds than a node has */
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct str notes =
            str_printf(&arena, "'kai.scheduler/numa-placement-predicted':'%s'", rows[i].zones);
        struct reading r;

        test_case(rows[i].zones);
        struct sched_pod pod = pod_read(
            &r, &(struct manifest){.annotations = str_c(&arena, notes),
                                   .spec = "'containers':[{'resources':{'requests':{'a':'1',"
                                           "'b':'2'}}}]"});
        EXPECT(pod.zone_part_count == rows[i].parts);
        reading_close(&r);
        arena_done(&arena);
    }
}

TEST(a_share_of_a_gpu_that_cannot_be_had_is_why_a_pod_waits)
{
    static const struct {
        const char *notes;
        enum sched_devices devices;
        bool gpu;          /* it asks for a whole one beside it */
        const char *wrong; /* NULL: it can */
    } rows[] = {
        {"'gpu-fraction':'0.5'", SCHED_DEVICES_NUMBERED, false, NULL},
        {"'gpu-fraction':'0'", SCHED_DEVICES_NUMBERED, false, "gpu-fraction must be a number"},
        {"'gpu-fraction':'1'", SCHED_DEVICES_NUMBERED, false, "gpu-fraction must be a number"},
        {"'gpu-fraction':'half'", SCHED_DEVICES_NUMBERED, false, "gpu-fraction must be a number"},
        {"'gpu-memory':'4096'", SCHED_DEVICES_NUMBERED, false, NULL},
        {"'gpu-memory':'0'", SCHED_DEVICES_NUMBERED, false, "gpu-memory must be a positive"},
        {"'gpu-memory':'4Gi'", SCHED_DEVICES_NUMBERED, false, "gpu-memory must be a positive"},
        {"'gpu-fraction':'0.5','gpu-fraction-num-devices':'16'", SCHED_DEVICES_NUMBERED, false,
         NULL},
        {"'gpu-fraction':'0.5','gpu-fraction-num-devices':'17'", SCHED_DEVICES_NUMBERED, false,
         "must be between 1 and 16"},
        {"'gpu-fraction':'0.5','gpu-fraction-num-devices':'0'", SCHED_DEVICES_NUMBERED, false,
         "must be between 1 and 16"},
        {"'gpu-fraction':'0.5','gpu-fraction-num-devices':'two'", SCHED_DEVICES_NUMBERED, false,
         "must be between 1 and 16"},
        {"'gpu-fraction':'0.5','gpu-memory':'4096'", SCHED_DEVICES_NUMBERED, false,
         "exclude each other"},
        {"'gpu-fraction':'0.5'", SCHED_DEVICES_NUMBERED, true, "exclude each other"},
        {"'gpu-memory':'4096'", SCHED_DEVICES_NUMBERED, true, "exclude each other"},
        {"'gpu-fraction':'0.5'", SCHED_DEVICES_WHOLE, false, "GPU sharing is off on this cluster"},
        {"'gpu-fraction':'0.5'", SCHED_DEVICES_RESERVED, false,
         "it was created while the admission webhook of Muster could not be asked"},
        {"'gpu-fraction':'0.5','runai/shared-gpu-configmap':'c'", SCHED_DEVICES_RESERVED, false,
         NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reading r;
        struct sched_pod pod;

        test_case(rows[i].notes);
        pod_open(&r, &(struct manifest){.annotations = rows[i].notes,
                                        .spec = rows[i].gpu ? "'containers':[{'resources':{"
                                                              "'limits':{'nvidia.com/gpu':1}}}]"
                                                            : "'containers':[{}]"});
        r.config.devices = rows[i].devices;
        decode_pod(&r.decode, &pod);
        EXPECT(reading_says(&r, rows[i].wrong));
        EXPECT((pod.invalid.len > 0) == (rows[i].wrong != NULL));
        reading_close(&r);
    }
}

TEST(of_the_devices_a_pod_names_those_count_that_are_numbers)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r, &(struct manifest){.annotations = "'torchrun.ai/gpu-devices':'0,,x,-1,65536,3'",
                               .spec = "'nodeName':'a'"});

    EXPECT(pod.device_count == 2 && pod.devices[0] == 0 && pod.devices[1] == 3);
    reading_close(&r);
}

#define TERM(key, more) "'topologyKey':'" key "','labelSelector':{'matchLabels':{'a':'b'}}" more
#define HARD            "'requiredDuringSchedulingIgnoredDuringExecution':"
#define SOFT            "'preferredDuringSchedulingIgnoredDuringExecution':"

TEST(what_a_pod_wants_and_prefers_of_others_is_read_with_namespaces_and_weights)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r, &(struct manifest){
                .spec = "'affinity':{'podAffinity':{" HARD "[{" TERM(
                    "zone", ",'namespaces':['x','y']") "}]," SOFT
                                                       "[{'weight':7,'podAffinityTerm':{" TERM(
                                                           "rack",
                                                           "") "}}]},"
                                                               "'podAntiAffinity':{" HARD "[{" TERM(
                                                                   "host", ",'namespaceSelector':{"
                                                                           "}") "}]," SOFT
                                                                                "[{'weight':9,'"
                                                                                "podAffinityTerm':{"
                                                                                "'topologyKey':'"
                                                                                "host','"
                                                                                "labelSelector':{"
                                                                                "'matchExpressions'"
                                                                                ":[{'key':'k','"
                                                                                "operator':'NotIn',"
                                                                                "'values':['v','w']"
                                                                                "}]}}}]}}"});

    EXPECT(pod.affinity_count == 1 && str_is(pod.affinity[0].topology_key, "zone"));
    EXPECT(pod.affinity[0].namespace_count == 2 && str_is(pod.affinity[0].namespaces[1], "y"));
    EXPECT(!pod.affinity[0].namespace_selector.set && pod.anti_affinity[0].namespace_selector.set);
    EXPECT(pod.affinity_preference_count == 1 && pod.affinity_preferences[0].weight == 7);
    EXPECT(str_is(pod.affinity_preferences[0].topology_key, "rack"));
    EXPECT(pod.anti_affinity_preference_count == 1);
    EXPECT(pod.anti_affinity_preferences[0].weight == 9);
    const struct sched_selector *selector = &pod.anti_affinity_preferences[0].selector;
    EXPECT(selector->set && selector->expression_count == 1);
    EXPECT(selector->expressions[0].op == SCHED_NOT_IN &&
           selector->expressions[0].value_count == 2);
    reading_close(&r);
}

TEST(where_a_pod_may_go_is_read_of_selectors_terms_and_tolerations)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r,
        &(struct manifest){
            .spec = "'nodeSelector':{'disk':'ssd','arch':'arm'},'affinity':{'nodeAffinity':{" HARD
                    "{'nodeSelectorTerms':[{'matchFields':[{'key':'metadata.name',"
                    "'operator':'In','values':['a']}]}]}," SOFT
                    "[{'weight':5,'preference':{'matchExpressions':[{'key':'gen',"
                    "'operator':'Gt','values':['3']}]}}]}},"
                    "'tolerations':[{'operator':'Exists'},{'key':'k','value':'v',"
                    "'effect':'NoExecute'},{'key':'k','effect':'PreferNoSchedule'},"
                    "{'key':'k','operator':'Exists','effect':'NoSchedule'}]"});

    EXPECT(pod.node_selector_count == 2 && str_is(pod.node_selector[1].value, "arm"));
    EXPECT(pod.node_affinity && pod.node_term_count == 1 && pod.node_terms[0].field_count == 1);
    EXPECT(pod.node_preference_count == 1 && pod.node_preferences[0].weight == 5);
    EXPECT(pod.node_preferences[0].labels[0].op == SCHED_GT);
    EXPECT(pod.toleration_count == 4 && pod.tolerations[0].exists && pod.tolerations[0].any_effect);
    EXPECT(pod.tolerations[1].effect == SCHED_NO_EXECUTE && !pod.tolerations[1].exists);
    EXPECT(pod.tolerations[2].effect == SCHED_PREFER_NO_SCHEDULE);
    EXPECT(pod.tolerations[3].effect == SCHED_NO_SCHEDULE && !pod.tolerations[3].any_effect);
    reading_close(&r);
}

TEST(spread_constraints_and_host_ports_are_read_with_their_defaults)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r,
        &(struct manifest){.spec = "'topologySpreadConstraints':[{'topologyKey':'zone'},"
                                   "{'topologyKey':'rack','maxSkew':2,'minDomains':3,"
                                   "'whenUnsatisfiable':'ScheduleAnyway'}],"
                                   "'containers':[{'ports':[{'containerPort':80},{'hostPort':443},"
                                   "{'hostPort':53,'protocol':'UDP','hostIP':'10.0.0.1'}]}]"});

    EXPECT(pod.spread_count == 2 && pod.spreads[0].max_skew == 1 && pod.spreads[0].required);
    EXPECT(pod.spreads[1].max_skew == 2 && pod.spreads[1].min_domains == 3);
    EXPECT(!pod.spreads[1].required);
    EXPECT(pod.port_count == 2 && str_is(pod.ports[0].protocol, "TCP"));
    EXPECT(pod.ports[1].port == 53 && str_is(pod.ports[1].protocol, "UDP"));
    EXPECT(str_is(pod.ports[1].address, "10.0.0.1"));
    reading_close(&r);
}

/* Kubernetes: an init container that ends has none when the others run; one that stays has. */
TEST(the_host_ports_of_a_sidecar_are_the_pods_and_those_of_other_init_containers_are_not)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r, &(struct manifest){
                .spec = "'initContainers':[{'ports':[{'hostPort':1}]},{'restartPolicy':'Always',"
                        "'ports':[{'hostPort':2}]}],'containers':[{'ports':[{'hostPort':3}]}]"});

    EXPECT(pod.port_count == 2 && pod.ports[0].port == 2 && pod.ports[1].port == 3);
    reading_close(&r);
}

TEST(a_claim_made_of_a_template_is_named_by_the_status_of_the_pod)
{
    struct reading r;
    struct sched_pod pod = pod_read(
        &r, &(struct manifest){
                .spec = "'resourceClaims':[{'name':'mine','resourceClaimName':'shared'},"
                        "{'name':'made','resourceClaimTemplateName':'t'},"
                        "{'name':'later','resourceClaimTemplateName':'t'}]",
                .status = "'resourceClaimStatuses':[{'name':'made','resourceClaimName':'p-made-x'},"
                          "{'name':'mine','resourceClaimName':'no'}]"});

    EXPECT(pod.claim_count == 3 && str_is(pod.claims[0].name, "shared"));
    EXPECT(!pod.claims[0].from_template && pod.claims[1].from_template);
    EXPECT(str_is(pod.claims[1].name, "p-made-x"));
    EXPECT(str_is(pod.claims[2].name, "p/later")); /* which no claim is called */
    reading_close(&r);
}

TEST(who_of_a_gang_is_placed_first_is_read_of_labels)
{
    static const struct {
        const char *labels;
        int32_t rank;
        bool has_priority;
        int64_t priority;
    } rows[] = {
        {"", 2, false, 0},
        {"'training.kubeflow.org/job-role':'master'", 0, false, 0},
        {"'training.kubeflow.org/job-role':'launcher'", 0, false, 0},
        {"'training.kubeflow.org/job-role':'worker'", 2, false, 0},
        {"'ray.io/node-type':'head'", 1, false, 0},
        {"'kai.scheduler/task-priority':'-3'", 2, true, -3},
        {"'kai.scheduler/task-priority':'high'", 2, false, 0},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reading r;

        test_case(rows[i].labels);
        struct sched_pod pod = pod_read(&r, &(struct manifest){.labels = rows[i].labels});
        EXPECT(pod.role_rank == rows[i].rank);
        EXPECT(pod.has_task_priority == rows[i].has_priority);
        EXPECT(!pod.has_task_priority || pod.task_priority == rows[i].priority);
        reading_close(&r);
    }
}

TEST(a_deadline_that_ends_nothing_is_none_and_a_hold_says_what_is_wrong_with_it)
{
    static const struct {
        const char *spec;
        int64_t deadline_ms;
    } rows[] = {
        {"", 0},
        {"'activeDeadlineSeconds':60", 60000},
        {"'activeDeadlineSeconds':-1", 0},
        {"'activeDeadlineSeconds':9000000000", 0},
    };
    struct reading r;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].spec);
        EXPECT(pod_read(&r, &(struct manifest){.spec = rows[i].spec}).deadline_ms ==
               rows[i].deadline_ms);
        reading_close(&r);
    }
    test_case("hold");
    EXPECT(pod_read(&r, &(struct manifest){.annotations = "'muster.dev/restart-hold':'90s'"})
               .hold_ms == 90000);
    EXPECT(reading_says(&r, NULL));
    reading_close(&r);
    (void)pod_read(&r, &(struct manifest){.annotations = "'muster.dev/restart-hold':'a while'"});
    EXPECT(reading_says(&r, "annotation muster.dev/restart-hold: \"a while\" is not a duration"));
    reading_close(&r);
    EXPECT(
        pod_read(&r, &(struct manifest){.annotations = "'nvidia.com/mig-1g.5gb':'1'"}).legacy_mig);
    reading_close(&r);
}

/* Where reservation pods hold the devices, a pod that has one share and our library in it. */
TEST(a_pod_can_be_moved_off_a_reserved_device_where_it_was_prepared_for_it)
{
    static const struct {
        const char *notes;
        enum sched_devices devices;
        bool movable;
    } rows[] = {
        {"'gpu-fraction':'0.5','muster.dev/may-be-suspended':'true'", SCHED_DEVICES_RESERVED, true},
        {"'gpu-memory':'100','muster.dev/may-be-suspended':'true'", SCHED_DEVICES_RESERVED, true},
        {"'gpu-fraction':'0.5','muster.dev/may-be-suspended':'true'", SCHED_DEVICES_NUMBERED,
         false},
        {"'gpu-fraction':'0.5','muster.dev/may-be-suspended':'no'", SCHED_DEVICES_RESERVED, false},
        {"'muster.dev/may-be-suspended':'true'", SCHED_DEVICES_RESERVED, false},
        {"'gpu-fraction':'0.5','gpu-fraction-num-devices':'2','muster.dev/may-be-suspended':"
         "'true'",
         SCHED_DEVICES_RESERVED, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reading r;
        struct sched_pod pod;

        test_case(rows[i].notes);
        pod_open(&r, &(struct manifest){.annotations = rows[i].notes, .spec = "'nodeName':'a'"});
        r.config.devices = rows[i].devices;
        decode_pod(&r.decode, &pod);
        EXPECT(pod.movable == rows[i].movable);
        reading_close(&r);
    }
}

#define SUSPENDED(status, reason, message)                                                  \
    "'phase':'Running','conditions':[{'type':'Ready','status':'True'},{'type':'Suspended'," \
    "'status':'" status "','reason':'" reason "','message':'" message "'}]"

TEST(a_pod_that_is_asked_to_stand_still_is_what_its_node_says_of_it)
{
    static const struct {
        const char *why;
        const char *notes;
        const char *status;
        enum sched_devices devices;
        enum sched_phase phase;
        bool suspended;
        bool resuming;
        int64_t moved_mib;
        bool may_stay;
    } rows[] = {
        {"nobody asks", "", "'phase':'Running'", SCHED_DEVICES_NUMBERED, SCHED_RUNNING, false,
         false, 0, false},
        {"it is on its way", "'muster.dev/suspend':'yield'", "'phase':'Running'",
         SCHED_DEVICES_NUMBERED, SCHED_RELEASING, false, false, 0, false},
        {"somebody wishes it", "'muster.dev/suspend':'hold'", "'phase':'Running'",
         SCHED_DEVICES_NUMBERED, SCHED_RELEASING, false, false, 0, true},
        {"it could not", "'muster.dev/suspend':'yield'", SUSPENDED("False", "SuspendFailed", ""),
         SCHED_DEVICES_NUMBERED, SCHED_RUNNING, false, false, 0, false},
        {"it stands still", "'muster.dev/suspend':'yield'",
         SUSPENDED("True", "Checkpointed", "512 MiB are in host memory"), SCHED_DEVICES_NUMBERED,
         SCHED_PENDING, true, false, 512, false},
        {"it moved nothing", "'muster.dev/suspend':'hold'",
         SUSPENDED("True", "Checkpointed", "0 MiB"), SCHED_DEVICES_NUMBERED, SCHED_GATED, true,
         false, 0, false},
        {"it says no number", "'muster.dev/suspend':'hold'",
         SUSPENDED("True", "Checkpointed", "all"), SCHED_DEVICES_NUMBERED, SCHED_GATED, true, false,
         0, false},
        {"its GPUs were simulated", "'muster.dev/suspend':'hold'",
         SUSPENDED("True", "Frozen", "512 MiB"), SCHED_DEVICES_NUMBERED, SCHED_GATED, true, false,
         0, false},
        {"it goes on", "", SUSPENDED("True", "Resuming", ""), SCHED_DEVICES_NUMBERED, SCHED_RUNNING,
         false, true, 0, false},
        {"a device plugin has its GPUs", "'muster.dev/suspend':'yield'", "'phase':'Running'",
         SCHED_DEVICES_WHOLE, SCHED_RUNNING, false, false, 0, false},
        {"it was not prepared", "'muster.dev/suspend':'yield'", "'phase':'Running'",
         SCHED_DEVICES_RESERVED, SCHED_RUNNING, false, false, 0, false},
        {"it is over", "'muster.dev/suspend':'yield'", "'phase':'Succeeded'",
         SCHED_DEVICES_NUMBERED, SCHED_SUCCEEDED, false, false, 0, false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct reading r;
        struct sched_pod pod;

        test_case(rows[i].why);
        pod_open(&r, &(struct manifest){.annotations = rows[i].notes,
                                        .spec = "'nodeName':'a','containers':[{}]",
                                        .status = rows[i].status});
        r.config.devices = rows[i].devices;
        decode_pod(&r.decode, &pod);
        EXPECT(pod.phase == rows[i].phase && pod.suspended == rows[i].suspended);
        EXPECT(pod.resuming == rows[i].resuming && pod.may_stay == rows[i].may_stay);
        EXPECT(pod.moved_bytes == rows[i].moved_mib << 20);
        reading_close(&r);
    }
}
