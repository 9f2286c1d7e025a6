#include "sim/hollow.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "cmd/connect.h"
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
    int log_level;
};

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};

#define HOUR_MS ((int64_t)3600 * 1000)

static const struct option hollow_options[] = {
    {"kubeconfig", 0, OPTION_STR, offsetof(struct hollow_values, kubeconfig), .value = "FILE",
     .help = "which cluster (default: as kubectl finds it)"},
    {"context", 0, OPTION_STR, offsetof(struct hollow_values, context), .value = "NAME",
     .help = "context of the kubeconfig"},
    {"prefix", 0, OPTION_STR, offsetof(struct hollow_values, prefix), .fallback = "hollow",
     .value = "NAME", .help = "nodes are called NAME-0, NAME-1, ..."},
    {"gpus-per-node", 0, OPTION_I64, offsetof(struct hollow_values, gpus), .fallback = "8",
     .min = 0, .max = 1024, .value = "N", .help = "nvidia.com/gpu of each node"},
    {"gpu-memory", 0, OPTION_I64, offsetof(struct hollow_values, gpu_memory), .fallback = "81920",
     .min = 0, .max = 1 << 24, .value = "MIB", .help = "memory of one GPU"},
    {"cpus-per-node", 0, OPTION_I64, offsetof(struct hollow_values, cpus), .fallback = "96",
     .min = 1, .max = 100000, .value = "N", .help = "CPUs of each node"},
    {"memory-per-node", 0, OPTION_I64, offsetof(struct hollow_values, memory), .fallback = "1024",
     .min = 1, .max = 1 << 20, .value = "GIB", .help = "memory of each node"},
    {"pods-per-node", 0, OPTION_I64, offsetof(struct hollow_values, pods), .fallback = "110",
     .min = 1, .max = 10000, .value = "N", .help = "pods that fit on each node"},
    {"label", 0, OPTION_LIST, offsetof(struct hollow_values, labels), .value = "KEY=VALUE",
     .help = "label of every node; may be given several times"},
    {"racks", 0, OPTION_I64, offsetof(struct hollow_values, racks), .fallback = "0", .min = 0,
     .max = 10000, .value = "N", .help = "spread the nodes over N values of muster.dev/rack"},
    {"heartbeat", 0, OPTION_DURATION, offsetof(struct hollow_values, heartbeat_ms),
     .fallback = "10s", .min = 0, .max = HOUR_MS, .value = "TIME",
     .help = "how often each node renews its lease; 0s: never"},
    {"start-delay", 0, OPTION_DURATION, offsetof(struct hollow_values, start_ms),
     .fallback = "10ms", .min = 0, .max = HOUR_MS, .value = "TIME", .help = "bound to running"},
    {"stop-delay", 0, OPTION_DURATION, offsetof(struct hollow_values, stop_ms), .fallback = "10ms",
     .min = 0, .max = HOUR_MS, .value = "TIME", .help = "deleted to gone"},
    {"run-for", 0, OPTION_DURATION, offsetof(struct hollow_values, run_ms), .fallback = "0s",
     .min = 0, .max = 1000 * HOUR_MS, .value = "TIME",
     .help = "pods end by themselves after this; 0s: never"},
    {"run-jobs-for", 0, OPTION_DURATION, offsetof(struct hollow_values, run_jobs_ms),
     .fallback = "0s", .min = 0, .max = 1000 * HOUR_MS, .value = "TIME",
     .help = "the same for pods of batch/v1 Jobs"},
    {"fail-percent", 0, OPTION_I64, offsetof(struct hollow_values, fail_percent), .fallback = "0",
     .min = 0, .max = 100, .value = "N",
     .help = "of the pods that end by themselves, how many fail"},
    {"seed", 0, OPTION_I64, offsetof(struct hollow_values, seed), .fallback = "1", .min = 1,
     .max = INT64_MAX, .value = "N", .help = "which pods fail, and when nodes breathe"},
    {"log-level", 0, OPTION_CHOICE, offsetof(struct hollow_values, log_level), .fallback = "info",
     .choices = log_levels, .value = "LEVEL", .help = "what to log"},
    {0},
};

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

static int serve(uv_loop_t *loop, const struct hollow_options *options, struct err *err)
{
    struct hollow *hollow = NULL;
    uv_signal_t signals[2];
    int r = hollow_start(options, &hollow, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(loop, &signals[i]);
        uv_signal_start(&signals[i], on_signal, i ? SIGINT : SIGTERM);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    hollow_stop(hollow);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&signals[i], NULL);
    return 0;
}

static int hollow_run(struct invocation *invocation)
{
    struct hollow_values *values = invocation->values;
    struct log log = {.fd = STDERR_FILENO, .level = (enum log_level)values->log_level};
    struct kube *kube = NULL;
    struct err err = {0};
    uint64_t count = 0;
    uv_loop_t loop;
    int r;

    (void)signal(SIGPIPE, SIG_IGN);
    if (!str_to_u64(str_from(invocation->args[0]), &count)) {
        (void)fprintf(stderr, "muster hollow-nodes: \"%s\" is not a number of nodes\n",
                      invocation->args[0]);
        return EXIT_USAGE;
    }
    VEC_PUSH(invocation->arena, &values->labels, NULL);
    uv_loop_init(&loop);
    r = connect_kube(invocation->arena, &loop,
                     &(struct connect_options){.kubeconfig = values->kubeconfig,
                                               .context = values->context,
                                               .per_second = 5000,
                                               .log = &log},
                     &kube, &err);
    if (r == 0)
        r = serve(&loop,
                  &(struct hollow_options){.loop = &loop,
                                           .api = kube_api(kube),
                                           .nodes = (size_t)count,
                                           .prefix = values->prefix,
                                           .gpus = values->gpus,
                                           .gpu_memory_mib = values->gpu_memory,
                                           .cpus = values->cpus,
                                           .memory_gib = values->memory,
                                           .pods = values->pods,
                                           .labels = values->labels.items,
                                           .racks = values->racks,
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
    .summary = "register nodes without machines at an API server",
    .usage = "N",
    .about =
        "Registers N nodes and plays the kubelet for the pods bound to them: they turn Running, "
        "end "
        "and go away, and nothing is run. For trying and measuring a scheduler on a cluster that "
        "is "
        "not there. Annotations of a pod say what it does: hollow.muster.dev/run-ms, exit-code, "
        "start-ms, stuck.",
    .example = "muster hollow-nodes 100 --gpus-per-node 8",
    .options = hollow_options,
    .values_size = sizeof(struct hollow_values),
    .args_min = 1,
    .args_max = 1,
    .run = hollow_run,
};
