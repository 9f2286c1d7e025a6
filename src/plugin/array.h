#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>

struct err;
struct json;
struct object;
struct session;

#define ARRAY_INDEXES "spec.array.indexes"

/* array: what the commands do with a job that is an array of jobs (spec.array). */
bool array_is(const struct json *job);
/* Its jobs that exist, in the order of their indexes; references on the session's arena. */
int array_jobs(struct session *session,
               const char *array,
               const struct object ***ret,
               size_t *ret_count,
               struct err *err);
/* All its jobs, by its indexes ("0-9"), those that were deleted among them. */
struct array_job {
    const char *name;
    const struct object *object; /* NULL: it does not exist */
};
int array_all(struct session *session,
              const char *array,
              struct str indexes,
              struct array_job **ret,
              size_t *ret_count,
              struct err *err);
/* Until the array has ended: a line on stdout for every change of one of its jobs. Returns its exit
 * status, or -errno. */
int array_follow(struct session *session, const char *array, struct err *err);
