#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "http/jwt.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/authz.h"
#include "server/request.h"
#include "tool/clock.h"

#include <gnutls/gnutls.h>
#include <stdbool.h>
#include <stddef.h>

/* Who is asking: the owner by token, anyone our authority signed a certificate for, or a
 * ServiceAccount by its signed token. The owner may ask in someone else's name. */

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
    *user = (struct user){.name = str_printf(arena, "system:serviceaccount:" STR_FMT ":" STR_FMT,
                                             STR_ARG(ns), STR_ARG(name))};
    add_group(user, STR("system:serviceaccounts"));
    add_group(user, str_printf(arena, "system:serviceaccounts:" STR_FMT, STR_ARG(ns)));
    add_group(user, STR("system:authenticated"));
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
        return false;
    identify_account(arena, ret, jwt.ns, jwt.account);
    ret->uid = jwt.account_uid;
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

static void impersonate(struct request *request)
{
    const struct http_head *head = &request->x->head;
    struct str name = http_head_get(head, "Impersonate-User");
    struct str prefix = STR("system:serviceaccount:");

    if (!name.len || !request->user.owner)
        return;
    if (str_starts(name, prefix)) {
        struct str rest = str_sub(name, prefix.len, name.len);
        size_t colon = str_find(rest, ':');
        identify_account(request_arena(request), &request->user, str_sub(rest, 0, colon),
                         str_sub(rest, colon + 1, rest.len));
    } else {
        request->user = (struct user){.name = name};
        add_group(&request->user, STR("system:authenticated"));
    }
    for (size_t i = 0; i < head->header_count; i++)
        if (http_equal_nocase(head->headers[i].name, STR("Impersonate-Group")))
            add_group(&request->user, head->headers[i].value);
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
    if (known)
        impersonate(request);
    return known;
}
