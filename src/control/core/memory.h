#pragma once

#include "base/str.h"

#include <stdbool.h>

struct actions;
struct arena;
struct json;
struct object;

/* memory: what a controller counts, where no schema can drop it.
 *
 * Counters belong in the status of a job. But others may replace the CRD of a kind by their own
 * (Kubeflow's training operator brings one for PyTorchJob): the API server then drops every field
 * of the status that the other schema does not name, and a controller that counts with such fields
 * begins at zero each time. No limit of restarts would ever be reached.
 *
 * So what is counted stands in an annotation of the object as well, a small JSON object with the
 * members of the status under their own names. It is written together with the status, and both
 * before anything else is done. Who reads takes the one that is further along.
 *
 * A status that lacks what the memory has is the sign of a foreign CRD. It is said once for each
 * object, by an event of reason MEMORY_REASON; the memory notes that it was said. */
#define MEMORY_ANNOTATION "muster.dev/memory"
#define MEMORY_REASON     "ForeignCRD"
#define MEMORY_FOREIGN    "foreignCRD" /* member: it was said that the CRD is foreign */
/* All annotations of an object together may have 256 KiB. A job needs 16 numbers and times of 40
 * bytes, a message of 2048 and JOB_ABNORMAL_MAX pods of 400: 6 KiB. A JobSet needs 100 bytes for
 * every Job that was restarted alone: there is room for 1900 of them. */
#define MEMORY_BYTES_MAX (192 * 1024)

/* The memory of an object; NULL: it has none, or one that makes no sense. */
const struct json *memory_read(const struct object *object, struct arena *arena);
/* Whether `status` is without one of `members` (NULL-terminated). */
bool memory_lacks(const struct json *status, const char *const *members);
/* Patch the annotation where it says something else than `before`. False: nothing is written, also
 * not what is longer than MEMORY_BYTES_MAX. */
bool memory_write(struct actions *actions,
                  const struct object *object,
                  const struct json *before,
                  const struct json *memory);
/* The patch from `status` to `after`; NULL: none is needed. With `foreign`, what the other schema
 * would drop again is no reason for a patch: a member that `status` does not have (but for
 * conditions, which every schema has), or the time at which somebody looked. */
struct json *memory_diff(struct arena *arena,
                         const struct json *status,
                         const struct json *after,
                         bool foreign);
/* The event. */
void memory_tell(struct actions *actions, const struct object *object);
/* `message` with a word about the CRD. */
struct str memory_note(struct arena *arena, const struct object *object, struct str message);
