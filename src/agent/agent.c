#include "agent/agent.h"

#include "agent/core.h"
#include "agent/gpu.h"
#include "agent/gpu_health.h"
#include "agent/gpu_look.h"
#include "agent/kept.h"
#include "agent/lifecycle.h"
#include "agent/machine.h"
#include "agent/network.h"
#include "agent/node.h"
#include "agent/oci.h"
#include "agent/pod.h"
#include "agent/pod_run.h"
#include "agent/podio.h"
#include "agent/pressure.h"
#include "agent/protect.h"
#include "agent/ranks.h"
#include "agent/recover.h"
#include "agent/shipped.h"
#include "agent/spawner.h"
#include "agent/storage.h"
#include "agent/trash.h"
#include "agent/usage.h"
#include "agent/volume.h"
#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "cache/cache.h"
#include "net/address.h"
#include "net/bridge.h"
#include "net/dns.h"
#include "net/hosts.h"
#include "net/pods.h"
#include "net/resolv.h"
#include "net/service.h"
#include "net/slices.h"
#include "tool/files.h"
#include "tool/log.h"
#include "tool/timer.h"
#include "tool/turn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* agent: start, stop, watches and turns. */
#define HEARTBEAT_MS       STORAGE_LOOK_MS
#define PRETEND_MEMORY_MIB (80 * 1024) /* of a pretend GPU */

/* ---- turns ---- */

/* Whether the API knows how each pod is that was there at the start. */
static bool pods_are_told(const struct agent *agent)
{
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (pod->dirty || pod->status_under_way ||
            (pod->stage == POD_RUNNING && (pod->awaited || pod->asked)))
            return false;
    }
    return true;
}

static void report_if_whole(struct agent *agent)
{
    bool late = agent_now_ms() - agent->started_ms >= AGENT_REPORT_MS;
    if (agent->reported || !(late || (agent->pods_synced && pods_are_told(agent))))
        return;
    agent->reported = true;
    if (agent->options.reported)
        agent->options.reported(agent->options.reported_user);
}

static void on_turn(void *user)
{
    struct agent *agent = user;
    const struct turn_piece piece = {STR("agent"), STR("step"), STR("pods")};
    turn_enter(agent->loop, &piece);
    /* Addresses first, for all: a pod's hosts file names its whole gang. */
    struct pod *list = agent->dirty;
    agent->dirty = NULL;
    agent->dirty_tail = &agent->dirty;
    for (struct pod *pod = list; pod; pod = pod->next_dirty)
        if (pod->stage == POD_NEW && !pod->ip[0] && !pod->run.stop_ms)
            network_take_address(pod);
    network_write_changed(agent);
    while (list) {
        struct pod *pod = list;
        list = pod->next_dirty;
        pod->dirty = false;
        pod_step(pod);
    }
    turn_leave(agent->loop, &piece);
    report_if_whole(agent);
}

static void on_heartbeat(void *user)
{
    struct agent *agent = user;
    nodes_beat(agent);
    protect_look(agent);
    storage_look(agent);
    usage_sample(agent);
    gpu_look_begin(agent);
    gpu_health_look(agent);
    kept_beat(agent);
    shipped_look(agent);
    report_if_whole(agent);
    if (agent->orphans_left)
        recover_orphans(agent);
}

/* ---- watches ---- */

static void on_pod(void *user, const struct api_change *change)
{
    struct agent *agent = user;
    if (change->event == API_ADDED || change->event == API_MODIFIED)
        pod_observe(agent, change->object);
    else if (change->event == API_DELETED)
        pod_vanish(agent, change->object);
    else if (change->event == API_SYNCED) {
        agent->pods_synced = true;
        recover_orphans(agent);
        agent_turn_soon(agent);
    }
}

static void on_service(struct agent *agent, const struct api_change *change)
{
    if (change->event == API_DELETED)
        services_gone(agent->services, change->object);
    else
        services_observe(agent->services, change->object);
    hosts_changed(agent->hosts);
    agent_turn_soon(agent);
}

static void on_other(void *user, const struct api_change *change)
{
    struct agent *agent = user;
    if (change->event == API_ADDED || change->event == API_MODIFIED)
        cache_put(agent->cache, change->object);
    else if (change->event == API_DELETED)
        cache_drop(agent->cache, change->object);
    else if (change->event == API_SYNCED && ++agent->synced_count == agent->watch_count) {
        /* What pods refer to is known: now the pods. */
        agent->watches[agent->watch_count++] =
            api_watch(agent->api, &(struct api_watch_request){.kind = &kind_pod}, on_pod, agent);
    }
    if (!change->object)
        return;
    if (change->object->kind == &kind_service)
        on_service(agent, change);
    if (change->object->kind == &kind_endpointslice) {
        services_follow(agent->services, change->object);
        hosts_changed(agent->hosts);
        agent_turn_soon(agent);
    }
    /* One that is optional may come later, and go. */
    if (change->object->kind == &kind_configmap || change->object->kind == &kind_secret ||
        change->object->kind == &kind_serviceaccount)
        volume_refresh(agent, change->object);
    if (change->event == API_DELETED && change->object->kind == &kind_pvc)
        volume_claim_gone(agent, change->object);
}

static void start_watches(struct agent *agent)
{
    static const struct kind *const kinds[] = {&kind_service,   &kind_configmap,      &kind_secret,
                                               &kind_pvc,       &kind_serviceaccount, &kind_pv,
                                               &kind_namespace, &kind_endpointslice};
    agent->watch_count = COUNT_OF(kinds);
    for (size_t i = 0; i < agent->watch_count; i++) {
        struct api_watch_request request = {.kind = kinds[i]};
        if (kinds[i] == &kind_endpointslice)
            request.label_selector = STR(SLICES_OTHERS);
        agent->watches[i] = api_watch(agent->api, &request, on_other, agent);
    }
}

/* ---- start ---- */

static const char *option_keep(struct agent *agent, const char *text)
{
    return text ? str_c(&agent->arena, str_from(text)) : NULL;
}

/* A program beside the running one. */
static const char *program_beside(struct agent *agent, const char *name)
{
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = '\0';
    return str_c(&agent->arena, str_printf(&agent->arena, "%s/%s", path, name));
}

static void options_take(struct agent *agent, const struct agent_options *options)
{
    struct agent_options *own = &agent->options;
    *own = *options;
    own->data_dir = option_keep(agent, options->data_dir);
    /* Two musters on one machine share its loopback addresses: each begins somewhere else. */
    agent->addresses.next = (uint32_t)str_hash(str_from(options->data_dir), 0) & 0x3fff00u;
    own->shim_path = options->shim_path ? option_keep(agent, options->shim_path)
                                        : program_beside(agent, "muster-shim");
    own->launch_path = options->launch_path ? option_keep(agent, options->launch_path)
                                            : program_beside(agent, "muster-launch");
    own->proc_dir = option_keep(agent, options->proc_dir);
    own->kubeconfig = option_keep(agent, options->kubeconfig);
    own->api_url = option_keep(agent, options->api_url);
    own->gpu_library = option_keep(agent, options->gpu_library);
    own->node_labels = option_keep(agent, options->node_labels);
    own->node_prefix = options->node_prefix ? option_keep(agent, options->node_prefix) : "node";
    own->node_count = options->node_count ? options->node_count : 1;
    own->gpu_time_slices = options->gpu_time_slices ? options->gpu_time_slices : 1;
    own->token_key = options->token_key.len ? str_dup(&agent->arena, options->token_key) : STR_NONE;
    agent->log = options->log;
}

static int options_check(struct agent *agent, struct err *err)
{
    const struct agent_options *options = &agent->options;
    if (options->data_dir[0] != '/' || strlen(options->data_dir) > POD_PATH_BYTES - 64)
        return err_set(err, -EINVAL, "data folder %s: must be an absolute path of at most %d bytes",
                       options->data_dir, POD_PATH_BYTES - 64);
    if (options->node_count > AGENT_NODES_MAX)
        return err_set(err, -EINVAL, "%u nodes are too many; the limit is %d", options->node_count,
                       AGENT_NODES_MAX);
    if (options->gpus_per_node != AGENT_GPUS_FOUND && options->gpus_per_node > AGENT_GPUS_MAX)
        return err_set(err, -EINVAL, "%u GPUs per node are too many; the limit is %d",
                       options->gpus_per_node, AGENT_GPUS_MAX);
    if (options->images_oci && (geteuid() != 0 || !oci_runtime()))
        return err_set(err, -EPERM, "--images=oci needs root and crun; run muster doctor");
    if (options->gpu_library && access(options->gpu_library, R_OK) < 0)
        return err_set(err, -errno, "--gpu-share-library: %s: %s", options->gpu_library,
                       strerrordesc_np(errno));
    if (access(options->shim_path, X_OK) < 0)
        return err_set(err, -errno, "%s: not found; it must be installed beside muster",
                       options->shim_path);
    return 0;
}

/* Folders of pods have nothing to do with each other. Told so, ext4 spreads them over its groups; else all of
 * them share one, and who makes a file there looks at every one that was removed from it in the last
 * minutes (where it has no journal). Other file systems refuse, and need no such word. */
static void folder_spread(const char *path)
{
    int flags = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && !(flags & FS_TOPDIR_FL)) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    close(fd);
}

static int folders_make(struct agent *agent, struct err *err)
{
    static const char *const names[] = {"pods", "volumes", "points", "root"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof(path), "%s/%s", agent->options.data_dir, names[i]);
        int r = files_make_folder(path, 0711, err);
        if (r)
            return r;
        if (i == 0)
            folder_spread(path);
    }
    struct stat st;
    agent->homes.dev = stat("/", &st) == 0 ? st.st_dev : 0;
    int r = ranks_start(agent, err);
    return r ? r : trash_open(&agent->trash, agent->options.data_dir, err);
}

static int start_spawner(struct agent *agent, struct err *err)
{
    char points[SPAWNER_POINTS_BYTES] = "";
    /* The names of layers are separated by these. */
    if (agent->machine.root && agent->machine.overlay && !strpbrk(agent->options.data_dir, ":,\\"))
        (void)snprintf(points, sizeof(points), "%s/points", agent->options.data_dir);
    return spawner_start(agent->options.shim_path, points, &agent->spawner, err);
}

static void nodes_make(struct agent *agent)
{
    const struct agent_options *options = &agent->options;
    agent->nodes = ARENA_ARRAY(&agent->arena, struct node, options->node_count + 1);
    for (uint32_t i = 0; i < options->node_count; i++) {
        agent->nodes[i].agent = agent;
        (void)snprintf(agent->nodes[i].name, sizeof(agent->nodes[i].name), "%s-%u",
                       options->node_prefix, i);
    }
    agent->nodes[options->node_count].agent = agent;
    assert(options->node_count);
    /* What there is once is advertised once. */
    agent->cpu_milli_per_node =
        options->cpus_per_node ? options->cpus_per_node * 1000
                               : pressure_cpu_milli(agent->machine.cpu_count, options->node_count);
    agent->memory_per_node_bytes = options->memory_per_node_bytes
                                       ? options->memory_per_node_bytes
                                       : agent->machine.memory_bytes / options->node_count;
    agent->disk_per_node_bytes = agent->machine.disk_bytes / options->node_count;
    agent->pods_per_node = options->pods_max ? options->pods_max / options->node_count
                                             : pressure_slots(agent->memory_per_node_bytes);
    if (!agent->pods_per_node)
        agent->pods_per_node = 1;
    agent->gpus_per_node = options->gpus_per_node;
    agent->gpu_product = "Pretend-GPU";
    agent->gpu_memory_mib = PRETEND_MEMORY_MIB;
    if (options->gpus_per_node == AGENT_GPUS_FOUND) {
        const struct gpus *gpus = &agent->machine.gpus;
        agent->gpus_real = gpus->count > 0;
        agent->gpus_per_node = (uint32_t)(gpus->count / options->node_count);
        agent->gpu_product = gpus->items[0].product;
        agent->gpu_memory_mib = gpus->items[0].memory_mib;
    }
}

static int start_bridge(struct agent *agent, struct err *err)
{
    int r = bridge_start(
        &(struct bridge_options){.wish = agent->options.network,
                                 .data_dir = agent->options.data_dir,
                                 .permitted = agent->machine.root && agent->machine.mount_ns,
                                 .log = agent->log},
        &agent->bridge, err);
    bridge_node_address(agent->bridge, agent->node_address);
    agent->addresses.first = bridge_pod_first(agent->bridge);
    return r;
}

static void services_closed(void *user)
{
    struct agent *agent = user;
    agent->streams_open--;
    agent_maybe_free(agent);
}

/* Whoever made the Service, or the pod, is told where he looks. */
static void services_trouble(void *user, const struct services_trouble *trouble)
{
    struct agent *agent = user;
    bool of_pod = trouble->pod.len > 0;
    const struct object *service =
        of_pod ? NULL : cache_get(agent->cache, &kind_service, trouble->ns, trouble->name);
    if (!of_pod && !service)
        return;
    event_send(agent->api, &(struct event){.kind = of_pod ? &kind_pod : &kind_service,
                                           .ns = trouble->ns,
                                           .name = trouble->name,
                                           .uid = of_pod ? trouble->pod : service->uid,
                                           .reason = STR("PortUnavailable"),
                                           .message = trouble->words,
                                           .warning = true,
                                           .component = "muster-agent",
                                           .now_ms = agent_now_ms()});
}

static size_t machine_servers(void *user, struct sockaddr_storage *out)
{
    (void)user;
    return resolv_servers(out, DNS_SERVERS_MAX);
}

/* Of a cluster that has other nodes it would know these pods alone. */
static void start_dns(struct agent *agent, struct net_pods pods)
{
    char address[ADDRESS_BYTES];
    struct err err = {0};
    struct in_addr at;

    bridge_api_address(agent->bridge, address);
    if (!agent->bridge || agent->options.token_requests || inet_pton(AF_INET, address, &at) != 1)
        return;
    struct dns_options options = {
        .loop = agent->loop,
        .zone = {.cache = agent->cache,
                 .pods = pods,
                 .api_address = ntohl(at.s_addr),
                 .network = bridge_base(agent->bridge),
                 .mask = BRIDGE_MASK},
        .at = {.sin_family = AF_INET, .sin_port = htons(DNS_PORT), .sin_addr = at},
        .servers = machine_servers,
        .closed = services_closed,
        .user = agent};
    if (dns_start(&options, &agent->dns, &err) < 0) {
        log_warn(agent->log, "dns.unavailable", LOG_ERR(&err));
        return;
    }
    agent->streams_open++;
    (void)snprintf(agent->dns_address, sizeof(agent->dns_address), "%s", address);
}

static void start_network(struct agent *agent)
{
    struct net_pods pods = network_pods(agent);
    agent->hosts = hosts_new(&(struct hosts_options){
        .cache = agent->cache, .pods = pods, .bridge = agent->bridge, .seed = agent->options.seed});
    agent->streams_open++;
    agent->services = services_start(&(struct services_options){.loop = agent->loop,
                                                                .api = agent->api,
                                                                .cache = agent->cache,
                                                                .pods = pods,
                                                                .bridge = agent->bridge,
                                                                .api_url = agent->options.api_url,
                                                                .log = agent->log,
                                                                .trouble = services_trouble,
                                                                .closed = services_closed,
                                                                .user = agent});
    start_dns(agent, pods);
}

int agent_start(uv_loop_t *loop,
                struct api *api,
                const struct agent_options *options,
                struct agent **ret,
                struct err *err)
{
    struct agent *agent = MEM_NEW(struct agent);
    agent->loop = loop;
    agent->api = api;
    agent->dirty_tail = &agent->dirty;
    agent->on_turn = on_turn;
    agent->started_ms = agent_now_ms();
    agent->pods.seed = agent->by_key.seed = options->seed;
    options_take(agent, options);
    int r = options_check(agent, err);
    if (r == 0)
        r = folders_make(agent, err);
    machine_look(&agent->machine, agent->options.data_dir);
    if (r == 0)
        r = start_bridge(agent, err);
    if (r == 0)
        r = start_spawner(agent, err);
    if (r) {
        bridge_stop(agent->bridge, true); /* the next start finds it */
        arena_done(&agent->arena);
        mem_free(agent);
        return r;
    }
    nodes_make(agent);
    agent->podio.ops = &streams_ops;
    agent->cache = cache_new(options->seed);
    agent->turn = timer_new(loop, agent);
    agent->heartbeat = timer_new(loop, agent);
    agent->ranks = timer_new(loop, agent);
    agent->handles_open = 3;
    timer_every(agent->heartbeat, HEARTBEAT_MS, HEARTBEAT_MS, on_heartbeat);
    start_network(agent);
    usage_start(agent);
    agent_empty_trash(agent);                         /* of an earlier muster */
    agent->next_exec = (unsigned long)agent_now_ms(); /* new to shims that are older than us */
    nodes_start(agent, start_watches);
    *ret = agent;
    return 0;
}

struct service_network agent_services(const struct agent *agent)
{
    return bridge_services(agent->bridge);
}

const char *agent_address(const struct agent *agent)
{
    return agent->node_address;
}

void agent_set_port(struct agent *agent, uint16_t port)
{
    agent->port = port;
}

struct podio *agent_podio(struct agent *agent)
{
    return &agent->podio;
}

/* ---- stop ---- */

static void timer_closed(void *user)
{
    struct agent *agent = user;
    agent->handles_open--;
    agent_maybe_free(agent);
}

/* A pod that goes on needs its network; one whose shim was told to go does not. */
static bool has_linked_pod(const struct agent *agent)
{
    MAP_FOREACH(&agent->pods, entry) {
        const struct pod *pod = entry->value;
        if (pod->link.open && pod->stage < POD_OVER)
            return true;
    }
    return false;
}

void agent_stop(struct agent *agent)
{
    if (!agent)
        return;
    agent->stopping = true;
    atomic_store(&agent->trash.stop, true);
    for (size_t i = 0; i < agent->watch_count; i++)
        api_watch_stop(agent->api, agent->watches[i]);
    for (struct pod *pod = agent->dirty, *next; pod; pod = next) {
        next = pod->next_dirty;
        pod->dirty = false;
    }
    agent->dirty = NULL;
    spawner_stop(TAKE_PTR(agent->spawner));
    services_stop(agent->services);
    dns_stop(agent->dns);
    agent->dns = NULL;
    bridge_stop(TAKE_PTR(agent->bridge), has_linked_pod(agent));
    MAP_FOREACH(&agent->pods, entry)
        pod_free(entry->value);
    timer_close(agent->turn, timer_closed);
    timer_close(agent->heartbeat, timer_closed);
    timer_close(agent->ranks, timer_closed);
}
