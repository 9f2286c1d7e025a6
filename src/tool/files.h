#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct buf;
struct err;

/* files: folders and small files of a data folder, on the local disk; synchronous. Unlike
 * tool/file.h nothing here follows a link in the last part of a path, and nothing is synced. */

int files_make_folder(const char *path, mode_t mode, struct err *err); /* with its parents */
int files_write(const char *path, struct str content, mode_t mode, struct err *err);
/* The same file, new content: for files that are bound into pods. */
int files_rewrite(const char *path, struct str content, struct err *err);
/* At most bytes_max; false when it is not there. */
bool files_read(const char *path, size_t bytes_max, struct buf *ret);
/* Remove a small tree; what cannot go stays. */
void files_remove(const char *path);
