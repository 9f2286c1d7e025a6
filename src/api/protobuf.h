#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct buf;
struct err;
struct json;
struct type;

/* protobuf: Kubernetes' binary form (application/vnd.kubernetes.protobuf), from and to JSON.
 *
 * Typed Go clients send every body in it and have no fallback, API servers give pods and nodes in
 * it for a fraction of JSON's cost. An object stands in an envelope, "k8s\0" and a message {1
 * typeMeta{1 apiVersion, 2 kind}, 2 raw}; `raw` is a message of the kind's type (types.h). JSON is
 * what Go's would be: what is absent or, without the word `keep`, zero, is left out. A field whose
 * number the type does not have is reported, never dropped silently; one that comes in another form
 * than its type's is an error. Strings of what is read point into the bytes. Pure. */
#define PROTOBUF_DEPTH_MAX 128 /* messages within messages; a CRD's schema takes three a level */
/* Of one body; each becomes at most a node of 32 bytes and its share of a text. The largest body
 * that the server takes, as a Pod's list of tolerations, has a fifth of it. */
#define PROTOBUF_VALUES_MAX  ((size_t)1 << 20)
#define PROTOBUF_UNKNOWN_MAX 16 /* further ones are not told */

/* Fields that the types do not have: `unknown field number 77 of "spec.containers[0]"`. */
struct protobuf_unknown {
    struct str items[PROTOBUF_UNKNOWN_MAX];
    size_t count;
};

/* `unknown` may be NULL: nobody wants to know. -EINVAL: not what it claims to be; -EPROTONOSUPPORT:
 * a kind without a type (415). */
int protobuf_to_json(struct arena *arena,
                     struct str body,
                     struct protobuf_unknown *unknown,
                     struct json **ret,
                     struct err *err);
/* The envelope of an object, which has apiVersion and kind, behind what `out` has. What protobuf
 * cannot say is an error, and `out` is as before: -EPROTONOSUPPORT for a kind without a type or a
 * field that its type does not have, -EINVAL for a value of another form. With `lossy`, fields that
 * the type does not have are left out: whoever asks for protobuf has no place for them either. */
int protobuf_from_json(const struct json *object, bool lossy, struct buf *out, struct err *err);

/* Whether bytes begin with the envelope's mark; JSON never does. */
bool protobuf_is(struct str bytes);
/* What an envelope holds. -EINVAL. */
struct protobuf_envelope {
    struct str api_version;
    struct str kind;
    struct str raw;
};
int protobuf_open(struct str bytes, struct protobuf_envelope *ret, struct err *err);
/* A message of a type; with `kept_only`, of its fields only those that informers keep (kept.h).
 * -EINVAL. */
int protobuf_decode(struct arena *arena,
                    const struct type *type,
                    bool kept_only,
                    struct str message,
                    struct json **ret,
                    struct err *err);

/* ---- the wire ---- fields of a message, one after the other */
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
    struct str bytes; /* also of WIRE_FIXED64 and WIRE_FIXED32 */
};

bool protobuf_varint(struct str *in, uint64_t *ret);
/* A number as JSON has it; exact for what protobuf_to_json() writes and for fifteen digits up to
 * 10^22, else the last bit may differ. */
double protobuf_double(struct str text);
/* The next field of a message. False at its end, or with *bad when it is broken. */
bool protobuf_next(struct str *in, struct protobuf_value *ret, bool *bad);

/* ---- lists ---- {1 metadata{2 resourceVersion, 3 continue}, 2 items...}, in an envelope */
struct protobuf_list {
    uint64_t revision;
    struct str continue_token;
    struct str rest; /* for protobuf_list_next() */
};
int protobuf_list_open(struct str bytes, struct protobuf_list *ret, struct err *err);
/* The next item, a message of the list's kind; false at the end. */
bool protobuf_list_next(struct protobuf_list *list, struct str *ret_item);
/* The other way: begun, items one after the other, ended. An item that cannot be said is an error
 * as above, and not there. */
struct protobuf_list_writer {
    struct buf *out;
    size_t raw; /* where the message begins */
};
struct protobuf_list_writer protobuf_list_begin(struct buf *out,
                                                struct str api_version,
                                                struct str kind,
                                                const struct json *metadata);
int protobuf_list_add(struct protobuf_list_writer *list,
                      const struct json *object,
                      bool lossy,
                      struct err *err);
void protobuf_list_end(struct protobuf_list_writer *list);

/* ---- watches ---- each event is four bytes of length, the first one the highest, and a message
 * {1 type, 2 object{1 raw}}, where `raw` is an envelope */
#define PROTOBUF_FRAME_HEAD 4
struct protobuf_event {
    struct str type; /* ADDED, ... */
    struct protobuf_envelope object;
};
/* The length that a head of PROTOBUF_FRAME_HEAD bytes announces. */
size_t protobuf_frame_size(const char head[static PROTOBUF_FRAME_HEAD]);
int protobuf_event_read(struct str message, struct protobuf_event *ret, struct err *err);
/* The whole frame of an event, behind what `out` has; fields without a number are left out. */
int protobuf_event_write(struct buf *out,
                         const char *type,
                         const struct json *object,
                         struct err *err);
