#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct kind;

/* object: one version of one API object, immutable and shared by reference count.
 *
 * One block holds the text and the decoded metadata, whose strings point into the text. Whoever
 * keeps an object takes a reference; whoever looks at one during a call does not need to. The spec
 * is read from a tree parsed on demand (object_json), because trees cost several times the text and
 * most objects are looked at rarely.
 *
 * Reference counts are not atomic: objects belong to the loop's thread. */
struct object_label {
    struct str key;
    struct str value;
};

struct object_owner {
    struct str api_version;
    struct str kind;
    struct str name;
    struct str uid;
    bool controller;
};

struct object {
    uint32_t refs;
    const struct kind *kind;
    struct str ns; /* empty for cluster-scoped kinds */
    struct str name;
    struct str uid;
    struct str group;  /* of a pod: its pod group, told or named (group_of_pod()); empty: none */
    uint64_t revision; /* metadata.resourceVersion */
    int64_t generation;
    int64_t created_ms;
    int64_t deleted_ms; /* metadata.deletionTimestamp; 0: not being deleted */
    const struct object_label *labels;
    size_t label_count;
    const struct object_label *annotations;
    size_t annotation_count;
    const struct object_owner *owners;
    size_t owner_count;
    struct str raw; /* compact JSON of the whole object, apiVersion and kind included */
};

/* Takes a copy of `raw`. -EINVAL when it is not an object with metadata.name. */
int object_new(const struct kind *kind, struct str raw, struct object **ret, struct err *err);
struct object *object_ref(const struct object *object);
void object_unref(const struct object *object);
void object_unrefp(struct object **object); /* for _cleanup_ */

/* A tree of its own for the caller to read or change; strings point into object->raw, so keep a
 * reference as long as the tree lives (arena_defer(arena, object_release, object_ref(o))). */
struct json *object_json(const struct object *object, struct arena *arena);
void object_release(void *object); /* object_unref() in the shape arena_defer() wants */

/* STR_NONE when absent. */
struct str object_label(const struct object *object, const char *key);
struct str object_annotation(const struct object *object, const char *key);
/* The owner with controller: true, or NULL. */
const struct object_owner *object_controller(const struct object *object);
