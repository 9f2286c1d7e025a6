#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>

struct json;
struct kind;
struct object;

/* remaining: what keeps a namespace that is being deleted, told as kube-controller-manager does: how
 * many objects of each kind are left, and which finalizers they wait for. */
#define REMAINING_READ_MAX \
    200 /* objects whose finalizers are counted, a parse each; others count */
#define REMAINING_BYTES_MAX \
    (1u << 20) /* and no further one after so many bytes of them: 200 of the largest are 300 MB */

struct remaining_finalizer {
    struct str name;
    size_t objects;
};

struct remaining {
    struct arena *arena;
    int64_t now_ms;
    size_t objects;
    size_t read;
    size_t read_bytes;
    VEC(struct str) kinds; /* "pods. has 2 resource instances" */
    VEC(struct remaining_finalizer) finalizers;
};

/* An object that is still there when its deletion has begun. */
void remaining_object(struct remaining *remaining, const struct object *object);
/* So many of a kind. */
void remaining_kind(struct remaining *remaining, const struct kind *kind, size_t count);
/* The conditions in the status of a namespace. */
void remaining_tell(struct remaining *remaining, struct json *status);
