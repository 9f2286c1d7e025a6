#include "api/admit.h"
#include "api/kind.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Rules that look at one object; the field of the first cause, or nothing. JSON with ' for ". */
static struct str refused(struct arena *arena,
                          const struct kind *kind,
                          const char *name,
                          const char *spec)
{
    struct str text =
        str_printf(arena, "{'metadata':{'name':'%s','namespace':'n'},'spec':%s}", name, spec);
    struct admit admit = {.arena = arena, .kind = kind, .object = test_json(arena, text.p)};

    admit_validate(&admit);
    return admit.causes.count ? admit.causes.items[0].field : STR("");
}

static struct str refused_field(struct arena *arena, const struct kind *kind, const char *spec)
{
    return refused(arena, kind, "q", spec);
}

static struct str refused_name(struct arena *arena, const char *name, const char *spec)
{
    return refused(arena, &kind_torchrunjob, name, spec);
}
#define REPLICA(type, count)                                                                \
    "{'type':'" type "','replicas':" count                                                  \
    ",'template':{'spec':{'containers':[{'name':'c','image':'i'}],'restartPolicy':'Never'," \
    "'dnsPolicy':'Default','terminationGracePeriodSeconds':1}}}"
#define ELASTIC(expected)                                                           \
    "{'torchrunConfig':{'enabled':true},'elastic':{'enabled':true,'minReplicas':2," \
    "'maxReplicas':4,'expectedReplicas':" expected                                  \
    "},'replicaSpecs':[" REPLICA("worker", "2") "]}"

TEST(objects_that_could_never_work_are_refused_with_the_field)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *spec;
        const char *field;
    } rows[] = {
        {"a queue", &kind_queue,
         "{'parentQueue':'root','resources':{'gpu':{'quota':1,'limit':-1}}}", ""},
        {"nothing said", &kind_queue, "{}", ""},
        {"its own parent", &kind_queue, "{'parentQueue':'q'}", "spec.parentQueue"},
        {"negative quota", &kind_queue, "{'resources':{'gpu':{'quota':-2}}}",
         "spec.resources.gpu.quota"},
        {"a bit negative", &kind_queue, "{'resources':{'cpu':{'limit':-0.5}}}",
         "spec.resources.cpu.limit"},
        {"weights have no unlimited", &kind_queue,
         "{'resources':{'memory':{'overQuotaWeight':-1}}}",
         "spec.resources.memory.overQuotaWeight"},
        {"time without a unit", &kind_queue, "{'preemptMinRuntime':'10'}",
         "spec.preemptMinRuntime"},
        {"elastic", &kind_torchrunjob, "{'elastic':{'minNodes':2,'maxNodes':4}}", ""},
        {"elastic the wrong way", &kind_torchrunjob, "{'elastic':{'minNodes':4,'maxNodes':2}}",
         "spec.elastic.maxNodes"},
        {"no size", &kind_torchrunjob, "{'workspaceStorage':{'size':'10 GB'}}",
         "spec.workspaceStorage.size"},
        {"less than nothing", &kind_torchrunqueue, "{'nodeResources':{'memory':'-1Gi'}}",
         "spec.nodeResources.memory"},
        {"a time", &kind_queue, "{'reclaimMinRuntime':'1h30m'}", ""},
        {"subgroups", &kind_podgroup,
         "{'subGroups':[{'name':'a'},{'name':'b','parent':'a'},{'name':'c','parent':'b',"
         "'minMember':0}]}",
         ""},
        {"a delay and a grace", &kind_podgroup,
         "{'preemptionDelay':'5m','stalenessGracePeriod':'-1s'}", ""},
        {"a delay below nothing", &kind_podgroup, "{'preemptionDelay':'-5m'}",
         "spec.preemptionDelay"},
        {"a grace that is no time", &kind_podgroup, "{'stalenessGracePeriod':'5'}",
         "spec.stalenessGracePeriod"},
        {"pods and subgroups", &kind_podgroup,
         "{'minMember':2,'minSubGroup':1,'subGroups':[{'name':'a','minMember':1}]}",
         "spec.minSubGroup"},
        {"a leaf without a minimum", &kind_podgroup, "{'subGroups':[{'name':'a'}]}",
         "spec.subGroups[0].minMember"},
        {"a leaf has nothing below", &kind_podgroup,
         "{'subGroups':[{'name':'a','minMember':1},{'name':'b','minSubGroup':1}]}",
         "spec.subGroups[1].minSubGroup"},
        {"pods of an inner subgroup", &kind_podgroup,
         "{'subGroups':[{'name':'a','minMember':1},{'name':'b','parent':'a','minMember':1}]}",
         "spec.subGroups[0].minMember"},
        {"more than there are", &kind_podgroup,
         "{'minSubGroup':3,'subGroups':[{'name':'a','minMember':1}]}", ""},
        {"an alias", &kind_topology,
         "{'levels':[{'nodeLabel':'x/rack','alias':'rack'},{'nodeLabel':'x/host'}]}", ""},
        {"an alias twice", &kind_topology,
         "{'levels':[{'nodeLabel':'a','alias':'r'},{'nodeLabel':'b','alias':'r'}]}",
         "spec.levels[1].alias"},
        {"an alias that is a label", &kind_topology,
         "{'levels':[{'nodeLabel':'a','alias':'b'},{'nodeLabel':'b'}]}", "spec.levels[0].alias"},
        {"twice", &kind_podgroup, "{'subGroups':[{'name':'a'},{'name':'a'}]}",
         "spec.subGroups[1].name"},
        {"no such parent", &kind_podgroup, "{'subGroups':[{'name':'a','parent':'A'}]}",
         "spec.subGroups[0].parent"},
        {"in a ring", &kind_podgroup,
         "{'subGroups':[{'name':'x'},{'name':'a','parent':'b'},{'name':'b','parent':'a'}]}",
         "spec.subGroups[1].parent"},
        {"levels", &kind_topology,
         "{'levels':[{'nodeLabel':'rack'},{'nodeLabel':'kubernetes.io/hostname'}]}", ""},
        {"a level twice", &kind_topology, "{'levels':[{'nodeLabel':'a'},{'nodeLabel':'a'}]}",
         "spec.levels[1].nodeLabel"},
        {"hosts above racks", &kind_topology,
         "{'levels':[{'nodeLabel':'kubernetes.io/hostname'},{'nodeLabel':'rack'}]}",
         "spec.levels[0].nodeLabel"},
        {"the seed's types", &kind_pytorchtrainingjob,
         "{'replicaSpecs':[" REPLICA("master", "1") "," REPLICA("worker", "2") "]}", ""},
        {"a type that is not one", &kind_pytorchtrainingjob,
         "{'replicaSpecs':[" REPLICA("chief", "1") "]}", "spec.replicaSpecs[0].type"},
        {"two masters", &kind_pytorchtrainingjob, "{'replicaSpecs':[" REPLICA("master", "2") "]}",
         "spec.replicaSpecs[0].replicas"},
        {"more than the maximum", &kind_pytorchtrainingjob, ELASTIC("5"),
         "spec.elastic.expectedReplicas"},
        {"fewer than the minimum", &kind_pytorchtrainingjob, ELASTIC("1"),
         "spec.elastic.expectedReplicas"},
        {"as many as may be", &kind_pytorchtrainingjob, ELASTIC("4"), ""},
        {"looked into and paused", &kind_pytorchtrainingjob,
         "{'runMode':{'debug':{'enable':true},'pause':{'enabled':true}},'replicaSpecs':[" REPLICA(
             "worker", "1") "]}",
         "spec.runMode.pause"},
        {"a pod", &kind_pod, "{'containers':[{'name':'c','image':'i'}]}", ""},
        {"a field that no node here acts on", &kind_pod,
         "{'containers':[{'name':'c','image':'i'}],'hostnameOverride':'h'}",
         "spec.hostnameOverride"},
        {"one of them deep inside", &kind_pod,
         "{'containers':[{'name':'c','image':'i','env':[{'name':'A','value':'b'},{'name':'E',"
         "'valueFrom':{'fileKeyRef':{'volumeName':'v','path':'p','key':'k'}}}]}]}",
         "spec.containers[0].env[1].valueFrom.fileKeyRef"},
        {"below a ring", &kind_podgroup,
         "{'subGroups':[{'name':'x','parent':'a'},{'name':'a','parent':'a'}]}",
         "spec.subGroups[1].parent"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(refused_field(&arena, rows[i].kind, rows[i].spec), rows[i].field));
    }
}

#define ENDING "{'spec':{'containers':[{'name':'c','image':'i'}],'restartPolicy':"
#define ON_EXIT(op)                                                                    \
    "{'podFailurePolicy':{'rules':[{'action':'FailJob','onExitCodes':{'operator':'" op \
    "','values':[1]}}]},'template':" ENDING "'Never'}}}"
#define TORCH(name)                                                                     \
    "{'pytorchReplicaSpecs':{'Master':{'replicas':1,'template':{'spec':{'containers':[" \
    "{'name':'" name "','image':'i'},{'name':'beside','image':'i'}]}}}}}"
#define PARTS \
    "{'replicatedJobs':[{'name':'w','template':{'spec':{'template':" ENDING "'Never'}}}}}]}"
#define CONTROLLED(group)                                                                    \
    "{'controllerRef':{'apiGroup':'" group "','kind':'Job','name':'j'},'podGroupTemplates':" \
    "[{'name':'a','schedulingPolicy':{'basic':{}}}]}"

TEST(what_clusters_take_is_taken_and_what_they_refuse_is_refused)
{
    static const struct {
        const char *why;
        const struct kind *kind;
        const char *name;
        const char *spec;
        const char *field;
    } rows[] = {
        {"a job", &kind_job, "j", "{'template':" ENDING "'OnFailure'}}}", ""},
        {"a job whose pods never end", &kind_job, "j", "{'template':" ENDING "'Always'}}}",
         "spec.template.spec.restartPolicy"},
        {"codes to fail by", &kind_job, "j", ON_EXIT("In"), ""},
        {"codes not to fail by", &kind_job, "j", ON_EXIT("NotIn"), ""},
        {"codes compared in a way that is none", &kind_job, "j", ON_EXIT("Like"),
         "spec.podFailurePolicy.rules[0].onExitCodes.operator"},
        {"any printed character but = in a variable's name", &kind_pod, "p",
         "{'containers':[{'name':'c','image':'i','env':[{'name':'a ~','value':'b'}]}]}", ""},
        {"a control character is none", &kind_pod, "p",
         "{'containers':[{'name':'c','image':'i','env':[{'name':'a\\u007f','value':'b'}]}]}",
         "spec.containers[0].env[0].name"},
        {"the container that trains, and one beside it", &kind_pytorchjob, "t", TORCH("pytorch"),
         ""},
        {"nothing that trains", &kind_pytorchjob, "t", TORCH("torch"),
         "spec.pytorchReplicaSpecs.Master.template.spec.containers"},
        {"a set of jobs", &kind_jobset, "s", PARTS, ""},
        {"names of pods begin with a letter", &kind_jobset, "1s", PARTS,
         "spec.replicatedJobs[0].name"},
        {"a workload of a group", &kind_workload, "w", CONTROLLED("batch"), ""},
        {"of no group", &kind_workload, "w", CONTROLLED(""), ""},
        {"of what is no group", &kind_workload, "w", CONTROLLED("Batch"),
         "spec.controllerRef.apiGroup"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(refused(&arena, rows[i].kind, rows[i].name, rows[i].spec), rows[i].field));
    }
}

TEST(a_webhook_is_called_at_a_port_that_there_is)
{
    static const struct {
        const char *port;
        size_t causes;
    } rows[] = {{"0", 1}, {"1", 0}, {"65535", 0}, {"65536", 1}, {"-1", 1}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = &kind_validatingwebhooks};
        struct str text = str_printf(
            &arena,
            "{\"metadata\":{\"name\":\"w\"},\"webhooks\":[{\"name\":\"a.b.c\","
            "\"admissionReviewVersions\":[\"v1\"],\"sideEffects\":\"None\",\"clientConfig\":{"
            "\"service\":{\"name\":\"s\",\"namespace\":\"n\",\"port\":%s}}}]}",
            rows[i].port);

        test_case(rows[i].port);
        EXPECT(json_parse(&arena, text, &admit.object, NULL) == 0);
        admit_validate(&admit);
        EXPECT(admit.causes.count == rows[i].causes);
        if (admit.causes.count)
            EXPECT(str_is(admit.causes.items[0].field, "webhooks[0].clientConfig.service.port"));
    }
}

TEST(annotations_have_no_more_bytes_than_may_be)
{
    static const size_t bytes_max = 262144; /* as in Kubernetes */

    for (size_t more = 0; more < 2; more++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena, .kind = &kind_queue};
        size_t len = bytes_max - 1 + more; /* the key has one */
        char *value = ARENA_ARRAY(&arena, char, len);

        memset(value, 'x', len);
        EXPECT(json_parse(&arena, STR("{\"metadata\":{\"name\":\"q\",\"annotations\":{}}}"),
                          &admit.object, NULL) == 0);
        json_set(json_at(admit.object, "metadata.annotations"), STR("k"),
                 json_new_str(&arena, (struct str){value, len}));
        admit_validate(&admit);
        EXPECT(admit.causes.count == more);
        if (admit.causes.count)
            EXPECT(str_is(admit.causes.items[0].field, "metadata.annotations"));
    }
}

TEST(a_limitrange_asks_for_the_least_where_nothing_else_is_said)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct admit admit = {.arena = &arena, .kind = &kind_limitrange};
    struct json *wanted = NULL;

    EXPECT(json_parse(&arena,
                      STR("{\"metadata\":{\"name\":\"l\"},\"spec\":{\"limits\":[{\"type\":"
                          "\"Container\",\"max\":{\"cpu\":\"4\"},\"min\":{\"cpu\":\"1\","
                          "\"memory\":\"1Gi\"}}]}}"),
                      &admit.object, NULL) == 0);
    EXPECT(json_parse(&arena, STR("{\"cpu\":\"4\",\"memory\":\"1Gi\"}"), &wanted, NULL) == 0);
    EXPECT(admit_default(&admit, NULL) == 0);
    EXPECT(json_equal(json_at(admit.object, "spec.limits.0.defaultRequest"), wanted));
}

TEST(a_job_is_refused_whose_name_its_service_and_pods_could_not_have)
{
    static const struct {
        const char *why;
        const char *name;
        const char *spec;
        const char *field;
    } rows[] = {
        {"short", "a-1", "{'numGPUs':8}", ""},
        {"54 and NAME-worker-7 make 63", "a12345678901234567890123456789012345678901234567890123",
         "{'numGPUs':8}", ""},
        {"one more", "a123456789012345678901234567890123456789012345678901234", "{'numGPUs':8}",
         "metadata.name"},
        {"pods with two digits", "a12345678901234567890123456789012345678901234567890123",
         "{'elastic':{'minNodes':1,'maxNodes':11}}", "metadata.name"},
        {"64 characters", "a123456789012345678901234567890123456789012345678901234567890123", "{}",
         "metadata.name"},
        {"no service is called so", "1a", "{}", "metadata.name"},
        {"nor so", "a.b", "{}", "metadata.name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(refused_name(&arena, rows[i].name, rows[i].spec), rows[i].field));
    }
}

/* The time of the first patch of a TrainJob after admission. */
static struct str patch_time(struct arena *arena, const char *patch, const char *before)
{
    struct admit admit = {.arena = arena, .kind = &kind_trainjob, .now_ms = 1000000};
    struct json *old = NULL;
    struct str text = str_printf(arena, "{\"spec\":{\"runtimePatches\":[%s]}}", patch);
    struct str text_before = str_printf(arena, "{\"spec\":{\"runtimePatches\":[%s]}}", before);

    EXPECT(json_parse(arena, text, &admit.object, NULL) == 0);
    EXPECT(json_parse(arena, text_before, &old, NULL) == 0);
    admit.old = old;
    EXPECT(admit_default(&admit, NULL) == 0);
    return json_str_at(admit.object, "spec.runtimePatches.0.time");
}

TEST(a_patch_of_a_runtime_is_dated_when_it_changes)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *one = "{\"manager\":\"a.io/b\",\"trainingRuntimeSpec\":{\"a\":1}}";
    const char *old =
        "{\"manager\":\"a.io/b\",\"time\":\"then\",\"trainingRuntimeSpec\":{\"a\":1}}";
    const char *other =
        "{\"manager\":\"a.io/b\",\"time\":\"then\",\"trainingRuntimeSpec\":{\"a\":2}}";

    const char *mine = "{\"manager\":\"a.io/c\",\"time\":\"mine\"}";
    const char *later =
        "{\"manager\":\"a.io/b\",\"time\":\"later\",\"trainingRuntimeSpec\":{\"a\":1}}";

    EXPECT(str_is(patch_time(&arena, one, ""), "1970-01-01T00:16:40Z"));
    EXPECT(str_is(patch_time(&arena, mine, ""), "mine")); /* who makes one may date it */
    EXPECT(str_is(patch_time(&arena, mine, old), "mine"));
    EXPECT(str_is(patch_time(&arena, later, old), "then")); /* nothing changed but its date */
    EXPECT(str_is(patch_time(&arena, one, old), "then"));
    EXPECT(str_is(patch_time(&arena, old, old), "then"));
    EXPECT(str_is(patch_time(&arena, other, old), "1970-01-01T00:16:40Z"));
}

#define POD(fields) "{'containers':[{'name':'c','image':'i'}]," fields "}"

TEST(pod_names_that_would_be_lines_of_a_file_are_refused)
{
    static const struct {
        const char *why;
        const char *spec;
        const char *field;
    } rows[] = {
        {"names", POD("'hostname':'a-1','subdomain':'b'"), ""},
        {"a line break in a hostname", POD("'hostname':'a\\n1.2.3.4 evil'"), "spec.hostname"},
        {"a blank in a subdomain", POD("'subdomain':'a b'"), "spec.subdomain"},
        {"capitals", POD("'hostname':'A'"), "spec.hostname"},
        {"a dot is no label", POD("'hostname':'a.b'"), "spec.hostname"},
        {"too long",
         POD("'hostname':'a123456789a123456789a123456789a123456789a123456789a123456789"
             "abcd'"),
         "spec.hostname"},
        {"aliases", POD("'hostAliases':[{'ip':'10.0.0.1','hostnames':['a.b']},{'ip':'fe80::1'}]"),
         ""},
        {"an alias of no address", POD("'hostAliases':[{'ip':'10.0.0.256'}]"),
         "spec.hostAliases[0].ip"},
        {"a line in an address", POD("'hostAliases':[{'ip':'::1\\n::2'}]"),
         "spec.hostAliases[0].ip"},
        {"a line in an alias", POD("'hostAliases':[{'ip':'::1','hostnames':['a\\nb']}]"),
         "spec.hostAliases[0].hostnames"},
        {"a line in a variable's name",
         "{'containers':[{'name':'c','image':'i','env':[{'name':'a\\nb'}]}]}",
         "spec.containers[0].env[0].name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(refused_field(&arena, &kind_pod, rows[i].spec), rows[i].field));
    }
}

/* As many as fit, each with one word; the answer is the same whatever their number. */
static struct str pod_of_many(struct arena *arena, size_t count)
{
    _cleanup_(buf_done) struct buf text = {0};

    buf_add(&text, STR("{'volumes':["));
    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s{'name':'v%zu','emptyDir':{}}", i ? "," : "", i);
    buf_add(&text, STR("],'containers':["));
    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s{'name':'c%zu','image':'i'}", i ? "," : "", i);
    buf_add(&text, STR(",{'name':'c7','image':'i','volumeMounts':["));
    for (size_t i = 0; i < count; i++)
        buf_addf(&text, "%s{'name':'v%zu','mountPath':'/%zu'}", i ? "," : "", i, i);
    buf_add(&text, STR("]}]}"));
    return str_dup(arena, buf_str(&text));
}

TEST(pods_do_not_make_room_in_a_quota_nor_leave_a_volume)
{
#define POD_WITH(more, mount)                                                                   \
    "{" more "'restartPolicy':'Never','dnsPolicy':'Default','terminationGracePeriodSeconds':1," \
    "'volumes':[{'name':'v','emptyDir':{}}],'containers':[{'name':'c','image':'i',"             \
    "'volumeMounts':[{'name':'v','mountPath':'/m'" mount "}]}]}"
    static const struct {
        const char *spec;
        const char *field;
    } rows[] = {
        {POD_WITH("", ""), ""},
        {POD_WITH("'overhead':{'cpu':'1'},", ",'subPath':'a/..b'"), ""},
        {POD_WITH("'overhead':{'cpu':'-1'},", ""), "spec.overhead.limits[cpu]"},
        {POD_WITH("'resources':{'requests':{'cpu':'1'},'limits':{'cpu':'2'}},", ""), ""},
        {POD_WITH("'resources':{'requests':{'cpu':'-3'}},", ""), "spec.resources.requests[cpu]"},
        {POD_WITH("'resources':{'limits':{'memory':'-1Gi'}},", ""),
         "spec.resources.limits[memory]"},
        {POD_WITH("'resources':{'requests':{'cpu':'3'},'limits':{'cpu':'2'}},", ""),
         "spec.resources.requests"},
        {POD_WITH("'securityContext':{'sysctls':[{'name':'net/ipv4.x_y-z','value':'1'}]},", ""),
         ""},
        {POD_WITH("'securityContext':{'sysctls':[{'name':'a.b'},{'name':'foo-'}]},", ""),
         "spec.securityContext.sysctls[1].name"},
        {POD_WITH("'securityContext':{'sysctls':[{'name':'bar..'}]},", ""),
         "spec.securityContext.sysctls[0].name"},
        {POD_WITH("'securityContext':{'sysctls':[{'name':'a.-b'}]},", ""),
         "spec.securityContext.sysctls[0].name"},
        {POD_WITH("", ",'subPath':'a/../../b'"), "spec.containers[0].volumeMounts[0].subPath"},
        {POD_WITH("", ",'subPath':'/etc'"), "spec.containers[0].volumeMounts[0].subPath"},
        {POD_WITH("", ",'subPathExpr':'..'"), "spec.containers[0].volumeMounts[0].subPathExpr"},
    };
#undef POD_WITH

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].spec);
        EXPECT(str_eq(refused_field(&arena, &kind_pod, rows[i].spec), str_from(rows[i].field)));
    }
}

TEST(pod_names_of_thousands_are_compared_in_no_time)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str spec = pod_of_many(&arena, 9000);

    EXPECT(str_is(refused_field(&arena, &kind_pod, spec.p), "spec.containers[9000].name"));
}

TEST(pod_with_more_items_than_can_be_stored_gets_no_defaults)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {0};
    struct admit admit = {.arena = &arena, .kind = &kind_pod};
    struct err err = {0};

    buf_add(&text, STR("{\"metadata\":{},\"spec\":{\"containers\":[{}"));
    for (int i = 0; i < 1 << 20; i++)
        buf_add(&text, STR(",{}"));
    buf_add(&text, STR("]}}"));
    EXPECT(json_parse(&arena, buf_str(&text), &admit.object, &err) == 0);
    size_t before = arena.bytes_used;
    EXPECT(admit_default(&admit, &err) == -E2BIG);
    EXPECT(str_contains(str_from(err.text), STR("spec.containers has 1048577 items")));
    EXPECT(arena.bytes_used - before < 4096);
}

TEST(namespace_levels_of_pod_security_are_spelled_right)
{
    static const struct {
        const char *labels;
        const char *field;
    } rows[] = {
        {"'enforce':'restricted','pod-security.kubernetes.io/warn-version':'v1.29'", ""},
        {"'enforce':'strict'", "metadata.labels[pod-security.kubernetes.io/enforce]"},
        {"'warn-version':'1.29'", "metadata.labels[pod-security.kubernetes.io/warn-version]"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text = str_printf(
            &arena, "{'metadata':{'name':'n','labels':{'pod-security.kubernetes.io/%s}}}",
            rows[i].labels + 1);
        struct admit admit = {
            .arena = &arena, .kind = &kind_namespace, .object = test_json(&arena, text.p)};

        test_case(rows[i].labels);
        admit_validate(&admit);
        EXPECT(str_is(admit.causes.count ? admit.causes.items[0].field : STR(""), rows[i].field));
    }
}

TEST(a_service_loses_what_only_its_former_type_has)
{
    static const struct {
        const char *old;
        const char *given;
        const char *stored;
        const char *why;
    } rows[] = {
        {"{'type':'LoadBalancer','externalTrafficPolicy':'Local','allocateLoadBalancerNodePorts':"
         "true}",
         "{'type':'ClusterIP','externalTrafficPolicy':'Local','allocateLoadBalancerNodePorts':"
         "true}",
         "{'type':'ClusterIP'}", "what it got with its type"},
        {"{'type':'LoadBalancer','externalTrafficPolicy':'Local','allocateLoadBalancerNodePorts':"
         "true}",
         "{'type':'NodePort','externalTrafficPolicy':'Local','allocateLoadBalancerNodePorts':true}",
         "{'type':'NodePort','externalTrafficPolicy':'Local'}", "both types have it"},
        {"{'type':'ClusterIP'}", "{'type':'ClusterIP','externalTrafficPolicy':'Local'}",
         "{'type':'ClusterIP','externalTrafficPolicy':'Local'}", "what somebody says now stays"},
        {"{'sessionAffinity':'ClientIP','sessionAffinityConfig':{'clientIP':{'timeoutSeconds':1}}}",
         "{'sessionAffinity':'None','sessionAffinityConfig':{'clientIP':{'timeoutSeconds':1}}}",
         "{'sessionAffinity':'None'}", "no affinity, nothing about it"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const char *const texts[] = {rows[i].old, rows[i].given, rows[i].stored};
        struct json *trees[COUNT_OF(texts)] = {0};

        test_case(rows[i].why);
        for (size_t j = 0; j < COUNT_OF(texts); j++)
            trees[j] = test_json(&arena, str_printf(&arena, "{'spec':%s}", texts[j]).p);
        struct admit admit = {
            .arena = &arena, .kind = &kind_service, .object = trees[1], .old = trees[0]};
        EXPECT(admit_default(&admit, NULL) == 0);
        EXPECT(json_equal(trees[1], trees[2]));
    }
}

TEST(an_autoscaler_grows_faster_than_it_shrinks_where_nothing_is_said)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct admit admit = {.arena = &arena, .kind = &kind_hpa};
    struct json *wanted = NULL;

    EXPECT(json_parse(&arena, STR("{\"spec\":{\"behavior\":{\"scaleUp\":{},\"scaleDown\":{}}}}"),
                      &admit.object, NULL) == 0);
    EXPECT(json_parse(&arena,
                      STR("{\"scaleUp\":{\"policies\":[{\"type\":\"Pods\",\"value\":4,"
                          "\"periodSeconds\":15},{\"type\":\"Percent\",\"value\":100,"
                          "\"periodSeconds\":15}],\"stabilizationWindowSeconds\":0},"
                          "\"scaleDown\":{\"policies\":[{\"type\":\"Percent\",\"value\":100,"
                          "\"periodSeconds\":15}]}}"),
                      &wanted, NULL) == 0);
    EXPECT(admit_default(&admit, NULL) == 0);
    EXPECT(json_equal(json_at(admit.object, "spec.behavior"), wanted));
}

TEST(the_indexes_of_an_array_stay_as_they_are)
{
    static const struct {
        const char *old;
        const char *given;
        bool fine;
    } rows[] = {
        {"{\"array\":{\"indexes\":\"0-3\"}}", "{\"array\":{\"indexes\":\"0-3\",\"limit\":2}}",
         true},
        {"{}", "{\"numGPUs\":2}", true},
        {"{\"array\":{\"indexes\":\"0-3\"}}", "{\"array\":{\"indexes\":\"0-4\"}}", false},
        {"{\"array\":{\"indexes\":\"0-3\"}}", "{}", false},
        {"{}", "{\"array\":{\"indexes\":\"0-3\"}}", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const char *const texts[] = {rows[i].old, rows[i].given};
        struct json *trees[COUNT_OF(texts)] = {0};

        test_case(rows[i].given);
        for (size_t j = 0; j < COUNT_OF(texts); j++)
            EXPECT(json_parse(
                       &arena,
                       str_printf(&arena, "{\"metadata\":{\"name\":\"a\"},\"spec\":%s}", texts[j]),
                       &trees[j], NULL) == 0);
        struct admit admit = {
            .arena = &arena, .kind = &kind_torchrunjob, .object = trees[1], .old = trees[0]};
        admit_validate(&admit);
        EXPECT(admit.causes.count == (rows[i].fine ? 0 : 1));
    }
}

/* A shape that is refused is left alone: what is filled in would go into it. */
TEST(nothing_is_filled_into_what_has_not_the_shape_of_its_kind)
{
    static const struct {
        const char *patches;
        bool filled;
    } rows[] = {{"[{'manager':'a.io/b'}]", true},
                {"['words']", false},
                {"{'time':'x'}", false},
                {"'words'", false}};

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *source = test_json(
            &arena, "{'type':'object','properties':{'spec':{'type':'object','properties':{"
                    "'runtimePatches':{'type':'array','items':{'type':'object','properties':{"
                    "'manager':{'type':'string'},'time':{'type':'string'}}}}}}}}");
        struct str text = str_printf(&arena, "{'spec':{'runtimePatches':%s}}", rows[i].patches);
        struct admit admit = {.arena = &arena,
                              .kind = &kind_trainjob,
                              .now_ms = 1000000,
                              .object = test_json(&arena, text.p)};

        test_case(rows[i].patches);
        EXPECT(schema_compile(&arena, source, &admit.schema, NULL) == 0);
        EXPECT(admit_default(&admit, NULL) == 0);
        EXPECT(json_str_at(admit.object, "spec.runtimePatches.0.time").len ==
               (rows[i].filled ? strlen("1970-01-01T00:16:40Z") : 0));
    }
}
