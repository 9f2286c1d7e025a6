#include "api/marks.h"

#include "api/gpu.h"
#include "api/group.h"
#include "api/kind.h"
#include "api/numa.h"
#include "api/suspend.h"
#include "base/count.h"
#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

static const struct {
    const struct kind *kind;
    const char *key;
    bool label;
    bool wish; /* said by who makes the pod, and fixed once it has a node */
} marks[] = {
    {&kind_pod, GPU_ANNOTATION_DEVICES, false, false},
    {&kind_pod, GPU_ANNOTATION_PORTION, false, false},
    {&kind_pod, GPU_ANNOTATION_MEMORY, false, false},
    {&kind_pod, GPU_ANNOTATION_TYPE, false, false},
    {&kind_pod, NUMA_ANNOTATION_PREDICTED, false, false},
    {&kind_pod, SUSPEND_ANNOTATION, false, false},
    {&kind_pod, SUSPEND_MAY, false, false},
    {&kind_pod, GPU_ANNOTATION_FRACTION, false, true},
    {&kind_pod, GPU_ANNOTATION_FRACTION_MEMORY, false, true},
    {&kind_pod, GPU_ANNOTATION_FRACTION_DEVICES, false, true},
    {&kind_pod, GPU_ANNOTATION_FRACTION_CONTAINER, false, true},
    {&kind_pod, GROUP_ANNOTATION, false, true},
    {&kind_pod, "muster.dev/stand-in", true, false},
    {&kind_podgroup, "kai.scheduler/last-start-timestamp", false, false},
    {&kind_podgroup, "kai.scheduler/stale-podgroup-timestamp", false, false},
    {&kind_podgroup, "kai.scheduler/last-eviction-timestamp", false, false},
    {&kind_podgroup, "muster.dev/max-run-time-reached", false, false},
    {&kind_podgroup, GROUP_REFUSED, false, false},
};

struct str marks_refusal(struct arena *arena,
                         const struct kind *kind,
                         const struct json *old,
                         const struct json *object)
{
    bool bound = json_str_at(old, "spec.nodeName").len > 0;

    for (size_t i = 0; i < COUNT_OF(marks); i++) {
        const char *place = marks[i].label ? "metadata.labels" : "metadata.annotations";
        const struct json *now = json_get(json_at(object, place), marks[i].key);
        const struct json *before = json_get(json_at(old, place), marks[i].key);
        bool same = str_eq(json_str(now), json_str(before)) &&
                    (!marks[i].label || !now == !before); /* a label hides without a value, too */

        if (marks[i].kind == kind && !same && (bound || !marks[i].wish))
            return str_printf(arena, "%s[%s]: %s", place, marks[i].key,
                              marks[i].wish ? "the pod has its room; make another one"
                                            : "only the scheduler and administrators may write it; "
                                              "leave it as it was");
    }
    return STR_NONE;
}

const char *marks_key(size_t number)
{
    return number < COUNT_OF(marks) ? marks[number].key : NULL;
}
