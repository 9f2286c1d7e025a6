#include "control/core/group_name.h"

#include "api/object.h"
#include "base/arena.h"
#include "base/str.h"

struct str group_name(const struct object *owner, struct arena *arena)
{
    return str_printf(arena, "pg-" STR_FMT "-" STR_FMT, STR_ARG(owner->name), STR_ARG(owner->uid));
}
