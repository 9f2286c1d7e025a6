#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "control/cluster/sharing.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static struct object *pod_of(const char *meta)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct object *pod = NULL;
    char *text = str_c(&arena, str_printf(&arena,
                                          "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p',"
                                          "'namespace':'n','uid':'u',%s},'spec':{'containers':["
                                          "{'name':'a'},{'name':'b'}]}}",
                                          meta));

    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    EXPECT(!object_new(&kind_pod, str_from(text), &pod, NULL));
    return pod;
}

TEST(a_user_is_told_its_devices_and_portion)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(object_unrefp) struct object *pod =
        pod_of("'annotations':{'runai/shared-gpu-configmap':'x','mps':'true',"
               "'gpu-fraction-container-name':'b'}");
    _cleanup_(object_unrefp) struct object *bare = pod_of("'annotations':{}");
    struct sharing_portion portion = {
        .fraction_micro = 333333, .memory_mib = 4000, .devices = STR("GPU-1,GPU-2")};
    struct json *maps[2];

    EXPECT(sharing_configs(&arena, pod, &portion, maps));
    EXPECT(str_is(json_str_at(maps[0], "metadata.name"), "x-1"));
    EXPECT(str_is(json_str_at(maps[0], "metadata.ownerReferences.0.uid"), "u"));
    EXPECT(str_is(json_str_at(maps[0], "data.NVIDIA_VISIBLE_DEVICES"), "GPU-1,GPU-2"));
    EXPECT(str_is(json_str_at(maps[0], "data.GPU_PORTION"), "0.33"));
    EXPECT(str_is(json_str_at(maps[0], "data.RUNAI_NUM_OF_GPUS"), "0.33"));
    EXPECT(str_is(json_str_at(maps[1], "metadata.name"), "x-1-evar"));
    EXPECT(str_is(json_str_at(maps[1], "data.MUSTER_GPU_MEMORY_MIB"), "4000"));
    EXPECT(str_is(json_str_at(maps[1], "data.CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "33"));
    EXPECT(!json_at(maps[1], "data.MUSTER_GPU_SUSPEND"));
    portion.movable = true;
    EXPECT(sharing_configs(&arena, pod, &portion, maps));
    EXPECT(str_is(json_str_at(maps[1], "data.MUSTER_GPU_SUSPEND"), "1"));
    EXPECT(!sharing_configs(&arena, bare, &portion, maps));
}

TEST(a_user_carries_the_labels_of_its_groups_and_no_others)
{
    static const struct {
        const char *why;
        const char *labels;
        const char *groups;
        const char *patch; /* NULL: none */
    } rows[] = {
        {"one", "", "a", "{'metadata':{'labels':{'runai-gpu-group':'a'}}}"},
        {"it has it", "'runai-gpu-group':'a'", "a", NULL},
        {"another one before", "'runai-gpu-group':'z','k':'v'", "a",
         "{'metadata':{'labels':{'runai-gpu-group':'a'}}}"},
        {"two", "'runai-gpu-group':'z'", "a,b",
         "{'metadata':{'labels':{'runai-gpu-group/a':'a','runai-gpu-group/b':'b',"
         "'runai-gpu-group':null}}}"},
        {"two are there", "'runai-gpu-group/a':'a','runai-gpu-group/b':'b'", "a,b", NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(object_unrefp) struct object *pod =
            pod_of(str_printf(&arena, "'labels':{%s}", rows[i].labels).p);
        struct str rest = str_from(rows[i].groups);
        struct str groups[2];
        size_t count = 0;

        test_case(rows[i].why);
        while (count < 2 && str_cut(&rest, ',', &groups[count]))
            count++;
        const struct json *patch = sharing_labels(&arena, pod, groups, count);
        EXPECT(!patch == !rows[i].patch);
        if (!patch || !rows[i].patch)
            continue;
        char *expected = str_c(&arena, str_from(rows[i].patch));
        for (char *p = expected; *p; p++)
            *p = *p == '\'' ? '"' : *p;
        EXPECT(str_is(json_text(&arena, patch), expected));
    }
}

TEST(a_reservation_pod_holds_one_device_of_its_node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sharing_settings settings = {
        .ns = STR("res"), .image = STR("muster:1"), .service_account = STR("sa")};
    const struct json *pod = sharing_reservation(&arena, &settings, STR("n1"), STR("g"));

    EXPECT(str_is(json_str_at(pod, "metadata.name"), "gpu-reservation-n1-g"));
    EXPECT(str_is(json_str_at(pod, "metadata.labels.runai-gpu-group"), "g"));
    EXPECT(str_is(json_str_at(pod, "spec.nodeName"), "n1"));
    EXPECT(str_is(
        json_str(json_get(json_at(pod, "spec.containers.0.resources.limits"), "nvidia.com/gpu")),
        "1"));
    EXPECT(!json_at(pod, "spec.runtimeClassName"));
    const struct json *security = json_at(pod, "spec.containers.0.securityContext");
    EXPECT(json_bool_or(json_get(security, "runAsNonRoot"), false));
    EXPECT(str_is(json_str_at(security, "seccompProfile.type"), "RuntimeDefault"));
    EXPECT(str_is(json_str_at(security, "capabilities.drop.0"), "ALL"));
}
