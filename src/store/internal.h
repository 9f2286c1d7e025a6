#pragma once

#include "api/api.h"
#include "api/service.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct admit;
struct object;

/* The inside of src/store. One thread, the loop's, but for db_commit(), which runs in the writer.
 *
 *   api_call() -> read.c: answered from the committed state, reply queued
 *              -> write.c and friends: checked against the staged state, staged into the open batch
 *   turn (once a loop turn, turn.c): open batch -> writer thread; finished batch -> committed
 * state, log, replies, watchers; then the collectors (collect.c) stage what
 * follows from it
 *
 * An entry is one name in one shelf. `staged` is what the newest write made of it; `committed` is
 * what the file and everybody outside knows. */
struct entry {
    struct shelf *shelf;
    const struct object *committed; /* NULL: not there */
    const struct object *staged;    /* NULL: deleted; meaningful while staged_revision != 0 */
    uint64_t staged_revision;       /* of the newest write that is not committed yet */
    struct str ns;
    struct str name;
};

struct shelf {
    const struct kind *kind;     /* as stored */
    const struct schema *shape;  /* of a built-in kind; NULL: every field is taken as it is */
    VEC(struct entry *) entries; /* by namespace and name */
    size_t committed_count;
    bool dropped; /* its CRD is gone */
};

struct change {
    enum api_event event; /* ADDED, MODIFIED, DELETED */
    struct entry *entry;
    const struct object *object;   /* DELETED: the last state with the deletion's revision */
    const struct object *previous; /* what it replaces, staged or committed; NULL: nothing */
    uint64_t revision;
};

/* An answer on its way, and the memory of its request. */
struct reply {
    struct reply *next;
    struct arena arena;
    struct err err;
    struct api_result result;
    bool staged;       /* it is to be called when its batch is committed */
    api_done_fn *done; /* NULL: nobody wants to know */
    void *user;
};

struct replies {
    struct reply *first;
    struct reply *last;
};

struct batch {
    VEC(struct change) changes;
    struct replies replies;
    size_t bytes;
};

/* What happened, for watches that resume and selectors that compare. */
struct history_item {
    uint64_t revision;
    int64_t at_ms;
    enum api_event event;
    struct shelf *shelf;
    const struct object *object;
    const struct object *previous; /* NULL: none, or not known */
};

#define HISTORY_ITEMS_MAX 65536
#define HISTORY_BYTES_MAX ((size_t)32 << 20)
#define HISTORY_AGE_MS    ((int64_t)10 * 60 * 1000)

struct history {
    struct history_item *items; /* a ring of HISTORY_ITEMS_MAX */
    size_t first;
    size_t count;
    size_t bytes;
    uint64_t compacted; /* changes up to here are forgotten */
    size_t dropped;     /* bytes forgotten since the file was told to forget */
};

/* Objects that name an owner, by the owner's uid. */
struct owned {
    struct str uid;
    VEC(struct entry *) entries;
    char text[];
};

struct api_watch {
    struct api_watch *next;
    struct store *store;
    struct shelf *shelf;     /* NULL: the kind is gone */
    const struct kind *kind; /* the version asked for */
    struct arena arena;      /* of the selectors */
    struct str ns;
    struct selector *labels;
    struct selector *fields;
    api_watch_fn *fn;
    void *user;
    uint64_t seen; /* told up to here */
    uint64_t bookmarked;
    VEC(const struct object *) initial; /* still to be told as ADDED */
    size_t initial_at;
    int refused;  /* HTTP status to close with at once; 0: fine */
    bool syncing; /* SYNCED is due behind `initial` */
    bool bookmarks;
    bool stopped;
    bool closed;
};

/* The memory behind one version of one CRD. Kinds and schemas may be looked at by anybody, so a
 * block that a newer one replaced stays until the store is closed. */
struct custom_block {
    struct custom_block *next;
    struct arena arena;
};

/* Names of objects whose dependents, owners or contents must be looked at. */
struct due {
    struct due *next;
    char text[];
};

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

    struct history history;
    uint64_t compact_due; /* the file's log may be cut up to here */
    struct api_watch *watches;
    bool watches_due;

    struct service_network services;
    void (*admit_pod)(void *user, struct json *pod, struct arena *arena); /* or NULL */
    void *admit_user;
    struct map by_uid; /* committed: uid -> struct entry */
    struct map owned;  /* uid -> struct owned, committed */
    struct due *collect_first;
    struct due *collect_last;
    struct map terminating; /* names of namespaces being deleted -> their entry */
    bool terminating_due;
    struct arena shapes; /* the schemas of built-in kinds */
    const struct schema *meta_shape;
    struct custom_block *customs;  /* what registered CRDs point into */
    VEC(struct kind *) made_kinds; /* kinds that only CRDs define */
    bool closing;
};

/* ---- store.c ---- */
int64_t store_now(const struct store *store);
uint64_t store_random(struct store *store);
/* Something is due: run a turn before sleeping. */
void store_wake(struct store *store);
struct reply *reply_new(struct store *store, api_done_fn *done, void *user);
/* Will be called, with what its result says, at the next turn. */
void reply_queue(struct store *store, struct reply *reply);
/* Will be called when the open batch is committed, or at once when nothing was staged for it. */
void reply_settle(struct store *store, struct reply *reply);
/* The reply keeps `object` alive and gives it out. */
void reply_object(struct reply *reply, const struct object *object);
/* The same in another version of its kind. */
void reply_object_as(struct reply *reply, const struct object *object, const struct kind *kind);
/* The failure in Kubernetes' words. Returns the result's code, negative. */
int reply_fail(struct reply *reply, int http_status, const char *reason, const char *fmt, ...)
    _printf_(4, 5);
int reply_not_found(struct reply *reply, const struct kind *kind, struct str name);
/* "pods", or "queues.scheduling.run.ai". */
struct str kind_resource(struct arena *arena, const struct kind *kind);

/* ---- shelf.c ---- */
/* The shelf that keeps objects of `kind`, NULL when there is none. */
struct shelf *shelf_of(const struct store *store, const struct kind *kind);
struct shelf *shelf_add(struct store *store, const struct kind *kind);
struct entry *shelf_find(const struct shelf *shelf, struct str ns, struct str name);
/* Index of the first entry not before ns/name. */
size_t shelf_lower(const struct shelf *shelf, struct str ns, struct str name);
struct entry *shelf_make(struct shelf *shelf, struct str ns, struct str name);
/* Free the entry if neither committed nor staged. */
void shelf_tidy(struct entry *entry);
void shelves_free(struct store *store);
/* What the newest write made of it; NULL: nothing there. */
static inline const struct object *entry_latest(const struct entry *entry)
{
    if (!entry)
        return NULL;
    return entry->staged_revision ? entry->staged : entry->committed;
}
/* Make a change part of the committed state: entry, indexes. Returns the object that was there
 * before with a reference, or NULL. */
const struct object *shelf_commit(struct store *store, const struct change *change);

/* ---- read.c ---- */
void read_get(struct store *store, struct reply *reply, const struct api_request *request);
void read_list(struct store *store, struct reply *reply, const struct api_request *request);
/* The same without queueing the reply. */
int read_items(struct store *store, struct reply *reply, const struct api_request *request);

/* ---- write.c ---- */
/* One write in progress. */
struct write {
    struct store *store;
    struct reply *reply;
    struct arena *arena; /* the reply's */
    const struct kind *kind;
    struct shelf *shelf;
    struct str ns;
    struct str name;
    struct str subresource;
    bool dry_run;
    bool strict_fields;
    struct str field_manager;
    struct entry *entry;
    const struct object *old;    /* newest state; NULL: not there */
    struct json_doubles doubles; /* of the body */
    struct json *managed;        /* managedFields that an apply made; NULL: keep track */
};
/* Each returns 0 with the reply's result set and its change staged, or negative with the failure in
 * the reply. `reply` belongs to the batch in the first case, to the caller in the second. */
int write_create(struct write *write, const struct api_request *request);
int write_update(struct write *write, const struct api_request *request);
int write_patch(struct write *write, const struct api_request *request);
/* Replace the old object by `root`: keeps what writes may not change, admits, stages. */
int write_replace(struct write *write, struct json *root);
/* Store `root` as a new object. */
int write_new(struct write *write, struct json *root);
/* The object as it is, in the version the client speaks. */
struct json *write_tree(struct write *write);
int write_stage(struct write *write, enum api_event event, struct json *root);
/* ValidatingAdmissionPolicies: 0, or the refusal in the reply; see policy_run(). */
int write_policies(struct write *write,
                   const char *operation,
                   const struct json *object,
                   const struct json *old);
int write_open(struct write *write,
               struct store *store,
               struct reply *reply,
               const struct api_request *request);

/* ---- scale.c ---- */
int scale_get(struct store *store, struct reply *reply, const struct api_request *request);
int scale_write(struct write *write, const struct api_request *request);

/* ---- apply.c ---- */
int apply_write(struct write *write, const struct api_request *request, struct json *config);
/* An object changes: so does who owns its fields. */
int apply_update(struct write *write, const struct json *old, struct json *root);

/* ---- delete.c ---- */
struct delete_options {
    int64_t grace_seconds; /* -1: the object's own */
    struct str uid;
    struct str resource_version;
    struct str propagation;
    bool dry_run;
};
int delete_parse(struct reply *reply,
                 const struct api_request *request,
                 struct delete_options *ret);
int delete_object(struct write *write, const struct delete_options *options);
void delete_collection(struct store *store, struct reply *reply, const struct api_request *request);
/* An object that waits only for its finalizers: true when it may go. */
bool delete_is_due(const struct json *root);

/* ---- bind.c ---- */
void store_bind(struct api *api,
                const struct api_binding *bindings,
                size_t count,
                api_done_fn *done,
                void *user);
int bind_pod(struct write *write, const struct api_request *request);
int evict_pod(struct write *write, const struct api_request *request);

/* ---- policy.c ---- */
struct policy_refusal {
    int status;
    const char *reason;
    struct str words;
};
/* False: a ValidatingAdmissionPolicy refuses. `operation`: CREATE, UPDATE, DELETE; `object` or `old`
 * is NULL where there is none. */
bool policy_run(struct write *write,
                const char *operation,
                const struct json *object,
                const struct json *old,
                struct policy_refusal *refusal);

/* ---- admission.c ---- */
/* What an object gets from others: a default class, a priority, an address. */
int admission_run(struct write *write, struct admit *admit);
/* Whether budgets let the pod go; counts it. */
int admission_evict(struct write *write);

/* ---- turn.c ---- */
void turn_run(struct store *store);
struct batch *batch_open(struct store *store);
int turn_start(struct store *store, struct err *err);
void turn_stop(struct store *store);

/* ---- history.c ---- */
void history_add(struct store *store, const struct history_item *item);
void history_done(struct history *history);
/* Index of the first item behind `revision`. */
size_t history_after(const struct history *history, uint64_t revision);
static inline const struct history_item *history_at(const struct history *history, size_t index)
{
    return &history->items[(history->first + index) % HISTORY_ITEMS_MAX];
}
void history_compact(struct store *store);

/* ---- watch.c ---- */
struct api_watch *store_watch(struct api *api,
                              const struct api_watch_request *request,
                              api_watch_fn *fn,
                              void *user);
void store_watch_stop(struct api *api, struct api_watch *watch);
void watches_tell(struct store *store);
void watches_free(struct store *store);

/* The object as `kind`, another version of its own; with a reference. */
const struct object *convert_object(const struct object *object, const struct kind *kind);

/* ---- collect.c: owners and dependents, namespaces ---- */
void collect_committed(struct store *store,
                       const struct change *change,
                       const struct object *previous);
/* Look at everything that is due; stages writes. True when something is left for the next turn. */
bool collect_run(struct store *store);
void collect_all(struct store *store);
void collect_done(struct store *store);
/* Ordinary writes made by the store itself; nobody waits for them. */
void collect_delete(struct store *store, const struct entry *entry, struct str propagation);
void collect_edit(struct store *store,
                  const struct entry *entry,
                  void (*edit)(struct json *root, const void *what),
                  const void *what);
void collect_edit_status(struct store *store,
                         const struct entry *entry,
                         void (*edit)(struct json *root, const void *what),
                         const void *what);

/* ---- custom.c: CustomResourceDefinitions become kinds ---- */
/* The object is committed: its kinds are served from now on. */
void custom_register(struct store *store, const struct object *crd);
void custom_unregister(struct store *store, const struct object *crd);
/* Create or bring up to date what deploy/crds had when this program was built. */
void custom_apply_builtin(struct store *store);
/* The instances of a CRD that is being deleted go first. */
void custom_empty(struct store *store, const struct entry *entry);
void custom_done(struct store *store);
