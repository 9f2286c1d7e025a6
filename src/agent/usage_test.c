#include "agent/cgroup.h"
#include "agent/core.h"
#include "agent/lifecycle.h"
#include "agent/node.h"
#include "agent/pod.h"
#include "agent/usage.h"
#include "api/podio.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "test.h"
#include "tool/files.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define S 1000LL

TEST(usage_is_the_mean_since_the_sample_before_the_last)
{
    struct usage_samples samples = {0};
    struct usage_counter begin = {100 * S, 0};
    int64_t window_ms = 0;

    /* Nobody has asked before: since it began. Two seconds of cpu in four are half a cpu. */
    EXPECT(usage_rate(&samples, (struct usage_counter){104 * S, 2000000000}, begin, &window_ms) ==
           500000000);
    EXPECT(window_ms == 4 * S);
    /* Too soon for another sample. */
    EXPECT(usage_rate(&samples, (struct usage_counter){108 * S, 2000000000}, begin, &window_ms) ==
           250000000);
    EXPECT(samples.last.at_ms == 104 * S && samples.before.at_ms == 0);
    (void)usage_rate(&samples, (struct usage_counter){114 * S, 2000000000}, begin, &window_ms);
    EXPECT(samples.last.at_ms == 114 * S && samples.before.at_ms == 104 * S);
    EXPECT(usage_rate(&samples, (struct usage_counter){124 * S, 22000000000}, begin, &window_ms) ==
           1000000000);
    EXPECT(window_ms == 20 * S);
    /* A process that ended takes its time along where they are counted one by one. */
    EXPECT(usage_rate(&samples, (struct usage_counter){125 * S, 0}, begin, &window_ms) == 0);
    EXPECT(usage_rate(&samples, (struct usage_counter){90 * S, 5}, begin, &window_ms) >= 0);
    EXPECT(window_ms > 0);
}

static void count_taken(void *user, const struct podio_usage *usage)
{
    if (usage->pod.len)
        *(int64_t *)user = usage->memory_bytes;
}

TEST(usage_that_is_asked_for_at_once_again_is_not_read_again)
{
    static struct agent agent;
    struct node node = {.name = "n"};
    struct run_container container = {.name = STR("c"), .state = RUN_RUNNING};
    struct pod pod = {.agent = &agent, .uid = STR("u"), .name = STR("p"), .stage = POD_RUNNING};
    char top[] = "/tmp/muster-usage-XXXXXX", path[128];
    int64_t first = 0, second = 0;

    EXPECT(mkdtemp(top) != NULL);
    (void)snprintf(path, sizeof(path), "%s/u/c", top);
    EXPECT(files_make_folder(path, 0755, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/u/c/cpu.stat", top);
    EXPECT(files_write(path, STR("usage_usec 1\n"), 0600, NULL) == 0);
    (void)snprintf(path, sizeof(path), "%s/u/c/memory.current", top);
    EXPECT(files_write(path, STR("4096\n"), 0600, NULL) == 0);
    pod.run.containers = &container;
    pod.run.count = 1;
    agent.options.node_count = 1;
    agent.nodes = &node;
    agent.machine.cgroups.kind = CGROUP_V2;
    (void)snprintf(agent.machine.cgroups.memory, sizeof(agent.machine.cgroups.memory), "%s", top);
    (void)map_set(&agent.pods, STR("u"), &pod);
    usage_tell(&agent.podio, count_taken, &first);
    EXPECT(first == 4096);
    EXPECT(files_write(path, STR("8192\n"), 0600, NULL) == 0);
    /* However slow this machine is: the samples say when they were read. */
    pod.usage[0].read_ms += 3600 * S;
    usage_tell(&agent.podio, count_taken, &second);
    EXPECT(second == 4096);
    pod.usage[0].read_ms = 1;
    usage_tell(&agent.podio, count_taken, &second);
    EXPECT(second == 8192);
    map_done(&agent.pods);
    arena_done(&pod.arena);
    files_remove(top);
}
