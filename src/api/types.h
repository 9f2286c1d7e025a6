#pragma once

#include "base/str.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct admit;
struct arena;
struct json;
struct kind;
struct schema;

/* types: every message of every Kubernetes type that is served, as of Kubernetes 1.33;
 * of a Pod, as of 1.37, and so scheduling.k8s.io/v1beta1.
 *
 * The facts stand in src/api/types, one file a group, one line a field; tools/embed_types.c makes C
 * of them when the program is built, and refuses what it does not understand. Everything that must
 * know a type reads it here: protobuf, what is stored and refused, defaults, OpenAPI and so
 * `kubectl explain`, strategic merges, who owns which field, what informers keep.
 *
 *     # a remark
 *     version apps/v1
 *     message Deployment kind          the words behind the name: see struct type below
 *       spec   DeploymentSpec  2 keep  # wanted state
 *
 * A field has a name in JSON, a type, a number in protobuf, words, and behind a # what people are
 * told about it. A type is one of the words of enum type_form in lower case ("int-or-string"), a
 * message of the same version, or one of another ("v1.PodSpec"). The fields of a message stand in
 * the order of their numbers. */
enum type_form {
    TYPE_STRING,
    TYPE_BYTES, /* base64 in JSON */
    TYPE_INT32,
    TYPE_INT64,
    TYPE_BOOL,
    TYPE_DOUBLE,
    TYPE_TIME,          /* a message {1 seconds, 2 nanos}; a text in JSON */
    TYPE_MICROTIME,     /* the same, with microseconds */
    TYPE_QUANTITY,      /* {1 text} */
    TYPE_INT_OR_STRING, /* {1 which, 2 number, 3 text} */
    TYPE_JSON,          /* {1 JSON, or an object in its envelope} */
    TYPE_MESSAGE,
};

/* The words of a field. */
#define TYPE_LIST     1u   /* list */
#define TYPE_MAP      2u   /* map: from text */
#define TYPE_KEEP     4u   /* keep: what is there and empty, or zero, is shown in JSON */
#define TYPE_INLINE   8u   /* inline: JSON has the fields of the message in place of the message */
#define TYPE_KEPT     16u  /* kept: informers keep it (kept.h) */
#define TYPE_REQUIRED 32u  /* required: OpenAPI says so; whether it holds is up to admission */
#define TYPE_ATOMIC   64u  /* atomic: a map or message that has one owner as a whole */
#define TYPE_MERGE    128u /* merge-set, merge-key=: strategic merges go into the list */
#define TYPE_APPLY    256u /* apply-set, apply-key=: items have owners of their own */
#define TYPE_ALWAYS   512u /* always: a message that Kubernetes' own types have, said or not */
/* elsewhere: of a later Kubernetes; no node of ours acts on it, so a pod that says it is refused */
#define TYPE_ELSEWHERE 1024u
/* own: the default holds in an object itself, not in a template of one */
#define TYPE_OWN 2048u
/* granular: a message that is atomic elsewhere has owners of its fields here */
#define TYPE_GRANULAR 4096u
/* must: it is said, and neither empty nor 0; where the message is inline: of each field of it */
#define TYPE_MUST 8192u
/* either: of the fields of the message that have this word, one is there and no other; choice: the
 * same, and the message is what is wrong then */
#define TYPE_EITHER 16384u
#define TYPE_CHOICE 32768u
/* said: where it is there it is not empty */
#define TYPE_SAID 65536u
/* replaced: a strategic merge does not go into the message */
#define TYPE_REPLACED 131072u
/* set, key=a,b: both of them. A set has no keys; of the keys the first one counts in a merge. */
/* default=JSON: what is there where nothing is said, without blanks
 * when=field:A|B, unless=field:A|B: the default holds where the text of a field with a lower number
 * in the same message is, or is not, one of these
 * in=A|B: the texts that there are; min=N, max=N: numbers from and to; form=WORD: see type_rules.c;
 * with a ! the empty text is looked at too, and nothing where it is required.
 * Of a list or a map, they are about what is in it. */

struct type;

struct type_field {
    const char *name;
    const struct type *type; /* TYPE_MESSAGE */
    uint16_t number;
    uint8_t form; /* enum type_form */
    uint32_t flags;
    const char *keys;    /* "containerPort,protocol"; NULL: none */
    const char *initial; /* its default as JSON; NULL: none */
    const char *when;    /* "type:A|B", for unless "!type:A|B"; NULL: always */
    const char *about;   /* "": inline, where it is shown nowhere */
    const char *words;   /* "A|B"; NULL: any text */
    const char *shape;   /* the word behind form=; NULL: none */
    int64_t min;         /* INT64_MIN: no bound */
    int64_t max;
};

#define TYPE_FIELDS_MAX 64 /* of a message: a bit each in a word; the longest has some 45 */

struct type {
    const char *version; /* "v1", "apps/v1" */
    const char *name;
    const struct type_field *fields;
    uint16_t field_count;
    bool kind;     /* kind: it may stand alone, in an envelope */
    bool anywhere; /* kind-anywhere: under every apiVersion */
    bool bare;     /* bare: JSON has the value of the one field that is set, the last one if two */
    bool atomic;   /* atomic: as of a field, wherever it stands */
    const char *about;
};

extern const struct type types[];
extern const size_t type_count;

/* NULL: no such kind here. */
const struct type *type_of_kind(struct str api_version, struct str kind);
/* Any message; NULL: none of that name. */
const struct type *type_named(struct str version, struct str name);
/* NULL: no such field. By number in the message itself; by name as JSON has it, which looks into
 * what is inline. */
const struct type_field *type_field_numbered(const struct type *type, uint32_t number);
const struct type_field *type_field_named(const struct type *type, struct str name);

/* The n-th key of a list, from 0; empty behind the last. */
struct str type_field_key(const struct type_field *field, size_t n);

/* A place in a document: what is known about what stands there. Zeroes: nothing. */
struct type_place {
    const struct type *type;        /* of the message; of the items or values of a list or map */
    const struct type_field *field; /* that stands there; NULL: the root, an item, a value */
};
/* The whole object; of a custom kind only its metadata is known. */
struct type_place type_place_root(const struct kind *kind);
/* Of an item of a list, as of the list. */
struct type_place type_place_below(struct type_place place, struct str name);

/* What an object of the type has before anybody says anything: the messages that are always there,
 * null for lists and maps and nothing for texts and numbers that are required. */
struct json *type_empty(struct arena *arena, const struct type *type);

/* The type as a schema (schema.h), which prunes, fills in and checks as that of a custom kind does.
 * Of a kind, metadata is left out: it is the same for all and looked at alone. Types that hold
 * themselves do so in the schema too. */
const struct schema *type_schema(struct arena *arena, const struct type *type);

/* What the tables say of values (must, either, choice, in, min, max, form) is checked: causes are added
 * to `admit`. What is as it was in `old` was looked at before; NULL: nothing was. A member `status` is
 * not looked at, nor `metadata`. */
void type_check(struct admit *admit,
                const struct type *type,
                const struct json *object,
                const struct json *old);

/* Types as parts of other schemas, each made once. Zeroes but for the arena and what is said. */
struct type_made {
    const struct type *type;
    bool own; /* of the object itself: TYPE_OWN */
    struct schema *schema;
};
struct type_schemas {
    struct arena *arena;
    bool as_written; /* nothing is filled in */
    VEC(struct type_made) types;
};
/* A place of a custom kind that keeps what it does not know has the fields of the type besides its
 * own, and nothing else. */
void type_schema_complete(struct type_schemas *schemas,
                          const struct type *type,
                          struct schema *schema);
/* "v1.PodSpec"; NULL: no such type. */
const struct type *type_titled(struct str title);

/* What is wrong with a text of a form (form=), or NULL. */
const char *type_form_wrong(const char *form, struct str text);
