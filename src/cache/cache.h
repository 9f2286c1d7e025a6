#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kind;
struct object;

/* cache: the objects that a watch has reported, indexed for the questions controllers ask.
 *
 * Fed by cache_apply() with what arrives from api_watch(); holds a reference on each object.
 * Iteration is in the order objects first appeared, so the same events give the same order. Pure:
 * no I/O. */
struct cache;

struct cache *cache_new(uint64_t seed);
void cache_free(struct cache *cache);

/* An object appeared or changed; keyed by kind, namespace and name. An older revision than the one
 * held is ignored. */
void cache_put(struct cache *cache, const struct object *object);
/* It is gone. Unknown objects are ignored. */
void cache_drop(struct cache *cache, const struct object *object);

/* NULL when unknown. Borrowed: valid until the next put or drop. */
const struct object *cache_get(const struct cache *cache,
                               const struct kind *kind,
                               struct str ns,
                               struct str name);
size_t cache_count(const struct cache *cache, const struct kind *kind);

/* Walk every object of a kind (in one namespace, unless ns is empty); or those that name `uid` as
 * an owner. Start with *cursor = 0; NULL ends the walk. The cache must not change meanwhile. */
const struct object *cache_next(const struct cache *cache,
                                const struct kind *kind,
                                struct str ns,
                                size_t *cursor);
const struct object *cache_next_owned(const struct cache *cache,
                                      const struct kind *kind,
                                      struct str uid,
                                      size_t *cursor);
/* Those whose pod group (object->group) is `group`, in whatever namespace. */
const struct object *cache_next_grouped(const struct cache *cache,
                                        const struct kind *kind,
                                        struct str group,
                                        size_t *cursor);
size_t cache_count_grouped(const struct cache *cache, const struct kind *kind, struct str group);
