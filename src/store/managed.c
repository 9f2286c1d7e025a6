#include "store/managed.h"

#include "api/apply.h"
#include "api/kind.h"
#include "base/json.h"
#include "base/str.h"
#include "store/host.h"
#include "store/reply.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>

/* managedFields: who owns which fields of an object; api/apply.h decides. */

struct apply apply_for(const struct write *write, bool force)
{
    const struct kind_crd *crd = kinds_crd(write->store->api.kinds, write->kind);

    return (struct apply){.arena = write->arena,
                          .kind = write->kind,
                          .schema = crd ? crd->schema : NULL,
                          .manager = write->field_manager,
                          .subresource = write->owned_part,
                          .force = force,
                          .now_ms = store_now(write->store)};
}

int apply_too_large(struct write *write)
{
    return reply_fail(
        write->reply, 413, "RequestEntityTooLarge",
        "%s \"" STR_FMT
        "\": to work out who owns which of its fields takes more than %zu bytes, or a "
        "list has more than %d items; apply fewer fields, or use another kind of patch",
        write->kind->name, STR_ARG(write->name), APPLY_BYTES_MAX, JSON_MEMBERS_MAX);
}

int apply_create(struct write *write, const struct json *root)
{
    struct apply apply = apply_for(write, false);

    if (write->managed || !write->field_manager.len)
        return 0;
    write->managed = apply_created(&apply, root);
    return apply.too_large ? apply_too_large(write) : 0;
}

int apply_update(struct write *write, const struct json *old, struct json *root)
{
    struct apply apply = apply_for(write, false);
    struct json *meta = json_get(root, "metadata");
    const struct json *before = json_at(old, "metadata.managedFields");
    const struct json *given = json_get(meta, "managedFields");
    struct json *managed = NULL;

    if (write->managed) {
        managed = write->managed;
    } else if (json_is(given, JSON_ARRAY) && !json_equal(given, before)) {
        /* A client that edits the list itself means it; [{}] is Kubernetes' way to say none. */
        if (json_count(json_index(given, 0)))
            return 0;
    } else {
        managed = apply_track(&apply, old, root);
        if (apply.too_large)
            return apply_too_large(write);
    }
    if (managed)
        json_set(meta, STR("managedFields"), managed);
    else
        json_remove(meta, STR("managedFields"));
    return 0;
}
