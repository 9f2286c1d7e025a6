#include "store/ports.h"

#include "api/admit.h"
#include "api/host_ports.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "store/host.h"
#include "store/shelf.h"
#include "store/state.h"
#include "store/write.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static bool has_node_ports(const struct json *spec)
{
    struct str type = json_str(json_get(spec, "type"));

    return str_is(type, "NodePort") ||
           (str_is(type, "LoadBalancer") &&
            json_bool_or(json_get(spec, "allocateLoadBalancerNodePorts"), true));
}

/* Ports of other Services and of this one: two protocols may share a number, which nobody who asks
 * for nothing is given. */
struct ports_taken {
    bool tcp[NODE_PORT_COUNT];
    bool other[NODE_PORT_COUNT]; /* by UDP or SCTP */
};

static bool is_tcp(const struct json *port)
{
    struct str protocol = json_str(json_get(port, "protocol"));

    return !protocol.len || str_is(protocol, "TCP");
}

static void take(struct ports_taken *taken, const struct json *port)
{
    int64_t number = json_i64_or(json_get(port, "nodePort"), 0) - NODE_PORT_FIRST;

    if (number < 0 || number >= NODE_PORT_COUNT)
        return;
    *(is_tcp(port) ? &taken->tcp[number] : &taken->other[number]) = true;
}

static struct ports_taken *taken_by_others(struct write *write)
{
    struct ports_taken *taken = ARENA_NEW(write->arena, struct ports_taken);
    const struct shelf *shelf = shelf_of(write->store, &kind_service);

    for (size_t i = 0; i < shelf->entries.count; i++) {
        const struct object *service = entry_latest(shelf->entries.items[i]);

        if (!service || service == write->old || !str_contains(service->raw, STR("\"nodePort\":")))
            continue;
        JSON_FOREACH(json_at(object_json(service, write->arena), "spec.ports"), port)
            take(taken, port);
    }
    return taken;
}

/* 0: there is none left. */
static int64_t free_port(struct write *write, const struct ports_taken *taken)
{
    size_t first = (size_t)(store_random(write->store) % NODE_PORT_COUNT);

    for (size_t i = 0; i < NODE_PORT_COUNT; i++) {
        size_t number = (first + i) % NODE_PORT_COUNT;

        if (!taken->tcp[number] && !taken->other[number])
            return (int64_t)number + NODE_PORT_FIRST;
    }
    return 0;
}

/* What it had before, where the writer left it out: by the port and its protocol. */
static int64_t port_before(const struct admit *admit, const struct json *port)
{
    JSON_FOREACH(json_at(admit->old, "spec.ports"), old)
        if (json_equal(json_get(old, "port"), json_get(port, "port")) &&
            is_tcp(old) == is_tcp(port))
            return json_i64_or(json_get(old, "nodePort"), 0);
    return 0;
}

static void check_port(struct write *write,
                       struct admit *admit,
                       const struct ports_taken *taken,
                       const struct json *port,
                       size_t index)
{
    const struct json *given = json_get(port, "nodePort");
    int64_t number = json_i64_or(given, 0) - NODE_PORT_FIRST;
    struct str field = str_printf(write->arena, "spec.ports[%zu].nodePort", index);

    if (number < 0 || number >= NODE_PORT_COUNT)
        admit_invalid(admit, field, given,
                      "provided port is not in the valid range. The range of valid ports is "
                      "30000-32767");
    else if (is_tcp(port) ? taken->tcp[number] : taken->other[number])
        admit_invalid(admit, field, given, "provided port is already allocated");
}

void ports_admit(struct write *write, struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    bool wanted = has_node_ports(spec);
    struct ports_taken *taken = wanted ? taken_by_others(write) : NULL;
    size_t index = 0;

    JSON_FOREACH(json_get(spec, "ports"), port) {
        int64_t given = json_i64_or(json_get(port, "nodePort"), 0);

        if (!wanted) {
            if (!given || given == port_before(admit, port))
                json_remove(port, STR("nodePort"));
            else
                admit_forbidden(admit, str_printf(write->arena, "spec.ports[%zu].nodePort", index),
                                "may not be used when `type` is 'ClusterIP'");
        } else if (given) {
            check_port(write, admit, taken, port, index);
        } else {
            given = port_before(admit, port);
            given = given ? given : free_port(write, taken);
            if (given)
                json_add_i64(write->arena, port, "nodePort", given);
        }
        if (wanted)
            take(taken, port);
        index++;
    }
}
