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
/* Of kubeconfigs that `muster kubeconfig --merge` wrote: who has a token of it, that is bound to no pod, is the owner until
 * the account is deleted. Only the owner gets one. */
#define ACCOUNT_OWNER_NAMESPACE "kube-system"
#define ACCOUNT_OWNER_NAME      "muster-owner"
bool account_is_owner(struct str ns, struct str name);
/* Whose share of something limited a user takes. All ServiceAccounts of a namespace are one: who may
 * make one's tokens may make another's. Of people each is one. */
struct str account_share(struct str user);
