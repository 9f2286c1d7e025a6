#pragma once

#include <stdbool.h>

struct arena;
struct err;
struct kube_config;

/* local: the muster of this machine, and one of the person's own where nobody else runs one.
 *
 * Its data folder is the one of `muster up`: MUSTER_DATA_DIR, else the usual place. A muster that
 * holds the folder's lock runs. One that was started here leaves the file `own` in the folder: it
 * ends when it has had nothing to do for a while, and is started again when it is needed. */
#define LOCAL_IDLE "15m"

const char *local_folder(struct arena *arena);
const char *local_kubeconfig(struct arena *arena);
/* There is a muster of this machine, or one of the person's own that starts when it is needed. */
bool local_is_here(struct arena *arena);
/* The URL is an address of this machine. */
bool local_is_address(const char *url);
/* The configuration is that of a muster on this machine, by the name of its context, which answers; and
 * not some other cluster in a container. */
bool local_is_served(const struct kube_config *config);
/* The process that holds the lock; 0: nobody does; -1: somebody whose number is not known. */
long local_holder(const char *folder);
/* It was started by local_start(). */
bool local_is_own(const char *folder);
/* Something listens at the address of a URL such as https://127.0.0.1:7443. */
bool local_answers(const char *url);
/* Starts one and waits until it serves: 1. 0: somebody else was quicker and has the folder, which
 * says nothing of whether it serves yet. Its log is the file muster.log in the folder. */
int local_start(struct arena *arena, const char *folder, struct err *err);
/* Waits until the one that holds the folder serves at the address in its kubeconfig. */
int local_await(struct arena *arena, const char *folder, struct err *err);
