#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "kube/kube.h"
#include "kube/kubeconfig.h"
#include "tool/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

/* load KUBECONFIG create COUNT GANG [SCHEDULER [GPUS [QUEUE [PREFIX]]]]: make COUNT pods in gangs
 *     of GANG (with pod groups unless SCHEDULER is default-scheduler), as fast as the server takes
 *     them; each asks for GPUS (1) and is called PREFIX (p) and a number
 * load KUBECONFIG gangs COUNT GANG SCHEDULER [GPUS [QUEUE [PREFIX]]]: the same with PodGroups of
 *     Kubernetes itself, whoever the scheduler is
 * load KUBECONFIG bind COUNT GANG NODES: the bare loop: bind COUNT waiting pods, GANG a call, to
 *     NODES hollow nodes in turn
 * load KUBECONFIG watch COUNT [PREFIX]: wait until COUNT pods (so called) are bound
 * load KUBECONFIG keep COUNT PREFIX: until it is ended: of pods so called that are deleted each is
 *     made again, as a Job would, at most COUNT times in all
 * load KUBECONFIG thin LEFT: delete pods until each node has LEFT
 * load KUBECONFIG delete: delete every pod and pod group of the namespace default
 *
 * For tests/kubernetes/bench.py, bench_gangs.py and scale.py. Prints `count seconds`: from the
 * first write (or first bound pod) to the last. */

#define UNDER_WAY_MAX 64

struct load {
    uv_loop_t loop;
    struct kube *kube;
    struct api *api;
    struct arena arena;
    size_t count;
    size_t gang;
    size_t nodes;
    const char *scheduler;
    size_t gpus;
    const char *queue;
    const char *prefix;
    bool of_kubernetes; /* the groups */
    bool keeping;
    size_t left; /* thin: pods of each node */
    struct map by_node;
    size_t sent;
    size_t done;
    size_t under_way;
    bool synced;
    struct object_vec VEC_FIELDS(const struct object *) pods;
    int64_t first_ms;
    int64_t last_ms;
    struct api_watch *watch;
};

static _Noreturn void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "load: %s: %s\n", what, err ? err->text : "?");
    exit(1);
}

static void finish(struct load *load)
{
    printf("%zu %.3f\n", load->done, (double)(load->last_ms - load->first_ms) / 1000);
    (void)fflush(stdout);
    uv_stop(&load->loop);
}

/* ---- create ---- */

static void create_more(struct load *load);

#define BODY_BYTES 2048

static void on_created(void *user, const struct api_result *result)
{
    struct load *load = user;

    if (result->code && result->err->http_status != 409)
        die("create", result->err);
    load->under_way--;
    load->last_ms = clock_monotonic_ms();
    if (!load->keeping)
        create_more(load);
}

static void create(struct load *load, const struct kind *kind, const char *body)
{
    load->under_way++;
    api_call(load->api,
             &(struct api_request){
                 .verb = API_CREATE, .kind = kind, .ns = STR("default"), .body = str_from(body)},
             on_created, load);
}

static void pod_text(const struct load *load,
                     const char *name,
                     const char *group,
                     char body[static BODY_BYTES])
{
    char note[128] = "";
    char member[128] = "";

    if (load->of_kubernetes)
        (void)snprintf(member, sizeof(member), "\"schedulingGroup\":{\"podGroupName\":\"%s\"},",
                       group);
    else
        (void)snprintf(note, sizeof(note), "\"pod-group-name\":\"%s\"", group);
    (void)snprintf(
        body, BODY_BYTES,
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\",\"namespace\":"
        "\"default\",\"labels\":{\"kai.scheduler/queue\":\"%s\"},\"annotations\":{%s}},"
        "\"spec\":{\"schedulerName\":\"%s\",%s\"containers\":[{\"name\":\"c\",\"image\":\"i\","
        "\"resources\":{\"limits\":{\"nvidia.com/"
        "gpu\":\"%zu\",\"cpu\":\"1\",\"memory\":\"1Gi\"}}}]}}",
        name, load->queue, note, load->scheduler, member, load->gpus);
}

static void create_group(struct load *load, size_t group)
{
    char body[BODY_BYTES];

    if (load->of_kubernetes)
        (void)snprintf(body, sizeof(body),
                       "{\"apiVersion\":\"scheduling.k8s.io/v1beta1\",\"kind\":\"PodGroup\","
                       "\"metadata\":{\"name\":\"g%s%zu\",\"namespace\":\"default\"},\"spec\":"
                       "{\"schedulingPolicy\":{\"gang\":{\"minCount\":%zu}}}}",
                       load->prefix, group, load->gang);
    else
        (void)snprintf(body, sizeof(body),
                       "{\"apiVersion\":\"scheduling.run.ai/v2alpha2\",\"kind\":\"PodGroup\","
                       "\"metadata\":{\"name\":\"g%s%zu\",\"namespace\":\"default\"},\"spec\":"
                       "{\"minMember\":%zu,\"queue\":\"%s\"}}",
                       load->prefix, group, load->gang, load->queue);
    create(load, load->of_kubernetes ? &kind_podgroup_k8s : &kind_podgroup, body);
}

static void create_more(struct load *load)
{
    char body[BODY_BYTES];
    char name[64];
    char in[64];
    bool groups = load->of_kubernetes || strcmp(load->scheduler, "default-scheduler") != 0;

    while (load->under_way < UNDER_WAY_MAX && load->sent < load->count) {
        size_t group = load->sent / load->gang;

        if (groups && load->sent % load->gang == 0)
            create_group(load, group);
        (void)snprintf(name, sizeof(name), "%s%zu", load->prefix, load->sent);
        (void)snprintf(in, sizeof(in), "g%s%zu", load->prefix, group);
        pod_text(load, name, in, body);
        create(load, &kind_pod, body);
        load->sent++;
    }
    if (load->under_way == 0 && load->sent == load->count) {
        load->done = load->count;
        finish(load);
    }
}

/* ---- the bare loop ---- */

static void bind_more(struct load *load);

static void on_bound(void *user, const struct api_result *result)
{
    struct load *load = user;

    if (result->code)
        die("bind", result->err);
    load->under_way--;
    load->done += load->gang;
    load->last_ms = clock_monotonic_ms();
    bind_more(load);
}

static void bind_more(struct load *load)
{
    struct arena arena = {0};

    while (load->under_way * load->gang < UNDER_WAY_MAX && load->sent + load->gang <= load->count) {
        struct api_binding *bindings = ARENA_ARRAY(&arena, struct api_binding, load->gang);

        for (size_t i = 0; i < load->gang; i++) {
            const struct object *pod = load->pods.items[load->sent + i];

            bindings[i] = (struct api_binding){
                .ns = pod->ns,
                .pod = pod->name,
                .uid = pod->uid,
                .node = str_printf(&arena, "hollow-%zu", (load->sent + i) / 8 % load->nodes),
            };
        }
        load->sent += load->gang;
        load->under_way++;
        api_bind(load->api, bindings, load->gang, on_bound, load);
    }
    arena_done(&arena);
    if (load->under_way == 0)
        finish(load);
}

/* ---- watching ---- */

static bool is_bound(const struct object *pod)
{
    struct arena arena = {0};
    bool bound = json_str_at(object_json(pod, &arena), "spec.nodeName").len > 0;

    arena_done(&arena);
    return bound;
}

static void on_pod(void *user, const struct api_change *change)
{
    struct load *load = user;

    if (change->event == API_SYNCED && load->nodes > 0) {
        if (load->pods.count < load->count)
            die("bind", &(struct err){.text = "fewer pods wait than are to be bound"});
        load->first_ms = clock_monotonic_ms();
        bind_more(load);
    }
    if (change->event != API_ADDED && change->event != API_MODIFIED)
        return;
    if (load->prefix && !str_starts(change->object->name, str_from(load->prefix)))
        return;
    if (load->nodes > 0) { /* the bare loop wants those that wait */
        if (change->event == API_ADDED && !load->synced)
            VEC_PUSH(&load->arena, &load->pods, object_ref(change->object));
        return;
    }
    if (!is_bound(change->object) || (change->previous && is_bound(change->previous)))
        return;
    load->last_ms = clock_monotonic_ms();
    if (load->done++ == 0)
        load->first_ms = load->last_ms;
    if (load->done == load->count)
        finish(load);
}

static void on_deleted(void *user, const struct api_result *result)
{
    struct load *load = user;

    if (result->code)
        die("delete", result->err);
    load->done++;
    load->last_ms = clock_monotonic_ms();
    if (--load->under_way == 0)
        finish(load);
}

/* ---- as a Job would ---- */

static void on_kept(void *user, const struct api_change *change)
{
    struct load *load = user;
    const struct object *pod = change->object;
    char body[BODY_BYTES];
    char name[128];

    if (change->event != API_DELETED || load->sent == load->count ||
        !str_starts(pod->name, str_from(load->prefix)))
        return;
    (void)snprintf(name, sizeof(name), STR_FMT "r", STR_ARG(pod->name));
    struct str queue = object_label(pod, "kai.scheduler/queue");
    struct str group = object_annotation(pod, "pod-group-name");
    load->queue = str_c(&load->arena, queue);
    pod_text(load, name, str_c(&load->arena, group), body);
    load->sent++;
    create(load, &kind_pod, body);
}

/* ---- fewer on each node ---- */

static void on_thinned(void *user, const struct api_change *change)
{
    struct load *load = user;
    struct str node = STR_NONE;

    if (change->event == API_SYNCED) {
        load->synced = true;
        if (!load->under_way)
            finish(load);
    }
    if (load->synced || change->event != API_ADDED)
        return;
    node = str_dup(&load->arena,
                   json_str_at(object_json(change->object, &load->arena), "spec.nodeName"));
    void *before = map_get(&load->by_node, node);
    size_t there = (size_t)before + 1;
    map_set(&load->by_node, node, (void *)there);
    if (there <= load->left)
        return;
    load->under_way++;
    api_call(load->api,
             &(struct api_request){.verb = API_DELETE,
                                   .kind = &kind_pod,
                                   .ns = change->object->ns,
                                   .name = change->object->name,
                                   .body = STR("{\"gracePeriodSeconds\":0}")},
             on_deleted, load);
}

static void delete_all(struct load *load)
{
    const struct kind *const kinds[] = {&kind_pod, &kind_podgroup};

    for (size_t i = 0; i < 2; i++) {
        load->under_way++;
        api_call(load->api,
                 &(struct api_request){.verb = API_DELETE_COLLECTION,
                                       .kind = kinds[i],
                                       .ns = STR("default"),
                                       .body = STR("{\"gracePeriodSeconds\":0}")},
                 on_deleted, load);
    }
}

static size_t number(char *argv[], int index, int argc)
{
    uint64_t value = 0;

    if (index >= argc || !str_to_u64(str_from(argv[index]), &value)) {
        (void)fprintf(
            stderr, "load: usage: load KUBECONFIG create|gangs|bind|watch|keep|thin|delete ...\n");
        exit(2);
    }
    return (size_t)value;
}

static void begin(struct load *load, int argc, char *argv[])
{
    const char *mode = argc > 2 ? argv[2] : "";

    load->first_ms = clock_monotonic_ms();
    if (strcmp(mode, "delete") == 0) {
        delete_all(load);
        return;
    }
    load->count = number(argv, 3, argc);
    load->scheduler = "kai-scheduler";
    load->gpus = 1;
    load->of_kubernetes = strcmp(mode, "gangs") == 0;
    if (load->of_kubernetes || strcmp(mode, "create") == 0) {
        load->gang = number(argv, 4, argc);
        load->scheduler = argc > 5 ? argv[5] : load->scheduler;
        load->gpus = argc > 6 ? number(argv, 6, argc) : 1;
        load->queue = argc > 7 ? argv[7] : "default-queue";
        load->prefix = argc > 8 ? argv[8] : "p";
        create_more(load);
        return;
    }
    api_watch_fn *on_change = on_pod;
    if (strcmp(mode, "bind") == 0) {
        load->gang = number(argv, 4, argc);
        load->nodes = number(argv, 5, argc);
    } else if (strcmp(mode, "thin") == 0) {
        load->left = load->count;
        on_change = on_thinned;
    } else {
        load->prefix = argc > 4 ? argv[4] : NULL;
    }
    if (strcmp(mode, "keep") == 0) {
        load->keeping = true;
        on_change = on_kept;
    }
    load->watch =
        api_watch(load->api, &(struct api_watch_request){.kind = &kind_pod, .ns = STR("default")},
                  on_change, load);
}

int main(int argc, char *argv[])
{
    struct load load = {0};
    struct kube_config config = {0};
    struct err err = {0};

    uv_loop_init(&load.loop);
    if (argc < 3 || kubeconfig_load(&load.arena, &(struct kubeconfig_options){.path = argv[1]},
                                    &config, &err) < 0)
        die(argc > 1 ? argv[1] : "usage", &err);
    if (kube_open(&load.loop,
                  &(struct kube_options){.config = &config, .per_second = 100000, .burst = 100000},
                  &load.kube, &err) < 0)
        die("connect", &err);
    load.api = kube_api(load.kube);
    begin(&load, argc, argv);
    uv_run(&load.loop, UV_RUN_DEFAULT);
    kube_close(load.kube);
    uv_run(&load.loop, UV_RUN_DEFAULT);
    arena_done(&load.arena);
    return 0;
}
