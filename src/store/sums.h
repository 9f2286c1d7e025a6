#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stddef.h>
#include <stdint.h>

struct json;
struct object;
struct shelf;
struct store;

/* sums: what is taken of each ResourceQuota, of the staged state. Added up when it is asked for the
 * first time and kept current by every write that is staged, so that a write into a full namespace
 * costs as much as one into an empty one. */
#define SUMS_MAX \
    512 /* quotas with a few resources each; beyond, all are forgotten and added up anew */

struct sum {
    const struct shelf *shelf;
    struct str ns; /* the strings in one block, which this one begins */
    struct str quota;
    struct str resource;
    __int128 nano;
};

struct sums {
    VEC(struct sum) items;
    uint64_t added_up; /* how often a namespace was gone through */
};

/* What all objects of the shelf in the quota's namespace take of it. */
__int128 sums_taken(struct store *store,
                    const struct shelf *shelf,
                    const struct object *quota,
                    const struct json *spec,
                    struct str resource);
/* What one object takes; NULL: none. */
__int128 sums_of(const struct shelf *shelf,
                 const struct json *spec,
                 struct str resource,
                 const struct object *object);
/* `now` stands in the place of `before`; either may be NULL. */
void sums_follow(struct store *store,
                 const struct shelf *shelf,
                 const struct object *before,
                 const struct object *now);
/* What was staged did not happen. */
void sums_forget(struct store *store);
