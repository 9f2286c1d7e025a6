#include "server/route.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "http1/parse.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define SEGMENTS_MAX \
    12 /* the longest: /apis/G/V/namespaces/NS/PLURAL/NAME/SUBRESOURCE and some \
        */

struct segments {
    struct str items[SEGMENTS_MAX];
    size_t count;
    struct str rest; /* raw text behind the last item taken */
};

/* Proxy paths belong to the pod: they are handed on as they are, so splitting stops there. */
static bool is_proxy(const struct segments *s)
{
    size_t at = s->count;

    if (at < 4 || !str_is(s->items[at - 1], "proxy"))
        return false;
    /* api v1 namespaces NS pods|services NAME proxy */
    return at == 7 && str_is(s->items[0], "api") && str_is(s->items[2], "namespaces");
}

static int split(struct arena *arena, struct str path, struct segments *ret, struct err *err)
{
    struct str rest = str_sub(path, 1, path.len);
    struct str raw;

    *ret = (struct segments){.rest = STR("")};
    while (str_cut(&rest, '/', &raw)) {
        if (!raw.len && !rest.p) /* one trailing slash is nothing */
            return 0;
        struct str items = http_percent_decode(arena, raw, false);
        struct str item = items; /* a slash may be written %2F: it parts all the same */
        do {
            if (!str_cut(&items, '/', &item) || str_is(item, ".") || str_is(item, "..") ||
                !item.len)
                return err_set(err, -EINVAL,
                               "path: empty, \".\", \"..\" or broken segment \"" STR_FMT "\"",
                               STR_ARG(str_sub(raw, 0, 64)));
            if (ret->count == SEGMENTS_MAX)
                return err_set(err, -EINVAL, "path: too many segments");
            ret->items[ret->count++] = item;
        } while (items.p);
        if (is_proxy(ret)) {
            if (rest.p)
                ret->rest = (struct str){rest.p - 1, rest.len + 1};
            return 0;
        }
    }
    return 0;
}

static void resource(const struct segments *s, size_t at, struct route *route)
{
    route->type = ROUTE_RESOURCE;
    /* namespaces/NS/PLURAL...; but namespaces, namespaces/NAME, namespaces/NAME/status|finalize are
     * the Namespace objects themselves. */
    if (str_is(s->items[at], "namespaces") && s->count > at + 2 &&
        !(!route->group.len && s->count == at + 3 &&
          (str_is(s->items[at + 2], "status") || str_is(s->items[at + 2], "finalize")))) {
        route->ns = s->items[at + 1];
        at += 2;
    }
    route->plural = s->items[at];
    if (s->count > at + 1)
        route->name = s->items[at + 1];
    if (s->count > at + 2)
        route->subresource = s->items[at + 2];
    if (s->count > at + 3)
        route->type = ROUTE_UNKNOWN;
    route->rest = s->rest;
}

static void api_route(const struct segments *s, struct route *route)
{
    bool core = str_is(s->items[0], "api");
    size_t at = core ? 1 : 2;

    if (!core && s->count >= 2)
        route->group = s->items[1];
    if (s->count == 1)
        route->type = core ? ROUTE_API : ROUTE_APIS;
    else if (s->count == at)
        route->type = ROUTE_GROUP;
    else {
        route->version = s->items[at];
        if (s->count == at + 1)
            route->type = ROUTE_GROUP_VERSION;
        else
            resource(s, at + 1, route);
    }
}

static void openapi_route(const struct segments *s, struct route *route)
{
    if (s->count == 2 && str_is(s->items[1], "v2"))
        route->type = ROUTE_OPENAPI_V2;
    else if (s->count == 2 && str_is(s->items[1], "v3"))
        route->type = ROUTE_OPENAPI_V3;
    else if (s->count == 4 && str_is(s->items[1], "v3") && str_is(s->items[2], "api")) {
        route->type = ROUTE_OPENAPI_DOC;
        route->version = s->items[3];
    } else if (s->count == 5 && str_is(s->items[1], "v3") && str_is(s->items[2], "apis")) {
        route->type = ROUTE_OPENAPI_DOC;
        route->group = s->items[3];
        route->version = s->items[4];
    }
}

int route_parse(struct arena *arena, struct str path, struct route *ret, struct err *err)
{
    struct segments segments;
    struct route route = {.type = ROUTE_UNKNOWN,
                          .group = STR(""),
                          .version = STR(""),
                          .ns = STR(""),
                          .plural = STR(""),
                          .name = STR(""),
                          .subresource = STR(""),
                          .rest = STR("")};
    int r = split(arena, path, &segments, err);

    if (r < 0)
        return r;
    if (!segments.count) {
        route.type = ROUTE_ROOT;
    } else if (str_is(segments.items[0], "api") || str_is(segments.items[0], "apis")) {
        api_route(&segments, &route);
    } else if (str_is(segments.items[0], "openapi")) {
        openapi_route(&segments, &route);
    } else if (segments.count == 1 && str_is(segments.items[0], "metrics")) {
        route.type = ROUTE_METRICS;
    } else if (segments.count == 1 && str_is(segments.items[0], "accounts")) {
        route.type = ROUTE_ACCOUNTS;
    } else if (segments.count == 1 && str_is(segments.items[0], "history")) {
        route.type = ROUTE_HISTORY;
    } else if (segments.count == 1 && str_is(segments.items[0], "version")) {
        route.type = ROUTE_VERSION;
    } else if (segments.count == 2 && str_is(segments.items[0], ".well-known") &&
               str_is(segments.items[1], "openid-configuration")) {
        route.type = ROUTE_ISSUER;
    } else if (segments.count == 3 && str_is(segments.items[0], "openid") &&
               str_is(segments.items[1], "v1") && str_is(segments.items[2], "jwks")) {
        route.type = ROUTE_ISSUER_KEYS;
    } else if (str_is(segments.items[0], "healthz") || str_is(segments.items[0], "livez") ||
               str_is(segments.items[0], "readyz")) {
        route.type = ROUTE_HEALTH;
    }
    *ret = route;
    return 0;
}

bool route_leads_into_pods(const struct route *route)
{
    static const char *const streams[] = {"exec", "attach", "portforward", "proxy"};

    for (size_t i = 0; i < COUNT_OF(streams); i++)
        if (str_is(route->subresource, streams[i]))
            return true;
    return false;
}
