#pragma once

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct json;
struct kind;
struct object_trees;
struct selector_kept;

/* object: one version of one API object, immutable and shared by reference count.
 *
 * One block holds the text and the decoded metadata, whose strings point into the text. Whoever
 * keeps an object takes a reference; whoever looks at one during a call does not need to. The spec
 * is read from a tree parsed on demand (object_json), because trees cost several times the text and
 * most objects are looked at rarely. When they are, by many at once: when they have changed. For
 * that moment whoever tells of a change has a tree for all of them (object_trees).
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
    struct str raw;             /* compact JSON of the whole object, apiVersion and kind included */
    struct object_trees *trees; /* that its tree would be in; NULL: nobody has one for all */
    const struct json *tree;    /* there */
    struct selector_kept *selector; /* of object_selector() (api/selector.h); NULL: nobody asked */
};

/* Takes a copy of `raw`. -EINVAL when it is not an object with metadata.name. */
int object_new(const struct kind *kind, struct str raw, struct object **ret, struct err *err);
/* The same of text that json_text() wrote, which need not be checked: only its metadata is parsed. */
int object_written(const struct kind *kind, struct str raw, struct object **ret, struct err *err);
struct object *object_ref(const struct object *object);
void object_unref(const struct object *object);
void object_unrefp(struct object **object); /* for _cleanup_ */

/* A tree of its own for the caller to read or change; strings point into object->raw, so keep a
 * reference as long as the tree lives (arena_defer(arena, object_release, object_ref(o))). */
struct json *object_json(const struct object *object, struct arena *arena);
void object_release(void *object); /* object_unref() in the shape arena_defer() wants */

/* Trees of objects that many look at in one turn of the loop, each parsed when somebody first asks.
 * Above OBJECT_TREES_BYTES_MAX, some 300 pods, everybody parses for himself again. */
#define OBJECT_TREES_BYTES_MAX ((size_t)4 << 20)
struct object_trees {
    struct arena arena;
    VEC(const struct object *) objects; /* references */
};
/* NULL is fine, and so is one that is in some already. */
void object_trees_add(struct object_trees *trees, const struct object *object);
/* Nobody looks at them any more. */
void object_trees_clear(struct object_trees *trees);
void object_trees_done(struct object_trees *trees);
/* A tree to read, and only until the caller goes back to the loop: the one for all, or one on
 * `arena`. What is to stay is copied, strings included. */
const struct json *object_tree(const struct object *object, struct arena *arena);

/* STR_NONE when absent. */
struct str object_label(const struct object *object, const char *key);
struct str object_annotation(const struct object *object, const char *key);
/* Two versions of an object that differ in nothing but their status, in what follows from that
 * (resourceVersion, managedFields), and in the node of a pod: a bind is no new generation. False
 * where that is not known: the kind has no generations. */
bool object_same_but_status(const struct object *a, const struct object *b);
/* The owner with controller: true, or NULL. */
const struct object_owner *object_controller(const struct object *object);
