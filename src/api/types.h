#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* types: every message of every Kubernetes type that is served, as of Kubernetes 1.33.
 *
 * The facts stand in src/api/types, one file a group, one line a field; tools/embed_types.c makes C
 * of them when the program is built, and refuses what it does not understand.
 *
 *     # a remark
 *     version apps/v1
 *     message Deployment kind          the words behind the name: see enum and struct type below
 *       spec   DeploymentSpec  2 keep  name in JSON, type, number in protobuf, words
 *
 * A type is one of the words of enum type_form in lower case ("int-or-string"), a message of the
 * same version, or one of another ("v1.PodSpec"). The fields of a message stand in the order of
 * their numbers. */
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
#define TYPE_LIST   1u  /* list */
#define TYPE_MAP    2u  /* map: from text */
#define TYPE_KEEP   4u  /* keep: what is there and empty, or zero, is shown in JSON */
#define TYPE_INLINE 8u  /* inline: JSON has the fields of the message in place of the message */
#define TYPE_KEPT   16u /* kept: informers keep it (kept.h) */

struct type;

struct type_field {
    const char *name;
    const struct type *type; /* TYPE_MESSAGE */
    uint16_t number;
    uint8_t form; /* enum type_form */
    uint8_t flags;
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
};

extern const struct type types[];
extern const size_t type_count;

/* NULL: no such kind here. */
const struct type *type_of_kind(struct str api_version, struct str kind);
/* NULL: no such field. By number in the message itself; by name as JSON has it, which looks into
 * what is inline. */
const struct type_field *type_field_numbered(const struct type *type, uint32_t number);
const struct type_field *type_field_named(const struct type *type, struct str name);
