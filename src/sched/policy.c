#include "sched/policy.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_make.h"
#include "base/str.h"
#include "base/time.h"
#include "sched/sched.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BILLION 1000000000 /* numbers are told to so many parts */

/* The members of a policy that are read as they are written. */
struct member {
    const char *key;
    size_t offset;
};

static const struct member durations[] = {
    {"staleGrace", offsetof(struct sched_policy, stale_grace_ms)},
    {"stuckAfter", offsetof(struct sched_policy, stuck_after_ms)},
    {"reserveAfter", offsetof(struct sched_policy, reserve_after_ms)},
    {"preemptMinRuntime", offsetof(struct sched_policy, preempt_min_runtime_ms)},
    {"reclaimMinRuntime", offsetof(struct sched_policy, reclaim_min_runtime_ms)},
    {0},
};
static const struct member switches[] = {
    {"consolidatingReclaim", offsetof(struct sched_policy, consolidating_reclaim)},
    {"lendExpected", offsetof(struct sched_policy, lend_expected)},
    {"restrictNodes", offsetof(struct sched_policy, restrict_nodes)},
    {"reclaimRuntimeByQueue", offsetof(struct sched_policy, reclaim_runtime_by_queue)},
    {"deleteRefused", offsetof(struct sched_policy, delete_refused)},
    {"numa", offsetof(struct sched_policy, numa)},
    {"numaReported", offsetof(struct sched_policy, numa_reported)},
    {"withoutProportion", offsetof(struct sched_policy, without_proportion)},
    {"withoutFilters", offsetof(struct sched_policy, without_filters)},
    {"withoutPlacement", offsetof(struct sched_policy, without_placement)},
    {0},
};
static const struct member numbers[] = {
    {"kValue", offsetof(struct sched_policy, k_value)},
    {"saturation", offsetof(struct sched_policy, saturation)},
    {0},
};
static const struct member strategies[] = {
    {"gpuPlacement", offsetof(struct sched_policy, gpu_strategy)},
    {"cpuPlacement", offsetof(struct sched_policy, cpu_strategy)},
    {0},
};
static const char *const device_words[] = {[SCHED_DEVICES_NUMBERED] = "numbered",
                                           [SCHED_DEVICES_RESERVED] = "reserved",
                                           [SCHED_DEVICES_WHOLE] = "whole"};
static const char *const resource_words[SCHED_RESOURCES] =
    {[SCHED_CPU] = "cpu", [SCHED_MEMORY] = "memory", [SCHED_GPU] = "gpu"};

static const void *at(const struct sched_policy *policy, const struct member *member)
{
    return (const char *)policy + member->offset;
}

static void *place(struct sched_policy *policy, const struct member *member)
{
    return (char *)policy + member->offset;
}

/* ---- telling ---- */

static void add_number(struct arena *arena, struct json *to, const char *key, double value)
{
    int64_t parts = (int64_t)(value * BILLION + (value < 0 ? -0.5 : 0.5));
    bool negative = parts < 0;
    int64_t size = negative ? -parts : parts;

    json_set(to, str_from(key),
             json_new_number(arena,
                             str_printf(arena, "%s%lld.%09lld", negative ? "-" : "",
                                        (long long)(size / BILLION), (long long)(size % BILLION))));
}

void policy_tell_one(struct arena *arena, const struct sched_policy *policy, struct json *to)
{
    struct json *actions = json_add_array(arena, to, "actions");
    struct json *depths = json_add_object(arena, to, "queueDepthPerAction");

    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++) {
        const char *word = sched_action_word((enum sched_action)i);

        if (policy->actions & 1U << i)
            json_push(actions, json_new_str(arena, str_from(word)));
        if (policy->depth[i])
            json_add_i64(arena, depths, word, policy->depth[i]);
    }
    for (const struct member *m = strategies; m->key; m++)
        json_add_c(arena, to, m->key,
                   sched_strategy_word(*(const enum sched_strategy *)at(policy, m)));
    for (const struct member *m = durations; m->key; m++)
        json_add_str(arena, to, m->key,
                     str_printf(arena, "%lldms", (long long)*(const int64_t *)at(policy, m)));
    for (const struct member *m = switches; m->key; m++)
        json_add_bool(arena, to, m->key, *(const bool *)at(policy, m));
    for (const struct member *m = numbers; m->key; m++)
        add_number(arena, to, m->key, *(const double *)at(policy, m));
    json_add_i64(arena, to, "consolidateMax", policy->consolidate_max);
    if (*policy->numa_ignore)
        json_add_str(arena, to, "numaIgnore", str_dup(arena, str_from(policy->numa_ignore)));
}

struct json *policy_tell(struct arena *arena, const struct sched *sched)
{
    const struct sched_config *config = sched_config(sched);
    struct json *to = json_new_object(arena);
    struct json *quirks = json_add_array(arena, to, "quirks");
    struct sched_policy policy;
    double used[SCHED_RESOURCES];
    struct str name;

    json_fill(arena, to, "{schedulerName: $, queueLabel: $, poolLabel: $, devices: $}",
              config->scheduler_name, config->queue_label, config->pool_label,
              device_words[config->devices]);
    json_add_bool(arena, to, "volumes", config->volumes);
    for (size_t i = 0; i < SCHED_QUIRK_COUNT; i++)
        if (config->quirks & UINT64_C(1) << i)
            json_push(quirks, json_new_str(arena, str_from(sched_quirk_texts[i].word)));
    policy_tell_one(arena, &config->policy, to);
    struct json *pools = json_add_array(arena, to, "pools");
    for (size_t cursor = 0; sched_next_policy(sched, &cursor, &name, &policy);) {
        struct json *pool = json_push(pools, json_new_object(arena));

        json_add_str(arena, pool, "name", name);
        policy_tell_one(arena, &policy, pool);
    }
    struct json *usage = json_add_object(arena, to, "usage");
    for (size_t cursor = 0; sched_next_usage(sched, &cursor, &name, used);) {
        struct json *queue = json_new_object(arena);

        for (size_t r = 0; r < SCHED_RESOURCES; r++)
            add_number(arena, queue, resource_words[r], used[r]);
        json_set(usage, name, queue);
    }
    return to;
}

/* ---- reading ---- */

static int wrong(struct err *err, const char *key, const char *wanted)
{
    return err_set(err, -EINVAL, "%s: must be %s", key, wanted);
}

static bool number_of(const struct json *value, double *ret)
{
    struct quantity quantity = {0};

    if (quantity_parse_json(value, &quantity, NULL) < 0)
        return false;
    *ret = (double)(int64_t)quantity.nano / BILLION;
    return true;
}

static int read_actions(const struct json *from, struct sched_policy *policy, struct err *err)
{
    const struct json *actions = json_get(from, "actions");
    const struct json *depths = json_get(from, "queueDepthPerAction");

    if (actions)
        policy->actions = 0;
    JSON_FOREACH(actions, action) {
        unsigned i = 0;

        while (i < SCHED_ACTION_COUNT &&
               !str_is(json_str(action), sched_action_word((enum sched_action)i)))
            i++;
        if (i == SCHED_ACTION_COUNT)
            return err_set(err, -EINVAL, "actions: there is no action \"" STR_FMT "\"",
                           STR_ARG(json_str(action)));
        policy->actions |= 1U << i;
    }
    for (unsigned i = 0; i < SCHED_ACTION_COUNT; i++) {
        const struct json *depth = json_get(depths, sched_action_word((enum sched_action)i));
        int64_t number = json_i64_or(depth, -1);

        if (depth && (number < 0 || number > UINT32_MAX))
            return wrong(err, "queueDepthPerAction", "a number of groups for each action");
        if (depth)
            policy->depth[i] = (uint32_t)number;
    }
    return 0;
}

int policy_read_one(const struct json *from, struct sched_policy *policy, struct err *err)
{
    const struct json *value;

    for (const struct member *m = strategies; m->key; m++) {
        if (!(value = json_get(from, m->key)))
            continue;
        enum sched_strategy strategy = sched_strategy_named(json_str(value));
        if (strategy >= SCHED_SCORED)
            return wrong(err, m->key, "binpack, spread, fragmentation or fgd");
        *(enum sched_strategy *)place(policy, m) = strategy;
    }
    for (const struct member *m = durations; m->key; m++)
        if ((value = json_get(from, m->key)) &&
            !time_parse_duration(json_str(value), place(policy, m)))
            return wrong(err, m->key, "a time like 60s");
    for (const struct member *m = switches; m->key; m++)
        if ((value = json_get(from, m->key))) {
            if (!json_is(value, JSON_BOOL))
                return wrong(err, m->key, "true or false");
            *(bool *)place(policy, m) = json_bool_or(value, false);
        }
    for (const struct member *m = numbers; m->key; m++)
        if ((value = json_get(from, m->key)) && !number_of(value, place(policy, m)))
            return wrong(err, m->key, "a number");
    if ((value = json_get(from, "consolidateMax")) && !json_i64(value, &policy->consolidate_max))
        return wrong(err, "consolidateMax", "a number");
    if ((value = json_get(from, "numaIgnore")) &&
        json_str(value).len >= sizeof(policy->numa_ignore))
        return wrong(err, "numaIgnore", "a shorter list of resources");
    if (value)
        (void)snprintf(policy->numa_ignore, sizeof(policy->numa_ignore), STR_FMT,
                       STR_ARG(json_str(value)));
    return read_actions(from, policy, err);
}

static int read_quirks(const struct json *from, struct sched_config *config, struct err *err)
{
    if (json_bool_or(json_get(from, "mimic"), false))
        config->quirks = SCHED_QUIRKS_ALL;
    JSON_FOREACH(json_get(from, "quirks"), word) {
        size_t i = 0;

        while (i < SCHED_QUIRK_COUNT && !str_is(json_str(word), sched_quirk_texts[i].word))
            i++;
        if (i == SCHED_QUIRK_COUNT)
            return err_set(err, -EINVAL, "quirks: \"" STR_FMT "\" is not a quirk",
                           STR_ARG(json_str(word)));
        config->quirks |= UINT64_C(1) << i;
    }
    return 0;
}

int policy_read_config(const struct json *from, struct sched_config *config, struct err *err)
{
    struct str devices = json_str(json_get(from, "devices"));
    int r = read_quirks(from, config, err);

    if (r < 0)
        return r;
    config->scheduler_name = json_str(json_get(from, "schedulerName"));
    if (json_get(from, "queueLabel"))
        config->queue_label = json_str(json_get(from, "queueLabel"));
    if (json_get(from, "poolLabel"))
        config->pool_label = json_str(json_get(from, "poolLabel"));
    config->volumes = json_bool_or(json_get(from, "volumes"), config->volumes);
    if (devices.len) {
        size_t i = 0;

        while (i <= SCHED_DEVICES_WHOLE && !str_is(devices, device_words[i]))
            i++;
        if (i > SCHED_DEVICES_WHOLE)
            return wrong(err, "devices", "numbered, reserved or whole");
        config->devices = (enum sched_devices)i;
    }
    if (json_bool_or(json_get(from, "spread"), false))
        config->policy.gpu_strategy = config->policy.cpu_strategy = SCHED_SPREAD;
    return policy_read_one(from, &config->policy, err);
}

int policy_read_pools(const struct json *from, struct sched *sched, struct err *err)
{
    JSON_FOREACH(json_get(from, "pools"), pool) {
        struct sched_policy policy = sched_config(sched)->policy;
        struct str name = json_str(json_get(pool, "name"));

        if (!name.len)
            return wrong(err, "pools", "a list of policies with a name");
        int r = policy_read_one(pool, &policy, err);
        if (r < 0)
            return err_wrap(err, r, "pools: " STR_FMT, STR_ARG(name));
        sched_set_policy(sched, name, &policy);
    }
    return 0;
}

void policy_read_usage(const struct json *from, struct sched *sched)
{
    JSON_FOREACH(json_get(from, "usage"), queue) {
        double used[SCHED_RESOURCES] = {0};

        for (size_t r = 0; r < SCHED_RESOURCES; r++)
            (void)number_of(json_get(queue, resource_words[r]), &used[r]);
        sched_set_usage(sched, json_key(queue), used);
    }
}
