#include "net/slices.h"

#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static struct str protocol_of(const struct json *port)
{
    struct str protocol = json_str(json_get(port, "protocol"));

    return protocol.len ? protocol : STR("TCP");
}

/* Ports of a slice are those of the Service by their names. 0: it has none of that name. */
static uint16_t slice_port(const struct json *slice, const struct json *port)
{
    JSON_FOREACH(json_get(slice, "ports"), at) {
        int64_t number = json_i64_or(json_get(at, "port"), 0);

        if (number > 0 && number <= UINT16_MAX && str_eq(protocol_of(at), protocol_of(port)) &&
            str_eq(json_str(json_get(at, "name")), json_str(json_get(port, "name"))))
            return (uint16_t)number;
    }
    return 0;
}

size_t slices_ends(struct arena *arena,
                   const struct cache *cache,
                   const struct object *service,
                   const struct json *port,
                   struct slice_end *out,
                   size_t max)
{
    const struct object *object = NULL;
    size_t cursor = 0;
    size_t count = 0;

    const struct selector *selector = object_selector(service);
    if (selector && selector->term_count)
        return 0;
    while ((object = cache_next(cache, &kind_endpointslice, service->ns, &cursor))) {
        if (!str_eq(object_label(object, "kubernetes.io/service-name"), service->name))
            continue;
        arena_defer(arena, object_release, object_ref(object));
        const struct json *slice = object_json(object, arena);
        uint16_t number = port ? slice_port(slice, port) : 0;
        if ((port && !number) || !str_is(json_str(json_get(slice, "addressType")), "IPv4"))
            continue;
        JSON_FOREACH(json_get(slice, "endpoints"), end)
            if (count < max && json_bool_or(json_at(end, "conditions.ready"), true))
                out[count++] =
                    (struct slice_end){.ip = json_str(json_first(json_get(end, "addresses"))),
                                       .hostname = json_str(json_get(end, "hostname")),
                                       .port = number};
    }
    return count;
}
