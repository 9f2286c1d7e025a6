#include "net/service.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/share.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/address.h"
#include "net/bridge.h"
#include "net/datagrams.h"
#include "tool/log.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#define BACKLOG     128
#define RELAY_BYTES 65536
#define READY_MAX   64   /* pods of a service that take turns */
#define RELAYS_MAX  4096 /* connections passed on at a time, over all services */

struct services {
    struct services_options options;
    struct port *ports;  /* listened on */
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
    char target[64];          /* port number or name in the pods */
    struct sockaddr_in fixed; /* where to pass on to, when it is no pod; family 0: a pod */
    unsigned turn;
    bool udp;
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

static bool port_choose(struct port *port, uint32_t client, struct sockaddr_in *ret)
{
    if (port->fixed.sin_family) {
        *ret = port->fixed;
        return true;
    }
    const struct services_options *options = &port->services->options;
    const struct object *service =
        cache_get(options->cache, &kind_service, str_from(port->ns), str_from(port->name));
    if (!service)
        return false;
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *root = object_json(service, &arena);
    struct net_pod ready[READY_MAX], pod;
    size_t count = 0;
    for (size_t cursor = 0;
         count < READY_MAX && options->pods.next(options->pods.user, &cursor, &pod);)
        if (str_eq(pod.object->ns, service->ns) && pod.ready && pod.ip[0] &&
            service_selects(root, pod.object) && pod_port(&pod, port->target))
            ready[count++] = pod;
    if (!count)
        return false;
    pod = ready[port_turn(port, root, client, count)];
    uint16_t number = pod_port(&pod, port->target);
    return number && uv_ip4_addr(pod.ip, number, ret) == 0;
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

/* NULL: those of all services. */
static void services_drop_ports(struct services *services, const struct object *service)
{
    for (struct port **at = &services->ports; *at;) {
        struct port *port = *at;
        bool meant = service && !port->fixed.sin_family && str_is(service->ns, port->ns) &&
                     str_is(service->name, port->name);
        if (service && !meant) {
            at = &port->next;
            continue;
        }
        *at = port->next;
        port_close(port);
    }
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

static void tell_trouble(const struct services *services, const struct port *port, int r)
{
    const struct services_options *options = &services->options;
    char words[256];
    log_warn(options->log, "service.unreachable", LOG_C("service", port->name),
             LOG_C("address", port->ip), LOG_I64("port", port->number),
             LOG_C("error", uv_strerror(r)));
    if (!options->trouble)
        return;
    (void)snprintf(words, sizeof(words), "%s port %u of %s cannot be listened on: %s; %s",
                   port->udp ? "UDP" : "TCP", port->number, port->ip, uv_strerror(r),
                   port->pod[0] ? "choose another hostPort or hostIP"
                                : "choose another port, or end what has it on this machine and "
                                  "change the Service");
    options->trouble(options->user, &(struct services_trouble){.ns = str_from(port->ns),
                                                               .name = str_from(port->name),
                                                               .pod = str_from(port->pod),
                                                               .words = str_from(words)});
}

/* `port` says where; it is freed where that cannot be. */
static void port_listen(struct port *port)
{
    struct services *services = port->services;
    struct sockaddr_in at;
    services->handles_open++;
    int r = uv_ip4_addr(port->ip, port->number, &at);
    if (r < 0) {
        port_free(port);
        return;
    }
    struct port told = *port; /* it may be gone */
    r = port->udp ? port_listen_udp(port, &at) : port_listen_tcp(port, &at);
    if (r < 0) {
        tell_trouble(services, &told, r);
        return;
    }
    port->next = services->ports;
    services->ports = port;
}

static void services_add_port(struct services *services,
                              const struct object *service,
                              struct str ip,
                              int64_t at,
                              const struct json *spec)
{
    struct port *port = MEM_NEW(struct port);
    port->services = services;
    (void)snprintf(port->ns, sizeof(port->ns), STR_FMT, STR_ARG(service->ns));
    (void)snprintf(port->name, sizeof(port->name), STR_FMT, STR_ARG(service->name));
    (void)snprintf(port->ip, sizeof(port->ip), STR_FMT, STR_ARG(ip));
    port->number = (uint16_t)at;
    port->udp = str_is(json_str(json_get(spec, "protocol")), "UDP");
    const struct json *target = json_get(spec, "targetPort");
    int64_t number = json_i64_or(target, json_i64_or(json_get(spec, "port"), 0));
    if (json_is(target, JSON_STRING))
        (void)snprintf(port->target, sizeof(port->target), STR_FMT, STR_ARG(json_str(target)));
    else
        (void)snprintf(port->target, sizeof(port->target), "%lld", (long long)number);
    port_listen(port);
}

/* ---- ports of the machine that pods ask for ---- */

static void services_drop_pod(struct services *services, struct str uid)
{
    for (struct port **at = &services->ports; *at;) {
        struct port *port = *at;
        if (!port->pod[0] || !str_is(uid, port->pod)) {
            at = &port->next;
            continue;
        }
        *at = port->next;
        port_close(port);
    }
}

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
    services_drop_pod(services, pod->object->uid);
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
    services_drop_ports(services, NULL);
    services->stopping = true;
    services_maybe_free(services);
}

void services_gone(struct services *services, const struct object *service)
{
    services_drop_ports(services, service);
}

void services_observe(struct services *services, const struct object *service)
{
    _cleanup_(arena_done) struct arena arena = {0};
    services_drop_ports(services, service);
    const struct json *root = object_json(service, &arena);
    struct str type = json_str_at(root, "spec.type"), ip = json_str_at(root, "spec.clusterIP");
    if (str_is(type, "ExternalName") || str_is(ip, "None") || service->deleted_ms)
        return;
    /* One of another network: the node had, or had no, bridge when it was given. */
    struct service_network network = bridge_services(services->options.bridge);
    if (!service_network_has(&network, ip)) {
        services_ask_address(services, service);
        return;
    }
    char node[ADDRESS_BYTES];
    bridge_node_address(services->options.bridge, node);
    JSON_FOREACH(json_at(root, "spec.ports"), port) {
        struct str protocol = json_str(json_get(port, "protocol"));
        int64_t node_port = json_i64_or(json_get(port, "nodePort"), 0);
        if (!json_count(json_at(root, "spec.selector")) ||
            (protocol.len && !str_is(protocol, "TCP") && !str_is(protocol, "UDP")))
            continue;
        services_add_port(services, service, ip, json_i64_or(json_get(port, "port"), 0), port);
        if (node_port > 0)
            services_add_port(services, service, str_from(node), node_port, port);
    }
}
