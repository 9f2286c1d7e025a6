#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;
struct err;

/* route: what a path asks for. Pure: looks at text only, not at which kinds exist.
 *
 *     /api/v1/namespaces/NS/pods/NAME/log        core group
 *     /apis/GROUP/VERSION/PLURAL                 named groups
 *
 * Segments are percent-decoded one by one, so an encoded slash cannot make two of one; empty
 * segments, "." and ".." and NUL are refused. */
enum route_type {
    ROUTE_RESOURCE,
    ROUTE_ROOT,          /* / */
    ROUTE_HEALTH,        /* /healthz /livez /readyz and below */
    ROUTE_METRICS,       /* /metrics */
    ROUTE_ACCOUNTS,      /* /accounts */
    ROUTE_HISTORY,       /* /history */
    ROUTE_VERSION,       /* /version */
    ROUTE_ISSUER,        /* /.well-known/openid-configuration */
    ROUTE_ISSUER_KEYS,   /* /openid/v1/jwks */
    ROUTE_API,           /* /api */
    ROUTE_APIS,          /* /apis */
    ROUTE_GROUP,         /* /apis/G */
    ROUTE_GROUP_VERSION, /* /api/v1, /apis/G/V */
    ROUTE_OPENAPI_V2,    /* /openapi/v2 */
    ROUTE_OPENAPI_V3,    /* /openapi/v3 */
    ROUTE_OPENAPI_DOC,   /* /openapi/v3/api/v1, /openapi/v3/apis/G/V */
    ROUTE_UNKNOWN,
};

struct route {
    enum route_type type;
    struct str group;
    struct str version;
    struct str ns;
    struct str plural;
    struct str name;
    struct str subresource;
    struct str rest; /* behind "proxy", as sent: "/a%20b"; empty when nothing follows */
};

/* -EINVAL for a path that nothing may ask for (400). */
int route_parse(struct arena *arena, struct str path, struct route *ret, struct err *err);
/* exec, attach, ports, proxy: what answers is somebody's program. */
bool route_leads_into_pods(const struct route *route);
