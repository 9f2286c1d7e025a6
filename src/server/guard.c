#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "server/authz.h"
#include "server/rbac.h"
#include "server/request.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

/* Rights that only the written object shows. Server-side apply that makes an object needs the verb
 * create beside patch; and roles and bindings grant no more than their writer has, unless he has
 * the verb escalate or bind on the role. Certificates are approved and signed by those who may do so
 * for the signer. */

/* What there is to say, and the status. */
struct refusal {
    struct str *message;
    struct err *err;
};

static int refuse(struct refusal refusal, int code, struct str text)
{
    *refusal.message = text;
    (void)err_set(refusal.err, -EACCES, STR_FMT, STR_ARG(text));
    refusal.err->http_status = code;
    return -EACCES;
}

static bool user_may(struct request *request,
                     const char *verb,
                     struct str resource,
                     struct str name)
{
    struct rbac_request wanted = {.verb = str_from(verb),
                                  .group = str_from(request->kind->group),
                                  .resource = resource,
                                  .ns = request->route.ns,
                                  .name = name};

    return authz_allows(request->server->authz, request_arena(request), &request->user, &wanted);
}

/* Whoever only lets an object go, as garbage collection does, grants nothing. */
static bool only_lets_go(struct arena *arena, const struct json *old, const struct json *object)
{
    static const char *const ignored[] = {"ownerReferences", "finalizers", "managedFields",
                                          "resourceVersion"};
    struct json *before = json_clone(arena, old);
    struct json *after = json_clone(arena, object);

    for (size_t i = 0; i < COUNT_OF(ignored); i++) {
        json_remove(json_get(before, "metadata"), str_from(ignored[i]));
        json_remove(json_get(after, "metadata"), str_from(ignored[i]));
    }
    return old && json_equal(before, after);
}

static struct str forbidden(struct request *request, const struct json *object, struct str why)
{
    return str_printf(request_arena(request), "%s.%s \"" STR_FMT "\" is forbidden: " STR_FMT,
                      request->kind->plural, request->kind->group,
                      STR_ARG(json_str_at(object, "metadata.name")), STR_ARG(why));
}

/* An aggregated role gathers whatever others write into theirs. */
static bool may_aggregate(struct request *request)
{
    static const char everything[] = "[{\"verbs\":[\"*\"],\"apiGroups\":[\"*\"],\"resources\":["
                                     "\"*\"]},{\"verbs\":[\"*\"],\"nonResourceURLs\":[\"*\"]}]";
    struct arena *arena = request_arena(request);
    struct json *rules = NULL;

    return json_parse(arena, str_from(everything), &rules, NULL) == 0 &&
           !authz_missing(request->server->authz, arena, &request->user, STR(""), rules).len;
}

static int guard_role(struct request *request,
                      const struct json *old,
                      const struct json *object,
                      struct refusal refusal)
{
    struct arena *arena = request_arena(request);

    if (user_may(request, "escalate", str_from(request->kind->plural),
                 json_str_at(object, "metadata.name")))
        return 0;
    struct str missing = authz_missing(request->server->authz, arena, &request->user,
                                       request->route.ns, json_get(object, "rules"));
    if (missing.len)
        return refuse(refusal, 403, forbidden(request, object, missing));
    if ((!json_is_null(json_get(object, "aggregationRule")) ||
         !json_is_null(json_get(old, "aggregationRule"))) &&
        !may_aggregate(request))
        return refuse(
            refusal, 403,
            forbidden(request, object,
                      STR("must have cluster-admin privileges to use an aggregationRule")));
    return 0;
}

static int guard_binding(struct request *request, const struct json *object, struct refusal refusal)
{
    struct arena *arena = request_arena(request);
    bool cluster = str_is(json_str_at(object, "roleRef.kind"), kind_clusterrole.name);
    struct str plural = cluster ? str_from(kind_clusterrole.plural) : str_from(kind_role.plural);
    struct str name = json_str_at(object, "roleRef.name");

    if (user_may(request, "bind", plural, name))
        return 0;
    const struct object *role = authz_role(request->server->authz, object, request->route.ns);
    if (!role)
        return refuse(refusal, 404,
                      str_printf(arena, STR_FMT ".%s \"" STR_FMT "\" not found", STR_ARG(plural),
                                 request->kind->group, STR_ARG(name)));
    struct str missing =
        authz_missing(request->server->authz, arena, &request->user, request->route.ns,
                      json_get(object_json(role, arena), "rules"));
    return missing.len ? refuse(refusal, 403, forbidden(request, object, missing)) : 0;
}

/* To approve or sign is a right on the signer, besides that on the address. */
static int guard_signer(struct request *request, const struct json *object, struct refusal refusal)
{
    struct arena *arena = request_arena(request);
    struct str signer = json_str_at(object, "spec.signerName");
    bool approves = str_is(request->route.subresource, "approval");
    const char *verb = approves ? "approve" : "sign";
    struct str all =
        str_printf(arena, STR_FMT "/*", STR_ARG(str_sub(signer, 0, str_find(signer, '/'))));

    if (!request->route.subresource.len || user_may(request, verb, STR("signers"), signer) ||
        user_may(request, verb, STR("signers"), all))
        return 0;
    return refuse(refusal, 403,
                  forbidden(request, object,
                            str_printf(arena,
                                       "user not permitted to %s requests with signerName "
                                       "\"" STR_FMT "\": it takes the verb %s on signers",
                                       verb, STR_ARG(signer), verb)));
}

static int ask(void *user,
               const struct json *old,
               const struct json *object,
               struct str *ret_message,
               struct err *err)
{
    struct refusal refusal = {ret_message, err};
    struct request *request = user;
    struct arena *arena = request_arena(request);
    const struct kind *kind = request->kind;
    struct rbac_request create = {.verb = STR("create"),
                                  .group = str_from(kind->group),
                                  .resource = str_from(kind->plural),
                                  .ns = request->route.ns,
                                  .name = request->route.name};

    if (!old && request->call.verb == API_PATCH &&
        !authz_allows(request->server->authz, arena, &request->user, &create))
        return refuse(refusal, 403, authz_sentence(arena, &request->user, &create));
    if (kind == &kind_csr && old)
        return guard_signer(request, object, refusal);
    if (!str_is(str_from(kind->group), kind_clusterrole.group) || only_lets_go(arena, old, object))
        return 0;
    if (kind == &kind_clusterrole || kind == &kind_role)
        return guard_role(request, old, object, refusal);
    return guard_binding(request, object, refusal);
}

void guard_set(struct request *request)
{
    if (request->user.owner)
        return;
    request->guard = (struct api_guard){ask, request};
    request->call.guard = &request->guard;
}
