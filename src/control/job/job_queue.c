#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/control.h"
#include "control/job/job.h"

/* A queue for all of its jobs, also those of kinds that do not know it by name: they are in its
 * scheduling queue, which says whose it is. */

struct str job_queue_says(const struct control_input *input,
                          const struct object *job,
                          const char *field,
                          struct arena *arena)
{
    const char *key = str_c(arena, input->config->queue_label_key);
    const struct object *under =
        cache_get(input->cache, &kind_queue, STR(""), object_label(job, key));
    const struct object *queue = under ? cache_get(input->cache, &kind_torchrunqueue,
                                                   object_label(under, JOB_QUEUE_LABEL_SPACE),
                                                   object_label(under, JOB_QUEUE_LABEL_NAME))
                                       : NULL;

    if (!queue || job->kind == &kind_torchrunjob) /* that one reads its queue itself */
        return STR_NONE;
    arena_defer(arena, object_release, object_ref(queue));
    return json_str(json_get(json_at(object_json(queue, arena), "spec.reliability"), field));
}
