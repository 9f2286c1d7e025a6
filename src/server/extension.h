#pragma once

#include "api/condition.h"
#include "api/service_find.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct buf;
struct json;

/* extension: what an APIService with spec.service says, what is said of it, and what its server says
 * of itself. Pure; server/aggregate.h has the connections. */
struct extension_spec {
    struct str group;
    struct str version;
    struct str ns; /* of the Service */
    struct str service;
    int64_t port;
    struct str ca; /* PEM; empty: those that the system trusts */
    bool insecure;
    int64_t group_priority;
    int64_t version_priority;
};

/* Strings point into `root` or the arena. False: it has no spec.service. */
bool extension_read(struct arena *arena, const struct json *root, struct extension_spec *ret);
/* As discovery lists them: by priority, then by name. */
int extension_compare(const struct extension_spec *a, const struct extension_spec *b);

/* The condition Available, where the Service leads nowhere. */
struct condition extension_lacks(struct arena *arena,
                                 const struct extension_spec *spec,
                                 const struct service_place *place);
/* Its server was asked and did not answer as it should. */
struct condition extension_fails(struct str message);
struct condition extension_passes(void);

/* The resources of an APIResourceList, which the server answers below /apis/GROUP/VERSION, as those
 * of a version in an APIGroupDiscoveryList: "[...]". False: it is no such list, or
 * longer than any. */
bool extension_resources(struct arena *arena,
                         const struct extension_spec *spec,
                         struct str list,
                         struct buf *out);
/* Where its OpenAPI document is, by what the server answers at /openapi/v3: a path with a query,
 * which points into the arena. Empty: nowhere. */
struct str extension_document(struct arena *arena,
                              const struct extension_spec *spec,
                              struct str index);
