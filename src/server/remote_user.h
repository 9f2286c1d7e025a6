#pragma once

#include "base/str.h"

#include <stdbool.h>

struct buf;
struct user;

/* remote_user: the headers by which an API server behind this one knows who asks (X-Remote-User,
 * -Uid, -Group, -Extra-KEY), as kube-aggregator writes them. Pure. */

/* False: a name cannot be said in a header. */
bool remote_user_write(struct buf *out, const struct user *user);
/* A header that says who asks, or with what right: never passed on from whoever sent it. */
bool remote_user_is_said_by(struct str header);
