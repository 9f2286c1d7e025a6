#pragma once

#include "base/str.h"

struct buf;
struct err;
struct pod;

/* token: a pod's credentials for the API server. They are a volume of the pod (api/account_volume.h);
 * here is what signs them. */

/* A token of the pod's ServiceAccount, bound to the pod. -EAGAIN: the account is not there yet, or
 * the API server that signs has not answered; err says which. */
int token_sign(struct pod *pod, struct str audience, struct buf *ret, struct err *err);
/* A pod that an older muster started has them in a folder of their own and no volume: its containers
 * find them where they were when they are started again. */
void token_add_old(const struct pod *pod, struct buf *records);
