#pragma once

#include "base/str.h"

struct arena;
struct err;
struct json;

/* protobuf: request bodies of typed clients (application/vnd.kubernetes.protobuf) as JSON.
 *
 * New kubectls send these for `create configmap`, `auth can-i` and their like and have no fallback.
 * The envelope is "k8s\0" and a message {1 typeMeta{1 apiVersion, 2 kind}, 2 raw}; `raw` is decoded
 * by the table of its kind. Fields that our table does not know are skipped, as protobuf wants;
 * values that only say "empty" are left out, as their JSON form would. Pure. */

/* -EINVAL: not what it claims to be; -EPROTONOSUPPORT: a kind without a table (415). */
int protobuf_to_json(struct arena *arena, struct str body, struct json **ret, struct err *err);
