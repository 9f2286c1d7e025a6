#pragma once

struct json;
struct write;

/* identity: what a new object is given to be told from others: name, uid, time, generation. */

/* What the server says in the place of its writer is looked at as the rest is, while it is there.
 * `old` is the metadata that it replaces, and NULL for a new object. */
int identity_check(struct write *write, const struct json *meta, const struct json *old);
int identity_give(struct write *write, struct json *meta);
