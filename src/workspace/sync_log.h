#pragma once

#include "base/cleanup.h"
#include "workspace/hash.h"

#include <stdint.h>

struct manifest;

/* sync_log: what the sync pod's log says: who uploaded what and when, which worker has it, who came
 * and went. A line a fact, with its time. */
#define SYNC_BY_BYTES 128

struct sync_log {
    void (*note)(void *user, const char *text); /* NULL: nobody listens */
    void *user;
};

void sync_log_say(const struct sync_log *log, int64_t now_ms, const char *fmt, ...) _printf_(3, 4);
/* `by` is what the client calls itself, "" when it says nothing: printed, never trusted. */
void sync_log_commit(const struct sync_log *log,
                     int64_t now_ms,
                     const struct manifest *now,
                     const char *by);
void sync_log_worker(const struct sync_log *log, int64_t now_ms, uint64_t rank, struct hash has);
