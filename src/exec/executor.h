#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct api;
struct buf;
struct cache;
struct err;
struct kind;

/* executor: applies one list of actions through struct api.
 *
 * Actions are applied in order. Neighbouring creates, and neighbouring deletes, do not depend on
 * each other and are sent together, so that a gang of pods is one commit of the store and not
 * many; so is an action that says it may go beside the one before; everything else waits for what
 * comes before it. The first failure ends the list after the calls under way have come back. Events
 * about objects are sent and forgotten: a lost one harms nobody; but one that says what was done
 * waits for the answer of the action before it. What needs a time (look again) is the caller's
 * business and skipped here. An action that may get lost ends nothing.
 *
 * A create that finds its name taken is done, as after a crash, unless the cache shows that somebody
 * else has it. */
#define EXECUTOR_WAVE_MAX 256 /* calls of one list under way at once */

struct execution;

struct executor_write {
    const struct kind *kind;
    uint64_t revision;
};

struct executor_result {
    int code; /* 0, or of the first action that failed */
    const struct err *err;
    bool stale; /* failed because the state we decided on has changed: look again, no back-off */
    struct str refused;     /* the words, in full, when it is a create that was refused */
    const struct err *lost; /* the first action that failed and may; NULL: none did */
    const struct executor_write *writes; /* the newest revision written of each kind */
    size_t write_count;
};

typedef void executor_done_fn(void *user, const struct executor_result *result);

/* `count` random bytes as hexadecimal digits. */
typedef int executor_draw_fn(struct buf *out, size_t count, struct err *err);

/* Sends a document of a namespace to a person's address. 0: `done` is called once, from the loop; else nothing is. */
typedef void executor_posted_fn(void *user, int code, const struct err *err);
struct executor_post {
    int (*send)(void *user,
                struct str ns,
                struct str url,
                struct str body,
                executor_posted_fn *done,
                void *done_user);
    void *user;
};

struct executor_call {
    struct api *api;
    const struct cache *cache; /* NULL: nobody sees who has a name */
    const char *component;     /* source.component of events */
    int64_t now_ms;
    executor_draw_fn *draw;           /* of secrets; NULL: tls_random_hex() */
    const struct executor_post *post; /* NULL: nothing leaves, as in a simulation */
    executor_done_fn *done;           /* from the loop, once; not after execution_forget() */
    void *user;
};

/* `actions` and its arena must live until `done`; what its bodies point to, only until this
 * returns. *ret is NULL, and done never called, when there is nothing to wait for or nothing could
 * be sent: -EIO and why. */
int executor_run(const struct executor_call *call,
                 const struct actions *actions,
                 struct execution **ret,
                 struct err *err);
/* Nothing more is sent and done is not called: the actions may be freed at once. */
void execution_forget(struct execution *execution);
