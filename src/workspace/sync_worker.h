#pragma once

#include "base/str.h"
#include "workspace/hash.h"

#include <stddef.h>
#include <stdint.h>

struct buf;
struct httpd_conn;

/* sync_worker: what a worker has said of itself to the sync service, and what `/v1/state` says of it:
 *
 *   {"rank": 0, "revision": "...", "kept": 2, "names": "a\nb\n", "trouble": "..."}
 *
 * kept: files of the job's own that stayed in place of ours when the worker took this revision, a
 * few of them by name. trouble: why it could not take one; empty since it could. */
#define SYNC_WORKER_WORDS 256
#define SYNC_WORKER_NAMES 2048

struct sync_worker {
    uint64_t rank;
    struct hash acked;
    uint64_t stopped; /* restart it has stopped for */
    uint64_t kept;
    char names[SYNC_WORKER_NAMES];
    char trouble[SYNC_WORKER_WORDS];
};

/* From the query of a pull, whose worker has `revision`. */
void sync_worker_begin(struct sync_worker *worker,
                       const struct httpd_conn *conn,
                       struct hash revision);
/* Of an ack: whose it is, and what it says. */
struct sync_ack {
    uint64_t rank;
    uint64_t restart;     /* 0: none */
    struct hash revision; /* zero: none */
    uint64_t kept;
};
struct sync_ack sync_ack_read(const struct httpd_conn *conn);
void sync_worker_ack(struct sync_worker *worker, const struct sync_ack *ack, struct str names);
void sync_worker_write(struct buf *out, const struct sync_worker *worker);
