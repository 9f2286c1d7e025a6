#pragma once

#include "base/str.h"

struct arena;
struct json;
struct kind;
struct object;

/* owner: objects that controllers make for an object. */

/* metadata.ownerReferences: `owner` controls it, and waits for it when deleted in the foreground.
 */
void owner_set(struct arena *arena, struct json *meta, const struct object *owner);
/* apiVersion, kind and metadata of an object in the owner's namespace, owned by it. */
struct json *owner_make(struct arena *arena,
                        const struct object *owner,
                        const struct kind *kind,
                        struct str name);
/* Members of `from` into `to`, replacing what is there; `from` may be NULL. */
void owner_merge_map(struct arena *arena, struct json *to, const struct json *from);
