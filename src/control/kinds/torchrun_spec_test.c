#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "control/job/job.h"
#include "control/kinds/torchrun_spec.h"
#include "test.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *tree = NULL;

    EXPECT(json_parse(arena, str_from(text), &tree, NULL) == 0);
    return tree;
}

TEST(what_a_torchrun_job_says_wins_over_its_queue_field_by_field)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *queue = parse(
        &arena, "{\"spec\":{\"nodeResources\":{\"gpus\":8,\"cpus\":\"96\",\"memory\":\"1Ti\"},"
                "\"reliability\":{\"maxRestarts\":5,\"cleanPodPolicy\":\"All\"},"
                "\"storage\":{\"workspace\":{\"mountPath\":\"/queue\",\"size\":\"2Gi\"}},"
                "\"scheduling\":{\"topology\":\"rack\",\"nodeSelector\":{\"a\":\"b\"}},"
                "\"resources\":[{\"name\":\"c\",\"nameMode\":\"prefix\",\"template\":{}}]}}");
    const struct json *job =
        parse(&arena, "{\"spec\":{\"nodeResources\":{\"cpus\":4},\"minNodes\":2,"
                      "\"reliability\":{\"restartPolicy\":\"Never\"},"
                      "\"workspaceStorage\":{\"mountPath\":\"/job\"},"
                      "\"scheduling\":{\"nodeSelector\":{\"c\":\"d\"}}}}");
    struct torchrun_spec spec = {0};
    struct err err = {0};

    EXPECT(torchrun_spec_read(&arena, queue, job, &spec, &err) == 0);
    EXPECT(spec.node_gpus == 8 && spec.node_cpu_milli == 4000);
    EXPECT(spec.node_memory_bytes == (int64_t)1 << 40);
    EXPECT(spec.max_restarts == 5 && spec.restart == TORCHRUN_RESTART_NEVER);
    EXPECT(spec.clean == JOB_CLEAN_ALL && spec.ttl_s == -1 && spec.num_gpus == -1);
    EXPECT(str_is(spec.workspace.mount_path, "/job") && spec.workspace.bytes == 2LL << 30);
    EXPECT(str_is(spec.topology, "rack") && spec.min_nodes == 2);
    EXPECT(json_count(spec.queue_node_selector) == 1 && json_count(spec.job_node_selector) == 1);
    EXPECT(spec.resource_count == 1 && spec.resources[0].name_mode == TORCHRUN_NAME_PREFIX);
    EXPECT(torchrun_spec_read(&arena, NULL, NULL, &spec, &err) == 0);
    EXPECT(spec.max_restarts == 3 && spec.clean == JOB_CLEAN_RUNNING && spec.node_gpus == -1);
}

TEST(a_field_of_a_torchrun_job_that_makes_no_sense_is_named_with_its_owner)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct torchrun_spec spec = {0};
    struct err err = {0};

    EXPECT(torchrun_spec_read(&arena, parse(&arena, "{\"spec\":{}}"),
                              parse(&arena, "{\"spec\":{\"nodeResources\":{\"memory\":\"8GB\"},"
                                            "\"command\":\"x\"}}"),
                              &spec, &err) == -EINVAL);
    EXPECT(strcmp(err.text, "spec.nodeResources.memory: \"8GB\" is not a quantity such as 2 or "
                            "16Gi") == 0);
    EXPECT(str_is(spec.command, "x"));
    EXPECT(torchrun_spec_read(&arena, parse(&arena, "{\"spec\":{\"image\":7}}"), NULL, &spec,
                              &err) == -EINVAL);
    EXPECT(strcmp(err.text, "the queue's spec.image: 7 is not a string") == 0);
}
