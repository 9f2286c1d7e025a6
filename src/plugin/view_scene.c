#include "plugin/view_scene.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"
#include "base/time.h"
#include "test.h"

#include <stddef.h>
#include <stdint.h>

#define OBJECTS_MAX 8

const char *const view_scene_jobs[] = {
    "{\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"," CREATED "},\"spec\":{\"jobQueue\":\"q\"},"
    "\"status\":{\"phase\":\"Running\",\"numGPUs\":8,\"numNodes\":2,\"workersStatus\":\"2/2\","
    "\"message\":\"all run\"}}",
    "{\"metadata\":{\"name\":\"b\",\"namespace\":\"n\",\"uid\":\"u-b\"," CREATED "},"
    "\"spec\":{\"queue\":\"q\"},"
    "\"status\":{\"message\":\"waits for 4 GPUs\",\"restarts\":3}}",
    "{\"metadata\":{\"name\":\"c\",\"namespace\":\"n\"," CREATED "},\"spec\":{\"jobQueue\":\"q\"},"
    "\"status\":{\"phase\":\"Suspended\",\"numGPUs\":8}}",
    "{\"metadata\":{\"name\":\"d\",\"namespace\":\"n\"," CREATED "},\"spec\":{\"jobQueue\":\"r\"},"
    "\"status\":{\"phase\":\"Succeeded\",\"numGPUs\":8}}",
    NULL};

struct view_objects view_scene_objects(struct arena *arena,
                                       const struct kind *kind,
                                       const char *const *texts)
{
    struct view_objects all = {.items = ARENA_ARRAY(arena, const struct object *, OBJECTS_MAX)};

    for (; texts[all.count]; all.count++) {
        struct object *object = NULL;

        EXPECT(object_new(kind, str_from(texts[all.count]), &object, NULL) == 0);
        arena_defer(arena, object_release, object);
        all.items[all.count] = object;
    }
    return all;
}

int64_t view_scene_now_ms(void)
{
    int64_t now = 0;

    EXPECT(time_parse(STR("2026-11-15T03:00:00Z"), &now));
    return now;
}
