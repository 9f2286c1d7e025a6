#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "store/remaining.h"
#include "test.h"

#include <stddef.h>
#include <string.h>

#define LARGE_BYTES (REMAINING_BYTES_MAX / 2)
#define OBJECTS     10

TEST(of_what_keeps_a_namespace_only_so_many_bytes_are_read_in_one_turn)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct remaining remaining = {.arena = &arena};
    char *filling = ARENA_ARRAY(&arena, char, LARGE_BYTES + 1);

    memset(filling, 'x', LARGE_BYTES);
    for (size_t i = 0; i < OBJECTS; i++) {
        struct object *object = NULL;
        struct str raw =
            str_printf(&arena,
                       "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
                       "\"name\":\"c%zu\",\"namespace\":\"n\",\"finalizers\":[\"a/b%zu\"]},"
                       "\"data\":{\"a\":\"%s\"}}",
                       i, i, filling);

        EXPECT(object_new(&kind_configmap, raw, &object, NULL) == 0);
        remaining_object(&remaining, object);
        object_unref(object);
    }
    EXPECT(remaining.objects == OBJECTS);
    EXPECT(remaining.finalizers.count == 2);
}
