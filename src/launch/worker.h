#pragma once

/* worker: PID 1 of a training container; src/api/launch.h is its contract.
 *
 * Fetches the workspace, starts the setup command and torchrun, keeps the workspace at the newest
 * revision while they run, restarts the ranks in place when the sync service says so, hands signals
 * on, reaps, and at the end says in /dev/termination-log which rank failed first. Returns the exit
 * status: 0, the first failing rank's own, 128 + n for a signal. */
#define WORKER_RESTART_GRACE_MS 500  /* between SIGTERM and SIGKILL when ranks restart in place */
#define WORKER_NEWS_MS          5000 /* how long it waits for the workspace before saying so */

int worker_main(const char *self);
