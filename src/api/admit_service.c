#include "api/admit.h"
#include "api/names.h"
#include "api/service.h"
#include "api/types.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/map.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Services: what is filled in, and what must hold. Their addresses are given by the store, which
 * knows those that are taken. */

/* "127.32.0.2"; false for anything that is no IPv4 address. */
bool service_address_parse(struct str text, uint32_t *ret)
{
    uint32_t address = 0;
    struct str part;
    uint64_t number = 0;

    for (int i = 0; i < 4; i++) {
        if (!str_cut(&text, '.', &part) || part.len > 3 || (part.len > 1 && part.p[0] == '0') ||
            !str_to_u64(part, &number) || number > 255)
            return false;
        address = address << 8 | (uint32_t)number;
    }
    if (text.len)
        return false;
    *ret = address;
    return true;
}

struct str service_address_text(struct arena *arena, uint32_t address)
{
    return str_printf(arena, "%u.%u.%u.%u", address >> 24, address >> 16 & 255, address >> 8 & 255,
                      address & 255);
}

struct str service_network_text(struct arena *arena, const struct service_network *network)
{
    uint32_t last = network->first + (network->count ? network->count - 1 : 0);
    unsigned prefix = 32;

    while (prefix > 0 && (network->first ^ last) >> (32 - prefix))
        prefix--;
    struct str base =
        service_address_text(arena, prefix ? network->first >> (32 - prefix) << (32 - prefix) : 0);
    return str_printf(arena, STR_FMT "/%u", STR_ARG(base), prefix);
}

bool service_network_has(const struct service_network *network, struct str address)
{
    uint32_t number = 0;

    return service_address_parse(address, &number) && number - network->first < network->count;
}

const char *service_end_wrong(struct str ip)
{
    static const struct service_network pods = {0x7f400000u, 0x00400000u};
    static const struct {
        struct service_network block;
        const char *six;
        const char *why;
    } rows[] = {
        {{0, 1}, "::", "may not be unspecified (0.0.0.0 or ::)"},
        {{0x7f000000u, 0x01000000u},
         "::1",
         "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
        {{0xa9fe0000u, 0x10000u},
         "fe80:",
         "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
        {{0xe0000000u, 0x100u},
         "ff02:",
         "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if ((service_network_has(&rows[i].block, ip) && !service_network_has(&pods, ip)) ||
            (i < 2 ? str_is(ip, rows[i].six) : str_starts(ip, str_from(rows[i].six))))
            return rows[i].why;
    return NULL;
}

/* clusterIP and clusterIPs say the same, and an update that leaves them out keeps them. Where one
 * of them was changed and the other left as it was, the other follows. */
static void keep_address(struct admit *admit, struct json *spec)
{
    struct str before = json_str_at(admit->old, "spec.clusterIP");
    const struct json *kept = json_at(admit->old, "spec.clusterIPs");
    struct str address = json_str(json_get(spec, "clusterIP"));
    bool said = json_count(json_get(spec, "clusterIPs")) &&
                !(admit->old && json_equal(json_get(spec, "clusterIPs"), kept));

    if (!address.len && !said)
        address = before;
    if (!address.len)
        return;
    address = str_dup(admit->arena, address);
    json_add_str(admit->arena, spec, "clusterIP", address);
    if (said)
        return;
    if (json_count(kept) && str_eq(address, before))
        json_set(spec, STR("clusterIPs"), json_clone(admit->arena, kept));
    else
        json_push(json_add_array(admit->arena, spec, "clusterIPs"),
                  json_new_str(admit->arena, address));
}

/* A Service that names its endpoints by hand may have them in both families. */
static void fill_families(struct admit *admit, struct json *spec)
{
    bool both = !admit->old && str_is(json_str(json_get(spec, "clusterIP")), "None") &&
                !json_count(json_get(spec, "selector")) &&
                json_is_null(json_get(spec, "ipFamilyPolicy"));

    admit_fill_c(admit, spec, "ipFamilyPolicy", both ? "RequireDualStack" : "SingleStack");
    if (!json_count(json_get(spec, "ipFamilies")))
        json_push(json_add_array(admit->arena, spec, "ipFamilies"),
                  json_new_str(admit->arena, STR("IPv4")));
    if (both && json_count(json_get(spec, "ipFamilies")) == 1)
        json_push(json_get(spec, "ipFamilies"),
                  json_new_str(admit->arena, str_is(json_str_at(spec, "ipFamilies.0"), "IPv4")
                                                 ? STR("IPv6")
                                                 : STR("IPv4")));
}

/* Typed clients of Go write 0 for a port that nobody named. */
static bool port_is_unset(const struct json *port)
{
    return json_is_null(port) || (json_is(port, JSON_STRING) && !json_str(port).len) ||
           (json_is(port, JSON_NUMBER) && json_i64_or(port, -1) == 0);
}

/* What only services of another type have, and this one got when it was of that type, goes. */
static void drop_dependent(struct admit *admit, struct json *spec)
{
    static const struct {
        const char *field;
        const char *types[2]; /* that have it */
    } rows[] = {{"externalTrafficPolicy", {"NodePort", "LoadBalancer"}},
                {"healthCheckNodePort", {"LoadBalancer", "LoadBalancer"}},
                {"loadBalancerClass", {"LoadBalancer", "LoadBalancer"}},
                {"allocateLoadBalancerNodePorts", {"LoadBalancer", "LoadBalancer"}}};
    struct str type = json_str(json_get(spec, "type"));
    bool external = str_is(type, "ClusterIP") && json_count(json_get(spec, "externalIPs"));

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct json *before = json_get(json_get(admit->old, "spec"), rows[i].field);

        if (!str_is(type, rows[i].types[0]) && !str_is(type, rows[i].types[1]) && before &&
            !(i == 0 && external) && json_equal(before, json_get(spec, rows[i].field)))
            json_remove(spec, str_from(rows[i].field));
    }
    if (external)
        admit_fill_c(admit, spec, "externalTrafficPolicy", "Cluster");
    if (str_is(json_str(json_get(spec, "sessionAffinity")), "None"))
        json_remove(spec, STR("sessionAffinityConfig"));
}

void admit_service_default(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");

    if (json_is(spec, JSON_OBJECT))
        drop_dependent(admit, spec);
    JSON_FOREACH(json_at(admit->object, "spec.ports"), port) {
        const struct json *number = json_get(port, "port");

        if (json_is(port, JSON_OBJECT) && port_is_unset(json_get(port, "targetPort")) &&
            !json_is_null(number))
            json_set(port, STR("targetPort"), json_clone(admit->arena, number));
    }
}

/* It was of another type, and still says what it was given then. */
static void drop_address(struct admit *admit, struct json *spec)
{
    static const char *const fields[] = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"};
    const struct json *before = json_get(admit->old, "spec");

    for (size_t i = 0; i < COUNT_OF(fields); i++)
        if (json_get(before, fields[i]) &&
            json_equal(json_get(before, fields[i]), json_get(spec, fields[i])))
            json_remove(spec, str_from(fields[i]));
}

void admit_service_add(struct admit *admit)
{
    struct json *spec = json_get(admit->object, "spec");

    if (str_is(json_str(json_get(spec, "type")), "ExternalName")) {
        drop_address(admit, spec);
    } else {
        fill_families(admit, spec);
        keep_address(admit, spec);
    }
    (void)json_make_path(admit->arena, admit->object, "status.loadBalancer");
}

/* Of one protocol a port stands once, and so does a name. */
static void check_ports(struct admit *admit, const struct json *ports)
{
    /* Where the list lies is nothing a peer can know. */
    _cleanup_(map_done) struct map seen = {.seed = (uintptr_t)ports};
    size_t index = 0;

    JSON_FOREACH(ports, port) {
        struct str path = str_printf(admit->arena, "spec.ports[%zu]", index);
        struct str protocol = json_str(json_get(port, "protocol"));
        struct json *key = json_make(admit->arena, "{protocol: $, port: $}", protocol,
                                     json_i64_or(json_get(port, "port"), 0));

        if (map_set(&seen, json_text(admit->arena, key), key))
            admit_duplicate(admit, path, key);
        if (json_str(json_get(port, "name")).len &&
            map_set(&seen, json_str(json_get(port, "name")), key))
            admit_duplicate(admit, str_printf(admit->arena, STR_FMT ".name", STR_ARG(path)),
                            json_get(port, "name"));
        int64_t number = json_i64_or(json_get(port, "port"), 0);

        if (number < 1 || number > 65535)
            admit_invalid(admit, str_printf(admit->arena, "spec.ports[%zu].port", index),
                          json_get(port, "port"), "must be between 1 and 65535, inclusive");
        if (json_count(ports) > 1 && !json_str(json_get(port, "name")).len)
            admit_required(admit, str_printf(admit->arena, "spec.ports[%zu].name", index), "");
        index++;
    }
}

/* What only a load balancer has. */
static void check_balancer(struct admit *admit, const struct json *spec)
{
    static const char *const fields[] = {"loadBalancerClass", "allocateLoadBalancerNodePorts"};
    const struct json *port = json_get(spec, "healthCheckNodePort");
    bool balancer = str_is(json_str(json_get(spec, "type")), "LoadBalancer");

    for (size_t i = 0; !balancer && i < COUNT_OF(fields); i++)
        if (!json_is_null(json_get(spec, fields[i])))
            admit_forbidden(admit, str_printf(admit->arena, "spec.%s", fields[i]),
                            "may only be used when `type` is 'LoadBalancer'");
    if (json_i64_or(port, 0) &&
        !(balancer && str_is(json_str(json_get(spec, "externalTrafficPolicy")), "Local")))
        admit_invalid(admit, STR("spec.healthCheckNodePort"), port,
                      "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` "
                      "is 'Local'");
}

static bool is_reached_from_outside(const struct json *spec)
{
    struct str type = json_str(json_get(spec, "type"));

    return str_is(type, "NodePort") || str_is(type, "LoadBalancer") ||
           (str_is(type, "ClusterIP") && json_count(json_get(spec, "externalIPs")));
}

/* Who comes from outside, and from where. */
static void check_outside(struct admit *admit, const struct json *spec)
{
    const struct json *policy = json_get(spec, "externalTrafficPolicy");
    const struct json *ranges = json_get(spec, "loadBalancerSourceRanges");
    size_t index = 0;

    if (json_str(policy).len && !is_reached_from_outside(spec))
        admit_invalid(admit, STR("spec.externalTrafficPolicy"), policy,
                      "may only be set for externally-accessible services");
    /* Kubernetes tells of it in these letters. */
    if (json_count(ranges) && !str_is(json_str(json_get(spec, "type")), "LoadBalancer"))
        admit_forbidden(admit, STR("spec.LoadBalancerSourceRanges"),
                        "may only be used when `type` is 'LoadBalancer'");
    JSON_FOREACH(ranges, range) {
        const char *why = type_form_wrong("cidr", str_trim(json_str(range)));

        if (why)
            admit_invalid(admit,
                          str_printf(admit->arena, "spec.LoadBalancerSourceRanges[%zu]", index),
                          range, why);
        index++;
    }
}

static void check_addresses(struct admit *admit, const struct json *spec)
{
    static const char *const fields[] = {"clusterIPs", "ipFamilies", "ipFamilyPolicy"};
    const struct json *list = json_get(spec, "clusterIPs");
    bool external = str_is(json_str(json_get(spec, "type")), "ExternalName");
    size_t index = 0;

    for (size_t i = 0; external && i < COUNT_OF(fields); i++)
        if (json_count(json_get(spec, fields[i])) || json_str(json_get(spec, fields[i])).len ||
            (i == 0 && json_str(json_get(spec, "clusterIP")).len) ||
            (i == 2 && !json_is_null(json_get(spec, fields[i]))))
            admit_forbidden(admit, str_printf(admit->arena, "spec.%s", fields[i]),
                            "may not be set for ExternalName services");
    if (external)
        return;
    if (json_count(list) &&
        !str_eq(json_str(json_first(list)), json_str(json_get(spec, "clusterIP"))))
        admit_invalid(admit, STR("spec.clusterIPs"), list, "first value must match `clusterIP`");
    JSON_FOREACH(list, address) {
        const char *why = type_form_wrong("ip", json_str(address));

        if (why && !(index == 0 && str_is(json_str(address), "None")))
            admit_invalid(admit, str_printf(admit->arena, "spec.clusterIPs[%zu]", index), address,
                          why);
        index++;
    }
}

static void check_selector(struct admit *admit, const struct json *selector)
{
    JSON_FOREACH(selector, label)
        if (names_qualified(json_key(label)))
            admit_invalid(admit, STR("spec.selector"), json_new_str(admit->arena, json_key(label)),
                          names_qualified(json_key(label)));
}

void admit_service_validate(struct admit *admit)
{
    const struct json *spec = json_get(admit->object, "spec");
    struct str type = json_str(json_get(spec, "type"));
    struct str address = json_str(json_get(spec, "clusterIP"));
    static const char *const words[] = {"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"};
    bool external = str_is(type, "ExternalName");
    bool known = false;

    for (size_t i = 0; i < COUNT_OF(words); i++)
        known = known || str_is(type, words[i]);
    if (!known)
        admit_unsupported(admit, STR("spec.type"), json_get(spec, "type"),
                          "\"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"");
    if (external && !json_str(json_get(spec, "externalName")).len)
        admit_required(admit, STR("spec.externalName"), "");
    else if (external && names_dns_subdomain(json_str(json_get(spec, "externalName"))))
        admit_invalid(admit, STR("spec.externalName"), json_get(spec, "externalName"),
                      names_dns_subdomain(json_str(json_get(spec, "externalName"))));
    if (!json_count(json_get(spec, "ports")) && !str_is(address, "None") && !external)
        admit_required(admit, STR("spec.ports"), "");
    check_ports(admit, json_get(spec, "ports"));
    check_balancer(admit, spec);
    check_outside(admit, spec);
    check_addresses(admit, spec);
    check_selector(admit, json_get(spec, "selector"));
}
