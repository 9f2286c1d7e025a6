#include "base/account.h"

#include "base/arena.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

#define PREFIX "system:serviceaccount:"

struct str account_user(struct arena *arena, struct str ns, struct str name)
{
    return str_printf(arena, PREFIX STR_FMT ":" STR_FMT, STR_ARG(ns), STR_ARG(name));
}

bool account_split(struct str user, struct str *ret_ns, struct str *ret_name)
{
    struct str rest = str_sub(user, sizeof(PREFIX) - 1, user.len);
    size_t colon = str_find(rest, ':');

    if (!str_starts(user, STR(PREFIX)) || !colon || colon + 1 >= rest.len)
        return false;
    *ret_ns = str_sub(rest, 0, colon);
    *ret_name = str_sub(rest, colon + 1, rest.len);
    return true;
}

struct str account_share(struct str user)
{
    struct str ns, name;

    return account_split(user, &ns, &name) && !str_is(ns, ACCOUNT_PEOPLE)
               ? str_sub(user, 0, sizeof(PREFIX) - 1 + ns.len)
               : user;
}

bool account_is_owner(struct str ns, struct str name)
{
    return str_is(ns, ACCOUNT_OWNER_NAMESPACE) && str_is(name, ACCOUNT_OWNER_NAME);
}
