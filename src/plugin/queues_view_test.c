#include "api/kind.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "plugin/queues_view.h"
#include "plugin/view.h"
#include "plugin/view_scene.h"
#include "test.h"

#include <stddef.h>

TEST(queues_count_what_runs_and_what_waits_but_not_what_is_suspended_or_over)
{
    static const char *const some_queues[] = {
        "{\"metadata\":{\"name\":\"q\",\"namespace\":\"n\"," CREATED "},"
        "\"spec\":{\"kaiQueue\":\"team\",\"nodeResources\":{\"gpus\":4}}}",
        "{\"metadata\":{\"name\":\"r\",\"namespace\":\"n\"," CREATED "},\"spec\":{}}", NULL};
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};

    struct queues_view view = {.own = view_scene_objects(&arena, &kind_torchrunqueue, some_queues),
                               .jobs =
                                   view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs),
                               .now_ms = view_scene_now_ms()};
    queues_write(&out, &arena, &view);
    EXPECT(str_is(buf_str(&out),
                  "NAME   KAI QUEUE   GPUS/NODE   RUNNING   GPUS USED   QUEUED   AGE\n"
                  "q      team        4           1         8           1        60m\n"
                  "r      r           -           0         0           0        60m\n"));
}

static const char *const some_tree[] = {
    "{\"metadata\":{\"name\":\"child\"},\"spec\":{\"parentQueue\":\"top\",\"resources\":{\"gpu\":"
    "{\"quota\":4,\"limit\":-1}}},\"status\":{\"allocated\":{\"nvidia.com/gpu\":\"6\"},"
    "\"fairShare\":{\"nvidia.com/gpu\":\"4\"},\"requested\":{\"nvidia.com/gpu\":\"7500m\"}}}",
    "{\"metadata\":{\"name\":\"top\"},\"spec\":{}}", NULL};
static const char *const some_groups[] = {
    "{\"metadata\":{\"name\":\"pg-b\",\"namespace\":\"n\",\"ownerReferences\":[{\"name\":\"b\"}]},"
    "\"spec\":{\"queue\":\"child\"},\"status\":{\"phase\":\"Pending\"}}",
    "{\"metadata\":{\"name\":\"pg-c\",\"namespace\":\"n\"},\"spec\":{\"queue\":\"child\"},"
    "\"status\":{\"phase\":\"Pending\"}}",
    NULL};

TEST(queues_are_a_tree_with_those_who_wait_and_fit_80_columns)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct queues_view view = {.queues = view_scene_objects(&arena, &kind_queue, some_tree),
                               .groups = view_scene_objects(&arena, &kind_podgroup, some_groups)};

    queues_write(&out, &arena, &view);
    EXPECT(str_is(buf_str(&out),
                  "QUEUE (GPUs)   QUOTA   LIMIT       FAIR SHARE   ALLOCATED   REQUESTED"
                  "                          QUEUED\n"
                  "top            -       -           0            0           0"
                  "                                  \n"
                  "  child        4       unlimited   4            6           7.50"
                  "        ##############++++++   n/b and 1 more\n"));
    buf_clear(&out);
    view.wraps_at = 80;
    queues_write(&out, &arena, &view);
    for (struct str rest = buf_str(&out), line; str_cut(&rest, '\n', &line);)
        EXPECT(line.len <= 80);
    EXPECT(str_contains(buf_str(&out), STR("######++ ")));
    EXPECT(str_contains(buf_str(&out), STR("  child")));
}

/* -l names some queues, and their parents may not be among them. */
TEST(a_queue_whose_parent_is_not_there_is_a_root)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct queues_view view = {.queues = view_scene_objects(&arena, &kind_queue, some_tree)};

    view.queues.count = 1;
    queues_write(&out, &arena, &view);
    EXPECT(str_contains(buf_str(&out), STR("\nchild ")));
    struct json *list = queues_record(&arena, &view);
    EXPECT(json_count(list) == 1 && str_is(json_str_at(list, "0.name"), "child"));
    EXPECT(str_is(json_str_at(list, "0.parent"), "top"));
}

TEST(queues_for_programs_name_the_torchrunqueues_of_each)
{
    static const char *const some_queues[] = {
        "{\"metadata\":{\"name\":\"q\",\"namespace\":\"n\"," CREATED "},"
        "\"spec\":{\"kaiQueue\":\"child\"}}",
        "{\"metadata\":{\"name\":\"r\",\"namespace\":\"n\"," CREATED "},\"spec\":{}}", NULL};
    _cleanup_(arena_done) struct arena arena = {0};
    struct queues_view view = {.own = view_scene_objects(&arena, &kind_torchrunqueue, some_queues),
                               .jobs =
                                   view_scene_objects(&arena, &kind_torchrunjob, view_scene_jobs),
                               .queues = view_scene_objects(&arena, &kind_queue, some_tree),
                               .groups = view_scene_objects(&arena, &kind_podgroup, some_groups)};
    struct json *list = queues_record(&arena, &view);

    EXPECT(json_count(list) == 3);
    EXPECT(str_is(json_str_at(list, "0.name"), "top"));
    EXPECT(str_is(json_str_at(list, "1.torchrunQueues.0.name"), "q"));
    EXPECT(str_is(json_str_at(list, "1.waiting.1"), "n/pg-c"));
    EXPECT(str_is(json_str_at(list, "2.torchrunQueues.0.name"), "r"));
}
