#pragma once

#include "base/json.h"
#include "base/str.h"

#include <stdbool.h>

/* pod: what is asked of a pod in many places. */

/* Whether a pod, as a tree, has ended, well or badly: it holds nothing and never runs again. */
static inline bool pod_is_over(const struct json *pod)
{
    struct str phase = json_str_at(pod, "status.phase");

    return str_is(phase, "Succeeded") || str_is(phase, "Failed");
}

/* Whether a pod gets the annotation with its node: the binding brings it (exec/bind_annotations.h). */
bool pod_has_by_bind(struct str annotation);
/* status.qosClass of a pod with this spec: Guaranteed where every container has limits of both and
 * asks for no less, BestEffort where none says anything. */
const char *pod_qos(const struct json *spec);
