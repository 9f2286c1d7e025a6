#include "control/core/owner.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/json_names.h"
#include "base/str.h"

void owner_set(struct arena *arena, struct json *meta, const struct object *owner)
{
    struct json *entry =
        json_push(json_add_array(arena, meta, "ownerReferences"), json_new_object(arena));
    char version[KIND_API_VERSION_BYTES];

    json_fill(arena, entry,
              "{apiVersion: $, kind: $, name: $, uid: $, controller: true, "
              "blockOwnerDeletion: true}",
              str_dup(arena, kind_api_version(owner->kind, version)), owner->kind->name,
              str_dup(arena, owner->name), str_dup(arena, owner->uid));
}

struct json *owner_make(struct arena *arena,
                        const struct object *owner,
                        const struct kind *kind,
                        struct str name)
{
    struct json *body = json_new_object(arena);
    char version[KIND_API_VERSION_BYTES];

    json_add_str(arena, body, "apiVersion", str_dup(arena, kind_api_version(kind, version)));
    json_add_c(arena, body, "kind", kind->name);
    struct json *meta = json_add_object(arena, body, "metadata");
    json_add_str(arena, meta, "name", str_dup(arena, name));
    json_add_str(arena, meta, "namespace", str_dup(arena, owner->ns));
    owner_set(arena, meta, owner);
    return body;
}

void owner_merge_map(struct arena *arena, struct json *to, const struct json *from)
{
    json_names_copy(arena, to, from);
}
