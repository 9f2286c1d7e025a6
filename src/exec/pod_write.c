#include "exec/pod_write.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/json.h"
#include "base/str.h"
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
