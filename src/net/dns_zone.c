#include "net/dns_zone.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/address.h"
#include "net/dns_message.h"
#include "net/service.h"
#include "net/slices.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LABELS_MAX  8  /* of a name below the zone: _port._proto.host.svc.ns.svc has six */
#define ENDS_MAX    64 /* of a Service without a selector, in an answer */
#define ALIASES_MAX 4  /* an ExternalName may name another */

struct asked {
    const struct dns_zone *zone;
    struct arena *arena;
    const struct dns_query *query;
    struct dns_writer *writer;
    struct str owner; /* of the records: the name, or what an alias of it means */
};

static bool wants(const struct asked *asked, enum dns_type type)
{
    return asked->query->type == type || asked->query->type == DNS_ANY;
}

static bool number_of(const char *text, uint32_t *ret)
{
    struct in_addr address;

    if (inet_pton(AF_INET, text, &address) != 1)
        return false;
    *ret = ntohl(address.s_addr);
    return true;
}

/* "10-1-0-2" */
static struct str dashed(struct arena *arena, const char *ip)
{
    char *text = str_c(arena, str_from(ip));

    for (char *c = text; *c; c++)
        if (*c == '.')
            *c = '-';
    return str_from(text);
}

static struct str hostname_of(const struct net_pod *pod)
{
    struct str hostname = json_str_at(pod->root, "spec.hostname");

    return hostname.len ? hostname : pod->object->name;
}

static bool is_of_subdomain(const struct net_pod *pod, struct str ns, struct str subdomain)
{
    return pod->named && str_eq(pod->object->ns, ns) &&
           str_eq(json_str_at(pod->root, "spec.subdomain"), subdomain);
}

/* By this label it is known below its service. */
static struct str label_of(struct arena *arena, const struct net_pod *pod, struct str service)
{
    return str_eq(json_str_at(pod->root, "spec.subdomain"), service) ? hostname_of(pod)
                                                                     : dashed(arena, pod->ip);
}

/* ---- services ---- */

struct service {
    struct str name;
    struct str ns;
    const struct object *object;
    const struct json *root;
    bool headless;
};

static bool find_service(const struct asked *asked,
                         struct str ns,
                         struct str name,
                         struct service *ret)
{
    const struct object *object = cache_get(asked->zone->cache, &kind_service, ns, name);

    if (!object)
        return false;
    arena_defer(asked->arena, object_release, object_ref(object));
    *ret = (struct service){object->name, object->ns, object, object_json(object, asked->arena),
                            false};
    ret->headless = str_is(json_str_at(ret->root, "spec.clusterIP"), "None");
    return true;
}

/* The next pod that a headless service leads to. */
static bool next_endpoint(const struct asked *asked,
                          const struct service *service,
                          size_t *cursor,
                          struct net_pod *ret)
{
    bool all = json_bool_or(json_at(service->root, "spec.publishNotReadyAddresses"), false);

    while (asked->zone->pods.next(asked->zone->pods.user, cursor, ret))
        if (ret->named && (ret->ready || all) && str_eq(ret->object->ns, service->ns) &&
            service_selects(service->root, ret->object))
            return true;
    return false;
}

/* The addresses that were written for one without a selector, and how they are known below it. */
static size_t written_ends(const struct asked *asked,
                           const struct service *service,
                           const struct json *port,
                           struct slice_end out[static ENDS_MAX])
{
    size_t count =
        slices_ends(asked->arena, asked->zone->cache, service->object, port, out, ENDS_MAX);

    for (size_t i = 0; i < count; i++)
        if (!out[i].hostname.len)
            out[i].hostname = dashed(asked->arena, str_c(asked->arena, out[i].ip));
    return count;
}

static void add_address(const struct asked *asked, const char *ip)
{
    uint32_t address;

    if (wants(asked, DNS_A) && number_of(ip, &address))
        dns_add_a(asked->writer, asked->owner, address);
}

/* A number, or the name that a container gives one. */
static uint16_t target_port(const struct json *port, const struct net_pod *pod)
{
    const struct json *target = json_get(port, "targetPort");
    int64_t number = json_i64_or(json_is_null(target) ? json_get(port, "port") : target, 0);

    JSON_FOREACH(json_at(pod->root, "spec.containers"), container)
        JSON_FOREACH(json_get(container, "ports"), named)
            if (json_is(target, JSON_STRING) && json_equal(json_get(named, "name"), target))
                number = json_i64_or(json_get(named, "containerPort"), 0);
    return number > 0 && number <= UINT16_MAX ? (uint16_t)number : 0;
}

static bool port_is(const struct json *port, struct str name, struct str protocol)
{
    struct str has = json_str(json_get(port, "protocol"));
    char small[8] = "tcp";

    for (size_t i = 0; i < has.len && i + 1 < sizeof(small); i++) {
        small[i] = (char)(has.p[i] | 0x20);
        small[i + 1] = '\0';
    }
    return str_eq(json_str(json_get(port, "name")), name) && str_is(protocol, small);
}

static void add_port(const struct asked *asked,
                     const struct service *service,
                     const struct json *port)
{
    struct str below = str_printf(asked->arena, STR_FMT "." STR_FMT ".svc." DNS_ZONE,
                                  STR_ARG(service->name), STR_ARG(service->ns));
    int64_t number = json_i64_or(json_get(port, "port"), 0);
    struct net_pod pod;

    if (!service->headless) {
        dns_add_srv(asked->writer, asked->owner, (uint16_t)number, below);
        return;
    }
    for (size_t cursor = 0; next_endpoint(asked, service, &cursor, &pod);)
        if (target_port(port, &pod))
            dns_add_srv(asked->writer, asked->owner, target_port(port, &pod),
                        str_printf(asked->arena, STR_FMT "." STR_FMT,
                                   STR_ARG(label_of(asked->arena, &pod, service->name)),
                                   STR_ARG(below)));
    struct slice_end ends[ENDS_MAX];
    size_t count = written_ends(asked, service, port, ends);
    for (size_t i = 0; i < count; i++)
        dns_add_srv(asked->writer, asked->owner, ends[i].port,
                    str_printf(asked->arena, STR_FMT "." STR_FMT, STR_ARG(ends[i].hostname),
                               STR_ARG(below)));
}

static bool is_api(struct str ns, struct str name)
{
    return str_is(ns, "default") && str_is(name, "kubernetes");
}

static enum dns_found answer_name(const struct asked *asked,
                                  struct str name,
                                  int depth,
                                  struct str *ret_target);

static enum dns_found answer_service(const struct asked *asked,
                                     const struct service *service,
                                     int depth,
                                     struct str *ret_target)
{
    struct str ip = json_str_at(service->root, "spec.clusterIP");
    struct net_pod pod;

    if (str_is(json_str_at(service->root, "spec.type"), "ExternalName")) {
        struct str target = json_str_at(service->root, "spec.externalName");

        if (str_ends(target, STR(".")))
            target = str_sub(target, 0, target.len - 1);
        dns_add_name(asked->writer, asked->owner, DNS_CNAME, target);
        if (asked->query->type == DNS_CNAME || depth == ALIASES_MAX)
            return DNS_FOUND;
        struct asked next = *asked;
        next.owner = target;
        enum dns_found found = answer_name(&next, target, depth + 1, ret_target);
        if (found == DNS_ELSEWHERE)
            *ret_target = target;
        return found == DNS_ELSEWHERE ? DNS_ALIAS : found == DNS_ALIAS ? DNS_ALIAS : DNS_FOUND;
    }
    if (is_api(service->ns, service->name)) {
        if (wants(asked, DNS_A))
            dns_add_a(asked->writer, asked->owner, asked->zone->api_address);
    } else if (!service->headless) {
        add_address(asked, str_c(asked->arena, ip));
    } else {
        struct slice_end ends[ENDS_MAX];
        size_t count = written_ends(asked, service, NULL, ends);
        for (size_t cursor = 0; next_endpoint(asked, service, &cursor, &pod);)
            add_address(asked, pod.ip);
        for (size_t i = 0; i < count; i++)
            add_address(asked, str_c(asked->arena, ends[i].ip));
    }
    if (wants(asked, DNS_SRV))
        JSON_FOREACH(json_at(service->root, "spec.ports"), port)
            add_port(asked, service, port);
    return DNS_FOUND;
}

static enum dns_found answer_port(const struct asked *asked,
                                  const struct service *service,
                                  struct str name,
                                  struct str protocol)
{
    bool found = false;

    JSON_FOREACH(json_at(service->root, "spec.ports"), port) {
        if (!port_is(port, name, protocol))
            continue;
        found = true;
        if (wants(asked, DNS_SRV))
            add_port(asked, service, port);
    }
    return found ? DNS_FOUND : DNS_NOT_FOUND;
}

/* A pod below a service, by its hostname or by its address. */
static enum dns_found answer_host(const struct asked *asked,
                                  struct str ns,
                                  struct str service_name,
                                  struct str host)
{
    struct service service;
    struct net_pod pod;
    bool found = false;

    for (size_t cursor = 0; asked->zone->pods.next(asked->zone->pods.user, &cursor, &pod);)
        if (is_of_subdomain(&pod, ns, service_name) && str_eq(hostname_of(&pod), host)) {
            add_address(asked, pod.ip);
            found = true;
        }
    if (found || !find_service(asked, ns, service_name, &service) || !service.headless)
        return found ? DNS_FOUND : DNS_NOT_FOUND;
    for (size_t cursor = 0; next_endpoint(asked, &service, &cursor, &pod);)
        if (str_eq(dashed(asked->arena, pod.ip), host)) {
            add_address(asked, pod.ip);
            found = true;
        }
    struct slice_end ends[ENDS_MAX];
    size_t count = written_ends(asked, &service, NULL, ends);
    for (size_t i = 0; i < count; i++)
        if (str_eq(ends[i].hostname, host)) {
            add_address(asked, str_c(asked->arena, ends[i].ip));
            found = true;
        }
    return found ? DNS_FOUND : DNS_NOT_FOUND;
}

/* ---- pods ---- */

static enum dns_found answer_pod(const struct asked *asked, struct str ns, struct str address)
{
    struct net_pod pod;

    for (size_t cursor = 0; asked->zone->pods.next(asked->zone->pods.user, &cursor, &pod);)
        if (pod.named && str_eq(pod.object->ns, ns) &&
            str_eq(dashed(asked->arena, pod.ip), address)) {
            add_address(asked, pod.ip);
            return DNS_FOUND;
        }
    return DNS_NOT_FOUND;
}

/* ---- names ---- */

/* "a.b.cluster.local" -> {"b", "a"}: the last comes first. 0: too many. */
static size_t split(struct str below, struct str labels[static LABELS_MAX])
{
    struct str parts[LABELS_MAX];
    size_t count = 0;

    for (struct str part; str_cut(&below, '.', &part);) {
        if (count == LABELS_MAX)
            return 0;
        parts[count++] = part;
    }
    for (size_t i = 0; i < count; i++)
        labels[i] = parts[count - 1 - i];
    return count;
}

static bool is_underscored(struct str label)
{
    return label.len > 1 && label.p[0] == '_';
}

static enum dns_found answer_svc(const struct asked *asked,
                                 const struct str *labels,
                                 size_t count,
                                 int depth,
                                 struct str *ret_target)
{
    struct service service;
    bool there = find_service(asked, labels[1], labels[2], &service);

    if (count == 3 && there)
        return answer_service(asked, &service, depth, ret_target);
    if (count == 3 && is_api(labels[1], labels[2])) { /* before its object is there */
        if (wants(asked, DNS_A))
            dns_add_a(asked->writer, asked->owner, asked->zone->api_address);
        return DNS_FOUND;
    }
    if (count == 4)
        return answer_host(asked, labels[1], labels[2], labels[3]);
    if (count == 5 && there && is_underscored(labels[3]) && is_underscored(labels[4]))
        return answer_port(asked, &service, str_sub(labels[4], 1, labels[4].len),
                           str_sub(labels[3], 1, labels[3].len));
    return DNS_NOT_FOUND;
}

static enum dns_found answer_name(const struct asked *asked,
                                  struct str name,
                                  int depth,
                                  struct str *ret_target)
{
    struct str labels[LABELS_MAX];

    if (str_is(name, DNS_ZONE))
        return DNS_FOUND;
    if (!str_ends(name, STR("." DNS_ZONE)))
        return DNS_ELSEWHERE;
    size_t count = split(str_sub(name, 0, name.len - strlen("." DNS_ZONE)), labels);
    bool svc = count && str_is(labels[0], "svc");
    bool pod = count && str_is(labels[0], "pod");
    if ((svc || pod) && count <= 2)
        return DNS_FOUND; /* there is something below */
    if (svc)
        return answer_svc(asked, labels, count, depth, ret_target);
    return pod && count == 3 ? answer_pod(asked, labels[1], labels[2]) : DNS_NOT_FOUND;
}

/* ---- addresses ---- */

static bool is_service_at(const struct asked *asked, uint32_t address, struct str *ret)
{
    char text[ADDRESS_BYTES];
    const struct object *object;

    address_v4_text(address, text);
    for (size_t cursor = 0;
         (object = cache_next(asked->zone->cache, &kind_service, STR(""), &cursor));) {
        if (!str_contains(object->raw, str_printf(asked->arena, "\"clusterIP\":\"%s\"", text)))
            continue;
        *ret = str_printf(asked->arena, STR_FMT "." STR_FMT ".svc." DNS_ZONE, STR_ARG(object->name),
                          STR_ARG(object->ns));
        return true;
    }
    return false;
}

static bool is_pod_at(const struct asked *asked, uint32_t address, struct str *ret)
{
    char text[ADDRESS_BYTES];
    struct net_pod pod;

    address_v4_text(address, text);
    for (size_t cursor = 0; asked->zone->pods.next(asked->zone->pods.user, &cursor, &pod);) {
        struct str subdomain = json_str_at(pod.root, "spec.subdomain");

        if (!pod.named || strcmp(pod.ip, text) != 0)
            continue;
        *ret = subdomain.len
                   ? str_printf(asked->arena, STR_FMT "." STR_FMT "." STR_FMT ".svc." DNS_ZONE,
                                STR_ARG(hostname_of(&pod)), STR_ARG(subdomain),
                                STR_ARG(pod.object->ns))
                   : str_printf(asked->arena, STR_FMT "." STR_FMT ".pod." DNS_ZONE,
                                STR_ARG(dashed(asked->arena, pod.ip)), STR_ARG(pod.object->ns));
        return true;
    }
    return false;
}

static enum dns_found answer_reverse(const struct asked *asked, struct str name)
{
    struct str labels[LABELS_MAX], target;
    char text[ADDRESS_BYTES];
    uint32_t address;

    if (!str_ends(name, STR(".in-addr.arpa")) ||
        split(str_sub(name, 0, name.len - strlen(".in-addr.arpa")), labels) != 4)
        return DNS_ELSEWHERE;
    (void)snprintf(text, sizeof(text), "%.3s.%.3s.%.3s.%.3s", str_c(asked->arena, labels[0]),
                   str_c(asked->arena, labels[1]), str_c(asked->arena, labels[2]),
                   str_c(asked->arena, labels[3]));
    if (!number_of(text, &address) || (address & asked->zone->mask) != asked->zone->network)
        return DNS_ELSEWHERE;
    if (address == asked->zone->api_address)
        target = STR("kubernetes.default.svc." DNS_ZONE);
    else if (!is_service_at(asked, address, &target) && !is_pod_at(asked, address, &target))
        return DNS_NOT_FOUND;
    if (wants(asked, DNS_PTR))
        dns_add_name(asked->writer, asked->owner, DNS_PTR, target);
    return DNS_FOUND;
}

enum dns_found dns_zone_answer(const struct dns_zone *zone,
                               struct arena *arena,
                               const struct dns_query *query,
                               struct dns_writer *writer,
                               struct str *ret_target)
{
    assert(query);
    struct str name = str_from(query->name);
    struct asked asked = {zone, arena, query, writer, name};
    enum dns_found found = answer_reverse(&asked, name);

    if (found == DNS_ELSEWHERE)
        found = answer_name(&asked, name, 0, ret_target);
    return found;
}
