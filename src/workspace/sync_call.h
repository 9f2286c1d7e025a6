#pragma once

#include "base/str.h"

#include <stdbool.h>

struct httpd_request;

/* sync_call: which request of the sync service (workspace/sync.h) it is, by method and path. */
#define CALL_KEYS_PATH "/v2/keys"

enum call {
    CALL_NONE, /* answered already */
    CALL_STATE,
    CALL_MISSING,
    CALL_BLOBS,
    CALL_COMMIT,
    CALL_PULL,
    CALL_WAIT,
    CALL_KEYS,      /* etcd's keys: the body is a form */
    CALL_KEYS_DOOR, /* whether it may is not known yet */
    CALL_KEYS_WAIT, /* answered when a key changes */
    CALL_REFUSED,   /* err says why, when all of it has come */
    CALL_LOG,       /* the body is text */
    CALL_RESULTS,   /* the body is kept as it is */
    CALL_ACK,       /* the body is names, a line each */
    CALL_OTHER,
};

enum call call_of(const struct httpd_request *request);
/* What is served only to whoever knows the job's secret. */
bool call_needs_secret(enum call call, struct str path);
