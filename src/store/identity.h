#pragma once

struct json;
struct write;

/* identity: what a new object is given to be told from others: name, uid, time, generation. */

/* What the server says in the place of its writer is looked at as the rest is, while it is there. */
int identity_check(struct write *write, const struct json *meta);
int identity_give(struct write *write, struct json *meta);
