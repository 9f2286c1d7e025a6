#include "sim/hollow.h"

#include "api/api.h"
#include "api/gpu.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/cluster/sharing.h"
#include "sim/hollow_body.h"
#include "tool/clock.h"
#include "tool/log.h"
#include "tool/timer.h"

#include <errno.h>
#include <stdio.h>

#define NAME_BYTES 96

struct hollow_node {
    struct hollow *hollow;
    char name[NAME_BYTES];
    size_t index;
    struct timer *heartbeat;
    bool leased;      /* the lease is there, made by this run or an earlier one */
    int64_t heard_ms; /* when the server took a heartbeat last */
    bool told;        /* the server has the status, and was not without a heartbeat since */
    uint64_t devices; /* GPUs that pods have, a bit each, as a device plugin hands them out */
    bool registered;
};

enum pod_state {
    POD_STARTING,
    POD_RUNNING, /* asked for, or acknowledged */
    POD_ENDED,
    POD_STOPPING,
};

/* A pod bound to one of our nodes. Freed when it is gone and no call is under way. */
struct hollow_pod {
    struct hollow *hollow;
    const struct object *object; /* newest */
    enum pod_state state;
    struct timer *timer;
    bool calling;
    bool gone;
    bool refused; /* its GPUs are not there: it fails as a kubelet fails it */
    struct hollow_node *node;
    uint64_t devices; /* of the node's */
    char uid[];
};

struct hollow {
    struct hollow_options options;
    struct hollow_node *nodes;
    struct map by_name; /* struct hollow_node */
    struct map pods;    /* by uid */
    struct api_watch *watch;
    size_t next_node; /* to be registered */
    size_t registering;
    size_t registered;
    uint64_t random;
    size_t calls; /* that will still come back */
    bool stopped;
};

static uint64_t hollow_roll(struct hollow *hollow)
{
    hollow->random ^= hollow->random << 13;
    hollow->random ^= hollow->random >> 7;
    hollow->random ^= hollow->random << 17;
    return hollow->random;
}

static void hollow_unref(struct hollow *hollow)
{
    if (!hollow->stopped || hollow->calls > 0)
        return;
    map_done(&hollow->by_name);
    map_done(&hollow->pods);
    mem_free(hollow->nodes);
    mem_free(hollow);
}

/* Each call counts, so that hollow_stop() frees only what no answer will look for. */
static void hollow_call(struct hollow *hollow,
                        const struct api_request *request,
                        api_done_fn *done,
                        void *user)
{
    hollow->calls++;
    api_call(hollow->options.api, request, done, user);
}

/* False: stopped meanwhile, and `user` may be gone. */
static bool came_back(struct hollow *hollow)
{
    hollow->calls--;
    if (!hollow->stopped)
        return true;
    hollow_unref(hollow);
    return false;
}

/* ---- nodes ---- */

#define HOLLOW_TAINT_JSON \
    "{\"key\":\"" HOLLOW_TAINT "\",\"value\":\"true\",\"effect\":\"NoSchedule\"}"

static void register_more(struct hollow *hollow);

static void on_heartbeat(void *user);

static void on_untainted(void *user, const struct api_result *result)
{
    struct hollow_node *node = user;
    struct hollow *hollow = node->hollow;

    if (!came_back(hollow))
        return;
    hollow->registering--;
    if (result->code && result->err->http_status != 404)
        log_warn(hollow->options.log, "hollow.taint", LOG_C("node", node->name),
                 LOG_ERR(result->err));
    node->registered = true;
    node->heard_ms = clock_now_ms();
    hollow->registered++;
    if (hollow->options.heartbeat_ms > 0)
        timer_every(node->heartbeat,
                    (int64_t)(hollow_roll(hollow) % (uint64_t)hollow->options.heartbeat_ms),
                    hollow->options.heartbeat_ms, on_heartbeat);
    if (hollow->registered == hollow->options.nodes) {
        log_info(hollow->options.log, "hollow.ready",
                 LOG_I64("nodes", (int64_t)hollow->registered));
        if (hollow->options.ready)
            hollow->options.ready(hollow->options.user);
    }
    register_more(hollow);
}

/* The API server taints new nodes until a controller has seen them Ready; there may be none. */
static void node_untaint(struct hollow_node *node)
{
    struct str body = node->hollow->options.taint
                          ? STR("{\"spec\":{\"taints\":[" HOLLOW_TAINT_JSON "]}}")
                          : STR("{\"spec\":{\"taints\":null}}");

    hollow_call(node->hollow,
                &(struct api_request){.verb = API_PATCH,
                                      .kind = &kind_node,
                                      .name = str_from(node->name),
                                      .patch = API_PATCH_MERGE,
                                      .body = body},
                on_untainted, node);
}

static void on_status(void *user, const struct api_result *result)
{
    struct hollow_node *node = user;

    if (!came_back(node->hollow))
        return;
    node->told = result->code == 0;
    if (result->code)
        log_warn(node->hollow->options.log, "hollow.status", LOG_C("node", node->name),
                 LOG_ERR(result->err));
    if (!node->registered)
        node_untaint(node);
}

static void send_status(struct hollow_node *node)
{
    struct arena arena = {0};
    struct json *root = json_new_object(&arena);

    json_set(root, STR("status"),
             hollow_node_status(&arena, &node->hollow->options, node->index, clock_now_ms()));
    hollow_call(node->hollow,
                &(struct api_request){.verb = API_PATCH,
                                      .kind = &kind_node,
                                      .name = str_from(node->name),
                                      .subresource = STR("status"),
                                      .patch = API_PATCH_MERGE,
                                      .body = json_text(&arena, root)},
                on_status, node);
    arena_done(&arena);
}

static void register_node(struct hollow_node *node);

static void on_register_again(void *user)
{
    register_node(user);
}

static void on_registered(void *user, const struct api_result *result)
{
    struct hollow_node *node = user;
    struct hollow *hollow = node->hollow;

    if (!came_back(hollow))
        return;
    if (result->code == 0) {
        node->told = true;
        node_untaint(node);
    } else if (result->err->http_status == 409) {
        send_status(node); /* a node of an earlier run: alive again */
    } else {
        log_warn(hollow->options.log, "hollow.register", LOG_C("node", node->name),
                 LOG_ERR(result->err));
        timer_in(node->heartbeat, HOLLOW_RETRY_MS, on_register_again);
    }
}

static void register_node(struct hollow_node *node)
{
    struct arena arena = {0};
    struct json *body = hollow_node(&arena, &node->hollow->options, str_from(node->name),
                                    node->index, clock_now_ms());

    hollow_call(node->hollow,
                &(struct api_request){
                    .verb = API_CREATE, .kind = &kind_node, .body = json_text(&arena, body)},
                on_registered, node);
    arena_done(&arena);
}

static void register_more(struct hollow *hollow)
{
    while (hollow->registering < HOLLOW_REGISTER_MAX && hollow->next_node < hollow->options.nodes) {
        hollow->registering++;
        register_node(&hollow->nodes[hollow->next_node++]);
    }
}

static void on_lease(void *user, const struct api_result *result)
{
    struct hollow_node *node = user;
    int64_t silent_ms = clock_now_ms() - node->heard_ms;
    int status = result->code ? result->err->http_status : 0;

    if (!came_back(node->hollow))
        return;
    if (result->code == 0 || status == 409)
        node->leased = true;
    else if (status == 404)
        node->leased = false;
    if (result->code || silent_ms > 2 * node->hollow->options.heartbeat_ms)
        node->told = false;
    if (result->code)
        return;
    node->heard_ms += silent_ms;
    /* It may have been called not ready meanwhile, and is so until it says otherwise. */
    if (!node->told)
        send_status(node);
}

static void on_heartbeat(void *user)
{
    struct hollow_node *node = user;
    struct arena arena = {0};
    struct json *body = hollow_lease(&arena, str_from(node->name), clock_now_ms());
    bool there = node->leased;

    hollow_call(node->hollow,
                &(struct api_request){.verb = there ? API_PATCH : API_CREATE,
                                      .kind = &kind_lease,
                                      .ns = STR("kube-node-lease"),
                                      .name = there ? str_from(node->name) : STR_NONE,
                                      .patch = API_PATCH_MERGE,
                                      .body = json_text(&arena, body)},
                on_lease, node);
    arena_done(&arena);
}

/* ---- pods ---- */

static int64_t pod_number(const struct hollow_pod *pod, const char *annotation, int64_t otherwise)
{
    int64_t number;

    return str_to_i64(object_annotation(pod->object, annotation), &number) && number >= 0
               ? number
               : otherwise;
}

static void pod_step(struct hollow_pod *pod);

static void on_pod_timer(void *user)
{
    pod_step(user);
}

static void pod_in(struct hollow_pod *pod, int64_t wait_ms)
{
    timer_in(pod->timer, wait_ms, on_pod_timer);
}

static void pod_give_devices(struct hollow_pod *pod)
{
    pod->node->devices &= ~pod->devices;
    pod->devices = 0;
}

static void pod_free(struct hollow_pod *pod)
{
    pod_give_devices(pod);
    (void)map_remove(&pod->hollow->pods, str_from(pod->uid));
    timer_free(pod->timer);
    object_unref(pod->object);
    mem_free(pod);
}

static int64_t run_default(const struct hollow_pod *pod)
{
    const struct object_owner *owner = object_controller(pod->object);
    bool job = owner && str_is(owner->kind, "Job") && str_is(owner->api_version, "batch/v1");

    return job ? pod->hollow->options.run_jobs_ms : pod->hollow->options.run_ms;
}

static void on_told(void *user, const struct api_result *result)
{
    struct hollow *hollow = user;

    if (result->code)
        log_warn(hollow->options.log, "hollow.device", LOG_ERR(result->err));
    hollow->calls--;
    hollow_unref(hollow);
}

/* A pod that holds a device for others says which: what `muster reserve-gpu` does in a real one. */
static void pod_tell_device(struct hollow_pod *pod)
{
    struct arena arena = {0};
    struct json *patch = json_new_object(&arena);

    if (str_is(object_label(pod->object, "app"), SHARING_APP) && pod->devices) {
        json_add_str(
            &arena, json_make_path(&arena, patch, "metadata.annotations"), GPU_ANNOTATION_RESERVED,
            str_printf(&arena, "GPU-%s-%d", pod->node->name, __builtin_ctzll(pod->devices)));
        hollow_call(pod->hollow,
                    &(struct api_request){.verb = API_PATCH,
                                          .kind = &kind_pod,
                                          .ns = pod->object->ns,
                                          .name = pod->object->name,
                                          .uid = pod->object->uid,
                                          .patch = API_PATCH_MERGE,
                                          .body = json_text(&arena, patch)},
                    on_told, pod->hollow);
    }
    arena_done(&arena);
}

static void on_pod_call(void *user, const struct api_result *result)
{
    struct hollow_pod *pod = user;
    struct hollow *hollow = pod->hollow;
    int status = result->code ? result->err->http_status : 0;
    int64_t run_ms;

    hollow->calls--;
    pod->calling = false;
    if (hollow->stopped || pod->gone || status == 404) {
        pod_free(pod);
        hollow_unref(hollow);
        return;
    }
    if (result->code) {
        log_debug(hollow->options.log, "hollow.pod", LOG_STR("pod", pod->object->name),
                  LOG_ERR(result->err));
        pod_in(pod, HOLLOW_RETRY_MS);
        return;
    }
    run_ms = pod_number(pod, HOLLOW_RUN_MS, run_default(pod));
    if (pod->state == POD_STARTING && pod->refused) {
        pod->state = POD_ENDED;
    } else if (pod->state == POD_STARTING) {
        pod->state = POD_RUNNING;
        pod_tell_device(pod);
        if (run_ms > 0 || str_is_set(object_annotation(pod->object, HOLLOW_RUN_MS)))
            pod_in(pod, run_ms);
    } else if (pod->state == POD_RUNNING) {
        pod->state = POD_ENDED;
        pod_give_devices(pod);
    }
    if (pod->object->deleted_ms && pod->state != POD_STOPPING) {
        pod->state = POD_STOPPING;
        pod_in(pod, hollow->options.stop_ms);
    }
}

static void pod_call(struct hollow_pod *pod,
                     enum api_verb verb,
                     struct str subresource,
                     struct str body)
{
    pod->calling = true;
    hollow_call(pod->hollow,
                &(struct api_request){.verb = verb,
                                      .kind = &kind_pod,
                                      .ns = pod->object->ns,
                                      .name = pod->object->name,
                                      .subresource = subresource,
                                      .patch = API_PATCH_MERGE,
                                      .body = body,
                                      .uid = pod->object->uid},
                on_pod_call, pod);
}

static int64_t exit_code(struct hollow_pod *pod)
{
    bool unlucky = (int64_t)(hollow_roll(pod->hollow) % 100) < pod->hollow->options.fail_percent;

    return pod_number(pod, HOLLOW_EXIT_CODE, unlucky ? 1 : 0);
}

/* The timer of the pod's state went off: do what comes next. */
static void pod_step(struct hollow_pod *pod)
{
    struct arena arena = {0};
    struct json *root = json_new_object(&arena);
    struct hollow_moment moment = {.now_ms = clock_now_ms(), .code = -1};

    if (pod->calling) {
        pod_in(pod, HOLLOW_RETRY_MS);
    } else if (pod->state == POD_STOPPING) {
        pod_call(pod, API_DELETE, STR_NONE, STR("{\"gracePeriodSeconds\":0}"));
    } else if (pod->state == POD_STARTING || pod->state == POD_RUNNING) {
        if (pod->state == POD_RUNNING)
            moment.code = exit_code(pod);
        else if (pod->refused)
            moment.code = 1;
        arena_defer(&arena, object_release, object_ref(pod->object));
        json_set(root, STR("status"), hollow_pod_status(&arena, pod->object, &moment));
        pod_call(pod, API_PATCH, STR("status"), json_text(&arena, root));
    }
    arena_done(&arena);
}

static struct hollow_pod *pod_new(struct hollow *hollow,
                                  const struct object *object,
                                  struct hollow_node *node)
{
    struct hollow_pod *pod = mem_alloc(sizeof(*pod) + object->uid.len + 1);

    memcpy(pod->uid, object->uid.p, object->uid.len);
    pod->hollow = hollow;
    pod->object = object_ref(object);
    pod->node = node;
    pod->timer = timer_new(hollow->options.loop, pod);
    map_set(&hollow->pods, str_from(pod->uid), pod);
    return pod;
}

/* The node of ours that the pod is on, or NULL. */
static struct hollow_node *node_of(struct hollow *hollow, const struct json *root)
{
    struct str node = json_str_at(root, "spec.nodeName");

    return node.len > 0 ? map_get(&hollow->by_name, node) : NULL;
}

static void pod_appeared(struct hollow *hollow, const struct object *object)
{
    struct arena arena = {0};
    const struct json *root = object_json(object, &arena);
    struct hollow_node *node = node_of(hollow, root);
    struct hollow_pod *pod;

    if (node) {
        bool stuck = str_is(object_annotation(object, HOLLOW_STUCK), "true");
        bool over = pod_is_over(root);
        /* Its GPUs are devices of a driver, which are not counted here. */
        bool claimed = !json_is_null(json_at(root, "status.extendedResourceClaimStatus"));

        pod = pod_new(hollow, object, node);
        pod->refused = !over && !claimed &&
                       !hollow_take_gpus(&node->devices, hollow->options.gpus, hollow_gpus(object),
                                         &pod->devices);
        if (object->deleted_ms) {
            pod->state = POD_STOPPING;
            pod_in(pod, hollow->options.stop_ms);
        } else if (over) {
            pod->state = POD_ENDED;
        } else if (!stuck) { /* a Running one of an earlier run is started again: the same status */
            pod_in(pod, pod_number(pod, HOLLOW_START_MS, hollow->options.start_ms));
        }
    }
    arena_done(&arena);
}

static void on_pod(void *user, const struct api_change *change)
{
    struct hollow *hollow = user;
    struct hollow_pod *pod = change->object ? map_get(&hollow->pods, change->object->uid) : NULL;

    if (!change->object)
        return;
    if (change->event == API_DELETED) {
        if (pod && pod->calling)
            pod->gone = true;
        else if (pod)
            pod_free(pod);
        return;
    }
    if (!pod) {
        pod_appeared(hollow, change->object);
        return;
    }
    object_unref(pod->object);
    pod->object = object_ref(change->object);
    if (pod->object->deleted_ms && pod->state != POD_STOPPING && !pod->calling) {
        pod->state = POD_STOPPING;
        pod_in(pod, hollow->options.stop_ms);
    }
}

/* ---- start and stop ---- */

int hollow_start(const struct hollow_options *options, struct hollow **ret, struct err *err)
{
    struct hollow *hollow;

    if (options->nodes == 0 || options->nodes > HOLLOW_NODES_MAX)
        return err_set(err, -EINVAL, "nodes: %zu is not between 1 and %d", options->nodes,
                       HOLLOW_NODES_MAX);
    if (strlen(options->prefix) > NAME_BYTES / 2)
        return err_set(err, -EINVAL, "name prefix: longer than %d bytes", NAME_BYTES / 2);
    hollow = MEM_NEW(struct hollow);
    hollow->options = *options;
    hollow->random = options->seed ? options->seed : 1;
    hollow->by_name.seed = hollow->pods.seed = options->seed;
    hollow->nodes = mem_alloc(options->nodes * sizeof(hollow->nodes[0]));
    for (size_t i = 0; i < options->nodes; i++) {
        struct hollow_node *node = &hollow->nodes[i];

        node->hollow = hollow;
        node->index = i;
        if ((int64_t)i < options->broken_gpus)
            node->devices = UINT64_MAX; /* nobody gets one */
        (void)snprintf(node->name, sizeof(node->name), "%s-%zu", options->prefix, i);
        node->heartbeat = timer_new(hollow->options.loop, node);
        map_set(&hollow->by_name, str_from(node->name), node);
    }
    hollow->watch = api_watch(
        options->api,
        &(struct api_watch_request){.kind = &kind_pod, .field_selector = STR("spec.nodeName!=")},
        on_pod, hollow);
    register_more(hollow);
    *ret = hollow;
    return 0;
}

void hollow_stop(struct hollow *hollow)
{
    if (!hollow)
        return;
    api_watch_stop(hollow->options.api, hollow->watch);
    hollow->stopped = true;
    for (size_t i = 0; i < hollow->options.nodes; i++)
        timer_free(hollow->nodes[i].heartbeat);
    MAP_FOREACH(&hollow->pods, entry) {
        struct hollow_pod *pod = entry->value;

        if (pod->calling) /* freed when its call comes back */
            timer_cancel(pod->timer);
        else
            pod_free(pod);
    }
    hollow_unref(hollow);
}
