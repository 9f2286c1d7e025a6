#include "server/authz.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"
#include "http/server.h"
#include "http1/parse.h"
#include "server/attributes.h"
#include "server/rbac.h"
#include "server/request.h"
#include "server/roles.h"
#include "server/route.h"

#include <stdbool.h>
#include <stddef.h>

#define RBAC_GROUP "rbac.authorization.k8s.io"

static const char *const watched[] = {"roles", "clusterroles", "rolebindings",
                                      "clusterrolebindings"};
#define WATCHED_COUNT COUNT_OF(watched)

/* The objects that decide, kept current by watches. */
struct authz {
    struct api *api;
    struct api_watch *watches[WATCHED_COUNT + 3];
    VEC(const struct object *) rules;
    size_t unsynced; /* of the watches that fill `rules` */
    bool keeps_roles;
    struct map accounts; /* ServiceAccounts by uid */
    struct map pods;     /* by uid */
    struct map nodes;    /* by uid */
    void (*gone)(void *user, struct str uid);
    void *gone_user;
};

/* Takes the object out of the list; with the list's reference. */
static const struct object *rule_take(struct authz *authz, const struct object *object)
{
    for (size_t i = 0; i < authz->rules.count; i++) {
        const struct object *old = authz->rules.items[i];

        if (old->kind != object->kind || !str_eq(old->name, object->name) ||
            !str_eq(old->ns, object->ns))
            continue;
        VEC_REMOVE_SWAP(&authz->rules, i);
        return old;
    }
    return NULL;
}

static void on_rule(void *user, const struct api_change *change)
{
    struct authz *authz = user;
    const struct object *now = change->event == API_DELETED ? NULL : change->object;

    if (change->event == API_SYNCED && authz->unsynced && --authz->unsynced == 0 &&
        authz->keeps_roles)
        roles_install(authz->api, &(struct rbac){authz->rules.items, authz->rules.count});
    if (!change->object)
        return;
    const struct object *old = rule_take(authz, change->object);
    if (now)
        VEC_PUSH(NULL, &authz->rules, object_ref(now));
    if (authz->keeps_roles && !authz->unsynced && change->object->kind == &kind_clusterrole)
        roles_aggregate(authz->api, &(struct rbac){authz->rules.items, authz->rules.count}, old,
                        now);
    object_unref(old);
}

static void note(struct map *map, const struct api_change *change)
{
    if (!change->object)
        return;
    object_unref(change->event == API_DELETED
                     ? map_remove(map, change->object->uid)
                     : map_set(map, change->object->uid, object_ref(change->object)));
}

/* Of what tokens are for. */
static void note_bearer(struct authz *authz, struct map *map, const struct api_change *change)
{
    note(map, change);
    if (change->event == API_DELETED && authz->gone)
        authz->gone(authz->gone_user, change->object->uid);
}

static void on_account(void *user, const struct api_change *change)
{
    struct authz *authz = user;

    note_bearer(authz, &authz->accounts, change);
}

static void on_pod(void *user, const struct api_change *change)
{
    struct authz *authz = user;

    note_bearer(authz, &authz->pods, change);
}

static void on_node(void *user, const struct api_change *change)
{
    note(&((struct authz *)user)->nodes, change);
}

struct authz *authz_new(struct api *api, bool keeps_roles)
{
    struct authz *authz = MEM_NEW(struct authz);

    authz->api = api;
    authz->keeps_roles = keeps_roles;
    authz->unsynced = WATCHED_COUNT;
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
    authz->watches[WATCHED_COUNT + 2] =
        api_watch(api, &(struct api_watch_request){.kind = &kind_node}, on_node, authz);
    return authz;
}

void authz_free(struct authz *authz)
{
    if (!authz)
        return;
    for (size_t i = 0; i < WATCHED_COUNT + 3; i++)
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
    MAP_FOREACH(&authz->nodes, entry)
        object_unref(entry->value);
    map_done(&authz->nodes);
    mem_free(authz);
}

void authz_set_gone(struct authz *authz, void (*gone)(void *user, struct str uid), void *user)
{
    authz->gone = gone;
    authz->gone_user = user;
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

const struct object *authz_node_of(const struct authz *authz, struct str pod_uid)
{
    const struct object *pod = map_get(&authz->pods, pod_uid);
    _cleanup_(arena_done) struct arena arena = {0};

    if (!pod)
        return NULL;
    struct str name = json_str_at(object_json(pod, &arena), "spec.nodeName");
    MAP_FOREACH(&authz->nodes, entry) {
        const struct object *node = entry->value;

        if (str_eq(node->name, name))
            return node;
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

struct str authz_missing(const struct authz *authz,
                         struct arena *arena,
                         const struct user *user,
                         struct str ns,
                         const struct json *rules)
{
    struct rbac rbac = {authz->rules.items, authz->rules.count};
    struct rbac_user rbac_user = {user->name, user->groups, user->group_count};

    return user->owner ? STR("") : rbac_missing(&rbac, arena, &rbac_user, ns, rules);
}

const struct object *authz_role(const struct authz *authz,
                                const struct json *binding,
                                struct str ns)
{
    struct rbac rbac = {authz->rules.items, authz->rules.count};

    return rbac_role(&rbac, binding, ns);
}

struct str authz_sentence(struct arena *arena,
                          const struct user *user,
                          const struct rbac_request *wanted)
{
    if (wanted->path.p)
        return str_printf(arena,
                          "forbidden: User \"" STR_FMT "\" cannot " STR_FMT " path \"" STR_FMT "\"",
                          STR_ARG(user->name), STR_ARG(wanted->verb), STR_ARG(wanted->path));
    struct str where =
        wanted->ns.len ? str_printf(arena, "in the namespace \"" STR_FMT "\"", STR_ARG(wanted->ns))
                       : STR("at the cluster scope");
    struct str which =
        wanted->name.len ? str_printf(arena, " \"" STR_FMT "\"", STR_ARG(wanted->name)) : STR("");
    struct str dot = wanted->group.len ? STR(".") : STR("");
    size_t slash = str_find(wanted->resource, '/');

    return str_printf(arena,
                      STR_FMT STR_FMT STR_FMT STR_FMT " is forbidden: User \"" STR_FMT
                                                      "\" cannot " STR_FMT " resource \"" STR_FMT
                                                      "\" in API group \"" STR_FMT "\" " STR_FMT,
                      STR_ARG(str_sub(wanted->resource, 0, slash)), STR_ARG(dot),
                      STR_ARG(wanted->group), STR_ARG(which), STR_ARG(user->name),
                      STR_ARG(wanted->verb), STR_ARG(wanted->resource), STR_ARG(wanted->group),
                      STR_ARG(where));
}

/* Everyone with a valid token may ask what there is and what he may do. */
static bool is_for_all(const struct request *request)
{
    const struct route *route = &request->route;

    return (route->type != ROUTE_RESOURCE && route->type != ROUTE_METRICS &&
            route->type != ROUTE_ACCOUNTS && route->type != ROUTE_HISTORY) ||
           (str_is(route->group, "authorization.k8s.io") &&
            str_starts(route->plural, STR("selfsubject"))) ||
           str_is(route->plural, "selfsubjectreviews");
}

/* What is kept of the jobs of a namespace, or of all, is for whoever may list them there. */
static bool may_list_jobs(const struct request *request)
{
    struct arena *arena = request_arena(request);
    struct rbac_request jobs = {.verb = STR("list"),
                                .group = str_from(kind_torchrunjob.group),
                                .resource = str_from(kind_torchrunjob.plural),
                                .ns = http_query(arena, request->x->head.query, "namespace")};

    return (request->route.type == ROUTE_ACCOUNTS || request->route.type == ROUTE_HISTORY) &&
           authz_allows(request->server->authz, arena, &request->user, &jobs);
}

bool authz_check(struct request *request)
{
    struct arena *arena = request_arena(request);
    const struct http_head *head = &request->x->head;

    if (request->user.owner || is_for_all(request))
        return true;
    struct rbac_request wanted =
        attributes_of(arena, &request->route, head->method, head->path, head->query);
    if (authz_allows(request->server->authz, arena, &request->user, &wanted) ||
        may_list_jobs(request))
        return true;
    request_fail(request, 403, "Forbidden", STR_FMT,
                 STR_ARG(authz_sentence(arena, &request->user, &wanted)));
    return false;
}
