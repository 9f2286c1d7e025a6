#include "control/kinds/list.h"

#include "base/json.h"

struct json *list_at(struct arena *arena, struct json *object, const char *key)
{
    struct json *list = json_get(object, key);

    return json_is(list, JSON_ARRAY) ? list : json_add_array(arena, object, key);
}
