#include "agent/agent.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/connect.h"
#include "cmd/datadir.h"
#include "cmd/hollow.h"
#include "exec/runner.h"
#include "http/tls.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "server/server.h"
#include "tool/log.h"

#include <errno.h>
#include <stdint.h>
#include <uv.h>

/* Started and stopped in the order of this list and its reverse. */
struct processes {
    struct datadir dir;
    struct agent *agent;
    struct tls_identity *tls;
    struct server *server;
    struct runner *runner;
};

static int start_agent(struct arena *arena,
                       struct processes *own,
                       const struct processes_options *options,
                       const struct kube_config *config,
                       struct err *err)
{
    int r = datadir_open(arena, options->folder, (const char *const[]){"127.0.0.1", NULL},
                         &own->dir, err);

    if (r < 0)
        return r;
    return agent_start(options->loop, kube_api(options->kube),
                       &(struct agent_options){
                           .data_dir = own->dir.path,
                           .kubeconfig = options->connect->kubeconfig,
                           .api_url = config->server,
                           .token_requests = true,
                           .node_count = options->nodes,
                           .gpus_per_node = options->gpus,
                           .gpu_uuids = true,
                           .gpu_time_slices = options->gpu_time_slices,
                           .cpus_per_node = options->cpus,
                           .memory_per_node_bytes = options->memory_bytes,
                           .node_labels = options->labels,
                           .node_prefix = options->prefix,
                           .network = options->network,
                           .images_oci = options->images_oci,
                           .images_fit = true,
                           .unobserved = options->unobserved,
                           .log = options->log,
                       },
                       &own->agent, err);
}

/* Where the API server asks for the bytes of pods. */
static int start_server(struct processes *own,
                        const struct processes_options *options,
                        const struct kube_config *config,
                        struct err *err)
{
    int r = tls_identity_new(own->dir.certificate, own->dir.key, config->ca_pem, &own->tls, err);

    if (r == 0)
        r = server_start(options->loop, kube_api(options->kube),
                         &(struct server_options){.address = agent_address(own->agent),
                                                  .tls = own->tls,
                                                  .kubelet = true,
                                                  .log = options->log},
                         &own->server, err);
    if (r < 0)
        return r;
    server_set_podio(own->server, agent_podio(own->agent));
    agent_set_port(own->agent, server_port(own->server));
    return 0;
}

/* The one controller of `muster up` that a cluster leaves to its storage. */
static int start_claims(struct arena *arena,
                        struct processes *own,
                        const struct processes_options *options,
                        struct err *err)
{
    struct runner_names without = {0};
    int r = runner_choose(arena, STR("claims"), &without, err);

    if (r < 0)
        return r;
    VEC_PUSH(arena, &without, NULL);
    return runner_start(
        options->loop, kube_api(options->kube),
        &(struct runner_options){.log = options->log, .without = without.items, .embedded = true},
        &own->runner, err);
}

int processes_start(struct arena *arena,
                    const struct processes_options *options,
                    struct processes **ret,
                    struct err *err)
{
    struct processes *own = ARENA_NEW(arena, struct processes);
    struct kube_config config = {0};
    int r = connect_config(arena, options->connect, &config, err);

    own->dir.lock_fd = -1;
    *ret = own;
    if (r == 0)
        r = start_agent(arena, own, options, &config, err);
    if (r == 0)
        r = start_server(own, options, &config, err);
    if (r == 0)
        r = start_claims(arena, own, options, err);
    if (r == 0)
        log_info(options->log, "hollow.processes", LOG_I64("nodes", options->nodes),
                 LOG_C("address", agent_address(own->agent)),
                 LOG_I64("port", server_port(own->server)));
    return r;
}

void processes_stop(struct processes *own)
{
    if (!own)
        return;
    runner_stop(own->runner);
    server_stop(own->server);
    agent_stop(own->agent);
    tls_identity_free(own->tls);
    datadir_close(&own->dir);
}
