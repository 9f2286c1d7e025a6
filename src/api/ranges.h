#pragma once

#include "base/str.h"

struct arena;
struct buf;
struct json;
struct kind;

/* ranges: what a LimitRange says about the containers, pods and claims of its namespace: amounts
 * for those that say nothing, and the least and the most that is allowed. */

/* Fill in what the containers of a pod leave out. `spec` is that of the LimitRange. */
void ranges_fill(struct arena *arena, const struct json *spec, struct json *pod);
/* What is wrong, a sentence each, with ", " between, behind what `problems` has already. */
void ranges_check(struct arena *arena,
                  const struct json *spec,
                  const struct kind *kind,
                  const struct json *object,
                  struct buf *problems);
