#include "cmd/operator.h"

#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "cmd/connect.h"
#include "cmd/ending.h"
#include "cmd/muster.h"
#include "cmd/operator_page.h"
#include "cmd/record.h"
#include "cmd/scheduling.h"
#include "control/cluster/coexist.h"
#include "control/cluster/sharing.h"
#include "control/core/controllers.h"
#include "exec/lease.h"
#include "exec/notify.h"
#include "exec/runner.h"
#include "exec/scheduler.h"
#include "kube/kube.h"
#include "sched/sched.h"
#include "tool/log.h"
#include "tool/option.h"
#include "tool/turn.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <uv.h>

/* muster operator: the controllers and the scheduler of `muster up`, on a Kubernetes cluster.
 *
 * Several replicas may run: they hold a connection and wait for the lease; the one that holds it
 * starts the controllers and the scheduler. One that cannot renew it in time holds them still, and
 * everything that they would write; its watches and webhooks go on. Is the lease still its own once the
 * API server answers, they go on too; has another led meanwhile, they are stopped, and it waits. */

struct operator_values {
    const char *kubeconfig;
    const char *context;
    const char *ns;
    const char *lease_name;
    bool leader_elect;
    struct lease_times lease;
    bool shadow;
    const char *scheduler_name;
    struct scheduling_values scheduling;
    const char *cluster_domain;
    const char *launcher_image;
    int64_t results_ms;
    const char *controllers;
    int others;
    int notify_to;
    int64_t per_second;
    const char *listen;
    const char *debug_listen;
    const char *webhook_listen;
    const char *webhook_service;
    const char *webhook_configuration;
    int64_t webhook_lifetime_ms;
    const char *administrators;
    const char *progress_url;
    struct operator_page_values page;
    bool gpu_sharing;
    bool gpu_memory_limits;
    bool gpu_suspend;
    const char *gpu_pod_runtime_class;
    bool block_visible_devices;
    const char *reservation_ns;
    const char *reservation_image;
    const char *reservation_runtime_class;
    bool node_health;
    const char *provisioning_class;
    const char *test_image;
    const char *test_command;
    int log_level;
    int log_format;
};

enum others {
    OTHERS_AUTO,
    OTHERS_IGNORE,
};

static const char *const others_words[] = {"auto", "ignore", NULL};
static const char *const notify_words[] = {"public", "any", NULL};

static const struct option operator_options[] = {
    {"kubeconfig", 0, OPTION_STR, offsetof(struct operator_values, kubeconfig), .value = "FILE",
     .help = "kubeconfig of the cluster (default: the pod's own cluster, else the one that kubectl "
             "uses)"},
    {"context", 0, OPTION_STR, offsetof(struct operator_values, context), .value = "NAME",
     .help = "context of the kubeconfig (default: its current one)"},
    {"namespace", 'n', OPTION_STR, offsetof(struct operator_values, ns),
     .fallback = "muster-system", .value = "NS", .help = "namespace of the lease"},
    {"lease-name", 0, OPTION_STR, offsetof(struct operator_values, lease_name),
     .fallback = "muster-operator", .value = "NAME", .help = "name of the lease"},
    {"leader-elect", 0, OPTION_BOOL, offsetof(struct operator_values, leader_elect),
     .fallback = "true",
     .help = "work only while holding the lease; false: work at once, for a single replica"},
    {"leader-elect-lease-duration", 0, OPTION_DURATION,
     offsetof(struct operator_values, lease.duration_ms), .fallback = "8s", .min = 3000,
     .max = 600000, .value = "TIME",
     .help = "another replica takes the lease that was not renewed for so long"},
    {"leader-elect-renew-deadline", 0, OPTION_DURATION,
     offsetof(struct operator_values, lease.renew_ms), .fallback = "5s", .min = 1000, .max = 600000,
     .value = "TIME",
     .help = "a leader that could not renew the lease for so long writes nothing until it is clear "
             "who leads"},
    {"leader-elect-retry-period", 0, OPTION_DURATION,
     offsetof(struct operator_values, lease.retry_ms), .fallback = "1s", .min = 100, .max = 60000,
     .value = "TIME", .help = "the lease is renewed, and looked at, that often"},
    {"shadow", 0, OPTION_BOOL, offsetof(struct operator_values, shadow), .fallback = "false",
     .help = "decide beside another scheduler of --scheduler-name, write nothing, and report where "
             "decisions differ: in the log, in /metrics and at /shadow of --debug-listen"},
    {"scheduler-name", 0, OPTION_STR, offsetof(struct operator_values, scheduler_name),
     .fallback = "kai-scheduler", .value = "NAME",
     .help = "schedule the pods with this schedulerName; other pods only count as used resources; "
             "\"\": schedule every pod"},
    SCHEDULING_OPTIONS(struct operator_values, scheduling),
    {"cluster-domain", 0, OPTION_STR, offsetof(struct operator_values, cluster_domain),
     .fallback = "cluster.local", .value = "DOMAIN", .help = "domain of services"},
    {"launcher-image", 0, OPTION_STR, offsetof(struct operator_values, launcher_image),
     .value = "IMAGE",
     .help = "image to copy muster-launch from, normally the operator's own (default: the pod's "
             "image has it)"},
    {"keep-results", 0, OPTION_DURATION, offsetof(struct operator_values, results_ms),
     .fallback = "24h", .min = 0, .max = 365 * SCHEDULING_DAY_MS, .value = "TIME",
     .help = "after its end the sync pod of a job stays this long and keeps what the first pod "
             "wrote in its folder, and the logs of earlier generations; 0s: it keeps nothing"},
    {"controllers", 0, OPTION_STR, offsetof(struct operator_values, controllers),
     .value = "[-]NAME,...",
     .help = "controllers to run: NAME,... runs only these, -NAME,... runs all but these (default: "
             "all)"},
    {"other-operators", 0, OPTION_CHOICE, offsetof(struct operator_values, others),
     .fallback = "auto", .choices = others_words, .value = "WORD",
     .help = "auto: leave the kinds of Kubeflow's operators, JobSet's controller and KAI Scheduler "
             "to them while they run; ignore: handle these kinds anyway"},
    {"notify-to", 0, OPTION_CHOICE, offsetof(struct operator_values, notify_to),
     .fallback = "public", .choices = notify_words, .value = "WORD",
     .help = "which addresses jobs may name in spec.notify: public, or any, also those of this "
             "machine and of its network"},
    {"kube-api-qps", 0, OPTION_I64, offsetof(struct operator_values, per_second),
     .fallback = "1000", .min = 1, .max = 100000, .value = "N",
     .help = "requests per second to the API server; a burst may be twice as large"},
    {"listen", 0, OPTION_STR, offsetof(struct operator_values, listen), .fallback = "0.0.0.0:8080",
     .value = "ADDR:PORT", .help = "address of /healthz, /readyz and /metrics; \"\": none"},
    {"debug-listen", 0, OPTION_STR, offsetof(struct operator_values, debug_listen),
     .fallback = "127.0.0.1:8081", .value = "ADDR:PORT",
     .help = "address of /debug/snapshot, and of /shadow with --shadow; \"\": none"},
    {"webhook-listen", 0, OPTION_STR, offsetof(struct operator_values, webhook_listen),
     .value = "ADDR:PORT", .help = "address of the admission webhooks (HTTPS; default: none)"},
    {"webhook-service", 0, OPTION_STR, offsetof(struct operator_values, webhook_service),
     .fallback = "muster-webhook", .value = "NAME",
     .help = "Service in front of the webhooks, and Secret of their certificates"},
    {"webhook-configuration", 0, OPTION_STR,
     offsetof(struct operator_values, webhook_configuration), .fallback = "muster", .value = "NAME",
     .help = "Mutating- and ValidatingWebhookConfiguration that get the CA certificate"},
    {"webhook-certificate-lifetime", 0, OPTION_DURATION,
     offsetof(struct operator_values, webhook_lifetime_ms), .fallback = "2160h", .min = 10000,
     .max = 10 * 365 * SCHEDULING_DAY_MS, .value = "TIME",
     .help = "validity of a certificate; it is replaced after two thirds of that time"},
    {"administrators", 0, OPTION_STR, offsetof(struct operator_values, administrators),
     .fallback = "kubeadm:cluster-admins", .value = "GROUPS",
     .help = "groups, with commas between, that may change what the scheduler wrote on pods and "
             "pod groups, as system:masters may; \"\": no others"},
    {"progress-url", 0, OPTION_STR, offsetof(struct operator_values, progress_url), .value = "URL",
     .help = "URL where TrainJobs report their progress and TorchrunJobs their ranks: the webhook "
             "server, as pods reach it "
             "(default: "
             "https://SERVICE.NAMESPACE.svc, if there are webhooks)"},
    {"gpu-sharing", 0, OPTION_BOOL, offsetof(struct operator_values, gpu_sharing),
     .fallback = "false",
     .help = "enable fractional GPUs (gpu-fraction, gpu-memory); needs the webhooks"},
    {"gpu-memory-limits", 0, OPTION_BOOL, offsetof(struct operator_values, gpu_memory_limits),
     .fallback = "false",
     .help = "limit containers to the memory of their share: libmuster-gpu.so is copied from "
             "--launcher-image and preloaded"},
    {"gpu-suspend", 0, OPTION_BOOL, offsetof(struct operator_values, gpu_suspend),
     .fallback = "false",
     .help =
         "suspend pods with a share of a GPU that ask for it, instead of evicting them: a program "
         "in the pod moves their GPU memory to host memory; needs --gpu-memory-limits"},
    {"reservation-namespace", 0, OPTION_STR, offsetof(struct operator_values, reservation_ns),
     .fallback = SHARING_NAMESPACE, .value = "NS",
     .help = "namespace of the reservation pods, which hold shared GPUs"},
    {"reservation-image", 0, OPTION_STR, offsetof(struct operator_values, reservation_image),
     .value = "IMAGE",
     .help =
         "image of the reservation pods, normally the operator's own (default: --launcher-image)"},
    {"reservation-runtime-class", 0, OPTION_STR,
     offsetof(struct operator_values, reservation_runtime_class), .value = "NAME",
     .help = "RuntimeClass of the reservation pods (default: none)"},
    {"gpu-pod-runtime-class", 0, OPTION_STR,
     offsetof(struct operator_values, gpu_pod_runtime_class), .value = "NAME",
     .help = "RuntimeClass for GPU pods that set none (default: none)"},
    {"block-nvidia-visible-devices", 0, OPTION_BOOL,
     offsetof(struct operator_values, block_visible_devices), .fallback = "false",
     .help = "containers that ask for no GPU see none; pods that set NVIDIA_VISIBLE_DEVICES are "
             "refused"},
    {"node-health", 0, OPTION_BOOL, offsetof(struct operator_values, node_health),
     .fallback = "false",
     .help = "taint nodes that several jobs fail on, and test them; needs deploy/rbac/health.yaml"},
    {"provisioning-class", 0, OPTION_STR, offsetof(struct operator_values, provisioning_class),
     .value = "CLASS",
     .help = "gangs that wait for nodes ask Cluster Autoscaler for all of them at once: the class "
             "of their ProvisioningRequests, such as "
             "best-effort-atomic-scale-up.autoscaling.x-k8s.io; needs "
             "deploy/rbac/provisioning.yaml (default: none; each pod asks for itself)"},
    {"self-test-image", 0, OPTION_STR, offsetof(struct operator_values, test_image),
     .value = "IMAGE",
     .help = "image of the pods that test suspect nodes, with PyTorch if GPUs are to be tested; "
             "needs deploy/rbac/self-test.yaml (default: none; a suspect node stays so until "
             "somebody takes the taint away)"},
    {"self-test-command", 0, OPTION_STR, offsetof(struct operator_values, test_command),
     .value = "COMMAND",
     .help = "a further test of a suspect node, for /bin/sh -c in that image; 0 is well"},
    OPERATOR_PAGE_OPTIONS(struct operator_values, page),
    {"log-format", 0, OPTION_CHOICE, offsetof(struct operator_values, log_format),
     .fallback = "logfmt", .choices = log_format_names, .value = "FORMAT",
     .help = "how logs are written: logfmt, or json, an object a line"},
    {"log-level", 0, OPTION_CHOICE, offsetof(struct operator_values, log_level), .fallback = "info",
     .choices = log_level_names, .value = "LEVEL", .help = "log level"},
    {0},
};

static void stop(struct operator* op, int status)
{
    op->status = status;
    uv_stop(&op->loop);
}

#define RESERVATION_ACCOUNT "muster-reservation" /* deploy/rbac/sharing.yaml */

/* NULL or empty: none was told. */
static const char *reservation_image(const struct operator_values *values)
{
    return values->reservation_image ? values->reservation_image : values->launcher_image;
}

static void on_renamed(void *user, const struct scheduler_names *names)
{
    const struct operator* op = user;

    runner_rename(op->runner, names->scheduler_name, names->queue_label);
}

/* The controllers that stay off: those nobody wants or asked for, and those of whoever else is here. */
static const char *const *without_of(struct operator* op)
{
    struct runner_names names = {0};

    for (size_t i = 0; i < op->without.count; i++)
        VEC_PUSH(op->arena, &names, op->without.items[i]);
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        for (size_t k = 0; operator_leaves(op, i) && coexist_others[i].controllers[k]; k++)
            VEC_PUSH(op->arena, &names, coexist_others[i].controllers[k]);
    if (!op->values->node_health)
        VEC_PUSH(op->arena, &names, node_health_controller.name);
    VEC_PUSH(op->arena, &names, NULL);
    return names.items;
}

static bool may_schedule(const struct operator* op)
{
    for (size_t i = 0; i < COEXIST_OTHERS; i++)
        if (coexist_others[i].schedules && operator_leaves(op, i))
            return false;
    return true;
}

static struct control_config config_of(const struct operator_values *values)
{
    return (struct control_config){
        .scheduler_name = str_from(values->scheduler_name),
        .other_schedulers = *values->scheduler_name,
        .cluster_domain = str_from(values->cluster_domain),
        .launcher_image = str_from(values->launcher_image),
        .results_ms = values->results_ms,
        .ranks_told = true,
        .node_health = values->node_health,
        .kubelets = true,
        .provisioning_class = str_from(values->provisioning_class),
        .test_space = str_from(values->ns),
        .test_image = str_from(values->test_image),
        .test_class = str_from(values->gpu_pod_runtime_class),
        .test_command = str_from(values->test_command),
    };
}

/* Controllers and scheduler as they should be now. What already runs is replaced: everything here
 * decides from the state alone, and the new ones join the watches of the old. */
static int set_up(struct operator* op, struct err *err)
{
    const struct operator_values *values = op->values;
    struct runner *before = op->runner;
    struct control_config config = config_of(values);
    struct sched_config sched;
    int r = scheduling_config(&values->scheduling, &sched, &config, err);

    if (r < 0)
        return r;
    if (!op->notifier)
        op->notifier = notifier_new(&op->loop, values->notify_to == 1);
    r = runner_start(&op->loop, kube_api(op->kube),
                     &(struct runner_options){
                         .config = config,
                         .log = &op->log,
                         .without = without_of(op),
                         .seed = op->seed,
                         .post = notifier_post(op->notifier),
                     },
                     &op->runner, err);
    if (r < 0)
        return r;
    runner_stop(before);
    operator_webhook_tell(op);
    if (op->scheduler) { /* the names of KAI's Config, where it has any */
        const struct sched_config *names = sched_config(scheduler_core(op->scheduler));

        runner_rename(op->runner, names->scheduler_name, names->queue_label);
    }
    if (!may_schedule(op)) {
        scheduler_stop(op->scheduler);
        op->scheduler = NULL;
        return 0;
    }
    if (values->scheduling.record && !op->recorder)
        r = recorder_open(values->scheduling.record, values->scheduling.record_mib << 20, &op->log,
                          &op->recorder, err);
    if (r < 0)
        return r;
    sched.scheduler_name = config.scheduler_name;
    sched.devices = values->gpu_sharing ? SCHED_DEVICES_RESERVED : SCHED_DEVICES_WHOLE;
    if (values->gpu_sharing) /* the reservation pod of a shared device is a pod too */
        sched.quirks |= SCHED_QUIRK(TWO_POD_SLOTS);
    const struct sharing_settings sharing = {
        .ns = str_from(values->reservation_ns),
        .image = str_from(reservation_image(values)),
        .service_account = STR(RESERVATION_ACCOUNT),
        .runtime_class = str_from(values->reservation_runtime_class),
    };
    return op->scheduler ? 0
                         : scheduler_start(&op->loop, kube_api(op->kube),
                                           &(struct scheduler_options){
                                               .config = &sched,
                                               .sharing = values->gpu_sharing ? &sharing : NULL,
                                               .inside = operator_inside_calls(op),
                                               .autoscalers = true,
                                               .log = &op->log,
                                               .seed = op->seed,
                                               .recorder = recorder_calls(op->recorder),
                                               .renamed = on_renamed,
                                               .renamed_user = op,
                                           },
                                           &op->scheduler, err);
}

/* Nothing of it is written: neither controllers nor webhooks nor a lease. */
static int start_shadow(struct operator* op, struct err *err)
{
    const struct operator_values *values = op->values;
    struct control_config config = {.scheduler_name = str_from(values->scheduler_name)};
    struct sched_config sched;
    int r = scheduling_config(&values->scheduling, &sched, &config, err);

    if (r < 0)
        return r;
    sched.scheduler_name = config.scheduler_name;
    sched.devices = SCHED_DEVICES_WHOLE;
    return scheduler_start(
        &op->loop, kube_api(op->kube),
        &(struct scheduler_options){.config = &sched,
                                    .log = &op->log,
                                    .seed = op->seed,
                                    .shadow = true,
                                    .default_queue = str_from(values->scheduling.default_queue),
                                    .default_parent = str_from(values->scheduling.default_parent)},
        &op->scheduler, err);
}

static int check_shadow(const struct operator_values *values, struct err *err)
{
    if (values->shadow && values->webhook_listen && *values->webhook_listen)
        return err_set(err, -EINVAL,
                       "--shadow: admission webhooks change objects, and a shadow changes nothing: "
                       "leave --webhook-listen out");
    if (values->shadow && values->gpu_sharing)
        return err_set(err, -EINVAL,
                       "--shadow: fractional GPUs are held by pods, and a shadow makes none: leave "
                       "--gpu-sharing out; pods that ask for a fraction are reported as waiting");
    return 0;
}

static void hold(struct operator* op, bool held)
{
    if (op->runner)
        runner_hold(op->runner, held);
    if (op->scheduler)
        scheduler_hold(op->scheduler, held);
    op->in_doubt = held;
    op->leading = !held;
}

static void on_others(struct operator* op)
{
    struct err err = {0};

    if (set_up(op, &err) == 0) {
        if (op->in_doubt)
            hold(op, true);
        return;
    }
    log_error(&op->log, "operator.start", LOG_ERR(&err));
    stop(op, EXIT_FAILURE);
}

static int lead(struct operator* op, struct err *err)
{
    op->leading = true;
    operator_webhook_lead(op, true);
    if (op->values->others == OTHERS_IGNORE)
        return set_up(op, err);
    operator_others_start(op, on_others);
    return 0;
}

static void stop_parts(struct operator* op)
{
    operator_others_stop(op);
    scheduler_stop(op->scheduler);
    op->scheduler = NULL;
    runner_stop(op->runner);
    op->runner = NULL;
    op->leading = false;
    op->in_doubt = false;
}

static void on_won(void *user)
{
    struct operator* op = user;
    struct err err = {0};

    if (op->in_doubt) {
        hold(op, false);
        kube_hold(op->kube, false);
        return;
    }
    if (lead(op, &err) == 0)
        return;
    log_error(&op->log, "operator.start", LOG_ERR(&err));
    stop(op, EXIT_FAILURE);
}

static void on_doubt(void *user)
{
    struct operator* op = user;

    hold(op, true);
    kube_hold(op->kube, true);
}

static void on_lost(void *user)
{
    struct operator* op = user;

    kube_hold(op->kube, true); /* nothing that ends here is begun anew */
    stop_parts(op);
    operator_webhook_lead(op, false);
    operator_inside_stop(op);
    kube_give_up(op->kube);
}

static bool is_busy(void *user)
{
    struct operator* op = user;

    return kube_is_writing(op->kube);
}

static void on_released(void *user)
{
    stop(user, EXIT_SUCCESS);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct operator* op = handle->data;

    if (op->stopping) /* asked twice: at once */
        _exit(EXIT_FAILURE);
    op->stopping = true;
    log_info(&op->log, "operator.stopping", LOG_I64("signal", number));
    bool in_doubt = op->in_doubt;
    stop_parts(op);
    if (in_doubt)
        kube_give_up(op->kube);
    if (op->lease)
        lease_release(op->lease, on_released, op);
    else
        stop(op, EXIT_SUCCESS);
}

/* Unique among replicas and among restarts of one. */
static const char *make_identity(struct operator* op)
{
    char host[256] = "";

    (void)gethostname(host, sizeof(host) - 1);
    return str_printf(op->arena, "%s_%016llx", host, (unsigned long long)op->seed).p;
}

static int choose_controllers(struct operator* op, struct err *err)
{
    const struct operator_values *values = op->values;
    return runner_choose(op->arena, str_from(values->controllers), &op->without, err);
}

static int check_sharing(const struct operator_values *values, struct err *err)
{
    if (values->gpu_memory_limits && (!values->gpu_sharing || !values->launcher_image))
        return err_set(err, -EINVAL,
                       "--gpu-memory-limits: needs --gpu-sharing and --launcher-image, the image "
                       "that has the library");
    if (values->gpu_suspend && !values->gpu_memory_limits)
        return err_set(
            err, -EINVAL,
            "--gpu-suspend: needs --gpu-memory-limits, which puts the library that moves "
            "memory into pods");
    if (values->gpu_sharing && !str_from(reservation_image(values)).len)
        return err_set(err, -EINVAL,
                       "--gpu-sharing: a shared GPU is held by a pod, which needs this program's "
                       "image: name it with --launcher-image or --reservation-image");
    return 0;
}

/* What nobody would heed without another option. */
static int check_heeded(const struct operator_values *values, struct err *err)
{
    const struct operator_page_values *page = &values->page;
    bool admission = str_from(values->webhook_listen).len;
    bool unseen = !str_from(page->listen).len;
    const struct {
        bool lost;
        const char *option;
        const char *needs;
        const char *why;
    } rows[] = {
        {values->gpu_sharing && !admission, "--gpu-sharing", "--webhook-listen",
         "pods with shares are prepared at admission"},
        {values->block_visible_devices && !admission, "--block-nvidia-visible-devices",
         "--webhook-listen", "pods are looked at at admission"},
        {values->gpu_pod_runtime_class && !admission && !values->test_image,
         "--gpu-pod-runtime-class", "--webhook-listen", "pods are given it at admission"},
        {values->progress_url && !admission, "--progress-url", "--webhook-listen",
         "it is the webhook server that is told"},
        {values->reservation_runtime_class && !values->gpu_sharing, "--reservation-runtime-class",
         "--gpu-sharing", "it is of the pods that hold shared GPUs"},
        {values->reservation_image && !values->gpu_sharing, "--reservation-image", "--gpu-sharing",
         "it is of the pods that hold shared GPUs"},
        {page->names.count && unseen, "--page-name", "--page-listen", "no page is served"},
        {(page->certificate || page->key) && unseen, "--page-certificate", "--page-listen",
         "no page is served"},
        {page->plain && unseen, "--page-plain", "--page-listen", "no page is served"},
        {page->proxy_secret_file && unseen, "--page-proxy-secret-file", "--page-listen",
         "no page is served"},
        {page->proxy_client_ca && unseen, "--page-proxy-client-ca", "--page-listen",
         "no page is served"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].lost)
            return err_set(err, -EINVAL, "%s: needs %s: %s", rows[i].option, rows[i].needs,
                           rows[i].why);
    return 0;
}

static int check_health(const struct operator* op, struct err *err)
{
    const struct operator_values *values = op->values;
    bool image = str_from(values->test_image).len, command = str_from(values->test_command).len;

    if ((image || command) && !values->node_health)
        return err_set(err, -EINVAL, "--self-test-%s: needs --node-health: nodes are not tested",
                       image ? "image" : "command");
    if (command && !image)
        return err_set(err, -EINVAL,
                       "--self-test-command: needs --self-test-image, which it is run in");
    if (values->node_health && values->shadow)
        return err_set(err, -EINVAL,
                       "--shadow: a shadow changes nothing, and nodes that jobs fail on would be "
                       "tainted: leave --node-health out");
    for (size_t i = 0; values->node_health && i < op->without.count; i++)
        if (strcmp(op->without.items[i], node_health_controller.name) == 0)
            return err_set(err, -EINVAL,
                           "--node-health: --controllers leaves out nodehealth, which does it");
    return 0;
}

static int start(struct operator* op, struct err *err)
{
    const struct operator_values *values = op->values;
    int r = choose_controllers(op, err);

    if (r == 0)
        r = check_shadow(values, err);
    if (r == 0)
        r = check_sharing(values, err);
    if (r == 0)
        r = check_health(op, err);
    if (r == 0)
        r = check_heeded(values, err);
    if (r == 0)
        r = lease_check(&values->lease, err);
    if (r < 0)
        return r;
    const struct connect_options connect = {
        .kubeconfig = values->kubeconfig,
        .context = values->context,
        .per_second = values->per_second,
        .log = &op->log,
    };
    r = connect_kube(op->arena, &op->loop, &connect, &op->kube, err);
    if (r < 0)
        return r;
    r = values->gpu_suspend ? operator_inside_start(op, &connect, err) : 0;
    if (r == 0)
        r = operator_http_start(op, values->listen, err);
    if (r == 0)
        r = operator_debug_start(op, values->debug_listen, err);
    if (r == 0)
        r = operator_webhook_start(
            op,
            &(struct operator_webhook_options){
                .listen = values->webhook_listen,
                .ns = values->ns,
                .service = values->webhook_service,
                .configuration = values->webhook_configuration,
                .lifetime_ms = values->webhook_lifetime_ms,
                .progress_url = values->progress_url,
                .scheduler_name = values->scheduler_name,
                .shares = values->gpu_sharing,
                .limit_image = values->gpu_memory_limits ? values->launcher_image : NULL,
                .runtime_class = values->gpu_pod_runtime_class,
                .own_devices = values->block_visible_devices,
                .administrators = values->administrators},
            err);
    if (r == 0)
        r = operator_page_start(op, &values->page, &connect, err);
    if (r < 0)
        return r;
    if (values->shadow)
        return start_shadow(op, err);
    if (!values->leader_elect)
        return lead(op, err);
    op->lease = lease_start(&(struct lease_options){
        .loop = &op->loop,
        .api = kube_api(op->kube),
        .ns = values->ns,
        .name = values->lease_name,
        .identity = make_identity(op),
        .won = on_won,
        .doubt = on_doubt,
        .lost = on_lost,
        .times = values->lease,
        .busy = is_busy,
        .user = op,
        .log = &op->log,
    });
    return 0;
}

static void catch (struct operator* op, uv_signal_t *handle, int number)
{
    uv_signal_init(&op->loop, handle);
    handle->data = op;
    uv_signal_start(handle, on_signal, number);
    ending_watch(&op->loop, number, ENDING_S);
    uv_unref((uv_handle_t *)handle);
}

static void close_all(struct operator* op)
{
    operator_others_stop(op);
    scheduler_stop(op->scheduler);
    operator_inside_stop(op);
    recorder_close(op->recorder);
    runner_stop(op->runner);
    notifier_free(op->notifier);
    lease_free(op->lease);
    operator_http_stop(op);
    operator_webhook_stop(op);
    operator_page_stop(op);
    kube_close(op->kube);
    turns_stop(op->turns);
    uv_close((uv_handle_t *)&op->sigterm, NULL);
    uv_close((uv_handle_t *)&op->sigint, NULL);
    uv_run(&op->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&op->loop);
    operator_inside_free(op);
}

static int operator_run(struct invocation *invocation)
{
    struct operator_values *values = invocation->values;
    struct log_repeats repeats = {0};
    struct operator op = {
        .arena = invocation->arena,
        .values = values,
        .log = {.fd = STDERR_FILENO,
                .level = (enum log_level)values->log_level,
                .json = values->log_format == LOG_FORMAT_JSON,
                .repeats = &repeats},
    };
    struct err err = {0};
    int r;

    (void)signal(SIGPIPE, SIG_IGN);
    if (getrandom(&op.seed, sizeof(op.seed), 0) != sizeof(op.seed))
        op.seed = (uint64_t)getpid();
    uv_loop_init(&op.loop);
    op.turns = turns_start(&op.loop, &op.log);
    catch (&op, &op.sigterm, SIGTERM);
    catch (&op, &op.sigint, SIGINT);
    r = start(&op, &err);
    if (r == 0) {
        log_info(&op.log, "operator.started", LOG_C("version", MUSTER_VERSION));
        uv_run(&op.loop, UV_RUN_DEFAULT);
    } else {
        (void)fprintf(stderr, "muster operator: %s\n", err.text);
        op.status = EXIT_FAILURE;
    }
    close_all(&op);
    return op.status;
}

const struct command command_operator = {
    .name = "operator",
    .summary = "run the controllers and the scheduler on a Kubernetes cluster",
    .about = "Runs on a Kubernetes cluster, normally as a Deployment (deploy/deployment.yaml). Of "
             "several replicas, the one that holds the lease works and the others wait.",
    .example = "muster operator --kubeconfig ~/.kube/config --leader-elect=false",
    .options = operator_options,
    .values_size = sizeof(struct operator_values),
    .run = operator_run,
};
