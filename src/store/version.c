#include "store/version.h"

#include "api/convert.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "store/shelf.h"

#include <assert.h>
#include <stddef.h>

const struct object *convert_object(const struct shelf *shelf,
                                    const struct object *object,
                                    const struct kind *kind)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct object *converted = NULL;

    if (object->kind == kind || shelf->webhook)
        return object_ref(object);
    struct json *root = object_json(object, &arena);
    convert(&arena, root, object->kind, kind);
    int r = object_written(kind, json_text(&arena, root), &converted, NULL);
    assert(r == 0);
    (void)r;
    return converted;
}
