#include "store/patch.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/patch.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "store/apply.h"
#include "store/reply.h"
#include "store/write.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* An object is changed, and not exchanged: Kubernetes has no way to patch the root. */
static int replaces_all(const struct json *operations, struct err *err)
{
    JSON_FOREACH(operations, operation)
        if (json_is(json_get(operation, "path"), JSON_STRING) &&
            !json_str(json_get(operation, "path")).len &&
            !str_is(json_str(json_get(operation, "op")), "test"))
            return err_set(err, -ENOENT, "JSON patch: path \"\" would replace the whole object");
    return 0;
}

static bool are_operations(const struct json *patch)
{
    JSON_FOREACH(patch, operation)
        if (!json_is(operation, JSON_OBJECT))
            return false;
    return json_is(patch, JSON_ARRAY);
}

/* The address says what it is: a strategic merge goes into a type, which has no name of its own. */
static void keep_type(struct write *write, struct json *target)
{
    static const char *const words[] = {"kind", "apiVersion"};
    char version[KIND_API_VERSION_BYTES];

    for (size_t i = 0; i < 2; i++) {
        const struct json *said = json_get(target, words[i]);

        if (!json_is_null(said) && !json_is(said, JSON_STRING))
            return; /* it has to be a text all the same */
    }
    json_add_c(write->arena, target, "kind", write->kind->name);
    json_add_str(write->arena, target, "apiVersion",
                 str_dup(write->arena, kind_api_version(write->kind, version)));
}

static int object_patched(struct write *write,
                          const struct api_request *request,
                          const struct json *patch,
                          struct json **ret)
{
    struct json *target = write_tree(write);
    struct err err = {0};
    int r = 0;

    switch (request->patch) {
    case API_PATCH_APPLY: break; /* apply_write() */
    case API_PATCH_MERGE:
        if (!json_is(patch, JSON_OBJECT))
            return reply_fail(write->reply, 400, "BadRequest", "a merge patch must be an object");
        *ret = patch_merge(write->arena, target, patch);
        return 0;
    case API_PATCH_JSON:
        r = replaces_all(patch, &err);
        if (r == 0)
            r = patch_json(write->arena, target, patch, ret, &err);
        break;
    case API_PATCH_STRATEGIC:
        if (!write->kind->strategic)
            return reply_fail(write->reply, 415, "UnsupportedMediaType",
                              "the body of the request was in an unknown format - accepted media "
                              "types include: application/json-patch+json, "
                              "application/merge-patch+json, application/apply-patch+yaml");
        *ret = target;
        if (!json_is_null(patch))
            r = patch_strategic(write->arena, write->kind, target, patch, &err);
        keep_type(write, target);
        break;
    }
    if (r == -EILSEQ || r == -ENOENT ||
        (r == -EINVAL && request->patch == API_PATCH_JSON && are_operations(patch)))
        return reply_fail(write->reply, 422, "Invalid",
                          "the server rejected our request due to an error in our request: %s",
                          err.text);
    if (r == -E2BIG)
        return write_too_large(write, &err);
    return r < 0 ? reply_fail(write->reply, 400, "BadRequest", "%s", err.text) : 0;
}

int write_patch(struct write *write, const struct api_request *request)
{
    struct json *patch = NULL;
    struct json *root = NULL;
    int r = write_parse(write, request->body, false, &patch);

    if (r < 0)
        return r;
    if (request->patch == API_PATCH_APPLY) {
        if (json_is(patch, JSON_OBJECT) && (!json_str(json_get(patch, "kind")).len ||
                                            !json_str(json_get(patch, "apiVersion")).len))
            return reply_fail(write->reply, 400, "BadRequest",
                              "what is applied must say its apiVersion and kind: %s",
                              write->kind->name);
        r = write_check_type(write, patch);
        return r < 0 ? r : apply_write(write, request, patch);
    }
    if (!write->old)
        return reply_not_found(write->reply, write->kind, write->name);
    if (request->uid.len && !str_eq(request->uid, write->old->uid))
        return reply_fail(write->reply, 409, "Conflict",
                          "Operation cannot be fulfilled on %s \"" STR_FMT
                          "\": it is another object of that name now",
                          write->kind->plural, STR_ARG(write->name));
    r = object_patched(write, request, patch, &root);
    if (r < 0)
        return r;
    write->patched = true;
    write->merged = request->patch == API_PATCH_STRATEGIC;
    write->unversioned = write_is_unversioned(write, root);
    if (write_check_type(write, root) < 0)
        return reply_patch(write->reply);
    if (!json_str_at(root, "metadata.name").len)
        return write_nameless(write);
    return write_replace(write, root);
}
