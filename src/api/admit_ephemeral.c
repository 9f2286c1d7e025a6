#include "api/admit.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

/* Ephemeral containers: added to a pod that is there, through an address of their own, and from
 * then on as fixed as the rest of it. They have no ports, probes or resources: nothing is planned
 * for them. */

#define LIST "spec.ephemeralContainers"

static struct str path_at(struct admit *admit, size_t index, const char *rest)
{
    return str_printf(admit->arena, LIST "[%zu].%s", index, rest);
}

static const struct json *named(const struct json *list, struct str name)
{
    JSON_FOREACH(list, item)
        if (str_eq(json_str(json_get(item, "name")), name))
            return item;
    return NULL;
}

static void check_fields(struct admit *admit, const struct json *container, size_t index)
{
    static const char *const refused[] = {"ports",        "livenessProbe", "readinessProbe",
                                          "startupProbe", "lifecycle",     "restartPolicy",
                                          "resizePolicy"};

    for (size_t i = 0; i < COUNT_OF(refused); i++)
        if (!json_is_null(json_get(container, refused[i])))
            admit_forbidden(admit, path_at(admit, index, refused[i]),
                            "cannot be set for an Ephemeral Container");
    if (json_count(json_get(container, "resources")))
        admit_forbidden(admit, path_at(admit, index, "resources"),
                        "cannot be set for an Ephemeral Container");
    size_t at = 0;
    JSON_FOREACH(json_get(container, "volumeMounts"), mount) {
        if (json_str(json_get(mount, "subPath")).len ||
            json_str(json_get(mount, "subPathExpr")).len)
            admit_forbidden(
                admit, str_printf(admit->arena, LIST "[%zu].volumeMounts[%zu].subPath", index, at),
                "cannot be set for an Ephemeral Container");
        at++;
    }
}

static void check_names(struct admit *admit,
                        const struct json *spec,
                        const struct json *container,
                        size_t index)
{
    const struct json *name = json_get(container, "name");
    const struct json *target = json_get(container, "targetContainerName");

    if (named(json_get(spec, "containers"), json_str(name)) ||
        named(json_get(spec, "initContainers"), json_str(name)))
        admit_duplicate(admit, path_at(admit, index, "name"), name);
    if (json_str(target).len && !named(json_get(spec, "containers"), json_str(target)) &&
        !named(json_get(spec, "initContainers"), json_str(target)))
        admit_not_found(admit, path_at(admit, index, "targetContainerName"), target,
                        "the pod has no container of that name");
}

void admit_ephemeral_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    const struct json *list = json_get(spec, "ephemeralContainers");
    size_t index = 0;

    if (!admit->old && json_count(list)) {
        admit_forbidden(admit, STR(LIST),
                        "cannot be set on create; add them to the pod when it is there, with "
                        "kubectl debug");
        return;
    }
    JSON_FOREACH(list, container) {
        check_fields(admit, container, index);
        check_names(admit, spec, container, index);
        index++;
    }
}

/* The members that say something: what is filled in now was not always. */
static bool is_same(const struct json *now, const struct json *before)
{
    JSON_FOREACH(before, member)
        if (!json_equal(member, json_get_str(now, json_key(member))))
            return false;
    return json_count(now) == json_count(before);
}

void admit_ephemeral_update(struct admit *admit)
{
    const struct json *now = json_at(admit->object, LIST);

    JSON_FOREACH(json_at(admit->old, LIST), before) {
        struct str name = json_str(json_get(before, "name"));
        const struct json *after = named(now, name);

        if (!after)
            admit_forbidden(
                admit, STR(LIST),
                str_c(admit->arena,
                      str_printf(admit->arena,
                                 "existing ephemeral containers \"" STR_FMT "\" may not be removed",
                                 STR_ARG(name))));
        else if (!is_same(after, before))
            admit_forbidden(
                admit, STR(LIST),
                str_c(admit->arena,
                      str_printf(admit->arena,
                                 "existing ephemeral containers \"" STR_FMT "\" may not be changed",
                                 STR_ARG(name))));
    }
}
