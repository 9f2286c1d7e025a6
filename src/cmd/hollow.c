#include "sim/hollow.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/connect.h"
#include "cmd/hollow.h"
#include "cmd/muster.h"
#include "kube/kube.h"
#include "tool/log.h"
#include "tool/option.h"

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

/* muster hollow-nodes: nodes without machines for a real API server, to try and to measure with. */

struct hollow_values {
    const char *kubeconfig;
    const char *context;
    const char *prefix;
    int64_t gpus;
    int64_t broken_gpus;
    int64_t gpu_memory;
    int64_t cpus;
    int64_t memory;
    int64_t pods;
    struct option_list labels;
    int64_t racks;
    int64_t heartbeat_ms;
    int64_t start_ms;
    int64_t stop_ms;
    int64_t run_ms;
    int64_t run_jobs_ms;
    int64_t fail_percent;
    int64_t seed;
    const char *processes;
    int pod_network;
    int64_t time_slices;
    int images;
    bool unobserved;
    bool taint;
    int log_level;
};

static const char *const pod_networks[] = {"auto", "host", "bridge", NULL};
static const char *const image_kinds[] = {"host", "oci", NULL};

#define HOUR_MS ((int64_t)3600 * 1000)

static const struct option hollow_options[] = {
    {"kubeconfig", 0, OPTION_STR, offsetof(struct hollow_values, kubeconfig), .value = "FILE",
     .help = "kubeconfig of the cluster (default: the one that kubectl uses)"},
    {"context", 0, OPTION_STR, offsetof(struct hollow_values, context), .value = "NAME",
     .help = "context of the kubeconfig"},
    {"prefix", 0, OPTION_STR, offsetof(struct hollow_values, prefix), .fallback = "hollow",
     .value = "NAME", .help = "prefix of the node names: NAME-0, NAME-1, ..."},
    {"gpus-per-node", 0, OPTION_I64, offsetof(struct hollow_values, gpus), .fallback = "8",
     .min = 0, .max = 1024, .value = "N", .help = "nvidia.com/gpu of each node"},
    {"broken-gpus", 0, OPTION_I64, offsetof(struct hollow_values, broken_gpus), .fallback = "0",
     .min = 0, .max = HOLLOW_NODES_MAX, .value = "N",
     .help = "the first N nodes fail every pod that asks for GPUs"},
    {"gpu-memory", 0, OPTION_I64, offsetof(struct hollow_values, gpu_memory), .fallback = "81920",
     .min = 0, .max = 1 << 24, .value = "MIB", .help = "memory of one GPU"},
    {"cpus-per-node", 0, OPTION_I64, offsetof(struct hollow_values, cpus), .fallback = "96",
     .min = 1, .max = 100000, .value = "N", .help = "CPUs of each node"},
    {"memory-per-node", 0, OPTION_I64, offsetof(struct hollow_values, memory), .fallback = "1024",
     .min = 1, .max = 1 << 20, .value = "GIB", .help = "memory of each node"},
    {"pods-per-node", 0, OPTION_I64, offsetof(struct hollow_values, pods), .fallback = "110",
     .min = 1, .max = 10000, .value = "N", .help = "pods that fit on each node"},
    {"label", 0, OPTION_LIST, offsetof(struct hollow_values, labels), .value = "KEY=VALUE",
     .help = "label of every node; can be repeated"},
    {"taint", 0, OPTION_BOOL, offsetof(struct hollow_values, taint), .fallback = "true",
     .help = "keep pods away that do not tolerate " HOLLOW_TAINT ":NoSchedule, the cluster's own; "
             "false: every pod may come. Not with --processes, whose nodes run pods"},
    {"racks", 0, OPTION_I64, offsetof(struct hollow_values, racks), .fallback = "0", .min = 0,
     .max = 10000, .value = "N", .help = "spread the nodes over N values of muster.dev/rack"},
    {"heartbeat", 0, OPTION_DURATION, offsetof(struct hollow_values, heartbeat_ms),
     .fallback = "10s", .min = 0, .max = HOUR_MS, .value = "TIME",
     .help = "how often each node renews its lease; 0s: never"},
    {"start-delay", 0, OPTION_DURATION, offsetof(struct hollow_values, start_ms),
     .fallback = "10ms", .min = 0, .max = HOUR_MS, .value = "TIME",
     .help = "time from bound to running"},
    {"stop-delay", 0, OPTION_DURATION, offsetof(struct hollow_values, stop_ms), .fallback = "10ms",
     .min = 0, .max = HOUR_MS, .value = "TIME", .help = "time from deletion to removal"},
    {"run-for", 0, OPTION_DURATION, offsetof(struct hollow_values, run_ms), .fallback = "0s",
     .min = 0, .max = 1000 * HOUR_MS, .value = "TIME",
     .help = "time after which pods end on their own; 0s: never"},
    {"run-jobs-for", 0, OPTION_DURATION, offsetof(struct hollow_values, run_jobs_ms),
     .fallback = "0s", .min = 0, .max = 1000 * HOUR_MS, .value = "TIME",
     .help = "the same for pods of batch/v1 Jobs"},
    {"fail-percent", 0, OPTION_I64, offsetof(struct hollow_values, fail_percent), .fallback = "0",
     .min = 0, .max = 100, .value = "N",
     .help = "percentage of the pods that end on their own that fail"},
    {"seed", 0, OPTION_I64, offsetof(struct hollow_values, seed), .fallback = "1", .min = 1,
     .max = INT64_MAX, .value = "N",
     .help = "seed of what is random: which pods fail, and when nodes renew their leases"},
    {"processes", 0, OPTION_STR, offsetof(struct hollow_values, processes), .value = "DIR",
     .help = "run the pods as processes of this machine, as `muster up` does; this is their data "
             "folder"},
    {"pod-network", 0, OPTION_CHOICE, offsetof(struct hollow_values, pod_network),
     .fallback = "auto", .choices = pod_networks, .value = "KIND",
     .help = "with --processes: give pods their own network, or the host's"},
    {"gpu-time-slices", 0, OPTION_I64, offsetof(struct hollow_values, time_slices), .fallback = "1",
     .min = 1, .max = 64, .value = "N", .help = "with --processes: advertise each GPU N times"},
    {"images", 0, OPTION_CHOICE, offsetof(struct hollow_values, images), .fallback = "host",
     .choices = image_kinds, .value = "KIND",
     .help = "with --processes: run on this machine's files, or from images"},
    {"unobserved", 0, OPTION_BOOL, offsetof(struct hollow_values, unobserved),
     .help = "with --processes: do not look at ranks; pods tell of them, as where a kubelet runs "
             "them"},
    {"log-level", 0, OPTION_CHOICE, offsetof(struct hollow_values, log_level), .fallback = "info",
     .choices = log_level_names, .value = "LEVEL", .help = "log level"},
    {0},
};

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

/* Until a signal comes. */
static void wait_for_signal(uv_loop_t *loop)
{
    uv_signal_t signals[2];

    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, i ? SIGINT : SIGTERM);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    uv_run(loop, UV_RUN_NOWAIT);
}

static int serve(uv_loop_t *loop, const struct hollow_options *options, struct err *err)
{
    struct hollow *hollow = NULL;
    int r = hollow_start(options, &hollow, err);

    if (r < 0)
        return r;
    wait_for_signal(loop);
    hollow_stop(hollow);
    return 0;
}

static int serve_processes(struct invocation *invocation,
                           const struct processes_options *options,
                           struct err *err)
{
    const struct hollow_values *values = invocation->values;
    struct processes *processes = NULL;
    struct processes_options own = *options;
    struct buf labels = {0};

    for (size_t i = 0; i + 1 < values->labels.count; i++)
        buf_addf(&labels, "%s%s", i ? "," : "", values->labels.items[i]);
    own.labels = str_c(invocation->arena, buf_str(&labels));
    buf_done(&labels);
    int r = processes_start(invocation->arena, &own, &processes, err);
    if (r == 0)
        wait_for_signal(options->loop);
    processes_stop(processes);
    return r;
}

static int hollow_run(struct invocation *invocation)
{
    struct hollow_values *values = invocation->values;
    struct log log = {.fd = STDERR_FILENO, .level = (enum log_level)values->log_level};
    struct kube *kube = NULL;
    struct err err = {0};
    uint64_t count = 0;
    uv_loop_t loop;

    (void)signal(SIGPIPE, SIG_IGN);
    if (!str_to_u64(str_from(invocation->args[0]), &count)) {
        (void)fprintf(stderr, "muster hollow-nodes: \"%s\" is not a number of nodes\n",
                      invocation->args[0]);
        return EXIT_USAGE;
    }
    VEC_PUSH(invocation->arena, &values->labels, NULL);
    uv_loop_init(&loop);
    struct connect_options connect = {.kubeconfig = values->kubeconfig,
                                      .context = values->context,
                                      .per_second = 5000,
                                      .whole = values->processes != NULL,
                                      .log = &log};
    int r = connect_kube(invocation->arena, &loop, &connect, &kube, &err);
    if (r == 0 && values->processes)
        r = serve_processes(invocation,
                            &(struct processes_options){
                                .loop = &loop,
                                .kube = kube,
                                .connect = &connect,
                                .folder = values->processes,
                                .prefix = values->prefix,
                                .nodes = (uint32_t)count,
                                .gpus = (uint32_t)values->gpus,
                                .gpu_time_slices = (uint32_t)values->time_slices,
                                .cpus = values->cpus,
                                .memory_bytes = values->memory << 30,
                                .network = values->pod_network,
                                .images_oci = values->images == 1,
                                .unobserved = values->unobserved,
                                .log = &log,
                            },
                            &err);
    else if (r == 0)
        r = serve(&loop,
                  &(struct hollow_options){.loop = &loop,
                                           .api = kube_api(kube),
                                           .nodes = (size_t)count,
                                           .prefix = values->prefix,
                                           .gpus = values->gpus,
                                           .broken_gpus = values->broken_gpus,
                                           .gpu_memory_mib = values->gpu_memory,
                                           .cpus = values->cpus,
                                           .memory_gib = values->memory,
                                           .pods = values->pods,
                                           .labels = values->labels.items,
                                           .racks = values->racks,
                                           .taint = values->taint,
                                           .heartbeat_ms = values->heartbeat_ms,
                                           .start_ms = values->start_ms,
                                           .stop_ms = values->stop_ms,
                                           .run_ms = values->run_ms,
                                           .run_jobs_ms = values->run_jobs_ms,
                                           .fail_percent = values->fail_percent,
                                           .seed = (uint64_t)values->seed,
                                           .log = &log},
                  &err);
    if (r < 0)
        (void)fprintf(stderr, "muster hollow-nodes: %s\n", err.text);
    kube_close(kube);
    uv_run(&loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&loop);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_hollow_nodes = {
    .name = "hollow-nodes",
    .summary = "register simulated nodes at an API server",
    .usage = "N",
    .about = "Registers N nodes and acts as the kubelet for the pods bound to them: the pods "
             "become Running, end and are removed, but no process runs. Use it to test and measure "
             "a scheduler without machines. Annotations of a pod say what it does: "
             "hollow.muster.dev/run-ms, exit-code, "
             "start-ms, stuck. Pods for these nodes tolerate the taint " HOLLOW_TAINT ".",
    .example = "muster hollow-nodes 100 --gpus-per-node 8",
    .options = hollow_options,
    .values_size = sizeof(struct hollow_values),
    .args_min = 1,
    .args_max = 1,
    .run = hollow_run,
};
