#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stdint.h>

struct arena;
struct json;
struct kind;
struct schema;

/* apply: server-side apply. Managers say which fields they want and own those they said; a field
 * that another manager owns is changed only by force; a field that a manager no longer says, and
 * nobody else owns, goes.
 *
 * Who owns what is written in metadata.managedFields, in Kubernetes' format (FieldsV1: f:name for a
 * member, k:{keys} for an item of a keyed list, v:value for an item of a set), from the first write on.
 * Objects whose maker did not say who he is carry none: the first apply gives everything that is
 * there to "before-first-apply". */
struct apply_conflict {
    struct str manager;
    struct str field; /* .spec.containers[name="a"].image */
};

struct apply {
    struct arena *arena;
    const struct kind *kind;
    const struct schema *schema; /* of a custom kind; NULL: built in */
    struct str manager;
    struct str subresource;
    bool force;
    int64_t now_ms;
    VEC(struct apply_conflict) conflicts; /* of apply_merge() */
    bool too_large;                       /* it was given up: APPLY_BYTES_MAX, or below */
};

#define APPLY_CONFLICTS_MAX 50
/* What one call below may take from the arena. An object of 1.5 MiB that consists of its smallest
 * members (10 bytes) has 150,000 of them, a member of a set takes 80 bytes, and some ten sets are
 * made: 120 MB. Nor may a list have more items than a set can have members (JSON_MEMBERS_MAX). */
#define APPLY_BYTES_MAX ((size_t)128 << 20)

/* managedFields of an object that is made of `config` by apply; NULL when it is too large. */
struct json *apply_first(struct apply *apply, const struct json *config);

/* managedFields of an object that somebody created by other means; NULL when it is too large. */
struct json *apply_created(struct apply *apply, const struct json *object);

/* `live` with `config` applied to it, managedFields included; NULL when there are conflicts or
 * it is too large. `live` is changed in place. */
struct json *apply_merge(struct apply *apply, struct json *live, const struct json *config);

/* Somebody wrote by other means: managedFields of `after`, given those of `before`; NULL when the
 * object has none and needs none, or when it is too large. */
struct json *apply_track(struct apply *apply, const struct json *before, const struct json *after);
