#pragma once

#include "base/str.h"

#include <stddef.h>
#include <stdint.h>

struct arena;
struct cache;
struct json;
struct object;

/* slices: where a Service without a selector leads: to the ready addresses of the EndpointSlices that
 * somebody wrote for it, or that mirror its Endpoints (control/builtin/endpoints_mirror.c). The cache
 * has no others. */
#define SLICES_OTHERS "endpointslice.kubernetes.io/managed-by!=endpointslice-controller.k8s.io"

struct slice_end {
    struct str ip;       /* IPv4 */
    struct str hostname; /* empty: none */
    uint16_t port;       /* 0: none was asked for */
};

/* Of `service`, at its port `port` (of spec.ports; NULL: none is asked for). Texts live in the arena.
 * Nothing for a Service with a selector. */
size_t slices_ends(struct arena *arena,
                   const struct cache *cache,
                   const struct object *service,
                   const struct json *port,
                   struct slice_end *out,
                   size_t max);
