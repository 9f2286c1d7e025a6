#pragma once

#include <stddef.h>

/* limit: what SQLite alone takes. */

/* Rows of 13,000 pods a second: an object and a log row each, `batch` pods in a transaction, the
 * log on the disk after each. The file must not exist. */
double limit_commits(const char *path, size_t batch);
