#pragma once

#include "api/api.h"
#include "base/vec.h"
#include "store/reply.h"

#include <stddef.h>
#include <stdint.h>

struct entry;
struct object;
struct store;

/* batch: writes that are committed together. */
struct change {
    enum api_event event; /* ADDED, MODIFIED, DELETED */
    struct entry *entry;
    const struct object *object;   /* DELETED: the last state with the deletion's revision */
    const struct object *previous; /* what it replaces, staged or committed; NULL: nothing */
    uint64_t revision;
};

struct batch {
    VEC(struct change) changes;
    struct replies replies;
    size_t bytes;
};

/* The batch that is being filled. */
struct batch *batch_open(struct store *store);
void batch_free(struct batch *batch); /* NULL is allowed */
