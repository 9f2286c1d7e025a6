#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

/* The wire: fields of a message, one after the other. */
enum protobuf_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

struct protobuf_value {
    uint32_t number;
    enum protobuf_wire wire;
    uint64_t varint;
    struct str bytes;
};

/* The next field of a message. False at its end, or with *bad when it is broken. */
bool protobuf_next(struct str *in, struct protobuf_value *ret, bool *bad);

/* The field numbers of Kubernetes' messages, as far as clients send them to us. One table a
 * message; a kind is a message with ObjectMeta as field 1. */
enum protobuf_type {
    PB_STRING,
    PB_BYTES, /* base64 in JSON */
    PB_INT,
    PB_BOOL,
    PB_TIME,
    PB_MICROTIME,
    PB_INT_OR_STRING,
    PB_QUANTITY,
    PB_MESSAGE,
};

#define PB_LIST 1u
#define PB_MAP  2u /* from string */
#define PB_KEEP 4u /* optional in Kubernetes' type: empty and zero are values */

struct protobuf_field {
    uint32_t number; /* 0 ends a table */
    const char *name;
    enum protobuf_type type;
    unsigned flags;
    const struct protobuf_field *fields; /* PB_MESSAGE */
};

/* NULL: not a kind we have a table for. */
const struct protobuf_field *protobuf_fields_of(struct str api_version, struct str kind);

/* Tables that others build on. */
extern const struct protobuf_field protobuf_meta[];      /* ObjectMeta, without managedFields */
extern const struct protobuf_field protobuf_selector[];  /* LabelSelector */
extern const struct protobuf_field protobuf_resources[]; /* ResourceRequirements */
extern const struct protobuf_field protobuf_port[];      /* ContainerPort */
