#include "control/core/group_name.h"

#include "api/group.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"

struct str group_name(const struct object *owner, struct arena *arena)
{
    return group_name_make(arena, owner->name, owner->uid);
}

/* Asked with every event about a pod, and few name one: the text is looked at first. */
struct str group_named(const struct object *pod, struct arena *arena)
{
    if (!str_contains(pod->raw, STR("\"schedulingGroup\"")))
        return STR_NONE;
    return json_str_at(object_json(pod, arena), "spec.schedulingGroup.podGroupName");
}
