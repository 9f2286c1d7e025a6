#include "api/kind.h"
#include "api/large_test.h"
#include "api/patch.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

TEST(merge_patch_follows_rfc_7386)
{
    static const struct {
        const char *target;
        const char *patch;
        const char *result;
    } rows[] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{\"a\":1}", "[2]", "[2]"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};

        test_case(rows[i].patch);
        struct json *result = patch_merge(&arena, test_json(&arena, rows[i].target),
                                          test_json(&arena, rows[i].patch));
        EXPECT(str_is(json_text(&arena, result), rows[i].result));
    }
}

TEST(json_patch_follows_rfc_6902)
{
    static const struct {
        const char *target;
        const char *patch;
        const char *result; /* NULL: fails with code */
        int code;
    } rows[] = {
        {"{}", "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]", "{\"a\":1}", 0},
        {"{\"a\":[1,3]}", "[{\"op\":\"add\",\"path\":\"/a/1\",\"value\":2}]", "{\"a\":[1,2,3]}", 0},
        {"{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/-\",\"value\":2}]", "{\"a\":[1,2]}", 0},
        {"{\"a\":1,\"b\":2}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", "{\"b\":2}", 0},
        {"{\"a\":[1,2]}", "[{\"op\":\"remove\",\"path\":\"/a/0\"}]", "{\"a\":[2]}", 0},
        {"{\"a\":[1,2]}", "[{\"op\":\"replace\",\"path\":\"/a/0\",\"value\":7}]", "{\"a\":[7,2]}",
         0},
        {"{\"a\":1}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/b\"}]", "{\"b\":1}", 0},
        {"{\"a\":1}", "[{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/b\"}]", "{\"a\":1,\"b\":1}",
         0},
        {"{\"a/b\":1,\"c~\":2}",
         "[{\"op\":\"remove\",\"path\":\"/a~1b\"},{\"op\":\"remove\",\"path\":\"/c~0\"}]", "{}", 0},
        {"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":1.0}]", "{\"a\":1}", 0},
        {"{\"a\":1}", "[{\"op\":\"add\",\"path\":\"\",\"value\":[]}]", "[]", 0},
        {"{\"\":1}", "[{\"op\":\"remove\",\"path\":\"/\"}]", "{}", 0},
        {"{\"a\":1}", "[{\"op\":\"test\",\"path\":\"/a\",\"value\":2}]", NULL, -EILSEQ},
        {"{}", "[{\"op\":\"remove\",\"path\":\"/a\"}]", NULL, -ENOENT},
        {"{}", "[{\"op\":\"replace\",\"path\":\"/a\",\"value\":1}]", "{\"a\":1}", 0},
        {"{}", "[{\"op\":\"replace\",\"path\":\"/a/b\",\"value\":1}]", NULL, -ENOENT},
        {"[]", "[{\"op\":\"replace\",\"path\":\"/0\",\"value\":1}]", NULL, -ENOENT},
        {"{\"a\":[]}", "[{\"op\":\"add\",\"path\":\"/a/1\",\"value\":1}]", NULL, -ENOENT},
        {"{\"a\":[1]}", "[{\"op\":\"add\",\"path\":\"/a/00\",\"value\":1}]", NULL, -ENOENT},
        {"{}", "[{\"op\":\"add\",\"path\":\"/a/b\",\"value\":1}]", NULL, -ENOENT},
        {"{}", "[{\"op\":\"add\",\"path\":\"a\",\"value\":1}]", NULL, -EINVAL},
        {"{}", "[{\"op\":\"grow\",\"path\":\"/a\",\"value\":1}]", NULL, -EINVAL},
        {"{\"a\":{}}", "[{\"op\":\"move\",\"from\":\"/a\",\"path\":\"/a/b\"}]", NULL, -EINVAL},
        {"{}", "{\"op\":\"add\"}", NULL, -EINVAL},
        {"{'a~':1,'b~2':2}", "[{'op':'remove','path':'/a~'},{'op':'remove','path':'/b~2'}]", "{}",
         0},
        {"{'a':1}", "[{'op':'remove','path':''}]", "null", 0},
        {"{'a':1}", "[{'op':'replace','path':'','value':2}]", "2", 0},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/ab'}]", "{\"ab\":1}", 0},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/a'}]", "{\"a\":1}", 0},
        {"{'a':1}", "[{'op':'move','path':'/b'}]", NULL, -EINVAL},
        {"{'a':1}", "[{'op':'copy','path':'/b'}]", NULL, -EINVAL},
        {"{'a':1}", "[{'op':'copy','from':'/x','path':'/b'}]", NULL, -ENOENT},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/x/y'}]", NULL, -ENOENT},
        {"{'a':1}", "[{'op':'remove'}]", NULL, -EINVAL},
        {"{'a':1}", "[{'op':'add','path':'/b'}]", NULL, -EINVAL},
        {"{'a':1}", "[{'op':'test','path':'/b','value':1}]", NULL, -ENOENT},
        {"{'a':[{}]}", "[{'op':'add','path':'/a/x/b','value':1}]", NULL, -ENOENT},
        {"{'a':[1]}", "[{'op':'add','path':'/a/0/b','value':1}]", NULL, -ENOENT},
        {"{'a':[1]}", "[{'op':'remove','path':'/a/-'}]", NULL, -ENOENT},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *result = NULL;
        struct err err = {0};

        test_case(rows[i].patch);
        int r = patch_json(&arena, test_json(&arena, rows[i].target),
                           test_json(&arena, rows[i].patch), &result, &err);
        EXPECT(r == rows[i].code);
        if (rows[i].result)
            EXPECT(str_is(json_text(&arena, result), rows[i].result));
        else
            EXPECT(err.text[0]);
    }
}

/* Copying a list into itself twice doubles it: 30 times would be a billion values. */
TEST(json_patch_growth_is_bounded)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = json_new_array(&arena);
    struct json *result = NULL;

    for (int i = 0; i < 40; i++)
        json_push(patch, test_json(&arena, "{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"}"));
    for (int i = 0; i < 40; i++)
        json_push(patch, test_json(&arena, "{\"op\":\"copy\",\"from\":\"/a\",\"path\":\"/a/b\"}"));
    EXPECT(patch_json(&arena, test_json(&arena, "{\"b\":{}}"), patch, &result, NULL) <= 0);
    patch = json_new_array(&arena);
    for (int i = 0; i < 60; i++) {
        json_push(patch, test_json(&arena, "{\"op\":\"copy\",\"from\":\"/l\",\"path\":\"/l/-\"}"));
    }
    EXPECT(patch_json(&arena, test_json(&arena, "{\"l\":[0]}"), patch, &result, NULL) == -E2BIG);
}

/* A text of 1 MB, and then one small operation after another about it. */
static struct json *operations_on_a_long_text(struct arena *arena, size_t count, const char *format)
{
    struct json *patch = json_new_array(arena);
    struct json *first = json_push(patch, test_json(arena, "{\"op\":\"add\",\"path\":\"/0\"}"));

    json_add_str(arena, first, "value", large_word(arena, (size_t)1 << 20));
    for (size_t i = 0; i < count; i++) {
        struct json *operation = json_push(patch, json_new_object(arena));

        json_add_c(arena, operation, "op", format);
        json_add_str(arena, operation, "from", str_printf(arena, "/%zu", i));
        json_add_str(arena, operation, "path", str_printf(arena, "/%zu", i + 1));
    }
    return patch;
}

TEST(json_patch_copies_are_refused_before_they_take_memory)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = operations_on_a_long_text(&arena, 200, "copy");
    struct json *result = NULL;
    struct err err = {0};
    size_t before = arena.bytes_used;

    EXPECT(patch_json(&arena, test_json(&arena, "{}"), patch, &result, &err) == -E2BIG);
    EXPECT(strstr(err.text, "bytes"));
    EXPECT(arena.bytes_used - before < 2 * PATCH_BYTES_MAX);
}

TEST(json_patch_moves_copy_nothing)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = operations_on_a_long_text(&arena, 200, "move");
    struct json *result = NULL;
    size_t before = arena.bytes_used;

    EXPECT(patch_json(&arena, test_json(&arena, "{}"), patch, &result, NULL) == 0);
    EXPECT(json_count(result) == 1 && json_str(json_get(result, "200")).len == (size_t)1 << 20);
    EXPECT(arena.bytes_used - before < 2 * PATCH_BYTES_MAX);
}

static int test_the_last_item(size_t items, size_t times, struct err *err)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *target = test_json(&arena, "{\"l\":[]}");
    struct json *patch = json_new_array(&arena);
    struct json *result = NULL;

    for (size_t i = 0; i < items; i++)
        json_push(json_get(target, "l"), json_new_i64(&arena, 1));
    for (size_t i = 0; i < times; i++)
        json_push(patch, json_make(&arena, "{op: 'test', path: $, value: 1}",
                                   str_printf(&arena, "/l/%zu", items - 1)));
    return patch_json(&arena, target, patch, &result, err);
}

/* An item is found by walking to it: a short patch could keep the server busy for minutes. */
TEST(json_patch_walks_are_bounded)
{
    struct err err = {0};

    EXPECT(test_the_last_item(6000, 2000, &err) == 0);
    EXPECT(test_the_last_item(6000, PATCH_OPERATIONS_MAX, &err) == -E2BIG);
    EXPECT(strstr(err.text, "send its operations in several patches"));
}

TEST(strategic_deletes_from_a_long_list_in_one_pass)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *target = test_json(&arena, "{\"metadata\":{\"finalizers\":[]}}");
    struct json *list = json_at(target, "metadata.finalizers");

    for (size_t i = 0; i < 200000; i++)
        json_push(list, json_new_str(&arena, i % 2 ? STR("a") : STR("b")));
    EXPECT(
        patch_strategic(
            &arena, &kind_pod, target,
            test_json(&arena, "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"]}}"),
            NULL) == 0);
    EXPECT(json_count(list) == 100000 && str_is(json_str(list->last), "b"));
}

/* A path for every member below a long name would be the name as many times. */
TEST(strategic_merge_does_not_copy_the_path_for_every_member)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str name = large_word(&arena, 100000);
    struct str members = large_list(&arena, 2000, "\"", "\":{}");
    struct str text =
        str_printf(&arena, "{\"" STR_FMT "\":{" STR_FMT "}}", STR_ARG(name), STR_ARG(members));
    struct json *target = test_json(&arena, "{}");
    struct json *patch = test_json(&arena, text.p);
    size_t before = arena.bytes_used;

    EXPECT(patch_strategic(&arena, &kind_pod, target, patch, NULL) == 0);
    EXPECT(json_equal(target, patch));
    EXPECT(arena.bytes_used - before < (size_t)4 << 20);
}

/* Each item is looked up: comparing all with all would take minutes. */
TEST(strategic_merge_takes_as_many_items_as_fit_into_a_request)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str items = large_list(&arena, 100000, "{\"name\":\"", "\"}");
    struct str text = str_printf(&arena, "{\"spec\":{\"volumes\":[" STR_FMT "]}}", STR_ARG(items));
    struct json *target = test_json(&arena, text.p);
    const struct json *patch = test_json(&arena, text.p);

    EXPECT(patch_strategic(&arena, &kind_pod, target, patch, NULL) == 0);
    EXPECT(json_equal(target, patch));
}

TEST(strategic_merge_follows_merge_keys_and_directives)
{
    static const struct {
        const char *why;
        const char *target;
        const char *patch;
        const char *result;
    } rows[] = {
        {"containers merge by name",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"1\"},{\"name\":\"b\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"2\"},{\"name\":\"c\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"2\"},{\"name\":\"c\"},{\"name\":"
         "\"b\"}]}}"},
        {"what a patch adds goes before what it does not name",
         "{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"c\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"c\"},{\"name\":\"a\"}]}}"},
        {"what a patch names stays behind what was before it",
         "{\"spec\":{\"containers\":[{\"name\":\"live\"},{\"name\":\"a\"}]}}",
         "{\"spec\":{\"$setElementOrder/containers\":[{\"name\":\"a\"},{\"name\":\"b\"}],"
         "\"containers\":[{\"name\":\"b\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"live\"},{\"name\":\"a\"},{\"name\":\"b\"}]}}"},
        {"an item is deleted by directive",
         "{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"$patch\":\"delete\"}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\"}]}}"},
        {"lists without a key are replaced", "{\"spec\":{\"tolerations\":[{\"key\":\"x\"}]}}",
         "{\"spec\":{\"tolerations\":[{\"key\":\"y\"}]}}",
         "{\"spec\":{\"tolerations\":[{\"key\":\"y\"}]}}"},
        {"finalizers are a set", "{\"metadata\":{\"finalizers\":[\"a\"]}}",
         "{\"metadata\":{\"finalizers\":[\"b\",\"a\"]}}",
         "{\"metadata\":{\"finalizers\":[\"b\",\"a\"]}}"},
        {"a value leaves a set", "{\"metadata\":{\"finalizers\":[\"a\",\"b\"]}}",
         "{\"metadata\":{\"$deleteFromPrimitiveList/finalizers\":[\"a\"]}}",
         "{\"metadata\":{\"finalizers\":[\"b\"]}}"},
        {"null removes", "{\"spec\":{\"unschedulable\":true,\"x\":1}}",
         "{\"spec\":{\"unschedulable\":null}}", "{\"spec\":{\"x\":1}}"},
        {"replace directive", "{\"spec\":{\"a\":1}}", "{\"spec\":{\"$patch\":\"replace\",\"b\":2}}",
         "{\"spec\":{\"b\":2}}"},
        {"retain keys", "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"emptyDir\":{}}]}}",
         "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"$retainKeys\":[\"name\",\"hostPath\"],"
         "\"hostPath\":{}}]}}",
         "{\"spec\":{\"volumes\":[{\"name\":\"v\",\"hostPath\":{}}]}}"},
        {"order",
         "{\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"live\"},{\"name\":\"b\"}]}}",
         "{\"spec\":{\"$setElementOrder/"
         "containers\":[{\"name\":\"b\"},{\"name\":\"a\"}],\"containers\":[{\"name\":\"b\",\"x\":"
         "1}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"live\"},{\"name\":\"b\",\"x\":1},{\"name\":"
         "\"a\"}]}}"},
        {"nested env",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"env\":[{\"name\":\"X\",\"value\":\"1\"}]}]}"
         "}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"env\":[{\"name\":\"Y\",\"value\":\"2\"}]}]}"
         "}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\",\"env\":[{\"name\":\"Y\",\"value\":\"2\"},{"
         "\"name\":\"X\",\"value\":\"1\"}]}]}}"},
        {"a map is deleted by directive", "{'spec':{'a':{'b':1},'c':1}}",
         "{'spec':{'a':{'$patch':'delete'}}}", "{\"spec\":{\"c\":1}}"},
        {"all of it", "{'a':1}", "{'$patch':'delete'}", "{}"},
        {"merging is what it does", "{'spec':{'a':1}}", "{'spec':{'$patch':'merge','b':2}}",
         "{\"spec\":{\"a\":1,\"b\":2}}"},
        {"what is new has no nulls and no directives", "{}",
         "{'spec':{'a':null,'b':{'$patch':'replace','c':1,'d':{'e':null}}}}",
         "{\"spec\":{\"b\":{\"c\":1,\"d\":{}}}}"},
        {"what is not there is not deleted", "{'spec':{'containers':[{'name':'a'}]}}",
         "{'spec':{'containers':[{'name':'b','$patch':'delete'}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}"},
        {"all items by others", "{'spec':{'containers':[{'name':'a'}]}}",
         "{'spec':{'containers':[{'$patch':'replace'},{'name':'b'}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\"}]}}"},
        {"an order alone, with what is not there, and twice",
         "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
         "{'spec':{'$setElementOrder/containers':[{'name':'b'},{'name':'x'},{'name':'b'},{'name':"
         "'a'}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"b\"},{\"name\":\"a\"}]}}"},
        {"an order of a set", "{'metadata':{'finalizers':['a','b']}}",
         "{'metadata':{'$setElementOrder/finalizers':['b','a']}}",
         "{\"metadata\":{\"finalizers\":[\"b\",\"a\"]}}"},
        {"an order of nothing, a value from nothing", "{'metadata':{'a':1}}",
         "{'metadata':{'$setElementOrder/x':['b'],'$deleteFromPrimitiveList/a':[1]}}",
         "{\"metadata\":{\"a\":1}}"},
        {"a list where there was none", "{'spec':{'containers':'x'}}",
         "{'spec':{'containers':[{'name':'a'}]}}",
         "{\"spec\":{\"containers\":[{\"name\":\"a\"}]}}"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *target = test_json(&arena, rows[i].target);

        test_case(rows[i].why);
        EXPECT(patch_strategic(&arena, &kind_pod, target, test_json(&arena, rows[i].patch), NULL) ==
               0);
        EXPECT(str_is(json_text(&arena, target), rows[i].result));
    }
}

TEST(strategic_merge_refuses_an_item_without_its_key)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct err err = {0};

    EXPECT(patch_strategic(&arena, &kind_pod, test_json(&arena, "{\"spec\":{\"containers\":[]}}"),
                           test_json(&arena, "{\"spec\":{\"containers\":[{\"image\":\"x\"}]}}"),
                           &err) == -EINVAL);
    EXPECT(strstr(err.text, "name"));
}

TEST(strategic_merges_that_mean_nothing_are_refused)
{
    static const struct {
        const char *patch;
        const char *words;
    } rows[] = {
        {"[]", "must be an object"},
        {"{'$patch':'grow'}", "$patch must be replace, merge or delete"},
        {"{'spec':{'a':{'$patch':'grow'}}}", "$patch must be replace, merge or delete"},
        {"{'spec':{'containers':[{'name':'b','$patch':'grow'}]}}", "$patch must be"},
        {"{'spec':{'containers':['a']}}", "does not have its key \"name\""},
        {"{'spec':{'new':{'containers':{'$patch':'grow'}}}}", "$patch must be"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *target = test_json(&arena, "{'spec':{'containers':[{'name':'a'}],'a':{}}}");
        struct err err = {0};

        test_case(rows[i].patch);
        EXPECT(patch_strategic(&arena, &kind_pod, target, test_json(&arena, rows[i].patch), &err) ==
               -EINVAL);
        EXPECT(strstr(err.text, rows[i].words));
    }
}

TEST(json_patches_have_only_so_many_operations)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *operations = json_new_array(&arena);
    struct json *result = NULL;

    for (size_t i = 0; i <= PATCH_OPERATIONS_MAX; i++)
        json_push(operations, test_json(&arena, "{'op':'test','path':'','value':{}}"));
    EXPECT(patch_json(&arena, json_new_object(&arena), operations, &result, NULL) == -E2BIG);
    json_remove_index(operations, 0);
    EXPECT(patch_json(&arena, json_new_object(&arena), operations, &result, NULL) == 0);
}

/* What Kubernetes' own types say (patchMergeKey and patchStrategy): the keys that clients rely on.
 */
TEST(strategic_lists_have_the_merge_keys_of_kubernetes)
{
    static const struct {
        const struct kind *kind;
        const char *path;
        bool merged;
        const char *key;
    } rows[] = {
        {&kind_pod, "metadata.ownerReferences", true, "uid"},
        {&kind_pod, "metadata.finalizers", true, ""},
        {&kind_pod, "spec.containers", true, "name"},
        {&kind_pod, "spec.containers.env", true, "name"},
        {&kind_pod, "spec.containers.ports", true, "containerPort"},
        {&kind_pod, "spec.containers.volumeMounts", true, "mountPath"},
        {&kind_pod, "spec.containers.volumeDevices", true, "devicePath"},
        {&kind_pod, "spec.containers.args", false, ""},
        {&kind_pod, "spec.containers.envFrom", false, ""},
        {&kind_pod, "spec.initContainers", true, "name"},
        {&kind_pod, "spec.initContainers.env", true, "name"},
        {&kind_pod, "spec.volumes", true, "name"},
        {&kind_pod, "spec.imagePullSecrets", true, "name"},
        {&kind_pod, "spec.hostAliases", true, "ip"},
        {&kind_pod, "spec.topologySpreadConstraints", true, "topologyKey"},
        {&kind_pod, "spec.tolerations", false, ""},
        {&kind_pod, "status.conditions", true, "type"},
        {&kind_job, "spec.template.spec.containers.env", true, "name"},
        {&kind_service, "spec.ports", true, "port"},
        {&kind_node, "status.addresses", true, "type"},
        {&kind_node, "spec.taints", false, ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct type_place place = type_place_root(rows[i].kind);
        struct str rest = str_from(rows[i].path);
        struct str name;

        test_case(rows[i].path);
        while (str_cut(&rest, '.', &name))
            place = type_place_below(place, name);
        EXPECT(place.field && ((place.field->flags & TYPE_MERGE) != 0) == rows[i].merged);
        EXPECT(!rows[i].merged || str_is(type_field_key(place.field, 0), rows[i].key));
    }
}

TEST(patches_of_very_many_members_in_another_order_are_applied_in_no_time)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct str data = large_list(&arena, JSON_MEMBERS_MAX, "\"k", "\":\"v\"");
    struct json *target =
        test_json(&arena, str_printf(&arena, "{\"data\":{" STR_FMT "}}", STR_ARG(data)).p);
    struct json *patch = json_new_object(&arena);
    struct json *members = json_add_object(&arena, patch, "data");
    struct err err;

    for (int i = JSON_MEMBERS_MAX - 1; i >= 0; i--)
        json_append(members, str_printf(&arena, "k%d", i),
                    i % 2 ? json_new_null(&arena) : json_new_str(&arena, STR("w")));
    struct json *merged = patch_merge(&arena, json_clone(&arena, target), patch);
    EXPECT(patch_strategic(&arena, &kind_configmap, target, patch, &err) == 0);
    EXPECT(json_count(json_get(merged, "data")) == JSON_MEMBERS_MAX / 2);
    EXPECT(str_is(json_str_at(merged, "data.k19998"), "w"));
    EXPECT(json_equal(merged, target));
}
