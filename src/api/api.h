#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct arena;
struct json;
struct kind;
struct kinds;
struct object;

/* api: the one way to read and change the cluster.
 *
 * Two backends: the embedded store (src/store), called in process, and HTTP to a Kubernetes API
 * server (src/kube). Controllers, scheduler, node agent and our own HTTP server hold a `struct api
 * *` and never know which they have.
 *
 * Everything is asynchronous: api_call() returns at once and `done` is called later, from the loop,
 * exactly once, never from inside api_call() itself. A write is done when it is durable. Strings in
 * the request need to live only until api_call() returns; the result and what it points to live
 * until `done` returns (take a reference on objects that are kept).
 *
 * Semantics are Kubernetes': creates fail with 409 AlreadyExists, updates and patches that carry a
 * resourceVersion fail with 409 Conflict, deletes honour finalizers, grace periods and
 * preconditions, a write through the main resource leaves status alone where the kind has a status
 * subresource, metadata.generation moves when the spec does. */
enum api_verb {
    API_GET,
    API_LIST,
    API_CREATE,
    API_UPDATE,
    API_PATCH,
    API_DELETE,
    API_DELETE_COLLECTION,
};

enum api_patch {
    API_PATCH_MERGE,
    API_PATCH_JSON,
    API_PATCH_STRATEGIC,
    API_PATCH_APPLY,
};

/* Has the last word on a create, update or patch: asked from inside api_call(), when the object is
 * as it would be stored. `old` is NULL where it would be a new one. Negative refuses it, with the
 * status of err (403 when it has none) and *ret_message, which lives as long as the request. The
 * embedded store asks; the API server of a cluster has rules of its own. */
struct api_guard {
    int (*ask)(void *user,
               const struct json *old,
               const struct json *object,
               struct str *ret_message,
               struct err *err);
    void *user;
};

/* Who asks. NULL in a request: a part of this program. */
struct api_user {
    struct str name;
    struct str uid;
    const struct str *groups;
    size_t group_count;
};

/* Others have a say in a write (src/hook). Both are called from inside api_call(); negative stops
 * the write with the status of err. The embedded store calls them. */
struct api_review {
    /* The object as its writer means it, with defaults: it may be changed. Positive: it was, and is
     * looked at anew. Not called for a delete. */
    int (*change)(void *user,
                  struct arena *arena,
                  const struct json *old,
                  struct json *object,
                  struct err *err);
    /* The object as it would be stored; NULL: it would be deleted. */
    int (*look)(void *user, const struct json *old, const struct json *object, struct err *err);
    void *user;
};

/* A write to a kind whose CRD converts with a webhook (src/hook/convert.h). The store gives such
 * objects as they are stored, in whatever version, and is told what they are in the request's. */
struct api_conversion {
    const struct json *old; /* the object that is there, in the request's version; NULL: not told */
    uint64_t revision;      /* of that object */
    bool moved;             /* set by the store: another one is there */
    /* From the request's version to the one that is stored, in place. Asked from inside api_call(),
     * when nothing is left to be checked; negative stops the write with the status of err. */
    int (*convert)(void *user, struct arena *arena, struct json *root, struct err *err);
    void *user;
};

struct api_request {
    enum api_verb verb;
    const struct kind *kind;
    struct str ns;          /* empty: cluster-scoped, or all namespaces for lists */
    struct str name;        /* empty for create, list, delete collection */
    struct str subresource; /* "", "status", "scale", "binding", "eviction" */
    struct str body;        /* JSON: an object, a patch, or DeleteOptions */
    enum api_patch patch;
    struct str label_selector;
    struct str field_selector;
    uint64_t limit; /* 0: all */
    struct str continue_token;
    uint64_t exact_revision; /* of a list: as it was then; 0: as it is */
    struct str field_manager;
    bool force;   /* server-side apply takes fields over */
    bool dry_run; /* everything but the write */
    /* Of a get: somebody is about to connect to it by the subresource (exec, attach, portforward).
     * The body is Kubernetes' PodExecOptions and the like, which admission is asked about; the
     * answer is the object itself. */
    bool connect;
    bool strict_fields; /* unknown or duplicate fields are errors, not dropped */
    int64_t timeout_ms; /* of a cluster's answer; 0: as usual */
    /* A write that is no leader's business: it is sent though this replica may not lead (kube_hold()). */
    bool of_any_replica;
    /* Preconditions of a delete or patch made by our own code, instead of a body that says so. */
    struct str uid;
    const struct api_guard *guard; /* NULL: nobody is asked */
    const struct api_user *user;
    const struct api_review *review;   /* NULL: nobody has */
    struct api_conversion *conversion; /* NULL: nothing is converted by others */
};

struct api_cause {
    struct str field;
    struct str reason; /* FieldValueInvalid, FieldValueRequired, ... */
    struct str message;
};

struct api_result {
    int code;                       /* 0 or a negative errno */
    const struct err *err;          /* words and HTTP status of a failure; NULL when code is 0 */
    struct str message;             /* the words in full, where err's are cut; or empty */
    struct str reason;              /* Kubernetes' word for it: NotFound, Conflict, Invalid, ... */
    const struct api_cause *causes; /* 422: one per field */
    size_t cause_count;
    bool created;                      /* a 201 rather than a 200 */
    bool gone;                         /* delete: nothing is waited for, it is no more */
    const struct object *object;       /* get, create, update, patch, delete */
    const struct object *const *items; /* list */
    size_t item_count;
    uint64_t revision; /* of the list */
    struct str continue_token;
    uint64_t remaining_count;
    struct str warnings; /* one a line: text for `Warning:` headers */
    /* A bind that failed: of each of its pods, whether it was bound meanwhile and is being deleted
     * for it, which takes as long as the pod does. NULL: none was. */
    const bool *undone;
};

typedef void api_done_fn(void *user, const struct api_result *result);

/* One pod of a gang to be bound. All bindings of one api_bind() call are one transaction embedded
 * (all or none, and no watcher sees a part); on a cluster they are completed or undone one by one.
 */
struct api_binding {
    struct str ns;
    struct str pod;
    struct str uid; /* the pod that was scheduled, not a later one of that name */
    struct str node;
    struct str annotations; /* JSON object merged into metadata.annotations, or empty */
};

enum api_event {
    API_ADDED,
    API_MODIFIED,
    API_DELETED,
    API_SYNCED,   /* everything that existed at the start has been told; object is NULL */
    API_BOOKMARK, /* nothing of yours happened up to `revision`; object is NULL */
    API_CLOSED,   /* the watch is over (410: ask again from the state); object is NULL */
};

struct api_change {
    enum api_event event;
    const struct object *object;   /* DELETED: its last state, with the revision of the deletion */
    const struct object *previous; /* MODIFIED: what it was before, where known */
    uint64_t revision;
    /* A watch that healed tells what changed meanwhile, in no order: something with a lower
     * revision may still come. */
    bool unordered;
    const struct err *err; /* CLOSED */
};

typedef void api_watch_fn(void *user, const struct api_change *change);

struct api_watch_request {
    const struct kind *kind;
    struct str ns;             /* empty: all */
    struct str label_selector; /* an object that starts or stops matching is ADDED or DELETED */
    struct str field_selector;
    /* 0: first ADDED for everything there is, then SYNCED, then changes, for ever: what an informer
     * wants; such a watch heals itself after connection loss and never sends CLOSED. N: changes
     * after N, or CLOSED with 410 when they are no longer known. */
    uint64_t from_revision;
    bool bookmarks;
};

struct api_watch;

struct api_ops {
    void (*call)(struct api *api, const struct api_request *request, api_done_fn *done, void *user);
    void (*bind)(struct api *api,
                 const struct api_binding *bindings,
                 size_t count,
                 api_done_fn *done,
                 void *user);
    struct api_watch *(*watch)(struct api *api,
                               const struct api_watch_request *request,
                               api_watch_fn *fn,
                               void *user);
    void (*watch_stop)(struct api *api, struct api_watch *watch);
    /* Asks how a kind is served that `kinds` does not have, and adds it there. NULL: `kinds` has all
     * there are. */
    void (*learn)(struct api *api,
                  struct str api_version,
                  struct str kind,
                  api_done_fn *done,
                  void *user);
};

/* A backend embeds this as its first member. */
struct api {
    const struct api_ops *ops;
    struct kinds *kinds; /* what can be asked for; grows with CRDs */
};

/* The `done` of a write that nothing waits for: what it leads to shows up in a watch. */
static inline void api_ignore(void *user, const struct api_result *result)
{
    (void)user;
    (void)result;
}

static inline void api_call(struct api *api,
                            const struct api_request *request,
                            api_done_fn *done,
                            void *user)
{
    api->ops->call(api, request, done, user);
}

static inline void api_bind(struct api *api,
                            const struct api_binding *bindings,
                            size_t count,
                            api_done_fn *done,
                            void *user)
{
    api->ops->bind(api, bindings, count, done, user);
}

/* Events arrive from the loop, never from inside api_watch(), in the order of their revisions. */
static inline struct api_watch *api_watch(struct api *api,
                                          const struct api_watch_request *request,
                                          api_watch_fn *fn,
                                          void *user)
{
    return api->ops->watch(api, request, fn, user);
}

/* Of a kind that somebody else defines, by its name: it is in api->kinds when `done` is told of
 * success. False: there is nobody to ask, and `done` is not called. */
static inline bool api_learn(struct api *api,
                             struct str api_version,
                             struct str kind,
                             api_done_fn *done,
                             void *user)
{
    if (api->ops->learn)
        api->ops->learn(api, api_version, kind, done, user);
    return api->ops->learn != NULL;
}

/* No event arrives after this. NULL is fine. */
static inline void api_watch_stop(struct api *api, struct api_watch *watch)
{
    if (watch)
        api->ops->watch_stop(api, watch);
}
