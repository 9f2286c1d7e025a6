#pragma once

#include "base/str.h"

#include <stddef.h>

struct arena;
struct json;
struct kind;

/* marks: what the scheduler writes down on pods and pod groups, and believes when it reads it again:
 * who could write it would have a GPU that is another's, a larger share of one, no end to his time,
 * or pods that nobody sees. The embedded server and the operator's webhook refuse it alike to
 * everybody but the scheduler and administrators; deploy/webhooks.yaml has the same keys, held
 * against these by a test. */
#define MARKS_ADMINISTRATORS "system:masters"

/* How a write is refused that its writer may not make: "metadata.annotations[KEY]: ..."; STR_NONE:
 * it leaves the marks as they are. `old` NULL: the object is made. */
struct str marks_refusal(struct arena *arena,
                         const struct kind *kind,
                         const struct json *old,
                         const struct json *object);
/* The keys, for the test; NULL: there are no more. */
const char *marks_key(size_t number);
