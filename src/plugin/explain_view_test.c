#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "plugin/explain_view.h"
#include "plugin/view.h"
#include "plugin/view_scene.h"
#include "test.h"

#include <stddef.h>

static size_t times(struct str text, struct str word)
{
    size_t count = 0;

    for (size_t i = 0; i + word.len <= text.len; i++)
        count += str_starts(str_sub(text, i, text.len), word);
    return count;
}

TEST(explain_says_a_sentence_once)
{
#define WAITS "needs 8 GPUs; 4 are free"
    static const char *const some_job[] = {
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u1\"," CREATED "},"
        "\"status\":{\"phase\":\"Queued\",\"message\":\"" WAITS "\"}}",
        NULL};
    static const char *const some_groups[] = {
        "{\"metadata\":{\"name\":\"pg-a-u1\",\"namespace\":\"n\"},\"spec\":{\"minMember\":2},"
        "\"status\":{\"message\":\"" WAITS "\",\"schedulingConditions\":[{\"message\":\"" WAITS
        "\"},{\"message\":\"queue q is over its quota\"}]}}",
        NULL};
#define POD(name, group, words)                                                                \
    "{\"metadata\":{\"name\":\"" name                                                          \
    "\",\"namespace\":\"n\",\"annotations\":{\"pod-group-name\":\"pg-" group                   \
    "\"}},\"status\":{\"phase\":"                                                              \
    "\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"message\":" \
    "\"" words "\"}]}}"
    static const char *const some_pods[] = {
        POD("a-worker-0", "a-u1", WAITS), POD("a-worker-1", "a-u1", "gated"),
        POD("a-worker-2", "a-u1", "gated"), POD("b-worker-0", "b", "another's"), NULL};
#define EVENT(name, words)                                                           \
    "{\"metadata\":{\"name\":\"" name "\",\"namespace\":\"n\"},\"involvedObject\":{" \
    "\"name\":\"a-worker-0\"},\"reason\":\"Unschedulable\",\"message\":\"" words "\"}"
    static const char *const some_events[] = {EVENT("x", WAITS), EVENT("y", "tried again"), NULL};
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_(buf_done) struct buf out = {0};
    struct explain_view view = {
        .program = "muster",
        .ns = STR("n"),
        .name = STR("a"),
        .job =
            object_json(view_scene_objects(&arena, &kind_torchrunjob, some_job).items[0], &arena),
        .group =
            object_json(view_scene_objects(&arena, &kind_podgroup, some_groups).items[0], &arena),
        .pods = view_scene_objects(&arena, &kind_pod, some_pods),
        .events = view_scene_objects(&arena, &kind_event, some_events),
    };

    explain_write(&out, &arena, &view);
    EXPECT(times(buf_str(&out), STR(WAITS)) == 1);
    EXPECT(times(buf_str(&out), STR("queue q is over its quota")) == 1);
    EXPECT(times(buf_str(&out), STR("gated")) == 1);
    EXPECT(times(buf_str(&out), STR("as above")) == 2);
    EXPECT(times(buf_str(&out), STR("tried again")) == 1);
    EXPECT(!str_contains(buf_str(&out), STR("another's")));
    EXPECT(!str_contains(buf_str(&out), STR("does not exist"))); /* it names no queue */
}
