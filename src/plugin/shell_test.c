#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"
#include "plugin/shell.h"
#include "test.h"

TEST(the_pod_of_a_shell_asks_for_what_was_asked_for)
{
    static const struct {
        const char *path;
        const char *value;
    } rows[] = {
        {"metadata.name", "shell-x"},
        {"metadata.namespace", "ns"},
        {"spec.schedulerName", "kai-scheduler"},
        {"spec.restartPolicy", "Never"},
        {"spec.priorityClassName", "build"},
        {"spec.containers.0.image", "torch:2"},
        {"spec.volumes.0.hostPath.path", "/home/me"},
        {"spec.containers.0.volumeMounts.0.mountPath", "/home/me"},
    };
    _cleanup_(arena_done) struct arena arena = {0};
    struct shell_request request = {.name = "shell-x",
                                    .ns = "ns",
                                    .queue = "vision",
                                    .scheduler = "kai-scheduler",
                                    .image = "torch:2",
                                    .folder = "/home/me",
                                    .priority = "build",
                                    .gpus = 2,
                                    .limit_s = 60};
    struct json *pod = shell_pod(&arena, &request);

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_case(rows[i].path);
        EXPECT(str_is(json_str_at(pod, rows[i].path), rows[i].value));
    }
    const struct json *limits = json_at(pod, "spec.containers.0.resources.limits");
    EXPECT(str_is(json_str(json_get(limits, "nvidia.com/gpu")), "2"));
    const struct json *labels = json_at(pod, "metadata.labels");
    EXPECT(str_is(json_str(json_get(labels, "kai.scheduler/queue")), "vision"));
    EXPECT(json_i64_or(json_at(pod, "spec.activeDeadlineSeconds"), 0) == 60);
    request.gpus = request.limit_s = 0;
    request.folder = request.priority = NULL;
    pod = shell_pod(&arena, &request);
    EXPECT(json_is_null(json_at(pod, "spec.containers.0.resources")));
    EXPECT(json_is_null(json_at(pod, "spec.volumes")));
}
