#include "agent/node.h"

#include "agent/agent.h"
#include "agent/core.h"
#include "agent/doctor.h"
#include "agent/gpu_health.h"
#include "agent/machine.h"
#include "agent/suspend.h"
#include "api/api.h"
#include "api/condition.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/people.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "net/bridge.h"
#include "tool/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/utsname.h>

/* node: this machine as Node objects, and the Leases that say it is alive. */
#define LEASE_SECONDS 40

static const char *architecture(void)
{
#if defined(__aarch64__)
    return "arm64";
#else
    return "amd64";
#endif
}

static void add_labels(struct agent *agent,
                       struct arena *arena,
                       struct json *labels,
                       const char *name)
{
    json_fill(arena, labels,
              "{kubernetes.io/hostname: $, kubernetes.io/arch: $, "
              "kubernetes.io/os: 'linux', topology.kubernetes.io/zone: 'local'}",
              name, architecture());
    if (agent->gpus_per_node) {
        uint32_t slices = agent->options.gpu_time_slices;
        json_fill(arena, labels,
                  "{nvidia.com/gpu.present: 'true', nvidia.com/gpu.count: $, "
                  "nvidia.com/gpu.replicas: $}",
                  str_printf(arena, "%u", agent->gpus_per_node), str_printf(arena, "%u", slices));
        /* As NVIDIA's device plugin marks GPUs that are advertised several times. */
        json_add_str(arena, labels, "nvidia.com/gpu.product",
                     str_printf(arena, "%s%s", agent->gpu_product,
                                agent->options.gpu_time_slices > 1 ? "-SHARED" : ""));
        json_add_str(arena, labels, "nvidia.com/gpu.memory",
                     str_printf(arena, "%lld", (long long)agent->gpu_memory_mib));
    }
    if (suspend_ability(agent))
        json_add_c(arena, labels, SUSPEND_LABEL, suspend_ability(agent));
    struct str rest = str_from(agent->options.node_labels), pair;
    while (str_cut(&rest, ',', &pair)) {
        size_t at = str_find(pair, '=');
        if (at && pair.len)
            (void)json_set(labels, str_sub(pair, 0, at),
                           json_new_str(arena, str_sub(pair, at + 1, pair.len)));
    }
}

/* "4", or "2666m" where it does not divide. */
static struct str cpu_text(struct arena *arena, int64_t milli)
{
    return milli % 1000 ? str_printf(arena, "%lldm", (long long)milli)
                        : str_printf(arena, "%lld", (long long)(milli / 1000));
}

static void add_resources(struct agent *agent, struct arena *arena, struct json *resources)
{
    json_fill(arena, resources,
              "{cpu: $, memory: $, ephemeral-storage: $, hugepages-2Mi: '0', pods: $}",
              cpu_text(arena, agent->cpu_milli_per_node),
              str_printf(arena, "%lldKi", (long long)(agent->memory_per_node_bytes / 1024)),
              str_printf(arena, "%lldKi", (long long)(agent->disk_per_node_bytes / 1024)),
              str_printf(arena, "%lld", (long long)agent->pods_per_node));
    if (agent->gpus_per_node)
        json_add_str(
            arena, resources, "nvidia.com/gpu",
            str_printf(arena, "%u", agent->gpus_per_node * agent->options.gpu_time_slices));
}

static void add_condition(struct arena *arena,
                          struct json *conditions,
                          const char *type,
                          bool status,
                          const char *reason,
                          const char *message)
{
    struct json *condition =
        json_push(conditions, json_make(arena, "{type: $, status: $, reason: $, message: $}", type,
                                        status ? "True" : "False", reason, message));
    struct str now = time_text(arena, agent_now_ms());
    json_add_str(arena, condition, "lastHeartbeatTime", now);
    json_add_str(arena, condition, "lastTransitionTime", now);
}

static const struct pressure_text {
    const char *condition, *taint, *reason_fine, *words_fine, *reason_short, *words_short;
} pressure_texts[PRESSURE_CONDITIONS] = {
    {"MemoryPressure", "node.kubernetes.io/memory-pressure", "KubeletHasSufficientMemory",
     "memory is available", "KubeletHasInsufficientMemory",
     "the machine is short of memory: no pod is started, and pods may be evicted"},
    {"DiskPressure", "node.kubernetes.io/disk-pressure", "KubeletHasNoDiskPressure",
     "disk space is available", "KubeletHasDiskPressure",
     "the disk of the data folder has nearly no bytes or inodes left: no pod is started, and pods "
     "may be evicted"},
    {"PIDPressure", "node.kubernetes.io/pid-pressure", "KubeletHasSufficientPID",
     "process ids are available", "KubeletHasInsufficientPID",
     "the machine is short of process ids: no pod is started, and pods may be evicted"},
};

/* What `muster doctor` says about the machine, where pods depend on it. */
static void add_findings(struct agent *agent, struct arena *arena, struct json *conditions)
{
    struct finding *findings = ARENA_ARRAY(arena, struct finding, DOCTOR_FINDINGS_MAX);
    size_t count = doctor_machine(&agent->machine, findings);
    for (size_t i = 0; i < count; i++)
        if (findings[i].condition)
            add_condition(arena, conditions, findings[i].condition, findings[i].ok,
                          findings[i].ok ? "Permitted" : "NotPermitted", findings[i].words);
}

/* What the driver says against the node's GPUs: a word for it, or NULL. */
static const char *node_gpu_fault(const struct agent *agent,
                                  const struct node *node,
                                  char ret[static GPU_HEALTH_TEXT])
{
    size_t from = (size_t)(node - agent->nodes) * agent->gpus_per_node;

    ret[0] = '\0';
    if (!agent->gpus_real || from + agent->gpus_per_node > GPU_HEALTH_MAX)
        return NULL;
    return gpu_signs_judge(&agent->health.seen[from], agent->gpus_per_node, ret);
}

static void add_gpu_health(struct agent *agent,
                           struct arena *arena,
                           const struct node *node,
                           struct json *conditions)
{
    char words[GPU_HEALTH_TEXT];

    if (!agent->gpus_real || !agent->gpus_per_node)
        return;
    const char *fault = node_gpu_fault(agent, node, words);
    add_condition(arena, conditions, GPU_HEALTH_CONDITION, !fault, fault ? fault : "NoFault",
                  fault ? str_c(arena, str_from(words)) : "the driver reports no fault");
}

/* Why pods have no network of their own, and what to do. */
static struct str network_words(const struct agent *agent, struct arena *arena)
{
    const char *missing = agent->options.network == BRIDGE_AUTO
                              ? bridge_missing(agent->machine.root && agent->machine.mount_ns)
                              : NULL;

    if (agent->bridge)
        return STR("each pod has a network of its own");
    return str_printf(arena,
                      "pods share this machine's network%s%s%s; pods of people wait until "
                      "muster is started with --pod-network=bridge",
                      missing ? " (for one of their own: " : "", missing ? missing : "",
                      missing ? ")" : "");
}

static struct json *node_status(struct agent *agent, struct arena *arena, const struct node *node)
{
    const struct machine *machine = &agent->machine;
    struct json *status = json_new_object(arena);
    add_resources(agent, arena, json_add_object(arena, status, "capacity"));
    add_resources(agent, arena, json_add_object(arena, status, "allocatable"));
    struct json *conditions = json_add_array(arena, status, "conditions");
    for (enum pressure_kind i = 0; i < PRESSURE_CONDITIONS; i++) {
        const struct pressure_text *text = &pressure_texts[i];
        bool is_short = pressure_is_told(&agent->pressure, i);
        add_condition(arena, conditions, text->condition, is_short,
                      is_short ? text->reason_short : text->reason_fine,
                      is_short ? text->words_short : text->words_fine);
    }
    add_findings(agent, arena, conditions);
    /* Pods of people need one: `muster user add` looks here. */
    add_condition(arena, conditions, NETWORK_CONDITION, agent->bridge != NULL,
                  agent->bridge ? "Bridge" : "HostNetwork",
                  str_c(arena, network_words(agent, arena)));
    add_gpu_health(agent, arena, node, conditions);
    add_condition(arena, conditions, "Ready", true, "KubeletReady", "the node agent is running");
    struct json *addresses = json_add_array(arena, status, "addresses");
    struct json *address = json_push(addresses, json_new_object(arena));
    json_add_c(arena, address, "type", "InternalIP");
    json_add_c(arena, address, "address", agent->node_address);
    address = json_push(addresses, json_new_object(arena));
    json_add_c(arena, address, "type", "Hostname");
    json_add_c(arena, address, "address", node->name);
    if (agent->port)
        json_add_i64(arena, json_make_path(arena, status, "daemonEndpoints.kubeletEndpoint"),
                     "Port", agent->port);
    json_fill(arena, status,
              "{nodeInfo: {architecture: $, bootID: $, machineID: $, systemUUID: $, "
              "kernelVersion: $, osImage: $, operatingSystem: 'linux', "
              "containerRuntimeVersion: $, kubeletVersion: $, kubeProxyVersion: ''}}",
              architecture(), machine->boot_id, machine->machine_id, machine->machine_id,
              machine->kernel, machine->os_image, "muster-shim://" MUSTER_VERSION,
              "v1.32.0-muster-" MUSTER_VERSION);
    return status;
}

static void done_status(void *user, const struct api_result *result)
{
    struct node *node = user;
    node->registered = result->code == 0;
}

static void node_send_status(struct agent *agent, struct node *node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = json_new_object(&arena);
    (void)json_set(patch, STR("status"), node_status(agent, &arena, node));
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_node,
                                  .name = str_from(node->name),
                                  .subresource = STR("status"),
                                  .patch = API_PATCH_MERGE,
                                  .body = json_text(&arena, patch)};
    agent_call(agent, &request, done_status, node);
}

static struct json *node_metadata(struct agent *agent, struct arena *arena, const char *name)
{
    struct json *metadata = json_new_object(arena);
    json_add_c(arena, metadata, "name", name);
    add_labels(agent, arena, json_add_object(arena, metadata, "labels"), name);
    return metadata;
}

static void done_patch(void *user, const struct api_result *result)
{
    (void)user;
    (void)result; /* the heartbeat says it again */
}

/* A node that is there already keeps what others wrote on it (taints, cordons, labels). */
static void done_create(void *user, const struct api_result *result)
{
    struct node *node = user;
    struct agent *agent = node->agent;
    if (result->code == -EEXIST || (result->err && result->err->http_status == 409)) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct json *patch = json_new_object(&arena);
        (void)json_set(patch, STR("metadata"), node_metadata(agent, &arena, node->name));
        struct api_request request = {.verb = API_PATCH,
                                      .kind = &kind_node,
                                      .name = str_from(node->name),
                                      .patch = API_PATCH_MERGE,
                                      .body = json_text(&arena, patch)};
        agent_call(agent, &request, done_patch, node);
    } else if (result->code) {
        log_error(agent->log, "node.refused", LOG_C("node", node->name), LOG_ERR(result->err));
    }
    node_send_status(agent, node);
}

static void node_send(struct agent *agent, struct node *node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *object =
        json_make(&arena, "{apiVersion: 'v1', kind: 'Node', metadata: $, spec: {}, status: $}",
                  node_metadata(agent, &arena, node->name), node_status(agent, &arena, node));
    struct api_request request = {
        .verb = API_CREATE, .kind = &kind_node, .body = json_text(&arena, object)};
    agent_call(agent, &request, done_create, node);
}

/* ---- pressure ---- */

static bool taint_is_ours(const struct json *taint)
{
    for (enum pressure_kind i = 0; i < PRESSURE_CONDITIONS; i++)
        if (str_is(json_str(json_get(taint, "key")), pressure_texts[i].taint))
            return true;
    return str_is(json_str(json_get(taint, "key")), GPU_HEALTH_TAINT);
}

static void done_taints(void *user, const struct api_result *result);

/* A list is written whole: what others put there stays, and nothing is written where it changed in
 * the meantime. */
static void done_look(void *user, const struct api_result *result)
{
    struct node *node = user;
    struct agent *agent = node->agent;
    _cleanup_(arena_done) struct arena arena = {0};
    if (result->code || !result->object) {
        node->registered = false; /* the heartbeat says it again */
        return;
    }
    const struct json *root = object_json(result->object, &arena);
    struct json *patch = json_new_object(&arena);
    struct json *taints = json_add_array(&arena, json_add_object(&arena, patch, "spec"), "taints");
    JSON_FOREACH(json_at(root, "spec.taints"), taint)
        if (!taint_is_ours(taint))
            (void)json_push(taints, json_clone(&arena, taint));
    for (enum pressure_kind i = 0; i < PRESSURE_CONDITIONS; i++) {
        if (!pressure_is_told(&agent->pressure, i))
            continue;
        struct json *taint = json_push(taints, json_new_object(&arena));
        json_add_c(&arena, taint, "key", pressure_texts[i].taint);
        json_add_c(&arena, taint, "effect", "NoSchedule");
    }
    char words[GPU_HEALTH_TEXT];
    const char *fault = node_gpu_fault(agent, node, words);
    if (fault)
        (void)json_push(taints, json_make(&arena, "{key: $, value: $, effect: 'NoSchedule'}",
                                          GPU_HEALTH_TAINT, fault));
    json_add_str(&arena, json_add_object(&arena, patch, "metadata"), "resourceVersion",
                 json_str_at(root, "metadata.resourceVersion"));
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_node,
                                  .name = str_from(node->name),
                                  .patch = API_PATCH_MERGE,
                                  .body = json_text(&arena, patch)};
    agent_call(agent, &request, done_taints, node);
}

static void node_send_taints(struct agent *agent, struct node *node)
{
    struct api_request request = {
        .verb = API_GET, .kind = &kind_node, .name = str_from(node->name)};
    agent_call(agent, &request, done_look, node);
}

static void done_taints(void *user, const struct api_result *result)
{
    struct node *node = user;
    if (result->err && result->err->http_status == 409 && !node->agent->stopping)
        node_send_taints(node->agent, node);
}

void nodes_tell_pressure(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->options.node_count; i++) {
        node_send_status(agent, &agent->nodes[i]);
        node_send_taints(agent, &agent->nodes[i]);
    }
}

/* ---- leases ---- */

static struct str lease_body(struct arena *arena, const struct node *node, bool create)
{
    char now[TIME_TEXT_BYTES];
    struct json *object = json_new_object(arena);
    if (create) {
        json_fill(arena, object,
                  "{apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', "
                  "metadata: {name: $, namespace: 'kube-node-lease'}}",
                  node->name);
    }
    json_fill(arena, object, "{spec: {holderIdentity: $, leaseDurationSeconds: $, renewTime: $}}",
              node->name, LEASE_SECONDS, str_dup(arena, time_format_micro(agent_now_ms(), now)));
    return json_text(arena, object);
}

static void done_lease(void *user, const struct api_result *result)
{
    struct node *node = user;
    if (result->code == 0)
        return;
    _cleanup_(arena_done) struct arena arena = {0};
    struct api_request request = {.verb = API_CREATE,
                                  .kind = &kind_lease,
                                  .ns = STR("kube-node-lease"),
                                  .body = lease_body(&arena, node, true)};
    agent_call(node->agent, &request, done_patch, node);
}

static void lease_renew(struct agent *agent, struct node *node)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_lease,
                                  .ns = STR("kube-node-lease"),
                                  .name = str_from(node->name),
                                  .patch = API_PATCH_MERGE,
                                  .body = lease_body(&arena, node, false)};
    agent_call(agent, &request, done_lease, node);
}

/* ---- nodes of an earlier start ---- */

/* With --nodes 2 there were node-0 and node-1; with --nodes 1 nobody runs what is bound to node-1. */
static bool node_departed(const struct agent *agent, const struct json *root)
{
    struct str name = json_str_at(root, "metadata.name");
    struct str prefix = str_from(agent->options.node_prefix);
    uint64_t number;

    return str_starts(json_str_at(root, "status.nodeInfo.containerRuntimeVersion"),
                      STR("muster-shim://")) &&
           str_starts(name, prefix) && name.len > prefix.len + 1 && name.p[prefix.len] == '-' &&
           str_to_u64(str_sub(name, prefix.len + 1, name.len), &number) &&
           number >= agent->options.node_count;
}

static void node_say_departed(struct agent *agent, struct str name, const struct json *root)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *status = json_new_object(&arena);
    struct json *patch = json_new_object(&arena);
    const struct json *there = json_at(root, "status.conditions");

    if (there)
        (void)json_set(status, STR("conditions"), json_clone(&arena, there));
    condition_set(&arena, status,
                  &(struct condition){"Ready", "False", "NodeRemoved",
                                      str_printf(&arena,
                                                 "muster was started with --nodes %u, which does "
                                                 "not make this node; `kubectl delete node " STR_FMT
                                                 "` forgets it",
                                                 agent->options.node_count, STR_ARG(name))},
                  agent_now_ms());
    (void)json_set(patch, STR("status"), status);
    struct api_request request = {.verb = API_PATCH,
                                  .kind = &kind_node,
                                  .name = name,
                                  .subresource = STR("status"),
                                  .patch = API_PATCH_MERGE,
                                  .body = json_text(&arena, patch)};
    log_warn(agent->log, "node.departed", LOG_STR("node", name));
    agent_call(agent, &request, api_ignore, NULL);
}

struct node_look {
    struct agent *agent;
    void (*then)(struct agent *agent);
};

static void done_nodes(void *user, const struct api_result *result)
{
    struct node_look *look = user;
    struct agent *agent = look->agent;

    for (size_t i = 0; i < result->item_count && !agent->stopping; i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        const struct object *node = result->items[i];
        const struct json *root = object_json(node, &arena);

        if (!node_departed(agent, root))
            continue;
        VEC_PUSH(&agent->arena, &agent->departed, str_dup(&agent->arena, node->name));
        node_say_departed(agent, node->name, root);
    }
    if (!agent->stopping)
        look->then(agent);
    mem_free(look);
}

void nodes_start(struct agent *agent, void (*then)(struct agent *agent))
{
    /* Of a cluster the other nodes are somebody else's. */
    if (agent->options.token_requests) {
        then(agent);
    } else {
        struct node_look *look = MEM_NEW(struct node_look);

        *look = (struct node_look){agent, then};
        agent_call(agent, &(struct api_request){.verb = API_LIST, .kind = &kind_node}, done_nodes,
                   look);
    }
    for (uint32_t i = 0; i < agent->options.node_count; i++) {
        node_send(agent, &agent->nodes[i]);
        lease_renew(agent, &agent->nodes[i]);
    }
}

/* Somebody deleted it, or thought it was away: it is here. */
static void done_seen(void *user, const struct api_result *result)
{
    struct node *node = user;
    _cleanup_(arena_done) struct arena arena = {0};

    if (node->agent->stopping)
        return;
    if (result->err && result->err->http_status == 404)
        node_send(node->agent, node);
    else if (result->object &&
             !condition_is_true(json_get(object_json(result->object, &arena), "status"), "Ready"))
        node_send_status(node->agent, node);
}

void nodes_beat(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->options.node_count; i++) {
        if (!agent->nodes[i].registered)
            node_send(agent, &agent->nodes[i]);
        else
            agent_call(agent,
                       &(struct api_request){.verb = API_GET,
                                             .kind = &kind_node,
                                             .name = str_from(agent->nodes[i].name)},
                       done_seen, &agent->nodes[i]);
        lease_renew(agent, &agent->nodes[i]);
    }
}
