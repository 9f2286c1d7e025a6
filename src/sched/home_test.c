#include "base/count.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"
#include "sched/world_test.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Suspended pods that want the very devices back that they had, and those who have them now. */

static void home_open(struct cluster *c, int64_t gpus)
{
    cluster_open(c, SCHED_QUIRKS_NONE);
    cluster_queue(c, "q", SCHED_UNLIMITED, SCHED_UNLIMITED);
    sched_put_node(c->sched, &(struct sched_node){.name = STR("a"),
                                                  .cpu_milli = 64000,
                                                  .memory_bytes = INT64_C(1) << 38,
                                                  .gpus = gpus,
                                                  .gpu_memory_mib = 1000,
                                                  .pods = 110});
}

/* Devices by number, or with a part of each by name. */
struct user {
    const char *name;
    int64_t priority;
    const uint32_t *devices;
    size_t device_count;
    const struct str *groups; /* halves of these */
    size_t group_count;
    bool suspended;
    bool ending;
};

static void put(struct cluster *c, const struct user *user)
{
    cluster_put(c, &(struct job){.name = user->name, .priority = user->priority});
    cluster_drop(c, str_c(&c->arena, str_printf(&c->arena, "%s-0", user->name)));
    sched_put_pod(c->sched,
                  &(struct sched_pod){.ns = STR("ns"),
                                      .name = str_from(user->name),
                                      .uid = str_from(user->name),
                                      .group = str_from(user->name),
                                      .created_ms = c->now,
                                      .cpu_milli = 1000,
                                      .gpus = (int64_t)user->device_count,
                                      .gpu_fraction_micro = user->group_count ? 500000 : 0,
                                      .gpu_devices = (int64_t)user->group_count,
                                      .devices = user->devices,
                                      .device_count = user->device_count,
                                      .gpu_groups = user->groups,
                                      .gpu_group_count = user->group_count,
                                      .node = STR("a"),
                                      .started_ms = c->now,
                                      .deleted_ms = user->ending ? c->now : 0,
                                      .suspended = user->suspended,
                                      .phase = user->suspended ? SCHED_PENDING
                                               : user->ending  ? SCHED_RELEASING
                                                               : SCHED_RUNNING});
}

static const uint32_t zero[] = {0};
static const uint32_t both[] = {0, 1};
static const struct str name_zero = {"0", 1};
static const struct str name_odd = {"x", 1};

/* With a second GPU free on the node: whoever has the device cannot stay there with it. */
TEST(a_suspended_pod_takes_its_device_from_work_below_it)
{
    static const struct {
        const char *why;
        struct user suspended;
        struct user now; /* who has it */
        bool evicted;
    } rows[] = {
        {"whole from whole",
         {.devices = zero, .device_count = 1, .priority = 60},
         {.devices = zero, .device_count = 1, .priority = 10},
         true},
        {"whole from whole that is as urgent",
         {.devices = zero, .device_count = 1, .priority = 60},
         {.devices = zero, .device_count = 1, .priority = 60},
         false},
        {"two from one",
         {.devices = both, .device_count = 2, .priority = 60},
         {.devices = zero, .device_count = 1, .priority = 10},
         true},
        {"a share from whole",
         {.groups = &name_zero, .group_count = 1, .priority = 60},
         {.devices = zero, .device_count = 1, .priority = 10},
         true},
        {"whole from a share",
         {.devices = zero, .device_count = 1, .priority = 60},
         {.groups = &name_zero, .group_count = 1, .priority = 10},
         true},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct user suspended = rows[i].suspended;
        struct user now = rows[i].now;
        struct str node = STR_NONE;
        struct cluster c;

        test_case(rows[i].why);
        home_open(&c, 2);
        suspended.name = "rests";
        suspended.suspended = true;
        now.name = "now";
        put(&c, &now);
        put(&c, &suspended);
        cluster_decide(&c, 1000);
        EXPECT(cluster_evicted(&c, "now") == rows[i].evicted);
        EXPECT(sched_promised(c.sched, STR("ns"), STR("rests"), &node) == rows[i].evicted);
        cluster_drop(&c, "now");
        cluster_decide(&c, 1000);
        const struct sched_bind *bind = cluster_bind(&c, "rests");
        EXPECT(bind && bind->resume && bind->devices[0] == 0);
        cluster_close(&c);
    }
}

/* They are about to be its own, and nobody has to go for it. */
TEST(a_suspended_pod_is_promised_its_device_by_who_is_leaving_it)
{
    static const struct {
        const char *why;
        struct user suspended;
        struct user now;
    } rows[] = {
        {"whole from whole",
         {.devices = zero, .device_count = 1},
         {.devices = zero, .device_count = 1}},
        {"a share from whole",
         {.groups = &name_zero, .group_count = 1},
         {.devices = zero, .device_count = 1}},
        {"whole from a share",
         {.devices = zero, .device_count = 1},
         {.groups = &name_zero, .group_count = 1}},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct user suspended = rows[i].suspended;
        struct user now = rows[i].now;
        struct str node = STR_NONE;
        struct cluster c;

        test_case(rows[i].why);
        home_open(&c, 2);
        suspended.name = "rests";
        suspended.suspended = true;
        now.name = "now";
        now.ending = true;
        put(&c, &now);
        put(&c, &suspended);
        cluster_decide(&c, 1000);
        EXPECT(sched_promised(c.sched, STR("ns"), STR("rests"), &node));
        EXPECT(!cluster_bound(&c, "rests"));
        cluster_drop(&c, "now");
        cluster_decide(&c, 1000);
        EXPECT(cluster_bound(&c, "rests"));
        cluster_close(&c);
    }
}

/* Who leaves it makes room for one: the other one has to wait, beside a device that is free. */
TEST(a_device_is_promised_to_one_suspended_pod)
{
    struct str node = STR_NONE;
    struct cluster c;

    home_open(&c, 3);
    put(&c, &(struct user){.name = "now", .devices = zero, .device_count = 1, .ending = true});
    put(&c, &(struct user){.name = "a", .devices = zero, .device_count = 1, .suspended = true});
    put(&c, &(struct user){.name = "b", .devices = zero, .device_count = 1, .suspended = true});
    cluster_decide(&c, 1000);
    EXPECT(sched_promised(c.sched, STR("ns"), STR("a"), &node));
    EXPECT(!sched_promised(c.sched, STR("ns"), STR("b"), &node));
    cluster_close(&c);
}

/* Nobody knows which device that is. */
TEST(a_suspended_share_of_a_device_without_a_number_waits)
{
    static const struct user rows[] = {
        {.groups = &name_odd, .group_count = 1},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct user suspended = rows[i];
        struct cluster c;

        home_open(&c, 2);
        suspended.name = "rests";
        suspended.suspended = true;
        put(&c, &suspended);
        cluster_decide(&c, 1000);
        EXPECT(!cluster_bound(&c, "rests") && cluster_waiting(&c, "rests"));
        cluster_close(&c);
    }
}
