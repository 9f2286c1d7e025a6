#include "sched/decode.h"

#include "api/beyond.h"
#include "api/decode.h"
#include "api/group.h"
#include "api/hold.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/quantity.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "sched/resource.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

int decode_error(struct decode *decode, const char *fmt, ...)
{
    char text[sizeof(((struct err *)0)->text)];
    const struct object *object = decode->object;
    va_list args;

    if (decode->code)
        return decode->code;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    decode->code =
        err_set(decode->err, -EINVAL, "%s " STR_FMT "%s" STR_FMT ": %s", object->kind->name,
                STR_ARG(object->ns), object->ns.len ? "/" : "", STR_ARG(object->name), text);
    return decode->code;
}

static struct sched_label *labels_of(struct decode *decode, size_t *ret_count)
{
    const struct object *object = decode->object;
    struct sched_label *labels =
        ARENA_ARRAY(decode->arena, struct sched_label, object->label_count + 1);

    for (size_t i = 0; i < object->label_count; i++)
        labels[i] = (struct sched_label){object->labels[i].key, object->labels[i].value};
    *ret_count = object->label_count;
    return labels;
}

struct sched_expression *decode_expressions(struct arena *arena,
                                            const struct json *list,
                                            size_t *ret_count)
{
    static const char *const operators[] = {
        [SCHED_IN] = "In",         [SCHED_NOT_IN] = "NotIn",
        [SCHED_EXISTS] = "Exists", [SCHED_NOT_EXISTS] = "DoesNotExist",
        [SCHED_GT] = "Gt",         [SCHED_LT] = "Lt",
    };
    struct sched_expression *all =
        ARENA_ARRAY(arena, struct sched_expression, json_count(list) + 1);
    size_t count = 0;

    JSON_FOREACH(list, item) {
        const struct json *values = json_get(item, "values");
        struct str *texts = ARENA_ARRAY(arena, struct str, json_count(values) + 1);
        struct sched_expression *expression = &all[count++];
        struct str op = json_str(json_get(item, "operator"));
        size_t n = 0;

        JSON_FOREACH(values, value)
            texts[n++] = json_str(value);
        *expression = (struct sched_expression){
            .key = json_str(json_get(item, "key")), .values = texts, .value_count = n};
        for (unsigned i = 0; i < COUNT_OF(operators); i++)
            if (str_is(op, operators[i]))
                expression->op = (enum sched_operator)i;
    }
    *ret_count = count;
    return all;
}

/* ---- node ---- */
static int64_t amount_of(struct decode *decode, const struct json *value, const char *list)
{
    struct str name = json_key(value);
    int64_t amount = 0;
    struct err err = {0};
    int r = str_is(name, "cpu") ? quantity_milli_json(value, &amount, &err)
                                : quantity_whole_json(value, &amount, &err);

    if (r)
        (void)decode_error(decode, "%s." STR_FMT ": %s", list, STR_ARG(name), err.text);
    return amount;
}

static void node_amounts(struct decode *decode, struct sched_node *node)
{
    const struct json *list = json_at(decode->tree, "status.allocatable");
    struct sched_amount *amounts = NULL;

    if (json_is_null(list))
        list = json_at(decode->tree, "status.capacity");
    amounts = ARENA_ARRAY(decode->arena, struct sched_amount, json_count(list) + 1);
    JSON_FOREACH(list, value) {
        struct str name = json_key(value);
        int64_t amount = amount_of(decode, value, "status.allocatable");

        if (str_is(name, "cpu"))
            node->cpu_milli = amount;
        else if (str_is(name, "memory"))
            node->memory_bytes = amount;
        else if (str_is(name, "pods"))
            node->pods = amount;
        else if (str_is(name, "nvidia.com/gpu") || str_is(name, "amd.com/gpu"))
            node->gpus += amount;
        else if (amount > 0)
            amounts[node->amount_count++] = (struct sched_amount){name, amount};
    }
    node->amounts = amounts;
}

static bool node_not_ready(const struct json *tree)
{
    bool ready = true;

    JSON_FOREACH(json_at(tree, "status.conditions"), condition) {
        struct str type = json_str(json_get(condition, "type"));
        bool is_true = str_is(json_str(json_get(condition, "status")), "True");

        if (str_is(type, "Ready"))
            ready = ready && is_true;
        else if (is_true && (str_is(type, "MemoryPressure") || str_is(type, "DiskPressure") ||
                             str_is(type, "PIDPressure") || str_is(type, "NetworkUnavailable")))
            ready = false;
    }
    return !ready;
}

static bool effect_of(struct str text, enum sched_effect *ret)
{
    if (str_is(text, "NoSchedule"))
        *ret = SCHED_NO_SCHEDULE;
    else if (str_is(text, "NoExecute"))
        *ret = SCHED_NO_EXECUTE;
    else if (str_is(text, "PreferNoSchedule"))
        *ret = SCHED_PREFER_NO_SCHEDULE;
    else
        return false;
    return true;
}

/* As KAI reads labels. */
static bool is_true(struct str text)
{
    static const char *const words[] = {"true", "True", "TRUE", "t", "T", "1"};

    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_is(text, words[i]))
            return true;
    return false;
}

static void node_gpu_facts(struct decode *decode, struct sched_node *node)
{
    const struct object *object = decode->object;
    struct str memory = object_label(object, "nvidia.com/gpu.memory");
    struct str strategy = object_label(object, "nvidia.com/mig.strategy");
    int64_t mib = 0;

    if (memory.len && !str_to_i64(memory, &mib))
        (void)decode_error(decode, "label nvidia.com/gpu.memory: \"" STR_FMT "\" is not a number",
                           STR_ARG(memory));
    node->gpu_memory_mib = mib >= 1 << 20 ? mib >> 20 : mib;
    (void)str_to_i64(object_label(object, "nvidia.com/gpu.count"), &node->gpu_count);
    node->mig = str_is(strategy, "single")  ? SCHED_MIG_SINGLE
                : str_is(strategy, "mixed") ? SCHED_MIG_MIXED
                                            : SCHED_MIG_NONE;
    struct str enabled = object_label(object, "node-role.kubernetes.io/mig-enabled");
    node->mig_enabled = is_true(enabled);
    node->mig_disabled = str_is_set(enabled) && !node->mig_enabled;
    node->gpu_worker = str_is_set(object_label(object, "node-role.kubernetes.io/gpu-worker"));
    node->cpu_worker = str_is_set(object_label(object, "node-role.kubernetes.io/cpu-worker"));
}

void decode_node(struct decode *decode, struct sched_node *ret)
{
    const struct json *taints = json_at(decode->tree, "spec.taints");
    struct sched_taint *all =
        ARENA_ARRAY(decode->arena, struct sched_taint, json_count(taints) + 1);

    *ret = (struct sched_node){.name = decode->object->name};
    ret->labels = labels_of(decode, &ret->label_count);
    for (size_t i = 0; i < ret->label_count; i++)
        if (str_eq(ret->labels[i].key, decode->config->pool_label))
            ret->pool = ret->labels[i].value;
    JSON_FOREACH(taints, taint) {
        struct sched_taint *to = &all[ret->taint_count];

        to->key = json_str(json_get(taint, "key"));
        to->value = json_str(json_get(taint, "value"));
        if (effect_of(json_str(json_get(taint, "effect")), &to->effect))
            ret->taint_count++;
    }
    ret->taints = all;
    ret->unschedulable = json_bool_or(json_at(decode->tree, "spec.unschedulable"), false);
    ret->not_ready = node_not_ready(decode->tree);
    node_amounts(decode, ret);
    node_gpu_facts(decode, ret);
}

/* ---- pod group ---- */
static const char *const preemptibility_words[] = {
    [SCHED_BY_PRIORITY] = "",
    [SCHED_PREEMPTIBLE] = "preemptible",
    [SCHED_NON_PREEMPTIBLE] = "non-preemptible",
    [SCHED_SEMI_PREEMPTIBLE] = "semi-preemptible",
    NULL,
};

static const struct decode_field topology_want_fields[] = {
    DECODE_FIELD(struct sched_topology_want, topology, "topology", STR),
    DECODE_FIELD(struct sched_topology_want, required, "requiredTopologyLevel", STR),
    DECODE_FIELD(struct sched_topology_want, preferred, "preferredTopologyLevel", STR),
};
static const struct decode_table topology_want_table =
    DECODE_TABLE(struct sched_topology_want, NULL, topology_want_fields);

static const struct decode_field subgroup_fields[] = {
    DECODE_FIELD(struct sched_subgroup, name, "name", STR),
    DECODE_FIELD(struct sched_subgroup, parent, "parent", STR),
    DECODE_FIELD(struct sched_subgroup, min_member, "minMember", I64, .absent = "1"),
    DECODE_FIELD(struct sched_subgroup, min_subgroup, "minSubGroup", I64, .absent = "-1"),
    DECODE_FIELD(struct sched_subgroup,
                 topology,
                 "topologyConstraint",
                 OBJECT,
                 .table = &topology_want_table),
};
static const struct decode_table subgroup_table =
    DECODE_TABLE(struct sched_subgroup, NULL, subgroup_fields);

static const struct decode_field group_fields[] = {
    DECODE_FIELD(struct sched_group, queue, "queue", STR),
    DECODE_FIELD(struct sched_group, min_member, "minMember", I64),
    DECODE_FIELD(struct sched_group, min_subgroup, "minSubGroup", I64),
    DECODE_FIELD(struct sched_group, preempt_delay_ms, "preemptionDelay", DURATION),
    DECODE_FIELD(struct sched_group, stale_grace_ms, "stalenessGracePeriod", DURATION),
    DECODE_FIELD(struct sched_group, max_run_ms, "maxRunTime", DURATION),
    DECODE_FIELD(struct sched_group, requeue, "requeueAfterMaxRunTime", BOOL),
    DECODE_FIELD(struct sched_group, priority_class, "priorityClassName", STR),
    DECODE_FIELD(struct sched_group,
                 preemptibility,
                 "preemptibility",
                 ENUM,
                 .words = preemptibility_words),
    DECODE_FIELD(struct sched_group,
                 topology,
                 "topologyConstraint",
                 OBJECT,
                 .table = &topology_want_table),
    DECODE_ITEMS(struct sched_group,
                 subgroups,
                 subgroup_count,
                 "subGroups",
                 LIST,
                 .table = &subgroup_table),
};
static const struct decode_table group_table =
    DECODE_TABLE(struct sched_group, "spec", group_fields);

static const struct decode_note group_carried[] = {
    {"spec.parallelism", "the grouper keeps it as it is; minMember is what counts"},
    {"spec.completions", "the grouper keeps it as it is; minMember is what counts"},
    {"spec.backoffLimit", "the grouper keeps it as it is; the job's controller counts failures"},
    {"spec.markUnschedulable", "every waiting pod is told why, whatever it says"},
    {"spec.schedulingBackoff", "a group is tried again when something it waits for has changed"},
    {"status", "written by the group's controller and the scheduler, for people and clients"},
    {NULL, NULL},
};
const struct decode_kind podgroup_decode_kind = {.crd = "podgroups.scheduling.run.ai",
                                                 .uses = {{&group_table, NULL}},
                                                 .carried = group_carried};

/* As good as for ever, and so short that it can be added to a time and taken some times. */
#define DURATION_MAX_MS INT64_C(3155760000000) /* 100 years */

/* Read by table over what the spec has already; the first error is kept. */
static void decode_by(struct decode *decode, const struct decode_table *table, void *ret)
{
    struct err err = {0};

    if (decode_over(table, decode->arena, decode->tree, ret, &err))
        (void)decode_error(decode, "%s", err.text);
}

static int64_t annotation_time(struct decode *decode, const char *key)
{
    struct str text = object_annotation(decode->object, key);
    int64_t ms = 0;

    if (text.len && !time_parse(text, &ms))
        (void)decode_error(decode, "annotation %s: \"" STR_FMT "\" is not a time", key,
                           STR_ARG(text));
    return ms;
}

static int64_t annotation_duration(struct decode *decode, const char *key)
{
    struct str text = object_annotation(decode->object, key);
    int64_t ms = 0;

    if (text.len && (!time_parse_duration(text, &ms) || ms < 0)) {
        (void)decode_error(decode, "annotation %s: \"" STR_FMT "\" is not a duration, as in 90m",
                           key, STR_ARG(text));
        ms = 0;
    }
    return i64_min(ms, DURATION_MAX_MS);
}

static enum sched_loss loss_of(struct decode *decode)
{
    struct str text = object_annotation(decode->object, SUSPEND_POLICY);

    if (str_is(text, SUSPEND_POLICY_SUSPEND))
        return SCHED_LOSS_SUSPEND;
    if (text.len && !str_is(text, SUSPEND_POLICY_EVICT))
        (void)decode_error(decode,
                           "annotation " SUSPEND_POLICY ": \"" STR_FMT "\" is neither suspend nor "
                           "evict",
                           STR_ARG(text));
    return text.len ? SCHED_LOSS_EVICT : SCHED_LOSS_UNSET;
}

/* What control/grouping/unused.c reads: here it is said if it is not understood. */
static void check_unused(struct decode *decode)
{
    struct str text = object_annotation(decode->object, SUSPEND_UNUSED_AFTER);
    int64_t ms = 0;

    if (text.len && !str_is(text, SUSPEND_UNUSED_NEVER) &&
        (!time_parse_duration(text, &ms) || ms <= 0))
        (void)decode_error(decode,
                           "annotation " SUSPEND_UNUSED_AFTER ": \"" STR_FMT
                           "\" is neither a duration, as in 30m, nor never",
                           STR_ARG(text));
}

/* What KAI does not know is not looked at where it is mimicked. */
static bool queue_lends(struct decode *decode)
{
    struct str text = object_annotation(decode->object, BEYOND_ANNOTATION);

    if (!text.len || str_is(text, BEYOND_NON_PREEMPTIBLE))
        return text.len && !(decode->config->quirks & SCHED_QUIRK(DEFAULT_QUOTA));
    (void)decode_error(
        decode, "annotation " BEYOND_ANNOTATION ": \"" STR_FMT "\" is not " BEYOND_NON_PREEMPTIBLE,
        STR_ARG(text));
    return false;
}

/* A minSubGroup that is not there means all of them, one of 0 none. */
static void group_minima(struct decode *decode, struct sched_group *group)
{
    struct sched_subgroup *all =
        ARENA_ARRAY(decode->arena, struct sched_subgroup, group->subgroup_count);

    for (size_t i = 0; i < group->subgroup_count; i++) {
        all[i] = group->subgroups[i];
        if (all[i].min_subgroup <= 0)
            all[i].min_subgroup = all[i].min_subgroup < 0 ? 0 : -1;
    }
    group->subgroups = all;
}

void decode_group(struct decode *decode, struct sched_group *ret)
{
    *ret = (struct sched_group){
        .ns = decode->object->ns,
        .name = decode->object->name,
        .uid = decode->object->uid,
        .pool = object_label(decode->object, decode->config->pool_label.p),
        .user = object_label(decode->object, "user"),
        .created_ms = decode->object->created_ms,
        .min_member = 1,
        .stale_since_ms = annotation_time(decode, "kai.scheduler/stale-podgroup-timestamp"),
        .last_start_ms = annotation_time(decode, "kai.scheduler/last-start-timestamp"),
        .last_eviction_ms = annotation_time(decode, "kai.scheduler/last-eviction-timestamp"),
        .over_ms = annotation_time(decode, "muster.dev/max-run-time-reached"),
        .hold_until_ms = annotation_time(decode, HOLD_UNTIL_ANNOTATION),
        .expected_ms = annotation_duration(decode, "muster.dev/expected-run-time"),
        .whole = str_is(object_annotation(decode->object, "muster.dev/disruption-mode"), "all"),
        .loss = loss_of(decode),
        .single = str_is(object_annotation(decode->object, "muster.dev/disruption-mode"), "single"),
        .refusal = object_annotation(decode->object, GROUP_REFUSED),
    };
    check_unused(decode);
    decode_by(decode, &group_table, ret);
    ret->preempt_delay_ms = i64_min(ret->preempt_delay_ms, DURATION_MAX_MS);
    ret->stale_grace_ms = i64_min(ret->stale_grace_ms, DURATION_MAX_MS);
    ret->max_run_ms = i64_min(ret->max_run_ms, DURATION_MAX_MS);
    group_minima(decode, ret);
    ret->has_stale_grace = !json_is_null(json_at(decode->tree, "spec.stalenessGracePeriod"));
}

/* ---- queue, topology, claim ---- */
#define QUOTA_FIELDS(resource, name)                                                             \
    DECODE_FIELD(struct sched_queue, quota[resource].quota, "resources." name ".quota", NUMBER), \
        DECODE_FIELD(struct sched_queue, quota[resource].limit, "resources." name ".limit",      \
                     NUMBER),                                                                    \
        DECODE_FIELD(struct sched_queue, quota[resource].weight,                                 \
                     "resources." name ".overQuotaWeight", NUMBER)

static const char *const order_words[] = {
    [SCHED_ORDER_CREATED] = "created",
    [SCHED_ORDER_EXPECTED] = "expectedCompletion",
    [SCHED_ORDER_USERS] = "fairUsers",
    NULL,
};

static const struct decode_field model_fields[] = {
    DECODE_FIELD(struct sched_model_limit, model, "product", STR, .required = true),
    DECODE_FIELD(struct sched_model_limit, limit, "limit", NUMBER, .required = true),
};
static const struct decode_table model_table =
    DECODE_TABLE(struct sched_model_limit, NULL, model_fields);

static const struct decode_field queue_fields[] = {
    DECODE_FIELD(struct sched_queue, order, "order", ENUM, .words = order_words),
    DECODE_ITEMS(struct sched_queue,
                 models,
                 model_count,
                 "resources.gpu.models",
                 LIST,
                 .table = &model_table),
    DECODE_ITEMS(struct sched_queue, tenants.names, tenants.name_count, "namespaces", STRS),
    DECODE_FIELD(struct sched_queue, parent, "parentQueue", STR),
    DECODE_FIELD(struct sched_queue, priority, "priority", I64),
    DECODE_FIELD(struct sched_queue, preempt_min_runtime_ms, "preemptMinRuntime", DURATION),
    DECODE_FIELD(struct sched_queue, reclaim_min_runtime_ms, "reclaimMinRuntime", DURATION),
    QUOTA_FIELDS(SCHED_CPU, "cpu"),
    QUOTA_FIELDS(SCHED_MEMORY, "memory"),
    QUOTA_FIELDS(SCHED_GPU, "gpu"),
};
static const struct decode_table queue_table =
    DECODE_TABLE(struct sched_queue, "spec", queue_fields);

static const struct decode_note queue_carried[] = {
    {"spec.displayName", "for people"},
    {"spec.namespaceSelector", "decode_queue(), below"},
    {"spec.maxRunTime", "api/queue_rules.h: pod groups have it as theirs"},
    {"status", "written by the queue's controller, for people and clients"},
    {NULL, NULL},
};
const struct decode_kind queue_decode_kind = {.crd = "queues.scheduling.run.ai",
                                              .uses = {{&queue_table, NULL}},
                                              .carried = queue_carried};

/* In units of the API; below zero is unlimited. */
static double quota_of(double value, double unit)
{
    return value >= 0 ? value * unit : SCHED_UNLIMITED;
}

void decode_queue(struct decode *decode, struct sched_queue *ret)
{
    static const char *const names[SCHED_RESOURCES] = {"cpu", "memory", "gpu"};
    const struct json *resources = json_at(decode->tree, "spec.resources");
    bool strict = decode->config->quirks & SCHED_QUIRK(UNSET_LIMIT_ZERO);

    *ret = (struct sched_queue){
        .name = decode->object->name,
        .pool = object_label(decode->object, decode->config->pool_label.p),
        .created_ms = decode->object->created_ms,
        .priority = 100,
        .preempt_min_runtime_ms = -1,
        .reclaim_min_runtime_ms = -1,
        .loss = loss_of(decode),
        .lends = queue_lends(decode),
    };
    check_unused(decode);
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        ret->quota[r].limit = strict ? 0 : SCHED_UNLIMITED;
        ret->quota[r].weight = !strict && json_is_null(json_get(resources, names[r])) ? 1 : 0;
        ret->unset[r] = !strict && r != SCHED_GPU &&
                        json_is_null(json_get(json_get(resources, names[r]), "quota"));
    }
    decode_by(decode, &queue_table, ret);
    ret->tenants.selector =
        decode_selector(decode, json_at(decode->tree, "spec.namespaceSelector"));
    ret->tenants.closed =
        ret->tenants.selector.set || !json_is_null(json_at(decode->tree, "spec.namespaces"));
    ret->preempt_min_runtime_ms = i64_min(ret->preempt_min_runtime_ms, DURATION_MAX_MS);
    ret->reclaim_min_runtime_ms = i64_min(ret->reclaim_min_runtime_ms, DURATION_MAX_MS);
    if (ret->model_count > SCHED_MODELS_MAX)
        ret->model_count = SCHED_MODELS_MAX;
    for (int r = 0; r < SCHED_RESOURCES; r++) {
        double unit = r == SCHED_MEMORY ? 1e6 : 1;

        ret->quota[r].quota = quota_of(ret->quota[r].quota, unit);
        ret->quota[r].limit = quota_of(ret->quota[r].limit, unit);
    }
}

struct topology_level {
    struct str label;
    struct str alias;
};

struct topology_spec {
    const struct topology_level *levels;
    size_t level_count;
};

static const struct decode_field level_fields[] = {
    DECODE_FIELD(struct topology_level, label, "nodeLabel", STR, .required = true),
    DECODE_FIELD(struct topology_level, alias, "alias", STR),
};
static const struct decode_table level_table =
    DECODE_TABLE(struct topology_level, NULL, level_fields);
static const struct decode_field topology_fields[] = {
    DECODE_ITEMS(struct topology_spec, levels, level_count, "levels", LIST, .table = &level_table),
};
static const struct decode_table topology_table =
    DECODE_TABLE(struct topology_spec, "spec", topology_fields);
const struct decode_kind topology_decode_kind = {.crd = "topologies.kai.scheduler",
                                                 .uses = {{&topology_table, NULL}}};

void decode_topology(struct decode *decode, struct sched_topology *ret)
{
    struct topology_spec spec = {0};

    decode_by(decode, &topology_table, &spec);
    struct str *levels = ARENA_ARRAY(decode->arena, struct str, spec.level_count);
    struct str *aliases = ARENA_ARRAY(decode->arena, struct str, spec.level_count);
    for (size_t i = 0; i < spec.level_count; i++) {
        levels[i] = spec.levels[i].label;
        aliases[i] = spec.levels[i].alias;
    }
    *ret = (struct sched_topology){.name = decode->object->name,
                                   .levels = levels,
                                   .aliases = aliases,
                                   .level_count = spec.level_count};
}

void decode_claim(struct decode *decode, struct sched_claim *ret)
{
    const struct json *devices = json_at(decode->tree, "spec.devices");
    const struct json *allocation = json_at(decode->tree, "status.allocation");

    *ret = (struct sched_claim){
        .ns = decode->object->ns,
        .name = decode->object->name,
        .queue = object_label(decode->object, decode->config->queue_label.p),
        .devices = devices ? devices : json_new_object(decode->arena),
        .allocation = json_is_null(allocation) ? NULL : allocation,
        .consumers = (int64_t)json_count(json_at(decode->tree, "status.reservedFor")),
    };
}

void decode_namespace(struct decode *decode, struct sched_namespace *ret)
{
    *ret = (struct sched_namespace){.name = decode->object->name};
    ret->labels = labels_of(decode, &ret->label_count);
}
