#pragma once

#include "api/api.h"
#include "api/object.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "store/history.h"
#include "store/reply.h"
#include "store/reserve.h"
#include "store/space.h"
#include "store/sums.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct api_watch;
struct batch;
struct custom_block;
struct db;
struct due;
struct json;
struct kind;
struct schema;
struct shelf;

struct shape {
    const struct kind *kind;
    const struct schema *schema;
};

/* state: a store as a whole. One thread, the loop's, but for db_commit(), which runs in the writer.
 *
 *   api_call() -> read.c: answered from the committed state, reply queued
 *              -> write.c and friends: checked against the staged state, staged into the open batch
 *   turn (once a loop turn, turn.c): open batch -> writer thread;
 *              finished batch -> committed state, log, replies, watchers;
 *              then the collectors (collect.c) stage what follows from it
 *
 * The files, from below; no line uses one further down:
 *
 *   objects     host version batch shelf history reply
 *   file        checkpoint db maintain reserve
 *   requests    fill watch sums space quota policy admission idle managed keep write apply bind scale
 *               patch read delete edit evict
 *   follow-ups  custom collect expire
 *   loop        turn store */
struct store {
    struct api api;
    uv_loop_t *loop;
    uv_check_t check;
    uv_idle_t idle; /* active while something is due: the loop does not sleep */
    uv_async_t committed;
    unsigned handles_open;
    int64_t (*now_ms)(void *user);
    void *now_user;
    uint64_t random;
    uint64_t seed;

    VEC(struct shelf *) shelves;
    uint64_t revision;        /* committed */
    uint64_t staged_revision; /* of the newest staged write */
    struct batch *open;       /* being filled */
    struct batch *writing;    /* in the writer's hands */
    struct replies ready;     /* answers to be called this turn */

    struct db *db; /* NULL: in memory */
    uv_thread_t writer;
    bool writer_running;
    uv_mutex_t mutex;
    uv_cond_t cond;
    /* Guarded by the mutex: */
    struct batch *handed;   /* to the writer */
    struct batch *finished; /* back from it */
    uint64_t handed_compact;
    int finished_code;
    struct err finished_err;
    bool quit;

    char read_only[400]; /* empty: writable */
    bool full;           /* only because the disk is full: what makes room is written */
    struct reserve reserve;
    void (*trouble)(void *user, const char *why); /* or NULL */
    void *trouble_user;

    struct history history;
    uint64_t compact_due; /* the file's log may be cut up to here */
    struct api_watch *watches;
    bool watches_due;
    struct object_trees trees; /* of what the last batch changed, until the next one */

    struct service_network services;
    struct str api_address;                                               /* api/host_ports.h */
    struct sums sums;                                                     /* of quotas */
    struct spaces spaces;                                                 /* of namespaces */
    void (*admit_pod)(void *user, struct json *pod, struct arena *arena); /* or NULL */
    void *admit_user;
    bool pod_tokens; /* pods get the volume of their account's token */
    void (*made_pod)(void *user, const struct object *pod); /* or NULL */
    void *made_user;
    struct map by_uid; /* committed: uid -> struct entry */
    struct map owned;  /* uid -> struct owned, committed */
    struct due *collect_first;
    struct due *collect_last;
    struct map terminating; /* names of namespaces being deleted -> their entry */
    bool terminating_due;
    bool collect_refused; /* a policy kept something that had to go */
    int64_t event_ttl_ms; /* 0: events stay */
    int64_t expire_ms;    /* when events are looked at again */
    bool expiring;        /* a look is in the middle */
    size_t expire_next;   /* the next of them */
    struct arena shapes;  /* the schemas of built-in kinds, in every version that is served */
    VEC(struct shape) kind_shapes;
    const struct schema *meta_shape;
    struct custom_block *customs;  /* what registered CRDs point into */
    VEC(struct kind *) made_kinds; /* kinds that only CRDs define */
    bool compiled_in; /* what is written comes with the program: units hold it against the rules */
    bool closing;
};
