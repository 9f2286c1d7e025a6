#pragma once

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct err;
struct json;
struct protobuf_field;

/* protobuf: Kubernetes' binary form (application/vnd.kubernetes.protobuf) as JSON.
 *
 * New kubectls send request bodies in it for `create configmap`, `auth can-i` and their like and
 * have no fallback; API servers give pods and nodes in it for a fraction of JSON's cost. An object
 * stands in an envelope, "k8s\0" and a message {1 typeMeta{1 apiVersion, 2 kind}, 2 raw}; `raw` is
 * decoded by the table of its kind. Fields that a table does not know are skipped, as protobuf
 * wants; values that only say "empty" are left out, as their JSON form would. Strings of what is
 * decoded point into the bytes. Pure. */

/* -EINVAL: not what it claims to be; -EPROTONOSUPPORT: a kind without a table (415). */
int protobuf_to_json(struct arena *arena, struct str body, struct json **ret, struct err *err);

/* Whether bytes begin with the envelope's mark; JSON never does. */
bool protobuf_is(struct str bytes);
/* What an envelope holds. -EINVAL. */
struct protobuf_envelope {
    struct str api_version;
    struct str kind;
    struct str raw;
};
int protobuf_open(struct str bytes, struct protobuf_envelope *ret, struct err *err);
/* A message by its table. -EINVAL. */
int protobuf_decode(struct arena *arena,
                    const struct protobuf_field *fields,
                    struct str message,
                    struct json **ret,
                    struct err *err);

/* ---- lists ---- {1 metadata{2 resourceVersion, 3 continue}, 2 items...}, in an envelope */
struct protobuf_list {
    uint64_t revision;
    struct str continue_token;
    struct str rest; /* for protobuf_list_next() */
};
int protobuf_list_open(struct str bytes, struct protobuf_list *ret, struct err *err);
/* The next item, a message of the list's kind; false at the end. */
bool protobuf_list_next(struct protobuf_list *list, struct str *ret_item);

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
