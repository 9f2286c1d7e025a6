#pragma once

#include "base/str.h"

#include <stdbool.h>

struct arena;

/* account: the user names of ServiceAccounts, "system:serviceaccount:NAMESPACE:NAME". */
struct str account_user(struct arena *arena, struct str ns, struct str name);
/* False: it is none, and nothing is set. */
bool account_split(struct str user, struct str *ret_ns, struct str *ret_name);
/* Of the ServiceAccounts of people (`muster user add`), who have no rights there. */
#define ACCOUNT_PEOPLE "muster-people"
/* Whose share of something limited a user takes. All ServiceAccounts of a namespace are one: who may
 * make one's tokens may make another's. Of people each is one. */
struct str account_share(struct str user);
