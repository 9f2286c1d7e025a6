#include "agent/gpu.h"
#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "cmd/connect.h"
#include "cmd/muster.h"
#include "control/cluster/sharing.h"
#include "kube/kube.h"
#include "tool/log.h"
#include "tool/option.h"
#include "tool/timer.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

/* muster reserve-gpu: what a reservation pod runs (control/cluster/sharing.h): it has one whole
 * GPU, writes which one to its own pod, and then only holds it. */

#define RETRY_MS 2000

struct reserve_values {
    const char *kubeconfig;
    const char *ns;
    const char *pod;
};

struct reserve {
    uv_loop_t loop;
    struct timer *timer;
    uv_signal_t sigterm;
    uv_signal_t sigint;
    struct kube *kube;
    struct log log;
    struct str ns;
    struct str pod;
    struct str uid; /* of the pod, where known */
    struct str uuid;
};

static const struct option reserve_options[] = {
    {"kubeconfig", 0, OPTION_STR, offsetof(struct reserve_values, kubeconfig), .value = "FILE",
     .help = "kubeconfig of the cluster (default: the pod's own cluster)"},
    {"namespace", 'n', OPTION_STR, offsetof(struct reserve_values, ns), .value = "NS",
     .help = "namespace of the pod (default: $POD_NAMESPACE)"},
    {"pod", 0, OPTION_STR, offsetof(struct reserve_values, pod), .value = "NAME",
     .help = "name of the pod to write to (default: $POD_NAME)"},
    {0},
};

/* Exactly one device must be visible. The device plugin names it in the environment as a rule;
 * where it does not, the driver is asked. */
static int find_device(struct arena *arena, struct str *ret, struct err *err)
{
    struct str named = str_from(getenv("NVIDIA_VISIBLE_DEVICES"));
    static struct gpus gpus;

    if (str_starts(named, STR("GPU-")) && str_find(named, ',') == named.len) {
        *ret = named;
        return 0;
    }
    gpu_look(&gpus);
    if (gpus.count != 1)
        return err_set(err, -ENODEV,
                       "%zu GPUs are visible, but it must be one (%s): check that NVIDIA's device "
                       "plugin runs on this node and that the pod's RuntimeClass is NVIDIA's",
                       gpus.count, gpus.count ? "too many" : gpus.why);
    *ret = str_printf(arena, "%s", gpus.items[0].uuid);
    return 0;
}

static void tell(struct reserve *reserve);

static void on_timer(void *user)
{
    tell(user);
}

static void on_told(void *user, const struct api_result *result)
{
    struct reserve *reserve = user;

    if (!result->code) {
        log_info(&reserve->log, "reserve.told", LOG_STR("device", reserve->uuid));
        return;
    }
    log_warn(&reserve->log, "reserve.tell", LOG_ERR(result->err));
    timer_in(reserve->timer, RETRY_MS, on_timer);
}

static void tell(struct reserve *reserve)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct json *patch = json_new_object(&arena);

    json_add_str(&arena, json_make_path(&arena, patch, "metadata.annotations"),
                 GPU_ANNOTATION_RESERVED, reserve->uuid);
    api_call(kube_api(reserve->kube),
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_pod,
                                   .ns = reserve->ns,
                                   .name = reserve->pod,
                                   .uid = reserve->uid,
                                   .patch = API_PATCH_MERGE,
                                   .body = json_text(&arena, patch)},
             on_told, reserve);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct reserve *reserve = handle->data;

    (void)number;
    uv_stop(&reserve->loop);
}

static void catch (struct reserve *reserve, uv_signal_t *handle, int number)
{
    uv_signal_init(&reserve->loop, handle);
    handle->data = reserve;
    uv_signal_start(handle, on_signal, number);
}

static int reserve_run(struct invocation *invocation)
{
    const struct reserve_values *values = invocation->values;
    struct reserve reserve = {
        .log = {.fd = STDERR_FILENO, .level = LEVEL_INFO},
        .ns = str_from(values->ns ? values->ns : getenv("POD_NAMESPACE")),
        .pod = str_from(values->pod ? values->pod : getenv("POD_NAME")),
        .uid = str_from(values->pod ? "" : getenv("POD_UID")),
    };
    struct err err = {0};
    int r = reserve.ns.len && reserve.pod.len
                ? find_device(invocation->arena, &reserve.uuid, &err)
                : err_set(&err, -EINVAL,
                          "the pod is not known: set POD_NAMESPACE and POD_NAME, or use "
                          "--namespace and --pod");

    uv_loop_init(&reserve.loop);
    if (r == 0)
        r = connect_kube(
            invocation->arena, &reserve.loop,
            &(struct connect_options){.kubeconfig = values->kubeconfig, .log = &reserve.log},
            &reserve.kube, &err);
    if (r < 0) {
        (void)fprintf(stderr, "muster reserve-gpu: %s\n", err.text);
        (void)uv_loop_close(&reserve.loop);
        return EXIT_FAILURE;
    }
    reserve.timer = timer_new(&reserve.loop, &reserve);
    catch (&reserve, &reserve.sigterm, SIGTERM);
    catch (&reserve, &reserve.sigint, SIGINT);
    tell(&reserve);
    uv_run(&reserve.loop, UV_RUN_DEFAULT);
    kube_close(reserve.kube);
    timer_free(reserve.timer);
    uv_close((uv_handle_t *)&reserve.sigterm, NULL);
    uv_close((uv_handle_t *)&reserve.sigint, NULL);
    uv_run(&reserve.loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&reserve.loop);
    return EXIT_SUCCESS;
}

const struct command command_reserve = {
    .name = SHARING_COMMAND,
    .summary = "hold one GPU of a node for the pods that share it",
    .about =
        "The reservation pods of `muster operator --gpu-sharing` run this command. It writes the "
        "UUID of the one GPU it sees to its own pod, and holds the GPU until it is stopped.",
    .example = "muster reserve-gpu --namespace kai-resource-reservation --pod gpu-reservation-a",
    .options = reserve_options,
    .values_size = sizeof(struct reserve_values),
    .run = reserve_run,
};
