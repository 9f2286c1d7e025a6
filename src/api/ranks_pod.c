#include "api/object.h"
#include "api/ranks.h"
#include "base/str.h"

/* Of whole pods; muster-launch, which knows none, has the rest (ranks.c). */

struct str ranks_why(struct arena *arena, const struct object *pod)
{
    if (str_is(object_annotation(pod, OBSERVE_ANNOTATION), "off"))
        return STR("the annotation " OBSERVE_ANNOTATION " is \"off\"; take it off");
    return ranks_unwatched(arena, object_annotation(pod, RANKS_ANNOTATION));
}
