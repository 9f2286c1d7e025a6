#include "agent/network.h"

#include "agent/internal.h"
#include "agent/service.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "cache/cache.h"
#include "tool/files.h"

#include <stdio.h>

#define LOOPBACK_FIRST  0x7f400001u /* 127.64.0.1 */
#define LOOPBACK_COUNT  0x003ffffdu
#define HOSTS_BYTES_MAX ((size_t)16 << 20)

static bool address_is_taken(const struct agent *agent, const char *ip)
{
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (strcmp(pod->ip, ip) == 0)
            return true;
    }
    return false;
}

void network_take_address(struct pod *pod)
{
    struct agent *agent = pod->agent;
    char ip[sizeof(pod->ip)];
    bool bridged = bridge_has(pod);
    if (json_bool_or(json_at(pod->root, "spec.hostNetwork"), false)) {
        bridge_node_address(agent, pod->ip);
        return;
    }
    do {
        uint32_t a =
            bridged ? agent->bridge.base + BRIDGE_POD_FIRST + agent->next_ip++ % BRIDGE_POD_COUNT
                    : LOOPBACK_FIRST + agent->next_ip++ % LOOPBACK_COUNT;
        (void)snprintf(ip, sizeof(ip), "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255,
                       a & 255);
    } while (address_is_taken(agent, ip));
    (void)snprintf(pod->ip, sizeof(pod->ip), "%s", ip);
}

void network_keep_address(struct pod *pod, struct str address)
{
    (void)snprintf(pod->ip, sizeof(pod->ip), STR_FMT, STR_ARG(address));
    unsigned a, b, c, d;
    if (sscanf(pod->ip, "%u.%u.%u.%u", &a, &b, &c, &d) == 4) {
        uint32_t next = (a << 24 | b << 16 | c << 8 | d) + 1;
        next -= a == 10 ? pod->agent->bridge.base + BRIDGE_POD_FIRST : LOOPBACK_FIRST;
        if (next > pod->agent->next_ip && next < LOOPBACK_COUNT)
            pod->agent->next_ip = next;
    }
}

void network_give_address(struct pod *pod)
{
    if (network_matters(pod))
        network_changed(pod->agent);
}

/* ---- names ---- */

/* "name", where `short_names`, and the three forms with the namespace. */
static void add_names(struct buf *out,
                      struct str ip,
                      struct str name,
                      struct str ns,
                      bool short_names)
{
    buf_addf(out, STR_FMT "\t", STR_ARG(ip));
    if (short_names)
        buf_addf(out, STR_FMT " ", STR_ARG(name));
    buf_addf(out,
             STR_FMT "." STR_FMT " " STR_FMT "." STR_FMT ".svc " STR_FMT "." STR_FMT
                     ".svc.cluster.local\n",
             STR_ARG(name), STR_ARG(ns), STR_ARG(name), STR_ARG(ns), STR_ARG(name), STR_ARG(ns));
}

static bool has_name(const struct pod *pod)
{
    return pod->ip[0] && pod->stage != POD_OVER && pod->stage != POD_GONE;
}

static void add_service(struct agent *agent,
                        const struct object *service,
                        struct str ns,
                        struct arena *arena,
                        struct buf *out)
{
    arena_defer(arena, object_release, object_ref(service));
    const struct json *root = object_json(service, arena);
    struct str ip = json_str_at(root, "spec.clusterIP");
    bool near = str_eq(service->ns, ns);
    if (!str_is(ip, "None")) {
        if (ip.len)
            add_names(out, ip, service->name, service->ns, near);
        return;
    }
    /* Headless: the name leads to the pods themselves. */
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (near && has_name(pod) && str_eq(pod->ns, ns) && service_selects(root, pod))
            add_names(out, str_from(pod->ip), service->name, service->ns, near);
    }
}

/* What every pod of a namespace can resolve: pods with a subdomain, and all services. */
static void add_shared(struct agent *agent, struct str ns, struct arena *arena, struct buf *out)
{
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        struct str subdomain = json_str_at(pod->root, "spec.subdomain");
        struct str hostname = json_str_at(pod->root, "spec.hostname");
        if (!str_eq(pod->ns, ns) || !has_name(pod) || !subdomain.len)
            continue;
        if (!hostname.len)
            hostname = pod->name;
        add_names(out, str_from(pod->ip),
                  str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(hostname), STR_ARG(subdomain)), ns,
                  true);
    }
    const struct object *service;
    for (size_t cursor = 0; (service = cache_next(agent->cache, &kind_service, STR(""), &cursor));)
        add_service(agent, service, ns, arena, out);
    char api[16];
    service_api_address(agent, api);
    add_names(out, str_from(api), STR("kubernetes"), STR("default"), false);
}

static void add_own(struct pod *pod, struct buf *out)
{
    struct str hostname = json_str_at(pod->root, "spec.hostname");
    struct str subdomain = json_str_at(pod->root, "spec.subdomain");
    if (!hostname.len)
        hostname = pod->name;
    buf_add(out, STR("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"));
    if (subdomain.len)
        buf_addf(out, "%s\t" STR_FMT "." STR_FMT "." STR_FMT ".svc.cluster.local " STR_FMT "\n",
                 pod->ip, STR_ARG(hostname), STR_ARG(subdomain), STR_ARG(pod->ns),
                 STR_ARG(hostname));
    else
        buf_addf(out, "%s\t" STR_FMT "\n", pod->ip, STR_ARG(hostname));
    JSON_FOREACH(json_at(pod->root, "spec.hostAliases"), alias)
        JSON_FOREACH(json_get(alias, "hostnames"), name)
            buf_addf(out, STR_FMT "\t" STR_FMT "\n", STR_ARG(json_str(json_get(alias, "ip"))),
                     STR_ARG(json_str(name)));
}

static int write_hosts(struct pod *pod, struct str shared, struct err *err)
{
    _cleanup_(buf_done) struct buf out = {.bytes_max = HOSTS_BYTES_MAX};
    add_own(pod, &out);
    buf_add(&out, shared);
    uint64_t hash = str_hash(buf_str(&out), 1);
    if (hash == pod->hosts_hash)
        return 0;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/hosts", pod->folder);
    int r = files_rewrite(path, buf_str(&out), err);
    if (r == 0)
        pod->hosts_hash = hash;
    return r;
}

void network_changed(struct agent *agent)
{
    agent->hosts_dirty = true;
    map_done(&agent->hosts);
    agent->hosts.seed = agent->options.seed;
    arena_reset(&agent->hosts_arena);
}

/* Built once for each namespace between two changes: many pods start between them. */
static struct str shared_part(struct agent *agent, struct str ns)
{
    struct str *shared = map_get(&agent->hosts, ns);
    if (shared)
        return *shared;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {.bytes_max = HOSTS_BYTES_MAX};
    add_shared(agent, ns, &arena, &text);
    shared = ARENA_NEW(&agent->hosts_arena, struct str);
    *shared = str_dup(&agent->hosts_arena, buf_str(&text));
    map_set(&agent->hosts, str_dup(&agent->hosts_arena, ns), shared);
    return *shared;
}

int network_write_hosts(struct pod *pod, struct err *err)
{
    return write_hosts(pod, shared_part(pod->agent, pod->ns), err);
}

void network_write_all_hosts(struct agent *agent)
{
    MAP_FOREACH(&agent->pods, entry) {
        struct pod *pod = entry->value;
        if (pod->stage == POD_RUNNING)
            (void)write_hosts(pod, shared_part(agent, pod->ns), NULL);
    }
}

bool network_matters(const struct pod *pod)
{
    if (json_str_at(pod->root, "spec.subdomain").len)
        return true;
    const struct object *service;
    for (size_t cursor = 0;
         (service = cache_next(pod->agent->cache, &kind_service, pod->ns, &cursor));) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *root = object_json(service, &arena);
        if (str_is(json_str_at(root, "spec.clusterIP"), "None") && service_selects(root, pod))
            return true;
    }
    return false;
}
