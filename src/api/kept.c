#include "api/kept.h"

#include "api/kind.h"
#include "api/protobuf.h"
#include "api/types.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static const struct type *type_of(const struct kind *kind)
{
    if (kind != &kind_pod && kind != &kind_node)
        return NULL;
    return type_of_kind(STR("v1"), str_from(kind->name));
}

bool kept_is(const struct kind *kind)
{
    return kind == &kind_pod || kind == &kind_node;
}

/* ---- either form ---- */

/* The whole manifest once more, environments included: kubectl's note to itself. */
static void drop_notes(struct json *tree)
{
    struct json *meta = json_get(tree, "metadata");
    struct json *annotations = json_get(meta, "annotations");

    if (json_remove(annotations, STR("kubectl.kubernetes.io/last-applied-configuration")) &&
        json_count(annotations) == 0)
        (void)json_remove(meta, STR("annotations"));
}

static void trim(const struct type *type, struct json *object)
{
    if (!json_is(object, JSON_OBJECT))
        return;
    for (struct json *member = json_first(object), *next; member; member = next) {
        const struct type_field *field = type_field_named(type, json_key(member));

        next = json_next(member);
        if (!field || !(field->flags & TYPE_KEPT) || json_is_null(member)) {
            (void)json_remove(object, json_key(member));
        } else if (field->form == TYPE_MESSAGE && (field->flags & TYPE_LIST)) {
            JSON_FOREACH(member, item)
                trim(field->type, item);
        } else if (field->form == TYPE_MESSAGE) {
            trim(field->type, member);
        }
    }
}

void kept_trim(const struct kind *kind, struct json *tree)
{
    const struct type *type = type_of(kind);

    for (size_t i = 0; type && i < type->field_count; i++)
        trim(type->fields[i].type, json_get(tree, type->fields[i].name));
    if (type)
        drop_notes(tree);
}

int kept_decode(struct arena *arena,
                const struct kind *kind,
                struct str message,
                struct json **ret,
                struct err *err)
{
    struct json *tree = NULL;
    int r = protobuf_decode(arena, type_of(kind), true, message, &tree, err);

    if (r < 0)
        return err_wrap(err, r, "%s", kind->name);
    drop_notes(tree);
    *ret = tree;
    return 0;
}
