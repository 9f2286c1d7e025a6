#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct object;
struct pod;
struct trash;

/* recover: pods of an earlier muster. */
/* Whether a pod of a node that is none of ours was run here nevertheless, by a start that had more. */
bool recover_departed(const struct agent *agent, const struct object *pod, struct str node);
void recover_finished(struct pod *pod);
void recover_running(struct pod *pod);
/* The shim of an awaited pod: linked again, or known to be gone. False: it is there but not to be
 * spoken to yet; look again in RECOVER_LOOK_MS. */
#define RECOVER_LOOK_MS 50
bool recover_shim(struct pod *pod);
void recover_synced(struct pod *pod);
/* Pods that the store does not know: their processes end. What they wrote is moved to
 * DATA/aside/<milliseconds>_<uid>, whole, and removed after RECOVER_ASIDE_MS: an older store may have
 * taken the place of the one that knew them. */
#define RECOVER_ASIDE    "aside"
#define RECOVER_ASIDE_MS ((int64_t)7 * 24 * 3600 * 1000)
void recover_orphans(struct agent *agent);
/* Removes what has been there for longer; for a worker thread. */
void recover_prune_aside(const char *data_dir, int64_t now_ms, struct trash *trash);
