#include "api/pod.h"

#include "api/autoscale.h"
#include "api/gpu.h"
#include "api/numa.h"
#include "api/suspend.h"
#include "base/count.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

bool pod_has_by_bind(struct str annotation)
{
    static const char *const keys[] = {
        GPU_ANNOTATION_DEVICES, GPU_ANNOTATION_TYPE, GPU_ANNOTATION_PORTION,
        GPU_ANNOTATION_MEMORY,  SUSPEND_MAY,         NUMA_ANNOTATION_PREDICTED,
        AUTOSCALE_SAFE,         AUTOSCALE_DISRUPT};

    for (size_t i = 0; i < COUNT_OF(keys); i++)
        if (str_is(annotation, keys[i]))
            return true;
    return false;
}
