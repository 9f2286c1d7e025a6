#pragma once

#include <stdbool.h>

struct arena;
struct err;

/* local: the muster of this machine, and one of the person's own where nobody else runs one.
 *
 * Its data folder is the one of `muster up`: MUSTER_DATA_DIR, else the usual place. A muster that
 * holds the folder's lock runs. One that was started here leaves the file `own` in the folder: it
 * ends when it has had nothing to do for a while, and is started again when it is needed. */
#define LOCAL_IDLE "15m"

const char *local_folder(struct arena *arena);
const char *local_kubeconfig(struct arena *arena);
/* The process that holds the lock; 0: nobody does; -1: somebody whose number is not known. */
long local_holder(const char *folder);
/* It was started by local_start(). */
bool local_is_own(const char *folder);
/* Something listens at the address of a URL such as https://127.0.0.1:7443. */
bool local_answers(const char *url);
/* Starts one and waits until it serves. Its log is the file muster.log in the folder. */
int local_start(struct arena *arena, const char *folder, struct err *err);
