#include "api/api.h"
#include "api/kind.h"
#include "api/names.h"
#include "api/object.h"
#include "api/protobuf.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/yaml.h"
#include "control/core/group_name.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/request.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Objects: an HTTP request becomes one struct api call, and its result the answer. */

/* A list is of the newest state there is. Whoever has seen a newer one must ask again later;
 * whoever wants exactly an older one cannot have it. */
static bool revision_suits(struct request *request, const struct api_result *result)
{
    struct arena *arena = request_arena(request);
    uint64_t wanted = 0;

    if (request->call.continue_token.len ||
        !str_to_u64(http_query(arena, request->x->head.query, "resourceVersion"), &wanted))
        return true;
    if (wanted > result->revision) {
        static const struct api_cause cause = {.reason = STR("ResourceVersionTooLarge"),
                                               .message = STR("Too large resource version")};

        status_reply(request,
                     &(struct status){.code = 504,
                                      .reason = "Timeout",
                                      .message = str_printf(arena,
                                                            "Timeout: Too large resource version: "
                                                            "%llu, current: %llu",
                                                            (unsigned long long)wanted,
                                                            (unsigned long long)result->revision),
                                      .causes = &cause,
                                      .cause_count = 1,
                                      .retry_after_s = 1});
        return false;
    }
    return true;
}

/* To evict or bind is asked for and done; the pod is not the answer. */
static bool is_order(const struct request *request)
{
    struct str sub = request->route.subresource;

    return request->call.verb == API_CREATE && (str_is(sub, "eviction") || str_is(sub, "binding"));
}

/* Kinds whose last state is the answer when one is deleted; of others it is a Status. */
static bool shows_deleted(const struct kind *kind)
{
    static const struct kind *const kinds[] = {
        &kind_pod,     &kind_service,      &kind_serviceaccount,   &kind_pvc,
        &kind_pv,      &kind_storageclass, &kind_namespace,        &kind_resourcequota,
        &kind_csinode, &kind_podtemplate,  &kind_volumeattachment,
    };

    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (kinds[i] == kind)
            return true;
    return false;
}

static void answer(struct request *request, const struct api_result *result)
{
    if (!request->no_warnings)
        request_warn(request, result->warnings);
    if (result->code < 0) {
        request_fail_result(request, result);
        return;
    }
    switch (request->call.verb) {
    case API_LIST:
        if (revision_suits(request, result))
            view_list(request, result);
        return;
    case API_DELETE_COLLECTION: view_list(request, result); return; /* what was there */
    case API_GET:
    case API_CREATE:
    case API_UPDATE:
    case API_PATCH:
    case API_DELETE: break;
    }
    int code = result->created ? 201 : 200;
    if (is_order(request)) {
        status_reply(request, &(struct status){.code = 201});
        return;
    }
    if (result->object && !(result->gone && !shows_deleted(request->kind))) {
        view_object(request, code, result->object);
        return;
    }
    status_reply(request, &(struct status){.code = code,
                                           .kind = request->kind,
                                           .name = request->route.name,
                                           .uid = result->object ? result->object->uid : STR_NONE});
}

static void on_done(void *user, const struct api_result *result)
{
    struct request *request = user;

    if (http_is_open(request->x))
        answer(request, result);
    http_unref(request->x);
}

static void call(struct request *request)
{
    struct str name = request->route.name;
    const char *why = name.len ? names_path_segment(name) : NULL;

    if (why) {
        request_fail(request, 400, "BadRequest", "Name parameter invalid: \"" STR_FMT "\": %s",
                     STR_ARG(str_sub(name, 0, 64)), why);
        return;
    }
    (void)http_ref(request->x);
    request->writer = (struct api_user){.name = request->user.name,
                                        .uid = request->user.uid,
                                        .groups = request->user.groups,
                                        .group_count = request->user.group_count};
    request->call.user = &request->writer;
    guard_set(request);
    api_call(request->server->api, &request->call, on_done, request);
}

/* Fields of a newer client than we know are a warning, or an error, as in JSON. */
static bool tell_unknown(struct request *request, const struct protobuf_unknown *unknown)
{
    struct arena *arena = request_arena(request);
    struct str validation = http_query(arena, request->x->head.query, "fieldValidation");
    struct str text = STR("");

    if (!unknown->count || str_is(validation, "Ignore"))
        return true;
    if (!str_is(validation, "Strict")) {
        for (size_t i = 0; i < unknown->count; i++)
            request_warn(request, unknown->items[i]);
        return true;
    }
    for (size_t i = 0; i < unknown->count; i++)
        text = str_printf(arena, STR_FMT "%s" STR_FMT, STR_ARG(text), i ? ", " : "",
                          STR_ARG(unknown->items[i]));
    request_fail(request, 400, "BadRequest", "strict decoding error: " STR_FMT, STR_ARG(text));
    return false;
}

static bool take_protobuf(struct request *request)
{
    struct protobuf_unknown unknown = {0};
    struct json *root = NULL;
    struct err err = {0};
    int r = protobuf_to_json(request_arena(request), request->x->body, &unknown, &root, &err);

    if (r == 0) {
        request->call.body = json_text(request_arena(request), root);
        return tell_unknown(request, &unknown);
    }
    int code = r == -EPROTONOSUPPORT ? 415 : 400;
    request_fail(request, code, status_reason(code), "%s", err.text);
    return false;
}

/* The request's body as JSON: YAML is converted, protobuf decoded. False when answered. */
bool request_take_body(struct request *request)
{
    struct str type = http_head_get(&request->x->head, "Content-Type");
    struct str media = str_trim(str_sub(type, 0, str_find(type, ';')));
    struct arena *arena = request_arena(request);
    struct err err = {0};

    request->call.body = request->x->body;
    if (!media.len || http_equal_nocase(media, STR("application/json")))
        return true;
    if (http_equal_nocase(media, STR("application/yaml")) ||
        http_equal_nocase(media, STR("application/apply-patch+yaml"))) {
        struct str text = str_trim(request->x->body);
        struct json *root = NULL;

        if (text.len && text.p[0] == '{') /* JSON is YAML, and all that kubectl ever sends */
            return true;
        /* The whole of it: the lines that an error names are the client's. */
        if (yaml_parse(arena, request->x->body, &root, &err) < 0) {
            request_fail(request, 400, "BadRequest", "error parsing YAML: %s", err.text);
            return false;
        }
        request->call.body = json_text(arena, root);
        return true;
    }
    if (http_equal_nocase(media, STR("application/vnd.kubernetes.protobuf")))
        return take_protobuf(request);
    request_fail(request, 415, "UnsupportedMediaType",
                 "the body of the request was in an unknown format (" STR_FMT
                 "); accepted media types include: application/json, application/yaml, "
                 "application/vnd.kubernetes.protobuf",
                 STR_ARG(str_sub(media, 0, 128)));
    return false;
}

/* The body of a delete, or what its address says in place of one. */
static bool take_options(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str grace = http_query(arena, query, "gracePeriodSeconds");
    struct json *options = json_new_object(arena);
    int64_t seconds = 0;

    if (!request_take_body(request))
        return false;
    if (request->call.body.len)
        return true;
    if (!request_number(request, "gracePeriodSeconds", &seconds))
        return false;
    if (grace.len)
        json_add_i64(arena, options, "gracePeriodSeconds", seconds);
    if (http_query(arena, query, "orphanDependents").len)
        json_add_bool(arena, options, "orphanDependents",
                      http_query_bool(query, "orphanDependents"));
    struct str policy = http_query(arena, query, "propagationPolicy");
    if (policy.len)
        json_add_str(arena, options, "propagationPolicy", policy);
    if (json_count(options))
        request->call.body = json_text(arena, options);
    return true;
}

static bool take_patch(struct request *request)
{
    static const struct {
        const char *media;
        enum api_patch patch;
    } types[] = {
        {"application/merge-patch+json", API_PATCH_MERGE},
        {"application/json-patch+json", API_PATCH_JSON},
        {"application/strategic-merge-patch+json", API_PATCH_STRATEGIC},
        {"application/apply-patch+yaml", API_PATCH_APPLY},
    };
    struct str type = http_head_get(&request->x->head, "Content-Type");
    struct str media = str_trim(str_sub(type, 0, str_find(type, ';')));

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (!http_equal_nocase(media, str_from(types[i].media)))
            continue;
        request->call.patch = types[i].patch;
        if (types[i].patch == API_PATCH_APPLY)
            return request_take_body(request);
        request->call.body = request->x->body;
        return true;
    }
    request_fail(request, 415, "UnsupportedMediaType",
                 "the body of the request was in an unknown format (" STR_FMT
                 "); accepted media types include: application/json-patch+json, "
                 "application/merge-patch+json, application/apply-patch+yaml%s",
                 STR_ARG(str_sub(media, 0, 128)),
                 request->kind->strategic ? ", application/strategic-merge-patch+json" : "");
    return false;
}

/* Who writes without saying a name is known by the program: "kubectl" of "kubectl/v1.33.0 ...". */
#define MANAGER_BYTES_MAX 128

static void name_manager(struct request *request)
{
    struct str agent = http_head_get(&request->x->head, "User-Agent");

    if (!request->call.field_manager.len && request->call.patch != API_PATCH_APPLY)
        request->call.field_manager = str_utf8(
            request_arena(request),
            str_sub(str_trim(str_sub(agent, 0, str_find(agent, '/'))), 0, MANAGER_BYTES_MAX));
}

static void fill_call(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str validation = http_query(arena, query, "fieldValidation");

    request->call = (struct api_request){
        .kind = request->kind,
        .ns = request->route.ns,
        .name = request->route.name,
        .subresource = request->route.subresource,
        .label_selector = http_query(arena, query, "labelSelector"),
        .field_selector = http_query(arena, query, "fieldSelector"),
        .continue_token = http_query(arena, query, "continue"),
        .field_manager = http_query(arena, query, "fieldManager"),
        .force = http_query_bool(query, "force"),
        .dry_run = http_query(arena, query, "dryRun").len > 0,
        .strict_fields = str_is(validation, "Strict"),
    };
    request->no_warnings = str_is(validation, "Ignore");
    /* Pods that are objects only are for who asks for them: by their namespace, name or labels. */
    if (request->kind == &kind_pod && !request->route.ns.len && !request->route.name.len &&
        !request->call.label_selector.len && str_is(request->x->head.method, "GET"))
        request->call.label_selector = STR("!" GROUP_STAND_IN);
}

/* How long the client waits; nothing here takes that long, but what is no duration is refused. */
static bool check_timeout(struct request *request)
{
    struct str timeout = http_query(request_arena(request), request->x->head.query, "timeout");
    int64_t ms = 0;

    if (!timeout.len || str_is(timeout, "0") || time_parse_duration(timeout, &ms))
        return true;
    request_fail(request, 400, "BadRequest",
                 "invalid timeout specified in the request URL: \"" STR_FMT
                 "\" is not a duration; write it as \"30s\" or \"1m30s\"",
                 STR_ARG(str_sub(timeout, 0, 64)));
    return false;
}

/* A version of a custom kind that its owner advises against. */
static void warn_deprecated(struct request *request)
{
    const struct kind_crd *crd = kinds_crd(request->server->api->kinds, request->kind);

    if (crd && crd->deprecation && !request->no_warnings)
        request_warn(request, str_from(crd->deprecation));
}

static bool forbid_match(struct request *request, const char *why)
{
    request_invalid(request, "resourceVersionMatch", "Forbidden: %s", why);
    return false;
}

static bool check_version(struct request *request, uint64_t *ret)
{
    struct str version =
        http_query(request_arena(request), request->x->head.query, "resourceVersion");

    if (!version.len || str_to_u64(version, ret))
        return true;
    request_fail(request, 400, "BadRequest",
                 "invalid resource version: resourceVersion: Invalid value: \"" STR_FMT
                 "\": it must be a number that this server gave out",
                 STR_ARG(str_sub(version, 0, 64)));
    return false;
}

/* Numbers of a list. */
static bool check_list(struct request *request)
{
    struct arena *arena = request_arena(request);
    struct str query = request->x->head.query;
    struct str version = http_query(arena, query, "resourceVersion");
    struct str match = http_query(arena, query, "resourceVersionMatch");
    uint64_t number = 0;
    int64_t limit = 0;
    int64_t seconds = 0;

    if (!request_number(request, "limit", &limit) ||
        !request_number(request, "timeoutSeconds", &seconds))
        return false;
    request->call.limit = limit > 0 ? (uint64_t)limit : 0; /* below zero it is none */
    if (!check_version(request, &number))
        return false;
    if (match.len && !str_is(match, "Exact") && !str_is(match, "NotOlderThan")) {
        request_invalid(request, "resourceVersionMatch",
                        "Unsupported value: \"" STR_FMT
                        "\": supported values: \"Exact\", \"NotOlderThan\"",
                        STR_ARG(str_sub(match, 0, 64)));
        return false;
    }
    if (match.len && !version.len)
        return forbid_match(request, "resourceVersionMatch is forbidden unless "
                                     "resourceVersion is provided");
    if (match.len && request->call.continue_token.len)
        return forbid_match(request, "resourceVersionMatch is forbidden when continue is provided");
    if (str_is(match, "Exact") && !number)
        return forbid_match(request, "resourceVersionMatch \"exact\" is forbidden for "
                                     "resourceVersion \"0\"");
    if (number && request->call.continue_token.len) {
        request_fail(request, 400, "BadRequest",
                     "specifying resource version is not allowed when using continue");
        return false;
    }
    /* A list in pages is of one moment, which old clients name without saying so. */
    if (str_is(match, "Exact") || (!match.len && request->call.limit))
        request->call.exact_revision = number;
    if (http_query_all(arena, query, "sendInitialEvents", NULL, 0)) {
        request_invalid(request, "sendInitialEvents",
                        "Forbidden: sendInitialEvents is forbidden for list");
        return false;
    }
    return true;
}

#define DRY_RUNS_MAX 8 /* as often as anybody says it */

static bool is_told_dry(struct request *request)
{
    struct str values[DRY_RUNS_MAX];
    size_t count = http_query_all(request_arena(request), request->x->head.query, "dryRun", values,
                                  DRY_RUNS_MAX);

    for (size_t i = 0; i < count; i++) {
        struct str value = i < DRY_RUNS_MAX ? values[i] : STR("");

        if (str_is(value, "All"))
            continue;
        request_invalid(request, "dryRun",
                        "Unsupported value: \"" STR_FMT "\": supported values: \"All\"",
                        STR_ARG(str_sub(value, 0, 64)));
        return false;
    }
    return true;
}

static bool is_printable(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 0x7f)
            return false;
    return true;
}

static bool check_manager(struct request *request)
{
    struct str manager = STR("");

    if (!http_query_all(request_arena(request), request->x->head.query, "fieldManager", &manager,
                        1))
        return true;
    if (manager.len > MANAGER_BYTES_MAX)
        request_invalid(request, "fieldManager", "Too long: may not be more than %d bytes",
                        MANAGER_BYTES_MAX);
    else if (!str_is_set(manager) || !is_printable(manager))
        request_invalid(request, "fieldManager", "has a character that cannot be printed");
    else
        return true;
    return false;
}

/* Options of a write that mean nothing here would be taken for something else. */
static bool check_options(struct request *request)
{
    struct str query = request->x->head.query;
    struct str method = request->x->head.method;
    struct str validation = http_query(request_arena(request), query, "fieldValidation");
    struct str type = http_head_get(&request->x->head, "Content-Type");

    if (!is_told_dry(request))
        return false;
    if (str_is(method, "DELETE"))
        return true;
    if (str_is(method, "PATCH") && !str_starts(type, STR("application/apply-patch")) &&
        http_query_all(request_arena(request), query, "force", NULL, 0)) {
        request_invalid(request, "force", "Forbidden: may not be specified for non-apply patch");
        return false;
    }
    if (validation.len && !str_is(validation, "Ignore") && !str_is(validation, "Warn") &&
        !str_is(validation, "Strict")) {
        request_invalid(request, "fieldValidation",
                        "Unsupported value: \"" STR_FMT
                        "\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
                        STR_ARG(str_sub(validation, 0, 64)));
        return false;
    }
    return check_manager(request);
}

static void method_not_allowed(struct request *request)
{
    request_fail(request, 405, "MethodNotAllowed",
                 "the server does not allow this method on the requested resource");
}

static void read_resource(struct request *request)
{
    struct str query = request->x->head.query;

    if (!view_accept(request))
        return;
    if (!request->route.name.len || http_query_bool(query, "watch")) {
        if (http_query_bool(query, "watch")) {
            watch_begin(request);
            return;
        }
        request->call.verb = API_LIST;
        if (!check_list(request))
            return;
    } else {
        uint64_t version = 0;

        request->call.verb = API_GET;
        if (!check_version(request, &version))
            return;
    }
    call(request);
}

static void call_named(struct request *request)
{
    name_manager(request);
    call(request);
}

/* Names are checked against the path below struct api; here only what the path itself implies. */
static void write_resource(struct request *request)
{
    struct str method = request->x->head.method;
    bool named = request->route.name.len > 0;

    if (!view_accept(request) || !check_options(request))
        return;
    if (str_is(method, "POST") && (!named || request->route.subresource.len)) {
        request->call.verb = API_CREATE;
        if (request_take_body(request))
            call_named(request);
    } else if (str_is(method, "PUT") && named) {
        request->call.verb = API_UPDATE;
        if (request_take_body(request))
            call_named(request);
    } else if (str_is(method, "PATCH") && named) {
        request->call.verb = API_PATCH;
        if (take_patch(request))
            call_named(request);
    } else if (str_is(method, "DELETE") && !request->route.subresource.len) {
        request->call.verb = named ? API_DELETE : API_DELETE_COLLECTION;
        if ((named || check_list(request)) && take_options(request))
            call(request);
    } else if (str_is(method, "DELETE") &&
               !kind_has_part(request->kind, request->route.subresource)) {
        request_not_found(request);
    } else {
        method_not_allowed(request);
    }
}

void resource_handle(struct request *request)
{
    const struct kind *kind = request->kind;
    struct str sub = request->route.subresource;

    if (review_handle(request) || usage_handle(request))
        return;
    if (!kind || (request->route.ns.len && !kind->namespaced)) {
        request_not_found(request);
        return;
    }
    if (kind->namespaced && !request->route.ns.len && request->route.name.len) {
        request_not_found(request);
        return;
    }
    if (!check_timeout(request))
        return;
    fill_call(request);
    warn_deprecated(request);
    if (str_is(request->x->head.method, "HEAD")) { /* as in Kubernetes, which has no such route */
        method_not_allowed(request);
        return;
    }
    bool reads = str_is(request->x->head.method, "GET");
    bool posted = str_is(sub, "binding") || str_is(sub, "eviction");
    if ((kind == &kind_pod && posted && !str_is(request->x->head.method, "POST")) ||
        (kind == &kind_namespace && str_is(request->x->head.method, "DELETE") &&
         !request->route.name.len)) {
        method_not_allowed(request);
        return;
    }
    if (kind == &kind_pod && (str_is(sub, "exec") || str_is(sub, "attach")))
        exec_handle(request);
    else if (kind == &kind_pod && str_is(sub, "portforward"))
        forward_handle(request);
    else if (kind == &kind_pod && str_is(sub, "log") && reads)
        pod_log(request);
    else if (kind == &kind_pod && str_is(sub, "results") && reads)
        pod_results(request);
    else if (kind == &kind_pod && str_is(sub, "stacks") && reads)
        pod_stack_traces(request);
    else if (reads)
        read_resource(request);
    else
        write_resource(request);
}
