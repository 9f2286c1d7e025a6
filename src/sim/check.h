#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct api_binding;
struct sim_process;

/* check: what must always hold, looked at after every step of the simulator.
 *
 * Watches the store itself, not through a link, so it sees every commit as it happens, and hears
 * from the machines which processes really run. What it holds against them:
 *   - no node has more promised away than it has: CPU, memory, GPUs, pods; no GPU is given twice,
 *     and no shared one beyond itself;
 *   - a gang is bound whole (where gangs are bound in one write) and does not stay below its
 *     minimum for longer than CHECK_STALE_MS;
 *   - no queue passes its limit, and what cannot be preempted stays within quotas, at every level;
 *     pods on their way out do not count;
 *   - no pod runs twice under one name, and none after it has ended; none that has a node is bound;
 *   - of the pods of a PodDisruptionBudget, no more are on their way out by eviction at once than
 *     it allows;
 *   - what check_jobs.h says of jobs, and check_shares.h of GPUs that reservation pods hold. */
#define CHECK_STALE_MS \
    150000 /* the grace of 60 s, and time to notice, to stop and to be restarted */

/* The longest that the scheduler may not have heard that a pod has ended. */
#define CHECK_UNSEEN_MS 5000

struct check;

struct check_options {
    struct api *api;
    bool reserved; /* shared GPUs are held by reservation pods, and machines hand out whole ones */
    bool whole_gangs; /* no watcher may ever see a part of a gang appear */
};

struct check *check_new(const struct check_options *options);
/* NULL is fine. */
void check_free(struct check *check);

void check_started(struct check *check, const struct sim_process *process);
/* A machine had fewer GPUs left than a pod that was bound to it wants. */
void check_refused(struct check *check, const struct sim_process *process);
/* A pod with a share has given it up and stays, or has it back. */
void check_moved(struct check *check, struct str uid, bool out);
void check_ended(struct check *check, struct str ns, struct str name, struct str uid);

/* A bind is about to be carried out: of a pod that has no node. */
void check_binding(struct check *check, const struct api_binding *binding);
void check_evicted(struct check *check, struct str ns, struct str name);

/* How often a pod gave up its GPUs and stayed. */
size_t check_suspended(const struct check *check);

/* NULL, or what does not hold. Cheap when nothing changed. */
const char *check_now(struct check *check, int64_t now_ms);
/* At rest, with everything up and no faults: every pod that waits says why, no room is held for
 * a restart, and what check_rest.h says. */
const char *check_at_rest(struct check *check, int64_t now_ms);
/* After everybody's work was deleted: NULL, or what was left behind. */
const char *check_clean(struct check *check);
