#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "http1/response.h"
#include "workspace/hash.h"
#include "workspace/tree.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* pull: a worker's side of the sync service: keeps a folder at the newest revision.
 *
 * A state machine on one non-blocking connection. The owner polls pull_fd() for pull_events() and
 * calls pull_turn() when it is ready or pull_next_ms() has come; a lost connection is made again by
 * itself, with growing pauses, and what is already here is not fetched again. */
#define PULL_RETRY_MIN_MS 100
#define PULL_RETRY_MAX_MS 3000
#define PULL_SECRET_MAX   128
#define PULL_WORDS_MAX    240   /* of struct err */
#define PULL_SILENCE_MS   35000 /* three pings missed: the connection is dead */

struct pull_handler {
    void (*committed)(void *user, struct hash revision);
    void (*stop)(void *user, uint64_t restart); /* end the ranks, then pull_stopped() */
    void (*go)(void *user, uint64_t restart);
    void (*trouble)(void *user, const struct err *err); /* told, then tried again */
    void *user;
};

struct pull {
    struct tree tree;
    struct pull_handler handler;
    char url[512];
    char secret[PULL_SECRET_MAX]; /* shown with every request; empty: none */
    uint64_t rank;
    int fd; /* -1: waiting to connect */
    bool connected;
    bool in_body;
    struct http_response response;
    struct arena head; /* of the response */
    struct buf out;
    struct buf in;     /* raw HTTP */
    struct buf frames; /* decoded of it */
    struct delta delta;
    int64_t retry_ms; /* when to connect next */
    int64_t pause_ms;
    int64_t heard_ms;
    bool troubled;              /* the same trouble is told once */
    char words[PULL_WORDS_MAX]; /* why the last revision could not be taken; "": it was */
};

struct pull_source {
    const char *url;
    const char *secret; /* of the job (workspace/door.h); NULL: none */
};

int pull_open(struct pull *pull,
              const struct pull_source *source,
              const char *folder,
              uint64_t rank,
              const struct pull_handler *handler,
              struct err *err);
void pull_done(struct pull *pull);
int pull_fd(const struct pull *pull);
short pull_events(const struct pull *pull);
int64_t pull_next_ms(const struct pull *pull);
void pull_turn(struct pull *pull, int64_t now_ms);
/* Something that the sync service keeps (workspace/keep.h), on a connection of its own: 0 when it
 * was taken, -EAGAIN when there is no service right now. */
int pull_keep(struct pull *pull, uint64_t generation, uint64_t offset, struct str text);
/* How much of it there is already, of an earlier run in this pod. */
int pull_kept(struct pull *pull, uint64_t generation, uint64_t *ret_bytes);
/* A piece of what the pod wrote, for workspace/keep_results.h: 0 when it was taken; -EAGAIN: no
 * service answers right now; -EFBIG: it is not kept, in words. */
int pull_keep_results(struct pull *pull,
                      uint64_t generation,
                      uint64_t offset,
                      struct str frames,
                      struct err *err);
/* The ranks have ended for this restart. */
void pull_stopped(struct pull *pull, uint64_t restart);
