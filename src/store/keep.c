#include "store/keep.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>

static void key_carry(struct arena *arena,
                      struct json *to,
                      const struct json *from,
                      const char *key)
{
    const struct json *value = json_get(from, key);

    if (value)
        json_set(to, str_from(key), json_clone(arena, value));
    else
        json_remove(to, str_from(key));
}

/* Who writes a status, or approves, may annotate as well. Labels are another matter: selectors and
 * queues go by them. */
static void notes_carry(struct write *write, struct json *merged, const struct json *root)
{
    key_carry(write->arena, json_get(merged, "metadata"), json_get(root, "metadata"),
              "annotations");
}

struct json *keep_old(struct write *write, struct json *root, const struct json *old)
{
    static const char *const kept[] = {"name",
                                       "namespace",
                                       "uid",
                                       "generation",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "selfLink",
                                       "deletionGracePeriodSeconds"};
    bool status_only = str_is(write->subresource, "status");
    struct json *meta = json_get(root, "metadata");
    const struct json *old_meta = json_get(old, "metadata");

    if (status_only) {
        struct json *merged = json_clone(write->arena, old);

        key_carry(write->arena, merged, root, "status");
        if (!write->kind->custom)
            notes_carry(write, merged, root);
        return merged;
    }
    if (str_is(write->subresource, "ephemeralcontainers")) {
        struct json *merged = json_clone(write->arena, old);

        key_carry(write->arena, json_get(merged, "spec"), json_get(root, "spec"),
                  "ephemeralContainers");
        return merged;
    }
    if (str_is(write->subresource, "approval")) {
        struct json *merged = json_clone(write->arena, old);

        key_carry(write->arena, json_make_path(write->arena, merged, "status"),
                  json_get(root, "status"), "conditions");
        notes_carry(write, merged, root);
        return merged;
    }
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        key_carry(write->arena, meta, old_meta, kept[i]);
    if (write->kind == &kind_csr) /* what is asked for is what was approved */
        key_carry(write->arena, root, old, "spec");
    if (write->kind->status)
        key_carry(write->arena, root, old, "status");
    return root;
}

void keep_no_status(const struct write *write, struct json *root)
{
    if (write->kind->status && write->kind != &kind_node)
        json_remove(root, STR("status"));
}

void keep_reviewed(struct write *write, struct json *object, const struct json *old)
{
    if (!old) {
        keep_no_status(write, object);
        return;
    }
    struct json *kept = keep_old(write, object, old);
    if (kept == object)
        return;
    while (json_first(object))
        json_remove(object, json_key(json_first(object)));
    JSON_FOREACH(kept, member)
        json_set(object, json_key(member), json_clone(write->arena, member));
}
