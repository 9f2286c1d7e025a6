#include "api/object.h"
#include "base/account.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "http/jwt.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/attributes.h"
#include "server/authz.h"
#include "server/oidc.h"
#include "server/rbac.h"
#include "server/request.h"
#include "tool/clock.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>

/* Who is asking: the owner by token, anyone our authority signed a certificate for, a
 * ServiceAccount by its signed token, or whom an OpenID Connect issuer signed in. Who has the verb impersonate may ask in someone else's name.
 */

/* Takes as long whatever the bytes are; only the length shows. */
static bool equal_in_constant_time(struct str a, struct str b)
{
    return a.len == b.len && a.len && gnutls_memcmp(a.p, b.p, a.len) == 0;
}

static void add_group(struct user *user, struct str group)
{
    if (user->group_count < SERVER_GROUPS_MAX)
        user->groups[user->group_count++] = group;
    if (str_is(group, "system:masters"))
        user->owner = true;
}

static void identify_account(struct arena *arena, struct user *user, struct str ns, struct str name)
{
    *user = (struct user){.name = account_user(arena, ns, name)};
    add_group(user, STR("system:serviceaccounts"));
    add_group(user, str_printf(arena, "system:serviceaccounts:" STR_FMT, STR_ARG(ns)));
}

static void add_extra(struct user *user, const char *name, struct str value)
{
    if (value.len && user->extra_count < SERVER_EXTRAS_MAX)
        user->extras[user->extra_count++] = (struct user_extra){str_from(name), value};
}

/* Which token, and where it is used: what reviews and webhooks are told. */
static void add_origin(const struct server *server,
                       struct arena *arena,
                       const struct jwt *jwt,
                       struct user *user)
{
    const struct object *node = jwt->pod.len ? authz_node_of(server->authz, jwt->pod_uid) : NULL;

    if (jwt->id.len)
        add_extra(user, "authentication.kubernetes.io/credential-id",
                  str_printf(arena, "JTI=" STR_FMT, STR_ARG(jwt->id)));
    add_extra(user, "authentication.kubernetes.io/pod-name", jwt->pod);
    add_extra(user, "authentication.kubernetes.io/pod-uid", jwt->pod_uid);
    if (!node)
        return;
    add_extra(user, "authentication.kubernetes.io/node-name", str_dup(arena, node->name));
    add_extra(user, "authentication.kubernetes.io/node-uid", str_dup(arena, node->uid));
}

bool identify_token(struct server *server,
                    struct arena *arena,
                    struct str token,
                    struct str audience,
                    struct user *ret)
{
    struct jwt jwt;

    if (!audience.len && equal_in_constant_time(token, buf_str(&server->token))) {
        *ret = (struct user){.name = STR("muster:owner"), .uid = STR("owner")};
        add_group(ret, STR("system:masters"));
        add_group(ret, STR("system:authenticated"));
        return true;
    }
    if (!jwt_verify(arena, buf_str(&server->token_key), token, clock_now_ms(), &jwt) ||
        !str_eq(jwt.audience, audience) || !authz_account_exists(server->authz, jwt.account_uid) ||
        (jwt.pod.len && !authz_pod_exists(server->authz, jwt.pod_uid)))
        return !audience.len && oidc_identify(server->oidc, arena, token, ret);
    identify_account(arena, ret, jwt.ns, jwt.account);
    add_group(ret, STR("system:authenticated"));
    if (!jwt.pod.len && account_is_owner(jwt.ns, jwt.account))
        add_group(ret, STR("system:masters"));
    ret->uid = jwt.account_uid;
    ret->pod_uid = jwt.pod_uid;
    ret->expires_ms = jwt.expires_ms;
    add_origin(server, arena, &jwt, ret);
    return true;
}

/* "CN\0O1\0O2" */
static bool auth_certificate(struct request *request)
{
    struct str subject = http_peer_identity(request->x);
    struct str part;

    if (!str_cut(&subject, '\0', &part) || !part.len)
        return false;
    request->user = (struct user){.name = part};
    while (str_cut(&subject, '\0', &part))
        add_group(&request->user, part);
    add_group(&request->user, STR("system:authenticated"));
    return true;
}

/* ---- in somebody else's name ---- */

static bool as_allowed(struct request *request,
                       const char *group,
                       struct str resource,
                       struct str ns,
                       struct str name)
{
    struct arena *arena = request_arena(request);
    struct rbac_request wanted = {.verb = STR("impersonate"),
                                  .group = str_from(group),
                                  .resource = resource,
                                  .ns = ns,
                                  .name = name};

    if (authz_allows(request->server->authz, arena, &request->user, &wanted))
        return true;
    request_fail(request, 403, "Forbidden", STR_FMT,
                 STR_ARG(authz_sentence(arena, &request->user, &wanted)));
    return false;
}

/* The user named, with the groups that go with it where none are given. */
static bool as_user(struct request *request, struct str name, bool has_groups, struct user *as)
{
    struct str ns, account;

    *as = (struct user){.name = name};
    if (!account_split(name, &ns, &account))
        return as_allowed(request, "", STR("users"), STR(""), name);
    if (!has_groups)
        identify_account(request_arena(request), as, ns, account);
    return as_allowed(request, "", STR("serviceaccounts"), ns, account);
}

#define EXTRA_PREFIX "Impersonate-Extra-"

static bool as_extra(struct request *request, const struct http_header *header, struct user *as)
{
    struct arena *arena = request_arena(request);
    struct str prefix = STR(EXTRA_PREFIX);
    struct str raw = str_sub(header->name, prefix.len, header->name.len);
    struct str key = http_percent_decode(arena, attributes_lower(arena, raw), false);
    struct str resource = str_printf(arena, "userextras/" STR_FMT, STR_ARG(key));

    if (as->extra_count == SERVER_EXTRAS_MAX) {
        request_fail(request, 400, "BadRequest", "more than %d " EXTRA_PREFIX "* headers",
                     SERVER_EXTRAS_MAX);
        return false;
    }
    as->extras[as->extra_count++] = (struct user_extra){key, header->value};
    return as_allowed(request, "authentication.k8s.io", resource, STR(""), header->value);
}

static bool as_group(struct request *request, struct str group, struct user *as)
{
    if (as->group_count + 1 >= SERVER_GROUPS_MAX) {
        request_fail(request, 400, "BadRequest", "more than %d groups in Impersonate-Group headers",
                     SERVER_GROUPS_MAX - 1);
        return false;
    }
    add_group(as, group);
    return as_allowed(request, "", STR("groups"), STR(""), group);
}

static bool as_rest(struct request *request, struct user *as)
{
    const struct http_head *head = &request->x->head;

    for (size_t i = 0; i < head->header_count; i++) {
        const struct http_header *header = &head->headers[i];
        struct str start = str_sub(header->name, 0, sizeof(EXTRA_PREFIX) - 1);

        if (http_equal_nocase(header->name, STR("Impersonate-Group")) &&
            !as_group(request, header->value, as))
            return false;
        if (http_equal_nocase(start, STR(EXTRA_PREFIX)) && header->name.len > start.len &&
            !as_extra(request, header, as))
            return false;
    }
    as->uid = http_head_get(head, "Impersonate-Uid");
    return !as->uid.len ||
           as_allowed(request, "authentication.k8s.io", STR("uids"), STR(""), as->uid);
}

static bool user_has_group(const struct user *user, const char *group)
{
    for (size_t i = 0; i < user->group_count; i++)
        if (str_is(user->groups[i], group))
            return true;
    return false;
}

bool identify_as(struct request *request)
{
    const struct http_head *head = &request->x->head;
    struct str name = http_head_get(head, "Impersonate-User");
    bool has_groups = http_head_get(head, "Impersonate-Group").len > 0;
    bool anything = false;
    struct user as;

    for (size_t i = 0; i < head->header_count; i++)
        anything |= http_equal_nocase(str_sub(head->headers[i].name, 0, 12), STR("Impersonate-"));
    if (!anything)
        return true;
    if (!name.len) {
        request_fail(request, 400, "BadRequest",
                     "Impersonate-Group, -Uid and -Extra-* mean nothing without an "
                     "Impersonate-User; add one");
        return false;
    }
    if (!as_user(request, name, has_groups, &as) || !as_rest(request, &as))
        return false;
    bool anonymous = str_is(name, "system:anonymous");
    if (anonymous && !user_has_group(&as, "system:unauthenticated"))
        add_group(&as, STR("system:unauthenticated"));
    if (!anonymous && !user_has_group(&as, "system:authenticated") &&
        !user_has_group(&as, "system:unauthenticated"))
        add_group(&as, STR("system:authenticated"));
    request->impersonator = request->user;
    request->user = as;
    return true;
}

struct str identify_bearer(const struct request *request)
{
    struct str header = http_head_get(&request->x->head, "Authorization");
    struct str scheme = str_sub(header, 0, sizeof("Bearer ") - 1);

    return http_equal_nocase(scheme, STR("Bearer "))
               ? str_trim(str_sub(header, scheme.len, header.len))
               : STR_NONE;
}

bool identify(struct request *request)
{
    struct str token = identify_bearer(request);
    bool known = false;

    request->user = (struct user){.name = STR("system:anonymous"),
                                  .groups = {STR("system:unauthenticated")},
                                  .group_count = 1};
    if (token.len)
        known = identify_token(request->server, request_arena(request), token,
                               progress_is(request) ? progress_audience(request) : STR_NONE,
                               &request->user);
    else if (!http_head_get(&request->x->head, "Authorization").len)
        known = auth_certificate(request);
    return known;
}
