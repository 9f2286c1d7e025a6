#pragma once

#include "api/api.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct reply;
struct store;
struct write;

/* delete: at once, after a grace period, or when the last finalizer is gone. */
#define DELETE_GRACE_OWN INT64_MIN
struct delete_options {
    int64_t grace_seconds; /* DELETE_GRACE_OWN: the object's own; below 0: the least there is */
    struct str uid;
    struct str resource_version;
    struct str propagation;
    bool dry_run;
    bool evicted; /* a pod: its status says so */
};
int delete_parse(struct reply *reply,
                 const struct api_request *request,
                 struct delete_options *ret);
int delete_object(struct write *write, const struct delete_options *options);
void delete_collection(struct store *store, struct reply *reply, const struct api_request *request);
