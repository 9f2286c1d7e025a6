#include "hook/conversion.h"

#include "api/admit.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <errno.h>
#include <stddef.h>

#define REVIEW_VERSION "apiextensions.k8s.io/v1"
#define WORDS_MAX      120 /* characters of what the webhook says */

struct str conversion_write(struct arena *arena, const struct conversion *conversion)
{
    char version[KIND_API_VERSION_BYTES];
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < conversion->count; i++)
        json_push(list, object_json(conversion->objects[i], arena));
    return json_text(arena,
                     json_make(arena,
                               "{kind: 'ConversionReview', apiVersion: '" REVIEW_VERSION "', "
                               "request: {uid: $, desiredAPIVersion: $, objects: $}}",
                               conversion->uid,
                               str_dup(arena, kind_api_version(conversion->to, version)), list));
}

/* It is the object that was asked about, in the version that was asked for. */
static int check_identity(const struct kind *to,
                          const struct json *given,
                          const struct json *made,
                          struct err *err)
{
    static const char *const same[] = {"kind", "metadata.name", "metadata.namespace",
                                       "metadata.uid"};
    char version[KIND_API_VERSION_BYTES];
    struct str wanted = kind_api_version(to, version);
    struct str got = json_str(json_get(made, "apiVersion"));

    if (!json_is(made, JSON_OBJECT) || !json_is(json_get(made, "metadata"), JSON_OBJECT))
        return err_set(err, -EINVAL, "it is no object with metadata");
    if (!str_eq(got, wanted))
        return err_set(err, -EINVAL, "invalid groupVersion: expected " STR_FMT ", got " STR_FMT,
                       STR_ARG(wanted), STR_ARG(str_sub(got, 0, 60)));
    for (size_t i = 0; i < COUNT_OF(same); i++)
        if (!str_eq(json_str_at(made, same[i]), json_str_at(given, same[i])))
            return err_set(err, -EINVAL,
                           "must have the same %s: \"" STR_FMT "\" != \"" STR_FMT "\"", same[i],
                           STR_ARG(str_sub(json_str_at(given, same[i]), 0, 60)),
                           STR_ARG(str_sub(json_str_at(made, same[i]), 0, 60)));
    return 0;
}

/* The metadata that it had, with the labels and annotations that it was given. */
static int restore_metadata(struct arena *arena,
                            const struct kind *to,
                            const struct json *given,
                            struct json *made,
                            struct err *err)
{
    static const char *const taken[] = {"labels", "annotations"};
    const struct json *old = json_get(given, "metadata");
    const struct json *new = json_get(made, "metadata");
    struct json *meta = json_clone(arena, old);
    struct admit admit = {.arena = arena, .kind = to, .object = made};
    bool changed = false;

    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        const struct json *value = json_get(new, taken[i]);

        changed |= json_count(value) ? !json_equal(value, json_get(old, taken[i]))
                                     : json_count(json_get(old, taken[i])) > 0;
        if (json_count(value))
            json_set(meta, str_from(taken[i]), json_clone(arena, value));
        else
            json_remove(meta, str_from(taken[i]));
    }
    json_set(made, STR("metadata"), meta);
    if (!changed)
        return 0;
    admit_metadata(&admit);
    if (!admit.causes.count)
        return 0;
    return err_set(err, -EINVAL, STR_FMT ": " STR_FMT, STR_ARG(admit.causes.items[0].field),
                   STR_ARG(str_sub(admit.causes.items[0].message, 0, WORDS_MAX)));
}

static int check_review(const struct json *root, struct str uid, size_t count, struct err *err)
{
    const struct json *response = json_get(root, "response");
    struct str status = json_str_at(response, "result.status");
    struct str message = json_str_at(response, "result.message");

    if (!str_is(json_str(json_get(root, "kind")), "ConversionReview") ||
        !str_is(json_str(json_get(root, "apiVersion")), REVIEW_VERSION))
        return err_set(err, -EINVAL,
                       "expected webhook response of " REVIEW_VERSION
                       ", Kind=ConversionReview, got \"" STR_FMT "\", \"" STR_FMT "\"",
                       STR_ARG(str_sub(json_str(json_get(root, "apiVersion")), 0, 40)),
                       STR_ARG(str_sub(json_str(json_get(root, "kind")), 0, 40)));
    if (!json_is(response, JSON_OBJECT))
        return err_set(err, -EINVAL, "no response provided");
    if (!str_eq(json_str(json_get(response, "uid")), uid))
        return err_set(err, -EINVAL, "expected response.uid=\"" STR_FMT "\"", STR_ARG(uid));
    if (!str_is(status, "Success"))
        return err_set(err, -EINVAL, STR_FMT,
                       STR_ARG(message.len ? str_sub(message, 0, WORDS_MAX)
                                           : STR("it says no Success, and not why")));
    if (json_count(json_get(response, "convertedObjects")) != count)
        return err_set(err, -EINVAL, "returned %zu objects, expected %zu",
                       json_count(json_get(response, "convertedObjects")), count);
    return 0;
}

int conversion_read(struct arena *arena,
                    const struct conversion *conversion,
                    struct str body,
                    struct json **ret,
                    struct err *err)
{
    struct json *root = NULL;

    if (json_parse(arena, body, &root, NULL) < 0)
        return err_set(err, -EINVAL, "its answer is not JSON");
    int r = check_review(root, conversion->uid, conversion->count, err);
    for (size_t i = 0; r == 0 && i < conversion->count; i++) {
        const struct json *given = object_json(conversion->objects[i], arena);
        struct json *made = json_index(json_at(root, "response.convertedObjects"), i);

        r = check_identity(conversion->to, given, made, err);
        if (r == 0)
            r = restore_metadata(arena, conversion->to, given, made, err);
        if (r < 0)
            return err_wrap(err, r, "object %zu of its answer", i + 1);
        ret[i] = made;
    }
    return r;
}
