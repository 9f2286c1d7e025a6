#include "exec/bind_annotations.h"

#include "api/autoscale.h"
#include "api/gpu.h"
#include "api/group.h"
#include "api/numa.h"
#include "api/object.h"
#include "api/suspend.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "sched/sched.h"
#include "sched/spec.h"

#include <stdbool.h>
#include <stddef.h>

/* The parts of one zone follow each other. */
static struct str zones_text(const struct sched_bind_more *more, struct arena *arena)
{
    struct json *list = json_new_array(arena);
    struct json *amounts = NULL;

    for (size_t i = 0; i < more->zone_part_count; i++) {
        const struct sched_zone_part *part = &more->zone_parts[i];
        bool cpu = str_is(part->name, "cpu");

        if (!i || !str_eq(part->zone, more->zone_parts[i - 1].zone)) {
            struct json *zone = json_push(list, json_new_object(arena));
            json_add_str(arena, zone, "zone", part->zone);
            amounts = json_add_object(arena, zone, "amount");
        }
        json_set(amounts, str_dup(arena, part->name),
                 json_new_str(
                     arena, str_printf(arena, "%lld%s", (long long)part->amount, cpu ? "m" : "")));
    }
    return json_text(arena, list);
}

/* A pod that names its group in its spec is told what stands for it with its node: one write less
 * than to tell it before. */
static void add_group(struct json *annotations, const struct object *pod, struct arena *arena)
{
    if (pod && pod->group.len && !object_annotation(pod, GROUP_ANNOTATION).len)
        json_add_str(arena, annotations, GROUP_ANNOTATION, pod->group);
}

/* What a person has said of the pod counts, whatever it is. */
static void add_stays(struct json *annotations, const struct object *pod, struct arena *arena)
{
    if (!pod || !object_annotation(pod, AUTOSCALE_SAFE).len)
        json_add_c(arena, annotations, AUTOSCALE_SAFE, AUTOSCALE_SAFE_NOT);
    if (!pod || !object_annotation(pod, AUTOSCALE_DISRUPT).len)
        json_add_c(arena, annotations, AUTOSCALE_DISRUPT, AUTOSCALE_DISRUPT_NEVER);
}

struct str bind_annotations(const struct sched_bind *bind,
                            const struct object *pod,
                            bool stays,
                            struct arena *arena)
{
    struct json *annotations = json_new_object(arena);
    struct str devices = STR_NONE;
    bool zones = bind->more && bind->more->zone_part_count;

    add_group(annotations, pod, arena);
    if (stays)
        add_stays(annotations, pod, arena);
    if (zones)
        json_add_str(arena, annotations, NUMA_ANNOTATION_PREDICTED, zones_text(bind->more, arena));
    if (!bind->device_count && !bind->gpu_group_count)
        return json_count(annotations) ? json_text(arena, annotations) : STR_NONE;
    for (size_t i = 0; i < bind->device_count; i++)
        devices =
            str_printf(arena, STR_FMT "%s%u", STR_ARG(devices), i ? "," : "", bind->devices[i]);
    json_add_c(arena, annotations, GPU_ANNOTATION_TYPE,
               bind->gpu_group_count ? "Fraction" : "Regular");
    if (devices.len)
        json_add_str(arena, annotations, GPU_ANNOTATION_DEVICES, devices);
    if (bind->may_suspend)
        json_add_c(arena, annotations, SUSPEND_MAY, "true");
    if (bind->gpu_fraction_micro)
        json_add_str(arena, annotations, GPU_ANNOTATION_PORTION,
                     str_printf(arena, "%lld.%06lld", (long long)bind->gpu_fraction_micro / 1000000,
                                (long long)bind->gpu_fraction_micro % 1000000));
    if (bind->gpu_memory_mib)
        json_add_str(arena, annotations, GPU_ANNOTATION_MEMORY,
                     str_printf(arena, "%lld", (long long)bind->gpu_memory_mib));
    return json_text(arena, annotations);
}
