#include "exec/pod_write.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/status.h"
#include "exec/event.h"
#include "exec/scheduler_apply.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

void pod_tell(struct api *api,
              const struct sched_pod_ref *pod,
              const char *reason,
              struct str message,
              bool warning,
              int64_t now_ms)
{
    event_send(api, &(struct event){.kind = &kind_pod,
                                    .ns = pod->ns,
                                    .name = pod->name,
                                    .uid = pod->uid,
                                    .reason = str_from(reason),
                                    .message = message,
                                    .warning = warning,
                                    .component = APPLIER_COMPONENT,
                                    .now_ms = now_ms});
}

void pod_patch_status(struct api *api,
                      const struct object *pod,
                      struct arena *arena,
                      struct json *status)
{
    struct json *body = json_new_object(arena);

    json_set(body, STR("status"), status);
    api_call(api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = &kind_pod,
                                   .ns = pod->ns,
                                   .name = pod->name,
                                   .uid = pod->uid,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_STRATEGIC,
                                   .body = json_text(arena, body)},
             api_ignore, NULL);
}

void pod_tell_volume(struct api *api,
                     const struct cache *cache,
                     const struct sched_pod_ref *pod,
                     struct str node,
                     struct str claim,
                     int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct object *object = cache_get(cache, &kind_pod, pod->ns, pod->name);
    struct json *status = json_new_object(&arena);
    struct str words = str_printf(&arena,
                                  "has room on node " STR_FMT
                                  "; waits for PersistentVolumeClaim " STR_FMT " to be bound",
                                  STR_ARG(node), STR_ARG(claim));

    if (!object)
        return;
    pod_tell(api, pod, "WaitingForVolume", words, false, now_ms);
    condition_set(&arena, status,
                  &(struct condition){"PodScheduled", "False", "WaitingForVolume", words}, now_ms);
    pod_patch_status(api, object, &arena, status);
}
