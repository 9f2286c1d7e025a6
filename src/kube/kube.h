#pragma once

#include "kube/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct err;
struct kind;
struct kube_config;
struct log;
struct object;
struct refusals;
struct uv_loop_s;

/* kube: the backend of struct api for a real Kubernetes API server (src/api/api.h says what it
 * promises).
 *
 * A failure comes back as it is: 409, 410, 422 and 429 are answers the caller decides about, and a
 * write that got no answer (-ETIMEDOUT, -ECONNRESET) may or may not have happened. Two things are
 * finished here because nobody above can:
 *
 * Watches from revision 0 are informers. They list in pages (or take the initial state from the
 * watch where the server offers that), follow with bookmarks, resume after any loss of connection
 * with back-off and jitter, and after a 410 list again and report the difference: DELETED for what
 * vanished, ADDED or MODIFIED for what is new, nothing for what is the same. So nobody above sees a
 * gap. metadata.managedFields is left out of their events. A kind that the server does not have
 * is empty, until it appears.
 *
 * The binds of one api_bind() are sent side by side and repeated until each has happened or cannot.
 * When one cannot, the pods bound before are deleted (a pod cannot be unbound) and the call fails:
 * a gang is completed or undone within KUBE_BIND_MS. */
#define KUBE_PAGE           500   /* objects of one list request */
#define KUBE_BIND_MS        10000 /* a gang that is not whole by then is undone */
#define KUBE_BACKOFF_MIN_MS 200
#define KUBE_BACKOFF_MAX_MS 30000
/* A server that says 429 says when it may be asked again, and the limiter keeps to that. One that says 410
 * has forgotten what we know, as after a restart: it is well, and asked for everything. */
#define KUBE_BUSY_MAX_MS 2000
#define KUBE_RELIST_MS   5000 /* a kind the server does not have is asked for again */

#define KUBE_PER_SECOND 1000
#define KUBE_BURST      2000
#define KUBE_UNDER_WAY  64
/* Kinds of others that are found by name: each may become a watch, which costs the server and us. */
#define KUBE_LEARNED_MAX 64

struct kube;

struct kube_options {
    const struct kube_config *config; /* needed only during the call */
    const char *user_agent;           /* NULL: muster/VERSION */
    int64_t per_second;               /* 0: KUBE_PER_SECOND */
    int64_t burst;                    /* 0: KUBE_BURST */
    bool whole;            /* tell pods and nodes whole, and not only what api/kept.h keeps */
    const struct log *log; /* may be NULL */
};

struct kube_stats {
    struct client_stats client;
    size_t watches;
    size_t watches_synced; /* have told everything that existed, and are following */
    uint64_t listed;       /* times that a watch took what there is from lists */
    uint64_t streamed;     /* ... and from the watch itself */
    uint64_t relists;      /* after the first list of each watch */
    uint64_t watch_failures;
    uint64_t binds;
    uint64_t binds_undone;
    uint64_t unguarded; /* updates, patches, deletes and evictions without uid or revision */
};

int kube_open(struct uv_loop_s *loop,
              const struct kube_options *options,
              struct kube **ret,
              struct err *err);
struct api *kube_api(struct kube *kube);
void kube_stats(const struct kube *kube, struct kube_stats *ret);
/* Something that changes objects has no answer yet, or waits to be sent; leases and events do
 * not count. */
bool kube_is_writing(const struct kube *kube);
/* Held: what changes objects, leases, events and what is of any replica aside, waits; what was sent and
 * has no answer is given up, as if the connection had broken. Not held any more: it is sent. */
void kube_hold(struct kube *kube, bool held);
/* Another leads: such writes are told -ECANCELED and forgotten, binds among them. Nothing is held any
 * more; whoever made them must have been stopped. */
void kube_give_up(struct kube *kube);
/* What the API server refuses for want of a right, and has not allowed since (kube/refusals.h). */
const struct refusals *kube_refusals(const struct kube *kube);
/* Walk the objects of a kind that a watch of all namespaces, without selectors, has told so far;
 * start with *cursor = 0, NULL ends. The loop must not turn meanwhile. */
const struct object *kube_known(const struct kube *kube, const struct kind *kind, size_t *cursor);
/* Ends every watch without telling, and every call and bind under way with -ECANCELED, told from
 * here: it may have taken effect all the same. The loop must turn once more before it is freed. */
void kube_close(struct kube *kube);
