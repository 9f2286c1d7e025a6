#include "api/gpu.h"
#include "api/group.h"
#include "api/hold.h"
#include "api/numa.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/scheduler_name.h"
#include "api/share.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "base/vec.h"
#include "sched/decode.h"
#include "sched/numa.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a pod asks for and where it may go. */

#define DEADLINE_MAX_S INT64_C(1000000000) /* 30 years; longer ones end nothing */
/* What objects can be called; one that the core makes up has a pod's name and one of its own. Names
 * in annotations are checked by nobody, and keys of the core are bounded (names.h). */
#define NAME_BYTES_MAX 253
#define MADE_BYTES_MAX 512
#define GPU_MIB_MAX    (INT64_C(1) << 30) /* of one device; see amount_most() */

struct amounts VEC_FIELDS(struct sched_amount);

/* More than any machine has, and so little that the sums over all pods of a cluster do not overflow:
 * who asks for more is as large as no node. */
static int64_t amount_most(struct str name)
{
    if (str_is(name, "cpu"))
        return INT64_C(1) << 40;
    return str_starts(name, STR("nvidia.com/")) || str_is(name, "amd.com/gpu") ? INT64_C(1) << 20
                                                                               : INT64_C(1) << 48;
}

static struct sched_amount *amount_at(struct arena *arena, struct amounts *list, struct str name)
{
    for (size_t i = 0; i < list->count; i++)
        if (str_eq(list->items[i].name, name))
            return &list->items[i];
    VEC_PUSH(arena, list, (struct sched_amount){name, 0});
    return &list->items[list->count - 1];
}

static void amounts_add(struct arena *arena, struct amounts *to, const struct amounts *from)
{
    for (size_t i = 0; i < from->count; i++)
        amount_at(arena, to, from->items[i].name)->amount += from->items[i].amount;
}

static void amounts_max(struct arena *arena, struct amounts *to, const struct amounts *from)
{
    for (size_t i = 0; i < from->count; i++) {
        struct sched_amount *amount = amount_at(arena, to, from->items[i].name);
        if (amount->amount < from->items[i].amount)
            amount->amount = from->items[i].amount;
    }
}

static void read_amounts(struct decode *decode,
                         const struct json *list,
                         const char *path,
                         struct amounts *ret)
{
    JSON_FOREACH(list, value) {
        struct str name = json_key(value);
        struct err err = {0};
        int64_t amount = 0;
        int r = str_is(name, "cpu") ? quantity_milli_json(value, &amount, &err)
                                    : quantity_whole_json(value, &amount, &err);

        if (r || amount < 0) {
            (void)decode_error(decode, "%s." STR_FMT ": %s", path, STR_ARG(name),
                               r ? err.text : "is negative");
            amount = 0;
        }
        amount_at(decode->arena, ret, name)->amount = i64_min(amount, amount_most(name));
    }
}

/* A container's requests; where only a limit is given, that is the request. */
static struct amounts container_amounts(struct decode *decode, const struct json *container)
{
    const struct json *resources = json_get(container, "resources");
    struct amounts amounts = {0};

    read_amounts(decode, json_get(resources, "limits"), "resources.limits", &amounts);
    read_amounts(decode, json_get(resources, "requests"), "resources.requests", &amounts);
    return amounts;
}

static enum sched_container_role role_of(const struct json *container, bool init)
{
    if (!init)
        return SCHED_CONTAINER_MAIN;
    return str_is(json_str(json_get(container, "restartPolicy")), "Always")
               ? SCHED_CONTAINER_SIDECAR
               : SCHED_CONTAINER_INIT;
}

/* Only NUMA zones want to know what each container asks for; one alone asks for what the pod does. */
static void take_containers(struct decode *decode, struct sched_pod *pod)
{
    const struct json *spec = json_get(decode->tree, "spec");
    const char *const lists[] = {"initContainers", "containers"};
    size_t count = json_count(json_get(spec, lists[0])) + json_count(json_get(spec, lists[1]));
    struct sched_container *containers;

    if (count < 2 && json_is_null(json_get(spec, "overhead")))
        return;
    containers = ARENA_ARRAY(decode->arena, struct sched_container, count + 1);
    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(spec, lists[l]), container) {
            struct amounts amounts = container_amounts(decode, container);

            containers[pod->container_count++] =
                (struct sched_container){.role = role_of(container, l == 0),
                                         .amounts = amounts.items,
                                         .amount_count = amounts.count};
        }
    pod->containers = containers;
}

/* Every container has a limit of CPUs and memory, and asks for no less. */
static bool is_guaranteed(const struct json *spec)
{
    const char *const lists[] = {"initContainers", "containers"};
    const char *const names[] = {"cpu", "memory"};

    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(spec, lists[l]), container)
            for (size_t i = 0; i < COUNT_OF(names); i++) {
                const struct json *resources = json_get(container, "resources");
                const struct json *limit = json_get(json_get(resources, "limits"), names[i]);
                const struct json *request = json_get(json_get(resources, "requests"), names[i]);
                int64_t most = 0;
                int64_t least = 0;

                if (!limit || quantity_milli_json(limit, &most, NULL) ||
                    (request && (quantity_milli_json(request, &least, NULL) || least != most)))
                    return false;
            }
    return true;
}

/* As much of it as is left. */
static int64_t amount_take(struct amounts *left, struct str name, int64_t amount)
{
    for (size_t i = 0; i < left->count; i++)
        if (str_eq(left->items[i].name, name)) {
            int64_t taken = amount < left->items[i].amount ? amount : left->items[i].amount;

            left->items[i].amount -= taken;
            return taken;
        }
    return 0;
}

/* What all containers ask for, one after the other or not. */
static struct amounts asked_in_all(struct decode *decode)
{
    const struct json *spec = json_get(decode->tree, "spec");
    const char *const lists[] = {"initContainers", "containers"};
    struct amounts all = {0};

    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(spec, lists[l]), container) {
            struct amounts amounts = container_amounts(decode, container);

            amounts_add(decode->arena, &all, &amounts);
        }
    return all;
}

/* [{"zone": "node-0", "amount": {"cpu": "3"}}]: what its kubelet gave it, or was expected to. Whoever
 * may edit the pod can write it: it has no more of zones than it asks for, or one pod could keep all
 * others away. */
static void take_zones(struct decode *decode, struct sched_pod *pod)
{
    struct str text = object_annotation(decode->object, NUMA_ANNOTATION_OBSERVED);
    VEC(struct sched_zone_part) parts = {0};
    struct json *list = NULL;
    size_t zones = 0;

    if (!text.len)
        text = object_annotation(decode->object, NUMA_ANNOTATION_PREDICTED);
    if (!text.len || json_parse(decode->arena, text, &list, NULL) < 0)
        return; /* nothing is known then, as without it */
    struct amounts left = asked_in_all(decode);
    JSON_FOREACH(list, item) {
        struct amounts amounts = {0};

        if (json_count(json_get(item, "amount")) > NUMA_KINDS_MAX || zones++ >= NUMA_ZONES_MAX)
            continue; /* no node has so many */
        read_amounts(decode, json_get(item, "amount"), "amount", &amounts);
        for (size_t i = 0; i < amounts.count; i++) {
            struct str name = amounts.items[i].name;
            int64_t amount = amount_take(&left, name, amounts.items[i].amount);

            if (amount)
                VEC_PUSH(decode->arena, &parts,
                         (struct sched_zone_part){json_str(json_get(item, "zone")), name, amount});
        }
    }
    pod->zone_parts = parts.items;
    pod->zone_part_count = parts.count;
}

static void take_numa(struct decode *decode, struct sched_pod *pod)
{
    struct str qos = json_str_at(decode->tree, "status.qosClass");

    pod->guaranteed =
        qos.len ? str_is(qos, "Guaranteed") : is_guaranteed(json_get(decode->tree, "spec"));
    take_containers(decode, pod);
    take_zones(decode, pod);
}

static struct amounts pod_amounts(struct decode *decode, const struct json *spec)
{
    bool plain = decode->config->quirks & SCHED_QUIRK(SIDECARS);
    struct amounts sum = {0};
    struct amounts sidecars = {0};
    struct amounts init = {0};
    struct amounts overhead = {0};

    JSON_FOREACH(json_get(spec, "initContainers"), container) {
        struct amounts amounts = container_amounts(decode, container);
        bool sidecar = str_is(json_str(json_get(container, "restartPolicy")), "Always") && !plain;

        if (sidecar) {
            amounts_add(decode->arena, &sidecars, &amounts);
            amounts_max(decode->arena, &init, &sidecars);
        } else {
            struct amounts with = {0};
            amounts_add(decode->arena, &with, &amounts);
            amounts_add(decode->arena, &with, &sidecars);
            amounts_max(decode->arena, &init, &with);
        }
    }
    JSON_FOREACH(json_get(spec, "containers"), container) {
        struct amounts amounts = container_amounts(decode, container);
        amounts_add(decode->arena, &sum, &amounts);
    }
    amounts_add(decode->arena, &sum, &sidecars);
    amounts_max(decode->arena, &sum, &init);
    read_amounts(decode, json_get(spec, "overhead"), "spec.overhead", &overhead);
    amounts_add(decode->arena, &sum, &overhead);
    for (size_t i = 0; i < sum.count; i++)
        sum.items[i].amount = i64_min(sum.items[i].amount, amount_most(sum.items[i].name));
    return sum;
}

static void take_amounts(struct decode *decode, struct sched_pod *pod)
{
    struct amounts sum = pod_amounts(decode, json_get(decode->tree, "spec"));
    struct amounts others = {0};

    for (size_t i = 0; i < sum.count; i++) {
        struct str name = sum.items[i].name;

        if (str_is(name, "cpu"))
            pod->cpu_milli = sum.items[i].amount;
        else if (str_is(name, "memory"))
            pod->memory_bytes = sum.items[i].amount;
        else if (str_is(name, "nvidia.com/gpu") || str_is(name, "amd.com/gpu"))
            pod->gpus += sum.items[i].amount;
        else if (sum.items[i].amount > 0)
            VEC_PUSH(decode->arena, &others, sum.items[i]);
    }
    pod->amounts = others.items;
    pod->amount_count = others.count;
}

/* Whether a share can be had at all, where devices are not ours to number. */
static struct str share_obstacle(const struct decode *decode, const struct sched_pod *pod)
{
    if (pod->node.len || decode->config->devices == SCHED_DEVICES_NUMBERED)
        return STR_NONE;
    if (decode->config->devices == SCHED_DEVICES_WHOLE)
        return STR("GPU sharing is off on this cluster: ask for " GPU_RESOURCE
                   ", or ask an administrator to enable it (global.gpuSharing)");
    if (!object_annotation(decode->object, GPU_ANNOTATION_CONFIG).len)
        return STR("it was created while the admission webhook of Muster could not be asked, so it "
                   "cannot be given a share of a GPU: delete it and create it again");
    return STR_NONE;
}

static void take_gpu_sharing(struct decode *decode, struct sched_pod *pod)
{
    struct str fraction = object_annotation(decode->object, GPU_ANNOTATION_FRACTION);
    struct str memory = object_annotation(decode->object, GPU_ANNOTATION_FRACTION_MEMORY);
    struct str devices = object_annotation(decode->object, GPU_ANNOTATION_FRACTION_DEVICES);

    if (fraction.len) {
        pod->gpu_fraction_micro = share_micro(fraction);
        if (pod->gpu_fraction_micro <= 0 || pod->gpu_fraction_micro >= 1000000) {
            pod->invalid = STR("annotation gpu-fraction must be a number between 0 and 1");
            pod->gpu_fraction_micro = 0;
        }
    }
    if (memory.len && (!str_to_i64(memory, &pod->gpu_memory_mib) || pod->gpu_memory_mib < 1)) {
        pod->invalid = STR("annotation gpu-memory must be a positive number of MiB");
        pod->gpu_memory_mib = 0;
    }
    pod->gpu_memory_mib = i64_min(pod->gpu_memory_mib, GPU_MIB_MAX);
    if (devices.len && (!str_to_i64(devices, &pod->gpu_devices) || pod->gpu_devices < 1 ||
                        pod->gpu_devices > GPU_SHARE_DEVICES_MAX)) {
        pod->invalid = STR("annotation gpu-fraction-num-devices must be between 1 and 16");
        pod->gpu_devices = 1;
    }
    if ((fraction.len && memory.len) || ((fraction.len || memory.len) && pod->gpus))
        pod->invalid = STR("gpu-fraction, gpu-memory and whole GPUs exclude each other");
    if (!pod->invalid.len && (fraction.len || memory.len))
        pod->invalid = share_obstacle(decode, pod);
    if (pod->invalid.len)
        (void)decode_error(decode, STR_FMT, STR_ARG(pod->invalid));
}

/* "0,3": the numbers of the devices a plan gave the pod; shared ones are named by them too. Where
 * somebody else hands out devices, shared ones are named by labels. */
static void take_devices(struct decode *decode, struct sched_pod *pod)
{
    bool numbered = decode->config->devices == SCHED_DEVICES_NUMBERED;
    struct str rest =
        numbered ? object_annotation(decode->object, GPU_ANNOTATION_DEVICES) : STR_NONE;
    bool shared = pod->gpu_fraction_micro || pod->gpu_memory_mib;
    VEC(uint32_t) numbers = {0};
    VEC(struct str) names = {0};
    struct str part;

    while (str_cut(&rest, ',', &part)) {
        int64_t number = 0;
        if (!part.len || !str_to_i64(part, &number) || number < 0 || number > 65535)
            continue;
        VEC_PUSH(decode->arena, &numbers, (uint32_t)number);
        VEC_PUSH(decode->arena, &names, part);
    }
    bool labelled = shared && !names.count;
    for (size_t i = 0; labelled && i < decode->object->label_count; i++) {
        struct str key = decode->object->labels[i].key;
        if (str_is(key, GPU_LABEL_GROUP) || str_starts(key, STR(GPU_LABEL_GROUP_PREFIX)))
            VEC_PUSH(decode->arena, &names, decode->object->labels[i].value);
    }
    if (shared) {
        pod->gpu_groups = names.items;
        pod->gpu_group_count = names.count;
    } else {
        pod->devices = numbers.items;
        pod->device_count = numbers.count;
    }
}

static struct sched_expression is_value(struct arena *arena,
                                        struct str key,
                                        enum sched_operator op,
                                        struct str value)
{
    struct str *values = ARENA_NEW(arena, struct str);

    *values = value;
    return (struct sched_expression){.key = key, .op = op, .values = values, .value_count = 1};
}

/* `term` has matchLabelKeys and mismatchLabelKeys, which mean the pod's own values of these labels;
 * NULL: it has none. */
static struct sched_selector selector_of(const struct decode *decode,
                                         const struct json *selector,
                                         const struct json *term)
{
    const struct json *labels = json_get(selector, "matchLabels");
    const struct json *own = json_at(decode->tree, "metadata.labels");
    const struct json *same = json_get(term, "matchLabelKeys");
    const struct json *other = json_get(term, "mismatchLabelKeys");
    struct sched_selector ret = {.set = !json_is_null(selector)};
    size_t count = 0;
    struct sched_expression *expressions =
        decode_expressions(decode->arena, json_get(selector, "matchExpressions"), &count);
    struct sched_expression *all =
        ARENA_ARRAY(decode->arena, struct sched_expression,
                    count + json_count(labels) + json_count(same) + json_count(other) + 1);

    for (size_t i = 0; i < count; i++)
        all[i] = expressions[i];
    JSON_FOREACH(labels, label)
        all[count++] = is_value(decode->arena, json_key(label), SCHED_IN, json_str(label));
    for (int o = 0; o < 2; o++)
        JSON_FOREACH(o ? other : same, key) {
            const struct json *value = json_get_str(own, json_str(key));

            if (value)
                all[count++] = is_value(decode->arena, json_str(key), o ? SCHED_NOT_IN : SCHED_IN,
                                        json_str(value));
        }
    ret.expressions = all;
    ret.expression_count = count;
    return ret;
}

static const struct sched_pod_term *pod_terms(const struct decode *decode,
                                              const struct json *list,
                                              bool weighted,
                                              size_t *ret_count)
{
    struct arena *arena = decode->arena;
    struct sched_pod_term *terms = ARENA_ARRAY(arena, struct sched_pod_term, json_count(list) + 1);
    size_t count = 0;

    JSON_FOREACH(list, item) {
        const struct json *term = weighted ? json_get(item, "podAffinityTerm") : item;
        const struct json *namespaces = json_get(term, "namespaces");
        struct str *names = ARENA_ARRAY(arena, struct str, json_count(namespaces) + 1);
        size_t n = 0;

        JSON_FOREACH(namespaces, name)
            names[n++] = json_str(name);
        terms[count++] = (struct sched_pod_term){
            .selector = selector_of(decode, json_get(term, "labelSelector"), term),
            .topology_key = json_str(json_get(term, "topologyKey")),
            .namespaces = names,
            .namespace_count = n,
            .namespace_selector = selector_of(decode, json_get(term, "namespaceSelector"), NULL),
            .weight = json_i64_or(json_get(item, "weight"), 0),
        };
    }
    *ret_count = count;
    return terms;
}

static const struct sched_node_term *node_terms(struct arena *arena,
                                                const struct json *list,
                                                bool weighted,
                                                size_t *ret_count)
{
    struct sched_node_term *terms =
        ARENA_ARRAY(arena, struct sched_node_term, json_count(list) + 1);
    size_t count = 0;

    JSON_FOREACH(list, item) {
        const struct json *term = weighted ? json_get(item, "preference") : item;
        struct sched_node_term *to = &terms[count++];

        to->labels =
            decode_expressions(arena, json_get(term, "matchExpressions"), &to->label_count);
        to->fields = decode_expressions(arena, json_get(term, "matchFields"), &to->field_count);
        to->weight = json_i64_or(json_get(item, "weight"), 0);
    }
    *ret_count = count;
    return terms;
}

static void take_affinity(struct decode *decode, struct sched_pod *pod)
{
    const struct json *affinity = json_at(decode->tree, "spec.affinity");
    const struct json *node = json_get(affinity, "nodeAffinity");
    const struct json *near = json_get(affinity, "podAffinity");
    const struct json *away = json_get(affinity, "podAntiAffinity");
    const struct json *required = json_get(node, "requiredDuringSchedulingIgnoredDuringExecution");
    const char *hard = "requiredDuringSchedulingIgnoredDuringExecution";
    const char *soft = "preferredDuringSchedulingIgnoredDuringExecution";

    pod->node_affinity = !json_is_null(required);
    pod->node_terms = node_terms(decode->arena, json_get(required, "nodeSelectorTerms"), false,
                                 &pod->node_term_count);
    pod->node_preferences =
        node_terms(decode->arena, json_get(node, soft), true, &pod->node_preference_count);
    pod->affinity = pod_terms(decode, json_get(near, hard), false, &pod->affinity_count);
    pod->anti_affinity = pod_terms(decode, json_get(away, hard), false, &pod->anti_affinity_count);
    pod->affinity_preferences =
        pod_terms(decode, json_get(near, soft), true, &pod->affinity_preference_count);
    pod->anti_affinity_preferences =
        pod_terms(decode, json_get(away, soft), true, &pod->anti_affinity_preference_count);
}

static struct sched_port port_of(const struct json *port)
{
    struct str protocol = json_str(json_get(port, "protocol"));

    return (struct sched_port){.address = json_str(json_get(port, "hostIP")),
                               .protocol = protocol.len ? protocol : STR("TCP"),
                               .port = (int32_t)json_i64_or(json_get(port, "hostPort"), 0)};
}

/* Those of the containers that run together: of init containers the ones that stay. */
static void take_ports(struct decode *decode, struct sched_pod *pod)
{
    const char *const lists[] = {"initContainers", "containers"};
    VEC(struct sched_port) ports = {0};

    for (size_t l = 0; l < COUNT_OF(lists); l++)
        JSON_FOREACH(json_get(json_get(decode->tree, "spec"), lists[l]), container) {
            if (role_of(container, l == 0) == SCHED_CONTAINER_INIT)
                continue;
            JSON_FOREACH(json_get(container, "ports"), port)
                if (json_i64_or(json_get(port, "hostPort"), 0) > 0)
                    VEC_PUSH(decode->arena, &ports, port_of(port));
        }
    pod->ports = ports.items;
    pod->port_count = ports.count;
}

static void take_constraints(struct decode *decode, struct sched_pod *pod)
{
    const struct json *spec = json_get(decode->tree, "spec");
    VEC(struct sched_label) selector = {0};
    VEC(struct sched_toleration) tolerations = {0};
    VEC(struct sched_spread) spreads = {0};

    JSON_FOREACH(json_get(spec, "nodeSelector"), label)
        VEC_PUSH(decode->arena, &selector, (struct sched_label){json_key(label), json_str(label)});
    JSON_FOREACH(json_get(spec, "tolerations"), item) {
        struct str effect = json_str(json_get(item, "effect"));
        VEC_PUSH(decode->arena, &tolerations,
                 (struct sched_toleration){
                     .key = json_str(json_get(item, "key")),
                     .value = json_str(json_get(item, "value")),
                     .exists = str_is(json_str(json_get(item, "operator")), "Exists"),
                     .any_effect = !effect.len,
                     .effect = str_is(effect, "NoExecute")          ? SCHED_NO_EXECUTE
                               : str_is(effect, "PreferNoSchedule") ? SCHED_PREFER_NO_SCHEDULE
                                                                    : SCHED_NO_SCHEDULE});
    }
    JSON_FOREACH(json_get(spec, "topologySpreadConstraints"), item)
        VEC_PUSH(
            decode->arena, &spreads,
            (struct sched_spread){
                .selector = selector_of(decode, json_get(item, "labelSelector"), item),
                .any_selected = str_is(json_str(json_get(item, "nodeAffinityPolicy")), "Ignore"),
                .any_taints = !str_is(json_str(json_get(item, "nodeTaintsPolicy")), "Honor"),
                .topology_key = json_str(json_get(item, "topologyKey")),
                .max_skew = json_i64_or(json_get(item, "maxSkew"), 1),
                .min_domains = json_i64_or(json_get(item, "minDomains"), 0),
                .required =
                    !str_is(json_str(json_get(item, "whenUnsatisfiable")), "ScheduleAnyway")});
    pod->node_selector = selector.items;
    pod->node_selector_count = selector.count;
    pod->tolerations = tolerations.items;
    pod->toleration_count = tolerations.count;
    pod->spreads = spreads.items;
    pod->spread_count = spreads.count;
    take_ports(decode, pod);
    take_affinity(decode, pod);
}

static enum sched_phase phase_of(const struct decode *decode, struct str node)
{
    struct str phase = json_str_at(decode->tree, "status.phase");

    if (str_is(phase, "Succeeded"))
        return SCHED_SUCCEEDED;
    if (str_is(phase, "Failed"))
        return SCHED_FAILED;
    if (decode->object->deleted_ms)
        return SCHED_RELEASING;
    if (str_is(phase, "Running"))
        return SCHED_RUNNING;
    if (node.len)
        return SCHED_BOUND;
    return json_count(json_at(decode->tree, "spec.schedulingGates")) ? SCHED_GATED : SCHED_PENDING;
}

/* When the last of its containers did. */
static int64_t ended_of(const struct decode *decode)
{
    int64_t last_ms = 0;

    JSON_FOREACH(json_at(decode->tree, "status.containerStatuses"), container) {
        int64_t ms = 0;

        (void)time_parse(json_str_at(container, "state.terminated.finishedAt"), &ms);
        last_ms = ms > last_ms ? ms : last_ms;
    }
    return last_ms;
}

/* Whether it can give up its GPUs, or its shares of some. Where a device plugin hands out devices a
 * whole one could not be had back; of one that a reservation pod holds a share can be, by a pod that
 * was prepared for it. */
static bool can_give_up(const struct decode *decode, const struct sched_pod *pod)
{
    return decode->config->devices == SCHED_DEVICES_NUMBERED ||
           (decode->config->devices == SCHED_DEVICES_RESERVED && pod->movable);
}

/* What it has in host memory is within the limit of its container, where nobody raises that. */
static bool is_limited(const struct decode *decode)
{
    JSON_FOREACH(json_at(decode->tree, "spec.containers"), container)
        if (!json_at(container, "resources.limits.memory"))
            return false;
    return true;
}

/* A pod that gives up its GPUs, or its shares of some, and stays: until its node says that it has,
 * it holds them as one that is being deleted does; then only the rest. */
static void take_suspension(struct decode *decode, struct sched_pod *pod)
{
    struct str wish = object_annotation(decode->object, SUSPEND_ANNOTATION);
    struct str status = STR_NONE;
    struct str reason = STR_NONE;
    struct str message = STR_NONE;
    int64_t mib = 0;

    pod->movable = decode->config->devices == SCHED_DEVICES_RESERVED &&
                   str_is(object_annotation(decode->object, SUSPEND_MAY), "true") &&
                   (pod->gpu_fraction_micro || pod->gpu_memory_mib) && pod->gpu_devices <= 1;
    JSON_FOREACH(json_at(decode->tree, "status.conditions"), condition)
        if (str_is(json_str(json_get(condition, "type")), SUSPEND_CONDITION)) {
            status = json_str(json_get(condition, "status"));
            reason = json_str(json_get(condition, "reason"));
            message = json_str(json_get(condition, "message"));
        }
    pod->resuming = !wish.len && str_is(status, "True") && pod->phase == SCHED_RUNNING;
    if (!wish.len || !can_give_up(decode, pod) || !pod->node.len ||
        (pod->phase != SCHED_RUNNING && pod->phase != SCHED_BOUND && pod->phase != SCHED_RELEASING))
        return;
    if (str_is(status, "True") && str_is(reason, SUSPEND_MOVED) &&
        str_to_i64(str_sub(message, 0, str_find(message, ' ')), &mib) && mib > 0 &&
        !(pod->movable && is_limited(decode)))
        pod->moved_bytes = mib << 20;
    if (pod->phase == SCHED_RELEASING) {
        if (!str_is(status, "True"))
            return;
        /* Deleted while it stands still: its GPUs may be another's, and it never goes on. */
        pod->gpus = 0;
        pod->device_count = 0;
        pod->gpu_fraction_micro = pod->gpu_memory_mib = 0;
        if (pod->movable) { /* its reservation pod holds the device until it is gone */
            pod->keeps_shares = true;
        } else {
            pod->gpu_devices = 0;
            pod->gpu_group_count = 0;
        }
        pod->memory_bytes += pod->moved_bytes;
    } else if (str_is(status, "True")) {
        pod->suspended = true;
        pod->phase = str_is(wish, SUSPEND_YIELD) ? SCHED_PENDING : SCHED_GATED;
    } else if (!str_is(reason, SUSPEND_FAILED)) {
        pod->phase = SCHED_RELEASING;
        pod->may_stay = !str_is(wish, SUSPEND_YIELD); /* who gives way and fails to is evicted */
    }
}

static void take_claims(struct decode *decode, struct sched_pod *pod)
{
    const struct json *list = json_at(decode->tree, "spec.resourceClaims");
    struct sched_claim_use *claims =
        ARENA_ARRAY(decode->arena, struct sched_claim_use, json_count(list) + 1);

    JSON_FOREACH(list, item) {
        struct sched_claim_use use = {.name = json_str(json_get(item, "resourceClaimName"))};

        use.from_template = !use.name.len;
        JSON_FOREACH(json_at(decode->tree, "status.resourceClaimStatuses"), status)
            if (use.from_template &&
                str_eq(json_str(json_get(status, "name")), json_str(json_get(item, "name"))))
                use.name = json_str(json_get(status, "resourceClaimName"));
        /* Not made yet of its template: no claim has this name, so the pod waits for its own. */
        if (!use.name.len)
            use.name = str_printf(decode->arena, STR_FMT "/" STR_FMT, STR_ARG(decode->object->name),
                                  STR_ARG(json_str(json_get(item, "name"))));
        if (use.name.len > MADE_BYTES_MAX) {
            (void)decode_error(decode, "spec.resourceClaims: no claim has a name of %zu bytes",
                               use.name.len);
            use.name = STR("/"); /* which none has either */
        }
        claims[pod->claim_count++] = use;
    }
    pod->claims = claims;
}

static void take_order(struct decode *decode, struct sched_pod *pod)
{
    struct str role = object_label(decode->object, "training.kubeflow.org/job-role");
    struct str priority = object_label(decode->object, "kai.scheduler/task-priority");
    bool head = str_is(object_label(decode->object, "ray.io/node-type"), "head");

    pod->role_rank = str_is(role, "master") || str_is(role, "launcher") ? 0 : head ? 1 : 2;
    pod->has_task_priority = priority.len && str_to_i64(priority, &pod->task_priority);
}

struct str sched_pod_group(const struct sched_config *config,
                           const struct object *object,
                           const struct json *spec)
{
    struct str told = object_annotation(object, GROUP_ANNOTATION);
    bool named = !told.len && object->group.len;

    return named && scheduler_places(config->scheduler_name,
                                     json_str(json_get(spec, "schedulerName")))
               ? object->group
               : told;
}

struct sched_selector decode_selector(const struct decode *decode, const struct json *selector)
{
    return selector_of(decode, selector, NULL);
}

const struct sched_node_term *decode_node_terms(struct arena *arena,
                                                const struct json *list,
                                                size_t *ret_count)
{
    return node_terms(arena, list, false, ret_count);
}

void decode_pod(struct decode *decode, struct sched_pod *ret)
{
    const struct object *object = decode->object;
    const struct json *spec = json_get(decode->tree, "spec");
    int64_t deadline_s = json_i64_or(json_get(spec, "activeDeadlineSeconds"), 0);
    struct sched_label *labels =
        ARENA_ARRAY(decode->arena, struct sched_label, object->label_count + 1);

    *ret = (struct sched_pod){
        .ns = object->ns,
        .name = object->name,
        .uid = object->uid,
        .group = sched_pod_group(decode->config, object, spec),
        .subgroup = object_label(object, "kai.scheduler/subgroup-name"),
        .scheduler = json_str(json_get(spec, "schedulerName")),
        .created_ms = object->created_ms,
        .node = json_str(json_get(spec, "nodeName")),
        .nominated_node = json_str_at(decode->tree, "status.nominatedNodeName"),
        .labels = labels,
        .label_count = object->label_count,
        .deadline_ms = deadline_s > 0 && deadline_s < DEADLINE_MAX_S ? deadline_s * 1000 : 0,
    };
    if (ret->group.len > NAME_BYTES_MAX) {
        (void)decode_error(decode, "annotation %s: no pod group has a name of %zu bytes",
                           GROUP_ANNOTATION, ret->group.len);
        ret->group = STR_NONE;
    }
    for (size_t i = 0; i < object->label_count; i++)
        labels[i] = (struct sched_label){object->labels[i].key, object->labels[i].value};
    for (size_t i = 0; i < object->annotation_count; i++)
        if (str_starts(object->annotations[i].key, STR("nvidia.com/mig-")))
            ret->legacy_mig = true;
    (void)time_parse(json_str_at(decode->tree, "status.startTime"), &ret->started_ms);
    ret->phase = phase_of(decode, ret->node);
    if (ret->phase == SCHED_RELEASING &&
        str_is(json_str_at(decode->tree, "status.phase"), "Running"))
        ret->deleted_ms = object->deleted_ms;
    if (ret->phase == SCHED_FAILED)
        ret->ended_ms = ended_of(decode);
    struct str hold = object_annotation(object, HOLD_ANNOTATION);
    if (hold.len && !time_parse_duration(hold, &ret->hold_ms))
        (void)decode_error(decode, "annotation %s: \"" STR_FMT "\" is not a duration, as in 90s",
                           HOLD_ANNOTATION, STR_ARG(hold));
    take_amounts(decode, ret);
    take_numa(decode, ret);
    take_gpu_sharing(decode, ret);
    take_devices(decode, ret);
    take_constraints(decode, ret);
    take_claims(decode, ret);
    if (decode->config->volumes)
        decode_pod_volumes(decode, ret);
    take_order(decode, ret);
    take_suspension(decode, ret);
}
