#include "api/api.h"
#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "control/core/control.h"
#include "control/grouping/group.h"
#include "exec/runner.h"
#include "exec/runner_internal.h"

#include <stdbool.h>
#include <stddef.h>

/* What the store asks of the controllers while a pod is being written. */

static bool is_cached(const void *user, const struct kind *kind)
{
    const struct watch *watch = runner_watch(user, kind);

    return watch && watch->synced;
}

static struct control_input input_now(const struct runner *runner)
{
    return (struct control_input){.cache = runner->cache,
                                  .config = &runner->config,
                                  .now_ms = runner_clock(runner),
                                  .kinds = runner->api->kinds,
                                  .is_watched = is_cached,
                                  .user = runner,
                                  .without = runner->without};
}

void runner_admit_pod(void *user, struct json *pod, struct arena *arena)
{
    const struct runner *runner = user;
    const struct control_input input = input_now(runner);

    if (runner->started && runner->groups)
        group_admit(&input, pod, arena);
}

static void on_group(void *user, const struct api_result *result)
{
    (void)user;
    (void)result;
}

/* The group of a pod that is alone in it goes into the pod's commit. Whatever comes of it, the pod
 * grouper looks at the pod, and makes what is missing. */
static void write_group(struct api *api,
                        const struct control_input *input,
                        const struct object *pod)
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

void runner_made_pod(void *user, const struct object *pod)
{
    const struct runner *runner = user;
    const struct control_input input = input_now(runner);

    if (runner->started && runner->groups)
        write_group(runner->api, &input, pod);
}
