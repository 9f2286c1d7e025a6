#include "store/fill.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"

#include <assert.h>
#include <stddef.h>

/* A definition may get defaults after objects were written. They are shown with them from then on;
 * stored they are with the next write. */
const struct object *fill_defaults(const struct kind_crd *crd, const struct object *object)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct object *filled = NULL;

    /* Whatever is written is filled in by the schema of that moment. */
    if (!crd || !crd->schema || object->revision > crd->revision)
        return object_ref(object);
    const struct json *before = object_json(object, &arena);
    struct json *root = json_clone(&arena, before);
    if (schema_default(&arena, crd->schema, root, NULL) < 0 || json_equal(before, root))
        return object_ref(object);
    int r = object_written(object->kind, json_text(&arena, root), &filled, NULL);
    assert(r == 0);
    (void)r;
    return filled;
}
