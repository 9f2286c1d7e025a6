#include "net/service.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/selector.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/address.h"
#include "net/bridge.h"
#include "net/datagrams.h"
#include "net/slices.h"
#include "tool/log.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#define BACKLOG     128
#define RELAY_BYTES 65536
#define READY_MAX   64   /* pods, or addresses, of a service that take turns */
#define RELAYS_MAX  4096 /* connections passed on at a time, over all services */
#define LISTENS_MAX 1024 /* ports of one namespace: each is a descriptor of this process */

struct services {
    struct services_options options;
    struct port *ports;  /* listened on */
    char full[256];      /* the namespace that was told last that it has too many of them */
    size_t handles_open; /* ports and relays */
    size_t relays_open;
    struct relay *relays; /* those that are not closing */
    bool stopping;
};

/* One port of a service, TCP or UDP. */
struct port {
    struct port *next;
    struct services *services;
    char ns[256];
    char name[256]; /* of the service, or the pod */
    char pod[64];   /* uid: it is a hostPort; empty: it is a service's */
    char ip[ADDRESS_BYTES];
    uint16_t number;
    char label[64];           /* its name in the service */
    char target[64];          /* port number or name in the pods */
    struct sockaddr_in fixed; /* where to pass on to, when it is no pod; family 0: a pod */
    unsigned turn;
    bool udp;
    bool unwanted;               /* while its service is looked at */
    struct datagrams *datagrams; /* of UDP */
    uv_tcp_t listener;           /* of TCP */
};

/* One connection passed on: what is read on one side is written to the other, never more than one
 * buffer ahead. */
struct side {
    struct relay *relay;
    uv_tcp_t tcp;
    uv_write_t write;
    uv_shutdown_t shutdown;
    struct side *other;
    bool ended;
    char buffer[RELAY_BYTES];
};

struct relay {
    struct relay *next; /* of the services', newest first */
    struct services *services;
    char ns[256]; /* of the service */
    struct side sides[2];
    uv_connect_t connect;
    int open;
    bool closing;
};

static void services_maybe_free(struct services *services)
{
    if (!services->stopping || services->handles_open)
        return;
    void (*closed)(void *user) = services->options.closed;
    void *user = services->options.user;
    mem_free(services);
    closed(user);
}

/* ---- relays ---- */

static void relay_closed(uv_handle_t *handle)
{
    struct relay *relay = ((struct side *)handle->data)->relay;
    if (--relay->open)
        return;
    struct services *services = relay->services;
    services->relays_open--;
    services->handles_open--;
    mem_free(relay);
    services_maybe_free(services);
}

static void relay_close(struct relay *relay)
{
    if (relay->closing)
        return;
    relay->closing = true;
    for (struct relay **at = &relay->services->relays; *at; at = &(*at)->next)
        if (*at == relay) {
            *at = relay->next;
            break;
        }
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&relay->sides[i].tcp, relay_closed);
}

static void side_read(struct side *side);

static void on_written(uv_write_t *write, int status)
{
    struct side *side = write->data; /* the one that was read */
    if (status < 0)
        relay_close(side->relay);
    else if (!side->relay->closing)
        side_read(side);
}

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct side *side = shutdown->data;
    if (status < 0 || (side->ended && side->other->ended))
        relay_close(side->relay);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)size;
    struct side *side = handle->data;
    *buf = uv_buf_init(side->buffer, RELAY_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct side *side = stream->data;
    if (n == 0)
        return;
    (void)uv_read_stop(stream);
    if (n < 0) {
        side->ended = true;
        side->shutdown.data = side;
        if (n != UV_EOF ||
            uv_shutdown(&side->shutdown, (uv_stream_t *)&side->other->tcp, on_shutdown) < 0)
            relay_close(side->relay);
        return;
    }
    uv_buf_t out = uv_buf_init(buf->base, (unsigned)n);
    side->write.data = side;
    if (uv_write(&side->write, (uv_stream_t *)&side->other->tcp, &out, 1, on_written) < 0)
        relay_close(side->relay);
}

static void side_read(struct side *side)
{
    if (uv_read_start((uv_stream_t *)&side->tcp, on_alloc, on_read) < 0)
        relay_close(side->relay);
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct relay *relay = connect->data;
    if (relay->closing)
        return;
    if (status < 0) {
        relay_close(relay);
        return;
    }
    side_read(&relay->sides[0]);
    side_read(&relay->sides[1]);
}

/* ---- choosing a pod ---- */

bool service_selects(const struct json *service, const struct object *pod)
{
    const struct json *selector = json_at(service, "spec.selector");
    if (!json_count(selector))
        return false;
    JSON_FOREACH(selector, member) {
        bool found = false;
        for (size_t i = 0; i < pod->label_count && !found; i++)
            found = str_eq(pod->labels[i].key, json_key(member)) &&
                    str_eq(pod->labels[i].value, json_str(member));
        if (!found)
            return false;
    }
    return true;
}

static uint16_t named_port(const struct json *containers, const char *name)
{
    JSON_FOREACH(containers, container)
        JSON_FOREACH(json_get(container, "ports"), port)
            if (str_is(json_str(json_get(port, "name")), name))
                return (uint16_t)json_i64_or(json_get(port, "containerPort"), 0);
    return 0;
}

static uint16_t pod_port(const struct net_pod *pod, const char *target)
{
    uint64_t number;
    if (str_to_u64(str_from(target), &number))
        return number <= UINT16_MAX ? (uint16_t)number : 0;
    uint16_t port = named_port(json_at(pod->root, "spec.initContainers"), target);
    return port ? port : named_port(json_at(pod->root, "spec.containers"), target);
}

/* Which of `count` pods is next. sessionAffinity ClientIP: the same one for the same client, as long
 * as the pods are the same; that needs no memory of who was where. */
static size_t port_turn(struct port *port, const struct json *root, uint32_t client, size_t count)
{
    if (!str_is(json_str_at(root, "spec.sessionAffinity"), "ClientIP"))
        return port->turn++ % count;
    return str_hash((struct str){(const char *)&client, sizeof(client)}, 0) % count;
}

/* The IPv4 address at the other end; 0: not known. */
static uint32_t peer_of(const uv_tcp_t *tcp)
{
    struct sockaddr_storage peer = {0};
    int length = sizeof(peer);
    const struct sockaddr_in *in = (const struct sockaddr_in *)&peer;
    return uv_tcp_getpeername(tcp, (struct sockaddr *)&peer, &length) == 0 &&
                   in->sin_family == AF_INET
               ? in->sin_addr.s_addr
               : 0;
}

/* Somebody may write any address: not one that only this machine may reach, and none where we would
 * pass it on to ourselves, without end. */
static bool end_is_refused(const struct port *port, struct str ip, uint16_t number)
{
    const struct services *services = port->services;
    bool refused =
        service_end_wrong(ip) || (services->options.bridge && str_starts(ip, STR("127.")));
    refused = refused || (port->number == number && str_is(ip, port->ip));
    for (const struct port *at = services->ports; at && !refused; at = at->next)
        refused = !at->fixed.sin_family && at->udp == port->udp && at->number == number &&
                  str_is(ip, at->ip);
    return refused;
}

static size_t ends_of_slices(const struct port *port,
                             const struct object *service,
                             struct arena *arena,
                             struct sockaddr_in *out,
                             size_t max)
{
    struct slice_end ends[READY_MAX];
    char ip[ADDRESS_BYTES];
    size_t count = 0;
    const struct json *spec = json_make(arena, "{name: $, protocol: $}", str_from(port->label),
                                        port->udp ? STR("UDP") : STR("TCP"));
    size_t found =
        slices_ends(arena, port->services->options.cache, service, spec, ends, READY_MAX);
    for (size_t i = 0; i < found && count < max; i++) {
        (void)snprintf(ip, sizeof(ip), STR_FMT, STR_ARG(ends[i].ip));
        if (!end_is_refused(port, ends[i].ip, ends[i].port) &&
            uv_ip4_addr(ip, ends[i].port, &out[count]) == 0)
            count++;
    }
    return count;
}

/* Where what arrives there may go. */
static size_t port_ends(const struct port *port,
                        const struct object *service,
                        struct arena *arena,
                        struct sockaddr_in *out,
                        size_t max)
{
    const struct net_pods *pods = &port->services->options.pods;
    const struct selector *selector = object_selector(service);
    struct net_pod pod;
    size_t count = 0;
    if (!selector || !selector->term_count)
        return ends_of_slices(port, service, arena, out, max);
    for (size_t cursor = 0; count < max && pods->next(pods->user, &cursor, &pod);)
        if (str_eq(pod.object->ns, service->ns) && pod.ready && pod.ip[0] &&
            selector_matches(selector, pod.object->labels, pod.object->label_count) &&
            pod_port(&pod, port->target) &&
            uv_ip4_addr(pod.ip, pod_port(&pod, port->target), &out[count]) == 0)
            count++;
    return count;
}

static bool port_choose(struct port *port, uint32_t client, struct sockaddr_in *ret)
{
    if (port->fixed.sin_family) {
        *ret = port->fixed;
        return true;
    }
    const struct object *service = cache_get(port->services->options.cache, &kind_service,
                                             str_from(port->ns), str_from(port->name));
    if (!service)
        return false;
    _cleanup_(arena_done) struct arena arena = {0};
    struct sockaddr_in ends[READY_MAX];
    size_t count = port_ends(port, service, &arena, ends, READY_MAX);
    if (count)
        *ret = ends[port_turn(port, object_json(service, &arena), client, count)];
    return count > 0;
}

/* False: the newest one, which is for `ns`, has no room. */
static bool relays_have_room(struct services *services, const char *ns)
{
    struct share_item items[RELAYS_MAX] = {0};
    struct relay *relays[RELAYS_MAX] = {0};
    size_t count = 0;
    if (services->relays_open <= RELAYS_MAX)
        return true;
    for (struct relay *relay = services->relays->next; relay && count < RELAYS_MAX;
         relay = relay->next)
        count++;
    size_t at = count;
    for (struct relay *relay = services->relays->next; at; relay = relay->next) {
        relays[--at] = relay; /* the oldest first */
        items[at].ns = relay->ns;
    }
    size_t loser = share_loser(items, count, ns, 0);
    if (loser < count)
        relay_close(relays[loser]);
    return loser < count;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct port *port = listener->data;
    struct services *services = port->services;
    if (status < 0)
        return;
    struct relay *relay = MEM_NEW(struct relay);
    relay->services = services;
    relay->open = 2;
    relay->next = services->relays;
    services->relays = relay;
    (void)snprintf(relay->ns, sizeof(relay->ns), "%s", port->ns);
    services->relays_open++;
    services->handles_open++;
    for (int i = 0; i < 2; i++) {
        struct side *side = &relay->sides[i];
        side->relay = relay;
        side->other = &relay->sides[1 - i];
        (void)uv_tcp_init(services->options.loop, &side->tcp);
        side->tcp.data = side;
    }
    struct sockaddr_in to;
    relay->connect.data = relay;
    if (uv_accept(listener, (uv_stream_t *)&relay->sides[0].tcp) < 0 ||
        !relays_have_room(services, relay->ns) ||
        !port_choose(port, peer_of(&relay->sides[0].tcp), &to) ||
        uv_tcp_connect(&relay->connect, &relay->sides[1].tcp, (const struct sockaddr *)&to,
                       on_connect) < 0)
        relay_close(relay);
}

/* ---- ports ---- */

static void port_free(void *user)
{
    struct port *port = user;
    struct services *services = port->services;
    mem_free(port);
    services->handles_open--;
    services_maybe_free(services);
}

static void port_closed(uv_handle_t *handle)
{
    port_free(handle->data);
}

static void port_close(struct port *port)
{
    if (port->udp)
        datagrams_close(port->datagrams);
    else
        uv_close((uv_handle_t *)&port->listener, port_closed);
}

typedef bool port_meant_fn(const struct port *port, const void *of);

static void services_drop_ports(struct services *services, port_meant_fn *meant, const void *of)
{
    for (struct port **at = &services->ports; *at;) {
        struct port *port = *at;
        if (!meant(port, of)) {
            at = &port->next;
            continue;
        }
        *at = port->next;
        if (strcmp(services->full, port->ns) == 0)
            services->full[0] = '\0';
        port_close(port);
    }
}

static bool is_any(const struct port *port, const void *of)
{
    (void)of;
    return port != NULL;
}

static bool is_unwanted(const struct port *port, const void *of)
{
    (void)of;
    return port->unwanted;
}

static bool is_of_service(const struct port *port, const void *of)
{
    const struct object *service = of;
    return !port->fixed.sin_family && str_is(service->ns, port->ns) &&
           str_is(service->name, port->name);
}

static bool is_of_pod(const struct port *port, const void *of)
{
    const struct object *pod = of;
    return port->pod[0] && str_is(pod->uid, port->pod);
}

static bool port_choose_end(void *user, uint32_t client, struct sockaddr_in *ret)
{
    return port_choose(user, client, ret);
}

static int port_listen_tcp(struct port *port, const struct sockaddr_in *at)
{
    (void)uv_tcp_init(port->services->options.loop, &port->listener);
    port->listener.data = port;
    int r = uv_tcp_bind(&port->listener, (const struct sockaddr *)at, 0);
    if (r == 0)
        r = uv_listen((uv_stream_t *)&port->listener, BACKLOG, on_connection);
    if (r < 0)
        uv_close((uv_handle_t *)&port->listener, port_closed);
    return r;
}

static int port_listen_udp(struct port *port, const struct sockaddr_in *at)
{
    int r = datagrams_listen(&(struct datagrams_options){.loop = port->services->options.loop,
                                                         .at = *at,
                                                         .choose = port_choose_end,
                                                         .closed = port_free,
                                                         .user = port},
                             &port->datagrams);
    if (r < 0)
        port_free(port);
    return r;
}

static void tell_trouble(const struct services *services,
                         const struct port *port,
                         const char *why,
                         const char *remedy)
{
    const struct services_options *options = &services->options;
    char words[256];
    log_warn(options->log, "service.unreachable", LOG_C("service", port->name),
             LOG_C("address", port->ip), LOG_I64("port", port->number), LOG_C("error", why));
    if (!options->trouble)
        return;
    (void)snprintf(words, sizeof(words), "%s port %u of %s cannot be listened on: %s; %s",
                   port->udp ? "UDP" : "TCP", port->number, port->ip, why, remedy);
    options->trouble(options->user, &(struct services_trouble){.ns = str_from(port->ns),
                                                               .name = str_from(port->name),
                                                               .pod = str_from(port->pod),
                                                               .words = str_from(words)});
}

/* True: the namespace has as many as it may have, which is told once. */
static bool is_full(struct services *services, const struct port *wanted)
{
    char words[64];
    size_t count = 0;
    for (const struct port *port = services->ports; port; port = port->next)
        count += strcmp(port->ns, wanted->ns) == 0;
    if (count < LISTENS_MAX)
        return false;
    (void)snprintf(words, sizeof(words), "this namespace has %d others", LISTENS_MAX);
    if (strcmp(services->full, wanted->ns) != 0)
        tell_trouble(services, wanted, words,
                     "use fewer ports in its Services and fewer hostPorts in its pods");
    (void)snprintf(services->full, sizeof(services->full), "%s", wanted->ns);
    return true;
}

/* `port` says where; it is freed where that cannot be. */
static void port_listen(struct port *port)
{
    struct services *services = port->services;
    struct sockaddr_in at;
    if (is_full(services, port)) {
        mem_free(port);
        return;
    }
    services->handles_open++;
    int r = uv_ip4_addr(port->ip, port->number, &at);
    if (r < 0) {
        port_free(port);
        return;
    }
    struct port told = *port; /* it may be gone */
    r = port->udp ? port_listen_udp(port, &at) : port_listen_tcp(port, &at);
    if (r < 0) {
        /* Without a bridge a pod of it that listens on all addresses of the machine has this one. */
        uint64_t target = 0;
        if (r != UV_EADDRINUSE || services->options.bridge ||
            !str_to_u64(str_from(told.target), &target) || target != told.number)
            tell_trouble(services, &told, uv_strerror(r),
                         told.pod[0]
                             ? "choose another hostPort or hostIP"
                             : "choose another port, or end what has it on this machine and "
                               "change the Service");
        return;
    }
    port->next = services->ports;
    services->ports = port;
}

/* Nobody behind it is nobody there: who connects is refused, and waits on if it waits for it. */
static void services_want_port(struct services *services,
                               const struct object *service,
                               struct arena *arena,
                               struct str ip,
                               int64_t at,
                               const struct json *spec)
{
    struct port wanted = {.services = services, .number = (uint16_t)at};
    struct sockaddr_in end;
    (void)snprintf(wanted.ns, sizeof(wanted.ns), STR_FMT, STR_ARG(service->ns));
    (void)snprintf(wanted.name, sizeof(wanted.name), STR_FMT, STR_ARG(service->name));
    (void)snprintf(wanted.ip, sizeof(wanted.ip), STR_FMT, STR_ARG(ip));
    (void)snprintf(wanted.label, sizeof(wanted.label), STR_FMT,
                   STR_ARG(json_str(json_get(spec, "name"))));
    wanted.udp = str_is(json_str(json_get(spec, "protocol")), "UDP");
    const struct json *target = json_get(spec, "targetPort");
    int64_t number = json_i64_or(target, json_i64_or(json_get(spec, "port"), 0));
    if (json_is(target, JSON_STRING))
        (void)snprintf(wanted.target, sizeof(wanted.target), STR_FMT, STR_ARG(json_str(target)));
    else
        (void)snprintf(wanted.target, sizeof(wanted.target), "%lld", (long long)number);
    if (!port_ends(&wanted, service, arena, &end, 1))
        return;
    for (struct port *have = services->ports; have; have = have->next)
        if (have->unwanted && have->number == wanted.number && have->udp == wanted.udp &&
            strcmp(have->ip, wanted.ip) == 0 && strcmp(have->label, wanted.label) == 0 &&
            strcmp(have->target, wanted.target) == 0) {
            have->unwanted = false;
            return;
        }
    struct port *port = MEM_NEW(struct port);
    *port = wanted;
    port_listen(port);
}

/* ---- ports of the machine that pods ask for ---- */

static void services_add_host_port(struct services *services,
                                   const struct net_pod *pod,
                                   const struct json *spec)
{
    struct str address = json_str(json_get(spec, "hostIP"));
    struct str protocol = json_str(json_get(spec, "protocol"));
    int64_t to = json_i64_or(json_get(spec, "containerPort"), 0);
    int64_t at = json_i64_or(json_get(spec, "hostPort"), 0);
    if (at <= 0 || at > UINT16_MAX || to <= 0 || to > UINT16_MAX ||
        (protocol.len && !str_is(protocol, "TCP") && !str_is(protocol, "UDP")))
        return;
    struct port *port = MEM_NEW(struct port);
    port->services = services;
    port->number = (uint16_t)at;
    port->udp = str_is(protocol, "UDP");
    (void)snprintf(port->ns, sizeof(port->ns), STR_FMT, STR_ARG(pod->object->ns));
    (void)snprintf(port->name, sizeof(port->name), STR_FMT, STR_ARG(pod->object->name));
    (void)snprintf(port->pod, sizeof(port->pod), STR_FMT, STR_ARG(pod->object->uid));
    if (address.len && !str_is(address, "0.0.0.0"))
        (void)snprintf(port->ip, sizeof(port->ip), STR_FMT, STR_ARG(address));
    else
        bridge_node_address(services->options.bridge, port->ip);
    if (uv_ip4_addr(pod->ip, (int)to, &port->fixed) < 0)
        mem_free(port);
    else
        port_listen(port);
}

void services_pod(struct services *services, const struct net_pod *pod, bool there)
{
    static const char *const lists[] = {"spec.initContainers", "spec.containers"};
    services_drop_ports(services, is_of_pod, pod->object);
    if (!there || !pod->ip[0] || !services->options.bridge ||
        json_bool_or(json_at(pod->root, "spec.hostNetwork"), false))
        return;
    for (size_t i = 0; i < 2; i++)
        JSON_FOREACH(json_at(pod->root, lists[i]), container)
            JSON_FOREACH(json_get(container, "ports"), port)
                services_add_host_port(services, pod, port);
}

/* ---- the API server, for pods in namespaces of their own ---- */

/* "https://127.0.0.1:7443", "https://[::]:7443": its port; 0: none. */
static uint16_t api_port(const char *url)
{
    const char *colon = url ? strrchr(url, ':') : NULL;
    uint64_t number = 0;
    return colon && str_to_u64(str_from(colon + 1), &number) && number <= UINT16_MAX
               ? (uint16_t)number
               : 0;
}

static void services_add_api(struct services *services)
{
    const char *api_url = services->options.api_url;
    uint16_t number = api_port(api_url);
    if (!services->options.bridge || !number)
        return;
    struct port *port = MEM_NEW(struct port);
    port->services = services;
    port->number = SERVICE_API_PORT;
    (void)snprintf(port->ns, sizeof(port->ns), "default");
    (void)snprintf(port->name, sizeof(port->name), "kubernetes");
    bridge_api_address(services->options.bridge, port->ip);
    char host[64];
    struct str url = str_from(api_url);
    (void)snprintf(host, sizeof(host), STR_FMT,
                   STR_ARG(str_sub(url, 8, str_find(str_sub(url, 8, url.len), ':') + 8)));
    if (uv_ip4_addr(host, number, &port->fixed) < 0 || !port->fixed.sin_addr.s_addr)
        (void)uv_ip4_addr("127.0.0.1", number, &port->fixed);
    port_listen(port);
}

/* ---- addresses ---- */

static void address_given(void *user, const struct api_result *result)
{
    (void)user;
    (void)result; /* the watch tells */
}

/* The store gives an address of the network with any write: one that changes nothing will do. */
static void services_ask_address(struct services *services, const struct object *service)
{
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_service,
                                  .ns = service->ns,
                                  .name = service->name,
                                  .uid = service->uid,
                                  .patch = API_PATCH_MERGE,
                                  .body = STR("{}")};
    api_call(services->options.api, &request, address_given, NULL);
}

struct services *services_start(const struct services_options *options)
{
    struct services *services = MEM_NEW(struct services);
    services->options = *options;
    services_add_api(services);
    return services;
}

void services_stop(struct services *services)
{
    services_drop_ports(services, is_any, NULL);
    services->stopping = true;
    services_maybe_free(services);
}

void services_gone(struct services *services, const struct object *service)
{
    services_drop_ports(services, is_of_service, service);
}

static bool is_api(const struct object *service)
{
    return str_is(service->ns, "default") && str_is(service->name, "kubernetes");
}

/* False: its address is one of another network; the node had, or had no, bridge when it was given. */
static bool services_want(struct services *services, const struct object *service)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(service, &arena);
    struct str type = json_str_at(root, "spec.type"), ip = json_str_at(root, "spec.clusterIP");
    struct service_network network = bridge_services(services->options.bridge);
    char node[ADDRESS_BYTES];
    if (str_is(type, "ExternalName") || str_is(ip, "None") || service->deleted_ms)
        return true;
    if (!service_network_has(&network, ip))
        return false;
    bridge_node_address(services->options.bridge, node);
    if (is_api(service)) /* services_add_api() */
        return true;
    JSON_FOREACH(json_at(root, "spec.ports"), port) {
        struct str protocol = json_str(json_get(port, "protocol"));
        int64_t node_port = json_i64_or(json_get(port, "nodePort"), 0);
        if (protocol.len && !str_is(protocol, "TCP") && !str_is(protocol, "UDP"))
            continue;
        services_want_port(services, service, &arena, ip, json_i64_or(json_get(port, "port"), 0),
                           port);
        if (node_port > 0)
            services_want_port(services, service, &arena, str_from(node), node_port, port);
    }
    return true;
}

/* What is listened on already, and still is wanted, goes on. */
static bool services_look(struct services *services, const struct object *service)
{
    for (struct port *port = services->ports; port; port = port->next)
        port->unwanted = is_of_service(port, service);
    bool ours = services_want(services, service);
    services_drop_ports(services, is_unwanted, NULL);
    return ours;
}

void services_observe(struct services *services, const struct object *service)
{
    if (!services_look(services, service))
        services_ask_address(services, service);
}

void services_follow(struct services *services, const struct object *changed)
{
    const struct object *service;
    for (size_t cursor = 0;
         (service = cache_next(services->options.cache, &kind_service, changed->ns, &cursor));) {
        const struct selector *selector = object_selector(service);
        bool selects = selector && selector->term_count;
        if (changed->kind == &kind_pod
                ? selects && selector_matches(selector, changed->labels, changed->label_count)
                : !selects)
            (void)services_look(services, service);
    }
}

bool services_listen(const struct services *services, const struct object *service, int64_t number)
{
    for (const struct port *port = services->ports; port; port = port->next)
        if (port->number == number && is_of_service(port, service))
            return true;
    return false;
}
