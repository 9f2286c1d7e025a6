#include "server/extension.h"

#include "api/api.h"
#include "api/condition.h"
#include "api/service_find.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTPS_PORT    443
#define RESOURCES_MAX 1000 /* of one version; all of Kubernetes' are some 60 */

bool extension_read(struct arena *arena, const struct json *root, struct extension_spec *ret)
{
    const struct json *spec = json_get(root, "spec");
    const struct json *service = json_get(spec, "service");
    struct str ca = STR("");

    if (!json_is(service, JSON_OBJECT))
        return false;
    (void)base64_decode(arena, json_str(json_get(spec, "caBundle")), &ca);
    *ret = (struct extension_spec){
        .group = json_str(json_get(spec, "group")),
        .version = json_str(json_get(spec, "version")),
        .ns = json_str(json_get(service, "namespace")),
        .service = json_str(json_get(service, "name")),
        .port = json_i64_or(json_get(service, "port"), HTTPS_PORT),
        .ca = ca,
        .insecure = json_bool_or(json_get(spec, "insecureSkipTLSVerify"), false),
        .group_priority = json_i64_or(json_get(spec, "groupPriorityMinimum"), 0),
        .version_priority = json_i64_or(json_get(spec, "versionPriority"), 0),
    };
    return true;
}

int extension_compare(const struct extension_spec *a, const struct extension_spec *b)
{
    if (a->group_priority != b->group_priority)
        return a->group_priority > b->group_priority ? -1 : 1;
    int order = str_cmp(a->group, b->group);
    if (order)
        return order;
    if (a->version_priority != b->version_priority)
        return a->version_priority > b->version_priority ? -1 : 1;
    return str_cmp(a->version, b->version);
}

/* ---- whether it can be reached ---- */

struct condition extension_passes(void)
{
    return (struct condition){"Available", "True", "Passed", STR("all checks passed")};
}

struct condition extension_fails(struct str message)
{
    return (struct condition){"Available", "False", "FailedDiscoveryCheck", message};
}

struct condition extension_lacks(struct arena *arena,
                                 const struct extension_spec *spec,
                                 const struct service_place *place)
{
    struct condition condition = {"Available", "False", NULL, STR_NONE};
    struct str where = str_printf(arena, "service/" STR_FMT " in \"" STR_FMT "\"",
                                  STR_ARG(spec->service), STR_ARG(spec->ns));

    if (place->lack == SERVICE_LACKS_ITSELF) {
        condition.reason = "ServiceNotFound";
        condition.message = str_printf(arena, STR_FMT " is not present", STR_ARG(where));
    } else if (place->lack == SERVICE_LACKS_PORT) {
        condition.reason = "ServicePortError";
        condition.message = str_printf(arena, STR_FMT " is not listening on port %lld",
                                       STR_ARG(where), (long long)spec->port);
    } else if (place->lack == SERVICE_LACKS_ADDRESSES) {
        condition.reason = "MissingEndpoints";
        condition.message = str_printf(
            arena, "endpoints for " STR_FMT " have no addresses with port name \"" STR_FMT "\"",
            STR_ARG(where), STR_ARG(place->port_name));
    } else {
        const struct err *why = place->result ? place->result->err : NULL;

        condition.status = "Unknown";
        condition.reason = "ServiceAccessError";
        condition.message = str_printf(arena, STR_FMT " cannot be checked due to: %s",
                                       STR_ARG(where), why ? why->text : "no answer");
    }
    return condition;
}

/* ---- what it serves ---- */

static struct json *response_kind(struct arena *arena,
                                  const struct extension_spec *spec,
                                  const struct json *resource)
{
    struct str group = json_str(json_get(resource, "group"));
    struct str version = json_str(json_get(resource, "version"));

    return json_make(arena, "{group: $, version: $, kind: $}", version.len ? group : spec->group,
                     version.len ? version : spec->version, json_str(json_get(resource, "kind")));
}

static struct json *words(struct arena *arena, const struct json *list)
{
    struct json *array = json_new_array(arena);

    JSON_FOREACH(list, word)
        if (json_is(word, JSON_STRING))
            json_push(array, json_new_str(arena, json_str(word)));
    return array;
}

static void add_subresources(struct arena *arena,
                             const struct extension_spec *spec,
                             const struct json *list,
                             struct json *item)
{
    struct str of = json_str(json_get(item, "resource"));

    JSON_FOREACH(list, resource) {
        struct str name = json_str(json_get(resource, "name"));
        size_t slash = str_find(name, '/');

        if (slash == name.len || !str_eq(str_sub(name, 0, slash), of))
            continue;
        struct json *subs = json_get(item, "subresources");
        if (!subs)
            subs = json_add_array(arena, item, "subresources");
        json_push(subs, json_make(arena, "{subresource: $, responseKind: $, verbs: $}",
                                  str_sub(name, slash + 1, name.len),
                                  response_kind(arena, spec, resource),
                                  words(arena, json_get(resource, "verbs"))));
    }
}

bool extension_resources(struct arena *arena,
                         const struct extension_spec *spec,
                         struct str list,
                         struct buf *out)
{
    static const char *const lists[] = {"shortNames", "categories"};
    struct json *root = NULL;
    struct json *items = json_new_array(arena);

    if (json_parse(arena, list, &root, NULL) < 0 ||
        !str_is(json_str(json_get(root, "kind")), "APIResourceList"))
        return false;
    const struct json *resources = json_get(root, "resources");
    if (json_count(resources) > RESOURCES_MAX)
        return false;
    JSON_FOREACH(resources, resource) {
        struct str name = json_str(json_get(resource, "name"));

        if (!name.len || str_find(name, '/') < name.len)
            continue;
        bool namespaced = json_bool_or(json_get(resource, "namespaced"), false);
        struct json *item = json_make(
            arena, "{resource: $, responseKind: $, scope: $, singularResource: $, verbs: $}", name,
            response_kind(arena, spec, resource), namespaced ? "Namespaced" : "Cluster",
            json_str(json_get(resource, "singularName")),
            words(arena, json_get(resource, "verbs")));
        for (size_t i = 0; i < COUNT_OF(lists); i++)
            if (json_count(json_get(resource, lists[i])))
                json_set(item, str_from(lists[i]), words(arena, json_get(resource, lists[i])));
        add_subresources(arena, spec, resources, item);
        json_push(items, item);
    }
    buf_add(out, json_text(arena, items));
    return true;
}

struct str extension_document(struct arena *arena,
                              const struct extension_spec *spec,
                              struct str index)
{
    struct json *root = NULL;
    struct str path = str_printf(arena, "apis/" STR_FMT "/" STR_FMT, STR_ARG(spec->group),
                                 STR_ARG(spec->version));

    if (json_parse(arena, index, &root, NULL) < 0)
        return STR("");
    struct str url =
        json_str(json_get(json_get_str(json_get(root, "paths"), path), "serverRelativeURL"));
    struct str place = str_sub(url, 0, str_find(url, '?'));
    return str_eq(place, str_printf(arena, "/openapi/v3/" STR_FMT, STR_ARG(path))) ? url : STR("");
}
