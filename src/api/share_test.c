#include "api/admit.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

static struct json *pod_with(struct arena *arena, const char *annotations, const char *spec)
{
    return test_json(arena,
                     str_printf(arena,
                                "{'metadata':{'name':'p','namespace':'n','annotations':{%s}},"
                                "'spec':{%s}}",
                                annotations, spec)
                         .p);
}

#define PLAIN "'containers':[{'name':'a'},{'name':'b'}],'initContainers':[{'name':'i'}]"

TEST(wishes_for_shares_that_make_no_sense_are_refused_with_the_annotation)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *spec;
        const char *field; /* NULL: fine */
    } rows[] = {
        {"half", "'gpu-fraction':'0.5'", PLAIN, NULL},
        {"memory", "'gpu-memory':'2000','gpu-fraction-num-devices':'2'", PLAIN, NULL},
        {"mps", "'gpu-fraction':'0.5','mps':'true'", PLAIN, NULL},
        {"init", "'gpu-fraction':'0.5','gpu-fraction-container-name':'i'", PLAIN, NULL},
        {"none", "'mps':'false'", PLAIN, NULL},
        {"no whole ones", "'gpu-fraction':'0.5'",
         "'containers':[{'name':'a','resources':{'limits':{'nvidia.com/gpu':'0'}}}]", NULL},
        {"one", "'gpu-fraction':'1'", PLAIN, "gpu-fraction"},
        {"tiny", "'gpu-fraction':'1.2e-10'", PLAIN, NULL},
        {"nearly one", "'gpu-fraction':'0.99999999'", PLAIN, NULL},
        {"zero", "'gpu-fraction':'0'", PLAIN, "gpu-fraction"},
        {"word", "'gpu-fraction':'half'", PLAIN, "gpu-fraction"},
        {"no text", "'gpu-fraction':0.5", PLAIN, "gpu-fraction"},
        {"memory 0", "'gpu-memory':'0'", PLAIN, "gpu-memory"},
        {"unit", "'gpu-memory':'2Gi'", PLAIN, "gpu-memory"},
        {"both", "'gpu-fraction':'0.5','gpu-memory':'1'", PLAIN, "gpu-memory"},
        {"devices alone", "'gpu-fraction-num-devices':'2'", PLAIN, "gpu-fraction-num-devices"},
        {"no devices", "'gpu-fraction':'0.5','gpu-fraction-num-devices':'0'", PLAIN,
         "gpu-fraction-num-devices"},
        {"too many", "'gpu-fraction':'0.5','gpu-fraction-num-devices':'17'", PLAIN,
         "gpu-fraction-num-devices"},
        {"mps alone", "'mps':'true'", PLAIN, "mps"},
        {"nobody", "'gpu-fraction':'0.5','gpu-fraction-container-name':'c'", PLAIN,
         "gpu-fraction-container-name"},
        {"and whole ones", "'gpu-memory':'100'",
         "'containers':[{'name':'a','resources':{'limits':{'nvidia.com/gpu':1}}}]", "gpu-memory"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena,
                              .kind = &kind_pod,
                              .object = pod_with(&arena, rows[i].annotations, rows[i].spec)};

        test_case(rows[i].why);
        share_check(&admit);
        EXPECT(admit.causes.count == (rows[i].field ? 1 : 0));
        if (rows[i].field && admit.causes.count)
            EXPECT(str_eq(admit.causes.items[0].field,
                          str_printf(&arena, "metadata.annotations[%s]", rows[i].field)));
    }
}

TEST(the_share_of_a_pod_on_a_node_cannot_be_changed)
{
    static const struct {
        const char *why;
        const char *before;
        const char *after;
        const char *spec;
        const char *field; /* NULL: fine */
    } rows[] = {
        {"more", "'gpu-fraction':'0.5'", "'gpu-fraction':'0.9'", "'nodeName':'n'," PLAIN,
         "gpu-fraction"},
        {"none any more", "'gpu-memory':'2000'", "", "'nodeName':'n'," PLAIN, "gpu-memory"},
        {"a first one", "", "'gpu-fraction':'0.5'", "'nodeName':'n'," PLAIN, "gpu-fraction"},
        {"devices", "'gpu-fraction':'0.5'", "'gpu-fraction':'0.5','gpu-fraction-num-devices':'2'",
         "'nodeName':'n'," PLAIN, "gpu-fraction-num-devices"},
        {"something else", "'gpu-fraction':'0.5'", "'gpu-fraction':'0.5','x':'y'",
         "'nodeName':'n'," PLAIN, NULL},
        {"while it waits", "'gpu-fraction':'0.5'", "'gpu-fraction':'0.9'", PLAIN, NULL},
        {"while it waits, wrongly", "'gpu-fraction':'0.5'", "'gpu-fraction':'2'", PLAIN,
         "gpu-fraction"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct admit admit = {.arena = &arena,
                              .kind = &kind_pod,
                              .object = pod_with(&arena, rows[i].after, rows[i].spec),
                              .old = pod_with(&arena, rows[i].before, rows[i].spec)};

        test_case(rows[i].why);
        share_check(&admit);
        EXPECT(admit.causes.count == (rows[i].field ? 1 : 0));
        if (rows[i].field && admit.causes.count)
            EXPECT(str_eq(admit.causes.items[0].field,
                          str_printf(&arena, "metadata.annotations[%s]", rows[i].field)));
    }
}

TEST(the_container_of_a_share_reads_its_configmaps)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *container; /* path in the pod */
        const char *config;
    } rows[] = {
        {"the first one", "'gpu-fraction':'0.5'", "spec.containers.0", "-0"},
        {"a named one", "'gpu-fraction':'0.5','gpu-fraction-container-name':'b'",
         "spec.containers.1", "-1"},
        {"an init container", "'gpu-fraction':'0.5','gpu-fraction-container-name':'i'",
         "spec.initContainers.0", "-i0"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *pod = pod_with(&arena, rows[i].annotations, PLAIN);
        const struct json *container = json_at(pod, rows[i].container);

        test_case(rows[i].why);
        share_mutate(&arena, pod, 12345);
        struct str prefix =
            json_str(json_get(json_at(pod, "metadata.annotations"), "runai/shared-gpu-configmap"));
        struct str config = str_printf(&arena, STR_FMT "%s", STR_ARG(prefix), rows[i].config);
        EXPECT(str_starts(prefix, STR("p-")) && str_ends(prefix, STR("-shared-gpu")));
        EXPECT(json_count(json_get(container, "env")) == 3);
        JSON_FOREACH(json_get(container, "env"), variable) {
            const struct json *from = json_at(variable, "valueFrom.configMapKeyRef");

            EXPECT(str_eq(json_str(json_get(from, "name")), config));
            EXPECT(str_eq(json_str(json_get(from, "key")), json_str(json_get(variable, "name"))));
        }
        EXPECT(str_eq(json_str_at(container, "envFrom.0.configMapRef.name"),
                      str_printf(&arena, STR_FMT "-evar", STR_ARG(config))));
        EXPECT(str_eq(json_str_at(pod, "spec.volumes.0.configMap.name"), config));

        struct str once = json_text(&arena, pod);
        share_mutate(&arena, pod, 6789);
        EXPECT(str_eq(json_text(&arena, pod), once)); /* a second time changes nothing */
    }
}

TEST(a_variable_of_the_user_gives_way_to_the_true_one)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod = pod_with(
        &arena, "'gpu-fraction':'0.5'",
        "'containers':[{'name':'a','env':[{'name':'NVIDIA_VISIBLE_DEVICES','value':'all'}]}]");
    const struct json *env;

    share_mutate(&arena, pod, 1);
    env = json_at(pod, "spec.containers.0.env");
    EXPECT(json_count(env) == 3);
    EXPECT(!json_at(env, "0.value") && json_at(env, "0.valueFrom.configMapKeyRef"));
}

TEST(names_of_shares_stay_within_what_a_volume_may_be_called)
{
    static const struct {
        const char *why;
        const char *meta;
        const char *start;
    } rows[] = {
        {"long", "'name':'a123456789b123456789c123456789d123456789e123456789f123456789g'",
         "a123456789b123456789"},
        {"dots", "'name':'a.b.c'", "a-b-c-"},
        {"an owner counts first", "'name':'x','ownerReferences':[{'name':'job'}]", "job-"},
        {"no name yet", "'generateName':'gen-'", "gen-"},
        {"nothing", "'namespace':'n'", "pod-"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *pod =
            test_json(&arena, str_printf(&arena,
                                         "{'metadata':{%s,'annotations':{'gpu-fraction':'0.5'}},"
                                         "'spec':{'containers':[{'name':'a'}]}}",
                                         rows[i].meta)
                                  .p);

        test_case(rows[i].why);
        share_mutate(&arena, pod, UINT64_MAX);
        struct str volume = json_str_at(pod, "spec.volumes.0.name");
        EXPECT(!names_dns_label(volume));
        EXPECT(str_starts(volume, str_from(rows[i].start)));
    }
}
