#include "api/limit.h"
#include "api/share.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <stddef.h>

static const struct json *named(const struct json *list, const char *name)
{
    JSON_FOREACH(list, item)
        if (str_is(json_str(json_get(item, "name")), name))
            return item;
    return NULL;
}

TEST(the_library_is_preloaded_behind_what_is_there_once)
{
    static const struct {
        const char *before;
        const char *want;
        const char *why;
    } rows[] = {
        {"", "/l.so", "alone"},
        {"/a.so", "/a.so:/l.so", "behind another"},
        {"/a.so:/b.so", "/a.so:/b.so:/l.so", "behind two"},
        {"/l.so", "/l.so", "there already"},
        {"/l.so:/a.so", "/l.so:/a.so", "there already, in front"},
        {"/x/l.so", "/x/l.so:/l.so", "another of the same name"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].why);
        EXPECT(str_is(limit_preload(&arena, str_from(rows[i].before), STR("/l.so")), rows[i].want));
    }
}

TEST(the_container_of_a_share_is_held_to_it_and_others_are_left_alone)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *container; /* path in the pod, after the init container of ours */
        const char *other;
    } rows[] = {
        {"the first one", "'gpu-fraction':'0.5'", "spec.containers.0", "spec.containers.1"},
        {"a named one", "'gpu-fraction':'0.5','gpu-fraction-container-name':'b'",
         "spec.containers.1", "spec.containers.0"},
        {"an init container", "'gpu-fraction':'0.5','gpu-fraction-container-name':'i'",
         "spec.initContainers.1", "spec.containers.0"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *pod = test_json(
            &arena, str_printf(&arena,
                               "{'metadata':{'name':'p','annotations':{%s}},'spec':{'containers':"
                               "[{'name':'a','resources':{'requests':{'cpu':'1'},'limits':{'cpu':"
                               "'1','memory':'1Gi','x/y':'1'}}},{'name':'b'}],"
                               "'initContainers':[{'name':'i'}]}}",
                               rows[i].annotations)
                        .p);

        test_case(rows[i].why);
        limit_mutate(&arena, pod, STR("muster:1"));
        share_mutate(&arena, pod, 1);
        const struct json *container = json_at(pod, rows[i].container);
        const struct json *env = json_get(container, "env");
        const struct json *init = json_at(pod, "spec.initContainers.0");
        EXPECT(str_is(json_str(json_get(named(env, "LD_PRELOAD"), "value")), LIMIT_LIBRARY));
        EXPECT(str_is(json_str(json_get(named(env, "MUSTER_GPU_REGION"), "value")), LIMIT_REGION));
        EXPECT(named(env, "NVIDIA_VISIBLE_DEVICES"));
        EXPECT(json_bool_or(
            json_get(named(json_get(container, "volumeMounts"), "muster-gpu"), "readOnly"), false));
        EXPECT(named(json_get(container, "volumeMounts"), "muster-gpu-region"));
        EXPECT(!json_get(json_at(pod, rows[i].other), "env"));
        EXPECT(str_is(json_str(json_get(init, "image")), "muster:1"));
        EXPECT(str_is(json_str_at(init, "command.3"), "/usr/lib/muster/libmuster-gpu.so"));
        EXPECT(str_is(json_str_at(init, "command.4"), LIMIT_HELPER));
        EXPECT(str_is(json_str_at(init, "command.5"), "/usr/bin/muster-launch"));
        EXPECT(str_is(json_str_at(init, "resources.limits.memory"), i ? "" : "1Gi"));
        EXPECT(!json_get(json_at(init, "resources.limits"), "x/y"));
        EXPECT(json_count(json_at(pod, "spec.initContainers")) == 2);

        struct str once = json_text(&arena, pod);
        limit_mutate(&arena, pod, STR("muster:2"));
        share_mutate(&arena, pod, 2);
        EXPECT(str_eq(json_text(&arena, pod), once)); /* a second time changes nothing */
    }
}

TEST(what_the_user_preloads_stays_and_what_the_user_says_about_the_limit_goes)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod =
        test_json(&arena, "{'metadata':{'annotations':{'gpu-memory':'100'}},'spec':{'containers':[{"
                          "'name':'a','env':[{'name':'MUSTER_GPU_MEMORY_MIB','value':'999999'},"
                          "{'name':'LD_PRELOAD','value':'/my.so'},{'name':'MUSTER_GPU_REGION',"
                          "'value':'/dev/zero'}]}]}}");

    limit_mutate(&arena, pod, STR("muster:1"));
    const struct json *env = json_at(pod, "spec.containers.0.env");
    EXPECT(str_is(json_str(json_get(named(env, "LD_PRELOAD"), "value")), "/my.so:" LIMIT_LIBRARY));
    EXPECT(str_is(json_str(json_get(named(env, "MUSTER_GPU_REGION"), "value")), LIMIT_REGION));
    EXPECT(!named(env, "MUSTER_GPU_MEMORY_MIB"));
}

TEST(a_preload_that_only_the_kubelet_knows_is_referred_to)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod =
        test_json(&arena, "{'metadata':{'annotations':{'gpu-memory':'100'}},'spec':{'containers':[{"
                          "'name':'a','env':[{'name':'LD_PRELOAD','valueFrom':{'configMapKeyRef':{"
                          "'name':'c','key':'k'}}}]}]}}");

    for (int i = 0; i < 2; i++) {
        limit_mutate(&arena, pod, STR("muster:1"));
        const struct json *env = json_at(pod, "spec.containers.0.env");
        EXPECT(str_is(json_str(json_get(named(env, "LD_PRELOAD"), "value")),
                      "$(MUSTER_GPU_LD_PRELOAD):" LIMIT_LIBRARY));
        EXPECT(json_get(named(env, "MUSTER_GPU_LD_PRELOAD"), "valueFrom"));
        EXPECT(str_is(json_str_at(env, "0.name"), "MUSTER_GPU_LD_PRELOAD")); /* before its use */
        EXPECT(json_count(env) == 3);
    }
}

TEST(a_pod_that_opts_out_is_not_touched)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod =
        test_json(&arena, "{'metadata':{'annotations':{'gpu-memory':'100','" LIMIT_ANNOTATION
                          "':'false'}},'spec':{'containers':[{'name':'a'}]}}");
    struct str before = json_text(&arena, pod);

    limit_mutate(&arena, pod, STR("muster:1"));
    EXPECT(str_eq(json_text(&arena, pod), before));
}

/* Looking each one up by its place would take this a minute. */
TEST(very_many_variables_are_gone_through_once)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *pod = test_json(&arena, "{'metadata':{'annotations':{'gpu-memory':'100'}},'spec':{"
                                         "'containers':[{'name':'a','env':[]}]}}");
    struct json *env = json_at(pod, "spec.containers.0.env");

    for (int i = 0; i < 200000; i++)
        json_add_c(&arena, json_push(env, json_new_object(&arena)), "name",
                   i % 2 ? SHARE_MEMORY : "A");
    limit_mutate(&arena, pod, STR("muster:1"));
    env = json_at(pod, "spec.containers.0.env");
    EXPECT(json_count(env) == 100002 && !named(env, SHARE_MEMORY));
}
