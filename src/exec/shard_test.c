#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "exec/shard.h"
#include "test.h"

static void read_text(struct arena *arena, const char *text, struct shard *ret)
{
    struct sched_config base;
    struct json *tree = NULL;

    sched_config_default(&base);
    EXPECT(json_parse(arena, str_from(text), &tree, NULL) == 0);
    shard_read(tree, &base.policy, arena, ret);
}

TEST(a_shard_changes_only_what_it_says)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct sched_config base;
    struct shard shard;

    sched_config_default(&base);
    read_text(&arena, "{\"spec\":{}}", &shard);
    EXPECT(shard.policy.actions == base.policy.actions);
    EXPECT(shard.policy.stale_grace_ms == base.policy.stale_grace_ms);
    EXPECT(!shard.usage.on);
    EXPECT(!shard.ignored.len);
}

TEST(a_shard_sets_strategies_times_actions_and_usage)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct shard shard;

    read_text(
        &arena,
        "{\"spec\":{\"placementStrategy\":{\"gpu\":\"spread\",\"cpu\":\"binpack\"},"
        "\"minRuntime\":{\"preemptMinRuntime\":\"5m\",\"reclaimMinRuntime\":\"2m\"},"
        "\"kValue\":0.5,\"queueDepthPerAction\":{\"reclaim\":5},\"partitionLabelValue\":\"a100\","
        "\"actions\":{\"consolidation\":{\"enabled\":false}},"
        "\"args\":{\"default-staleness-grace-period\":\"10s\"},"
        "\"plugins\":{\"proportion\":{\"arguments\":{\"relcaimerSaturationMultiplier\":"
        "\"1.5\"}}},"
        "\"usageDBConfig\":{\"clientType\":\"prometheus\",\"connectionString\":"
        "\"http://prometheus:9090\",\"usageParams\":{\"halfLifePeriod\":\"1h\"}}}}",
        &shard);
    EXPECT(shard.policy.gpu_strategy == SCHED_SPREAD);
    EXPECT(shard.policy.cpu_strategy == SCHED_BINPACK);
    EXPECT(shard.policy.preempt_min_runtime_ms == 300000);
    EXPECT(shard.policy.reclaim_min_runtime_ms == 120000);
    EXPECT(shard.policy.k_value > 0.49 && shard.policy.k_value < 0.51);
    EXPECT(shard.policy.saturation > 1.49 && shard.policy.saturation < 1.51);
    EXPECT(!(shard.policy.actions & 1U << SCHED_ACTION_CONSOLIDATE));
    EXPECT(shard.policy.stale_grace_ms == 10000);
    EXPECT(shard.policy.depth[SCHED_ACTION_RECLAIM] == 5);
    EXPECT(shard.policy.depth[SCHED_ACTION_ALLOCATE] == 0);
    EXPECT(str_is(shard.pool, "a100"));
    EXPECT(shard.usage.on);
    EXPECT(str_is(shard.usage.prometheus, "http://prometheus:9090"));
    EXPECT(shard.usage.half_life_ms == 3600000);
    EXPECT(shard.usage.window_ms == SHARD_USAGE_WINDOW_MS);
    EXPECT(!shard.ignored.len);
}

TEST(a_shard_of_kai_0_17_says_when_a_pod_is_stuck_and_counts_in_weeks)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct shard shard;

    read_text(&arena,
              "{\"spec\":{\"args\":{\"stuck-in-releasing-threshold\":\"5m\"},"
              "\"usageDBConfig\":{\"usageParams\":{\"windowSize\":\"2w\"}}}}",
              &shard);
    EXPECT(shard.policy.stuck_after_ms == 300000);
    EXPECT(shard.usage.window_ms == INT64_C(14) * 86400000);
    EXPECT(!shard.ignored.len);
}

TEST(a_shard_says_what_becomes_of_victims_that_budgets_keep)
{
    static const struct {
        const char *args;
        bool delete;
        bool ignored;
    } rows[] = {
        {"", false, false},
        {"\"refused-victims\":\"Evict\"", false, false},
        {"\"refused-victims\":\"Delete\"", true, false},
        {"\"refused-victims\":\"delete\"", false, true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct shard shard;

        test_case(rows[i].args);
        read_text(&arena, str_printf(&arena, "{\"spec\":{\"args\":{%s}}}", rows[i].args).p, &shard);
        EXPECT(shard.policy.delete_refused == rows[i].delete);
        EXPECT((shard.ignored.len > 0) == rows[i].ignored);
    }
}

TEST(a_plugin_of_gpus_packs_or_spreads_them_only_where_it_is_on)
{
    static const struct {
        const char *plugins;
        enum sched_strategy gpus;
        const char *why;
    } rows[] = {
        {"\"gpuspread\":{}", SCHED_SPREAD, "named, it is on"},
        {"\"gpuspread\":{\"enabled\":false}", SCHED_BINPACK, "what is off changes nothing"},
        {"\"gpuspread\":{},\"gpupack\":{}", SCHED_BINPACK, "the last one counts"},
        {"\"gpuspread\":{},\"gpupack\":{\"enabled\":false}", SCHED_SPREAD, "of those that are on"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct shard shard;

        test_case(rows[i].why);
        read_text(&arena, str_printf(&arena, "{\"spec\":{\"plugins\":{%s}}}", rows[i].plugins).p,
                  &shard);
        EXPECT(shard.policy.gpu_strategy == rows[i].gpus);
        EXPECT(!shard.ignored.len);
    }
}

TEST(what_a_shard_cannot_have_is_named_with_its_field)
{
    static const struct {
        const char *text;
        const char *says;
        const char *why;
    } rows[] = {
        {"{\"spec\":{\"usageDBConfig\":{\"usageParams\":{\"windowSize\":\"1y\"}}}}",
         "windowSize: \"1y\" is not a duration", "weeks are the longest unit"},
        {"{\"spec\":{\"scenarioSearchBudgets\":{\"maxJobSearchDuration\":\"4m\"}}}",
         "scenarioSearchBudgets", "KAI 0.16 has them"},
        {"{\"spec\":{\"goMemLimitRatio\":0.9}}", "goMemLimit", "this is no Go program"},
        {"{\"spec\":{\"actions\":{\"mycustomaction\":{}}}}", "no action mycustomaction",
         "KAI would not even start"},
        {"{\"spec\":{\"args\":{\"log-level\":\"4\"}}}", "args.log-level",
         "a document of KAI gives it, KAI ignores it"},
        {"{\"spec\":{\"args\":{\"max-consolidation-preemptees\":\"many\"}}}",
         "args.max-consolidation-preemptees", "not a number"},
        {"{\"spec\":{\"plugins\":{\"minruntime\":{\"arguments\":{\"kValue\":\"1\"}}}}}",
         "plugins.minruntime.arguments.kValue", "an argument of another plugin"},
        {"{\"spec\":{\"plugins\":{\"predicates\":{\"priority\":50}}}}",
         "plugins.predicates.priority", "plugins have no order here"},
        {"{\"spec\":{\"usageDBConfig\":{\"connectionStringEnvVar\":\"URL\"}}}",
         "connectionStringEnvVar", "no variable is read"},
        {"{\"spec\":{\"plugins\":{\"mycustomplugin\":{}}}}", "plugins.mycustomplugin",
         "KAI skips it"},
        {"{\"spec\":{\"queueDepthPerAction\":{\"reclaims\":5}}}",
         "queueDepthPerAction: there is no action reclaims", "KAI refuses the shard"},
        {"{\"spec\":{\"queueDepthPerAction\":{\"reclaim\":0}}}",
         "queueDepthPerAction.reclaim: must be 1", "0 would be nothing, or everything"},
        {"{\"spec\":{\"usageDBConfig\":{\"extraParams\":{}}}}", "under usageParams",
         "where KAI's documents put it, it has no effect there either"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct shard shard;

        read_text(&arena, rows[i].text, &shard);
        EXPECT(str_contains(shard.ignored, str_from(rows[i].says)));
    }
}
