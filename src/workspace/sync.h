#pragma once

#include <stdbool.h>
#include <stdint.h>

struct door;
struct err;
struct source;

/* sync: the service in a job's sync pod.
 *
 * It owns the job's workspace folder, takes changes to it from the plugin and hands them on to the
 * workers. /v1 needs the job's secret, /v2 is for the job's pods (workspace/door.h):
 * others get 401 or 403. Bodies are frames (workspace/frame.h) unless said otherwise; refusals are
 * one line of text.
 *
 *   GET  /v1/state            JSON: revision, files, bytes, restart, started (with which revision
 *                             the ranks began), workers (workspace/sync_worker.h)
 *   POST /v1/missing          content frames asked for -> content frames of what is missing, with
 *                             the offset to go on from
 *   POST /v1/blobs            blob frames: contents wait for a commit; safe to repeat
 *   POST /v1/commit?by=NAME   begin, blobs, entries and gone frames, commit -> JSON state.
 *                             409: the base is not the current revision. NAME is for the log
 *   POST /v1/pull?rank=N[&trouble=WORDS]   a worker: entry frames of what it has -> an endless
 *                             stream of begin, blobs, entries, gone, commit; stop and go for
 *                             restarts; pings. WORDS: why it could not take the last revision
 *   POST /v1/ack?rank=N&revision=R&kept=K&restart=S   a worker has it, or has stopped; the body is
 *                             paths of K files that are the job's and stayed
 *   GET  /v1/wait?revision=R  answered when every connected worker has that revision: JSON state
 *   POST /v1/restart          all ranks end and start again in place -> JSON {"restart": S}
 *   /v1/log?generation=G&...  what the ranks printed, kept (workspace/keep.h)
 *   /v1/results?generation=G&...  what the first pod wrote, kept (workspace/keep_results.h)
 *   /v2/keys/...              etcd's v2 keys, for torchrun's rendezvous (workspace/etcd.h)
 */
struct sync_options {
    const char *folder;
    struct door *door;
    const char *address; /* NULL: all */
    uint16_t port;
    bool adopt; /* a folder without a manifest is taken as it is: source `existing` */
    const struct source *source; /* fetched before serving, unless it was; NULL: uploads only */
    /* Told once when the service is up, with the port; then asked after every turn. */
    void (*ready)(void *user, uint16_t port);
    bool (*stop)(void *user);
    /* What happened, a line each; NULL: nobody wants to know. */
    void (*note)(void *user, const char *text);
    void *user;
};

int sync_serve(const struct sync_options *options, struct err *err);
