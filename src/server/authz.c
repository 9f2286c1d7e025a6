#include "server/authz.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/rbac.h"
#include "server/request.h"
#include "server/route.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#define RBAC_GROUP "rbac.authorization.k8s.io"

static const char *const watched[] = {"roles", "clusterroles", "rolebindings",
                                      "clusterrolebindings"};
#define WATCHED_COUNT COUNT_OF(watched)

/* The objects that decide, kept current by watches. */
struct authz {
    struct api *api;
    struct api_watch *watches[WATCHED_COUNT + 2];
    VEC(const struct object *) rules;
    struct map accounts; /* ServiceAccounts by uid */
    struct map pods;     /* by uid */
};

static void on_rule(void *user, const struct api_change *change)
{
    struct authz *authz = user;

    if (!change->object)
        return;
    for (size_t i = 0; i < authz->rules.count; i++) {
        const struct object *old = authz->rules.items[i];

        if (old->kind != change->object->kind || !str_eq(old->name, change->object->name) ||
            !str_eq(old->ns, change->object->ns))
            continue;
        object_unref(old);
        VEC_REMOVE_SWAP(&authz->rules, i);
        break;
    }
    if (change->event != API_DELETED)
        VEC_PUSH(NULL, &authz->rules, object_ref(change->object));
}

static void note(struct map *map, const struct api_change *change)
{
    if (!change->object)
        return;
    object_unref(change->event == API_DELETED
                     ? map_remove(map, change->object->uid)
                     : map_set(map, change->object->uid, object_ref(change->object)));
}

static void on_account(void *user, const struct api_change *change)
{
    note(&((struct authz *)user)->accounts, change);
}

static void on_pod(void *user, const struct api_change *change)
{
    note(&((struct authz *)user)->pods, change);
}

struct authz *authz_new(struct api *api)
{
    struct authz *authz = MEM_NEW(struct authz);

    authz->api = api;
    for (size_t i = 0; i < WATCHED_COUNT; i++) {
        const struct kind *kind =
            kinds_by_plural(api->kinds, STR(RBAC_GROUP), STR("v1"), str_from(watched[i]));

        if (kind)
            authz->watches[i] =
                api_watch(api, &(struct api_watch_request){.kind = kind}, on_rule, authz);
    }
    authz->watches[WATCHED_COUNT] = api_watch(
        api, &(struct api_watch_request){.kind = &kind_serviceaccount}, on_account, authz);
    authz->watches[WATCHED_COUNT + 1] =
        api_watch(api, &(struct api_watch_request){.kind = &kind_pod}, on_pod, authz);
    return authz;
}

void authz_free(struct authz *authz)
{
    if (!authz)
        return;
    for (size_t i = 0; i < WATCHED_COUNT + 2; i++)
        api_watch_stop(authz->api, authz->watches[i]);
    for (size_t i = 0; i < authz->rules.count; i++)
        object_unref(authz->rules.items[i]);
    VEC_DONE(&authz->rules);
    MAP_FOREACH(&authz->accounts, entry)
        object_unref(entry->value);
    map_done(&authz->accounts);
    MAP_FOREACH(&authz->pods, entry)
        object_unref(entry->value);
    map_done(&authz->pods);
    mem_free(authz);
}

bool authz_account_exists(const struct authz *authz, struct str uid)
{
    return map_get(&authz->accounts, uid) != NULL;
}

bool authz_pod_exists(const struct authz *authz, struct str uid)
{
    return map_get(&authz->pods, uid) != NULL;
}

const struct object *authz_pod(const struct authz *authz, struct str ns, struct str name)
{
    MAP_FOREACH(&authz->pods, entry) {
        const struct object *pod = entry->value;

        if (str_eq(pod->name, name) && str_eq(pod->ns, ns))
            return pod;
    }
    return NULL;
}

bool authz_allows(const struct authz *authz,
                  struct arena *arena,
                  const struct user *user,
                  const struct rbac_request *request)
{
    struct rbac rbac = {authz->rules.items, authz->rules.count};
    struct rbac_user rbac_user = {user->name, user->groups, user->group_count};

    return user->owner || rbac_allows(&rbac, arena, &rbac_user, request);
}

void authz_write_rules(const struct authz *authz,
                       struct arena *arena,
                       const struct user *user,
                       struct str ns,
                       struct buf *buf)
{
    struct rbac rbac = {authz->rules.items, authz->rules.count};
    struct rbac_user rbac_user = {user->name, user->groups, user->group_count};

    if (user->owner)
        buf_add(buf, STR("\"resourceRules\":[{\"verbs\":[\"*\"],\"apiGroups\":[\"*\"],"
                         "\"resources\":[\"*\"]}],\"nonResourceRules\":[{\"verbs\":[\"*\"],"
                         "\"nonResourceURLs\":[\"*\"]}]"));
    else
        rbac_write_rules(&rbac, arena, &rbac_user, ns, buf);
}

/* ---- what a request is, in RBAC's words ---- */
static bool is_stream(struct str subresource)
{
    return str_is(subresource, "exec") || str_is(subresource, "attach") ||
           str_is(subresource, "portforward");
}

static struct str verb_of(const struct request *request)
{
    struct str method = request->x->head.method;
    bool named = request->route.name.len > 0;

    /* Opened by GET (WebSocket) or POST (SPDY): the same power either way. */
    if (is_stream(request->route.subresource))
        return STR("create");
    if (str_is(method, "POST"))
        return STR("create");
    if (str_is(method, "PUT"))
        return STR("update");
    if (str_is(method, "PATCH"))
        return STR("patch");
    if (str_is(method, "DELETE"))
        return named ? STR("delete") : STR("deletecollection");
    if (http_query_bool(request->x->head.query, "watch"))
        return STR("watch");
    return named ? STR("get") : STR("list");
}

/* Everyone with a valid token may ask what there is and what he may do. */
static bool is_for_all(const struct request *request)
{
    const struct route *route = &request->route;

    return route->type != ROUTE_RESOURCE ||
           (str_is(route->group, "authorization.k8s.io") &&
            str_starts(route->plural, STR("selfsubject"))) ||
           str_is(route->plural, "selfsubjectreviews");
}

bool authz_check(struct request *request)
{
    struct arena *arena = request_arena(request);
    const struct route *route = &request->route;

    if (request->user.owner || is_for_all(request))
        return true;
    struct str resource = route->subresource.len
                              ? str_printf(arena, STR_FMT "/" STR_FMT, STR_ARG(route->plural),
                                           STR_ARG(route->subresource))
                              : route->plural;
    struct str name = str_is(route->subresource, "proxy")
                          ? str_sub(route->name, 0, str_find(route->name, ':'))
                          : route->name;
    struct str verb = verb_of(request);
    /* The files of a pod are what `cat` in it would print: who may exec may read them, and nobody
     * else. No role can name a right that Kubernetes does not have. */
    if (str_is(resource, "pods/results") &&
        (str_is(request->x->head.method, "GET") || str_is(request->x->head.method, "HEAD"))) {
        resource = STR("pods/exec");
        verb = STR("create");
    }
    struct rbac_request wanted = {
        .verb = verb, .group = route->group, .resource = resource, .ns = route->ns, .name = name};
    if (authz_allows(request->server->authz, arena, &request->user, &wanted))
        return true;
    struct str where =
        route->ns.len ? str_printf(arena, "in the namespace \"" STR_FMT "\"", STR_ARG(route->ns))
                      : STR("at the cluster scope");
    struct str which = name.len ? str_printf(arena, " \"" STR_FMT "\"", STR_ARG(name)) : STR("");
    request_fail(request, 403, "Forbidden",
                 STR_FMT STR_FMT " is forbidden: User \"" STR_FMT "\" cannot " STR_FMT
                                 " resource \"" STR_FMT "\" in API group \"" STR_FMT "\" " STR_FMT,
                 STR_ARG(resource), STR_ARG(which), STR_ARG(request->user.name),
                 STR_ARG(wanted.verb), STR_ARG(resource), STR_ARG(route->group), STR_ARG(where));
    return false;
}
