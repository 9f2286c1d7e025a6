#pragma once

#include <sqlite3.h>

struct checkpoint;
struct err;

/* checkpoint: copies SQLite's log into the file beside the writer.
 *
 * Left to itself SQLite does this inside a commit, and every writer of that commit waits for tens
 * of megabytes. Here a thread with a connection of its own copies while the writer goes on; what
 * the writer added meanwhile is little, and the writer copies that itself between two commits, so
 * that SQLite can begin the log anew. A failed copy loses nothing: the log has it all and is copied
 * again. */
int checkpoint_start(sqlite3 *writer, const char *path, struct checkpoint **ret, struct err *err);
/* For the writer, when nobody waits for a commit. */
void checkpoint_finish(struct checkpoint *checkpoint);
/* Before the writer's handle is closed. NULL is fine. */
void checkpoint_stop(struct checkpoint *checkpoint);
