#include "api/group.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
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
        char text[512];

        (void)snprintf(text, sizeof(text),
                       "{\"metadata\":{\"name\":\"p\",\"annotations\":{%s}},\"spec\":{%s}}",
                       rows[i].annotations, rows[i].spec);
        EXPECT(object_new(&kind_pod, str_from(text), &object, NULL) == 0);
        memset(text, 'x', sizeof(text));
        if (!object || !str_is(object->group, rows[i].group))
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
