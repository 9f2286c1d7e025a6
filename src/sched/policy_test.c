#include "base/arena.h"
#include "base/count.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "sched/world_test.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How a scheduler is run, told and read again. */

static struct json *quoted(struct arena *arena, const char *text)
{
    char *copy = str_c(arena, str_from(text));
    struct json *tree = NULL;

    for (char *p = copy; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    EXPECT(json_parse(arena, str_from(copy), &tree, NULL) == 0);
    return tree;
}

/* No member as sched_config_default() has it. */
static struct sched_policy another_policy(void)
{
    return (struct sched_policy){.actions = 1U << SCHED_ACTION_ALLOCATE | 1U << SCHED_ACTION_STALE,
                                 .depth = {[SCHED_ACTION_RECLAIM] = 3},
                                 .gpu_strategy = SCHED_SPREAD,
                                 .cpu_strategy = SCHED_FGD,
                                 .stale_grace_ms = 1,
                                 .stuck_after_ms = 2,
                                 .consolidate_max = 3,
                                 .consolidating_reclaim = false,
                                 .restrict_nodes = true,
                                 .k_value = 0.25,
                                 .saturation = 1.5,
                                 .preempt_min_runtime_ms = 4,
                                 .reclaim_min_runtime_ms = 5,
                                 .reclaim_runtime_by_queue = true,
                                 .reserve_after_ms = -6,
                                 .lend_expected = true,
                                 .numa = true,
                                 .numa_reported = true,
                                 .numa_ignore = "cpu,memory",
                                 .without_proportion = true,
                                 .without_filters = true,
                                 .without_placement = true};
}

static bool policies_equal(const struct sched_policy *a, const struct sched_policy *b)
{
    return a->actions == b->actions && !memcmp(a->depth, b->depth, sizeof(a->depth)) &&
           a->gpu_strategy == b->gpu_strategy && a->cpu_strategy == b->cpu_strategy &&
           a->stale_grace_ms == b->stale_grace_ms && a->stuck_after_ms == b->stuck_after_ms &&
           a->consolidate_max == b->consolidate_max &&
           a->consolidating_reclaim == b->consolidating_reclaim &&
           a->restrict_nodes == b->restrict_nodes && a->k_value >= b->k_value &&
           a->k_value <= b->k_value && a->saturation >= b->saturation &&
           a->saturation <= b->saturation &&
           a->preempt_min_runtime_ms == b->preempt_min_runtime_ms &&
           a->reclaim_min_runtime_ms == b->reclaim_min_runtime_ms &&
           a->reclaim_runtime_by_queue == b->reclaim_runtime_by_queue &&
           a->reserve_after_ms == b->reserve_after_ms && a->lend_expected == b->lend_expected &&
           a->numa == b->numa && a->numa_reported == b->numa_reported &&
           !strcmp(a->numa_ignore, b->numa_ignore) &&
           a->without_proportion == b->without_proportion &&
           a->without_filters == b->without_filters && a->without_placement == b->without_placement;
}

/* Or a replay would decide otherwise. */
TEST(every_member_of_a_policy_is_told_and_read_again)
{
    struct arena arena = {0};
    struct json *told = json_new_object(&arena);
    struct sched_policy policy = another_policy();
    struct sched_config read;

    sched_config_default(&read);
    policy_tell_one(&arena, &policy, told);
    EXPECT(policy_read_one(told, &read.policy, NULL) == 0);
    EXPECT(policies_equal(&read.policy, &policy));
    arena_done(&arena);
}

TEST(a_scheduler_that_is_told_and_made_again_is_run_the_same)
{
    const double used[SCHED_RESOURCES] = {0.5, 0, 0.25};
    const struct sched_policy policy = another_policy();
    struct sched_config config;
    struct arena arena = {0};
    struct cluster c;
    struct cluster again;

    sched_config_default(&config);
    config.quirks = SCHED_QUIRK(SIDECARS) | SCHED_QUIRK(NO_AGEING);
    config.devices = SCHED_DEVICES_RESERVED;
    config.scheduler_name = STR("mine");
    config.queue_label = STR("team");
    config.pool_label = STR("part");
    cluster_open_as(&c, &config);
    cluster_queue(&c, "q", 1, 2);
    sched_set_policy(c.sched, STR("blue"), &policy);
    sched_set_usage(c.sched, STR("q"), used);
    struct json *told = policy_tell(&arena, c.sched); /* in words of the scheduler's own */

    struct sched_queue_view view = {0};
    struct sched_policy blue;
    struct str name = STR_NONE;
    size_t cursor = 0;
    sched_config_default(&config);
    EXPECT(policy_read_config(told, &config, NULL) == 0);
    EXPECT(config.quirks == (SCHED_QUIRK(SIDECARS) | SCHED_QUIRK(NO_AGEING)));
    EXPECT(config.devices == SCHED_DEVICES_RESERVED && str_is(config.scheduler_name, "mine"));
    EXPECT(str_is(config.queue_label, "team") && str_is(config.pool_label, "part"));
    cluster_open_as(&again, &config);
    cluster_queue(&again, "q", 1, 2);
    EXPECT(policy_read_pools(told, again.sched, NULL) == 0);
    policy_read_usage(told, again.sched);
    EXPECT(sched_next_policy(again.sched, &cursor, &name, &blue) && str_is(name, "blue"));
    EXPECT(policies_equal(&blue, &policy));
    EXPECT(!sched_next_policy(again.sched, &cursor, &name, &blue));
    EXPECT(sched_queue_view(again.sched, STR("q"), &view));
    EXPECT(view.usage[SCHED_CPU] >= 0.5 && view.usage[SCHED_CPU] <= 0.5);
    EXPECT(view.usage[SCHED_GPU] >= 0.25 && view.usage[SCHED_GPU] <= 0.25);
    cluster_close(&again);
    cluster_close(&c);
    arena_done(&arena);
}

TEST(what_is_wrong_with_a_policy_is_said_with_the_name_of_its_member)
{
    static const struct {
        const char *text;
        const char *wrong; /* NULL: nothing */
    } rows[] = {
        {"{}", NULL},
        {"{'mimic':true,'spread':true}", NULL},
        {"{'quirks':['sidecars']}", NULL},
        {"{'quirks':['left-handed']}", "quirks: \"left-handed\" is not a quirk"},
        {"{'devices':'whole'}", NULL},
        {"{'devices':'some'}", "devices: must be numbered, reserved or whole"},
        {"{'gpuPlacement':'binpack'}", NULL},
        {"{'gpuPlacement':'scored'}",
         "gpuPlacement: must be binpack, spread, fragmentation or fgd"},
        {"{'cpuPlacement':'anywhere'}", "cpuPlacement: must be "},
        {"{'staleGrace':'60s'}", NULL},
        {"{'staleGrace':60}", "staleGrace: must be a time like 60s"},
        {"{'numa':'yes'}", "numa: must be true or false"},
        {"{'kValue':'1.5'}", NULL},
        {"{'kValue':'lots'}", "kValue: must be a number"},
        {"{'consolidateMax':-1}", NULL},
        {"{'consolidateMax':'all'}", "consolidateMax: must be a number"},
        {"{'actions':['allocate','pray']}", "actions: there is no action \"pray\""},
        {"{'queueDepthPerAction':{'reclaim':3}}", NULL},
        {"{'queueDepthPerAction':{'reclaim':-3}}", "queueDepthPerAction: must be a number of"},
        {"{'queueDepthPerAction':{'reclaim':9999999999}}", "queueDepthPerAction: must be a number"},
        {"{'numaIgnore':'cpu'}", NULL},
        {"{'numaIgnore':'0123456789012345678901234567890123456789012345678901234567890123456789"
         "0123456789012345678901234567890123456789012345678901234567'}",
         "numaIgnore: must be a shorter list"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct sched_config config;
        struct err err = {0};

        test_case(rows[i].text);
        sched_config_default(&config);
        int r = policy_read_config(quoted(&arena, rows[i].text), &config, &err);
        EXPECT(r == (rows[i].wrong ? -EINVAL : 0));
        EXPECT(!rows[i].wrong || str_contains(str_from(err.text), str_from(rows[i].wrong)));
        arena_done(&arena);
    }
}

TEST(mimicry_and_spreading_are_words_of_their_own)
{
    struct arena arena = {0};
    struct sched_config config;

    sched_config_default(&config);
    EXPECT(policy_read_config(quoted(&arena, "{'mimic':true,'spread':true}"), &config, NULL) == 0);
    EXPECT(config.quirks == SCHED_QUIRKS_ALL);
    EXPECT(config.policy.gpu_strategy == SCHED_SPREAD);
    EXPECT(config.policy.cpu_strategy == SCHED_SPREAD);
    arena_done(&arena);
}

TEST(a_pool_whose_policy_is_wrong_is_named)
{
    static const struct {
        const char *text;
        const char *wrong;
    } rows[] = {
        {"{'pools':[{'numa':true}]}", "pools: must be a list of policies with a name"},
        {"{'pools':[{'name':'blue','numa':1}]}", "pools: blue: numa: must be true or false"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct arena arena = {0};
        struct err err = {0};
        struct cluster c;

        test_case(rows[i].text);
        cluster_open(&c, SCHED_QUIRKS_NONE);
        EXPECT(policy_read_pools(quoted(&arena, rows[i].text), c.sched, &err) == -EINVAL);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].wrong)));
        cluster_close(&c);
        arena_done(&arena);
    }
}
