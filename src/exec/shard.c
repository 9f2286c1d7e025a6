#include "exec/shard.h"

#include "api/quantity.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "base/time.h"
#include "sched/sched.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SENTENCE_BYTES 300
#define DAY_MS         INT64_C(86400000)

struct reading {
    struct arena *arena;
    struct shard *shard;
};

__attribute__((format(printf, 2, 3))) static void ignore(struct reading *reading,
                                                         const char *fmt,
                                                         ...)
{
    struct str before = reading->shard->ignored;
    char text[SENTENCE_BYTES];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    reading->shard->ignored =
        str_printf(reading->arena, STR_FMT "%s%s", STR_ARG(before), before.len ? "; " : "", text);
}

static void read_duration(struct reading *reading,
                          const struct json *from,
                          const char *path,
                          int64_t *ret)
{
    const struct json *value = json_at(from, path);
    int64_t ms = 0;

    if (json_is_null(value))
        return;
    if (time_parse_duration(json_str(value), &ms) && ms >= 0)
        *ret = ms;
    else
        ignore(reading, "%s: \"" STR_FMT "\" is not a duration such as 168h or 10m30s", path,
               STR_ARG(json_str(value)));
}

/* A number, written as one or as text. */
static void read_number(struct reading *reading,
                        const struct json *from,
                        const char *key,
                        double *ret)
{
    const struct json *value = json_get(from, key);
    struct quantity quantity = {0};

    if (json_is_null(value))
        return;
    if (quantity_parse_json(value, &quantity, NULL) == 0)
        *ret = (double)quantity.nano / 1e9;
    else
        ignore(reading, "%s: not a number", key);
}

static void read_bool(const struct json *from, const char *key, bool *ret)
{
    struct str text = json_str(json_get(from, key));

    if (text.len)
        *ret = str_is(text, "true");
}

static void read_strategy(const struct json *spec, const char *path, enum sched_strategy *ret)
{
    struct str word = json_str_at(spec, path);

    enum sched_strategy strategy = sched_strategy_named(word);

    if (strategy <= SCHED_FRAGMENTATION)
        *ret = strategy;
}

/* SCHED_ACTION_COUNT: there is none of that name. */
static unsigned action_of(struct str name)
{
    unsigned i = 0;

    while (i < SCHED_ACTION_COUNT && !str_is(name, sched_action_word((enum sched_action)i)))
        i++;
    return i;
}

static void read_depths(struct reading *reading, const struct json *depths)
{
    JSON_FOREACH(depths, depth) {
        struct str name = json_key(depth);
        unsigned action = action_of(name);
        int64_t number = json_i64_or(depth, -1);

        if (action == SCHED_ACTION_COUNT)
            ignore(reading, "queueDepthPerAction: there is no action " STR_FMT, STR_ARG(name));
        else if (number < 1 || number > UINT32_MAX)
            ignore(reading, "queueDepthPerAction." STR_FMT ": must be 1 or more", STR_ARG(name));
        else if (action >= SCHED_ACTION_STALE)
            ignore(reading, "queueDepthPerAction." STR_FMT ": the action looks at every group",
                   STR_ARG(name));
        else
            reading->shard->policy.depth[action] = (uint32_t)number;
    }
}

static void read_actions(struct reading *reading, const struct json *actions)
{
    uint32_t *bits = &reading->shard->policy.actions;

    JSON_FOREACH(actions, action) {
        struct str name = json_key(action);
        unsigned found = action_of(name);

        if (found == SCHED_ACTION_COUNT)
            ignore(reading, "actions: there is no action " STR_FMT, STR_ARG(name));
        else if (json_bool_or(json_get(action, "enabled"), true))
            *bits |= 1U << found;
        else
            *bits &= ~(1U << found);
        if (json_get(action, "priority"))
            ignore(reading, "actions." STR_FMT ".priority: the order of actions is fixed",
                   STR_ARG(name));
    }
}

/* What a plugin takes. KAI's code and its documents spell one of proportion's in three ways. */
static const char *const proportion_takes[] = {"kValue", "relcaimerSaturationMultiplier",
                                               "reclaimerSaturationMultiplier",
                                               "reclaimerUtilizationMultiplier", NULL};
static const char *const placement_takes[] = {"gpu", "cpu", NULL};
static const char *const minruntime_takes[] = {
    "defaultPreemptMinRuntime", "defaultReclaimMinRuntime", "reclaimResolveMethod", NULL};
static const char *const numa_takes[] = {"ignoreList", "reconstructAvailable", NULL};
static const char *const args_take[] = {"default-staleness-grace-period",
                                        "stuck-in-releasing-threshold",
                                        "max-consolidation-preemptees",
                                        "allow-consolidating-reclaim",
                                        "restrict-node-scheduling",
                                        "refused-victims",
                                        NULL};

static const char *const *arguments_of(struct str plugin)
{
    static const char *const none[] = {NULL};

    return str_is(plugin, "proportion")      ? proportion_takes
           : str_is(plugin, "nodeplacement") ? placement_takes
           : str_is(plugin, "minruntime")    ? minruntime_takes
           : str_is(plugin, "numa")          ? numa_takes
                                             : none;
}

/* Arguments without a meaning here are named; `known` ends with NULL. */
static void name_unknown(struct reading *reading,
                         const struct json *given,
                         struct str where,
                         const char *const *known)
{
    JSON_FOREACH(given, argument) {
        const char *const *word = known;

        while (*word && !str_is(json_key(argument), *word))
            word++;
        if (!*word)
            ignore(reading, STR_FMT "." STR_FMT ": has no effect here", STR_ARG(where),
                   STR_ARG(json_key(argument)));
    }
}

static void read_minruntime(struct reading *reading, const struct json *arguments, bool on)
{
    struct sched_policy *policy = &reading->shard->policy;

    if (!on)
        policy->preempt_min_runtime_ms = policy->reclaim_min_runtime_ms = 0;
    read_duration(reading, arguments, "defaultPreemptMinRuntime", &policy->preempt_min_runtime_ms);
    read_duration(reading, arguments, "defaultReclaimMinRuntime", &policy->reclaim_min_runtime_ms);
    policy->reclaim_runtime_by_queue =
        str_is(json_str_at(arguments, "reclaimResolveMethod"), "queue");
}

/* Off unless it is switched on. */
static void read_numa(struct reading *reading,
                      const struct json *plugin,
                      const struct json *arguments)
{
    struct sched_policy *policy = &reading->shard->policy;
    struct str ignored = json_str(json_get(arguments, "ignoreList"));
    bool reconstruct = true;

    policy->numa = json_bool_or(json_get(plugin, "enabled"), false);
    read_bool(arguments, "reconstructAvailable", &reconstruct);
    policy->numa_reported = !reconstruct;
    if (ignored.len < sizeof(policy->numa_ignore))
        (void)snprintf(policy->numa_ignore, sizeof(policy->numa_ignore), STR_FMT, STR_ARG(ignored));
    else
        ignore(reading, "plugins.numa.arguments.ignoreList: is longer than %zu bytes",
               sizeof(policy->numa_ignore) - 1);
}

static void read_plugin(struct reading *reading, const struct json *plugin)
{
    struct sched_policy *policy = &reading->shard->policy;
    struct str name = json_key(plugin);
    const struct json *arguments = json_get(plugin, "arguments");
    bool on = json_bool_or(json_get(plugin, "enabled"), true);

    name_unknown(reading, arguments,
                 str_printf(reading->arena, "plugins." STR_FMT ".arguments", STR_ARG(name)),
                 arguments_of(name));
    if (json_get(plugin, "priority"))
        ignore(reading, "plugins." STR_FMT ".priority: the order of plugins is fixed",
               STR_ARG(name));
    if (str_is(name, "proportion")) {
        policy->without_proportion = !on;
        read_number(reading, arguments, "kValue", &policy->k_value);
        for (const char *const *key = proportion_takes + 1; *key; key++)
            read_number(reading, arguments, *key, &policy->saturation);
    } else if (str_is(name, "predicates")) {
        policy->without_filters = !on;
    } else if (str_is(name, "nodeplacement")) {
        policy->without_placement = !on;
        read_strategy(arguments, "gpu", &policy->gpu_strategy);
        read_strategy(arguments, "cpu", &policy->cpu_strategy);
    } else if (str_is(name, "minruntime")) {
        read_minruntime(reading, arguments, on);
    } else if (str_is(name, "numa")) {
        read_numa(reading, plugin, arguments);
    } else if (str_is(name, "gpupack") || str_is(name, "gpuspread")) {
        if (on)
            policy->gpu_strategy = str_is(name, "gpuspread") ? SCHED_SPREAD : SCHED_BINPACK;
    } else {
        ignore(reading, "plugins." STR_FMT ": is not known, or cannot be changed", STR_ARG(name));
    }
}

static void read_refused(struct reading *reading, struct str word)
{
    if (str_is(word, "Evict") || str_is(word, "Delete"))
        reading->shard->policy.delete_refused = str_is(word, "Delete");
    else if (word.len)
        ignore(reading, "args.refused-victims: \"" STR_FMT "\" is neither Evict nor Delete",
               STR_ARG(word));
}

static void read_args(struct reading *reading, const struct json *args)
{
    struct sched_policy *policy = &reading->shard->policy;
    int64_t number = 0;

    read_duration(reading, args, "default-staleness-grace-period", &policy->stale_grace_ms);
    read_duration(reading, args, "stuck-in-releasing-threshold", &policy->stuck_after_ms);
    if (str_to_i64(json_str(json_get(args, "max-consolidation-preemptees")), &number))
        policy->consolidate_max = number;
    else if (json_get(args, "max-consolidation-preemptees"))
        ignore(reading, "args.max-consolidation-preemptees: must be a whole number");
    read_bool(args, "allow-consolidating-reclaim", &policy->consolidating_reclaim);
    read_bool(args, "restrict-node-scheduling", &policy->restrict_nodes);
    read_refused(reading, json_str(json_get(args, "refused-victims")));
    name_unknown(reading, args, STR("args"), args_take);
}

/* As Prometheus writes them: days and weeks, too. */
static void read_window(struct reading *reading, const struct json *value, int64_t *ret)
{
    struct str text = json_str(value);
    int64_t number = 0;
    int64_t unit = 0;

    if (json_is_null(value))
        return;
    if (text.len > 1)
        unit = text.p[text.len - 1] == 'd' ? DAY_MS : text.p[text.len - 1] == 'w' ? 7 * DAY_MS : 0;
    if (unit && str_to_i64(str_sub(text, 0, text.len - 1), &number) && number >= 0 &&
        number < INT64_MAX / unit)
        *ret = number * unit;
    else if (time_parse_duration(text, &number) && number >= 0)
        *ret = number;
    else
        ignore(reading, "windowSize: \"" STR_FMT "\" is not a duration such as 7d, 168h or 1w",
               STR_ARG(text));
}

/* Searches here are bounded by what they may look at, not by time. */
static void read_later_fields(struct reading *reading, const struct json *spec)
{
    if (json_get(spec, "scenarioSearchBudgets"))
        ignore(reading, "scenarioSearchBudgets: have no effect here; a search ends by itself");
    if (json_get(spec, "goMemLimitRatio") || json_get(spec, "goMemLimit"))
        ignore(reading, "goMemLimit and goMemLimitRatio: have no effect here; set the container's "
                        "memory limit");
}

static void read_usage(struct reading *reading, const struct json *from)
{
    struct shard_usage *usage = &reading->shard->usage;
    const struct json *params = json_get(from, "usageParams");
    struct str type = json_str_at(from, "clientType");
    struct str window = json_str_at(params, "windowType");

    *usage = (struct shard_usage){
        .on = from != NULL, .window_ms = SHARD_USAGE_WINDOW_MS, .every_ms = SHARD_USAGE_EVERY_MS};
    if (!from)
        return;
    usage->wants_prometheus = str_is(type, "prometheus");
    if (usage->wants_prometheus)
        usage->prometheus = json_str_at(from, "connectionString");
    else if (type.len && !str_is(type, "muster"))
        ignore(reading,
               "usageDBConfig.clientType: " STR_FMT " is not known; Muster's own records are used",
               STR_ARG(type));
    read_duration(reading, params, "halfLifePeriod", &usage->half_life_ms);
    read_window(reading, json_get(params, "windowSize"), &usage->window_ms);
    read_duration(reading, params, "fetchInterval", &usage->every_ms);
    if (window.len && !str_is(window, "sliding"))
        ignore(reading, "usageDBConfig.usageParams.windowType: only sliding windows are kept");
    if (json_get(from, "connectionStringEnvVar"))
        ignore(reading, "usageDBConfig.connectionStringEnvVar: is not read; use connectionString, "
                        "or prometheus.externalPrometheusUrl of kai-config");
    if (json_get(params, "extraParams"))
        ignore(reading, "usageDBConfig.usageParams.extraParams: have no effect here");
    if (json_get(from, "extraParams"))
        ignore(reading,
               "usageDBConfig.extraParams: have no effect here; KAI reads them under usageParams");
    if (usage->every_ms < SHARD_USAGE_EVERY_MIN)
        usage->every_ms = SHARD_USAGE_EVERY_MIN;
    if (usage->window_ms < usage->every_ms)
        usage->window_ms = usage->every_ms;
}

void shard_read(const struct json *tree,
                const struct sched_policy *base,
                struct arena *arena,
                struct shard *ret)
{
    const struct json *spec = json_get(tree, "spec");
    struct reading reading = {.arena = arena, .shard = ret};

    *ret = (struct shard){.pool = json_str_at(spec, "partitionLabelValue"), .policy = *base};
    read_strategy(spec, "placementStrategy.gpu", &ret->policy.gpu_strategy);
    read_strategy(spec, "placementStrategy.cpu", &ret->policy.cpu_strategy);
    read_duration(&reading, spec, "minRuntime.preemptMinRuntime",
                  &ret->policy.preempt_min_runtime_ms);
    read_duration(&reading, spec, "minRuntime.reclaimMinRuntime",
                  &ret->policy.reclaim_min_runtime_ms);
    read_number(&reading, spec, "kValue", &ret->policy.k_value);
    read_actions(&reading, json_get(spec, "actions"));
    JSON_FOREACH(json_get(spec, "plugins"), plugin)
        read_plugin(&reading, plugin);
    read_args(&reading, json_get(spec, "args"));
    read_usage(&reading, json_get(spec, "usageDBConfig"));
    read_depths(&reading, json_get(spec, "queueDepthPerAction"));
    read_later_fields(&reading, spec);
    if (json_get(spec, "pluginArguments"))
        ignore(&reading, "pluginArguments: set plugins.NAME.arguments instead");
}
