#pragma once

#include "api/service.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct api;
struct err;
struct log;
struct podio;

/* agent: the node agent of `muster up`.
 *
 * It registers this machine as one or several virtual nodes, runs every pod that is bound to one of
 * them through a muster-shim of its own (shim/shim.h is the protocol) and reports back in the
 * pods' status. Decisions about a pod's containers are a pure function (agent/lifecycle.h); this is
 * the shell around it: files, sockets, processes, timers.
 *
 *     data_dir/pods/<uid>/       one folder a pod, the state that survives muster
 *     data_dir/volumes/<ns>/<claim>/   one folder a PersistentVolumeClaim
 *
 * Stopping the agent stops no pod: the shims keep them, and the next agent_start() with the same
 * data folder finds them again. */
struct agent_options {
    const char *data_dir;     /* absolute; made if missing */
    const char *shim_path;    /* muster-shim; NULL: beside the running program */
    const char *launch_path;  /* muster-launch, bound into every pod; NULL: beside the program */
    const char *kubeconfig;   /* hidden from pods besides the data folder; may be NULL */
    const char *api_url;      /* told to pods (KUBERNETES_SERVICE_HOST/PORT); may be NULL */
    struct str token_key;     /* signs ServiceAccount tokens of pods */
    bool token_requests;      /* the API server signs them: it is asked */
    uint32_t node_count;      /* 0: 1 */
    uint32_t gpus_per_node;   /* pretend GPUs; AGENT_GPUS_FOUND: those NVML finds */
    bool gpu_uuids;           /* pretend GPUs are named as a device plugin does: GPU-node-0-1 */
    uint32_t gpu_time_slices; /* each GPU is advertised that often; 0: 1 */
    int64_t cpus_per_node;    /* 0: its part of the machine's */
    int64_t memory_per_node_bytes; /* 0: its part of the machine's */
    int64_t pods_max;              /* of all nodes at once; 0: as memory allows (pressure.h) */
    const char *proc_dir;          /* NULL: /proc; where tests say how the machine is */
    const char *node_labels;       /* "a=b,c=d" for every node; may be NULL */
    const char *node_prefix;       /* NULL: "node" (node-0, node-1, ...) */
    int network;                   /* enum bridge_wish (net/bridge.h) */
    const char
        *gpu_library; /* holds containers to their share of a GPU (agent/limit.h); NULL: none */
    bool images_oci;  /* run containers from their images (image/image.h) */
    bool images_fit;  /* else: images are taken for ones whose user runAsNonRoot allows */
    bool unobserved;  /* nobody looks at ranks: pods tell of them, as where a kubelet runs them */
    bool allow_privileged; /* pods may ask for what sees through everything else */
    /* Once, when all that became of its pods while it was not there is told, or cannot be had soon
     * (AGENT_REPORT_MS): until then no limit counts against a pod. May be NULL. */
    void (*reported)(void *user);
    void *reported_user;
    uint64_t seed;         /* of hash tables */
    const struct log *log; /* may be NULL; must outlive the agent */
};

#define AGENT_GPUS_FOUND UINT32_MAX
#define AGENT_REPORT_MS  30000
#define AGENT_NODES_MAX  256
#define AGENT_GPUS_MAX   64
#define AGENT_PODS_MAX   100000 /* that may be asked for */

struct agent;

/* The strings of `options` are copied. On failure *err names the folder or program to look at. */
int agent_start(uv_loop_t *loop,
                struct api *api,
                const struct agent_options *options,
                struct agent **ret,
                struct err *err);
/* Closes everything the agent holds in the loop; its memory goes when the loop has run once more.
 * Pods go on. NULL is fine. */
void agent_stop(struct agent *agent);

/* The network that addresses of Services must be of for this agent to make them reachable. */
struct service_network agent_services(const struct agent *agent);

/* Where pods find this node, and where a server of agent_podio() for a Kubernetes API server must
 * listen (server_options.kubelet); its port is told before the loop runs. */
const char *agent_address(const struct agent *agent);
void agent_set_port(struct agent *agent, uint16_t port);

/* Logs, exec and ports of the pods, for the API server; valid until agent_stop(). */
struct podio *agent_podio(struct agent *agent);
