#include "api/api.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"
#include "http/server.h"
#include "http/tls.h"
#include "http1/parse.h"
#include "server/aggregate.h"
#include "server/extension.h"
#include "server/request.h"
#include "server/virtual.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Discovery: what can be asked for, in the plain form (one document a group version) and in the
 * aggregated one. Written from the registry of kinds at every request: a CRD shows at once. Behind
 * that is what other API servers serve (server/aggregate.h). */

#define VERBS \
    "[\"create\",\"delete\",\"deletecollection\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]"
#define STORAGE_HASH_BYTES 8 /* as Kubernetes has it */
#define VERBS_STATUS       "[\"get\",\"patch\",\"update\"]"

static void add_quoted(struct buf *buf, const char *text)
{
    json_write_string(buf, str_from(text));
}

/* "po,pods" -> ["po","pods"] */
static void add_words(struct buf *buf, const char *key, const char *words)
{
    struct str rest = str_from(words);
    struct str word;
    const char *separator = "";

    if (!words || !words[0])
        return;
    buf_addf(buf, ",\"%s\":[", key);
    while (str_cut(&rest, ',', &word)) {
        buf_add(buf, str_from(separator));
        json_write_string(buf, word);
        separator = ",";
    }
    buf_addc(buf, ']');
}

/* ---- group versions, each once, in the order of the registry ---- */
static bool kind_in(const struct kind *kind, struct str group, struct str version)
{
    return str_is(group, kind->group) && (!version.p || str_is(version, kind->version));
}

typedef void group_version_fn(void *user, struct str group, struct str version);

static bool is_own(struct request *request, struct str group)
{
    const struct kinds *kinds = request->server->api->kinds;

    for (size_t i = 0; i < kinds_count(kinds); i++)
        if (str_is(group, kinds_at(kinds, i)->group))
            return true;
    return virtual_group(group) != NULL;
}

/* Groups that other API servers serve, and not this one as well. */
static void each_other_group(struct request *request, group_version_fn *fn, void *user)
{
    const struct aggregate *aggregate = request->server->aggregate;
    const struct extension *extension;

    for (size_t at = 0; (extension = aggregate_next(aggregate, &at));) {
        struct str group = extension_spec(extension)->group;
        const struct extension *earlier;
        bool seen = is_own(request, group);

        for (size_t i = 0; (earlier = aggregate_next(aggregate, &i)) && earlier != extension;)
            seen |= str_eq(extension_spec(earlier)->group, group);
        if (!seen)
            fn(user, group, STR_NONE);
    }
}

/* Every group (version STR_NONE), or every version of one group. */
static void each_group(struct request *request, group_version_fn *fn, void *user)
{
    const struct kinds *kinds = request->server->api->kinds;

    for (size_t i = 0; i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);
        bool seen = !kind->group[0];

        for (size_t j = 0; j < i && !seen; j++)
            seen = strcmp(kinds_at(kinds, j)->group, kind->group) == 0;
        if (!seen)
            fn(user, str_from(kind->group), STR_NONE);
    }
    for (size_t i = 0; i < virtual_group_count; i++) {
        bool seen = false;

        for (size_t j = 0; j < kinds_count(kinds) && !seen; j++)
            seen = strcmp(kinds_at(kinds, j)->group, virtual_groups[i].name) == 0;
        if (!seen)
            fn(user, str_from(virtual_groups[i].name), STR_NONE);
    }
    each_other_group(request, fn, user);
}

static void each_version(struct request *request,
                         struct str group,
                         group_version_fn *fn,
                         void *user)
{
    const struct kinds *kinds = request->server->api->kinds;
    bool any = false;

    for (size_t i = 0; i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);
        bool seen = !str_is(group, kind->group);

        for (size_t j = 0; j < i && !seen; j++)
            seen = kind_in(kinds_at(kinds, j), group, str_from(kind->version));
        if (seen)
            continue;
        any = true;
        fn(user, group, str_from(kind->version));
    }
    const struct virtual_group *virtual = virtual_group(group);
    if (!any && virtual)
        fn(user, group, str_from(virtual->version));
    const struct extension *extension;
    for (size_t at = 0; (extension = aggregate_next(request->server->aggregate, &at));)
        if (str_eq(extension_spec(extension)->group, group))
            fn(user, group, extension_spec(extension)->version);
}

/* ---- plain ---- */
static bool has_scale(struct request *request, const struct kind *kind)
{
    return kinds_scale(request->server->api->kinds, kind) != NULL;
}

/* The version in which its objects are kept. */
static const struct kind *storage_of(const struct kinds *kinds, const struct kind *kind)
{
    const struct kind_crd *crd = kinds_crd(kinds, kind);

    if (crd && crd->storage)
        return crd->storage;
    return kind == &kind_event_k8s ? &kind_event : kind == &kind_hpa_v1 ? &kind_hpa : kind;
}

/* Clients that move objects to a newer version see by it that there is one. */
static void add_storage_hash(struct request *request, struct buf *buf, const struct kind *kind)
{
    const struct kind *stored = storage_of(request->server->api->kinds, kind);
    struct str name = str_printf(request_arena(request), "%s/%s/%s", stored->group, stored->version,
                                 stored->name);
    char sum[TLS_SHA256_BYTES];

    tls_sha256(name, sum);
    buf_add(buf, STR(",\"storageVersionHash\":\""));
    tls_base64(buf, (struct str){sum, STORAGE_HASH_BYTES});
    buf_addc(buf, '"');
}

static void add_resource(struct request *request,
                         struct buf *buf,
                         const struct kind *kind,
                         const char **separator)
{
    buf_addf(buf, "%s{\"name\":", *separator);
    add_quoted(buf, kind->plural);
    buf_add(buf, STR(",\"singularName\":"));
    add_quoted(buf, kind->singular);
    buf_addf(buf, ",\"namespaced\":%s,\"kind\":", kind->namespaced ? "true" : "false");
    add_quoted(buf, kind->name);
    buf_add(buf, STR(",\"verbs\":" VERBS));
    add_words(buf, "shortNames", kind->short_names);
    add_words(buf, "categories", kind->categories);
    add_storage_hash(request, buf, kind);
    buf_addc(buf, '}');
    *separator = ",";
    if (kind->status)
        buf_addf(buf,
                 ",{\"name\":\"%s/status\",\"singularName\":\"\",\"namespaced\":%s,\"kind\":\"%s\","
                 "\"verbs\":" VERBS_STATUS "}",
                 kind->plural, kind->namespaced ? "true" : "false", kind->name);
    if (has_scale(request, kind))
        buf_addf(buf,
                 ",{\"name\":\"%s/scale\",\"singularName\":\"\",\"namespaced\":%s,\"group\":"
                 "\"autoscaling\",\"version\":\"v1\",\"kind\":\"Scale\",\"verbs\":" VERBS_STATUS
                 "}",
                 kind->plural, kind->namespaced ? "true" : "false");
    for (size_t i = 0; i < virtual_subresource_count; i++) {
        const struct virtual_subresource *sub = &virtual_subresources[i];

        if (!virtual_applies(sub, kind))
            continue;
        buf_addf(buf, ",{\"name\":\"%s/%s\",\"singularName\":\"\",\"namespaced\":%s,", kind->plural,
                 sub->name, kind->namespaced ? "true" : "false");
        if (sub->group)
            buf_addf(buf, "\"group\":\"%s\",\"version\":\"%s\",", sub->group, sub->version);
        buf_addf(buf, "\"kind\":\"%s\",\"verbs\":[%s]}", sub->kind ? sub->kind : kind->name,
                 sub->verbs);
    }
}

void discovery_group_version(struct request *request)
{
    const struct kinds *kinds = request->server->api->kinds;
    _cleanup_(buf_done) struct buf buf = {0};
    const char *separator = "";
    bool found = false;
    struct str group = request->route.group;
    struct str version = request->route.version;

    buf_addf(&buf,
             "{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"groupVersion\":\"" STR_FMT
             "%s" STR_FMT "\",\"resources\":[",
             STR_ARG(group), group.len ? "/" : "", STR_ARG(version));
    for (size_t i = 0; i < kinds_count(kinds); i++) {
        if (!kind_in(kinds_at(kinds, i), group, version))
            continue;
        found = true;
        add_resource(request, &buf, kinds_at(kinds, i), &separator);
    }
    for (size_t i = 0; i < virtual_kind_count; i++) {
        const struct virtual_kind *virtual = &virtual_kinds[i];

        if (!str_is(group, virtual->group) || !str_is(version, virtual->version))
            continue;
        found = true;
        buf_addf(&buf,
                 "%s{\"name\":\"%s\",\"singularName\":\"%s\",\"namespaced\":%s,\"kind\":\"%s\","
                 "\"verbs\":[%s]}",
                 separator, virtual->plural, virtual->singular,
                 virtual->namespaced ? "true" : "false", virtual->kind, virtual->verbs);
        separator = ",";
    }
    if (!found) {
        request_not_found(request);
        return;
    }
    buf_add(&buf, STR("]}\n"));
    http_reply(request->x, 200, "application/json", buf_str(&buf));
}

struct plain {
    struct request *request;
    struct buf *buf;
    const char *separator;
    struct str first;
};

static void plain_version(void *user, struct str group, struct str version)
{
    struct plain *plain = user;

    if (!plain->first.p)
        plain->first = version;
    buf_addf(plain->buf,
             "%s{\"groupVersion\":\"" STR_FMT "/" STR_FMT "\",\"version\":\"" STR_FMT "\"}",
             plain->separator, STR_ARG(group), STR_ARG(version), STR_ARG(version));
    plain->separator = ",";
}

static void write_group(struct request *request, struct buf *buf, struct str group)
{
    struct plain plain = {.request = request, .buf = buf, .separator = ""};

    buf_addf(buf, "\"name\":\"" STR_FMT "\",\"versions\":[", STR_ARG(group));
    each_version(request, group, plain_version, &plain);
    buf_addf(buf,
             "],\"preferredVersion\":{\"groupVersion\":\"" STR_FMT "/" STR_FMT
             "\",\"version\":\"" STR_FMT "\"}}",
             STR_ARG(group), STR_ARG(plain.first), STR_ARG(plain.first));
}

static void plain_group(void *user, struct str group, struct str version)
{
    struct plain *plain = user;

    (void)version;
    buf_addf(plain->buf, "%s{", plain->separator);
    plain->separator = ",";
    write_group(plain->request, plain->buf, group);
}

static void count_version(void *user, struct str group, struct str version)
{
    (void)group;
    (void)version;
    ++*(size_t *)user;
}

void discovery_group(struct request *request)
{
    _cleanup_(buf_done) struct buf buf = {0};
    size_t versions = 0;

    each_version(request, request->route.group, count_version, &versions);
    if (!versions || !request->route.group.len) {
        request_not_found(request);
        return;
    }
    buf_add(&buf, STR("{\"kind\":\"APIGroup\",\"apiVersion\":\"v1\","));
    write_group(request, &buf, request->route.group);
    buf_addc(&buf, '\n');
    http_reply(request->x, 200, "application/json", buf_str(&buf));
}

/* ---- aggregated ---- */
#define AGGREGATED_TYPE "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

static bool wants_aggregated(const struct request *request)
{
    return str_contains(http_head_get(&request->x->head, "Accept"),
                        STR("g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
}

static void add_response_kind(struct buf *buf,
                              const char *group,
                              const char *version,
                              const char *kind)
{
    buf_addf(buf, "\"responseKind\":{\"group\":\"%s\",\"version\":\"%s\",\"kind\":\"%s\"}", group,
             version, kind);
}

static void add_subresources(struct request *request, struct buf *buf, const struct kind *kind)
{
    const char *separator = "";

    buf_add(buf, STR(",\"subresources\":["));
    if (kind->status) {
        buf_add(buf, STR("{\"subresource\":\"status\","));
        add_response_kind(buf, kind->group, kind->version, kind->name);
        buf_add(buf, STR(",\"verbs\":" VERBS_STATUS "}"));
        separator = ",";
    }
    if (has_scale(request, kind)) {
        buf_addf(buf, "%s{\"subresource\":\"scale\",", separator);
        add_response_kind(buf, "autoscaling", "v1", "Scale");
        buf_add(buf, STR(",\"verbs\":" VERBS_STATUS "}"));
        separator = ",";
    }
    for (size_t i = 0; i < virtual_subresource_count; i++) {
        const struct virtual_subresource *sub = &virtual_subresources[i];

        if (!virtual_applies(sub, kind))
            continue;
        buf_addf(buf, "%s{\"subresource\":\"%s\",", separator, sub->name);
        add_response_kind(buf, sub->group ? sub->group : kind->group,
                          sub->group ? sub->version : kind->version,
                          sub->kind ? sub->kind : kind->name);
        buf_addf(buf, ",\"verbs\":[%s]}", sub->verbs);
        separator = ",";
    }
    buf_addc(buf, ']');
}

/* One that another API server serves, as it told last; false: it is none. */
static bool other_version(struct plain *plain, struct str group, struct str version)
{
    const struct extension *extension =
        aggregate_find(plain->request->server->aggregate, group, version);

    if (!extension)
        return false;
    buf_addf(plain->buf,
             "%s{\"version\":\"" STR_FMT "\",\"freshness\":\"%s\",\"resources\":" STR_FMT "}",
             plain->separator, STR_ARG(version),
             extension_is_available(extension) ? "Current" : "Stale",
             STR_ARG(extension_serves(extension)));
    plain->separator = ",";
    return true;
}

static void aggregated_version(void *user, struct str group, struct str version)
{
    struct plain *plain = user;
    const struct kinds *kinds = plain->request->server->api->kinds;
    struct buf *buf = plain->buf;
    const char *separator = "";

    if (other_version(plain, group, version))
        return;
    buf_addf(buf, "%s{\"version\":\"" STR_FMT "\",\"freshness\":\"Current\",\"resources\":[",
             plain->separator, STR_ARG(version));
    plain->separator = ",";
    for (size_t i = 0; i < kinds_count(kinds); i++) {
        const struct kind *kind = kinds_at(kinds, i);

        if (!kind_in(kind, group, version))
            continue;
        buf_addf(buf, "%s{\"resource\":\"%s\",", separator, kind->plural);
        add_response_kind(buf, kind->group, kind->version, kind->name);
        buf_addf(buf, ",\"scope\":\"%s\",\"singularResource\":\"%s\",\"verbs\":" VERBS,
                 kind->namespaced ? "Namespaced" : "Cluster", kind->singular);
        add_words(buf, "shortNames", kind->short_names);
        add_words(buf, "categories", kind->categories);
        add_subresources(plain->request, buf, kind);
        buf_addc(buf, '}');
        separator = ",";
    }
    for (size_t i = 0; i < virtual_kind_count; i++) {
        const struct virtual_kind *virtual = &virtual_kinds[i];

        if (!str_is(group, virtual->group) || !str_is(version, virtual->version))
            continue;
        buf_addf(buf, "%s{\"resource\":\"%s\",", separator, virtual->plural);
        add_response_kind(buf, virtual->group, virtual->version, virtual->kind);
        buf_addf(buf, ",\"scope\":\"%s\",\"singularResource\":\"%s\",\"verbs\":[%s]}",
                 virtual->namespaced ? "Namespaced" : "Cluster", virtual->singular, virtual->verbs);
        separator = ",";
    }
    buf_add(buf, STR("]}"));
}

static void aggregated_group(void *user, struct str group, struct str version)
{
    struct plain *plain = user;
    struct plain inner = {.request = plain->request, .buf = plain->buf, .separator = ""};

    (void)version;
    buf_addf(plain->buf, "%s{\"metadata\":{", plain->separator);
    plain->separator = ",";
    if (group.len)
        buf_addf(plain->buf, "\"name\":\"" STR_FMT "\"", STR_ARG(group));
    buf_add(plain->buf, STR("},\"versions\":["));
    each_version(plain->request, group, aggregated_version, &inner);
    buf_add(plain->buf, STR("]}"));
}

static void aggregated(struct request *request, bool core)
{
    _cleanup_(buf_done) struct buf buf = {0};
    struct plain plain = {.request = request, .buf = &buf, .separator = ""};

    buf_add(&buf, STR("{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":"
                      "\"apidiscovery.k8s.io/v2\",\"metadata\":{},\"items\":["));
    if (core)
        aggregated_group(&plain, STR(""), STR_NONE);
    else
        each_group(request, aggregated_group, &plain);
    buf_add(&buf, STR("]}\n"));
    http_reply(request->x, 200, AGGREGATED_TYPE, buf_str(&buf));
}

void discovery_api(struct request *request)
{
    if (wants_aggregated(request)) {
        aggregated(request, true);
        return;
    }
    http_reply(request->x, 200, "application/json",
               STR("{\"kind\":\"APIVersions\",\"versions\":[\"v1\"],"
                   "\"serverAddressByClientCIDRs\":[]}\n"));
}

void discovery_apis(struct request *request)
{
    _cleanup_(buf_done) struct buf buf = {0};
    struct plain plain = {.request = request, .buf = &buf, .separator = ""};

    if (wants_aggregated(request)) {
        aggregated(request, false);
        return;
    }
    buf_add(&buf, STR("{\"kind\":\"APIGroupList\",\"apiVersion\":\"v1\",\"groups\":["));
    each_group(request, plain_group, &plain);
    buf_add(&buf, STR("]}\n"));
    http_reply(request->x, 200, "application/json", buf_str(&buf));
}

void version_get(struct request *request)
{
    bool modified = str_ends(str_from(muster_build), STR(".modified"));

    http_reply(request->x, 200, "application/json",
               str_printf(request_arena(request),
                          "{\"major\":\"1\",\"minor\":\"32\",\"gitVersion\":\"v1.32.0+"
                          "muster-" MUSTER_VERSION "\",\"gitCommit\":\"%s\",\"gitTreeState\":"
                          "\"%s\",\"buildDate\":\"1970-01-01T00:00:00Z\",\"goVersion\":"
                          "\"none\",\"compiler\":\"gcc\",\"platform\":\"linux\"}\n",
                          muster_build, modified ? "dirty" : "clean"));
}
