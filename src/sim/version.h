#pragma once

#include "base/str.h"

struct arena;
struct kind;
struct object;

/* version: what an operator of an older version sees of the cluster, and what it writes.
 *
 * Two operators of different versions are on a cluster while it is upgraded. The older one has the
 * code of today in the simulator, but for what came since commit 7038ca8: restarts in place, spare
 * pods, suspended work, limits of time, notes of jobs, health of nodes. It reads none of the fields,
 * annotations and labels of these and writes none. What it writes are patches, so nothing that it
 * does not know is dropped from objects. */

/* Controllers that it does not have, for runner_options.without. */
extern const char *const version_without[];

/* The object as it sees it, with a reference. */
struct object *version_see(const struct object *object);
/* The body of a request as it would send it. */
struct str version_write(struct arena *arena, const struct kind *kind, struct str body);
/* Annotations that go with a bind; an object, or nothing. */
struct str version_notes(struct arena *arena, struct str annotations);
