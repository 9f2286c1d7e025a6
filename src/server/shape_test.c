#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "server/shape.h"
#include "server/strict.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

TEST(shapes_name_only_types_that_exist_and_say_what_each_field_is)
{
    struct str type;
    size_t count = 0;

    for (; shape_at(count, &type); count++) {
        struct shape shape;
        struct shape_field field;

        EXPECT(shape_find(type, &shape) && shape.about.len > 0);
        EXPECT(type.p[0] >= 'A' && type.p[0] <= 'Z');
        while (shape_next(&shape.lines, &field)) {
            struct shape other;
            char first = field.type.len ? field.type.p[0] : 0;

            EXPECT(field.name.len > 0 && field.about.len > 0);
            if (first >= 'A' && first <= 'Z')
                EXPECT(shape_find(field.type, &other));
            else
                EXPECT(field.type.len == 1 && first && str_contains(STR("sibxqtyo"), field.type));
        }
    }
    EXPECT(count > 60);
}

TEST(unknown_fields_are_named_with_their_path)
{
    static const struct {
        const char *object;
        const char *unknown;
    } rows[] = {
        {"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"labels\":{\"any\":"
         "\"x\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"resources\":{\"limits\":{\"cpu\":1}}}"
         "]}}",
         ""},
        {"{\"spec\":{\"containers\":[{\"name\":\"c\"},{\"imagee\":\"x\"}]}}",
         "unknown field \"spec.containers[1].imagee\""},
        {"{\"metadata\":{\"lables\":{}},\"specs\":{}}",
         "unknown field \"metadata.lables\", unknown field \"specs\""},
        {"{\"spec\":{\"$setElementOrder/"
         "containers\":[],\"volumes\":[{\"emptyDir\":{\"mode\":1}}]}}",
         "unknown field \"spec.volumes[0].emptyDir.mode\""},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        _cleanup_(buf_done) struct buf out = {0};
        struct json *root = NULL;

        test_case(rows[i].object);
        EXPECT(json_parse(&arena, str_from(rows[i].object), &root, NULL) == 0);
        strict_check(&arena, &kind_pod, root, &out);
        EXPECT(str_is(buf_str(&out), rows[i].unknown));
    }
}
