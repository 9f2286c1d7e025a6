#include "api/admit.h"
#include "api/device_access.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/pod.h"
#include "api/refusal_test.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Pods, names and metadata. */

#define EIGHT     "12345678"
#define SIXTY_ONE EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT EIGHT "12345"
#define LABEL63   "a6" SIXTY_ONE
#define NAME253   LABEL63 "." LABEL63 "." LABEL63 "." SIXTY_ONE

TEST(names_are_what_kubernetes_takes_for_them)
{
    static const struct {
        const char *text;
        const char *fits; /* d: label, n: DNS-1035, s: subdomain, q: qualified, v: value, p: path,
                             c: key, t: port */
    } rows[] = {
        {"", "v"},
        {"a", "dnsqvpct"},
        {"a-b", "dnsqvpct"},
        {"9", "dsqvpc"},
        {"9a", "dsqvpct"},
        {"-a", "pc"},
        {"a-", "pc"},
        {"a--b", "dnsqvpc"},
        {"A", "qvpc"},
        {"Z9", "qvpc"},
        {"a.b", "sqvpc"},
        {"a..b", "qvpc"},
        {"a.-b", "qvpc"},
        {"a_b", "qvpc"},
        {"_a", "pc"},
        {".", ""},
        {"..", ""},
        {"..a", "p"},
        {".a", "pc"},
        {"a/b", "q"},
        {"x.org/A", "q"},
        {"X.org/a", ""},
        {"a/", ""},
        {"/a", ""},
        {"a%", ""},
        {"a b", "p"},
        {"a{", "p"},
        {"a@", "p"},
        {"a:", "p"},
        {"abcdefghij-1234", "dnsqvpct"},
        {"abcdefghij-12345", "dnsqvpc"},
        {LABEL63, "dnsqvpc"},
        {LABEL63 "x", "spc"},
        {NAME253, "spc"},
        {NAME253 "x", "p"},
    };
    static const struct {
        char letter;
        const char *(*wrong)(struct str text);
    } rules[] = {{'d', names_dns_label},     {'n', names_dns_1035_label},
                 {'s', names_dns_subdomain}, {'q', names_qualified},
                 {'v', names_label_value},   {'p', names_path_segment},
                 {'c', names_config_key},    {'t', names_port}};

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; j < COUNT_OF(rules); j++) {
            struct str fits = str_from(rows[i].fits);
            bool fine = str_find(fits, rules[j].letter) < fits.len;

            test_case(rows[i].text);
            EXPECT(fine == !rules[j].wrong(str_from(rows[i].text)));
            if (fine != !rules[j].wrong(str_from(rows[i].text)))
                (void)fprintf(stderr, "as %c\n", rules[j].letter);
        }
}

#define ADDRESS(name) \
    "{'metadata':{'name':'" name "'},'spec':{'parentRef':{'resource':'services','name':'s'}}}"
#define META(more)  "{'metadata':{'name':'a'," more "}}"
#define OWNER(more) "{'apiVersion':'v1','kind':'K','name':'o','uid':'u'" more "}"

TEST(metadata_is_what_kubernetes_takes_for_it)
{
    static const struct refusal rows[] = {
        {"no name", &kind_configmap, NULL, "{'metadata':{}}", "metadata.name"},
        {"an empty one", &kind_configmap, NULL, "{'metadata':{'name':''}}", "metadata.name"},
        {"an address", &kind_ipaddress, NULL, ADDRESS("10.0.0.9"), ""},
        {"one of six", &kind_ipaddress, NULL, ADDRESS("2001:db8::ff"), ""},
        {"a word", &kind_ipaddress, NULL, ADDRESS("localhost"), "metadata.name"},
        {"in capitals", &kind_ipaddress, NULL, ADDRESS("2001:DB8::FF"), "metadata.name"},
        {"labels", &kind_configmap, NULL, META("'labels':{'x.org/a':'b','c':''}"), ""},
        {"none", &kind_configmap, NULL, META("'labels':null"), ""},
        {"a list of them", &kind_configmap, NULL, META("'labels':[]"), "metadata.labels"},
        {"a number", &kind_configmap, NULL, META("'labels':{'a':1}"), "metadata.labels"},
        {"no name of one", &kind_configmap, NULL, META("'labels':{'a b':'c'}"), "metadata.labels"},
        {"no value of one", &kind_configmap, NULL, META("'labels':{'a':'b c'}"), "metadata.labels"},
        {"a note", &kind_configmap, NULL, META("'annotations':{'X.Org/a':'b c','D':'e'}"), ""},
        {"a note with a space", &kind_configmap, NULL, META("'annotations':{'a b':'c'}"),
         "metadata.annotations"},
        {"one before a slash", &kind_configmap, NULL, META("'annotations':{'a b/c':'d'}"),
         "metadata.annotations"},
        {"a note of a number", &kind_configmap, NULL, META("'annotations':{'a':1}"),
         "metadata.annotations"},
        {"two owners", &kind_configmap, NULL,
         META("'ownerReferences':[" OWNER(",'controller':true") "," OWNER("") "]"), ""},
        {"two that control it", &kind_configmap, NULL,
         META(
             "'ownerReferences':[" OWNER(",'controller':true") "," OWNER(",'controller':true") "]"),
         "metadata.ownerReferences"},
        {"one without a uid", &kind_configmap, NULL,
         META("'ownerReferences':[{'apiVersion':'v1','kind':'K','name':'o'}]"),
         "metadata.ownerReferences.uid"},
        {"a last word", &kind_configmap, NULL, META("'finalizers':['x.org/f']"), ""},
        {"no word", &kind_configmap, NULL, META("'finalizers':['a b']"), "metadata.finalizers"},
        {"one more while it goes", &kind_configmap,
         META("'deletionTimestamp':'2026-01-01T00:00:00Z','finalizers':['x.org/f']"),
         META("'finalizers':['x.org/f','x.org/g']"), "metadata.finalizers"},
        {"those that it has", &kind_configmap,
         META("'deletionTimestamp':'2026-01-01T00:00:00Z','finalizers':['x.org/f']"),
         META("'finalizers':['x.org/f']"), ""},
    };

    refusals_play_whole(rows, COUNT_OF(rows));
}

#define FIRST        "spec.containers[0]"
#define ONE(more)    "{'containers':[{'name':'c','image':'i'" more "}]}"
#define WITH(more)   "{" more ",'containers':[{'name':'c','image':'i'}]}"
#define SPREAD(skew) "{'maxSkew':" skew ",'topologyKey':'zone','whenUnsatisfiable':'DoNotSchedule'}"
#define NEEDS(requests, limits) \
    ONE(",'resources':{'requests':{" requests "},'limits':{" limits "}}")

TEST(a_pod_is_what_kubernetes_takes_for_one)
{
    static const struct refusal rows[] = {
        {"nothing in it", &kind_pod, NULL, "{}", "spec.containers"},
        {"no name", &kind_pod, NULL, "{'containers':[{'image':'i'}]}", FIRST ".name"},
        {"no label", &kind_pod, NULL, "{'containers':[{'name':'C','image':'i'}]}", FIRST ".name"},
        {"no image", &kind_pod, NULL, "{'containers':[{'name':'c'}]}", FIRST ".image"},
        {"bound before it may be", &kind_pod, NULL,
         WITH("'nodeName':'n','schedulingGates':[{'name':'a.b/c'}]"), "spec.nodeName"},
        {"spread twice by one thing", &kind_pod, NULL,
         WITH("'topologySpreadConstraints':[" SPREAD("1") "," SPREAD("2") "]"),
         "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}"},
        {"a folder of less than nothing", &kind_pod, NULL,
         WITH("'volumes':[{'name':'v','emptyDir':{'sizeLimit':'-1'}}]"),
         "spec.volumes[0].emptyDir.sizeLimit"},
        {"a name twice", &kind_pod, NULL,
         "{'containers':[{'name':'c','image':'i'},{'name':'c','image':'i'}]}",
         "spec.containers[1].name"},
        {"pulled somehow", &kind_pod, NULL, ONE(",'imagePullPolicy':'Often'"),
         FIRST ".imagePullPolicy"},
        {"half a CPU", &kind_pod, NULL, NEEDS("'cpu':'500m'", "'cpu':1"), ""},
        {"more than allowed", &kind_pod, NULL, NEEDS("'cpu':'2'", "'cpu':'1500m'"),
         FIRST ".resources.requests"},
        {"GPUs, in two ways of writing", &kind_pod, NULL,
         NEEDS("'nvidia.com/gpu':1", "'nvidia.com/gpu':'1'"), ""},
        {"GPUs without a limit", &kind_pod, NULL, NEEDS("'nvidia.com/gpu':1", ""),
         FIRST ".resources.limits"},
        {"fewer GPUs than the limit", &kind_pod, NULL,
         NEEDS("'nvidia.com/gpu':1", "'nvidia.com/gpu':2"), FIRST ".resources.requests"},
        {"half a GPU", &kind_pod, NULL, NEEDS("", "'nvidia.com/gpu':'500m'"),
         FIRST ".resources.limits[nvidia.com/gpu]"},
        {"large pages without a limit", &kind_pod, NULL, NEEDS("'hugepages-2Mi':'2Mi'", ""),
         FIRST ".resources.limits"},
        {"something of Kubernetes' own", &kind_pod, NULL, NEEDS("'x.kubernetes.io/a':'500m'", ""),
         ""},
        {"less than nothing", &kind_pod, NULL, NEEDS("", "'cpu':'-1'"),
         FIRST ".resources.limits[cpu]"},
        {"no amount", &kind_pod, NULL, NEEDS("'cpu':'much'", "'cpu':'1'"),
         FIRST ".resources.requests[cpu]"},
        {"no limit", &kind_pod, NULL, NEEDS("'cpu':'1'", "'cpu':'much'"),
         FIRST ".resources.limits[cpu]"},
        {"of no name", &kind_pod, NULL, NEEDS("", "'a b':'1'"), FIRST ".resources.limits[a b]"},
        {"a GPU of nobody", &kind_pod, NULL, NEEDS("", "'gpu':1"), FIRST ".resources.limits[gpu]"},
        {"large pages", &kind_pod, NULL,
         NEEDS("'hugepages-2Mi':'2Mi','cpu':1", "'hugepages-2Mi':'2Mi'"), ""},
        {"variables", &kind_pod, NULL, ONE(",'env':[{'name':'A-b.c d'}]"), ""},
        {"a variable without a name", &kind_pod, NULL, ONE(",'env':[{'value':'x'}]"),
         FIRST ".env[0].name"},
        {"with a sign in it", &kind_pod, NULL, ONE(",'env':[{'name':'A=B'}]"),
         FIRST ".env[0].name"},
        {"with a line in it", &kind_pod, NULL, ONE(",'env':[{'name':'A\\nB'}]"),
         FIRST ".env[0].name"},
        {"beyond ASCII", &kind_pod, NULL, ONE(",'env':[{'name':'A\\u007f'}]"),
         FIRST ".env[0].name"},
        {"a mount of nothing", &kind_pod, NULL, ONE(",'volumeMounts':[{'mountPath':'/a'}]"),
         FIRST ".volumeMounts[0].name"},
        {"a mount nowhere", &kind_pod, NULL,
         "{'volumes':[{'name':'v','emptyDir':{}}],'containers':[{'name':'c','image':'i',"
         "'volumeMounts':[{'name':'v'}]}]}",
         FIRST ".volumeMounts[0].mountPath"},
        {"two in one place", &kind_pod, NULL,
         "{'volumes':[{'name':'v','emptyDir':{}}],'containers':[{'name':'c','image':'i',"
         "'volumeMounts':[{'name':'v','mountPath':'/a'},{'name':'v','mountPath':'/a'}]}]}",
         FIRST ".volumeMounts[1].mountPath"},
        {"ports", &kind_pod, NULL,
         ONE(",'ports':[{'containerPort':1,'name':'a','protocol':'UDP'},{'containerPort':65535}]"),
         ""},
        {"no port", &kind_pod, NULL, ONE(",'ports':[{}]"), FIRST ".ports[0].containerPort"},
        {"port 0", &kind_pod, NULL, ONE(",'ports':[{'containerPort':0}]"),
         FIRST ".ports[0].containerPort"},
        {"one too high", &kind_pod, NULL, ONE(",'ports':[{'containerPort':65536}]"),
         FIRST ".ports[0].containerPort"},
        {"no name of one", &kind_pod, NULL, ONE(",'ports':[{'containerPort':1,'name':'A'}]"),
         FIRST ".ports[0].name"},
        {"no protocol", &kind_pod, NULL, ONE(",'ports':[{'containerPort':1,'protocol':'IP'}]"),
         FIRST ".ports[0].protocol"},
        {"a volume without a name", &kind_pod, NULL, WITH("'volumes':[{'emptyDir':{}}]"),
         "spec.volumes[0].name"},
        {"no label either", &kind_pod, NULL, WITH("'volumes':[{'name':'A','emptyDir':{}}]"),
         "spec.volumes[0].name"},
        {"two in one", &kind_pod, NULL,
         WITH("'volumes':[{'name':'a','emptyDir':{},'configMap':{'name':'m'}}]"),
         "spec.volumes[0].configMap"},
        {"two of one name", &kind_pod, NULL,
         WITH("'volumes':[{'name':'a','emptyDir':{}},{'name':'a','emptyDir':{}}]"),
         "spec.volumes[1].name"},
        {"other addresses", &kind_pod, NULL,
         WITH("'hostAliases':[{'ip':'10.0.0.1','hostnames':['a.b']},{'ip':'FE80::1aF'},"
              "{'ip':'::ffff:1.2.3.4'}]"),
         ""},
        {"no name for one", &kind_pod, NULL,
         WITH("'hostAliases':[{'ip':'10.0.0.1','hostnames':['A']}]"),
         "spec.hostAliases[0].hostnames"},
        {"three numbers", &kind_pod, NULL, WITH("'hostAliases':[{'ip':'10.0.1'}]"),
         "spec.hostAliases[0].ip"},
        {"a nought before", &kind_pod, NULL, WITH("'hostAliases':[{'ip':'10.0.0.01'}]"),
         "spec.hostAliases[0].ip"},
        {"beyond a byte", &kind_pod, NULL, WITH("'hostAliases':[{'ip':'10.0.0.256'}]"),
         "spec.hostAliases[0].ip"},
        {"a word", &kind_pod, NULL, WITH("'hostAliases':[{'ip':'a:b:g'}]"),
         "spec.hostAliases[0].ip"},
        {"one colon", &kind_pod, NULL, WITH("'hostAliases':[{'ip':'a:b'}]"),
         "spec.hostAliases[0].ip"},
        {"too long", &kind_pod, NULL,
         WITH("'hostAliases':[{'ip':'1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa'}]"),
         "spec.hostAliases[0].ip"},
        {"who it is", &kind_pod, NULL, WITH("'hostname':'a.b'"), "spec.hostname"},
    };

    refusals_play(rows, COUNT_OF(rows));
}

TEST(kernel_settings_have_names_of_kernel_settings)
{
    static const struct {
        const char *name;
        bool fine;
    } rows[] = {
        {"kernel.shm_rmid_forced", true},
        {"net/ipv4/conf/eth0-1/x", true},
        {"a--b", true},
        {"9.0", true},
        {"", false},
        {"a-", false},
        {"-a", false},
        {"a.", false},
        {"a..b", false},
        {"a.-b", false},
        {"a-.b", false},
        {"a/_b", false},
        {"a_/b", false},
        {"a._b", false},
        {"Kernel", false},
        {"a{b", false},
        {"a:b", false},
        {NAME253, true},
        {NAME253 "x", false},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text = str_printf(&arena,
                                     "{'metadata':{'name':'p','namespace':'n'},'spec':{"
                                     "'containers':[{'name':'c','image':'i'}],'securityContext':{"
                                     "'sysctls':[{'name':'%s','value':'1'}]}}}",
                                     rows[i].name);
        struct admit admit = {
            .arena = &arena, .kind = &kind_pod, .object = test_json(&arena, text.p)};

        test_case(rows[i].name);
        admit_validate(&admit);
        EXPECT(admit.causes.count == (rows[i].fine ? 0 : 1));
    }
}

TEST(an_image_that_may_change_is_pulled_always)
{
    static const struct {
        const char *image;
        const char *policy;
    } rows[] = {
        {"a", "Always"},
        {"a:1", "IfNotPresent"},
        {"a:latest", "Always"},
        {"host:5000/a", "Always"},
        {"host:5000/a:1", "IfNotPresent"},
        {"host:5000/b/a:latest", "Always"},
        {"a@sha256:0123", "IfNotPresent"},
        {"a:1@sha256:0123", "IfNotPresent"},
        {"a:latest@sha256:0123", "Always"},
        {"host:5000/a@sha256:0123", "IfNotPresent"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text = str_printf(&arena,
                                     "{'metadata':{},'spec':{'containers':[{'image':'%s'},7],"
                                     "'volumes':[{'name':'v'},{'emptyDir':{}},"
                                     "{'name':'w','emptyDir':{}}]}}",
                                     rows[i].image);
        struct admit admit = {
            .arena = &arena, .kind = &kind_pod, .object = test_json(&arena, text.p)};

        test_case(rows[i].image);
        EXPECT(admit_default(&admit, NULL) == 0);
        EXPECT(str_is(
            json_str_at(json_index(json_at(admit.object, "spec.containers"), 0), "imagePullPolicy"),
            rows[i].policy));
        /* A volume of which nothing is said is an empty folder. */
        EXPECT(json_is(json_get(json_index(json_at(admit.object, "spec.volumes"), 0), "emptyDir"),
                       JSON_OBJECT));
    }
}

#define AMOUNTS(requests, limits) "{'resources':{'requests':{" requests "},'limits':{" limits "}}}"
#define BOTH(cpu, memory)         "'cpu':'" cpu "','memory':'" memory "'"

TEST(the_class_of_a_pod_follows_from_its_amounts_not_from_how_they_are_written)
{
    static const struct {
        const char *why;
        const char *containers;
        const char *class;
    } rows[] = {
        {"nothing", "{}", "BestEffort"},
        {"nothing of both", AMOUNTS("'cpu':'0'", "'memory':'0'"), "BestEffort"},
        {"GPUs alone", AMOUNTS("", "'nvidia.com/gpu':1"), "BestEffort"},
        {"as much as allowed", AMOUNTS(BOTH("1", "1Gi"), BOTH("1", "1Gi")), "Guaranteed"},
        {"in other words", AMOUNTS(BOTH("1000m", "1024Mi"), BOTH("1", "1Gi")), "Guaranteed"},
        {"only limits", AMOUNTS("", BOTH("1", "1Gi")), "Guaranteed"},
        {"less", AMOUNTS(BOTH("500m", "1Gi"), BOTH("1", "1Gi")), "Burstable"},
        {"one of both", AMOUNTS("", "'cpu':'1'"), "Burstable"},
        {"asked for", AMOUNTS("'cpu':'1'", ""), "Burstable"},
        {"one of two", AMOUNTS("", BOTH("1", "1Gi")) ",{}", "Burstable"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(
            str_is(str_from(pod_qos(test_json(
                       &arena, str_printf(&arena, "{'containers':[%s]}", rows[i].containers).p))),
                   rows[i].class));
    }
}

TEST(a_pod_waits_for_a_node_that_is_gone_for_a_moment)
{
    static const struct {
        const char *why;
        const char *given;
        size_t added;
    } rows[] = {
        {"nothing said", "[]", 2},
        {"said of one", "[{'key':'node.kubernetes.io/not-ready','effect':'NoExecute'}]", 1},
        {"of any effect", "[{'key':'node.kubernetes.io/unreachable','operator':'Exists'}]", 1},
        {"of everything", "[{'operator':'Exists'}]", 0},
        {"of another effect", "[{'operator':'Exists','effect':'NoSchedule'}]", 2},
        {"of another taint", "[{'key':'a','effect':'NoExecute'}]", 2},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str text =
            str_printf(&arena, "{'metadata':{},'spec':{'tolerations':%s}}", rows[i].given);
        struct admit admit = {
            .arena = &arena, .kind = &kind_pod, .object = test_json(&arena, text.p)};
        size_t before = json_count(json_at(admit.object, "spec.tolerations"));

        test_case(rows[i].why);
        admit_pod_add(&admit);
        EXPECT(json_count(json_at(admit.object, "spec.tolerations")) == before + rows[i].added);
    }
}

TEST(tolerations_of_a_pod_are_added_to_and_not_taken_away)
{
    static const struct {
        const char *why;
        const char *now;
        bool refused;
    } rows[] = {
        {"as it was", "[{'key':'a'},{'key':'b','tolerationSeconds':5}]", false},
        {"for longer", "[{'key':'a'},{'key':'b','tolerationSeconds':9}]", false},
        {"one more", "[{'key':'c'},{'key':'a'},{'key':'b','tolerationSeconds':5}]", false},
        {"one less", "[{'key':'a'}]", true},
        {"another effect", "[{'key':'a','effect':'NoExecute'},{'key':'b'}]", true},
        {"none", "[]", true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct str now = str_printf(&arena, "{'spec':{'tolerations':%s}}", rows[i].now);
        struct admit admit = {.arena = &arena,
                              .kind = &kind_pod,
                              .object = test_json(&arena, now.p),
                              .old = test_json(&arena, "{'spec':{'tolerations':[{'key':'a'},"
                                                       "{'key':'b','tolerationSeconds':5}]}}")};

        test_case(rows[i].why);
        admit_pod_update(&admit);
        EXPECT((admit.causes.count > 0) == rows[i].refused);
        if (admit.causes.count)
            EXPECT(str_is(admit.causes.items[0].field, "spec.tolerations"));
    }
}

#define SEES                   "NVIDIA_VISIBLE_DEVICES"
#define POD(annotations, spec) "{'metadata':{'annotations':{" annotations "}},'spec':{" spec "}}"
#define LIMIT(amount)          "'resources':{'limits':{" amount "}}"

TEST(containers_that_ask_for_no_device_see_none)
{
    static const struct {
        const char *why;
        const char *pod;
        const char *list;
        const char *sees; /* NULL: nothing is said */
    } rows[] = {
        {"no request", POD("", "'containers':[{'name':'a'}]"), "containers", "void"},
        {"a device", POD("", "'containers':[{" LIMIT("'nvidia.com/gpu':1") "}]"), "containers",
         NULL},
        {"a part of one", POD("", "'containers':[{" LIMIT("'nvidia.com/mig-1g.5gb':'1'") "}]"),
         "containers", NULL},
        {"none of them", POD("", "'containers':[{" LIMIT("'nvidia.com/gpu':0") "}]"), "containers",
         "void"},
        {"none, in other words", POD("", "'containers':[{" LIMIT("'nvidia.com/gpu':'0m'") "}]"),
         "containers", "void"},
        {"CPUs", POD("", "'containers':[{" LIMIT("'cpu':1") "}]"), "containers", "void"},
        {"what it says itself",
         POD("", "'containers':[{'env':[{'name':'A'},{'name':'" SEES "','value':'all'}]}]"),
         "containers", "void"},
        {"what comes from elsewhere",
         POD("", "'containers':[{'env':[{'name':'" SEES "','valueFrom':{'fieldRef':{}}}]}]"),
         "containers", "void"},
        {"a share", POD("'gpu-fraction':'0.5'", "'containers':[{'name':'a'}]"), "containers", NULL},
        {"of another",
         POD("'gpu-fraction':'0.5'", "'containers':[{'name':'a'}],"
                                     "'initContainers':[{'name':'b'}]"),
         "initContainers", "void"},
        {"of the first",
         POD("'gpu-fraction':'0.5','gpu-fraction-container-name':'b'",
             "'containers':[{'name':'a'}],'initContainers':[{'name':'b'}]"),
         "initContainers", NULL},
        {"beside it",
         POD("'gpu-fraction':'0.5','gpu-fraction-container-name':'b'",
             "'containers':[{'name':'a'},{'name':'b'}]"),
         "containers", "void"},
        {"who looks in",
         POD("'gpu-fraction':'0.5'",
             "'containers':[{'name':'a'}],'ephemeralContainers':[{'name':'e'}]"),
         "ephemeralContainers", "void"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *pod = test_json(&arena, rows[i].pod);
        const struct json *said = NULL;

        test_case(rows[i].why);
        device_access_mutate(&arena, pod);
        JSON_FOREACH(json_get(json_index(json_get(json_get(pod, "spec"), rows[i].list), 0), "env"),
                     each)
            if (str_is(json_str(json_get(each, "name")), SEES))
                said = each;
        EXPECT(rows[i].sees ? str_is(json_str(json_get(said, "value")), rows[i].sees) : !said);
        EXPECT(!json_get(said, "valueFrom"));
    }
}

#define SAYS(what) POD("", "'containers':[{'name':'a','env':[{'name':'" SEES "'" what "}]}]")

TEST(a_container_names_no_devices_by_itself)
{
    static const struct {
        const char *pod;
        const char *field;
    } rows[] = {
        {SAYS(",'value':'void'"), ""},
        {SAYS(",'value':'none'"), ""},
        {SAYS(""), ""},
        {SAYS(",'value':'all'"), "spec.containers[0].env[0]"},
        {SAYS(",'valueFrom':{'fieldRef':{}}"), "spec.containers[0].env[0]"},
        {POD("", "'containers':[{'env':[{'name':'A','value':'all'}]}]"), ""},
        {POD("'gpu-fraction':'0.5'",
             "'containers':[{'name':'a','env':[{'name':'" SEES "','value':'all'}]}]"),
         ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {
            .arena = &arena, .kind = &kind_pod, .object = test_json(&arena, rows[i].pod)};

        test_case(rows[i].pod);
        device_access_check(&admit);
        EXPECT(str_is(admit.causes.count ? admit.causes.items[0].field : STR(""), rows[i].field));
    }
}
