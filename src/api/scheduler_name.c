#include "api/scheduler_name.h"

#include "base/str.h"

#include <stdbool.h>

bool scheduler_places(struct str list, struct str name)
{
    struct str wanted = name.len ? name : STR(SCHEDULER_DEFAULT);
    struct str one;

    if (!list.len)
        return true;
    while (str_cut(&list, ',', &one))
        if (str_eq(one, wanted))
            return true;
    return false;
}
