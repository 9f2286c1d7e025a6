#include "server/openapi.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/aggregate.h"
#include "server/extension.h"
#include "server/request.h"
#include "server/virtual.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The OpenAPI endpoints. Documents are made when asked for; clients keep them by ETag (version 2)
 * and by the hash in their address (version 3). */

#define V2_TYPE "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

/* Names the state of all documents, of this program and its kinds. */
static struct str version_tag(struct request *request)
{
    uint64_t hash = openapi_version(request->server->api);

    return str_printf(request_arena(request), "\"%016llX\"", (unsigned long long)hash);
}

/* True when the client has this state already and was told so. */
static bool unchanged(struct request *request, struct str tag)
{
    http_header(request->x, "ETag", tag);
    http_header(request->x, "Vary", STR("Accept"));
    if (!http_token_in(http_head_get(&request->x->head, "If-None-Match"),
                       str_c(request_arena(request), tag)))
        return false;
    http_reply(request->x, 304, NULL, STR(""));
    return true;
}

void openapi_v2(struct request *request)
{
    struct arena *arena = request_arena(request);
    _cleanup_(buf_done) struct buf buf = {0};

    struct json *schemas = NULL;
    bool binary =
        str_contains(http_head_get(&request->x->head, "Accept"), STR("proto-openapi.spec.v2"));

    if (unchanged(request, version_tag(request)))
        return;
    schemas = openapi_schemas(request->server->api, arena, STR_NONE, STR_NONE, true);
    if (!binary) {
        http_reply(request->x, 200, "application/json",
                   json_text(arena, openapi_json_v2(arena, request->server->api, schemas)));
        return;
    }
    openapi_write_v2(&buf, arena, request->server->api, schemas);
    http_reply(request->x, 200, V2_TYPE, buf_str(&buf));
}

/* The documents of other API servers, which are asked for there (server/aggregate.h). Their names are
 * mixed into `hash`. */
static uint64_t add_others(struct request *request, struct json *paths, uint64_t hash)
{
    struct arena *arena = request_arena(request);
    const struct extension *extension;

    for (size_t at = 0; (extension = aggregate_next(request->server->aggregate, &at));) {
        const struct extension_spec *spec = extension_spec(extension);
        struct str url = str_dup(arena, extension_openapi(extension));

        if (!url.len)
            continue;
        json_set(paths,
                 str_printf(arena, "apis/" STR_FMT "/" STR_FMT, STR_ARG(spec->group),
                            STR_ARG(spec->version)),
                 json_make(arena, "{serverRelativeURL: $}", url));
        for (size_t i = 0; i < url.len; i++) /* FNV-1a */
            hash = (hash ^ (unsigned char)url.p[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* One for each group and version. */
static void add_document(struct arena *arena,
                         struct json *paths,
                         struct str tag,
                         const char *group,
                         const char *version)
{
    struct str path = group[0] ? str_printf(arena, "apis/%s/%s", group, version)
                               : str_printf(arena, "api/%s", version);

    if (json_get_str(paths, path))
        return;
    struct json *item = json_set(paths, path, json_new_object(arena));
    json_add_str(arena, item, "serverRelativeURL",
                 str_printf(arena, "/openapi/v3/" STR_FMT "?hash=" STR_FMT, STR_ARG(path),
                            STR_ARG(str_sub(tag, 1, tag.len - 2))));
}

void openapi_v3(struct request *request)
{
    const struct kinds *kinds = request->server->api->kinds;
    struct arena *arena = request_arena(request);
    struct json *root = json_new_object(arena);
    struct json *paths = json_add_object(arena, root, "paths");
    struct str tag = version_tag(request);
    uint64_t all = add_others(request, paths, openapi_version(request->server->api));

    if (unchanged(request, str_printf(arena, "\"%016llX\"", (unsigned long long)all)))
        return;
    for (size_t i = 0; i < kinds_count(kinds); i++)
        add_document(arena, paths, tag, kinds_at(kinds, i)->group, kinds_at(kinds, i)->version);
    for (size_t i = 0; i < virtual_kind_count; i++)
        if (type_named(str_printf(arena, "%s/%s", virtual_kinds[i].group, virtual_kinds[i].version),
                       str_from(virtual_kinds[i].kind)))
            add_document(arena, paths, tag, virtual_kinds[i].group, virtual_kinds[i].version);
    http_reply(request->x, 200, "application/json", json_text(arena, root));
}

/* ---- one document ---- */
static void add_operation(struct arena *arena,
                          struct json *path,
                          const char *method,
                          const struct kind *kind)
{
    static const char *const names[] = {"dryRun", "fieldManager", "fieldValidation", NULL};
    struct json *operation = json_add_object(arena, path, method);

    if (!str_is(str_from(method), "get")) {
        struct json *parameters = json_add_array(arena, operation, "parameters");

        for (size_t i = 0; names[i]; i++) {
            json_push(
                parameters,
                json_make(arena, "{name: $, in: 'query', schema: {type: 'string'}}", names[i]));
        }
    }
    json_fill(arena, operation,
              "{responses: {}, x-kubernetes-group-version-kind: {group: $, "
              "version: $, kind: $}}",
              kind->group, kind->version, kind->name);
}

static void add_paths(struct arena *arena, struct json *paths, const struct kind *kind)
{
    struct str root = kind->group[0] ? str_printf(arena, "/apis/%s/%s", kind->group, kind->version)
                                     : str_printf(arena, "/api/%s", kind->version);
    struct str list = str_printf(arena, STR_FMT "%s/%s", STR_ARG(root),
                                 kind->namespaced ? "/namespaces/{namespace}" : "", kind->plural);
    struct str one = str_printf(arena, STR_FMT "/{name}", STR_ARG(list));
    struct json *collection = json_set(paths, list, json_new_object(arena));
    struct json *item = json_set(paths, one, json_new_object(arena));

    add_operation(arena, collection, "get", kind);
    add_operation(arena, collection, "post", kind);
    add_operation(arena, item, "get", kind);
    add_operation(arena, item, "put", kind);
    add_operation(arena, item, "patch", kind);
    add_operation(arena, item, "delete", kind);
}

void openapi_document(struct request *request)
{
    const struct kinds *kinds = request->server->api->kinds;
    struct arena *arena = request_arena(request);
    struct json *root = json_new_object(arena);

    if (unchanged(request, version_tag(request)))
        return;
    json_fill(arena, root, "{openapi: '3.0.0', info: {title: 'Muster', version: $}}",
              MUSTER_VERSION);
    struct json *paths = json_add_object(arena, root, "paths");
    for (size_t i = 0; i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);

        if (!str_is(request->route.group, kind->group) ||
            !str_is(request->route.version, kind->version))
            continue;
        add_paths(arena, paths, kind);
    }
    struct json *schemas = openapi_schemas(request->server->api, arena, request->route.group,
                                           request->route.version, false);
    if (!json_count(schemas)) {
        request_not_found(request);
        return;
    }
    json_set(json_add_object(arena, root, "components"), STR("schemas"), schemas);
    http_reply(request->x, 200, "application/json", json_text(arena, root));
}
