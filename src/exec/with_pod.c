#include "exec/with_pod.h"

#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "control/grouping/group.h"

#include <stddef.h>

static void on_group(void *user, const struct api_result *result)
{
    (void)user;
    (void)result;
}

void with_pod_write(struct api *api, const struct control_input *input, const struct object *pod)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const struct json *group = group_alone(input, pod, &arena);

    if (group)
        api_call(api,
                 &(struct api_request){.verb = API_CREATE,
                                       .kind = &kind_podgroup,
                                       .ns = pod->ns,
                                       .body = json_text(&arena, group)},
                 on_group, NULL);
}
