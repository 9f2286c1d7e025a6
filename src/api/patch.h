#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct err;
struct json;
struct kind;

/* patch: the three forms of a change to a JSON document. (The fourth, server-side apply,
 * needs to know who owns what: api/apply.h.)
 *
 * Each changes `target` in place, takes new nodes from `arena`, shares nothing with the patch, and
 * returns the new root, which may be another node. After a failure the target is in between:
 * throw it away. */
#define PATCH_OPERATIONS_MAX 10000
/* What copies and adds of one JSON patch may make the document grow by. The bytes are those of the
 * values' texts and names: an object has at most 1.5 MiB of them, a request's body 8 MiB. */
#define PATCH_NODES_MAX 100000
#define PATCH_BYTES_MAX ((size_t)8 << 20)
/* Items and members that one JSON patch walks past on the way to its paths. */
#define PATCH_STEPS_MAX ((size_t)25 * 1000 * 1000)

/* RFC 7386: null removes. */
struct json *patch_merge(struct arena *arena, struct json *target, const struct json *patch);

/* RFC 6902. -EINVAL: not a patch; -ENOENT: a path is not there; -EILSEQ: a test failed; -E2BIG:
 * beyond the bounds above, found before the memory is taken. */
int patch_json(struct arena *arena,
               struct json *target,
               const struct json *operations,
               struct json **ret,
               struct err *err);

/* Kubernetes' strategic merge: like merge, but lists whose items have a key (containers by name,
 * ports by containerPort, ...) are merged item by item, lists of texts that are sets are united,
 * and the directives $patch, $retainKeys, $setElementOrder/x and $deleteFromPrimitiveList/x are
 * obeyed. Which lists: the types say (types.h). -EINVAL: not a patch. */
int patch_strategic(struct arena *arena,
                    const struct kind *kind,
                    struct json *target,
                    const struct json *patch,
                    struct err *err);
