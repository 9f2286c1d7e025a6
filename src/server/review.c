#include "api/admit.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/schema.h"
#include "api/types.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "http/jwt.h"
#include "http/server.h"
#include "server/accept.h"
#include "server/authz.h"
#include "server/rbac.h"
#include "server/request.h"
#include "tool/clock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Questions that are asked by POST and not stored: may I, who am I, whose token is this; and the
 * making of ServiceAccount tokens. The answer is the question with its status filled in. */

#define TOKEN_S_DEFAULT 3600
#define TOKEN_S_MIN     600
#define TOKEN_S_MAX     ((int64_t)365 * 24 * 3600)

static void reply(struct request *request, struct json *root)
{
    answer_reply(request, 201, json_text(request_arena(request), root));
}

/* ---- SelfSubjectAccessReview, SubjectAccessReview, LocalSubjectAccessReview ---- */

/* False when answered: no such user can be asked about. */
static bool review_subject(struct request *request, const struct json *spec, struct user *ret)
{
    *ret = (struct user){.name = json_str(json_get(spec, "user"))};
    if (!ret->name.len && !json_count(json_get(spec, "groups"))) {
        request_invalid(request, "spec.user",
                        "Invalid value: \"\": at least one of user or group must be specified");
        return false;
    }
    JSON_FOREACH(json_get(spec, "groups"), group) {
        if (ret->group_count == SERVER_GROUPS_MAX) {
            request_invalid(request, "spec.groups", "Too many: must have at most %d items",
                            SERVER_GROUPS_MAX);
            return false;
        }
        ret->owner |= str_is(json_str(group), "system:masters");
        ret->groups[ret->group_count++] = json_str(group);
    }
    return true;
}

/* The index of the first requirement that names no values and needs some; SIZE_MAX: none. */
static size_t lacks_values(const struct json *requirements)
{
    size_t index = 0;

    JSON_FOREACH(requirements, item) {
        struct str operator= json_str(json_get(item, "operator"));

        if ((str_is(operator, "In") || str_is(operator, "NotIn")) &&
            !json_count(json_get(item, "values")))
            return index;
        index++;
    }
    return SIZE_MAX;
}

/* Exactly one thing is asked; in a namespace, about that namespace. */
static bool review_spec_is_good(struct request *request, const struct json *spec)
{
    const struct json *resource = json_get(spec, "resourceAttributes");
    const struct json *path = json_get(spec, "nonResourceAttributes");
    struct str ns = request->route.ns;
    bool local = ns.len > 0;
    size_t bare = lacks_values(json_at(resource, "labelSelector.requirements"));

    if (bare != SIZE_MAX) {
        struct str field =
            str_printf(request_arena(request),
                       "spec.resourceAttributes.labelSelector.requirements[%zu].values", bare);

        request_invalid(request, field.p, "Required value: must be specified for In and NotIn");
        return false;
    }
    if (!json_is_null(resource) && !json_is_null(path))
        request_invalid(request, "spec.nonResourceAttributes",
                        "Invalid value: cannot be specified in combination with "
                        "resourceAttributes");
    else if (local && !json_is_null(path))
        request_invalid(request, "spec.nonResourceAttributes",
                        "Invalid value: disallowed on this kind of request");
    else if (json_is_null(resource) && json_is_null(path))
        request_invalid(request, "spec.resourceAttributes",
                        "Invalid value: exactly one of nonResourceAttributes or "
                        "resourceAttributes must be specified");
    else if (local && !str_eq(json_str(json_get(resource, "namespace")), ns))
        request_invalid(request, "spec.resourceAttributes.namespace",
                        "Invalid value: must match the namespace of the request: " STR_FMT,
                        STR_ARG(ns));
    else
        return true;
    return false;
}

/* A question has no name and no labels. */
static bool has_metadata(const struct json *root)
{
    JSON_FOREACH(json_get(root, "metadata"), member)
        if (!str_is(json_key(member), "namespace") && !str_is(json_key(member), "managedFields") &&
            (json_count(member) || json_str(member).len || json_i64_or(member, 0)))
            return true;
    return false;
}

static void access_review(struct request *request, struct json *root)
{
    struct arena *arena = request_arena(request);
    const struct json *spec = json_get(root, "spec");
    const struct json *resource = json_get(spec, "resourceAttributes");
    const struct json *path = json_get(spec, "nonResourceAttributes");
    bool self = str_starts(request->route.plural, STR("self"));
    struct user user = request->user;

    if (has_metadata(root)) {
        request_invalid(request, "metadata", "Invalid value: must be empty except for namespace");
        return;
    }
    if (!review_spec_is_good(request, spec) || (!self && !review_subject(request, spec, &user)))
        return;
    struct str sub = json_str(json_get(resource, "subresource"));
    struct str plural = json_str(json_get(resource, "resource"));
    struct str asked = str_dup(arena, json_str(json_get(path, "path")));
    bool of_resource = !json_is_null(resource);
    struct rbac_request wanted = {
        .verb = json_str(json_get(of_resource ? resource : path, "verb")),
        .group = json_str(json_get(resource, "group")),
        .resource = sub.len ? str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(plural), STR_ARG(sub))
                            : plural,
        .ns = json_str(json_get(resource, "namespace")),
        .name = json_str(json_get(resource, "name")),
        .path = of_resource ? STR_NONE : asked,
    };
    bool allowed = authz_allows(request->server->authz, arena, &user, &wanted);
    struct json *status = json_make(arena, "{allowed: $, reason: $}", allowed,
                                    user.owner ? "the owner of the data folder may do everything"
                                    : allowed  ? "RBAC: allowed by a binding"
                                               : "RBAC: no binding allows it");

    json_set(root, STR("status"), status);
    reply(request, root);
}

static void rules_review(struct request *request, struct json *root)
{
    struct arena *arena = request_arena(request);
    struct str ns = json_str(json_at(root, "spec.namespace"));
    _cleanup_(buf_done) struct buf buf = {0};
    struct json *status = NULL;

    if (!ns.len) {
        request_fail(request, 400, "BadRequest", "no namespace on request: set spec.namespace");
        return;
    }
    buf_addc(&buf, '{');
    authz_write_rules(request->server->authz, arena, &request->user, ns, &buf);
    buf_add(&buf, STR(",\"incomplete\":false}"));
    if (json_parse(arena, str_dup(arena, buf_str(&buf)), &status, NULL) == 0)
        json_set(root, STR("status"), status);
    json_remove(root, STR("metadata")); /* the answer says what may be done, and nothing else */
    json_remove(root, STR("spec"));
    reply(request, root);
}

/* ---- SelfSubjectReview, TokenReview ---- */
static struct json *user_info(struct arena *arena, const struct user *user)
{
    struct json *info = json_new_object(arena);
    struct json *groups = NULL;

    json_add_str(arena, info, "username", user->name);
    if (user->uid.len)
        json_add_str(arena, info, "uid", user->uid);
    groups = json_add_array(arena, info, "groups");
    for (size_t i = 0; i < user->group_count; i++)
        json_push(groups, json_new_str(arena, user->groups[i]));
    for (size_t i = 0; i < user->extra_count; i++) {
        struct json *extra = json_make_path(arena, info, "extra");
        struct json *values = json_get_str(extra, user->extras[i].key);

        if (!values)
            values = json_set(extra, user->extras[i].key, json_new_array(arena));
        json_push(values, json_new_str(arena, user->extras[i].value));
    }
    return info;
}

static void self_review(struct request *request, struct json *root)
{
    struct arena *arena = request_arena(request);
    struct json *status = json_new_object(arena);

    json_set(status, STR("userInfo"), user_info(arena, &request->user));
    json_remove(root, STR("metadata")); /* the answer is about who asks alone */
    json_set(root, STR("status"), status);
    reply(request, root);
}

static void token_review(struct request *request, struct json *root)
{
    struct arena *arena = request_arena(request);
    struct json *status = json_new_object(arena);
    struct user user = {0};
    struct str audience = json_str(json_first(json_at(root, "spec.audiences")));
    if (!json_str_at(root, "spec.token").len) {
        request_fail(request, 400, "BadRequest",
                     "token is required for TokenReview in "
                     "authentication");
        return;
    }
    bool known = identify_token(request->server, arena, json_str(json_at(root, "spec.token")),
                                str_is(audience, JWT_ISSUER) ? STR_NONE : audience, &user);

    json_add_bool(arena, status, "authenticated", known);
    if (known)
        json_set(status, STR("user"), user_info(arena, &user));
    json_set(root, STR("status"), status);
    reply(request, root);
}

/* ---- serviceaccounts/NAME/token ---- */

/* A token may be bound to a pod that is there; its uid is filled in where it was left out. */
static bool bind_token(struct request *request, const struct json *root, struct jwt *jwt)
{
    const struct json *bound = json_at(root, "spec.boundObjectRef");
    struct str kind = json_str(json_get(bound, "kind"));
    struct str uid = json_str(json_get(bound, "uid"));

    if (json_is_null(bound))
        return true;
    if (!str_is(kind, "Pod")) {
        request_fail(request, 400, "BadRequest",
                     "spec.boundObjectRef.kind: cannot bind a token to a \"" STR_FMT
                     "\": it is bound to a Pod, or to nothing",
                     STR_ARG(str_sub(kind, 0, 64)));
        return false;
    }
    jwt->pod = json_str(json_get(bound, "name"));
    const struct object *pod = authz_pod(request->server->authz, jwt->ns, jwt->pod);
    if (!pod) {
        request_fail(request, 404, "NotFound", "pods \"" STR_FMT "\" not found",
                     STR_ARG(str_sub(jwt->pod, 0, 253)));
        return false;
    }
    if (uid.len && !str_eq(uid, pod->uid)) {
        request_fail(request, 400, "BadRequest",
                     "the UID in the bound object reference (" STR_FMT
                     ") does not match the UID in record (" STR_FMT ")",
                     STR_ARG(str_sub(uid, 0, 64)), STR_ARG(pod->uid));
        return false;
    }
    jwt->pod_uid = pod->uid;
    return true;
}

static void on_account(void *user, const struct api_result *result)
{
    struct request *request = user;
    struct json *root = request->stream;
    struct arena *arena = request_arena(request);
    _cleanup_(buf_done) struct buf token = {0};

    if (result->code < 0) {
        request_fail_result(request, result);
        http_unref(request->x);
        return;
    }
    int64_t seconds = json_i64_or(json_at(root, "spec.expirationSeconds"), TOKEN_S_DEFAULT);
    seconds = seconds > TOKEN_S_MAX ? TOKEN_S_MAX : seconds;
    struct jwt jwt = {.ns = request->route.ns,
                      .account = request->route.name,
                      .account_uid = result->object->uid,
                      .audience = json_str(json_first(json_at(root, "spec.audiences"))),
                      .issued_ms = clock_now_ms()};
    jwt.expires_ms = jwt.issued_ms + seconds * 1000;
    if (!bind_token(request, root, &jwt)) {
        http_unref(request->x);
        return;
    }
    jwt_sign(&token, buf_str(&request->server->token_key), &jwt);
    struct json *status =
        json_make(arena, "{token: $, expirationTimestamp: $}", str_dup(arena, buf_str(&token)),
                  time_text(arena, jwt.expires_ms));
    struct json *spec = json_make_path(arena, root, "spec");
    if (!json_count(json_get(spec, "audiences"))) /* clients want to read for whom it is */
        json_push(json_add_array(arena, spec, "audiences"), json_new_str(arena, STR(JWT_ISSUER)));
    json_add_i64(arena, spec, "expirationSeconds", seconds);
    struct json *meta = json_make_path(arena, root, "metadata");
    json_add_str(arena, meta, "name", request->route.name);
    json_add_str(arena, meta, "namespace", request->route.ns);
    json_set(root, STR("status"), status);
    reply(request, root);
    http_unref(request->x);
}

static bool token_spec_is_good(struct request *request, const struct json *root)
{
    struct str name = json_str_at(root, "metadata.name");
    int64_t seconds = json_i64_or(json_at(root, "spec.expirationSeconds"), TOKEN_S_DEFAULT);

    if (name.len && !str_eq(name, request->route.name))
        request_invalid(request, "metadata.name",
                        "must match the service account name if it is set");
    else if (seconds < TOKEN_S_MIN)
        request_invalid(request, "spec.expirationSeconds",
                        "may not specify a duration less than 10 minutes");
    else if (seconds > UINT32_MAX)
        request_invalid(request, "spec.expirationSeconds",
                        "may not specify a duration larger than 2^32 seconds");
    else
        return true;
    return false;
}

static void token_request(struct request *request, struct json *root)
{
    if (!token_spec_is_good(request, root))
        return;
    if (!request->user.owner && account_is_owner(request->route.ns, request->route.name)) {
        request_fail(request, 403, "Forbidden",
                     "a token of " ACCOUNT_OWNER_NAMESPACE "/" ACCOUNT_OWNER_NAME
                     " is the owner's: only the owner may have one");
        return;
    }
    request->stream = root;
    (void)http_ref(request->x);
    api_call(request->server->api,
             &(struct api_request){.verb = API_GET,
                                   .kind = &kind_serviceaccount,
                                   .ns = request->route.ns,
                                   .name = request->route.name},
             on_account, request);
}

static const struct {
    const char *group;
    const char *plural;
    const char *subresource;
    const char *kind;
    bool namespaced; /* asked below a namespace; the others are about the cluster, and only there */
    void (*answer)(struct request *request, struct json *root);
} reviews[] = {
    {"authorization.k8s.io", "selfsubjectaccessreviews", "", "SelfSubjectAccessReview", false,
     access_review},
    {"authorization.k8s.io", "subjectaccessreviews", "", "SubjectAccessReview", false,
     access_review},
    {"authorization.k8s.io", "localsubjectaccessreviews", "", "LocalSubjectAccessReview", true,
     access_review},
    {"authorization.k8s.io", "selfsubjectrulesreviews", "", "SelfSubjectRulesReview", false,
     rules_review},
    {"authentication.k8s.io", "selfsubjectreviews", "", "SelfSubjectReview", false, self_review},
    {"authentication.k8s.io", "tokenreviews", "", "TokenReview", false, token_review},
    {"", "serviceaccounts", "token", "TokenRequest", true, token_request},
};

/* The question is of the kind that is asked at this address, about the namespace of the address;
 * what it does not say it is then. False: it was refused. */
static bool review_is_of(struct request *request, struct json *root, size_t which)
{
    struct arena *arena = request_arena(request);
    struct str kind = json_str(json_get(root, "kind"));
    struct str version = json_str(json_get(root, "apiVersion"));
    struct json *meta = json_get(root, "metadata");
    struct str ns = json_str(json_get(meta, "namespace"));
    static const char *const names[] = {"apiVersion", "kind"};
    const char *group = reviews[which].group[0] ? reviews[which].group : "authentication.k8s.io";
    struct str wanted = str_printf(arena, "%s/v1", group);

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!json_is_null(json_get(root, names[i])) &&
            !json_is(json_get(root, names[i]), JSON_STRING)) {
            request_fail(request, 400, "BadRequest", "%s: must be a string", names[i]);
            return false;
        }
    if ((kind.len && !str_is(kind, reviews[which].kind)) ||
        (version.len && !str_eq(version, wanted))) {
        request_fail(request, 400, "BadRequest",
                     STR_FMT " in version \"" STR_FMT "\" cannot be handled as a %s of " STR_FMT,
                     STR_ARG(str_sub(kind, 0, 64)), STR_ARG(str_sub(version, 0, 64)),
                     reviews[which].kind, STR_ARG(wanted));
        return false;
    }
    if (ns.len && request->route.ns.len && !str_eq(ns, request->route.ns)) {
        request_fail(request, 400, "BadRequest",
                     "the namespace of the provided object does not match the namespace sent on "
                     "the request");
        return false;
    }
    if (!kind.len)
        json_add_c(arena, root, "kind", reviews[which].kind);
    if (!version.len)
        json_add_str(arena, root, "apiVersion", wanted);
    if (json_is(meta, JSON_OBJECT) && request->route.ns.len &&
        (json_is_null(json_get(meta, "namespace")) ||
         json_is(json_get(meta, "namespace"), JSON_STRING)))
        json_set(meta, STR("namespace"), json_new_str(arena, request->route.ns));
    return true;
}

/* An answer to a question is no stored object: it has no table and no metadata to be shown as. */
static bool review_accept(struct request *request)
{
    struct accept_offer offer = {.protobuf = true};

    if (accept_choose(http_head_get(&request->x->head, "Accept"), offer, &request->accept))
        return true;
    request_fail(request, 406, "NotAcceptable",
                 "only the following media types are accepted: application/json, application/yaml, "
                 "application/vnd.kubernetes.protobuf");
    return false;
}

/* A question has the fields of its type, as what is stored has. False: it was refused. */
static bool review_fits(struct request *request, struct json *root)
{
    struct arena *arena = request_arena(request);
    struct str asked = http_query(arena, request->x->head.query, "fieldValidation");
    const struct type *type =
        type_of_kind(json_str(json_get(root, "apiVersion")), json_str(json_get(root, "kind")));
    struct type_schemas schemas = {.arena = arena, .as_written = true};
    struct schema schema = {.type = SCHEMA_OBJECT, .min_length = -1, .max_length = -1};
    struct schema_unknown unknown = {0};
    struct admit admit = {.arena = arena};

    if (!type)
        return true;
    type_schema_complete(&schemas, type, &schema);
    schema_prune(arena, &schema, root, &unknown);
    size_t before = unknown.count;
    schema_prune(arena, schema_property(&schema, STR("metadata")), json_get(root, "metadata"),
                 &unknown);
    for (size_t i = before; i < unknown.count; i++)
        unknown.items[i] = str_printf(arena, "metadata." STR_FMT, STR_ARG(unknown.items[i]));
    (void)schema_default(arena, &schema, root, NULL);
    schema_validate(&admit, &schema, root);
    for (size_t i = 0; i < unknown.count && !str_is(asked, "Ignore"); i++) {
        struct str text =
            str_printf(arena, "unknown field \"" STR_FMT "\"", STR_ARG(unknown.items[i]));

        if (str_is(asked, "Strict")) {
            request_fail(request, 400, "BadRequest", "strict decoding error: " STR_FMT,
                         STR_ARG(text));
            return false;
        }
        request_warn(request, text);
    }
    if (!admit.causes.count)
        return true;
    request_fail(request, 400, "BadRequest", STR_FMT ": " STR_FMT,
                 STR_ARG(admit.causes.items[0].field), STR_ARG(admit.causes.items[0].message));
    return false;
}

/* What the server says of objects it says of no question; nor is one in a namespace that is about the
 * cluster. */
static void review_wipe(struct json *root, size_t which)
{
    static const char *const of_server[] = {"uid", "selfLink", "creationTimestamp",
                                            "deletionTimestamp", "deletionGracePeriodSeconds"};
    struct json *meta = json_get(root, "metadata");

    for (size_t i = 0; i < COUNT_OF(of_server); i++)
        json_remove(meta, str_from(of_server[i]));
    if (!reviews[which].namespaced)
        json_remove(meta, STR("namespace"));
}

bool review_handle(struct request *request)
{
    const struct route *route = &request->route;
    struct json *root = NULL;
    struct err err = {0};

    for (size_t i = 0; i < COUNT_OF(reviews); i++) {
        if (!str_is(route->group, reviews[i].group) || !str_is(route->plural, reviews[i].plural) ||
            !str_is(route->subresource, reviews[i].subresource) || !str_is(route->version, "v1"))
            continue;
        if (reviews[i].namespaced != (route->ns.len > 0) ||
            (route->name.len && !route->subresource.len)) {
            request_not_found(request);
            return true;
        }
        if (!str_is(request->x->head.method, "POST")) {
            request_fail(request, 405, "MethodNotAllowed", "only POST is supported here");
            return true;
        }
        if (!review_accept(request) || !request_take_body(request))
            return true;
        if (json_parse(request_arena(request), request->call.body, &root, &err) < 0 ||
            !json_is(root, JSON_OBJECT)) {
            request_fail(request, 400, "BadRequest", "body: %s",
                         err.text[0] ? err.text : "not an object");
            return true;
        }
        if (review_is_of(request, root, i) && review_fits(request, root)) {
            review_wipe(root, i);
            reviews[i].answer(request, root);
        }
        return true;
    }
    return false;
}
