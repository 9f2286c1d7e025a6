#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;
struct trash;

/* shipped: what several jobs were sent is on the disk once.
 *
 * The claim of a job's sync pod has the original that the pods of the job start from. People submit from one folder
 * again and again, and the jobs wait: each would have a whole copy. So a file that another original of the namespace
 * has under the same path, with the same bytes, owner and mode, becomes another name of that one.
 *
 * Nobody writes to a file of an original: a sync pod puts another one in its place (workspace/stage.h). A pod of the
 * same namespace that mounts the claim and writes to it all the same is found out: workers take no content that has
 * not the hash that was announced. The folders that pods work in are never touched: what is written there is written
 * to a copy. */
#define SHIPPED_QUIET_MS 3000 /* an original that changed later is looked at the next time */
#define SHIPPED_OTHERS   8    /* that each is held against: those that were sent just before it */
#define SHIPPED_FOLDER   "shipped"
#define SHIPPED_PATH     4096

struct shipped_original {
    char folder[SHIPPED_PATH];
    size_t namespace_len; /* of the folder's name, with what ends it */
    int64_t changed_ms;
};

/* Those that changed after `since_ms` are held against the others; in a worker thread. `room`: a folder on the same
 * disk for what is between two places. Ends early when the trash stops. Returns how many files became others' names. */
size_t shipped_share(struct shipped_original *originals,
                     size_t count,
                     int64_t since_ms,
                     const char *room,
                     const struct trash *trash);

/* From the heartbeat; does nothing while one is under way. */
void shipped_look(struct agent *agent);
