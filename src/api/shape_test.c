#include "api/shape.h"
#include "base/str.h"
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
