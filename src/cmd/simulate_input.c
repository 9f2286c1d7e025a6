#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/scheduler_name.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "cmd/simulate.h"
#include "sched/decode.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "tool/file.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* What goes into a simulation. A document with `kind` is a manifest. One without is shorthand, and
 * may have any of:
 *
 *     config: {mimic: true, spread: true, quirks: [sidecars], staleGrace: 60s,
 *              pools: [{name: a, gpuPlacement: spread}]}    # and all that policy.h names
 *     topology: {name: dc, levels: [zone, rack]}
 *     nodes:  [{name: a, count: 4, gpus: 8, cpus: 64, memory: 512Gi, gpuMemory: 81559,
 *               labels: {rack: r1}, taints: [dedicated]}]     # a-0 .. a-3 with count
 *     queues: [{name: q, parent: p, quota: 4, limit: 8, weight: 1, priority: 100,
 *               order: expectedCompletion}]   # GPUs
 *     gangs:  [{name: g, queue: q, pods: 2, min: 1, gpus: 1, cpus: 1, fraction: 0.5,
 *               gpuMemory: 2000, priority: 50, preemptible: true|false|semi, at: [a-0, a-1],
 *               ending: false, apart: rack, required: rack, preferred: rack, topology: dc,
 *               selector: {k: v}, tolerate: dedicated, age: 5m, deadline: 1h, from: 3, lingers: 2}]
 *             # `disruption: all|single`: stopped together, or one by one, whatever its minimum;
 *             # `at`: already running there; `from`: submitted in that cycle;
 *             # `lingers`: cycles that its pods take to end when evicted;
 *             # `fails: 2, back: 4, restartHold: 1m`: its pods fail in that cycle, are made again
 *             # in that one, and their room is held so long; a Pod's manifest says from, lingers,
 *             # fails and back in annotations simulate.muster.dev/from ...
 *     expect: [{gang: g, running: 2, at: [a-0], reason: OverLimit, says: "text", place: 1,
 *               change: "text"},
 *              {pod: g-0, at: [a-0]}, {evictions: 1}, {evicted: pod}]
 */

static int bad(struct err *err, const char *path, const char *what, const char *field)
{
    return err_set(err, -EINVAL, "%s: %s: %s", path, what, field);
}

static int sim_start(struct sim *sim, const char *path, struct err *err)
{
    int r;

    if (sim->sched)
        return 0;
    sim->sched = sched_new(&sim->config);
    r = policy_read_pools(sim->settings, sim->sched, err);
    return r < 0 ? err_wrap(err, r, "%s: config", path) : 0;
}

static void add_pod(struct sim *sim, const struct sim_pod *pod)
{
    struct sim_pod began = *pod;

    began.began = pod->spec.phase;
    began.began_node = pod->spec.node;
    VEC_PUSH(sim->arena, &sim->pods, began);
    if (!pod->from)
        sched_put_pod(sim->sched, &pod->spec);
}

/* ---- known keys ---- */
/* What each part of the shorthand may say: a word that nobody reads would change nothing in silence. */
static const char *const node_keys[] = {"name", "count",    "cpus",      "memory",
                                        "gpus", "podSlots", "gpuMemory", "cordoned",
                                        "pool", "labels",   "taints",    NULL};
static const char *const queue_keys[] = {"name",     "parent",
                                         "pool",     "priority",
                                         "order",    "reclaimMinRuntime",
                                         "quota",    "preemptMinRuntime",
                                         "limit",    "weight",
                                         "cpuLimit", NULL};
static const char *const gang_keys[] = {
    "name",    "queue",      "pool",        "user",     "min",      "pods",      "priority",
    "held",    "disruption", "preemptible", "topology", "required", "preferred", "age",
    "at",      "apart",      "tolerate",    "selector", "ending",   "cpus",      "memory",
    "gpus",    "fraction",   "gpuMemory",   "devices",  "deadline", "device",    "restartHold",
    "invalid", "from",       "lingers",     "fails",    "back",     NULL};
static const char *const topology_keys[] = {"name", "levels", NULL};
static const char *const expect_keys[] = {"gang",      "running", "at",     "reason",
                                          "says",      "place",   "change", "pod",
                                          "evictions", "evicted", NULL};
static const char *const document_keys[] = {"config", "topology", "nodes", "queues",
                                            "gangs",  "expect",   "about", NULL};

static int keys_check(const char *path,
                      const char *what,
                      const struct json *object,
                      const char *const keys[],
                      struct err *err)
{
    if (!json_is(object, JSON_OBJECT))
        return bad(err, path, what, "is not a mapping");
    JSON_FOREACH(object, member) {
        size_t k = 0;

        while (keys[k] && !str_is(json_key(member), keys[k]))
            k++;
        if (!keys[k])
            return err_set(err, -EINVAL, "%s: %s: \"" STR_FMT "\" is not known here", path, what,
                           STR_ARG(json_key(member)));
    }
    return 0;
}

static int keys_check_all(const char *path,
                          const char *what,
                          const struct json *list,
                          const char *const keys[],
                          struct err *err)
{
    JSON_FOREACH(list, item) {
        int r = keys_check(path, what, item, keys, err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int shorthand_check(const char *path, const struct json *document, struct err *err)
{
    const struct json *topology = json_get(document, "topology");
    int r = keys_check(path, "document", document, document_keys, err);

    if (r == 0 && topology)
        r = keys_check(path, "topology", topology, topology_keys, err);
    if (r == 0)
        r = keys_check_all(path, "nodes", json_get(document, "nodes"), node_keys, err);
    if (r == 0)
        r = keys_check_all(path, "queues", json_get(document, "queues"), queue_keys, err);
    if (r == 0)
        r = keys_check_all(path, "gangs", json_get(document, "gangs"), gang_keys, err);
    if (r == 0)
        r = keys_check_all(path, "expect", json_get(document, "expect"), expect_keys, err);
    return r;
}

/* ---- manifests ---- */
static const struct kind *kind_for(struct str api_version, struct str name)
{
    static const struct kind topology = {.group = "kai.scheduler",
                                         .version = "v1alpha1",
                                         .name = "Topology",
                                         .plural = "topologies"};
    struct kinds *kinds = kinds_new();
    const struct kind *kind = kinds_by_name(kinds, api_version, name);

    kinds_free(kinds);
    if (kind)
        return kind;
    return str_is(name, "Topology") ? &topology : NULL;
}

static int load_config(struct sim *sim, const char *path, const struct json *from, struct err *err);

/* What /debug/snapshot says beside the objects: the moment, and how the scheduler is run. */
static int load_snapshot(struct sim *sim, const char *path, struct json *list, struct err *err)
{
    const struct json *config = json_get(list, "config");

    (void)time_parse(json_str(json_get(list, "time")), &sim->start_ms);
    if (!config || sim->sched)
        return 0;
    sim->config.volumes = false; /* an older one has no claims in it */
    return load_config(sim, path, config, err);
}

/* What the shorthand says of a gang's pods over time, a manifest says in annotations. */
static int load_times(const struct object *object, struct sim_pod *pod, struct err *err)
{
    const struct {
        const char *annotation;
        int64_t *cycle;
    } times[] = {{"simulate.muster.dev/from", &pod->from},
                 {"simulate.muster.dev/lingers", &pod->lingers},
                 {"simulate.muster.dev/fails", &pod->fails},
                 {"simulate.muster.dev/back", &pod->back}};

    for (size_t i = 0; i < COUNT_OF(times); i++) {
        struct str said = object_annotation(object, times[i].annotation);

        if (said.len && !str_to_i64(said, times[i].cycle))
            return err_set(err, -EINVAL,
                           "pod " STR_FMT ": annotation %s: \"" STR_FMT
                           "\" is not the number of a cycle",
                           STR_ARG(pod->spec.name), times[i].annotation, STR_ARG(said));
    }
    return 0;
}

/* A pod of ours without a pod group is a group of its own, as the pod grouper would make it. */
static int load_pod(struct sim *sim, const struct object *object, struct err *err)
{
    struct decode decode = {.config = &sim->config,
                            .arena = sim->arena,
                            .object = object,
                            .tree = object_json(object, sim->arena),
                            .err = err};
    struct str queue = object_label(object, "kai.scheduler/queue");
    struct sched_pod pod;

    decode_pod(&decode, &pod);
    if (decode.code)
        return decode.code;
    if (!pod.uid.len)
        pod.uid = pod.name;
    if (sim->loading && !pod.group.len && !pod.node.len)
        return 0;
    bool ours = scheduler_places(sim->config.scheduler_name, pod.scheduler);
    if (!pod.group.len && ours) {
        pod.group = str_printf(sim->arena, "pg-" STR_FMT, STR_ARG(pod.name));
        sched_put_group(sim->sched,
                        &(struct sched_group){
                            .ns = pod.ns,
                            .name = pod.group,
                            .queue = queue.len ? queue : STR("default-queue"),
                            .created_ms = pod.created_ms,
                            .min_member = 1,
                            .priority_class = json_str_at(decode.tree, "spec.priorityClassName")});
    }
    struct sim_pod timed = {.spec = pod};
    int r = load_times(object, &timed, err);
    if (r == 0)
        add_pod(sim, &timed);
    return r;
}

static int load_manifest(struct sim *sim, const char *path, struct json *manifest, struct err *err)
{
    struct str kind_name = json_str(json_get(manifest, "kind"));
    const struct kind *kind = kind_for(json_str(json_get(manifest, "apiVersion")), kind_name);
    struct object *object = NULL;
    struct json *meta = json_get(manifest, "metadata");

    if (str_ends(kind_name, STR("List")) && json_get(manifest, "items")) {
        int snapshot = load_snapshot(sim, path, manifest, err);

        if (snapshot < 0)
            return snapshot;
        JSON_FOREACH(json_get(manifest, "items"), item) {
            int r = load_manifest(sim, path, item, err);
            if (r < 0)
                return r;
        }
        if (sim->sched)
            policy_read_usage(json_get(manifest, "config"), sim->sched);
        return 0;
    }
    if (!kind)
        return err_set(err, -EINVAL, "%s: kind \"" STR_FMT "\" is not known", path,
                       STR_ARG(kind_name));
    if (kind->namespaced && !json_get(meta, "namespace"))
        json_add_c(sim->arena, meta, "namespace", "default");
    int r = sim_start(sim, path, err);
    if (r < 0)
        return r;
    r = object_new(kind, json_text(sim->arena, manifest), &object, err);
    if (r == 0) {
        arena_defer(sim->arena, object_release, object);
        r = kind == &kind_pod ? load_pod(sim, object, err)
                              : sched_observe(sim->sched, SCHED_PUT, object, err);
    }
    return r < 0 ? err_wrap(err, r, "%s", path) : 0;
}

int sim_load_list(struct sim *sim, const char *from, struct json *list, struct err *err)
{
    return load_manifest(sim, from, list, err);
}

/* ---- shorthand ---- */
static double number_or(const struct json *value, double otherwise)
{
    struct quantity quantity = {0};

    if (json_is_null(value) || quantity_parse_json(value, &quantity, NULL))
        return otherwise;
    return (double)(int64_t)(quantity.nano / 1000) / 1e6;
}

static int64_t bytes_or(const struct json *value, int64_t otherwise)
{
    int64_t bytes = otherwise;

    if (!json_is_null(value))
        (void)quantity_whole_json(value, &bytes, NULL);
    return bytes;
}

static int64_t duration_or(const struct json *value, int64_t otherwise)
{
    int64_t ms = otherwise;

    (void)time_parse_duration(json_str(value), &ms);
    return ms;
}

static struct sched_label *labels_of(struct sim *sim, const struct json *from, size_t *ret_count)
{
    struct sched_label *labels = ARENA_ARRAY(sim->arena, struct sched_label, json_count(from) + 1);

    *ret_count = 0;
    JSON_FOREACH(from, label)
        labels[(*ret_count)++] = (struct sched_label){json_key(label), json_str(label)};
    return labels;
}

static void load_node(struct sim *sim, const struct json *from)
{
    int64_t count = json_i64_or(json_get(from, "count"), 0);
    struct str name = json_str(json_get(from, "name"));
    struct sched_node node = {
        .cpu_milli = (int64_t)(number_or(json_get(from, "cpus"), 64) * 1000),
        .memory_bytes = bytes_or(json_get(from, "memory"), INT64_C(512) << 30),
        .gpus = json_i64_or(json_get(from, "gpus"), 0),
        .pods = json_i64_or(json_get(from, "podSlots"), 110),
        .gpu_memory_mib = json_i64_or(json_get(from, "gpuMemory"), 0),
        .unschedulable = json_bool_or(json_get(from, "cordoned"), false),
        .pool = json_str(json_get(from, "pool")),
    };
    const struct json *taints = json_get(from, "taints");
    struct sched_taint *all = ARENA_ARRAY(sim->arena, struct sched_taint, json_count(taints) + 1);

    node.labels = labels_of(sim, json_get(from, "labels"), &node.label_count);
    JSON_FOREACH(taints, taint)
        all[node.taint_count++] = (struct sched_taint){.key = json_str(taint)};
    node.taints = all;
    for (int64_t i = 0; i < (count ? count : 1); i++) {
        node.name =
            count ? str_printf(sim->arena, STR_FMT "-%lld", STR_ARG(name), (long long)i) : name;
        sched_put_node(sim->sched, &node);
    }
}

static void load_queue(struct sim *sim, const struct json *from, int64_t number)
{
    struct sched_queue queue = {.name = json_str(json_get(from, "name")),
                                .parent = json_str(json_get(from, "parent")),
                                .pool = json_str(json_get(from, "pool")),
                                .created_ms = sim->start_ms - 1000000 + number,
                                .priority = json_i64_or(json_get(from, "priority"), 100),
                                .preempt_min_runtime_ms = -1,
                                .reclaim_min_runtime_ms = -1};
    struct str runtime = json_str(json_get(from, "reclaimMinRuntime"));

    if (str_is(json_str(json_get(from, "order")), "expectedCompletion"))
        queue.order = SCHED_ORDER_EXPECTED;
    else if (str_is(json_str(json_get(from, "order")), "fairUsers"))
        queue.order = SCHED_ORDER_USERS;
    (void)time_parse_duration(runtime, &queue.reclaim_min_runtime_ms);
    runtime = json_str(json_get(from, "preemptMinRuntime"));
    (void)time_parse_duration(runtime, &queue.preempt_min_runtime_ms);
    for (int r = 0; r < SCHED_RESOURCES; r++)
        queue.quota[r] = (struct sched_quota){SCHED_UNLIMITED, SCHED_UNLIMITED, 1};
    queue.quota[SCHED_GPU] =
        (struct sched_quota){number_or(json_get(from, "quota"), SCHED_UNLIMITED),
                             number_or(json_get(from, "limit"), SCHED_UNLIMITED),
                             number_or(json_get(from, "weight"), 1)};
    queue.quota[SCHED_CPU].limit = number_or(json_get(from, "cpuLimit"), SCHED_UNLIMITED);
    sched_put_queue(sim->sched, &queue);
}

static struct sched_group gang_group(struct sim *sim, const struct json *from, int64_t number)
{
    const struct json *preemptible = json_get(from, "preemptible");
    int64_t age_ms = 0;
    struct sched_group group = {
        .ns = STR("default"),
        .name = json_str(json_get(from, "name")),
        .queue = json_str(json_get(from, "queue")),
        .pool = json_str(json_get(from, "pool")),
        .user = json_str(json_get(from, "user")),
        .min_member = json_i64_or(json_get(from, "min"), json_i64_or(json_get(from, "pods"), 1)),
        .has_priority = true,
        .priority = json_i64_or(json_get(from, "priority"), 50),
        .preemptibility = str_is(json_str(preemptible), "semi") ? SCHED_SEMI_PREEMPTIBLE
                          : json_is_null(preemptible)           ? SCHED_BY_PRIORITY
                          : json_bool_or(preemptible, false)    ? SCHED_PREEMPTIBLE
                                                                : SCHED_NON_PREEMPTIBLE,
        .held = json_bool_or(json_get(from, "held"), false),
        .whole = str_is(json_str(json_get(from, "disruption")), "all"),
        .single = str_is(json_str(json_get(from, "disruption")), "single"),
        .topology = {json_str(json_get(from, "topology")), json_str(json_get(from, "required")),
                     json_str(json_get(from, "preferred"))},
    };

    (void)time_parse_duration(json_str(json_get(from, "age")), &age_ms);
    group.created_ms = sim->start_ms - 600000 + number - age_ms;
    if (json_get(from, "at"))
        group.last_start_ms = sim->start_ms - age_ms;
    return group;
}

static void gang_constraints(struct sim *sim, const struct json *from, struct sched_pod *pod)
{
    struct str apart = json_str(json_get(from, "apart"));
    struct str tolerate = json_str(json_get(from, "tolerate"));
    struct sched_label *own = ARENA_NEW(sim->arena, struct sched_label);

    pod->node_selector = labels_of(sim, json_get(from, "selector"), &pod->node_selector_count);
    *own = (struct sched_label){STR("gang"), pod->group};
    pod->labels = own;
    pod->label_count = 1;
    if (tolerate.len) {
        struct sched_toleration *toleration = ARENA_NEW(sim->arena, struct sched_toleration);
        *toleration =
            (struct sched_toleration){.key = tolerate, .exists = true, .any_effect = true};
        pod->tolerations = toleration;
        pod->toleration_count = 1;
    }
    if (apart.len) {
        struct sched_pod_term *term = ARENA_NEW(sim->arena, struct sched_pod_term);
        struct sched_expression *same = ARENA_NEW(sim->arena, struct sched_expression);

        *same = (struct sched_expression){
            .key = STR("gang"), .op = SCHED_IN, .values = &own->value, .value_count = 1};
        *term = (struct sched_pod_term){
            .selector = {.expressions = same, .expression_count = 1, .set = true},
            .topology_key = apart};
        pod->anti_affinity = term;
        pod->anti_affinity_count = 1;
    }
}

static void load_gang(struct sim *sim, const struct json *from, int64_t number)
{
    struct sched_group group = gang_group(sim, from, number);
    int64_t pods = json_i64_or(json_get(from, "pods"), 1);
    const struct json *on = json_get(from, "at");
    bool ending = json_bool_or(json_get(from, "ending"), false);
    struct sched_pod pod = {
        .ns = group.ns,
        .group = group.name,
        .created_ms = group.created_ms,
        .cpu_milli = (int64_t)(number_or(json_get(from, "cpus"), 1) * 1000),
        .memory_bytes = bytes_or(json_get(from, "memory"), INT64_C(1) << 30),
        .gpus = json_i64_or(json_get(from, "gpus"), 0),
        .gpu_fraction_micro = (int64_t)(number_or(json_get(from, "fraction"), 0) * 1e6 + 0.5),
        .gpu_memory_mib = json_i64_or(json_get(from, "gpuMemory"), 0),
        .gpu_devices = json_i64_or(json_get(from, "devices"), 1),
        .deadline_ms = duration_or(json_get(from, "deadline"), 0),
        .hold_ms = duration_or(json_get(from, "restartHold"), 0),
        .role_rank = 2,
        .invalid = json_str(json_get(from, "invalid")),
    };

    sched_put_group(sim->sched, &group);
    gang_constraints(sim, from, &pod);
    for (int64_t i = 0; i < pods; i++) {
        struct str *share = ARENA_NEW(sim->arena, struct str);

        pod.name = str_printf(sim->arena, STR_FMT "-%lld", STR_ARG(group.name), (long long)i);
        pod.uid = pod.name;
        pod.node = json_str(json_index(on, (size_t)i));
        pod.phase = !pod.node.len ? SCHED_PENDING : ending ? SCHED_RELEASING : SCHED_RUNNING;
        *share = json_str(json_get(from, "device"));
        pod.gpu_groups = share;
        pod.gpu_group_count = pod.node.len && share->len ? 1 : 0;
        add_pod(sim, &(struct sim_pod){.spec = pod,
                                       .from = json_i64_or(json_get(from, "from"), 0),
                                       .lingers = json_i64_or(json_get(from, "lingers"), 0),
                                       .fails = json_i64_or(json_get(from, "fails"), 0),
                                       .back = json_i64_or(json_get(from, "back"), 0)});
    }
}

static int load_config(struct sim *sim, const char *path, const struct json *from, struct err *err)
{
    int r;

    if (sim->sched)
        return bad(err, path, "config", "must come before the first object");
    r = policy_read_config(from, &sim->config, err);
    sim->settings = from;
    return r < 0 ? err_wrap(err, r, "%s: config", path) : 0;
}

static int load_shorthand(struct sim *sim,
                          const char *path,
                          const struct json *document,
                          struct err *err)
{
    const struct json *topology = json_get(document, "topology");
    const struct json *levels = json_get(topology, "levels");
    int64_t number = (int64_t)sim->pods.count;
    int r = 0;

    if (json_get(document, "config"))
        r = load_config(sim, path, json_get(document, "config"), err);
    if (r == 0)
        r = sim_start(sim, path, err);
    if (r < 0)
        return r;
    if (topology) {
        struct str *names = ARENA_ARRAY(sim->arena, struct str, json_count(levels) + 1);
        size_t count = 0;
        JSON_FOREACH(levels, level)
            names[count++] = json_str(level);
        sched_put_topology(sim->sched,
                           &(struct sched_topology){.name = json_str(json_get(topology, "name")),
                                                    .levels = names,
                                                    .level_count = count});
    }
    JSON_FOREACH(json_get(document, "nodes"), node) {
        if (!json_str(json_get(node, "name")).len)
            return bad(err, path, "nodes", "every node needs a name");
        load_node(sim, node);
    }
    JSON_FOREACH(json_get(document, "queues"), queue)
        load_queue(sim, queue, number++);
    policy_read_usage(json_get(document, "config"), sim->sched);
    JSON_FOREACH(json_get(document, "gangs"), gang) {
        if (!json_str(json_get(gang, "name")).len || !json_str(json_get(gang, "queue")).len)
            return bad(err, path, "gangs", "every gang needs a name and a queue");
        load_gang(sim, gang, number++);
    }
    JSON_FOREACH(json_get(document, "expect"), expectation)
        VEC_PUSH(sim->arena, &sim->expectations, (struct sim_expectation){path, expectation});
    return 0;
}

int sim_load(struct sim *sim, const char *path, struct err *err)
{
    struct str text = STR_NONE;
    struct json_vec documents = {0};
    int r = file_read(sim->arena, path, &text, err);

    if (r < 0)
        return r;
    /* A snapshot of a cluster is megabytes of JSON, which YAML is slow at. */
    struct json *one = NULL;
    if (str_starts(text, STR("{")) && json_parse(sim->arena, text, &one, NULL) == 0)
        VEC_PUSH(sim->arena, &documents, one);
    else
        r = yaml_parse_all(sim->arena, text, &documents, err);
    if (r < 0)
        return err_wrap(err, r, "%s", path);
    for (size_t i = 0; i < documents.count && r == 0; i++) {
        struct json *document = documents.items[i];

        if (!json_is(document, JSON_OBJECT))
            return bad(err, path, "document", "is not a mapping");
        if (json_get(document, "kind")) {
            r = load_manifest(sim, path, document, err);
            continue;
        }
        r = shorthand_check(path, document, err);
        if (r == 0)
            r = load_shorthand(sim, path, document, err);
    }
    return r;
}

/* ---- expectations ---- */
static bool is_on(const struct json *list, struct str node)
{
    if (json_is(list, JSON_STRING))
        return str_eq(json_str(list), node);
    JSON_FOREACH(list, item)
        if (str_eq(json_str(item), node))
            return true;
    return false;
}

static bool unmet(const struct sim_expectation *expectation, struct str what, struct str got)
{
    printf("%s: expected " STR_FMT ", but " STR_FMT "\n", expectation->file, STR_ARG(what),
           STR_ARG(got));
    return false;
}

static bool pod_met(const struct sim *sim, const struct sim_expectation *expectation)
{
    struct str name = json_str(json_get(expectation->json, "pod"));

    for (size_t i = 0; i < sim->pods.count; i++)
        if (str_eq(sim->pods.items[i].spec.name, name))
            return is_on(json_get(expectation->json, "at"), sim->pods.items[i].spec.node) ||
                   unmet(expectation, str_printf(sim->arena, STR_FMT " elsewhere", STR_ARG(name)),
                         sim->pods.items[i].spec.node);
    return unmet(expectation, name, STR("there is no such pod"));
}

static bool change_met(struct sim *sim,
                       const struct sim_expectation *expectation,
                       const struct sched_waiting *why)
{
    struct str change = json_str(json_get(expectation->json, "change"));
    int64_t place = json_i64_or(json_get(expectation->json, "place"), 0);
    struct sched_explanation explanation = {0};

    if (!change.len && !place)
        return true;
    if (!why)
        return unmet(expectation, change.len ? change : STR("a place in line"),
                     STR("it does not wait"));
    (void)sched_explain(sim->sched, why->ns, why->group, sim->arena, &explanation);
    if (change.len && !str_contains(explanation.change, change))
        return unmet(expectation, change, explanation.change);
    return !place || place == (int64_t)explanation.place ||
           unmet(expectation, str_printf(sim->arena, "place %lld", (long long)place),
                 str_printf(sim->arena, "it is %u", explanation.place));
}

static bool gang_met(struct sim *sim, const struct sim_expectation *expectation)
{
    const struct json *want = expectation->json;
    struct str name = json_str(json_get(want, "gang"));
    struct str reason = json_str(json_get(want, "reason"));
    struct str says = json_str(json_get(want, "says"));
    int64_t running = 0;
    int64_t known = 0;
    const struct sched_waiting *why = NULL;

    for (size_t i = 0; i < sim->pods.count; i++) {
        const struct sim_pod *pod = &sim->pods.items[i];

        if (!str_eq(pod->spec.group, name))
            continue;
        known++;
        running += pod->spec.phase == SCHED_RUNNING;
        if (pod->spec.phase == SCHED_RUNNING && json_get(want, "at") &&
            !is_on(json_get(want, "at"), pod->spec.node))
            return unmet(expectation, str_printf(sim->arena, STR_FMT " elsewhere", STR_ARG(name)),
                         str_printf(sim->arena, "it is on " STR_FMT, STR_ARG(pod->spec.node)));
        if ((pod->spec.phase == SCHED_PENDING || pod->spec.phase == SCHED_GATED) &&
            sim_waiting(sim, pod))
            why = sim_waiting(sim, pod);
    }
    if (!known)
        return unmet(expectation, name, STR("there is no such gang"));
    if (json_get(want, "running") && json_i64_or(json_get(want, "running"), 0) != running)
        return unmet(expectation,
                     str_printf(sim->arena, "%lld pods of " STR_FMT " running",
                                (long long)json_i64_or(json_get(want, "running"), 0),
                                STR_ARG(name)),
                     str_printf(sim->arena, "%lld are", (long long)running));
    if (reason.len && (!why || !str_is(reason, sched_reason_word(why->reason))))
        return unmet(expectation,
                     str_printf(sim->arena, STR_FMT " to wait with " STR_FMT, STR_ARG(name),
                                STR_ARG(reason)),
                     why ? str_from(sched_reason_word(why->reason)) : STR("it does not wait"));
    if (!change_met(sim, expectation, why))
        return false;
    if (says.len && (!why || !str_contains(why->message, says)))
        return unmet(expectation, says, why ? why->message : STR("it does not wait"));
    return true;
}

static bool met(struct sim *sim, const struct sim_expectation *expectation)
{
    const struct json *want = expectation->json;
    struct str evicted = json_str(json_get(want, "evicted"));

    if (json_get(want, "pod"))
        return pod_met(sim, expectation);
    if (json_get(want, "gang"))
        return gang_met(sim, expectation);
    if (json_get(want, "evictions") &&
        json_i64_or(json_get(want, "evictions"), 0) != (int64_t)sim->evictions.count)
        return unmet(expectation,
                     str_printf(sim->arena, "%lld evictions",
                                (long long)json_i64_or(json_get(want, "evictions"), 0)),
                     str_printf(sim->arena, "there were %zu", sim->evictions.count));
    for (size_t i = 0; evicted.len && i < sim->evictions.count; i++)
        if (str_eq(sim->evictions.items[i].pod, evicted))
            return true;
    return !evicted.len ||
           unmet(expectation, str_printf(sim->arena, STR_FMT " evicted", STR_ARG(evicted)),
                 STR("it was not"));
}

size_t sim_expect(struct sim *sim)
{
    size_t broken = 0;

    for (size_t i = 0; i < sim->expectations.count; i++)
        broken += !met(sim, &sim->expectations.items[i]);
    return broken;
}
