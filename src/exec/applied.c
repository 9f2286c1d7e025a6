#include "exec/applied.h"

#include "api/api.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "control/core/status.h"

#include <stdint.h>

void applied_tell(struct api *api,
                  const struct object *object,
                  const struct applied *applied,
                  int64_t now_ms)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *before = json_get(object_json(object, &arena), "status");
    struct json *after = before ? json_clone(&arena, before) : json_new_object(&arena);
    struct condition condition = {"Applied", "True", "Applied", STR("everything took effect")};

    if (!applied->reason && applied->message.len)
        condition.message = applied->message;
    if (applied->reason)
        condition = (struct condition){"Applied", "False", applied->reason, applied->message};
    condition_set(&arena, after, &condition, now_ms);
    struct json *patch = merge_diff(&arena, before, after);
    if (!patch)
        return;
    struct json *body = json_new_object(&arena);
    json_set(body, STR("status"), patch);
    api_call(api,
             &(struct api_request){.verb = API_PATCH,
                                   .kind = object->kind,
                                   .name = object->name,
                                   .subresource = STR("status"),
                                   .patch = API_PATCH_MERGE,
                                   .uid = object->uid,
                                   .body = json_text(&arena, body)},
             api_ignore, NULL);
}
