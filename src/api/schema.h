#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct arena;
struct err;
struct json;
struct regex;

/* schema: the structural schemas of CustomResourceDefinitions (OpenAPI v3 as Kubernetes restricts
 * it), compiled from their JSON to a tree on an arena.
 *
 * In the order in which they are applied to an object: prune takes away what the schema does not
 * name, default fills in, validate says what is wrong. At the root, and where
 * x-kubernetes-embedded-resource is set, apiVersion, kind and metadata are always known.
 *
 * A title that names a type of api/types.h ("v1.PodTemplateSpec") says what stands there: where the
 * schema keeps what it does not know (x-kubernetes-preserve-unknown-fields), at that place or below,
 * the fields of the type are known and others are not. So a CRD has a line for a pod template and
 * not its 4,000, and every API server takes it; defaults of the type are not filled in.
 *
 * Another title, SCHEMA_TITLE_IDLE, says that nothing here acts on the field, or, where a place keeps
 * what it does not know besides its own, on that: who writes it is warned.
 *
 * And SCHEMA_TITLE_KIND: an object of any kind, which must say which; those of Kubernetes are known.
 * SCHEMA_TITLE_QUANTITY: a quantity, which is said in words where others have the pattern of one.
 *
 * Rules in CEL (x-kubernetes-validations) are kept here and evaluated by cel/rules.h. */
enum schema_type {
    SCHEMA_ANY, /* int-or-string, or nothing said where that is allowed */
    SCHEMA_OBJECT,
    SCHEMA_ARRAY,
    SCHEMA_STRING,
    SCHEMA_INTEGER,
    SCHEMA_NUMBER,
    SCHEMA_BOOLEAN,
};

enum schema_list {
    SCHEMA_LIST_ATOMIC,
    SCHEMA_LIST_SET,
    SCHEMA_LIST_MAP,
};

struct schema;

struct schema_property {
    struct str name;
    const struct schema *schema;
    bool weak; /* of a built-in type: empty, or zero, is as if nothing were said */
};

/* Value validations without structure: what allOf, anyOf, oneOf and not hold. */
struct schema_group {
    const struct schema *const *items;
    size_t count;
};

struct schema {
    enum schema_type type;
    bool nullable;
    bool preserve_unknown;
    bool int_or_string;
    bool quantity; /* of a built-in type, or SCHEMA_TITLE_QUANTITY */
    bool amount;   /* and stored in one form */
    bool idle;     /* SCHEMA_TITLE_IDLE */
    bool any_kind; /* SCHEMA_TITLE_KIND */
    bool embedded;
    bool rules_inside; /* it has rules, or something below it has */
    bool unique_items;
    bool exclusive_min;
    bool exclusive_max;
    bool atomic_map;
    const struct schema_property *properties;
    size_t property_count;
    const struct schema *additional; /* additionalProperties: {...}; NULL: none */
    const struct schema *items;
    const struct json *initial;  /* default */
    const char *initial_when;    /* of a built-in type: type_field's when; NULL: always */
    const struct json *allowed;  /* enum */
    const struct json *required; /* list of names, or NULL */
    const struct json *minimum;
    const struct json *maximum;
    const struct json *multiple_of;
    const struct regex *pattern;
    struct str pattern_text;
    struct str format;
    int64_t min_length; /* -1: not said; also of items and properties */
    int64_t max_length;
    enum schema_list list;
    const struct json *list_keys; /* of SCHEMA_LIST_MAP */
    const struct json *rules;     /* x-kubernetes-validations, or NULL */
    size_t rules_at;              /* which one it is of those that have rules, from 1 on */
    struct schema_group all_of;
    struct schema_group any_of;
    struct schema_group one_of;
    const struct schema * not ;
};

#define SCHEMA_DEPTH_MAX      60
#define SCHEMA_TITLE_IDLE     "no effect"
#define SCHEMA_TITLE_KIND     "any kind"
#define SCHEMA_TITLE_QUANTITY "quantity"

/* The tree borrows from `source`, which must live as long. -EINVAL with the path of what is wrong;
 * patterns are compiled too. */
int schema_compile(struct arena *arena,
                   const struct json *source,
                   const struct schema **ret,
                   struct err *err);
/* Only what its titles say, anything is right elsewhere: for who asks behind an API server, which
 * has a schema, of whatever version, of its own. */
int schema_compile_types(struct arena *arena,
                         const struct json *source,
                         const struct schema **ret,
                         struct err *err);

/* The paths of what was taken away: "spec.foo". Further ones are taken away without being told. */
#define SCHEMA_UNKNOWN_MAX 50
struct schema_unknown VEC_FIELDS(struct str);

void schema_prune(struct arena *arena,
                  const struct schema *schema,
                  struct json *object,
                  struct schema_unknown *unknown);
/* Defaults of lists and of what is in them multiply. An object has at most 1.5 MiB; a value of it
 * has two bytes at least and takes 32 here: 24 MiB. -E2BIG: more than that. */
#define SCHEMA_DEFAULT_BYTES_MAX ((size_t)32 << 20)
int schema_default(struct arena *arena,
                   const struct schema *schema,
                   struct json *object,
                   struct err *err);
/* The same of a built-in type, whose objects are stored as a struct of Go would write them: without
 * what is empty and means nothing, and with quantities in one form. What is as it was in `old` (NULL:
 * nothing was) keeps the form in which it is stored, so that an older store leads to no new pods. */
int schema_settle(struct arena *arena,
                  const struct schema *schema,
                  struct json *object,
                  const struct json *old,
                  struct err *err);
/* Of that, quantities only. */
void schema_amounts(struct arena *arena,
                    const struct schema *schema,
                    struct json *object,
                    const struct json *old);
/* Causes are added to `admit`. */
void schema_validate(struct admit *admit, const struct schema *schema, const struct json *object);

/* Where a walk is, written out only when there is something to say about it. NULL is the root. */
struct schema_path {
    const struct schema_path *up;
    struct str name; /* STR_NONE: an item of a list, at index */
    size_t index;
    bool key; /* of a map: written [name] */
};
/* Its end is cut off where it is longer than SCHEMA_PATH_BYTES_MAX. */
#define SCHEMA_PATH_BYTES_MAX 512
struct str schema_path_text(struct arena *arena, const struct schema_path *path);

/* The schema for this value: another one where it is an object of any kind. */
const struct schema *schema_of_value(struct arena *arena,
                                     const struct schema *schema,
                                     const struct json *value);
/* The schema of a member, an item or a value below: NULL when the schema does not say. */
const struct schema *schema_property(const struct schema *schema, struct str name);
