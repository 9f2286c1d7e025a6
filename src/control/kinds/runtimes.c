#include "control/kinds/runtimes.h"

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "cache/cache.h"
#include "control/core/action.h"
#include "control/core/control.h"
#include "control/core/controllers.h"

#include <stddef.h>

/* The default runtimes. One that was deleted comes back; one that was changed is left as it is. */

static void reconcile(const struct control_input *input,
                      const struct control_key *key,
                      struct actions *actions)
{
    (void)key;
    for (size_t i = 0; i < runtime_builtin_count; i++) {
        const struct runtime_builtin *builtin = &runtime_builtins[i];
        struct json *body = NULL;

        if (cache_get(input->cache, &kind_clustertrainingruntime, STR(""), str_from(builtin->name)))
            continue;
        if (json_parse(actions->arena, (struct str){builtin->text, builtin->text_len}, &body,
                       NULL) == 0)
            action_create(actions, &kind_clustertrainingruntime, body);
    }
}

static void keys(const struct cache *cache, const struct object *object, struct control_keys *ret)
{
    if (!cache_get(cache, object->kind, object->ns, object->name))
        control_keys_add(ret, STR(""), STR(""));
}

static const struct kind *const watches[] = {&kind_clustertrainingruntime, NULL};

const struct controller runtimes_controller = {.name = "runtimes",
                                               .at_start = true,
                                               .watches = watches,
                                               .keys = keys,
                                               .reconcile = reconcile};
