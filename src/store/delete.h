#pragma once

#include "api/api.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct reply;
struct store;
struct write;

/* delete: at once, after a grace period, or when the last finalizer is gone. */
struct delete_options {
    int64_t grace_seconds; /* -1: the object's own */
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
