#include "api/host_ports.h"

#include "api/service.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOPBACK ((struct service_network){0x7f000000u, 0x01000000u}) /* 127.0.0.0/8 */

/* What nobody may have: what is the Services', and what cannot be listened on. */
static struct str refuse_for_all(struct arena *arena, const struct json *port)
{
    int64_t number = json_i64_or(json_get(port, "hostPort"), 0);
    struct str ip = json_str(json_get(port, "hostIP"));
    uint32_t address = 0;

    if (number > 0 && ip.len && !service_address_parse(ip, &address))
        return str_printf(arena,
                          "hostIP " STR_FMT ": it is not an IPv4 address, and ports of the machine "
                          "are listened on at those only; use one, or leave it out",
                          STR_ARG(ip));
    if (number < NODE_PORT_FIRST || number >= NODE_PORT_FIRST + NODE_PORT_COUNT)
        return STR("");
    return str_printf(arena, "hostPort %lld: ports %d to %d are the nodePorts of Services",
                      (long long)number, NODE_PORT_FIRST, NODE_PORT_FIRST + NODE_PORT_COUNT - 1);
}

static struct str refuse_account_port(struct arena *arena,
                                      const struct host_ports *rules,
                                      const struct json *port)
{
    /* The block that Services have, with the API server's own address below the first of them. */
    struct service_network block = {rules->services.first - 2, rules->services.count + 3};
    int64_t number = json_i64_or(json_get(port, "hostPort"), 0);
    struct str ip = json_str(json_get(port, "hostIP"));
    const char *whose = NULL;

    if (number <= 0)
        return STR("");
    if (number < HOST_PORTS_FREE_FIRST)
        return str_printf(arena, "hostPort %lld: ports below %d are for pods of the owner",
                          (long long)number, HOST_PORTS_FREE_FIRST);
    if (service_network_has(&LOOPBACK, ip))
        whose = "loopback addresses of the machine are";
    else if (service_network_has(&block, ip))
        whose = "addresses of Services are";
    else if (ip.len && str_eq(ip, rules->api))
        whose = "the address of the API server is";
    return whose ? str_printf(arena, "hostIP " STR_FMT ": %s not for pods; leave it out",
                              STR_ARG(ip), whose)
                 : refuse_for_all(arena, port);
}

static struct str in_container(struct arena *arena, const struct json *container, struct str why)
{
    return str_printf(arena, "container " STR_FMT ": ports: " STR_FMT,
                      STR_ARG(json_str(json_get(container, "name"))), STR_ARG(why));
}

struct str host_ports_refuse(struct arena *arena, const struct json *spec)
{
    static const char *const lists[] = {"containers", "initContainers"};

    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_get(spec, lists[i]), container)
            JSON_FOREACH(json_get(container, "ports"), port) {
                struct str why = refuse_for_all(arena, port);

                if (why.len)
                    return in_container(arena, container, why);
            }
    return STR("");
}

/* ---- objects ---- */

struct walk {
    struct arena *arena;
    const struct host_ports *rules;
    struct map had; /* what is refused in the old one */
    bool old;       /* which is walked now */
    struct str why;
};

static void walk_port(struct walk *walk, const struct json *container, const struct json *port)
{
    struct str why = refuse_account_port(walk->arena, walk->rules, port);

    if (!why.len)
        return;
    if (walk->old)
        (void)map_set(&walk->had, json_text(walk->arena, port), walk);
    else if (!map_get(&walk->had, json_text(walk->arena, port)))
        walk->why = in_container(walk->arena, container, why);
}

/* As deep as an object can be (base/json.h). */
static void walk_value(struct walk *walk, const struct json *value)
{
    if (!json_is(value, JSON_OBJECT) && !json_is(value, JSON_ARRAY))
        return;
    JSON_FOREACH(value, child) {
        struct str key = json_key(child);
        bool containers = str_is(key, "containers") || str_is(key, "initContainers");

        if (walk->why.len)
            return;
        if (containers && json_is(child, JSON_ARRAY))
            JSON_FOREACH(child, container)
                JSON_FOREACH(json_get(container, "ports"), port)
                    walk_port(walk, container, port);
        walk_value(walk, child);
    }
}

struct str host_ports_refuse_account(struct arena *arena,
                                     const struct host_ports *rules,
                                     const struct json *object,
                                     const struct json *old)
{
    struct walk walk = {
        .arena = arena, .rules = rules, .had = {.seed = (uintptr_t)arena}, .old = true};

    if (old)
        walk_value(&walk, old);
    walk.old = false;
    walk_value(&walk, object);
    map_done(&walk.had);
    return walk.why;
}
