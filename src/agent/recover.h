#pragma once

#include "base/str.h"

#include <stdbool.h>

struct agent;
struct object;
struct pod;

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
void recover_orphans(struct agent *agent);
