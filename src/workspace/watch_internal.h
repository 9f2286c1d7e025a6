#pragma once

#include <limits.h>
#include <stdbool.h>

struct err;
struct watch;

/* What the two ways of watching have in common, and each other's names: the kernel tells (Linux), or the folder is looked at
 * again whenever watch_read() is called (where there is no inotify). */

/* Notes a path that changed. */
void watch_add(struct watch *watch, const char *path);
/* "a/b" in `out`; NULL when it is too long. */
const char *watch_join(const char *a, const char *b, char out[static PATH_MAX]);
/* Whether a path is never looked at. */
bool watch_is_private(const char *path);

int watch_inotify_open(struct watch *watch, struct err *err);
void watch_inotify_read(struct watch *watch);

void watch_poll_open(struct watch *watch);
void watch_poll_read(struct watch *watch);
