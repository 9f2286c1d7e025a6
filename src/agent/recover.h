#pragma once

#include <stdbool.h>

struct agent;
struct pod;

/* recover: pods of an earlier muster. */
void recover_finished(struct pod *pod);
void recover_running(struct pod *pod);
/* The shim of an awaited pod: linked again, or known to be gone. False: it is there but not to be
 * spoken to yet; look again in RECOVER_LOOK_MS. */
#define RECOVER_LOOK_MS 50
bool recover_shim(struct pod *pod);
void recover_synced(struct pod *pod);
void recover_orphans(struct agent *agent);
