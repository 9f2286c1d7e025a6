#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct actions;
struct arena;
struct control_input;
struct control_keys;
struct cache;
struct json;
struct kind;
struct object;

/* workload: what the controllers share that keep pods of a template running (Deployment,
 * ReplicaSet, ...): whose objects are whose, and which pods count.
 *
 * An object belongs to the one that controls it. One that nobody controls and that the selector
 * chooses is taken over; one that the selector no longer chooses is let go. */
struct workload {
    const struct control_input *input;
    struct arena *arena;
    struct actions *actions;
    const struct object *owner;
    const struct json *tree;   /* of the owner */
    const struct json *spec;   /* of the owner */
    const struct json *before; /* status as it is */
    struct json *status;       /* as it should be */
};

struct workload_pod {
    const struct object *object;
    const struct json *tree;
    bool active;    /* has not ended and is not being deleted */
    bool ready;     /* of the active ones */
    bool available; /* ready for minReadySeconds */
    int64_t ready_ms;
    int64_t crowd; /* how many of its like are on its node; see workload_order() */
};
struct workload_pods VEC_FIELDS(struct workload_pod);

/* The object of a key, read. False: it is not there, or it is going: nothing is to be done. */
bool workload_open(struct workload *w,
                   const struct control_input *input,
                   const struct object *owner,
                   struct actions *actions);
/* A status that begins with observedGeneration and keeps the conditions and `keep` of the old one
 * (NULL-terminated; NULL: nothing). */
void workload_status(struct workload *w, const char *const *keep);
/* A number of the status; `always`: also when it is 0. */
void workload_count(struct workload *w, const char *name, int64_t number, bool always);
/* The patch of the status, when there is one, as the last action. */
void workload_write(struct workload *w);

/* The objects of `kind` that belong to the owner, in the order they appeared. Adopts and lets go.
 */
struct workload_objects VEC_FIELDS(const struct object *);
struct workload_objects workload_objects(struct workload *w, const struct kind *kind);
/* Its pods; looks again when the next one becomes available. */
struct workload_pods workload_pods(struct workload *w);

/* How many more pods may be made now: of one set only so many wait for a node, however many it asks for. As many as the
 * largest job has pods, which may all be one gang. */
#define WORKLOAD_WAITING_MAX 4096
int64_t workload_room(const struct workload_pods *pods);

/* Keys of a controller for `kind`, when `object` (which is not of that kind) changes: the owner of
 * that kind, or who would adopt it. */
void workload_keys(const struct cache *cache,
                   const struct kind *kind,
                   const struct object *object,
                   struct control_keys *ret);

/* The number of a pod of a StatefulSet, by its name: 3 of "web-3". Below 0: no pod of that set. */
int64_t workload_ordinal(struct str set, struct str name);

/* Pods there are too many of, those first that are missed least, as Kubernetes orders them. */
void workload_order(struct workload_pods *pods);

/* A name "<prefix>-<5 letters>" that no object of the kind has; *serial goes on. */
struct str workload_name(struct workload *w,
                         const struct kind *kind,
                         struct str prefix,
                         int64_t *serial);
/* Letters and digits from a text, the same for the same text. */
#define WORKLOAD_HASH_LETTERS 10
struct str workload_hash(struct arena *arena, struct str text);
/* A pod of the template, owned, without a name. */
struct json *workload_pod(struct workload *w, const struct json *template);
/* spec.field as a number of `total`, or what is given where it says nothing; per cent are rounded
 * `up` or down. */
int64_t workload_share(const struct json *value, int64_t otherwise, int64_t total, bool up);
