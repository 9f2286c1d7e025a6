#include "net/hosts.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "net/address.h"
#include "net/bridge.h"
#include "net/service.h"
#include "net/slices.h"
#include "tool/files.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#define ENDS_MAX        64 /* of a Service without a selector */
#define HOSTS_BYTES_MAX ((size_t)16 << 20)

struct hosts {
    const struct cache *cache;
    struct net_pods pods;
    char api_address[ADDRESS_BYTES];
    bool changed;
    struct arena arena;
    struct map shared; /* namespace -> the part that its pods share; built when needed */
};

struct hosts *hosts_new(const struct hosts_options *options)
{
    struct hosts *hosts = MEM_NEW(struct hosts);
    hosts->cache = options->cache;
    hosts->pods = options->pods;
    hosts->shared.seed = options->seed;
    bridge_api_address(options->bridge, hosts->api_address);
    return hosts;
}

void hosts_free(struct hosts *hosts)
{
    if (!hosts)
        return;
    map_done(&hosts->shared);
    arena_done(&hosts->arena);
    mem_free(hosts);
}

void hosts_changed(struct hosts *hosts)
{
    hosts->changed = true;
    map_done(&hosts->shared);
    arena_reset(&hosts->arena);
}

bool hosts_take_changed(struct hosts *hosts)
{
    bool changed = hosts->changed;
    hosts->changed = false;
    return changed;
}

/* ---- what all pods of a namespace share ---- */

/* "name", where `short_names`, and the three forms with the namespace. */
static void line_add_names(struct buf *out,
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

/* The address of the Service that an ExternalName of this cluster means; empty: none. Other names
 * are for a name server to know, and pods have the machine's. */
static struct str external_ip(const struct hosts *hosts, struct str name, struct arena *arena)
{
    struct str rest = name;
    struct str service, ns;
    if (!str_ends(name, STR(".svc.cluster.local")) || !str_cut(&rest, '.', &service) ||
        !str_cut(&rest, '.', &ns) || !str_is(rest, "svc.cluster.local"))
        return STR("");
    const struct object *object = cache_get(hosts->cache, &kind_service, ns, service);
    if (!object)
        return STR("");
    arena_defer(arena, object_release, object_ref(object));
    struct str ip = json_str_at(object_json(object, arena), "spec.clusterIP");
    return str_is(ip, "None") ? STR("") : ip;
}

static void hosts_add_service(const struct hosts *hosts,
                              const struct object *service,
                              struct str ns,
                              struct arena *arena,
                              struct buf *out)
{
    arena_defer(arena, object_release, object_ref(service));
    const struct json *root = object_json(service, arena);
    struct str ip = json_str_at(root, "spec.clusterIP");
    bool near = str_eq(service->ns, ns);
    if (str_is(json_str_at(root, "spec.type"), "ExternalName"))
        ip = external_ip(hosts, json_str_at(root, "spec.externalName"), arena);
    if (!str_is(ip, "None")) {
        if (ip.len)
            line_add_names(out, ip, service->name, service->ns, near);
        return;
    }
    /* Headless: the name leads to the pods themselves, or to what was written. */
    struct net_pod pod;
    for (size_t cursor = 0; near && hosts->pods.next(hosts->pods.user, &cursor, &pod);)
        if (pod.named && str_eq(pod.object->ns, ns) && service_selects(root, pod.object))
            line_add_names(out, str_from(pod.ip), service->name, service->ns, near);
    struct slice_end ends[ENDS_MAX];
    size_t count = near ? slices_ends(arena, hosts->cache, service, NULL, ends, ENDS_MAX) : 0;
    for (size_t i = 0; i < count; i++) {
        line_add_names(out, ends[i].ip, service->name, service->ns, near);
        if (ends[i].hostname.len)
            line_add_names(out, ends[i].ip,
                           str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(ends[i].hostname),
                                      STR_ARG(service->name)),
                           service->ns, near);
    }
}

static struct str pod_hostname(const struct net_pod *pod)
{
    struct str hostname = json_str_at(pod->root, "spec.hostname");
    return hostname.len ? hostname : pod->object->name;
}

/* What every pod of a namespace can resolve: pods with a subdomain, and all services. */
static void hosts_add_shared(const struct hosts *hosts,
                             struct str ns,
                             struct arena *arena,
                             struct buf *out)
{
    struct net_pod pod;
    for (size_t cursor = 0; hosts->pods.next(hosts->pods.user, &cursor, &pod);) {
        struct str subdomain = json_str_at(pod.root, "spec.subdomain");
        if (str_eq(pod.object->ns, ns) && pod.named && subdomain.len)
            line_add_names(out, str_from(pod.ip),
                           str_printf(arena, STR_FMT "." STR_FMT, STR_ARG(pod_hostname(&pod)),
                                      STR_ARG(subdomain)),
                           ns, true);
    }
    const struct object *service;
    for (size_t cursor = 0; (service = cache_next(hosts->cache, &kind_service, STR(""), &cursor));)
        hosts_add_service(hosts, service, ns, arena, out);
    line_add_names(out, str_from(hosts->api_address), STR("kubernetes"), STR("default"), false);
}

/* Built once for each namespace between two changes: many pods start between them. */
static struct str hosts_shared(struct hosts *hosts, struct str ns)
{
    struct str *shared = map_get(&hosts->shared, ns);
    if (shared)
        return *shared;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf text = {.bytes_max = HOSTS_BYTES_MAX};
    hosts_add_shared(hosts, ns, &arena, &text);
    shared = ARENA_NEW(&hosts->arena, struct str);
    *shared = str_dup(&hosts->arena, buf_str(&text));
    map_set(&hosts->shared, str_dup(&hosts->arena, ns), shared);
    return *shared;
}

/* ---- one pod ---- */

static void hosts_add_own(const struct net_pod *pod, struct buf *out)
{
    struct str hostname = pod_hostname(pod);
    struct str subdomain = json_str_at(pod->root, "spec.subdomain");
    /* Tools know by this line that nobody should edit the file. */
    buf_addf(out, "# Kubernetes-managed hosts file%s.\n",
             json_bool_or(json_at(pod->root, "spec.hostNetwork"), false) ? " (host network)" : "");
    buf_add(out, STR("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"));
    if (subdomain.len)
        buf_addf(out, "%s\t" STR_FMT "." STR_FMT "." STR_FMT ".svc.cluster.local " STR_FMT "\n",
                 pod->ip, STR_ARG(hostname), STR_ARG(subdomain), STR_ARG(pod->object->ns),
                 STR_ARG(hostname));
    else
        buf_addf(out, "%s\t" STR_FMT "\n", pod->ip, STR_ARG(hostname));
    if (json_count(json_at(pod->root, "spec.hostAliases")))
        buf_add(out, STR("# Entries added by HostAliases.\n"));
    JSON_FOREACH(json_at(pod->root, "spec.hostAliases"), alias) {
        buf_add(out, json_str(json_get(alias, "ip")));
        JSON_FOREACH(json_get(alias, "hostnames"), name)
            buf_addf(out, "\t" STR_FMT, STR_ARG(json_str(name)));
        buf_addc(out, '\n');
    }
}

int hosts_write(struct hosts *hosts,
                const struct net_pod *pod,
                const char *folder,
                uint64_t *hash,
                struct err *err)
{
    _cleanup_(buf_done) struct buf out = {.bytes_max = HOSTS_BYTES_MAX};
    hosts_add_own(pod, &out);
    buf_add(&out, hosts_shared(hosts, pod->object->ns));
    uint64_t now = str_hash(buf_str(&out), 1);
    if (now == *hash)
        return 0;
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/hosts", folder);
    int r = files_rewrite(path, buf_str(&out), err);
    if (r == 0)
        *hash = now;
    return r;
}

bool hosts_matter(const struct hosts *hosts, const struct net_pod *pod)
{
    if (json_str_at(pod->root, "spec.subdomain").len)
        return true;
    const struct object *service;
    for (size_t cursor = 0;
         (service = cache_next(hosts->cache, &kind_service, pod->object->ns, &cursor));) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct json *root = object_json(service, &arena);
        if (str_is(json_str_at(root, "spec.clusterIP"), "None") &&
            service_selects(root, pod->object))
            return true;
    }
    return false;
}
