#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

TEST(object_new_decodes_metadata_and_outlives_its_text)
{
    char text[] =
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u1\",\"resourceVersion\":"
        "\"7\",\"labels\":{\"k\":\"v\\n\"},\"deletionTimestamp\":\"1970-01-01T00:00:01Z\","
        "\"ownerReferences\":[{\"uid\":\"o\",\"controller\":true}]}}";
    _cleanup_(object_unrefp) struct object *object = NULL;

    EXPECT(object_new(&kind_pod, (struct str){text, sizeof(text) - 1}, &object, NULL) == 0);
    memset(text, 'x', sizeof(text));
    if (!object)
        return;
    EXPECT(str_is(object->name, "a") && str_is(object->ns, "n") && str_is(object->uid, "u1"));
    EXPECT(object->revision == 7 && object->deleted_ms == 1000);
    EXPECT(str_is(object_label(object, "k"), "v\n"));
    EXPECT(object_controller(object) && str_is(object_controller(object)->uid, "o"));
}

TEST(object_new_refuses_an_object_without_a_name)
{
    struct object *object = NULL;
    struct err err = {0};

    EXPECT(object_new(&kind_pod, STR("{\"metadata\":{}}"), &object, &err) == -EINVAL);
    EXPECT(strstr(err.text, "metadata.name") && !object);
}

TEST(a_pod_is_in_the_group_that_it_is_told_or_that_stands_for_what_it_names)
{
    static const struct {
        const char *why;
        const char *annotations;
        const char *spec;
        const char *group;
    } rows[] = {
        {"told", "\"pod-group-name\":\"a\"", "", "a"},
        {"named", "", "\"schedulingGroup\":{\"podGroupName\":\"g\"}", "podgroup-g"},
        {"told, whatever it names", "\"pod-group-name\":\"a\"",
         "\"schedulingGroup\":{\"podGroupName\":\"g\"}", "a"},
        {"named, and not to be looked at", "\"kai.scheduler/ignore-workload-api\":\"true\"",
         "\"schedulingGroup\":{\"podGroupName\":\"g\"}", ""},
        {"neither", "", "", ""},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(object_unrefp) struct object *object = NULL;
        _cleanup_(object_unrefp) struct object *written = NULL;
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"name\":\"p\",\"annotations\":{%s}},\"spec\":{%s}}",
                       rows[i].annotations, rows[i].spec);
        EXPECT(object_new(&kind_pod, str_from(text), &object, NULL) == 0);
        EXPECT(object_written(&kind_pod, str_from(text), &written, NULL) == 0);
        memset(text, 'x', sizeof(text));
        if (!object || !str_is(object->group, rows[i].group))
            test_fail(__FILE__, __LINE__, rows[i].why);
        if (!written || !str_is(written->group, rows[i].group))
            test_fail(__FILE__, __LINE__, rows[i].why);
    }
}

TEST(the_longest_name_has_a_group_of_its_own)
{
    char out[GROUP_NAME_BYTES];
    char other[GROUP_NAME_BYTES];
    char name[254];

    memset(name, 'a', sizeof(name));
    struct str first = group_for_named((struct str){name, 253}, out);
    name[252] = 'b';
    struct str second = group_for_named((struct str){name, 253}, other);
    EXPECT(first.len == 253 && second.len == 253 && !str_eq(first, second));
    EXPECT(group_for_named((struct str){name, 244}, out).len == 253);
}

TEST(whoever_reads_a_change_reads_one_tree_until_the_next)
{
    _cleanup_(object_unrefp) struct object *object = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct object_trees trees = {0};

    EXPECT(object_new(&kind_pod, STR("{\"metadata\":{\"name\":\"a\"},\"spec\":{\"x\":\"y\\n\"}}"),
                      &object, NULL) == 0);
    if (!object)
        return;
    const struct json *own = object_tree(object, &arena);
    EXPECT(own && own != object_tree(object, &arena)); /* nobody has one for all */
    object_trees_add(&trees, NULL);
    object_trees_add(&trees, object);
    object_trees_add(&trees, object);
    size_t before = arena.bytes_used;
    const struct json *shared = object_tree(object, &arena);
    EXPECT(shared && shared == object_tree(object, &arena) && arena.bytes_used == before);
    EXPECT(str_is(json_str_at(shared, "spec.x"), "y\n"));
    object_trees_clear(&trees);
    EXPECT(object->refs == 1 && object_tree(object, &arena) != shared);
    object_trees_add(&trees, object);
    (void)arena_alloc(&trees.arena, 1, OBJECT_TREES_BYTES_MAX + 1, 1);
    before = arena.bytes_used;
    EXPECT(object_tree(object, &arena) && arena.bytes_used > before); /* too many at once */
    object_trees_done(&trees);
    EXPECT(object->refs == 1);
}

TEST(text_that_was_written_needs_no_parse_but_of_its_metadata)
{
    static const struct {
        const char *why;
        const char *raw;
        const char *label;
    } rows[] = {
        {"as objects are",
         "{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"labels\":{\"k\":\"v\"}},\"spec\":{}}",
         "v"},
        {"a part has metadata, too",
         "{\"spec\":{\"metadata\":{\"name\":\"b\"}},\"metadata\":{\"name\":\"a\",\"labels\":{\"k\":"
         "\"v\"}}}",
         "v"},
        {"quotes, braces and backslashes in strings",
         "{\"x\":\"}\\\",{\\\\\",\"y\":[\"]\\\\\\\"\"],\"metadata\":{\"name\":\"a\",\"labels\":{"
         "\"k\":\"\\\"}\"}}}",
         "\"}"},
        {"numbers and words before it",
         "{\"a\":1,\"b\":true,\"c\":null,\"d\":-2.5e3,\"metadata\":{\"name\":\"a\",\"labels\":{"
         "\"k\":\"v\"}},\"e\":0}",
         "v"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(object_unrefp) struct object *object = NULL;

        test_case(rows[i].why);
        EXPECT(object_written(&kind_pod, str_from(rows[i].raw), &object, NULL) == 0);
        if (!object)
            continue;
        EXPECT(str_is(object->name, "a") && str_is(object->raw, rows[i].raw));
        EXPECT(str_is(object_label(object, "k"), rows[i].label));
    }
    struct object *none = NULL;
    struct err err = {0};
    EXPECT(object_written(&kind_pod, STR("{\"spec\":{}}"), &none, &err) == -EINVAL && !none);
    EXPECT(object_written(&kind_pod, STR("{\"spec\":{}"), &none, &err) == -EINVAL && !none);
}

TEST(a_change_of_the_status_alone_is_known_by_what_is_decoded)
{
#define POD(meta) "{\"metadata\":{\"name\":\"a\",\"uid\":\"u\"" meta "},\"status\":{}}"
    static const struct {
        const char *why;
        const char *before;
        const char *after;
        bool same;
    } rows[] = {
        {"another resourceVersion", POD(",\"generation\":1,\"resourceVersion\":\"1\""),
         POD(",\"generation\":1,\"resourceVersion\":\"2\""), true},
        {"another spec", POD(",\"generation\":1"), POD(",\"generation\":2"), false},
        {"not known", POD(""), POD(""), false},
        {"another label", POD(",\"generation\":1,\"labels\":{\"a\":\"b\"}"),
         POD(",\"generation\":1,\"labels\":{\"a\":\"c\"}"), false},
        {"one annotation more", POD(",\"generation\":1"),
         POD(",\"generation\":1,\"annotations\":{\"a\":\"c\"}"), false},
        {"another owner", POD(",\"generation\":1,\"ownerReferences\":[{\"uid\":\"1\"}]"),
         POD(",\"generation\":1,\"ownerReferences\":[{\"uid\":\"2\"}]"), false},
        {"it is being deleted", POD(",\"generation\":1"),
         POD(",\"generation\":1,\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""), false},
        {"a finalizer went", POD(",\"generation\":1,\"finalizers\":[\"f\"]"),
         POD(",\"generation\":1"), false},
    };
#undef POD

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(object_unrefp) struct object *before = NULL;
        _cleanup_(object_unrefp) struct object *after = NULL;

        test_case(rows[i].why);
        EXPECT(object_new(&kind_pod, str_from(rows[i].before), &before, NULL) == 0);
        EXPECT(object_new(&kind_pod, str_from(rows[i].after), &after, NULL) == 0);
        if (before && after)
            EXPECT(object_same_but_status(before, after) == rows[i].same);
    }
}
