#include "api/kind.h"
#include "api/object.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
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
