#include "agent/agent.h"
#include "agent/gpu.h"
#include "agent/limit.h"
#include "api/quantity.h"
#include "api/scheduler_name.h"
#include "api/service.h"
#include "api/zone.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/accounts.h"
#include "cmd/datadir.h"
#include "cmd/ended.h"
#include "cmd/ending.h"
#include "cmd/gauges.h"
#include "cmd/idle.h"
#include "cmd/muster.h"
#include "cmd/oidc_values.h"
#include "cmd/reach.h"
#include "cmd/record.h"
#include "cmd/scheduling.h"
#include "cmd/whatif.h"
#include "control/core/control.h"
#include "control/core/controllers.h"
#include "exec/notify.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "hook/hook.h"
#include "http/tls.h"
#include "keys/signer.h"
#include "plugin/past.h"
#include "plugin/spent.h"
#include "sched/sched.h"
#include "server/oidc.h"
#include "server/server.h"
#include "store/store.h"
#include "tool/clock.h"
#include "tool/file.h"
#include "tool/files.h"
#include "tool/log.h"
#include "tool/option.h"
#include "tool/turn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

/* muster up: store, API server, node agent, controllers and scheduler on one loop. Everything is
 * started in the order below and stopped in the reverse one; pods outlive it all. */

struct up_values {
    const char *data_dir;
    const char *listen;
    const char *kubeconfig_out;
    int64_t nodes;
    const char *gpus_per_node;
    int64_t gpus_if_none;
    int64_t idle_ms;
    int64_t event_ttl_ms;
    int64_t gpu_time_slices;
    const char *gpu_share_library;
    int64_t cpus_per_node;
    const char *memory_per_node;
    int64_t max_pods;
    const char *node_labels;
    const char *controllers;
    int pod_network;
    bool allow_privileged;
    bool accept_lost_writes;
    const char *audit_log;
    struct oidc_values oidc;
    struct option_list page_names;
    struct option_list tls_names;
    const char *tls_certificate;
    const char *tls_key;
    struct scheduling_values scheduling;
    const char *test_image;
    const char *test_command;
    int images;
    int notify_to;
    int log_level;
    int log_format;
};

static const char *const image_kinds[] = {"host", "oci", NULL};
static const char *const pod_networks[] = {"auto", "host", "bridge", NULL};
static const char *const notify_words[] = {"public", "any", NULL};

static const struct option up_options[] = {
    {"data-dir", 0, OPTION_STR, offsetof(struct up_values, data_dir), .value = "DIR",
     .help = "folder for objects, pods and keys (default: ~/.local/share/muster; root: "
             "/var/lib/muster)"},
    {"listen", 0, OPTION_STR, offsetof(struct up_values, listen), .fallback = "127.0.0.1:7443",
     .value = "ADDR:PORT", .help = "where the API server listens; port 0 picks a free one"},
    {"kubeconfig-out", 0, OPTION_STR, offsetof(struct up_values, kubeconfig_out), .value = "FILE",
     .help = "where to write the kubeconfig (default: kubeconfig in the data folder)"},
    {"nodes", 0, OPTION_I64, offsetof(struct up_values, nodes), .fallback = "1", .min = 1,
     .max = AGENT_NODES_MAX, .value = "N", .help = "number of virtual nodes on this machine"},
    {"gpus-per-node", 0, OPTION_STR, offsetof(struct up_values, gpus_per_node), .value = "N",
     .help = "simulate N GPUs on every node (default: the GPUs of this machine)"},
    {"gpus-if-none", 0, OPTION_I64, offsetof(struct up_values, gpus_if_none), .fallback = "0",
     .min = 0, .max = AGENT_GPUS_MAX, .value = "N",
     .help = "simulate N GPUs on every node if this machine has none"},
    {"event-ttl", 0, OPTION_DURATION, offsetof(struct up_values, event_ttl_ms), .fallback = "1h",
     .value = "DURATION",
     .help = "how long events are kept after they were last seen (0s: for ever)"},
    {"stop-when-idle", 0, OPTION_DURATION, offsetof(struct up_values, idle_ms), .fallback = "0s",
     .value = "DURATION",
     .help =
         "end when no job and no pod had work for so long; what jobs wrote is kept (0s: never)"},
    {"gpu-time-slices", 0, OPTION_I64, offsetof(struct up_values, gpu_time_slices), .fallback = "1",
     .min = 1, .max = 64, .value = "N",
     .help = "advertise each GPU N times, as NVIDIA's device plugin does"},
    {"gpu-share-library", 0, OPTION_STR, offsetof(struct up_values, gpu_share_library),
     .value = "FILE",
     .help = "library that limits containers to the GPU memory of their share; \"\": none "
             "(default: the installed libmuster-gpu.so, if there is one)"},
    {"cpus-per-node", 0, OPTION_I64, offsetof(struct up_values, cpus_per_node), .fallback = "0",
     .min = 0, .max = 100000, .value = "N",
     .help = "simulate N CPUs on every node (0: this machine's, divided between its nodes)"},
    {"memory-per-node", 0, OPTION_STR, offsetof(struct up_values, memory_per_node),
     .value = "QUANTITY",
     .help = "simulate this much memory on every node, such as 512Gi (default: this machine's, "
             "divided between its nodes)"},
    {"max-pods", 0, OPTION_I64, offsetof(struct up_values, max_pods), .fallback = "0", .min = 0,
     .max = AGENT_PODS_MAX, .value = "N",
     .help =
         "pods that may run on this machine at the same time, divided between its nodes (0: one "
         "for every 256 MiB of a node's memory, 4 to 1000 a node)"},
    {"node-labels", 0, OPTION_STR, offsetof(struct up_values, node_labels), .value = "K=V,...",
     .help = "labels for every node"},
    {"controllers", 0, OPTION_STR, offsetof(struct up_values, controllers), .value = "[-]NAME,...",
     .help = "controllers to run: NAME,... runs only these, -NAME,... runs all but these (default: "
             "all)"},
    {"notify-to", 0, OPTION_CHOICE, offsetof(struct up_values, notify_to), .fallback = "public",
     .choices = notify_words, .value = "WORD",
     .help = "which addresses jobs may name in spec.notify: public, or any, also those of this "
             "machine and of its network"},
    {"images", 0, OPTION_CHOICE, offsetof(struct up_values, images), .fallback = "host",
     .choices = image_kinds, .value = "KIND",
     .help = "host: commands run on this machine's own file system and images are ignored; oci: "
             "containers run from the images of muster image, with crun (root)"},
    {"self-test-image", 0, OPTION_STR, offsetof(struct up_values, test_image), .value = "IMAGE",
     .help = "with --images=oci: the image in which suspect nodes are tested, one with PyTorch; "
             "without one, failures are not counted against nodes"},
    {"self-test-command", 0, OPTION_STR, offsetof(struct up_values, test_command),
     .value = "COMMAND",
     .help = "a further test of suspect nodes, in shell syntax: a node whose test ends with a "
             "status other than 0 is kept out"},
    {"pod-network", 0, OPTION_CHOICE, offsetof(struct up_values, pod_network), .fallback = "auto",
     .choices = pod_networks, .value = "KIND",
     .help =
         "bridge: pods get their own network (root); host: pods use this machine's network, each "
         "with its own loopback address; auto: bridge, if pods can reach the outside through it"},
    {"allow-privileged", 0, OPTION_BOOL, offsetof(struct up_values, allow_privileged),
     .help = "allow pods that ask for privileged, hostPID, hostPaths of devices or of /proc, or "
             "capabilities such as SYS_ADMIN: anyone who may create such pods can read the data "
             "folder and gain its owner's rights"},
    {"accept-lost-writes", 0, OPTION_BOOL, offsetof(struct up_values, accept_lost_writes),
     .help = "start although the store is behind what it had acknowledged: it was damaged, or a "
             "backup took its place",
     .flag_only = true},
    {"audit-log", 0, OPTION_STR, offsetof(struct up_values, audit_log), .value = "FILE",
     .help = "write down who changed what over the API, and when: a line of JSON a request, up to "
             "four files of 64 MiB (default: nothing is written down)"},
    OIDC_OPTIONS(struct up_values, oidc),
    {"page-name", 0, OPTION_LIST, offsetof(struct up_values, page_names), .value = "NAME",
     .help =
         "name under which browsers may open the web page, besides localhost and addresses; can "
         "be repeated"},
    {"tls-name", 0, OPTION_LIST, offsetof(struct up_values, tls_names), .value = "NAME",
     .help =
         "name or address under which clients may reach the server, besides localhost, where it "
         "listens and --page-name; it stands in the certificate; can be repeated"},
    {"tls-cert-file", 0, OPTION_STR, offsetof(struct up_values, tls_certificate), .value = "FILE",
     .help =
         "certificate of somebody else's authority, PEM with its chain, for clients that ask for "
         "one of its names; all others get our own"},
    {"tls-private-key-file", 0, OPTION_STR, offsetof(struct up_values, tls_key), .value = "FILE",
     .help = "key of --tls-cert-file, PEM"},
    SCHEDULING_OPTIONS(struct up_values, scheduling),
    {"log-format", 0, OPTION_CHOICE, offsetof(struct up_values, log_format), .fallback = "logfmt",
     .choices = log_format_names, .value = "FORMAT",
     .help = "how logs are written: logfmt, or json, an object a line"},
    {"log-level", 0, OPTION_CHOICE, offsetof(struct up_values, log_level), .fallback = "info",
     .choices = log_level_names, .value = "LEVEL", .help = "log level; logs go to standard error"},
    {0},
};

#define CA_KEY_BYTES_MAX 65536

struct up {
    struct arena *arena;
    const struct up_values *values;
    struct log log;
    uv_loop_t loop;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    struct turns *turns;
    char address[INET6_ADDRSTRLEN]; /* where it listens */
    char told[INET6_ADDRSTRLEN];    /* where it is reached: in the kubeconfig and the certificate */
    uint16_t port;
    const char *kubeconfig;
    struct datadir dir;
    struct tls_identity *tls;
    struct store *store;
    struct hooks *hooks; /* before the store, for everybody who writes */
    struct signer *signer;
    struct server *server;
    struct agent *agent;
    struct runner *runner;
    struct notifier *notifier;
    struct scheduler *scheduler;
    struct recorder *recorder; /* NULL: nothing is recorded */
    struct idle *idle;
    struct ended *ended;
    struct accounts *accounts;
    struct whatif *whatif;
    int64_t started_ms;
    bool reported; /* the agent has told what became of its pods meanwhile */
};

/* "127.0.0.1:7443", "[::1]:0", ":7443". */
static int parse_listen(const char *text, struct up *up, struct err *err)
{
    struct str all = str_from(text);
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;

    if (!colon || !str_to_u64(str_from(colon + 1), &port) || port > UINT16_MAX)
        return err_set(err, -EINVAL, "--listen: \"%s\" is not ADDRESS:PORT", text);
    struct str host = str_sub(all, 0, (size_t)(colon - text));
    if (host.len >= 2 && host.p[0] == '[' && host.p[host.len - 1] == ']')
        host = str_sub(host, 1, host.len - 2);
    if (!host.len || str_is(host, "localhost"))
        host = STR("127.0.0.1");
    if (host.len >= sizeof(up->address))
        return err_set(err, -EINVAL, "--listen: \"%s\" is not a numeric address", text);
    (void)snprintf(up->address, sizeof(up->address), STR_FMT, STR_ARG(host));
    up->port = (uint16_t)port;
    return 0;
}

static void on_signal(uv_signal_t *handle, int number)
{
    (void)number;
    uv_stop(handle->loop);
}

/* As many connections as the system lets us have. */
static void raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    (void)signal(SIGPIPE, SIG_IGN);
}

static int start_tls(struct up *up, struct err *err)
{
    const struct up_values *values = up->values;
    struct str certificate, key;
    int r = tls_identity_new(up->dir.certificate, up->dir.key, up->dir.ca, &up->tls, err);

    if (!values->tls_certificate != !values->tls_key)
        return err_set(err, -EINVAL,
                       "--tls-cert-file and --tls-private-key-file: give both, or neither");
    if (r < 0 || !values->tls_certificate)
        return r;
    r = file_read(up->arena, values->tls_certificate, &certificate, err);
    if (r == 0)
        r = file_read(up->arena, values->tls_key, &key, err);
    return r < 0 ? err_wrap(err, r, "--tls-cert-file, --tls-private-key-file")
                 : tls_identity_add(up->tls, certificate, key, err);
}

static int start_server(struct up *up, struct err *err)
{
    int r = start_tls(up, err);

    if (r < 0)
        return r;
    const char **names = ARENA_ARRAY(up->arena, const char *, up->values->page_names.count + 1);
    for (size_t i = 0; i < up->values->page_names.count; i++)
        names[i] = up->values->page_names.items[i];
    struct server_options options = {
        .address = up->address,
        .port = up->port,
        .tls = up->tls,
        .token = up->dir.token,
        .token_key = up->dir.token_key,
        .proxy_certificate = up->dir.proxy_certificate,
        .proxy_key = up->dir.proxy_key,
        .log = &up->log,
        .page_names = names,
        .audit_log = up->values->audit_log,
    };
    struct oidc_options oidc;
    r = oidc_values_read(&up->values->oidc, up->arena, &oidc, err);
    if (r < 0)
        return r;
    options.oidc = &oidc;
    r = server_start(&up->loop, hooks_api(up->hooks), &options, &up->server, err);
    if (r == 0)
        up->port = server_port(up->server);
    return r;
}

/* The key of the authority is read for it alone. */
static int start_signer(struct up *up, struct err *err)
{
    struct buf *key = ARENA_NEW(up->arena, struct buf);
    const char *path = datadir_file(up->arena, &up->dir, "tls/ca.key");

    if (!files_read(path, CA_KEY_BYTES_MAX, key))
        return err_set(err, -EIO, "cannot read %s", path);
    up->signer = signer_start(&(struct signer_options){hooks_api(up->hooks), up->dir.ca,
                                                       str_dup(up->arena, buf_str(key))});
    buf_done(key);
    return 0;
}

/* NULL: none. */
static const char *gpu_library(const struct up *up)
{
    const char *named = up->values->gpu_share_library;
    char found[PATH_MAX];

    if (named)
        return *named ? named : NULL;
    return limit_find_library(found) ? str_c(up->arena, str_from(found)) : NULL;
}

/* What ended while nobody was there is known: from here on limits may count. */
static void on_reported(void *user)
{
    struct up *up = user;

    up->reported = true;
    if (up->runner)
        runner_hold(up->runner, false);
    if (up->scheduler)
        scheduler_hold(up->scheduler, false);
}

/* Of CronJobs and of rules; a name leads nowhere else. */
static bool read_zone(struct arena *arena, struct str name, struct str *ret_bytes)
{
    const char *path =
        str_c(arena, str_printf(arena, "/usr/share/zoneinfo/" STR_FMT, STR_ARG(name)));

    return zone_is_name(name) && file_read(arena, path, ret_bytes, NULL) == 0;
}

static int start_agent(struct up *up, const char *url, struct err *err)
{
    const struct up_values *values = up->values;
    struct agent_options options = {
        .data_dir = up->dir.path,
        .kubeconfig = up->kubeconfig,
        .api_url = url,
        .token_key = up->dir.token_key,
        .reported = on_reported,
        .reported_user = up,
        .node_count = (uint32_t)values->nodes,
        .gpus_per_node = AGENT_GPUS_FOUND,
        .gpu_time_slices = (uint32_t)values->gpu_time_slices,
        .cpus_per_node = values->cpus_per_node,
        .node_labels = values->node_labels,
        .pods_max = values->max_pods,
        .proc_dir =
            getenv("MUSTER_TEST_PROC"), /* how the machine is, for tests of what we do then */
        .gpu_library = gpu_library(up),
        .network = values->pod_network,
        .images_oci = values->images == 1,
        .allow_privileged = values->allow_privileged,
        .log = &up->log,
    };
    uint64_t gpus;

    if (!values->gpus_per_node && values->gpus_if_none) {
        struct gpus found;

        gpu_look(&found);
        if (found.count == 0)
            options.gpus_per_node = (uint32_t)values->gpus_if_none;
    }
    if (values->gpus_per_node) {
        if (!str_to_u64(str_from(values->gpus_per_node), &gpus) || gpus > AGENT_GPUS_MAX)
            return err_set(err, -EINVAL, "--gpus-per-node: \"%s\" is not a number up to %d",
                           values->gpus_per_node, AGENT_GPUS_MAX);
        options.gpus_per_node = (uint32_t)gpus;
    }
    if (values->memory_per_node) {
        int r =
            quantity_whole(str_from(values->memory_per_node), &options.memory_per_node_bytes, err);
        if (r < 0)
            return err_wrap(err, r, "--memory-per-node");
    }
    int r = agent_start(&up->loop, hooks_api(up->hooks), &options, &up->agent, err);
    if (r < 0)
        return r;
    store_set_services(up->store, agent_services(up->agent));
    if (!str_is(str_from(up->address), "0.0.0.0") && !str_is(str_from(up->address), "::"))
        store_set_api_address(up->store, str_from(up->address));
    store_set_pod_tokens(up->store);
    store_set_zones(read_zone);
    server_set_podio(up->server, agent_podio(up->agent));
    return 0;
}

static void on_renamed(void *user, const struct scheduler_names *names)
{
    const struct up *up = user;

    runner_rename(up->runner, names->scheduler_name, names->queue_label);
}

/* Nodes are tested unless that controller is off, or the test would have no file system. */
static void config_health(const struct up *up,
                          const struct runner_names *without,
                          struct control_config *ret)
{
    ret->test_image = str_from(up->values->test_image);
    ret->test_command = str_from(up->values->test_command);
    ret->node_health = up->values->images == 0 || ret->test_image.len;
    for (size_t i = 0; i < without->count; i++)
        if (strcmp(without->items[i], node_health_controller.name) == 0)
            ret->node_health = false;
}

static int start_control(struct up *up, struct err *err)
{
    struct runner_options options = {.log = &up->log, .embedded = true};
    struct runner_names without = {0};
    struct sched_config sched;
    int r = scheduling_config(&up->values->scheduling, &sched, &options.config, err);

    /* The API server itself; the agent tells pods where that is. */
    options.config.trainer_url =
        STR("https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)");
    options.config.trainer_ca = up->dir.ca;
    options.config.root_ca = up->dir.ca;
    options.config.front_proxy_ca = up->dir.proxy_ca;
    options.config.api_address =
        str_is(str_from(up->address), "0.0.0.0") ? STR("127.0.0.1") : str_from(up->address);
    options.config.api_port = up->port;
    struct service_network services = up->agent ? agent_services(up->agent) : SERVICE_LOOPBACK;
    options.config.service_cidr = service_network_text(up->arena, &services);
    options.config.default_lends = true;
    options.config.other_schedulers = true;
    options.config.schedulers = sched.scheduler_name = STR(SCHEDULER_EMBEDDED);
    options.config.zone = read_zone;
    up->notifier = notifier_new(&up->loop, up->values->notify_to == 1);
    options.post = notifier_post(up->notifier);
    if (r == 0)
        r = runner_choose(up->arena, str_from(up->values->controllers), &without, err);
    config_health(up, &without, &options.config);
    VEC_PUSH(up->arena, &without, NULL);
    options.without = without.items;
    if (r == 0)
        r = runner_start(&up->loop, hooks_api(up->hooks), &options, &up->runner, err);
    if (r == 0) {
        store_set_admit_pod(up->store, runner_admit_pod, up->runner);
        store_set_made_pod(up->store, runner_made_pod, up->runner);
    }
    if (r == 0 && up->values->scheduling.record)
        r = recorder_open(up->values->scheduling.record, up->values->scheduling.record_mib << 20,
                          &up->log, &up->recorder, err);
    if (r == 0)
        r = scheduler_start(&up->loop, hooks_api(up->hooks),
                            &(struct scheduler_options){.config = &sched,
                                                        .log = &up->log,
                                                        .taught = true,
                                                        .recorder = recorder_calls(up->recorder),
                                                        .renamed = on_renamed,
                                                        .renamed_user = up},
                            &up->scheduler, err);
    if (r == 0)
        ended_teach(up->scheduler, datadir_file(up->arena, &up->dir, PAST_FILE));
    if (r == 0 && up->agent && !up->reported) {
        runner_hold(up->runner, true);
        scheduler_hold(up->scheduler, true);
    }
    return r;
}

static void write_metrics(void *user, struct buf *text)
{
    const struct up *up = user;

    gauges_write(&(struct gauges){up->dir.path, up->store, up->server, up->started_ms}, text);
    scheduler_metrics(up->scheduler, text);
    runner_write_metrics(up->runner, text);
    accounts_metrics(up->accounts, text);
    turns_write_metrics(up->turns, text);
}

static void write_accounts(void *user, struct str uid, struct buf *text)
{
    const struct up *up = user;

    accounts_tell(up->accounts, uid, text);
}

static void write_history(void *user, struct buf *text)
{
    const struct up *up = user;

    ended_tell(up->ended, text);
}

static void on_trouble(void *user, const char *why)
{
    const struct up *up = user;

    if (why)
        log_error(&up->log, "store.read_only", LOG_C("error", why));
    else
        log_info(&up->log, "store.writable");
}

static const char *why_not_ready(void *user)
{
    return store_read_only(((const struct up *)user)->store);
}

static void on_idle(void *user)
{
    struct up *up = user;

    log_info(&up->log, "up.idle", LOG_I64("idle_ms", up->values->idle_ms));
    uv_stop(&up->loop);
}

static int tell_ready(struct up *up, const char *url, struct err *err)
{
    char code[SERVER_LINK_BYTES + 1];
    int r = server_page_link(up->server, code, err);

    if (r < 0)
        return r;
    (void)printf("muster is ready at %s; export KUBECONFIG=%s\n", url, up->kubeconfig);
    /* The journal is read by others than the owner, whom the link is for. */
    if (getenv("JOURNAL_STREAM"))
        (void)printf("The web page: `muster open` prints a link to it\n");
    else
        (void)printf("The web page, by a link that is good once (muster open prints another): "
                     "%s/ui/enter#%s\n",
                     url, code);
    (void)fflush(stdout);
    return 0;
}

/* Where and as what it is reached; what is beyond TLS_HOSTS_MAX is left out. */
static const char *const *certificate_hosts(const struct up *up)
{
    const struct option_list *lists[] = {&up->values->page_names, &up->values->tls_names};
    const char **hosts = ARENA_ARRAY(
        up->arena, const char *, 2 + up->values->page_names.count + up->values->tls_names.count);
    size_t count = 0;

    hosts[count++] = up->told;
    for (size_t l = 0; l < COUNT_OF(lists); l++)
        for (size_t i = 0; i < lists[l]->count; i++)
            hosts[count++] = lists[l]->items[i];
    return hosts;
}

static int start(struct up *up, struct err *err)
{
    const char *folder = up->values->data_dir ? up->values->data_dir : datadir_default(up->arena);
    int r = parse_listen(up->values->listen, up, err);

    if (r == 0)
        reach_address(up->address, up->told);
    if (r == 0)
        r = datadir_open(up->arena, folder, certificate_hosts(up), &up->dir, err);
    if (r < 0)
        return r;
    r = store_open(&(struct store_options){.loop = &up->loop,
                                           .path = datadir_file(up->arena, &up->dir, "store.db"),
                                           .accept_loss = up->values->accept_lost_writes,
                                           .event_ttl_ms = up->values->event_ttl_ms,
                                           .trouble = on_trouble,
                                           .trouble_user = up},
                   &up->store, err);
    if (r == 0) {
        up->hooks = hooks_new(&up->loop, store_api(up->store), NULL);
        r = start_server(up, err);
    }
    if (r == 0)
        r = start_signer(up, err);
    if (r < 0)
        return r;
    bool v6 = strchr(up->told, ':') != NULL;
    const char *url = str_printf(up->arena, v6 ? "https://[%s]:%u" : "https://%s:%u", up->told,
                                 (unsigned)up->port)
                          .p;
    up->kubeconfig = datadir_file(up->arena, &up->dir, "kubeconfig");
    if (up->values->kubeconfig_out)
        r = datadir_note_kubeconfig(up->arena, up->dir.path, up->values->kubeconfig_out,
                                    &up->kubeconfig, err);
    if (r == 0)
        r = start_agent(up, url, err);
    if (r < 0)
        return r;
    r = start_control(up, err);
    if (r == 0)
        server_set_metrics(up->server, write_metrics, up);
    if (r == 0)
        server_set_ready(up->server, why_not_ready, up);
    if (r == 0)
        r = datadir_write_kubeconfig(&up->dir, up->kubeconfig, url, err);
    if (r == 0)
        up->ended = ended_start(store_api(up->store), datadir_file(up->arena, &up->dir, PAST_FILE),
                                &up->log);
    if (r == 0)
        up->accounts = accounts_start(store_api(up->store),
                                      datadir_file(up->arena, &up->dir, SPENT_FILE), &up->log);
    if (r == 0)
        server_set_accounts(up->server, write_accounts, write_history, up);
    if (r == 0 && up->values->idle_ms)
        up->idle = idle_start(&up->loop, &(struct idle_options){.api = store_api(up->store),
                                                                .period_ms = up->values->idle_ms,
                                                                .done = on_idle,
                                                                .user = up});
    if (r < 0)
        return r;
    up->whatif = whatif_new(&up->loop, str_from(url), up->dir.ca);
    server_set_whatif(up->server, whatif_ask, up->whatif);
    return tell_ready(up, url, err);
}

static void stop(struct up *up)
{
    idle_stop(up->idle);
    ended_stop(up->ended);
    accounts_stop(up->accounts);
    if (up->whatif)
        server_set_whatif(up->server, NULL, NULL);
    whatif_free(up->whatif);
    server_stop(up->server);
    if (up->store) {
        store_set_admit_pod(up->store, NULL, NULL);
        store_set_made_pod(up->store, NULL, NULL);
    }
    scheduler_stop(up->scheduler);
    recorder_close(up->recorder);
    runner_stop(up->runner);
    notifier_free(up->notifier);
    agent_stop(up->agent);
    signer_stop(up->signer);
    hooks_stop(up->hooks);
    store_close(up->store);
    turns_stop(up->turns);
    uv_close((uv_handle_t *)&up->sigterm, NULL);
    uv_close((uv_handle_t *)&up->sigint, NULL);
    (void)uv_run(&up->loop, UV_RUN_NOWAIT);
    (void)uv_run(&up->loop, UV_RUN_NOWAIT);
    hooks_free(up->hooks);
    tls_identity_free(up->tls);
    datadir_close(&up->dir);
}

/* A slip in /etc/default/muster would else be the default, and nobody would know. */
static void on_unknown(void *user, struct str name, const char *near)
{
    const struct up *up = user;

    log_warn(&up->log, "environment.unknown", LOG_STR("variable", name),
             LOG_C("meant", near ? near : ""));
}

static int up_run(struct invocation *invocation)
{
    struct up up = {.arena = invocation->arena,
                    .values = invocation->values,
                    .dir = {.lock_fd = -1},
                    .started_ms = clock_now_ms()};
    struct err err = {0};

    up.log = (struct log){.fd = 2,
                          .level = (enum log_level)up.values->log_level,
                          .json = up.values->log_format == LOG_FORMAT_JSON};
    option_unknown_environment(invocation->program, invocation->command, environ, on_unknown, &up);
    raise_limits();
    if (uv_loop_init(&up.loop) < 0)
        return EXIT_FAILURE;
    (void)uv_signal_init(&up.loop, &up.sigterm);
    (void)uv_signal_init(&up.loop, &up.sigint);
    (void)uv_signal_start(&up.sigterm, on_signal, SIGTERM);
    (void)uv_signal_start(&up.sigint, on_signal, SIGINT);
    ending_watch(&up.loop, SIGTERM, ENDING_S);
    ending_watch(&up.loop, SIGINT, ENDING_S);
    up.turns = turns_start(&up.loop, &up.log);
    int r = start(&up, &err);
    if (r < 0)
        (void)fprintf(stderr, "muster up: %s\n", err.text);
    else
        (void)uv_run(&up.loop, UV_RUN_DEFAULT);
    stop(&up);
    (void)uv_loop_close(&up.loop);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

const struct command command_up = {
    .name = "up",
    .summary = "run Muster on this machine",
    .about = "Serves the Kubernetes API from one folder and runs pods as processes of this "
             "machine. Stops on SIGTERM and SIGINT; pods keep running and are found again at the "
             "next start.",
    .example = "muster up --nodes 2 --gpus-per-node 4",
    .options = up_options,
    .values_size = sizeof(struct up_values),
    .run = up_run,
};
