#include "api/convert.h"

#include "api/kind.h"
#include "base/arena.h"
#include "base/count.h"
#include "base/json.h"
#include "base/json_make.h"
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
    for (size_t i = 0; i < COUNT_OF(event_names); i++) {
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

static bool is_cpu(const struct json *metric)
{
    return str_is(json_str(json_get(metric, "type")), "Resource") &&
           str_is(json_str_at(metric, "resource.name"), "cpu") &&
           str_is(json_str_at(metric, "resource.target.type"), "Utilization");
}

static void hpa_to_v1(struct arena *arena, struct json *root)
{
    struct json *spec = json_make_path(arena, root, "spec");
    struct json *others = json_new_array(arena);
    const struct json *target = NULL;

    JSON_FOREACH(json_get(spec, "metrics"), metric) {
        const struct json *share = json_at(metric, "resource.target.averageUtilization");

        if (!target && is_cpu(metric) && share)
            target = share;
        else
            json_push(others, json_clone(arena, metric));
    }
    if (target)
        json_set(spec, STR("targetCPUUtilizationPercentage"), json_clone(arena, target));
    if (json_count(others))
        json_add_str(arena, json_make_path(arena, root, "metadata.annotations"), HPA_METRICS,
                     json_text(arena, others));
    json_remove(spec, STR("metrics"));
    JSON_FOREACH(json_at(root, "status.currentMetrics"), metric) {
        const struct json *share = json_at(metric, "resource.current.averageUtilization");

        if (str_is(json_str_at(metric, "resource.name"), "cpu") && share)
            json_set(json_get(root, "status"), STR("currentCPUUtilizationPercentage"),
                     json_clone(arena, share));
    }
    json_remove(json_get(root, "status"), STR("currentMetrics"));
    json_remove(json_get(root, "status"), STR("conditions"));
}

static void add_cpu(struct arena *arena, struct json *metrics, const struct json *target)
{
    json_push(metrics,
              json_make(arena,
                        "{resource: {target: {type: 'Utilization', averageUtilization: $}, "
                        "name: 'cpu'}, type: 'Resource'}",
                        json_clone(arena, target)));
}

static void hpa_to_v2(struct arena *arena, struct json *root)
{
    struct json *spec = json_make_path(arena, root, "spec");
    struct json *annotations = json_at(root, "metadata.annotations");
    const struct json *target = json_get(spec, "targetCPUUtilizationPercentage");
    struct str kept = json_str(json_get(annotations, HPA_METRICS));
    struct json *others = NULL;
    struct json *metrics = json_new_array(arena);

    if (!json_is_null(target))
        add_cpu(arena, metrics, target);
    if (kept.len && json_parse(arena, kept, &others, NULL) == 0)
        JSON_FOREACH(others, metric)
            json_push(metrics, json_clone(arena, metric));
    if (json_count(metrics))
        json_set(spec, STR("metrics"), metrics);
    json_remove(spec, STR("targetCPUUtilizationPercentage"));
    json_remove(annotations, STR(HPA_METRICS));
    if (annotations && !json_count(annotations))
        json_remove(json_get(root, "metadata"), STR("annotations"));
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
    if (to == &kind_hpa_v1)
        hpa_to_v1(arena, root);
    else if (from == &kind_hpa_v1)
        hpa_to_v2(arena, root);
}
