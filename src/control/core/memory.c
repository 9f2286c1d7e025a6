#include "control/core/memory.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/action.h"
#include "control/core/status.h"

#include <stdbool.h>
#include <stddef.h>

const struct json *memory_read(const struct object *object, struct arena *arena)
{
    struct str text = object_annotation(object, MEMORY_ANNOTATION);
    struct json *memory = NULL;

    if (!text.len || text.len > MEMORY_BYTES_MAX || json_parse(arena, text, &memory, NULL) < 0)
        return NULL;
    return json_is(memory, JSON_OBJECT) ? memory : NULL;
}

bool memory_lacks(const struct json *status, const char *const *members)
{
    for (size_t i = 0; members[i]; i++)
        if (!json_get(status, members[i]))
            return true;
    return false;
}

bool memory_write(struct actions *actions,
                  const struct object *object,
                  const struct json *before,
                  const struct json *memory)
{
    struct arena *arena = actions->arena;
    struct json *patch = json_new_object(arena);
    struct str text = json_text(arena, memory);

    if (json_equal(before, memory) || text.len > MEMORY_BYTES_MAX)
        return false;
    json_add_str(arena, json_make_path(arena, patch, "metadata.annotations"), MEMORY_ANNOTATION,
                 text);
    action_patch(actions, object, patch);
    return true;
}

struct json *memory_diff(struct arena *arena,
                         const struct json *status,
                         const struct json *after,
                         bool foreign)
{
    struct json *patch = merge_diff(arena, status, after);

    if (!foreign)
        return patch;
    JSON_FOREACH(patch, member) {
        struct str key = json_key(member);
        bool there = json_get_str(status, key) && !str_is(key, "lastReconcileTime");

        if (there || str_is(key, "conditions"))
            return patch;
    }
    return NULL;
}

static struct str crd_name(struct arena *arena, const struct object *object)
{
    return str_printf(arena, "%s.%s", object->kind->plural, object->kind->group);
}

void memory_tell(struct actions *actions, const struct object *object)
{
    struct str name = crd_name(actions->arena, object);

    action_warn(actions, object, MEMORY_REASON,
                str_printf(actions->arena,
                           "the CustomResourceDefinition " STR_FMT
                           " is not muster's: it drops fields of the status; muster keeps its "
                           "counts in the annotation " MEMORY_ANNOTATION
                           " instead, and limits hold; to see "
                           "these fields again, apply muster's definition of " STR_FMT,
                           STR_ARG(name), STR_ARG(name)));
}

struct str memory_note(struct arena *arena, const struct object *object, struct str message)
{
    struct str name = crd_name(arena, object);

    return str_printf(arena,
                      STR_FMT "%sthe CustomResourceDefinition " STR_FMT
                              " is not muster's and drops fields of the status",
                      STR_ARG(message), message.len ? "; " : "", STR_ARG(name));
}
