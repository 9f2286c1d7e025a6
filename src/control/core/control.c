#include "control/core/control.h"

#include "base/str.h"
#include "base/vec.h"

void control_keys_add(struct control_keys *keys, struct str ns, struct str name)
{
    VEC_PUSH(keys->arena, &keys->list,
             (struct control_key){str_dup(keys->arena, ns), str_dup(keys->arena, name)});
}
