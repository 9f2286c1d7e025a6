#include "api/convert.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct rename {
    const char *core;
    const char *events;
};

static const struct rename event_names[] = {
    {"involvedObject", "regarding"},
    {"message", "note"},
    {"reportingComponent", "reportingController"},
    {"source", "deprecatedSource"},
    {"firstTimestamp", "deprecatedFirstTimestamp"},
    {"lastTimestamp", "deprecatedLastTimestamp"},
    {"count", "deprecatedCount"},
};

static void convert_event(struct arena *arena, struct json *root, bool to_core)
{
    for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++) {
        const struct rename *row = &event_names[i];
        struct str from = str_from(to_core ? row->events : row->core);
        struct str to = str_from(to_core ? row->core : row->events);
        const struct json *value = json_get_str(root, from);

        if (!value)
            continue;
        json_set(root, to, json_clone(arena, value));
        json_remove(root, from);
    }
}

void convert(struct arena *arena, struct json *root, const struct kind *from, const struct kind *to)
{
    char text[KIND_API_VERSION_BYTES];

    if (from == to)
        return;
    json_set(root, STR("apiVersion"),
             json_new_str(arena, str_dup(arena, kind_api_version(to, text))));
    if (from == &kind_event_k8s || to == &kind_event_k8s)
        convert_event(arena, root, to == &kind_event);
}
